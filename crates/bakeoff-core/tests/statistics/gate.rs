//! Simulates how often a gate stops a merge that changed nothing, and how often it finds a loss of 5 %, if the number
//! of rounds follows from the observed scatter. Merges are seeded, so the figures are reproducible. The tables are in
//! `docs/evidence/trends.md`.

use bakeoff_core::stats::gate::{
    DETECT, EXTENDED_MAX, FALSE_STOPS, LEVEL, LimitPosition, Losses, SCATTER, extended, lies,
    rounds, shortfall, slow_trials, unseen_share,
};
use bakeoff_core::stats::judge::{Correction, Question, Scale, Trials, judge_at};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Poisson, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::evidence::{Table, percent};

/// Describes merges on a machine.
#[derive(Debug, Clone, Copy)]
struct Machine {
    /// Scatter from trial to trial, as a share of the figure.
    scatter: f64,
    /// Maximum shift of a round, common to both builds.
    drift: f64,
    /// True if one trial of ten is 20 % slower.
    tails: bool,
    /// Number of pairs of workload and load. Each has a leading figure with its own scatter.
    places: usize,
}

const QUIET: Machine = Machine { scatter: SCATTER, drift: 0.0, tails: false, places: 1 };

/// Describes a merge's effect on throughput.
#[derive(Debug, Clone, Copy)]
struct Merge {
    /// Ratio of the new build's normal throughput to the base's.
    ratio: f64,
    /// Standard deviation of other differences between builds, such as memory layout.
    layout: f64,
    /// Share of the new build's trials that run at half speed.
    halved: f64,
    /// Losses that the gate distinguishes.
    losses: Losses,
}

impl Merge {
    fn new(ratio: f64) -> Self {
        Self { ratio, layout: 0.0, halved: 0.0, losses: Losses::by_default(DETECT) }
    }
}

impl Machine {
    /// Draws the figures of new and base in one round, if new does `ratio` of base.
    fn round(self, ratio: f64, rng: &mut Xoshiro256PlusPlus) -> (f64, f64) {
        let drift = rng.random_range(-1.0..=1.0) * self.drift;
        let mut trial = || {
            let slow = self.tails && rng.random_range(0..10) == 0;
            let noise: f64 = StandardNormal.sample(rng);
            (self.scatter * noise + drift).exp() * if slow { 0.8 } else { 1.0 }
        };
        (trial() * ratio, trial())
    }

    /// Draws the rounds of one merge for each place, as many as `bakeoff gate` runs.
    fn merge(self, merge: Merge, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<(f64, f64)>> {
        let noise: f64 = StandardNormal.sample(rng);
        let ratio = merge.ratio * (merge.layout * noise).exp();
        let losses = merge.losses;
        let mut run = rounds(losses, SCATTER, self.places);
        let mut places = vec![Vec::new(); self.places];
        loop {
            for place in &mut places {
                let missing = run as usize - place.len();
                place.extend((0..missing).map(|_| {
                    let halved = rng.random_range(0.0..1.0) < merge.halved;
                    self.round(if halved { 0.5 * ratio } else { ratio }, rng)
                }));
            }
            let lacks = places.iter().filter_map(|place| {
                let differences: Vec<f64> =
                    place.iter().map(|(new, base): &(f64, f64)| (new / base).ln()).collect();
                shortfall(&differences, losses, self.places)
            });
            let missing = lacks.map(|lacks| lacks.rounds).max().unwrap_or(0);
            match extended(run, missing, EXTENDED_MAX) {
                Some(more) => run = more,
                None => return places,
            }
        }
    }
}

/// Holds the results of merges.
#[derive(Debug, Clone, Copy)]
struct GateResults {
    /// Share of stopped merges.
    stopped: f64,
    /// Share of inconclusive merges.
    unclear: f64,
    /// Mean number of rounds.
    rounds: f64,
}

fn gated(machine: Machine, merge: Merge, merges: usize) -> GateResults {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20 + machine.places as u64);
    let (mut stopped, mut unclear, mut rounds) = (0, 0, 0);
    for _ in 0..merges {
        let mut family = Vec::new();
        let mut slow = false;
        for place in machine.merge(merge, &mut rng) {
            let gains: Vec<f64> = place.iter().map(|(new, base)| (new / base).ln()).collect();
            slow |= slow_trials(&gains, DETECT).is_some();
            // No operation failed.
            let errors = Trials::ByRound(vec![(0.0, 0.0); place.len()]);
            rounds += place.len();
            let trials = Trials::ByRound(place);
            family.push(Question { trials, leading: true, scale: Scale::Ratio });
            family.push(Question { trials: errors, leading: false, scale: Scale::Points });
        }
        let answers = judge_at(&family, Correction::AtOnce, LEVEL);
        let found: Vec<LimitPosition> = answers
            .iter()
            .step_by(2)
            .map(|answer| {
                let (low, high) = answer.expect("there are enough rounds").interval;
                let Losses { detect, margin } = merge.losses;
                lies((low - 1.0, high - 1.0), true, -margin, detect - margin)
            })
            .collect();
        let errors = answers[1].expect("there are enough rounds").interval;
        assert_eq!(lies(errors, false, 0.0, 0.001), LimitPosition::Within);
        let stops = found.contains(&LimitPosition::Beyond);
        stopped += usize::from(stops);
        unclear += usize::from(!stops && (slow || found.contains(&LimitPosition::Across)));
    }
    let share = |count: usize| count as f64 / merges as f64;
    let rounds = share(rounds) / machine.places as f64;
    GateResults { stopped: share(stopped), unclear: share(unclear), rounds }
}

#[test]
fn merge_that_changes_nothing_is_stopped_once_in_a_thousand() {
    let mut table = merges_table("gate: no change");
    let machines = [
        (QUIET, 60_000),
        (Machine { scatter: 0.03, ..QUIET }, 30_000),
        (Machine { scatter: 0.08, drift: 0.1, ..QUIET }, 2_000),
        (Machine { tails: true, ..QUIET }, 2_000),
        (Machine { places: 4, ..QUIET }, 4_000),
        (Machine { places: 4, scatter: 0.03, ..QUIET }, 2_000),
    ];
    // Each machine has its own random numbers, so they can run in parallel.
    let gates = std::thread::scope(|scope| {
        let begun = machines
            .map(|(machine, merges)| scope.spawn(move || gated(machine, Merge::new(1.0), merges)));
        begun.map(|gate| gate.join().expect("no merge panics"))
    });
    for ((machine, merges), gated) in machines.into_iter().zip(gates) {
        row(&mut table, "the same", machine, gated);
        // Two standard errors: one of several machines may exceed the bound by chance.
        let allowed = FALSE_STOPS + 2.0 * (FALSE_STOPS / merges as f64).sqrt();
        assert!(gated.stopped <= allowed, "{machine:?}: {gated:?}");
    }
    table.hold();
}

#[test]
fn loss_of_a_twentieth_is_found_in_nine_of_ten() {
    let mut table = merges_table("gate: a loss");
    for machine in [
        QUIET,
        Machine { drift: 0.1, ..QUIET },
        Machine { scatter: 0.03, ..QUIET },
        Machine { scatter: 0.06, drift: 0.1, ..QUIET },
        Machine { scatter: 0.11, ..QUIET },
        Machine { tails: true, ..QUIET },
    ] {
        let less = Merge::new(1.0 - DETECT);
        let gated = gated(machine, less, if machine.scatter > 0.1 { 300 } else { 1_000 });
        row(&mut table, "5 % less", machine, gated);
        assert!(gated.stopped >= 0.9, "{machine:?}: {gated:?}");
        let caught = gated.stopped + gated.unclear;
        assert!(caught >= 0.998, "what is not found does not pass: {gated:?}");
    }
    table.hold();
}

/// If no allowed number of rounds suffices for the scatter, the gate gives up early.
#[test]
fn too_noisy_machine_is_not_kept_busy() {
    let gated = gated(Machine { scatter: 0.5, ..QUIET }, Merge::new(1.0), 1_000);
    assert!(gated.rounds < 20.0, "{gated:?}");
    assert!(gated.unclear > 0.99, "{gated:?}");
}

#[test]
fn unchanged_build_is_rarely_inconclusive() {
    for places in [1, 4, 12] {
        let gated = gated(Machine { places, ..QUIET }, Merge::new(1.0), 8_000 / places);
        assert!(gated.unclear <= 0.06, "{places}: {gated:?}");
    }
}

/// Builds that differ only in memory layout. A gate without a margin stopped a quarter of them.
#[test]
fn builds_that_differ_only_in_layout_are_not_stopped() {
    let even = Machine { scatter: 0.003, ..QUIET };
    let layout = Merge { layout: 0.01, ..Merge::new(1.0) };
    let exact = Merge { losses: Losses::exact(DETECT), ..layout };
    let mut table = merges_table("gate: layout");
    for (what, machine, merge, least, most) in [
        ("differs by N(0, 1 %), margin 0", even, exact, 0.2, 0.4),
        ("differs by N(0, 1 %)", even, layout, 0.0, 0.12),
        ("0.5 % less", even, Merge::new(0.995), 0.0, 0.001),
        ("1 % less", even, Merge::new(0.99), 0.0, 0.002),
        ("1 % less", QUIET, Merge::new(0.99), 0.0, 0.002),
        ("2 % less", even, Merge::new(0.98), 0.9, 1.0),
    ] {
        let gated = gated(machine, merge, 4_000);
        row(&mut table, what, machine, gated);
        assert!((least..=most).contains(&gated.stopped), "{what}: {gated:?}");
    }
    table.hold();
}

/// A build with occasional slow trials passes only if none of its trials is slow, and the printed unseen share is
/// correct.
#[test]
fn occasionally_slow_build_does_not_pass_silently() {
    let columns = ["trials at half speed", "stopped", "inconclusive", "passed"];
    let mut table = Table::on("trends.md", "gate: slow trials", &columns);
    for halved in [0.1, 0.2, 0.4] {
        let merge = Merge { halved, ..Merge::new(1.0) };
        let gated = gated(QUIET, merge, 4_000);
        let passed = 1.0 - gated.stopped - gated.unclear;
        let shares = [gated.stopped, gated.unclear, passed].map(|share| percent(share, 1));
        table.row([percent(halved, 0)].into_iter().chain(shares));
        let first = rounds(Losses::by_default(DETECT), SCATTER, 1);
        let none_slow = (1.0 - halved).powi(i32::try_from(first).unwrap());
        assert!(passed <= none_slow + 0.02, "{halved}: {gated:?}");
        if halved >= unseen_share(first as usize) {
            assert!(passed <= 0.05 + 0.01, "{halved}: {gated:?}");
        }
    }
    table.hold();
}

/// Draws a trial's share of failures: each of `operations` fails with probability `share`.
fn failed(share: f64, operations: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    let failures: f64 = match share * operations {
        0.0 => 0.0,
        mean => Poisson::new(mean).expect("it is finite").sample(rng),
    };
    failures / operations
}

/// Returns the shares of gates that stop for errors, and that are inconclusive. Base and new fail with these
/// probabilities, in the trials that fail at all.
fn stopped_for_errors(base: f64, new: f64, failing: f64) -> (f64, f64) {
    const GATES: usize = 4_000;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(31);
    let (mut stopped, mut unclear) = (0, 0);
    for _ in 0..GATES {
        let rounds = rounds(Losses::by_default(DETECT), SCATTER, 1);
        let mut of = |share: f64| {
            let fails = rng.random_range(0.0..1.0) < failing;
            failed(if fails { share } else { 0.0 }, 10_000.0, &mut rng)
        };
        let errors = (0..rounds).map(|_| (of(new), of(base))).collect();
        let even = (0..rounds).map(|_| (1.0, 1.0)).collect();
        let family = [(even, true, Scale::Ratio), (errors, false, Scale::Points)].map(
            |(trials, leading, scale)| Question { trials: Trials::ByRound(trials), leading, scale },
        );
        let interval = judge_at(&family, Correction::AtOnce, LEVEL)[1].expect("enough").interval;
        match lies(interval, false, 0.0, 0.001) {
            LimitPosition::Beyond => stopped += 1,
            LimitPosition::Across => unclear += 1,
            LimitPosition::Within => {}
        }
    }
    (stopped as f64 / GATES as f64, unclear as f64 / GATES as f64)
}

/// With `errors > +1%`, 0.9 % of new failures pass.
#[test]
fn more_failures_than_noise_stop_a_merge() {
    let columns = ["base fails", "new fails", "trials that fail", "stopped", "inconclusive"];
    let mut table = Table::on("trends.md", "gate: errors", &columns);
    for (base, new, failing, stops, passes) in [
        (0.0, 0.009, 1.0, (1.0, 1.0), 0.0),
        (0.0, 0.001, 1.0, (0.9, 1.0), 0.0),
        (0.0, 0.09, 0.1, (0.0, 0.01), 0.25),
        (0.0, 1e-5, 1.0, (0.0, 0.001), 1.0),
        (1e-5, 1e-5, 1.0, (0.0, 0.001), 1.0),
        (0.001, 0.001, 1.0, (0.0, 0.001), 0.9),
        (0.001, 0.001, 0.2, (0.0, 0.001), 0.5),
    ] {
        let (stopped, unclear) = stopped_for_errors(base, new, failing);
        let passed = 1.0 - stopped - unclear;
        let five_digits = |share: f64| format!("{} %", (share * 1e7).round() / 1e5);
        let [base_text, new_text] = [base, new].map(five_digits);
        let shares = [percent(failing, 0), percent(stopped, 2), percent(unclear, 1)];
        table.row([base_text, new_text].into_iter().chain(shares));
        assert!((stops.0..=stops.1).contains(&stopped), "{base} {new} {failing}: {stopped}");
        let holds = if passes < 0.5 { passed <= passes } else { passed >= passes };
        assert!(holds, "{base} {new} {failing}: {passed}");
    }
    table.hold();
}

fn merges_table(name: &'static str) -> Table {
    Table::on(
        "trends.md",
        name,
        &[
            "new does",
            "scatter",
            "drift",
            "slow trials",
            "workloads × loads",
            "trials of each",
            "stopped",
            "inconclusive",
        ],
    )
}

fn row(table: &mut Table, new: &str, machine: Machine, gated: GateResults) {
    let Machine { scatter, drift, tails, places } = machine;
    table.row([
        new.to_owned(),
        percent(scatter, 1),
        format!("±{}", percent(drift, 0)),
        if tails { "1 of 10" } else { "none" }.to_owned(),
        places.to_string(),
        format!("{:.0}", gated.rounds),
        percent(gated.stopped, 2),
        percent(gated.unclear, 1),
    ]);
}
