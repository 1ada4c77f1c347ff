//! Names every check of a trial, and the cause of its failure.
//!
//! The cause of an invalid trial may be the machine, the generator, the user or the system. Only the last is a result
//! about the system: if such trials were dropped from a comparison, the system would be judged by its good days
//! alone. This table is the only place of the assignment; records hold only the names.
//!
//! Not here: the checks (`measured`, `machine`, the binary), the effect on a comparison (`report`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names the cause of an invalid trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The machine, or a neighbour on it.
    Machine,
    /// The load generator.
    Generator,
    /// The user: a study that could not run as written, or an interrupted run.
    User,
    /// The system itself, so the failure is a result.
    System,
    /// The machine or the system; the observations do not show which.
    Unclear,
}

impl Cause {
    /// Returns the name in tables and JSON.
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

/// Declares the checks: variant, name in records, and cause.
macro_rules! checks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $cause:ident;)*) => {
        /// Names the checks of a trial, besides its audits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum CheckName {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl CheckName {
            /// All checks, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in records and reports: `generator apart`.
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
    /// The hypervisor gave this machine's CPUs to other guests.
    Steal = "steal", Machine;
    /// Processes outside of bakeoff and the system used the machine.
    Neighbours = "neighbours", Machine;
    /// The disk that holds the data ran full.
    Disk = "disk", Machine;
    /// The wall clock was stepped, or the machine slept.
    Clock = "clock", Machine;
    /// The kernel did not apply the limits that the study requests.
    Limits = "limits", Machine;
    /// The generator had no CPU time left, or got none.
    Generator = "generator", Generator;
    /// An open load's operations were sent late although a client was free.
    Schedule = "schedule", Generator;
    /// The generator's timers fired late.
    Timers = "timers", Generator;
    /// Received answers waited long before the generator read them.
    ReceiveLag = "receive lag", Generator;
    /// The generator did not stay off the CPUs that nodes are pinned to.
    GeneratorApart = "generator apart", Generator;
    /// Generators on several machines began at different times, or one of them was lost.
    GeneratorsTogether = "generators together", Generator;
    /// A fault of the study did not happen as planned, or its proof is missing.
    Injections = "injections", Machine;
    /// The metrics of a running system's nodes could not be read.
    Metrics = "metrics", User;
    /// A TLS session was resumed although resumption is off.
    Handshakes = "handshakes", Generator;
    /// The workload's unique keys ran out.
    Keys = "keys", User;
    /// Too many operations failed.
    Errors = "errors", System;
    /// Answers were wrong, or older than guaranteed.
    Answers = "answers", System;
    /// No order of the operations on a key explains every answer.
    Linearizability = "linearizability", System;
    /// A watch broke a guarantee of its system, or received an event that no write explains.
    Watches = "watches", System;
    /// No operation succeeded, or none of some clients.
    Successes = "successes", System;
    /// A server ended by itself during the load, or left daemons running.
    Servers = "servers", System;
    /// A control plane reconfigured a proxy during the load.
    Configuration = "configuration", System;
    /// Figures changed too much during the load.
    Stationary = "stationary", Unclear;
    /// A search for a rate found no stable answer.
    Search = "search", Unclear;
}

impl CheckName {
    /// Returns true if a disturbed machine does not excuse a failure: answers must never be wrong.
    pub fn is_of_correctness(self) -> bool {
        matches!(self, Self::Answers | Self::Linearizability | Self::Watches)
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
