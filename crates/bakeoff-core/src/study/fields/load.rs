//! Declares the fields of a load: clients, rate, times, targets and ends.
//!
//! Not here: workloads and systems (`fields`).

use super::{CLIENTS, COUNT, Form, Table, always, default, maybe};
use crate::study::Targets;

pub(in crate::study) static LOAD: Table = Table {
    name: "load",
    meaning: "How hard the clients work: closed, or open when it has a `rate`.",
    one_of: &[],
    fields: &[
        always(
            "clients",
            Form::OneOrMany(&CLIENTS),
            "16",
            "How many clients; a list is a sweep, stage after stage on the same cluster.",
        ),
        maybe(
            "clients-for",
            Form::Open(&Form::OneOrMany(&CLIENTS)),
            "{etcd: 1000}",
            "Clients for one system in place of `clients`, by the system's name.",
        ),
        maybe(
            "rate",
            Form::Rate,
            "1000/s",
            "Operations that fall due, all clients together; makes it an open load.",
        ),
        maybe(
            "arrivals",
            Form::Word(ARRIVALS),
            "poisson",
            "How the operations of an open load are spaced; `constant` by default.",
        ),
        default(
            "in-flight",
            Form::Whole { min: 1, max: 1_000_000 },
            "1",
            "Operations each client may have under way at once.",
        ),
        always(
            "stop",
            Form::Table(&STOP),
            "{after: 30s}",
            "When it ends: all stages together, which share it evenly.",
        ),
        maybe(
            "warmup",
            Form::Duration { zero: true, max: "1h" },
            "5s",
            "Time before measuring begins, in each stage; by default a fifth of the stage's time, at \
             least 1 s and at most 5 s, and none in a load that ends by a count. With `find`, a fifth of \
             a try, at most 1 s.",
        ),
        default(
            "timeout",
            Form::Duration { zero: false, max: "1h" },
            "10s",
            "After this long without an answer an operation has failed.",
        ),
        default(
            "targets",
            Form::Either(&[Form::Word(Targets::NAMES), Form::Table(&TARGETS)]),
            "all",
            "Which nodes the clients connect to, in turn; `{writes: leader, reads: followers}` gives \
             writes and reads nodes and clients of their own.",
        ),
        default(
            "keep-alive",
            Form::Word(KEEP_ALIVE),
            "on",
            "Whether clients keep their connections; with `off` each operation begins with a new one, \
             which its times include.",
        ),
        default(
            "tls-resumption",
            Form::Word(KEEP_ALIVE),
            "on",
            "Whether a client that connects again takes up its TLS session; with `off` each \
             connection is a first visit.",
        ),
        default(
            "errors-max",
            Form::Share,
            "10%",
            "The share of operations that may fail: with more a trial says more of the failures than \
             of the system, and does not count.",
        ),
        maybe(
            "find",
            Form::Table(&FIND),
            "{objective: p99 < 50ms}",
            "Look for the highest rate that keeps an objective, beginning at `rate`: one rate after \
             the other on the same cluster, each for the load's time.",
        ),
    ],
};

pub(in crate::study) static FIND: Table = Table {
    name: "find",
    meaning: "Which rate is looked for.",
    one_of: &[],
    fields: &[always(
        "objective",
        Form::OneOrMany(&Form::Text),
        "p99 < 50ms",
        "What has to hold, all of it, as `bakeoff load --slo` takes it; any error breaks it unless it \
         speaks of errors.",
    )],
};

/// Words that switch kept connections, and TLS session resumption.
const KEEP_ALIVE: &[&str] = &["on", "off"];

pub(in crate::study) static TARGETS: Table = Table {
    name: "targets",
    meaning: "Where writes go and where reads go: at once, by clients of their own. Clients, rate and \
              number of operations are shared by the mix, at least one client each.",
    one_of: &[],
    fields: &[
        always(
            "writes",
            Form::Word(Targets::NAMES),
            "leader",
            "Which nodes the clients that write connect to, in turn.",
        ),
        always(
            "reads",
            Form::Word(Targets::NAMES),
            "followers",
            "Which nodes the clients that read, or do anything but `put` and `delete`, connect to, in turn.",
        ),
    ],
};

/// Spacings of an open load's operations.
const ARRIVALS: &[&str] = &["constant", "poisson"];

pub(in crate::study) static STOP: Table = Table {
    name: "stop",
    meaning: "When a load ends: by time or by count, warm-up not counted.",
    one_of: &[&["after"], &["operations"]],
    fields: &[
        maybe("after", Form::Duration { zero: false, max: "24h" }, "30s", "After this time."),
        maybe("operations", COUNT, "100000", "After so many operations."),
    ],
};
