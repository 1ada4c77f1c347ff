//! State that all workers of a trial share: the names of keys, their values, what was written to them.
//!
//! Not here: what follows from one write and one read (`bakeoff_core::ledger`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::ledger::KeyHistory;
use bakeoff_core::ledger::audited::AcknowledgedKey;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{ValueSizes, Workload};
use bakeoff_core::workload::{KeySpace, PROOF_SIZE, Values, mix64};

use super::halves::Replaced;
use crate::clock;

/// The most keys whose history is kept: of larger key spaces an evenly spaced sample is.
const TRACKED_MAX: u64 = 1 << 18;
/// How many moments are remembered where staleness is measured, all keys together: 16 MiB of them,
const MOMENTS_ALL: u64 = 1 << 20;
/// and how many of each key, at the least and at the most.
const MOMENTS_OF_A_KEY: std::ops::RangeInclusive<u64> = 16..=4096;
/// How many writes of unknown outcome are remembered, all keys together: 16 MiB of them,
const UNKNOWN_ALL: u64 = 1 << 22;
/// and how many of each key, at the least and at the most.
const UNKNOWN_OF_A_KEY: std::ops::RangeInclusive<u64> = 64..=u16::MAX as u64;

/// Whether the staleness of reads is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalenessTracking {
    /// It is measured.
    Measured,
    /// It is not, and costs nothing.
    NotMeasured,
}

/// The history of a key, in half a line of a CPU's cache: operations wait until they have it, and never for two lines.
#[repr(align(32))]
struct Place(Mutex<KeyHistory>);

const _: () = assert!(size_of::<Place>() == 32);

/// The remembered writes: of all keys, or of every n-th.
pub struct Ledger {
    stride: u64,
    offset: u64,
    histories: Vec<Place>,
    pub(super) staleness: StalenessTracking,
    /// The keys that are this generator's: of others' keys it knows nothing.
    share: LoadShare,
    /// The origin of its times.
    since: Instant,
    /// The same by the coarse clock.
    since_coarse: Duration,
}

impl Ledger {
    /// An empty ledger for `count` keys; `seed` chooses the sample where not all are kept.
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

    /// The time, as histories take it. To be read while the key's history is locked, so that what is
    /// seen to come first has the earlier time.
    pub(super) fn time(&self) -> Duration {
        clock::now() - self.since
    }

    /// Milliseconds since the ledger began, in the kernel's coarse steps: the order of acknowledgements needs no more.
    #[inline]
    pub(super) fn time_ms(&self) -> u32 {
        let since = clock::coarse().saturating_sub(self.since_coarse);
        u32::try_from(since.as_millis()).unwrap_or(u32::MAX)
    }

    pub(super) fn history(&self, key: u64) -> Option<MutexGuard<'_, KeyHistory>> {
        let place = key.checked_sub(self.offset).filter(|_| self.share.has(key))?;
        if !place.is_multiple_of(self.stride) {
            return None;
        }
        let Place(history) = self.histories.get((place / self.stride) as usize)?;
        Some(history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the keys that must hold what was acknowledged, in order of their numbers.
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

    /// Of these keys, how many would show whatever was lost of them.
    pub fn claiming_fully(&self, keys: &[u64]) -> u64 {
        let fully = |key: u64| self.history(key).is_some_and(|history| history.claims_fully());
        keys.iter().filter(|&&key| fully(key)).count() as u64
    }

    /// One in how many keys is remembered.
    pub fn stride(&self) -> u64 {
        self.stride
    }
}

/// State that all workers of a trial share: names, values, history.
pub struct Keyed {
    /// The keys.
    pub space: KeySpace,
    /// The values that prove themselves.
    pub values: Values,
    /// The values that each key may hold.
    pub ledger: Ledger,
    /// How many keys a `scan` asks for.
    pub scan: u32,
    pub(super) replaced: Replaced,
}

/// How many keys a `scan` asks for where a study does not say.
const SCAN: u32 = 100;

impl Keyed {
    /// The keys of a workload, none of them written yet.
    pub fn new(workload: &Workload, seed: u64, staleness: StalenessTracking) -> Self {
        let sizes = workload.value_sizes().cloned();
        let sizes = sizes.unwrap_or(ValueSizes::Fixed(PROOF_SIZE as u64));
        Self {
            space: KeySpace::new(&workload.keys),
            values: Values::new(sizes, seed),
            ledger: Ledger::new(workload.keys.count, seed, staleness),
            scan: workload.with.get("scan").and_then(|text| text.parse().ok()).unwrap_or(SCAN),
            replaced: Replaced::default(),
        }
    }

    /// Returns the same for a generator that owns a share of the keys: no other writes or reads them.
    pub fn owned(mut self, share: LoadShare) -> Self {
        self.ledger.share = share;
        self
    }

    /// Returns the share of the keys that are this generator's.
    pub fn share(&self) -> LoadShare {
        self.ledger.share
    }
}
