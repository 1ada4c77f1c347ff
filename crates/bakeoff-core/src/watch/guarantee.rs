//! Names the guarantees of watches, and whether a system kept them.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// Selects a guarantee of watches, as etcd's documentation defines it.
///
/// Source: <https://etcd.io/docs/v3.6/learning/api_guarantees/>, section *Watch APIs*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchGuarantee {
    /// Events come in the system's own order of writes.
    Ordered,
    /// No event comes twice.
    Unique,
    /// All events of one write come together.
    Atomic,
    /// No event is missing.
    Reliable,
    /// A broken watch continues after its last event, or the system reports that the history is gone.
    Resumable,
    /// After the system reports progress to a place in its order, no event up to that place follows.
    Bookmarkable,
}

named! {
    WatchGuarantee:
    Ordered = "ordered",
    Unique = "unique",
    Atomic = "atomic",
    Reliable = "reliable",
    Resumable = "resumable",
    Bookmarkable = "bookmarkable",
}

/// Selects which versions of a key a watcher receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Every version, one event each.
    Each,
    /// The latest version, at last. Earlier ones may be skipped.
    Latest,
}

/// Declares how a kind of system notifies its watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watches {
    /// Form of its watches in a few words, such as `stream of events`.
    pub form: &'static str,
    /// Versions that a watcher receives.
    pub delivery: Delivery,
    /// Documented guarantees.
    pub guarantees: &'static [WatchGuarantee],
    /// Maximum number of watchers on one connection.
    pub per_connection_max: u32,
    /// True if events can hold the value before the write.
    pub previous: bool,
    /// True if a watcher can watch all keys of the load at once.
    pub prefix: bool,
    /// True if a watcher can begin with the oldest event that the system still has.
    pub oldest: bool,
}

/// Describes how a system kept one guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuaranteeState {
    /// It was tested and held.
    Kept,
    /// It was broken so many times.
    Broken(u64),
    /// The system does not promise it. It was violated so many times.
    NotPromised(u64),
    /// The load did not test it.
    NotReached,
}

/// Holds the outcome of one guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuaranteeOutcome {
    /// Guarantee.
    pub guarantee: WatchGuarantee,
    /// How the system kept it.
    pub state: GuaranteeState,
}

impl GuaranteeState {
    /// Returns the state of a promised guarantee that was violated `broken` times, in `tested` tests.
    pub fn of_promised(tested: u64, broken: u64) -> Self {
        match (tested, broken) {
            (0, 0) => Self::NotReached,
            (_, 0) => Self::Kept,
            _ => Self::Broken(broken),
        }
    }

    /// Returns the worse of two states of one guarantee, with the number of times of both.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Broken(ours), Self::Broken(theirs)) => Self::Broken(ours.saturating_add(theirs)),
            (broken @ Self::Broken(_), _) | (_, broken @ Self::Broken(_)) => broken,
            (Self::NotPromised(ours), Self::NotPromised(theirs)) => {
                Self::NotPromised(ours.saturating_add(theirs))
            }
            (other @ Self::NotPromised(_), _) | (_, other @ Self::NotPromised(_)) => other,
            (Self::Kept, _) | (_, Self::Kept) => Self::Kept,
            (Self::NotReached, Self::NotReached) => Self::NotReached,
        }
    }
}

impl GuaranteeOutcome {
    /// Adds outcomes of the same system at another time: the worse state of each guarantee.
    pub fn merge(all: &mut Vec<Self>, others: &[Self]) {
        for other in others {
            match all.iter_mut().find(|one| one.guarantee == other.guarantee) {
                Some(one) => one.state = one.state.and(other.state),
                None => all.push(*other),
            }
        }
    }
}

impl Watches {
    /// Returns the outcome of a guarantee that was violated `broken` times, in `tested` tests.
    pub(super) fn outcome(
        &self,
        guarantee: WatchGuarantee,
        tested: u64,
        broken: u64,
    ) -> GuaranteeOutcome {
        let state = match self.guarantees.contains(&guarantee) {
            false => GuaranteeState::NotPromised(broken),
            true => GuaranteeState::of_promised(tested, broken),
        };
        GuaranteeOutcome { guarantee, state }
    }
}
