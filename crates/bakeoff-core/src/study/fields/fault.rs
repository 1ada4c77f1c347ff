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
        always(
            "at",
            Form::Duration { zero: true, max: "1h" },
            "20s",
            "Time of the fault, from the beginning of measuring.",
        ),
        maybe("for", TIME, "10s", "Length of a pause."),
        maybe(
            "restart-after",
            TIME,
            "10s",
            "Time until a killed or stopped node is started again.",
        ),
        default("every", TIME, "10s", "Time from one restarted node to the next."),
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
