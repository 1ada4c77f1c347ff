//! Reasons why two systems are not compared by a figure, as a report prints them.
//!
//! Not here: when each applies (`judgement`, `nodes`).

use std::fmt;

use bakeoff_core::memory::MemoryOf;
use bakeoff_core::stats::IncomparableReason;

/// Reason why two systems are not compared by a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotComparable {
    /// Both kept up, so their throughput is the offered rate.
    BothKeptUp,
    /// The systems had different numbers of clients in the stage; the second had this one.
    OtherClients { system: String, clients: u32 },
    /// The system fell behind, so its response times depend on the load's duration.
    FellBehind { system: String },
    /// One system's CPU and memory describe machines, the other's processes.
    OtherMeters { of_machines: String, of_processes: String },
    /// Some trials have proportional memory, others resident memory.
    OtherMemory([MemoryOf; 2]),
    /// A trial's figure is not a number.
    Incomparable { system: String, why: IncomparableReason },
    /// A search found no rate that kept the objective.
    NoRateKept { system: String },
    /// A trial's figure is 0, so there is no ratio.
    Zero { system: String },
}

impl fmt::Display for NotComparable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BothKeptUp => to.write_str("both kept up with the offered rate"),
            Self::OtherClients { system, clients } => {
                write!(to, "{system} had {clients} clients there")
            }
            Self::FellBehind { system } => write!(
                to,
                "{system} fell behind the offered rate; its response times depend on how long the load ran"
            ),
            Self::OtherMeters { of_machines, of_processes } => {
                write!(
                    to,
                    "{of_machines}'s figure covers whole machines, {of_processes}'s only processes"
                )
            }
            Self::OtherMemory([one, other]) => {
                write!(to, "some trials have {}, others {}", one.name(), other.name())
            }
            Self::Incomparable { system, why } => write!(to, "{system} {why}"),
            Self::NoRateKept { system } => {
                write!(to, "{system} had a trial in which no rate kept the objective")
            }
            Self::Zero { system } => write!(to, "{system} had a trial with 0"),
        }
    }
}
