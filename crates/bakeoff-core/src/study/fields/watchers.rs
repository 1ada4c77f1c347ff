//! Declares the fields of a workload's watchers.
//!
//! Not here: their combined meaning (`parse`).

use crate::study::field::{Form, Table, always, default, maybe};
use crate::watch::{WatchRange, WatchStart};

/// Maximum number of watchers.
const COUNT: Form = Form::Whole { min: 1, max: 100_000 };
/// Longest interval.
const INTERVAL_MAX: &str = "1h";

pub(in crate::study) static WATCHERS: Table = Table {
    name: "watchers",
    meaning: "Watchers of a workload's keys: created before the warm-up, kept until the load has ended, and on \
              connections of their own.",
    one_of: &[],
    fields: &[
        always("count", COUNT, "1000", "Number of watchers, spread over the nodes."),
        default(
            "of",
            Form::Word(WatchRange::NAMES),
            "key",
            "Keys of each watcher: one `key`, in turn, or all keys by their `prefix`.",
        ),
        default(
            "from",
            Form::Word(WatchStart::NAMES),
            "now",
            "First events of each watcher: those from `now` on, or the `oldest` that the system still has. The load \
             then begins once all watchers have caught up.",
        ),
        maybe(
            "connections",
            COUNT,
            "30",
            "Number of connections, for systems whose connections carry several watchers; by default 30, or one for \
             each watcher if there are fewer. With other systems each watcher has its own.",
        ),
        default("previous", Form::Flag, "false", "Whether events hold the value before the write."),
        default(
            "progress",
            Form::Duration { zero: true, max: INTERVAL_MAX },
            "1s",
            "Interval between requests for a report of progress, for systems that have one; `0s` for none.",
        ),
        default(
            "churn",
            Form::Duration { zero: true, max: INTERVAL_MAX },
            "0s",
            "Interval at which one connection after another is closed; its watchers continue at the next node. `0s` for \
             never.",
        ),
        maybe(
            "slow",
            Form::Table(&SLOW),
            "{connections: 5, every: 10s, for: 5s}",
            "Connections that stop reading at times.",
        ),
    ],
};

static SLOW: Table = Table {
    name: "slow",
    meaning: "Connections of watchers that stop reading at times.",
    one_of: &[],
    fields: &[
        always("connections", COUNT, "5", "Number of connections."),
        always(
            "every",
            Form::Duration { zero: false, max: INTERVAL_MAX },
            "10s",
            "Interval between the beginnings of two pauses.",
        ),
        always(
            "for",
            Form::Duration { zero: false, max: INTERVAL_MAX },
            "5s",
            "Length of a pause.",
        ),
    ],
};
