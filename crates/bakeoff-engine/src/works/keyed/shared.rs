//! Holds the state that all workers of a trial share: keys, values and the history of writes.
//!
//! Not here: judging one read or write (`bakeoff_core::ledger`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::ledger::KeyHistory;
use bakeoff_core::ledger::audit_keys::AcknowledgedKey;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{FENCED, GUARD, LEASE_TTL, RENEWALS, ValueSizes, Workload};
use bakeoff_core::watch::WatchStart;
use bakeoff_core::workload::{KeySpace, PROOF_SIZE, Values, mix64};

use super::history::HistoryCollector;
use super::leases::LeaseTable;
use super::locks::LockTable;
use super::two_step::ReplacedWrites;
use crate::clock;
use crate::shared_versions::SharedVersions;

/// Maximum number of keys with a history. Larger key spaces keep an evenly spaced sample.
const TRACKED_MAX: u64 = 1 << 18;
/// Number of remembered times for staleness, over all keys: 16 MiB.
const MOMENTS_ALL: u64 = 1 << 20;
/// Smallest and largest number of remembered times of one key.
const MOMENTS_OF_A_KEY: std::ops::RangeInclusive<u64> = 16..=4096;
/// Number of remembered writes of unknown outcome, over all keys: 16 MiB.
const UNKNOWN_ALL: u64 = 1 << 22;
/// Smallest and largest number of remembered unknown writes of one key.
const UNKNOWN_OF_A_KEY: std::ops::RangeInclusive<u64> = 64..=u16::MAX as u64;

/// Switches the staleness measurement on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalenessTracking {
    /// Staleness is measured.
    Measured,
    /// Staleness is not measured and costs nothing.
    NotMeasured,
}

/// Holds a key's history in half a cache line. An operation waits for it, so it must not span two lines.
#[repr(align(32))]
struct Place(Mutex<KeyHistory>);

const _: () = assert!(size_of::<Place>() == 32);

/// Remembers the writes of all keys, or of every `stride`-th key.
pub struct Ledger {
    stride: u64,
    offset: u64,
    histories: Vec<Place>,
    pub(super) staleness: StalenessTracking,
    /// This generator's share of the keys. It does not see writes to the others.
    share: LoadShare,
    /// Origin of its times.
    since: Instant,
    /// Origin by the coarse clock.
    since_coarse: Duration,
}

impl Ledger {
    /// Creates an empty ledger for `count` keys. `seed` selects the sample if not all keys are kept.
    pub fn new(count: u64, seed: u64, staleness: StalenessTracking) -> Self {
        let stride = count.div_ceil(TRACKED_MAX).max(1);
        let offset = mix64(seed) % stride;
        let tracked = (count - offset.min(count)).div_ceil(stride);
        let each = |all: u64, of_a_key: std::ops::RangeInclusive<u64>| {
            (all / tracked.max(1)).clamp(*of_a_key.start(), *of_a_key.end())
        };
        let moments = each(MOMENTS_ALL, MOMENTS_OF_A_KEY) as usize;
        let unknown = each(UNKNOWN_ALL, UNKNOWN_OF_A_KEY) as u16;
        let history = || match staleness {
            StalenessTracking::Measured => KeyHistory::new(unknown).measuring_staleness(moments),
            StalenessTracking::NotMeasured => KeyHistory::new(unknown),
        };
        let histories = (0..tracked).map(|_| Place(Mutex::new(history()))).collect();
        let (share, since) = (LoadShare::WHOLE, clock::now());
        let since_coarse = clock::coarse();
        Self { stride, offset, histories, staleness, share, since, since_coarse }
    }

    /// Returns the time since the ledger began. Call it with the key's history locked, so that later events have
    /// later times.
    pub(super) fn time(&self) -> Duration {
        clock::now() - self.since
    }

    /// Returns milliseconds since the ledger began, by the kernel's coarse clock. That is precise enough to order
    /// acknowledgements.
    #[inline]
    pub(super) fn time_ms(&self) -> u32 {
        let since = clock::coarse().saturating_sub(self.since_coarse);
        u32::try_from(since.as_millis()).unwrap_or(u32::MAX)
    }

    pub(super) fn history(&self, key: u64) -> Option<MutexGuard<'_, KeyHistory>> {
        let Place(history) = self.place(key)?;
        Some(history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the key has a history.
    pub(super) fn tracks(&self, key: u64) -> bool {
        self.place(key).is_some()
    }

    #[inline]
    fn place(&self, key: u64) -> Option<&Place> {
        let place = key.checked_sub(self.offset).filter(|_| self.share.has(key))?;
        if !place.is_multiple_of(self.stride) {
            return None;
        }
        self.histories.get((place / self.stride) as usize)
    }

    /// Returns the keys that must hold acknowledged writes, in order of key number.
    pub fn acknowledged(&self) -> Vec<AcknowledgedKey> {
        let acknowledged = |key| {
            let at_ms = self.history(key)?.last_acknowledged()?;
            Some(AcknowledgedKey { key, at_ms })
        };
        (0..self.histories.len() as u64)
            .map(|place| place * self.stride + self.offset)
            .filter_map(acknowledged)
            .collect()
    }

    /// Returns how many of `keys` would show every loss.
    pub fn claiming_fully(&self, keys: &[u64]) -> u64 {
        let fully = |key: u64| self.history(key).is_some_and(|history| history.claims_fully());
        keys.iter().filter(|&&key| fully(key)).count() as u64
    }

    /// Returns `n` if every `n`-th key is remembered.
    pub fn stride(&self) -> u64 {
        self.stride
    }
}

/// Holds the state that all workers of a trial share.
pub struct KeyedState {
    /// Names of the keys.
    pub space: KeySpace,
    /// Generator and verifier of values.
    pub values: Values,
    /// Expected values of each key.
    pub ledger: Ledger,
    /// Number of keys of each group, if operations access groups.
    pub group: Option<u32>,
    /// Number of keys of a `scan`.
    pub scan: u32,
    /// Time to live of leases that clients grant, in seconds.
    pub lease_seconds: u64,
    /// True if the write of a `lock` depends on the lock.
    pub fences: bool,
    /// True if clients that wait for a lock renew their leases.
    pub renews: bool,
    pub(super) replaced: ReplacedWrites,
    pub(super) locks: LockTable,
    pub(super) leases: LeaseTable,
    /// History of its keys; `None` if it is not recorded.
    pub(super) history: Option<Arc<HistoryCollector>>,
    /// Versions that watchers follow during a load; `None` without watchers.
    versions: Mutex<Option<Arc<SharedVersions>>>,
    /// True if the versions are logged from the first write of the trial on, for watchers that begin with old events.
    logs_all: bool,
}

/// Default number of keys of a `scan`.
const SCAN: u32 = 100;
/// Default time to live of leases, in seconds. Leases that are not kept alive expire soon after a load.
const LEASE_SECONDS: u64 = 60;

impl KeyedState {
    /// Starts with the keys of a workload, none of them written.
    pub fn new(workload: &Workload, seed: u64, staleness: StalenessTracking) -> Self {
        let sizes = workload.value_sizes().cloned();
        let sizes = sizes.unwrap_or(ValueSizes::Fixed(PROOF_SIZE as u64));
        let watchers = workload.watchers.as_deref();
        let logs_all = watchers.is_some_and(|watchers| watchers.from == WatchStart::Oldest);
        let keys = u32::try_from(workload.keys.count).unwrap_or(u32::MAX);
        let number = |name: &str| workload.with.get(name).and_then(|text| text.parse::<u64>().ok());
        Self {
            space: KeySpace::new(&workload.keys),
            values: Values::new(sizes, seed),
            ledger: Ledger::new(workload.keys.count, seed, staleness),
            group: workload.group(),
            scan: number("scan").and_then(|scan| scan.try_into().ok()).unwrap_or(SCAN),
            lease_seconds: number(LEASE_TTL.name).unwrap_or(LEASE_SECONDS),
            fences: workload.with.get(GUARD.name).is_none_or(|guard| guard == FENCED),
            renews: workload.with.get(RENEWALS.name).is_none_or(|renewals| renewals == "on"),
            replaced: ReplacedWrites::default(),
            locks: LockTable::default(),
            leases: LeaseTable::default(),
            history: None,
            versions: Mutex::new(logs_all.then(|| Arc::new(SharedVersions::new(keys, |_| 0)))),
            logs_all,
        }
    }

    /// Restricts it to a generator's share of the keys. No other generator uses those.
    pub fn owned(mut self, share: LoadShare) -> Self {
        self.ledger.share = share;
        self
    }

    /// Logs the versions of its keys from now on, for watchers, until [`Self::end_versions`]. If they begin with old
    /// events, all versions of the trial are logged.
    pub fn begin_versions(&self) -> Arc<SharedVersions> {
        if let (true, Some(versions)) = (self.logs_all, self.versions()) {
            versions.measure_later();
            return versions;
        }
        let newest = |key: u32| self.ledger.history(key.into()).map_or(0, |key| key.newest());
        let keys = u32::try_from(self.space.count()).unwrap_or(u32::MAX);
        let versions = Arc::new(SharedVersions::new(keys, newest));
        *self.lock_versions() = Some(Arc::clone(&versions));
        versions
    }

    /// Ends the logs of [`Self::begin_versions`].
    pub fn end_versions(&self) {
        if !self.logs_all {
            *self.lock_versions() = None;
        }
    }

    pub(super) fn versions(&self) -> Option<Arc<SharedVersions>> {
        self.lock_versions().clone()
    }

    fn lock_versions(&self) -> MutexGuard<'_, Option<Arc<SharedVersions>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this generator's share of the keys.
    pub fn share(&self) -> LoadShare {
        self.ledger.share
    }
}
