//! Lists the verbs of faults, and the fields of a fault in a study.
//!
//! Not here: a verb's own fields (in its file).

use serde::{Deserialize, Serialize};

use super::verb::{Action, TIME, Verb};
use super::{
    delay, disk, drop, isolate, kill, partition, pause, restart, run, sequence, silence, stop,
};
use crate::study::field::{Field, Form, Table, always, count, default, joined, maybe};

/// Declares the actions of faults, each with its type in its verb's module.
macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident($module:ident::$type:ident),)*) => {
        /// Names an event that happens to nodes.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case", tag = "action")]
        pub enum FaultAction {
            $($(#[$doc])* $action($module::$type),)*
        }

        impl FaultAction {
            pub(super) fn action(&self) -> &dyn Action {
                match self {
                    $(Self::$action(action) => action,)*
                }
            }

            /// Returns its verb in a study: `pause`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$action(_) => $module::VERB.name,)*
                }
            }
        }

        /// All verbs.
        pub(in crate::study) static VERBS: &[Verb<FaultAction>] = &[$(Verb {
            name: $module::VERB.name,
            fields: $module::VERB.fields,
            shared: $module::VERB.shared,
            required: $module::VERB.required,
            read: |sink, fields| {
                let (action, target) = ($module::VERB.read)(sink, fields)?;
                Some((FaultAction::$action(action), target))
            },
        },)*];
        const PARTS: &[&[Field]] = &[$($module::VERB.fields,)* SHARED];
        const ONE_OF: &[&[&str]] = &[$($module::VERB.required,)*];
    };
}

actions! {
    /// Nodes stand still.
    Pause(pause::Pause),
    /// Nodes are killed.
    Kill(kill::NodeKill),
    /// Nodes are asked to end.
    Stop(stop::NodeStop),
    /// One node after another is restarted.
    Restart(restart::Restart),
    /// Nodes are cut off from everybody.
    Isolate(isolate::Isolation),
    /// Groups of nodes are cut off from each other.
    Partition(partition::Partition),
    /// Packets of nodes arrive late.
    Delay(delay::PacketDelay),
    /// The system maintains itself.
    Run(run::MaintenanceRun),
    /// Several faults happen one after another.
    Sequence(sequence::Sequence),
    /// A disk breaks.
    Disk(disk::DiskBreak),
    /// Connections of watchers break.
    Drop(drop::WatcherDrop),
    /// Watchers stand still.
    Silence(silence::WatcherSilence),
}

/// Fields of several verbs, and of all.
const SHARED: &[Field] = &[
    always(
        "at",
        Form::Duration { zero: true, max: "1h" },
        "20s",
        "Time of the fault, from the beginning of measuring.",
    ),
    maybe("for", TIME, "10s", "Time until what the fault broke is healed."),
    maybe("restart-after", TIME, "10s", "Time until a killed or stopped node is started again."),
    default(
        "every",
        TIME,
        "10s",
        "Time from one restarted node to the next, or from one `run` to the next if it has `times`.",
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
];

static FIELDS: [Field; count(PARTS)] = joined(PARTS);

pub(in crate::study) static FAULT: Table = Table {
    name: "fault",
    meaning: "A fault: what happens to nodes while the load runs. Nodes are `leader`, `follower-1`, `node-1` or `each`.",
    one_of: ONE_OF,
    fields: &FIELDS,
};
