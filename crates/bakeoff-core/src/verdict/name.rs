//! Names every check of a trial, and says whose doing it is when one fails.
//!
//! A trial that is not valid may be the machine's doing, the generator's, the user's, or the system's
//! own. Only the last is a result about the system: dropping such trials from a comparison would have a
//! system judged by its good days alone. The table is here, in one place, and records hold the names alone.
//!
//! Not here: the checks (`measured`, `machine`, the binary), what follows for a comparison (`report`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Cause of a trial's invalidity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The machine's, or a neighbour's on it.
    Machine,
    /// The load generator's.
    Generator,
    /// The user's: a study that could not be carried out as written, or a run that was interrupted.
    User,
    /// The system's own: it is a result.
    System,
    /// The machine's or the system's: what was seen does not tell which.
    Unclear,
}

impl Cause {
    /// The word for it in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Generator => "generator",
            Self::User => "user",
            Self::System => "system",
            Self::Unclear => "unclear",
        }
    }
}

/// Declares the checks: the variant, its name in records, and its cause.
macro_rules! checks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $cause:ident;)*) => {
        /// Checks of a trial, besides its audits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CheckName {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl CheckName {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in records and reports: `generator apart`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the cause of its failure.
            pub fn cause(self) -> Cause {
                match self { $(Self::$variant => Cause::$cause,)* }
            }
        }
    };
}

checks! {
    /// The hypervisor gave this machine's CPUs to others.
    Steal = "steal", Machine;
    /// Processes that belong neither to bakeoff nor to the system used the machine.
    Neighbours = "neighbours", Machine;
    /// The disk that holds the data ran full.
    Disk = "disk", Machine;
    /// The wall clock was stepped, or the machine slept.
    Clock = "clock", Machine;
    /// The limits that the study asks for are not those that the kernel applied.
    Limits = "limits", Machine;
    /// The generator had no CPU time left, or got none.
    Generator = "generator", Generator;
    /// An open load's operations went out late though a client was free.
    Schedule = "schedule", Generator;
    /// The generator's timers fired late.
    Timers = "timers", Generator;
    /// Answers that had arrived waited long until the generator read them.
    ReceiveLag = "receive lag", Generator;
    /// The generator keeps off the CPUs that nodes are pinned to.
    GeneratorApart = "generator apart", Generator;
    /// Generators on several machines began at different moments, or one of them was lost.
    GeneratorsTogether = "generators together", Generator;
    /// The metrics of a running system's nodes could not be read.
    Metrics = "metrics", User;
    /// A TLS session was resumed where none should: bakeoff's sessions resume them, or do not.
    Handshakes = "handshakes", Generator;
    /// The workload's unique keys ran out.
    Keys = "keys", User;
    /// Too many operations failed.
    Errors = "errors", System;
    /// Answers were wrong, or older than guaranteed.
    Answers = "answers", System;
    /// No operation succeeded, or none of some clients'.
    Successes = "successes", System;
    /// A server ended by itself during the load, or left daemons running.
    Servers = "servers", System;
    /// A control plane told a proxy something else during the load.
    Configuration = "configuration", System;
    /// Figures changed much during the load.
    Stationary = "stationary", Unclear;
    /// A search for a rate came to no answer that holds.
    Search = "search", Unclear;
}

impl CheckName {
    /// Returns whether a disturbed machine is no excuse: whatever it does, answers are not to be wrong.
    pub fn is_of_correctness(self) -> bool {
        self == Self::Answers
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_records_are_names_in_reports() {
        for &name in CheckName::ALL {
            let text = serde_json::to_string(&name).unwrap();
            assert_eq!(text, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<CheckName>(&text).unwrap(), name);
            let cause = serde_json::to_string(&name.cause()).unwrap();
            assert_eq!(cause, format!("\"{}\"", name.cause().name()));
        }
    }
}
