//! Selects the operations of a load, and makes the sources of their calls.
//!
//! Not here: each kind of source (`calls`, `leases`, `stm`), running the load (`run`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_core::units::plural;
use bakeoff_engine::works::grpc::CallSource;

use super::calls::{Calls, Mix, Reads, Writes};
use super::keys::{KeyWriter, Keys};
use super::leases::{Grants, Renewals};
use super::options::{Options, Task};
use super::seconds::{SecondSink, SecondsByOperation};
use super::stm::{StmCalls, StmLoad};

/// Operations of a load.
pub(super) enum Load {
    Calls(Mix),
    Transactions(Arc<StmLoad>),
    Renewals(Leases),
}

/// Leases that a load renews.
#[derive(Default)]
pub(super) struct Leases(Arc<Mutex<Vec<u64>>>);

impl Leases {
    /// Returns a source that grants leases.
    pub(super) fn grants(&self) -> Box<dyn CallSource> {
        Box::new(Grants::new(&self.0))
    }

    /// Returns the leases that were granted.
    fn granted(&self) -> Arc<[u64]> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_slice().into()
    }
}

impl Load {
    /// Returns the operations of a task. `seed` decides about all random choices.
    pub(super) fn new(task: &Task, seed: u64) -> Self {
        let random = |size: usize| {
            let mut value = vec![0; size];
            rand::fill(&mut value[..]);
            value
        };
        let writes = |keys: &Keys, size: usize, transaction| {
            let keys = KeyWriter::new(keys.clone(), seed);
            Writes { keys, value: random(size).into(), transaction }
        };
        match task {
            Task::Put { keys, value_size, .. } => {
                Self::Calls(Mix::Writes(writes(keys, *value_size, None)))
            }
            Task::TxnPut { keys, value_size, operations } => {
                Self::Calls(Mix::Writes(writes(keys, *value_size, Some(*operations))))
            }
            Task::Range(range) => Self::Calls(Mix::Reads(Reads::new(range))),
            Task::TxnMixed { keys, value_size, range, reads_per_write } => Self::Calls(Mix::Both {
                writes: writes(keys, *value_size, Some(1)),
                reads: Reads::new(range).in_transactions(),
                read_share: reads_per_write / (1.0 + reads_per_write),
                seed: !seed,
            }),
            Task::Stm { transactions, value_size } => Self::Transactions(Arc::new(StmLoad {
                options: *transactions,
                value: random(*value_size),
                seed,
                conflicts: AtomicU64::new(0),
            })),
            Task::LeaseKeepalive => Self::Renewals(Leases::default()),
            Task::Watch(_) => unreachable!("`watches` runs the loads with watchers"),
        }
    }

    /// Returns the operation names as the reports of etcd's benchmark use them.
    pub(super) fn operations(&self, command: &str) -> Vec<String> {
        match self {
            Self::Calls(mix) => mix.operations(command),
            Self::Transactions(_) | Self::Renewals(_) => vec![command.to_owned()],
        }
    }

    /// Returns true if reads and writes have a report each.
    pub(super) fn has_two_reports(&self) -> bool {
        matches!(self, Self::Calls(Mix::Both { .. }))
    }

    /// Makes one worker's source. `clients` is the number of the engine's clients.
    pub(super) fn source(
        &self,
        options: &Options,
        clients: u32,
        seconds: &Arc<Mutex<SecondsByOperation>>,
    ) -> Box<dyn CallSource> {
        let sink = options.sample.then(|| SecondSink::new(seconds));
        match self {
            Self::Calls(mix) => Box::new(Calls::new(mix.clone(), options.command, sink)),
            Self::Transactions(load) => Box::new(StmCalls::new(load.clone(), sink)),
            Self::Renewals(leases) => Box::new(Renewals::new(leases.granted(), clients, sink)),
        }
    }

    /// Returns what happened within operations, in a sentence.
    pub(super) fn remark(&self) -> Option<String> {
        let Self::Transactions(load) = self else { return None };
        let conflicts = load.conflicts.load(Ordering::Relaxed);
        let verb = if conflicts == 1 { "was" } else { "were" };
        (conflicts > 0).then(|| {
            format!(
                "{} met a conflict and {verb} tried again, within the times of their transactions",
                plural(conflicts, "commit")
            )
        })
    }
}
