//! How often a gate stops a merge that changed nothing, and how often it finds one that costs 5 %, at its
//! default number of rounds. Simulated merges, seeded, so that the same figures come out each time;
//! `cargo test -p bakeoff-core --test gate -- --nocapture` prints them as `docs/method.md` has them.

#![allow(clippy::disallowed_macros, reason = "a table for the documentation is printed")]

use bakeoff_core::stats::gate::{DETECT, FALSE_STOPS, LEVEL, Lies, SCATTER, lies, rounds};
use bakeoff_core::stats::judge::{Correction, Question, Scale, Trials, judge_at};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Merges on a machine.
#[derive(Debug, Clone, Copy)]
struct Machine {
    /// From trial to trial, as a part of the figure.
    scatter: f64,
    /// How far a round may be from others, both builds alike.
    drift: f64,
    /// Whether one trial of ten is 20 % slower.
    tails: bool,
    /// Workloads and loads of the study: each has a leading figure that scatters by itself.
    places: usize,
}

const QUIET: Machine = Machine { scatter: SCATTER, drift: 0.0, tails: false, places: 1 };

/// The shares of merges that are stopped, and that nobody can tell of, when new does `ratio` of what
/// base does.
fn gated(machine: Machine, ratio: f64, merges: usize) -> (f64, f64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20 + machine.places as u64);
    let rounds = rounds(DETECT, SCATTER, machine.places);
    let (mut stopped, mut unclear) = (0, 0);
    for _ in 0..merges {
        let mut family = Vec::new();
        for _ in 0..machine.places {
            let pairs = (0..rounds).map(|_| {
                let drift = rng.random_range(-1.0..=1.0) * machine.drift;
                let mut trial = || {
                    let slow = machine.tails && rng.random_range(0..10) == 0;
                    let noise: f64 = StandardNormal.sample(&mut rng);
                    (machine.scatter * noise + drift).exp() * if slow { 0.8 } else { 1.0 }
                };
                (trial() * ratio, trial())
            });
            let trials = Trials::ByRound(pairs.collect());
            family.push(Question { trials, leading: true, scale: Scale::Ratio });
            // Nothing failed.
            let trials = Trials::ByRound(vec![(0.0, 0.0); rounds as usize]);
            family.push(Question { trials, leading: false, scale: Scale::Points });
        }
        let answers = judge_at(&family, Correction::AtOnce, LEVEL);
        let found: Vec<Lies> = answers
            .iter()
            .step_by(2)
            .map(|answer| {
                let (low, high) = answer.expect("there are enough rounds").interval;
                lies((low - 1.0, high - 1.0), true, 0.0, DETECT)
            })
            .collect();
        let errors = answers[1].expect("there are enough rounds").interval;
        assert_eq!(lies(errors, false, 0.01, 0.001), Lies::Within);
        stopped += usize::from(found.contains(&Lies::Beyond));
        unclear += usize::from(!found.contains(&Lies::Beyond) && found.contains(&Lies::Across));
    }
    (stopped as f64 / merges as f64, unclear as f64 / merges as f64)
}

#[test]
fn a_merge_that_changes_nothing_is_stopped_once_in_a_thousand() {
    println!("| scatter | drift | slow trials | places | rounds | stopped | nobody can tell |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (machine, merges) in [
        (QUIET, 100_000),
        (Machine { scatter: 0.05, drift: 0.1, ..QUIET }, 40_000),
        (Machine { tails: true, ..QUIET }, 40_000),
        (Machine { places: 4, ..QUIET }, 20_000),
    ] {
        let (stopped, unclear) = gated(machine, 1.0, merges);
        print(machine, stopped, unclear);
        // Two standard errors: of several machines one may exceed the bound by chance.
        let allowed = FALSE_STOPS + 2.0 * (FALSE_STOPS / merges as f64).sqrt();
        assert!(stopped <= allowed, "{machine:?}: {stopped}");
    }
}

#[test]
fn a_loss_of_a_twentieth_is_found_in_nine_of_ten() {
    for machine in [QUIET, Machine { drift: 0.1, ..QUIET }] {
        let (found, unclear) = gated(machine, 1.0 - DETECT, 20_000);
        print(machine, found, unclear);
        assert!(found >= 0.9, "{machine:?}: {found}");
        assert!(found + unclear >= 0.998, "what is not found does not pass: {found} {unclear}");
    }
}

#[test]
fn where_nothing_changed_somebody_can_tell() {
    for places in [1, 4, 12] {
        let (_, unclear) = gated(Machine { places, ..QUIET }, 1.0, 20_000 / places);
        assert!(unclear <= 0.06, "{places}: {unclear}");
    }
}

fn print(machine: Machine, stopped: f64, unclear: f64) {
    let Machine { scatter, drift, tails, places } = machine;
    let tails = if tails { "1 of 10" } else { "none" };
    println!(
        "| {:.1} % | ±{:.0} % | {tails} | {places} | {} | {:.2} % | {:.1} % |",
        scatter * 100.0,
        drift * 100.0,
        rounds(DETECT, SCATTER, places),
        stopped * 100.0,
        unclear * 100.0
    );
}
