//! Declares the fields of a fault.
//!
//! Not here: loads (`load`).

use super::{Form, Table, always, default, maybe};

/// Form of the nodes that a fault happens to.
const NODES: Form = Form::Either(&[Form::Text, Form::Table(&FAULT_NODE)]);
const TIME: Form = Form::Duration { zero: false, max: "1h" };

pub(in crate::study) static FAULT: Table = Table {
    name: "fault",
    meaning: "A fault: what happens to nodes while the load runs. Nodes are `leader`, `follower-1`, `node-1` or `each`.",
    one_of: &[
        &["pause", "for"],
        &["kill", "restart-after"],
        &["stop", "restart-after"],
        &["restart"],
        &["isolate", "for"],
        &["partition", "for"],
        &["run"],
        &["sequence"],
        &["disk", "for"],
    ],
    fields: &[
        maybe(
            "pause",
            NODES,
            "leader",
            "Nodes that stand still: SIGSTOP, and SIGCONT after `for`.",
        ),
        maybe(
            "kill",
            NODES,
            "leader",
            "Nodes that are killed with SIGKILL, and started on their data after `restart-after`.",
        ),
        maybe(
            "stop",
            NODES,
            "leader",
            "Nodes that are asked to end, and started on their data after `restart-after`.",
        ),
        maybe(
            "restart",
            NODES,
            "each",
            "Nodes that are asked to end and started again, one after another.",
        ),
        maybe(
            "isolate",
            NODES,
            "leader",
            "Nodes whose packets the network drops, to and from everybody, until `for` is over.",
        ),
        maybe(
            "partition",
            Form::List(&Form::List(&Form::Text)),
            "[[leader, follower-1], [follower-2]]",
            "Groups of nodes that the network cuts from each other until `for` is over. Clients reach all nodes.",
        ),
        default(
            "direction",
            Form::Word(&["both", "in", "out"]),
            "both",
            "Packets of isolated nodes that are dropped: `in` those that they are sent, `out` those that they send.",
        ),
        maybe(
            "existing",
            Form::Word(&["only"]),
            "only",
            "Drops only the packets of connections that are open at that moment. They get no reset.",
        ),
        maybe(
            "run",
            Form::Text,
            "defragment",
            "Maintenance that the system offers, such as `defragment`, `compact` or `snapshot`.",
        ),
        maybe(
            "node",
            NODES,
            "each",
            "Nodes that `run` maintains, one after another; the leader by default.",
        ),
        maybe(
            "sequence",
            Form::List(&Form::Text),
            "[leader-paused, leader-killed]",
            "Names of other faults, which happen one after another. Their own `at` does not count.",
        ),
        always(
            "at",
            Form::Duration { zero: true, max: "1h" },
            "20s",
            "Time of the fault, from the beginning of measuring.",
        ),
        maybe(
            "disk",
            NODES,
            "leader",
            "Nodes whose disk is slow (`sync-delay`), stands still (`stall`) or is full (`full`).",
        ),
        maybe("sync-delay", TIME, "100ms", "Time by which each sync of the disk takes longer."),
        maybe("stall", Form::Flag, "true", "True: syncs and writes wait until the disk is healed."),
        maybe(
            "full",
            Form::Flag,
            "true",
            "True: what needs space on the disk is refused with `ENOSPC`.",
        ),
        maybe("for", TIME, "10s", "Length of a pause or a cut, or time until a disk is healed."),
        maybe(
            "restart-after",
            TIME,
            "10s",
            "Time until a killed or stopped node is started again.",
        ),
        default(
            "every",
            TIME,
            "10s",
            "Time from one restarted node to the next, or from one `run` to the next if it has `times`.",
        ),
        maybe(
            "to",
            Form::Text,
            "3.6",
            "Version that restarted nodes are upgraded to, once in each trial, after all other faults.",
        ),
        maybe(
            "times",
            Form::Whole { min: 2, max: 1000 },
            "10",
            "Number of times for which `run` happens; once by default.",
        ),
        default(
            "rest",
            TIME,
            "10s",
            "Time from the end of one fault of a sequence to the next one.",
        ),
        default(
            "alone",
            Form::Flag,
            "true",
            "Whether the fault also happens by itself, and not only in sequences.",
        ),
        maybe(
            "systems",
            Form::List(&Form::Text),
            "[etcd]",
            "Names of the systems for this fault; all by default.",
        ),
    ],
};

pub(in crate::study) static FAULT_NODE: Table = Table {
    name: "fault-node",
    meaning: "Nodes of a part of the system.",
    one_of: &[],
    fields: &[
        always("part", Form::Text, "storage", "Role of the part."),
        default("node", Form::Text, "leader", "Nodes of the part."),
    ],
};
