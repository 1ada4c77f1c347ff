//! Chooses the operations of keyed work: from a mix, a fill, a removal or an audit.
//!
//! Not here: drawing from a mix (`bakeoff_core::workload`).

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{KeyOrder, Operation, Workload};
use bakeoff_core::workload::Chooser;
use serde::{Deserialize, Serialize};

/// Chooses the next operation.
pub enum Source {
    /// Mix of a workload.
    Mix {
        /// Draws operation and key.
        chooser: Box<Chooser>,
        /// Operations of the mix, in its order.
        operations: Vec<Operation>,
        /// True if puts create their keys.
        creates: bool,
    },
    /// Writes every key once.
    Fill,
    /// Deletes every key once.
    Remove,
    /// Reads these keys once.
    Audit(Arc<[u64]>, Arc<Mutex<Findings>>),
}

/// Holds the result of an audit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Number of keys read.
    pub read: u64,
    /// Number of those keys that could only be read by a further attempt.
    pub repeated: u64,
    /// Acknowledged keys that were missing.
    pub lost: u64,
    /// Keys that held a wrong value.
    pub wrong: u64,
    /// Wrong keys that held an older write, so that an update was lost.
    pub older: u64,
    /// First few wrong or missing keys, in words.
    pub examples: Vec<String>,
    /// The keys that were read. They stay with the generator.
    #[serde(skip)]
    answered: HashSet<u64>,
}

impl Findings {
    /// Counts a key that was read.
    pub(super) fn count(&mut self, key: u64) {
        self.read += u64::from(self.answered.insert(key));
    }

    /// Returns true if the key was read.
    pub fn has_read(&self, key: u64) -> bool {
        self.answered.contains(&key)
    }
}

/// Maximum operations that are checked one by one to count a share, about a second of work.
const COUNTED_MAX: u64 = 20_000_000;

pub(super) const FINDINGS_EXAMPLES_MAX: usize = 5;

impl Source {
    /// Chooses from a workload's mix. Every worker gets the same source, because the operation's number decides the
    /// draw.
    pub fn mix(workload: &Workload, run_seed: u64, seed: u64) -> Self {
        Self::Mix {
            chooser: Box::new(Chooser::new(&workload.mix, &workload.keys, run_seed, seed)),
            operations: workload.mix.keys().copied().collect(),
            creates: workload.keys.order == KeyOrder::Unique && !workload.fill,
        }
    }

    /// Returns the operations it chooses from.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Self::Mix { operations, .. } => operations,
            Self::Fill => &[Operation::Put],
            Self::Remove => &[Operation::Delete],
            Self::Audit(..) => &[Operation::Get],
        }
    }

    /// Returns the seed of further draws for an operation, such as sizes.
    pub fn seed(&self) -> u64 {
        if let Self::Mix { chooser, .. } = self { chooser.seed() } else { 0 }
    }

    /// Returns true if the operation's key is in this share. Beyond the last operation it is true for every share.
    pub fn owns(&mut self, ticket: u64, share: LoadShare) -> bool {
        match self {
            Self::Mix { chooser, .. } => {
                chooser.choose(ticket).is_none_or(|(_, key)| share.has(key))
            }
            Self::Fill | Self::Remove | Self::Audit(..) => true,
        }
    }

    /// Returns how many of `count` operations from `first` have keys in this share. The shares' counts add up.
    pub fn count_owned(&mut self, first: u64, count: u64, share: LoadShare) -> u64 {
        match count <= COUNTED_MAX {
            true => {
                (first..first.saturating_add(count)).filter(|&t| self.owns(t, share)).count() as u64
            }
            false => share.count(count),
        }
    }

    /// Returns the index of an operation and the number of its key; `None` if no operations are left.
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
