//! Simulates clients, keys and a crash that loses acknowledged writes, to measure the share of losses that the ledger
//! misses.
//!
//! A write takes effect at a random moment between its start and its end. A write of unknown outcome takes effect at
//! a random moment after its start, or never. The crash comes after the load, and the system comes back in an earlier
//! state.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const CLIENTS: u64 = 64;
/// Mean duration of a write.
const SERVICE_US: f64 = 1000.0;
/// Timeout of a client.
const TIMEOUT_US: u64 = 50_000;
/// Length of the lost interval before the crash.
const LOST_US: u64 = 100_000;

/// Events, in order of time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Effect { key: usize, sequence: u32 },
    End { key: usize, sequence: u32, unknown: bool },
}

/// Loses the last effects. Returns the number of keys that lost an acknowledged write, and how many of these the
/// ledger misses.
fn lose(keys: usize, writes: u64, unknown_share: f64, seed: u64) -> (u64, u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut histories: Vec<KeyHistory> = (0..keys).map(|_| KeyHistory::default()).collect();
    let mut effects: Vec<Vec<(u64, u32)>> = vec![Vec::new(); keys];
    let mut acknowledged: Vec<Vec<u32>> = vec![Vec::new(); keys];
    let mut events = BinaryHeap::new();
    let (mut now, mut begun, mut free) = (0, 0, CLIENTS);
    loop {
        while free > 0 && begun < writes {
            (free, begun) = (free - 1, begun + 1);
            let key = rng.random_range(0..keys);
            let sequence = histories[key].begin(Write::Put);
            let unknown = rng.random_bool(unknown_share);
            let takes = -SERVICE_US * f64::ln(1.0 - rng.random::<f64>());
            let takes = if unknown { TIMEOUT_US } else { 1 + takes as u64 };
            if !unknown || rng.random_bool(0.5) {
                let effect = now + rng.random_range(0..=takes);
                events.push(Reverse((effect, Event::Effect { key, sequence })));
            }
            events.push(Reverse((now + takes, Event::End { key, sequence, unknown })));
        }
        let Some(Reverse((at, event))) = events.pop() else { break };
        now = at;
        match event {
            Event::Effect { key, sequence } => effects[key].push((now, sequence)),
            Event::End { key, sequence, unknown } => {
                free += 1;
                let outcome =
                    if unknown { WriteOutcome::Unknown } else { WriteOutcome::Acknowledged };
                histories[key].end(sequence, outcome, || Duration::ZERO);
                if !unknown {
                    acknowledged[key].push(sequence);
                }
            }
        }
    }
    let crash = now;
    let (mut lost, mut passed) = (0, 0);
    for (key, history) in histories.iter().enumerate() {
        let kept = effects[key].partition_point(|&(at, _)| at < crash - LOST_US);
        if !effects[key][kept..].iter().any(|(_, sequence)| acknowledged[key].contains(sequence)) {
            continue;
        }
        lost += 1;
        let began = history.begin_read(|| Duration::ZERO);
        let judged = match kept.checked_sub(1) {
            Some(last) => history.judge_value(effects[key][last].1.into(), &began),
            None => history.judge_missing(&began),
        };
        passed += u64::from(judged.is_ok());
    }
    (lost, passed)
}

/// Returns the share of missed losses over several runs.
fn passing(keys: usize, writes: u64, unknown_share: f64) -> f64 {
    let runs = (0..20).map(|seed| lose(keys, writes, unknown_share, seed));
    let (lost, passed) = runs.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    assert!(lost >= 20, "{lost}");
    passed as f64 / lost as f64
}

/// Guards against an old fault: permanently overlapping writes, or one of unknown outcome, kept the ledger from
/// claiming anything more about their key. Then it missed 100 %, 54 %, 38 % and 100 % of these.
#[test]
fn few_losses_are_missed_on_contended_keys_and_after_unknown_outcomes() {
    for (keys, writes, unknown) in
        [(1, 20_000, 0.0), (10, 20_000, 0.0), (1000, 50_000, 0.01), (10, 20_000, 0.01)]
    {
        let passing = passing(keys, writes, unknown);
        assert!(passing <= 0.02, "{keys} keys, {unknown} unknown: {passing:.3}");
    }
}
