//! Reasons why a figure of two systems is not compared, as a report prints them.
//!
//! Not here: when each of them applies (`judgement`, `nodes`).

use std::fmt;

use bakeoff_core::memory::MemoryOf;
use bakeoff_core::stats::Incomparable;

/// Reason why a figure of two systems is not compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotComparable {
    /// Both did all that was offered, so that their throughput is what was offered.
    BothKeptUp,
    /// The second system had this number of clients in the stage, and the first another.
    OtherClients { system: String, clients: u32 },
    /// The system did not do all that was offered, so its response times depend on the load's duration.
    FellBehind { system: String },
    /// One system's CPU and memory are those of its machines, the other's those of its processes.
    OtherMeters { of_machines: String, of_processes: String },
    /// Some trials have proportional memory, others resident memory.
    OtherMemory([MemoryOf; 2]),
    /// A trial's figure is no number.
    Incomparable { system: String, why: Incomparable },
    /// A search found no rate that kept the objective.
    NoRateKept { system: String },
    /// A trial's figure is 0, of which there is no ratio.
    Zero { system: String },
}

impl fmt::Display for NotComparable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BothKeptUp => to.write_str("both kept up with what was offered"),
            Self::OtherClients { system, clients } => {
                write!(to, "{system} had {clients} clients there")
            }
            Self::FellBehind { system } => write!(
                to,
                "{system} fell behind what was offered, and its response times grow for as long as the load lasts"
            ),
            Self::OtherMeters { of_machines, of_processes } => {
                write!(
                    to,
                    "{of_machines}'s is of whole machines, and {of_processes}'s of processes"
                )
            }
            Self::OtherMemory([one, other]) => {
                write!(to, "some trials have {}, others {}", one.name(), other.name())
            }
            Self::Incomparable { system, why } => write!(to, "{system} {why}"),
            Self::NoRateKept { system } => {
                write!(to, "{system} had a trial in which no rate kept it")
            }
            Self::Zero { system } => write!(to, "{system} had a trial with 0"),
        }
    }
}
