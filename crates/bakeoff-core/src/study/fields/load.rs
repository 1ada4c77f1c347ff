//! Declares the fields of a load: clients, rate, times, targets and ends.
//!
//! Not here: workloads and systems (`fields`).

use super::{CLIENTS, COUNT};
use crate::study::Targets;
use crate::study::field::{Form, Table, always, default, maybe};

pub(in crate::study) static LOAD: Table = Table {
    name: "load",
    meaning: "How hard the clients work. A load with a `rate` is open, others are closed.",
    one_of: &[],
    fields: &[
        always(
            "clients",
            Form::OneOrMany(&CLIENTS),
            "16",
            "Number of clients. A list is a sweep: its stages run in turn on the same cluster.",
        ),
        maybe(
            "clients-for",
            Form::Open(&Form::OneOrMany(&CLIENTS)),
            "{etcd: 1000}",
            "Number of clients for some systems in place of `clients`, by the system's name.",
        ),
        maybe(
            "rate",
            Form::Rate,
            "1000/s",
            "Rate at which operations fall due, for all clients together. Makes the load open.",
        ),
        maybe(
            "arrivals",
            Form::Word(ARRIVALS),
            "poisson",
            "Spacing of the operations of an open load; `constant` by default.",
        ),
        default(
            "in-flight",
            Form::Whole { min: 1, max: 1_000_000 },
            "1",
            "Maximum operations in flight for each client.",
        ),
        always(
            "stop",
            Form::Table(&STOP),
            "{after: 30s}",
            "When the load ends. The stages of a sweep share the time or count evenly.",
        ),
        maybe(
            "warmup",
            Form::Duration { zero: true, max: "1h" },
            "5s",
            "Warm-up before measuring, in each stage. By default, a fifth of the stage's time, from 1 s to \
             5 s, and none in a load that ends by count. With `find`, a fifth of a try, at most 1 s.",
        ),
        default(
            "timeout",
            Form::Duration { zero: false, max: "1h" },
            "10s",
            "Time after which an operation without an answer has failed.",
        ),
        default(
            "targets",
            Form::Either(&[Form::Word(Targets::NAMES), Form::Table(&TARGETS)]),
            "all",
            "Nodes that the clients connect to, in turn. `{writes: leader, reads: followers}` gives \
             writes and reads separate nodes and clients.",
        ),
        default(
            "keep-alive",
            Form::Word(KEEP_ALIVE),
            "on",
            "Whether clients keep their connections. With `off`, each operation opens a new one, and its \
             times include that.",
        ),
        default(
            "tls-resumption",
            Form::Word(KEEP_ALIVE),
            "on",
            "Whether a client that reconnects resumes its TLS session. With `off`, each connection makes a \
             full handshake.",
        ),
        default(
            "errors-max",
            Form::Share,
            "10%",
            "Largest share of operations that may fail. With more, a trial is not valid, because it \
             describes the failures more than the system.",
        ),
        maybe(
            "find",
            Form::Table(&FIND),
            "{objective: p99 < 50ms}",
            "Search for the highest rate that keeps an objective, starting at `rate`. The rates run in turn \
             on the same cluster, each for the load's time.",
        ),
    ],
};

static FIND: Table = Table {
    name: "find",
    meaning: "The objective of a search for the highest rate.",
    one_of: &[],
    fields: &[always(
        "objective",
        Form::OneOrMany(&Form::Text),
        "p99 < 50ms",
        "Conditions that must all hold, in the form of `bakeoff load --slo`. Any error breaks the \
         objective, unless a condition concerns errors.",
    )],
};

/// Words that switch kept connections, and TLS session resumption.
const KEEP_ALIVE: &[&str] = &["on", "off"];

pub(in crate::study) static TARGETS: Table = Table {
    name: "targets",
    meaning: "Separate nodes for writes and for reads, which run at the same time with separate clients. The \
              mix divides clients, rate and number of operations; each side gets at least one client.",
    one_of: &[],
    fields: &[
        always(
            "writes",
            Form::Word(Targets::NAMES),
            "leader",
            "Nodes that the writing clients connect to, in turn.",
        ),
        always(
            "reads",
            Form::Word(Targets::NAMES),
            "followers",
            "Nodes that the other clients connect to, in turn. They run all operations except `put` and `delete`.",
        ),
    ],
};

/// Spacings of an open load's operations.
const ARRIVALS: &[&str] = &["constant", "poisson"];

pub(in crate::study) static STOP: Table = Table {
    name: "stop",
    meaning: "When a load ends: after a time or a number of operations, without the warm-up.",
    one_of: &[&["after"], &["operations"]],
    fields: &[
        maybe("after", Form::Duration { zero: false, max: "24h" }, "30s", "Time."),
        maybe("operations", COUNT, "100000", "Number of operations."),
    ],
};
