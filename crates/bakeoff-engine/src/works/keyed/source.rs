//! Where the operations of keyed work come from: a mix, the keys to fill, the keys to audit.
//!
//! Not here: how an operation is drawn (`bakeoff_core::workload`).

use std::sync::{Arc, Mutex};

use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{KeyOrder, Operation, Workload};
use bakeoff_core::workload::Chooser;
use serde::{Deserialize, Serialize};

/// Where the next operation comes from.
pub enum Source {
    /// A workload's mix.
    Mix {
        /// Chooses operation and key.
        chooser: Box<Chooser>,
        /// The mix's operations, in its order.
        operations: Vec<Operation>,
        /// Whether puts create their keys.
        creates: bool,
    },
    /// Every key of the space, written once.
    Fill,
    /// Every key of the space, deleted once.
    Remove,
    /// These keys, read once.
    Audit(Arc<[u64]>, Arc<Mutex<Findings>>),
}

/// The result of an audit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Keys that were read.
    pub read: u64,
    /// Acknowledged keys that were not there.
    pub lost: u64,
    /// Keys that held something else.
    pub wrong: u64,
    /// Of the wrong ones, how many held an older write: their update is lost.
    pub older: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

/// Most operations that are looked at one by one to count those of a share: a second's work.
const COUNTED_MAX: u64 = 20_000_000;

pub(super) const FINDINGS_EXAMPLES_MAX: usize = 5;

impl Source {
    /// The source of operations under a workload, the same for each worker: their numbers decide what they are.
    pub fn mix(workload: &Workload, run_seed: u64, seed: u64) -> Self {
        Self::Mix {
            chooser: Box::new(Chooser::new(&workload.mix, &workload.keys, run_seed, seed)),
            operations: workload.mix.keys().copied().collect(),
            creates: workload.keys.order == KeyOrder::Unique && !workload.fill,
        }
    }

    /// The operations that it chooses from.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Self::Mix { operations, .. } => operations,
            Self::Fill => &[Operation::Put],
            Self::Remove => &[Operation::Delete],
            Self::Audit(..) => &[Operation::Get],
        }
    }

    /// The seed of what is drawn for each operation beyond its key.
    pub fn seed(&self) -> u64 {
        if let Self::Mix { chooser, .. } = self { chooser.seed() } else { 0 }
    }

    /// Returns whether an operation's key is in a share of the keys. What is beyond the last is everybody's to meet.
    pub fn owns(&mut self, ticket: u64, share: LoadShare) -> bool {
        match self {
            Self::Mix { chooser, .. } => {
                chooser.choose(ticket).is_none_or(|(_, key)| share.has(key))
            }
            Self::Fill | Self::Remove | Self::Audit(..) => true,
        }
    }

    /// Returns how many of `count` operations from `first` on have keys in a share; their parts add up.
    pub fn count_owned(&mut self, first: u64, count: u64, share: LoadShare) -> u64 {
        match count <= COUNTED_MAX {
            true => {
                (first..first.saturating_add(count)).filter(|&t| self.owns(t, share)).count() as u64
            }
            false => share.count(count),
        }
    }

    /// Chooses an operation by its place, and the number of its key; `None`: there is nothing more to do.
    pub fn choose(&mut self, ticket: u64, count: u64, share: LoadShare) -> Option<(usize, u64)> {
        match self {
            Self::Mix { chooser, .. } => chooser.choose(ticket),
            Self::Fill | Self::Remove => {
                Some((0, share.nth(ticket))).filter(|&(_, key)| key < count)
            }
            Self::Audit(keys, _) => keys.get(usize::try_from(ticket).ok()?).map(|&key| (0, key)),
        }
    }

    pub(super) fn creates(&self) -> bool {
        match self {
            Self::Mix { creates, .. } => *creates,
            Self::Fill => true,
            Self::Remove | Self::Audit(..) => false,
        }
    }
}
