//! Adaptive runs, simulated: false claims in them, and the rounds that they save.

use bakeoff_core::stats::judge::{
    Correction, Finding, Question, Scale, TestResult, Trials, judge, judge_at,
};
use bakeoff_core::stats::sequential::{is_answered, level, looks_after};
use bakeoff_core::workload::mix64;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::evidence::{Table, percent};

/// Repetitions of a case without a difference. At a true share of 5 % the standard error is 0.4 %.
const REPETITIONS: usize = 3000;
/// Repetitions of a case with one. At a share of 50 % the standard error is 2.2 %.
const REPETITIONS_FOUND: usize = 500;
const METRICS: usize = 5;

/// The result of a simulated run.
struct Run {
    rounds: u32,
    any_declared: bool,
    first_excluded: bool,
    first_declared: bool,
}

/// Returns the family of all pairs of systems after some rounds. The first metric leads.
fn family(figures: &[Vec<Vec<f64>>], rounds: usize) -> Vec<Question> {
    let mut family = Vec::new();
    for (place, a) in figures.iter().enumerate() {
        for b in &figures[place + 1..] {
            for metric in 0..METRICS {
                let pairs = a[metric].iter().zip(&b[metric]).take(rounds);
                let trials = Trials::ByRound(pairs.map(|(a, b)| (a.exp(), b.exp())).collect());
                family.push(Question { trials, leading: metric == 0, scale: Scale::Ratio });
            }
        }
    }
    family
}

/// The rule by which a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Runs all rounds.
    Never,
    /// The earlier rule: also if a difference of 5 % is excluded.
    Excluded,
    /// The rule of `bakeoff_core::stats::sequential`.
    Proven,
}

/// Returns true if the interval of an answer excludes a difference of 5 %.
fn excludes(answer: &TestResult) -> bool {
    answer.interval.0 > 1.0 / 1.05 && answer.interval.1 < 1.05
}

fn run(figures: &[Vec<Vec<f64>>], most: u32, stop: Stop) -> Run {
    let judged = |rounds: u32, at: Option<f64>| {
        let family = family(figures, rounds as usize);
        let answers: Vec<TestResult> = match at {
            Some(level) => judge_at(&family, Correction::Steps, level),
            None => judge(&family, Correction::Steps),
        }
        .into_iter()
        .flatten()
        .collect();
        (family, answers)
    };
    let ended = |rounds, answers: &[TestResult]| {
        let declared = |one: &TestResult| !matches!(one.finding, Finding::NoneShown { .. });
        Run {
            rounds,
            any_declared: answers.iter().any(declared),
            first_excluded: excludes(&answers[0]),
            first_declared: declared(&answers[0]),
        }
    };
    if stop == Stop::Never {
        return ended(most, &judged(most, None).1);
    }
    for rounds in (1..most).filter(|&rounds| looks_after(rounds, most)) {
        let (family, answers) = judged(rounds, Some(level(Some(rounds), most)));
        let mut leading = family.iter().zip(&answers).filter(|(one, _)| one.leading);
        let ends = |answer| is_answered(answer) || stop == Stop::Excluded && excludes(answer);
        if leading.all(|(_, answer)| ends(answer)) {
            return ended(rounds, &answers);
        }
    }
    ended(most, &judged(most, Some(level(None, most))).1)
}

#[test]
fn adaptive_run_makes_no_more_false_claims_and_saves_rounds() {
    let allowed = 0.05 + 3.0 * (0.05_f64 * 0.95 / REPETITIONS as f64).sqrt();
    let mut table = Table::new(
        "adaptive",
        &[
            "systems",
            "rounds at most",
            "noise",
            "difference",
            "rounds run",
            "found",
            "found, fixed",
            "false claims",
        ],
    );
    for (systems, most) in [(2, 5), (3, 7)] {
        for noise in [0.01, 0.03, 0.05] {
            for ratio in [1.0_f64, 1.1, 1.25, 2.0] {
                let seed = mix64(u64::from(most) ^ (noise * 1e4) as u64 ^ (ratio * 1e6) as u64);
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                let (mut rounds, mut any, mut found, mut fixed) = (0, 0, 0, 0);
                let same = ratio == 1.0;
                let repetitions = if same { REPETITIONS } else { REPETITIONS_FOUND };
                for _ in 0..repetitions {
                    let mut figures = vec![vec![vec![0.0; most as usize]; METRICS]; systems];
                    for log in figures.iter_mut().flatten().flatten() {
                        let normal: f64 = StandardNormal.sample(&mut rng);
                        *log = noise * normal;
                    }
                    figures[0][0].iter_mut().for_each(|log| *log += ratio.ln());
                    let adaptive = run(&figures, most, Stop::Proven);
                    rounds += adaptive.rounds;
                    any += usize::from(adaptive.any_declared);
                    found += usize::from(adaptive.first_declared);
                    if !same {
                        fixed += usize::from(run(&figures, most, Stop::Never).first_declared);
                    }
                }
                let share = |count: usize| count as f64 / repetitions as f64;
                table.row([
                    systems.to_string(),
                    most.to_string(),
                    percent(noise, 0),
                    if same { "none".to_owned() } else { percent(ratio - 1.0, 0) },
                    format!("{:.1}", f64::from(rounds) / repetitions as f64),
                    if same { String::new() } else { percent(share(found), 1) },
                    if same { String::new() } else { percent(share(fixed), 1) },
                    if same { percent(share(any), 1) } else { String::new() },
                ]);
                if same {
                    assert!(share(any) <= allowed, "{systems} systems, {noise}: {}", share(any));
                } else {
                    assert!(share(found) >= share(fixed) - 0.1, "{noise} {ratio}: {found} {fixed}");
                }
            }
        }
    }
    table.hold();
}

/// A system that starts slowly now and then looks equal until a slow start appears.
#[test]
fn few_rounds_rule_out_no_slow_starts() {
    const MOST: u32 = 7;
    let columns = ["stops", "rounds run", "says that 5 % are excluded"];
    let mut table = Table::new("slow starts", &columns);
    let mut shares = Vec::new();
    for (stop, name) in [
        (Stop::Excluded, "if a difference is proven, or one of 5 % excluded"),
        (Stop::Proven, "if a difference is proven"),
        (Stop::Never, "never"),
    ] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(59);
        let (mut excluded, mut rounds) = (0, 0);
        for _ in 0..REPETITIONS {
            let mut figures = vec![vec![vec![0.0; MOST as usize]; METRICS]; 2];
            for log in figures.iter_mut().flatten().flatten() {
                let normal: f64 = StandardNormal.sample(&mut rng);
                *log = 0.005 * normal;
            }
            for log in &mut figures[0][0] {
                // Three of ten starts are slower by 26 %.
                *log += if rng.random_bool(0.3) { 0.74_f64.ln() } else { 0.0 };
            }
            let run = run(&figures, MOST, stop);
            excluded += usize::from(run.first_excluded);
            rounds += run.rounds;
        }
        let share = excluded as f64 / REPETITIONS as f64;
        let rounds = format!("{:.1}", f64::from(rounds) / REPETITIONS as f64);
        table.row([name.to_owned(), rounds, percent(share, 1)]);
        shares.push(share);
    }
    table.hold();
    // 0.7 to the power of 7: the runs without a slow start.
    assert!(shares[1] <= 0.1, "{shares:?}");
    assert!(shares[0] > 2.0 * shares[1], "{shares:?}");
}
