//! Calibrates the statistics: how often a difference is declared without one, and how often one of 10 % is found, at
//! the shipped numbers of trials. Trials are simulated with seeds, so the figures are reproducible. The tables are in
//! `docs/evidence/statistics.md`.

use bakeoff_core::stats::judge::{
    Correction, FALSE_ALARMS, Finding, LEADING_SHARE, Question, SEEN_WITH, Scale, TestResult,
    Trials, alone, declared_together, judge,
};
use bakeoff_core::stats::rounds::{Preference, Rounds, Yield};
use bakeoff_core::workload::mix64;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::evidence::{Table, percent};

/// Repetitions per case. At a true share of 5 % the standard error is 0.4 %.
const REPETITIONS: usize = 3000;
/// Number of figures of each pair of systems.
const METRICS: usize = 5;

/// Describes trials of systems on a machine.
#[derive(Debug, Clone, Copy)]
struct Case {
    systems: usize,
    trials: usize,
    /// Coefficient of variation of a figure.
    noise: f64,
    /// Maximum shift of a round, common to all systems.
    drift: f64,
    /// True if one trial of ten is 20 % slower.
    tails: bool,
    /// True if the metrics of a trial deviate together.
    alike: bool,
}

impl Case {
    /// Draws logarithms of figures: by system, metric and round.
    fn draw(self, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<Vec<f64>>> {
        let mut figures = vec![vec![vec![0.0; self.trials]; METRICS]; self.systems];
        for round in 0..self.trials {
            let drift = rng.random_range(-1.0..=1.0) * self.drift;
            for system in &mut figures {
                let slow =
                    if self.tails && rng.random_range(0..10) == 0 { 0.8_f64.ln() } else { 0.0 };
                let mut normal = || -> f64 { StandardNormal.sample(rng) };
                let shared = normal();
                let (common, own) = if self.alike { (0.8_f64, 0.2_f64) } else { (0.0, 1.0) };
                for metric in system.iter_mut() {
                    let noise = common.sqrt() * shared + own.sqrt() * normal();
                    metric[round] = self.noise * noise + drift + slow;
                }
            }
        }
        figures
    }

    /// Returns the shares of repetitions that declare anything, and that declare the throughput of the first two
    /// systems different. The first system is higher by `ratio`; nothing else differs.
    fn shares(self, ratio: f64) -> (f64, f64) {
        // Each case has its own noise, so that they do not share a lucky draw.
        let name = format!("{self:?} {ratio}");
        let seed = name.bytes().fold(0, |seed, byte| mix64(seed ^ u64::from(byte)));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut any, mut first) = (0, 0);
        for _ in 0..REPETITIONS {
            let mut figures = self.draw(&mut rng);
            figures[0][0].iter_mut().for_each(|log| *log += ratio.ln());
            let mut family = Vec::new();
            for (place, a) in figures.iter().enumerate() {
                for b in &figures[place + 1..] {
                    for (metric, (a, b)) in a.iter().zip(b).enumerate() {
                        let rounds = a.iter().zip(b).map(|(a, b)| (a.exp(), b.exp())).collect();
                        let trials = Trials::ByRound(rounds);
                        let leading = metric == 0;
                        family.push(Question { trials, leading, scale: Scale::Ratio });
                    }
                }
            }
            let answers = judge(&family, Correction::Steps);
            let declared: Vec<bool> = answers
                .iter()
                .flatten()
                .map(|answer| {
                    let excludes = answer.interval.0 > 1.0 || answer.interval.1 < 1.0;
                    let declared = !matches!(answer.finding, Finding::NoneShown { .. });
                    assert_eq!(excludes, declared, "what is printed is what is declared by");
                    declared
                })
                .collect();
            any += usize::from(declared.contains(&true));
            first += usize::from(answers[0].is_some_and(|one| one.finding == Finding::Higher));
        }
        (any as f64 / REPETITIONS as f64, first as f64 / REPETITIONS as f64)
    }
}

/// Machines to test: quiet, noisy, drifting, with slow trials, and all combined.
const MACHINES: [(f64, f64, bool); 6] = [
    (0.01, 0.0, false),
    (0.03, 0.0, false),
    (0.05, 0.0, false),
    (0.03, 0.1, false),
    (0.03, 0.0, true),
    (0.03, 0.1, true),
];

#[test]
fn system_differs_from_itself_in_at_most_one_family_of_twenty() {
    // Three standard errors: the bound itself is tested, and one of many cases may exceed it.
    let allowed = 0.05 + 3.0 * (0.05_f64 * 0.95 / REPETITIONS as f64).sqrt();
    let (mut sum, mut count) = (0.0, 0.0);
    let mut table = Table::new(
        "false alarms",
        &[
            "systems",
            "trials",
            "noise",
            "drift",
            "slow trials",
            "figures",
            "false alarms",
            "10 % found",
        ],
    );
    for (systems, trials) in [(2, 5), (3, 7)] {
        for (noise, drift, tails) in MACHINES {
            // Metrics that deviate together are tested once, because they cause fewer false alarms.
            for alike in [false, true] {
                if alike && (noise, drift, tails) != MACHINES[1] {
                    continue;
                }
                let case = Case { systems, trials, noise, drift, tails, alike };
                let (alarms, _) = case.shares(1.0);
                let (_, found) = case.shares(1.1);
                table.row([
                    systems.to_string(),
                    trials.to_string(),
                    percent(noise, 0),
                    format!("±{}", percent(drift, 0)),
                    if tails { "1 of 10" } else { "none" }.to_owned(),
                    if alike { "alike" } else { "independent" }.to_owned(),
                    percent(alarms, 1),
                    percent(found, 1),
                ]);
                assert!(alarms <= allowed, "{case:?}: {alarms}");
                (sum, count) = (sum + alarms, count + 1.0);
            }
        }
    }
    assert!(sum / count <= 0.05, "all cases together: {}", sum / count);
    table.hold();
}

#[test]
fn difference_of_a_tenth_is_found_in_nine_of_ten() {
    for (systems, trials) in [(2, 5), (3, 7)] {
        for drift in [0.0, 0.05, 0.1] {
            let case = Case { systems, trials, noise: 0.03, drift, tails: false, alike: false };
            let (_, found) = case.shares(1.1);
            assert!(found >= 0.9, "{case:?}: {found}");
        }
    }
}

/// Simulates pairs of runs of one system with the scatter `between` from run to run and `within` from trial to trial.
/// Returns the share of pairs with any difference declared. `earlier` runs of the study are known, including the
/// base; without them only the two runs' trials are used.
fn alarms_of_two_runs(between: f64, within: f64, trials: usize, earlier: usize) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7 + earlier as u64);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut run = || -> Vec<f64> {
        let of_the_run = between * normal();
        (0..trials).map(|_| (of_the_run + within * normal()).exp()).collect()
    };
    let mut alarms = 0;
    for _ in 0..REPETITIONS {
        let family: Vec<Question> = (0..METRICS)
            .map(|metric| {
                let (first, runs) = (run(), (0..earlier.max(1)).map(|_| run()).collect::<Vec<_>>());
                let second = runs[0].clone();
                let trials = match earlier {
                    0 => Trials::Apart(first, second),
                    _ => Trials::Runs { first, second, runs },
                };
                Question { trials, leading: metric == 0, scale: Scale::Ratio }
            })
            .collect();
        let answers = judge(&family, Correction::AtOnce);
        let declared = answers.iter().map(|answer| answer.expect("there are enough trials"));
        let any =
            declared.map(|one| one.finding).any(|of| !matches!(of, Finding::NoneShown { .. }));
        alarms += usize::from(any);
    }
    alarms as f64 / REPETITIONS as f64
}

/// Trials of one run do not show differences between runs.
#[test]
fn two_runs_of_the_same_differ_in_at_most_one_family_of_twenty() {
    let by_trials = alarms_of_two_runs(0.05, 0.01, 5, 0);
    let mut table =
        Table::new("two runs", &["known runs", "runs apart by", "trials apart by", "false alarms"]);
    let mut row = |known: &str, between: f64, within: f64, alarms: f64| {
        let cells = [percent(between, 0), percent(within, 0), percent(alarms, 1)];
        table.row([known.to_owned()].into_iter().chain(cells));
    };
    row("none: by trials alone", 0.05, 0.01, by_trials);
    assert!(by_trials > 0.9, "{by_trials}");
    for earlier in [5, 8, 30] {
        for (between, within) in [(0.05, 0.01), (0.01, 0.03), (0.0, 0.03)] {
            let alarms = alarms_of_two_runs(between, within, 5, earlier);
            row(&earlier.to_string(), between, within, alarms);
            assert!(alarms <= 0.05, "{between} {within} {earlier}: {alarms}");
        }
    }
    table.hold();
}

/// A change by a fifth is found if runs scatter by 2 % and eight are known.
#[test]
fn change_between_two_runs_is_found() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut run = |log: f64| -> Vec<f64> {
        let of_the_run = log + 0.02 * normal();
        (0..5).map(|_| (of_the_run + 0.01 * normal()).exp()).collect()
    };
    let found = (0..REPETITIONS).filter(|_| {
        let runs: Vec<Vec<f64>> = (0..8).map(|_| run(0.0)).collect();
        let (first, second) = (run(0.8_f64.ln()), runs[7].clone());
        let trials = Trials::Runs { first, second, runs };
        let question = Question { trials, leading: true, scale: Scale::Ratio };
        judge(&[question], Correction::AtOnce)[0].is_some_and(|one| one.finding == Finding::Lower)
    });
    let share = found.count() as f64 / REPETITIONS as f64;
    assert!(share >= 0.9, "{share}");
}

/// Simulates trials that are slow with this probability, by 10 to 50 %.
#[derive(Debug, Clone, Copy)]
struct NowAndThen(f64);

impl NowAndThen {
    /// Draws the logarithm of a trial's figure.
    fn draw(self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        let noise: f64 = StandardNormal.sample(rng);
        let slow = rng.random_range(0.0..1.0) < self.0;
        0.03 * noise + if slow { rng.random_range(0.5_f64..0.9).ln() } else { 0.0 }
    }
}

/// Describes minimum detectable effects of runs that show no difference.
#[derive(Debug, Clone, Copy)]
struct Effect {
    holds: f64,
    slow: f64,
    holds_without: f64,
    by_the_true_one: f64,
}

/// Returns the share of runs without a shown difference whose minimum detectable effect holds: a difference that
/// large is declared with probability [`SEEN_WITH`] or more. Also returns the share of these runs with a slow trial,
/// and the share that holds among runs without one.
///
/// The last figure is the median ratio of the effects to the true one, because a guarantee of everything would hold,
/// too.
fn effect_holds(rounds: usize, trials: NowAndThen) -> Effect {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(rounds as u64);
    let run = |rng: &mut Xoshiro256PlusPlus, more: f64| {
        let logs: Vec<(f64, f64)> =
            (0..rounds).map(|_| (trials.draw(rng), trials.draw(rng))).collect();
        let slow = logs.iter().any(|&(a, b)| a.min(b) < 0.9_f64.ln());
        let figures = logs.into_iter().map(|(a, b)| ((a + more).exp(), b.exp())).collect();
        let found = alone(&Trials::ByRound(figures), Scale::Ratio, FALSE_ALARMS);
        (found.expect("there are enough").finding, slow)
    };
    // Find the difference that these rounds declare with that probability.
    let seen = |rng: &mut Xoshiro256PlusPlus, more: f64| {
        let declared = (0..4000).filter(|_| run(rng, more).0 == Finding::Higher);
        declared.count() as f64 / 4000.0
    };
    let (mut low, mut high) = (0.0, 2.0);
    for _ in 0..13 {
        let middle = f64::midpoint(low, high);
        if seen(&mut rng, middle) < SEEN_WITH { low = middle } else { high = middle }
    }
    let (mut none, mut held, mut effects) = ([0.0; 2], [0.0; 2], Vec::new());
    for _ in 0..REPETITIONS {
        if let (Finding::NoneShown { min_detectable }, slow) = run(&mut rng, 0.0) {
            none[usize::from(slow)] += 1.0;
            effects.push(min_detectable.ln() / high);
            held[usize::from(slow)] += f64::from(u8::from(min_detectable.ln() >= high));
        }
    }
    let all = none[0] + none[1];
    effects.sort_unstable_by(f64::total_cmp);
    Effect {
        holds: (held[0] + held[1]) / all,
        slow: none[1] / all,
        holds_without: held[0] / none[0],
        by_the_true_one: effects[effects.len() / 2],
    }
}

#[test]
fn minimum_detectable_effect_is_detected_if_trials_scatter_evenly() {
    let mut table = Table::new("even scatter", &["rounds", "the guarantee holds"]);
    for rounds in [3_usize, 5, 7, 12] {
        let effect = effect_holds(rounds, NowAndThen(0.0));
        table.row([rounds.to_string(), percent(effect.holds, 1)]);
        // Two standard errors: the bound itself is tested.
        let allowed = SEEN_WITH - 2.0 * (SEEN_WITH * (1.0 - SEEN_WITH) / REPETITIONS as f64).sqrt();
        assert!(effect.holds >= allowed, "{rounds} rounds: {effect:?}");
        let most = if rounds == 3 { 4.0 } else { 2.5 };
        assert!(effect.by_the_true_one < most, "{rounds} rounds: {effect:?}");
    }
    table.hold();
}

/// Occasional slow trials void the guarantee, so its text has a condition. It fails if no trial of the run happened
/// to be slow, because then nothing reveals slow ones.
#[test]
fn minimum_detectable_effect_is_too_small_if_trials_are_slow_now_and_then() {
    let mut table = Table::new(
        "slow trials",
        &[
            "slow trials",
            "rounds",
            "runs with one",
            "the guarantee holds",
            "holds in runs without one",
        ],
    );
    for share in [0.05, 0.1] {
        for rounds in [5_usize, 7, 12] {
            let Effect { holds, slow, holds_without, .. } = effect_holds(rounds, NowAndThen(share));
            let [slow, holds_text, without] =
                [slow, holds, holds_without].map(|part| percent(part, 1));
            table.row([percent(share, 0), rounds.to_string(), slow, holds_text, without]);
            assert!(holds < SEEN_WITH, "{share} {rounds}: {holds}");
        }
    }
    table.hold();
}

/// Counts how often a system is declared different from itself if trials are occasionally slow.
#[test]
fn trials_that_are_slow_now_and_then_raise_no_false_alarm() {
    let mut table =
        Table::new("slow trials, no difference", &["slow trials", "rounds", "false alarms"]);
    for (share, rounds) in [(0.05, 5), (0.1, 5), (0.05, 7), (0.1, 7), (0.1, 12)] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(rounds as u64);
        let alarms = (0..REPETITIONS).filter(|_| {
            let family: Vec<Question> = (0..METRICS)
                .map(|metric| {
                    let mut figure = || NowAndThen(share).draw(&mut rng).exp();
                    let trials = (0..rounds).map(|_| (figure(), figure())).collect();
                    let trials = Trials::ByRound(trials);
                    Question { trials, leading: metric == 0, scale: Scale::Ratio }
                })
                .collect();
            let declared = |one: TestResult| !matches!(one.finding, Finding::NoneShown { .. });
            judge(&family, Correction::Steps).into_iter().flatten().any(declared)
        });
        let alarms = alarms.count() as f64 / REPETITIONS as f64;
        table.row([percent(share, 0), rounds.to_string(), percent(alarms, 1)]);
        assert!(alarms <= 0.05, "{share} {rounds}: {alarms}");
    }
    table.hold();
}

/// Returns three shares of reports over `families` families of two systems each. First, reports with a false leading
/// claim that is said to hold for the whole report. Then reports that find a difference of 10 %: in one family among
/// others without any, and in one of families that all have it.
fn over_families(families: usize) -> (f64, f64, f64) {
    let case = Case { systems: 2, trials: 5, noise: 0.03, drift: 0.0, tails: false, alike: false };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(families as u64);
    let mut declared = |ratio: &dyn Fn(usize) -> f64, counted: &dyn Fn(usize) -> bool| {
        let reports = (0..REPETITIONS / 3).filter(|_| {
            let answer = |place: usize| {
                let mut figures = case.draw(&mut rng);
                figures[0][0].iter_mut().for_each(|log| *log += ratio(place).ln());
                let question = |metric: usize| {
                    let rounds = figures[0][metric].iter().zip(&figures[1][metric]);
                    let rounds = rounds.map(|(a, b)| (a.exp(), b.exp())).collect();
                    Question {
                        trials: Trials::ByRound(rounds),
                        leading: metric == 0,
                        scale: Scale::Ratio,
                    }
                };
                let family: Vec<Question> = (0..METRICS).map(question).collect();
                judge(&family, Correction::Steps)[0].expect("there are enough trials")
            };
            let answers: Vec<_> = (0..families).map(answer).collect();
            let p_values: Vec<f64> = answers.iter().map(|answer| answer.p_value).collect();
            let together = declared_together(&p_values, FALSE_ALARMS);
            (0..families).any(|place| {
                let claimed = !matches!(answers[place].finding, Finding::NoneShown { .. });
                counted(place) && claimed && together[place]
            })
        });
        reports.count() as f64 / (REPETITIONS / 3) as f64
    };
    let alarms = declared(&|_| 1.0, &|_| true);
    let one = declared(&|place| if place == 0 { 1.1 } else { 1.0 }, &|place| place == 0);
    (alarms, one, declared(&|_| 1.1, &|place| place == 0))
}

#[test]
fn headline_claims_of_a_report_are_false_in_at_most_one_report_of_twenty() {
    let columns =
        ["families", "any false", "10 % found, in one of them", "10 % found, where all have it"];
    let mut table = Table::new("families", &columns);
    for families in [1, 4, 12] {
        let (alarms, one, all) = over_families(families);
        let shares = [alarms, one, all].map(|share| percent(share, 1));
        table.row([families.to_string()].into_iter().chain(shares));
        assert!(alarms <= 0.05 + 3.0 * 0.0069, "{families}: {alarms}");
    }
    table.hold();
}

/// Returns how often a system that is `ratio` times as fast is declared faster, although every third of its trials,
/// or each with a probability of a third, is not valid and has half its figure.
fn declared_in_spite_of(ratio: f64, fate: fn(f64) -> Yield, by_chance: bool) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(23);
    let declared = (0..REPETITIONS).filter(|_| {
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let round = |round: u32| {
            let (a, b) = (ratio * (0.01 * normal()).exp(), (0.01 * normal()).exp());
            let falls = if by_chance { normal() < -0.430_727 } else { round % 3 == 2 };
            (if falls { fate(a / 2.0) } else { Yield::Valid(a) }, Yield::Valid(b))
        };
        let rounds = Rounds((0..7).map(round).collect());
        let trials = Trials::ByRound(rounds.valid());
        // With two systems, throughput gets four of the five percent.
        let answer = alone(&trials, Scale::Ratio, FALSE_ALARMS * LEADING_SHARE);
        answer.is_some_and(|answer| {
            answer.finding == Finding::Higher
                && rounds.withheld(&answer, Scale::Ratio, Preference::More).is_none()
        })
    });
    declared.count() as f64 / REPETITIONS as f64
}

/// A system that is 5 % faster but collapses in every third trial is not better. A machine that disturbs every third
/// round changes nothing.
#[test]
fn collapsing_system_is_not_declared_faster() {
    let columns = ["every third trial of seven is", "declared 5 % faster"];
    let mut table = Table::new("invalid trials", &columns);
    for (what, fate, least, most) in [
        ("valid, at half its figure", Yield::Valid as fn(f64) -> Yield, 0.0, 0.05),
        ("disturbed by the machine", |_| Yield::Dropped, 0.9, 1.0),
        ("failed by the system itself", |_| Yield::Failed, 0.0, 0.0),
        ("not steady, cause unclear", |figure| Yield::Unclear(Some(figure)), 0.0, 0.05),
    ] {
        let share = declared_in_spite_of(1.05, fate, false);
        table.row([what.to_owned(), percent(share, 1)]);
        assert!(share >= least && share <= most, "{what}: {share}");
    }
    // By chance one run of 17 has no failed trial, so the failure is not visible.
    let share = declared_in_spite_of(1.05, |_| Yield::Failed, true);
    table.row([
        "failed by the system itself, each with a probability of a third".to_owned(),
        percent(share, 1),
    ]);
    table.hold();
    assert!(share <= 0.07, "{share}");
    // A system that is ten times as fast remains so with unsteady trials.
    let share = declared_in_spite_of(10.0, |figure| Yield::Unclear(Some(figure)), false);
    assert!(share >= 0.9, "{share}");
}
