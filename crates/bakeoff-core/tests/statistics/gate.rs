//! How often a gate stops a merge that changed nothing, and how often it finds one that costs 5 %, where the
//! number of its rounds follows from the scatter that it sees. Simulated merges, seeded, so that the
//! same figures come out each time; `cargo test -p bakeoff-core --test statistics gate -- --nocapture` prints them
//! as `docs/method.md` has them.

#![allow(clippy::disallowed_macros, reason = "a table for the documentation is printed")]

use bakeoff_core::stats::gate::{
    DETECT, EXTENDED_MAX, FALSE_STOPS, LEVEL, Lies, SCATTER, extended, lies, rounds, shortfall,
};
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

impl Machine {
    /// Figures of new and of base in one round, where new does `ratio` of what base does.
    fn round(self, ratio: f64, rng: &mut Xoshiro256PlusPlus) -> (f64, f64) {
        let drift = rng.random_range(-1.0..=1.0) * self.drift;
        let mut trial = || {
            let slow = self.tails && rng.random_range(0..10) == 0;
            let noise: f64 = StandardNormal.sample(rng);
            (self.scatter * noise + drift).exp() * if slow { 0.8 } else { 1.0 }
        };
        (trial() * ratio, trial())
    }

    /// The rounds of one merge for each place, as many as `bakeoff gate` runs.
    fn merge(self, ratio: f64, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<(f64, f64)>> {
        let mut run = rounds(DETECT, SCATTER, self.places);
        let mut places = vec![Vec::new(); self.places];
        loop {
            for place in &mut places {
                let missing = run as usize - place.len();
                place.extend((0..missing).map(|_| self.round(ratio, rng)));
            }
            let lacks = places.iter().filter_map(|place| {
                let differences: Vec<f64> =
                    place.iter().map(|(new, base): &(f64, f64)| (new / base).ln()).collect();
                shortfall(&differences, DETECT, self.places)
            });
            let missing = lacks.map(|lacks| lacks.rounds).max().unwrap_or(0);
            match extended(run, missing, EXTENDED_MAX) {
                Some(more) => run = more,
                None => return places,
            }
        }
    }
}

/// Results of merges.
#[derive(Debug, Clone, Copy)]
struct Gated {
    /// The share that is stopped.
    stopped: f64,
    /// The share that nobody can tell of.
    unclear: f64,
    /// The mean number of rounds.
    rounds: f64,
}

fn gated(machine: Machine, ratio: f64, merges: usize) -> Gated {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20 + machine.places as u64);
    let (mut stopped, mut unclear, mut rounds) = (0, 0, 0);
    for _ in 0..merges {
        let mut family = Vec::new();
        for place in machine.merge(ratio, &mut rng) {
            // Nothing failed.
            let errors = Trials::ByRound(vec![(0.0, 0.0); place.len()]);
            rounds += place.len();
            let trials = Trials::ByRound(place);
            family.push(Question { trials, leading: true, scale: Scale::Ratio });
            family.push(Question { trials: errors, leading: false, scale: Scale::Points });
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
    let share = |count: usize| count as f64 / merges as f64;
    let rounds = share(rounds) / machine.places as f64;
    Gated { stopped: share(stopped), unclear: share(unclear), rounds }
}

#[test]
fn a_merge_that_changes_nothing_is_stopped_once_in_a_thousand() {
    println!(
        "| new does | scatter | drift | slow trials | places | trials | stopped | nobody can tell |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let machines = [
        (QUIET, 60_000),
        (Machine { scatter: 0.03, ..QUIET }, 30_000),
        (Machine { scatter: 0.08, drift: 0.1, ..QUIET }, 2_000),
        (Machine { tails: true, ..QUIET }, 2_000),
        (Machine { places: 4, ..QUIET }, 4_000),
        (Machine { places: 4, scatter: 0.03, ..QUIET }, 2_000),
    ];
    // Each machine has a sequence of random numbers of its own, so that they can be had at once.
    let gates = std::thread::scope(|scope| {
        let begun =
            machines.map(|(machine, merges)| scope.spawn(move || gated(machine, 1.0, merges)));
        begun.map(|gate| gate.join().expect("no merge panics"))
    });
    for ((machine, merges), gated) in machines.into_iter().zip(gates) {
        print("the same", machine, gated);
        // Two standard errors: of several machines one may exceed the bound by chance.
        let allowed = FALSE_STOPS + 2.0 * (FALSE_STOPS / merges as f64).sqrt();
        assert!(gated.stopped <= allowed, "{machine:?}: {gated:?}");
    }
}

#[test]
fn a_loss_of_a_twentieth_is_found_in_nine_of_ten() {
    for machine in [
        QUIET,
        Machine { drift: 0.1, ..QUIET },
        Machine { scatter: 0.03, ..QUIET },
        Machine { scatter: 0.06, drift: 0.1, ..QUIET },
        Machine { scatter: 0.11, ..QUIET },
        Machine { tails: true, ..QUIET },
    ] {
        let gated = gated(machine, 1.0 - DETECT, if machine.scatter > 0.1 { 300 } else { 1_000 });
        print("5 % less", machine, gated);
        assert!(gated.stopped >= 0.9, "{machine:?}: {gated:?}");
        let caught = gated.stopped + gated.unclear;
        assert!(caught >= 0.998, "what is not found does not pass: {gated:?}");
    }
}

/// Where figures scatter so much that no allowed number of rounds suffices, nobody waits for them.
#[test]
fn a_machine_too_noisy_for_the_question_is_not_kept_busy() {
    let gated = gated(Machine { scatter: 0.5, ..QUIET }, 1.0, 1_000);
    assert!(gated.rounds < 20.0, "{gated:?}");
    assert!(gated.unclear > 0.99, "{gated:?}");
}

#[test]
fn where_nothing_changed_somebody_can_tell() {
    for places in [1, 4, 12] {
        let gated = gated(Machine { places, ..QUIET }, 1.0, 8_000 / places);
        assert!(gated.unclear <= 0.06, "{places}: {gated:?}");
    }
}

fn print(new: &str, machine: Machine, gated: Gated) {
    let Machine { scatter, drift, tails, places } = machine;
    let tails = if tails { "1 of 10" } else { "none" };
    println!(
        "| {new} | {:.1} % | ±{:.0} % | {tails} | {places} | {:.0} | {:.2} % | {:.1} % |",
        scatter * 100.0,
        drift * 100.0,
        gated.rounds,
        gated.stopped * 100.0,
        gated.unclear * 100.0
    );
}
