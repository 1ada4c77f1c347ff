//! Change points, simulated: false alarms in steady series, and how soon a step is found.
//!
//! Runs scatter normally by 2 % around their level, independently. "Run by run" analyses a series after each run, as a
//! job does that looks at the trend every night. It counts each alert that the run before did not raise within three
//! runs, even if it is gone after the next run. "In the end" counts the change points of the whole series, as a reader
//! sees it.

use bakeoff_core::stats::change_points::{
    AlertOverlap, ChangePoint, alert_overlap, change_points, change_points_of_independent_runs,
    moved_alike,
};
use bakeoff_core::stats::judge::Scale;
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::workload::mix64;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::evidence::{Table, percent};

const SCATTER: f64 = 0.02;
/// Repetitions of a step. At a share of 95 % the standard error is 0.3 %.
const STEPS: usize = 5000;
/// Steady series of 400 runs. At one alert in 200 runs the standard error is 0.06.
const STEADY: usize = 250;
/// Distance in runs up to which an alert is the simulated step, or the same alert as before.
const NEAR: usize = 3;

/// A figure that leads its load is also searched for new losses.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    Leading,
    Other,
}

impl Figure {
    fn find(self, runs: &[f64]) -> Vec<ChangePoint> {
        change_points(runs, Scale::Ratio, self.better())
    }

    fn better(self) -> Option<Preference> {
        (self == Self::Leading).then_some(Preference::More)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Leading => "leading",
            Self::Other => "other",
        }
    }
}

/// Returns runs at the levels of a function of the run's number. One of `slow_in` runs is 20 % slower; 0: none.
/// Neighbours have this correlation.
fn runs(
    rng: &mut Xoshiro256PlusPlus,
    count: usize,
    slow_in: u32,
    correlation: f64,
    level: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let mut noise: f64 = StandardNormal.sample(rng);
    (0..count)
        .map(|run| {
            let normal: f64 = StandardNormal.sample(rng);
            noise = correlation * noise + (1.0 - correlation * correlation).sqrt() * normal;
            let slow = slow_in > 0 && rng.random_range(0..slow_in) == 0;
            level(run) * (SCATTER * noise).exp() * if slow { 0.8 } else { 1.0 }
        })
        .collect()
}

fn seeded(of: &str) -> Xoshiro256PlusPlus {
    let seed = of.bytes().fold(0, |seed, byte| mix64(seed ^ u64::from(byte)));
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

#[test]
fn steady_runs_raise_at_most_one_false_alert_in_200() {
    let mut table = Table::on(
        "trends.md",
        "change points: steady",
        &[
            "figure",
            "slow runs",
            "in the end, of 200 runs",
            "alerts, runs 1 to 200",
            "alerts, runs 201 to 400",
            "overlap",
        ],
    );
    for (figure, slow_in) in
        [(Figure::Leading, 0), (Figure::Other, 0), (Figure::Leading, 20), (Figure::Other, 20)]
    {
        let mut rng = seeded(figure.name());
        let (mut in_the_end, mut alerts, mut overlap) = (0, [0, 0], AlertOverlap::default());
        for _ in 0..STEADY {
            let series = runs(&mut rng, 400, slow_in, 0.0, |_| 1000.0);
            let mut before: Vec<ChangePoint> = Vec::new();
            for length in 1..=series.len() {
                let now = figure.find(&series[..length]);
                let is_new = |one: &&ChangePoint| {
                    before.iter().all(|other| other.first.abs_diff(one.first) > NEAR)
                };
                alerts[usize::from(length > 200)] += now.iter().filter(is_new).count();
                if length == 200 {
                    in_the_end += now.len();
                    overlap.add(alert_overlap(&series[..length], Scale::Ratio, figure.better()));
                }
                before = now;
            }
        }
        let mean = |count: usize| count as f64 / STEADY as f64;
        table.row([
            figure.name().to_owned(),
            if slow_in == 0 { "none".to_owned() } else { format!("1 of {slow_in}") },
            format!("{:.2}", mean(in_the_end)),
            format!("{:.2}", mean(alerts[0])),
            format!("{:.2}", mean(alerts[1])),
            overlap.share().map_or_else(|| "no alerts".to_owned(), |share| percent(share, 0)),
        ]);
        assert!(mean(in_the_end) <= 0.2, "{}", mean(in_the_end));
        if slow_in == 0 {
            assert!(mean(alerts[1]) <= 1.0, "{}", mean(alerts[1]));
            assert!(mean(alerts[0]) <= 1.3, "{}", mean(alerts[0]));
        }
    }
    table.hold();
}

#[test]
fn loss_of_5_percent_is_found_within_three_runs() {
    let mut table = Table::on(
        "trends.md",
        "change points: step",
        &[
            "figure",
            "step",
            "runs before",
            "within 2 runs",
            "3",
            "4",
            "6",
            "10",
            "20",
            "first bad run exact",
            "off by at most one",
            "interval holds it",
            "its runs",
            "overlap",
        ],
    );
    let cases = [20, 30, 50, 100]
        .map(|before| (Figure::Leading, -0.05, before))
        .into_iter()
        .chain([
            (Figure::Leading, -0.1, 30),
            (Figure::Leading, -0.03, 50),
            (Figure::Leading, 0.05, 50),
        ])
        .chain([(Figure::Other, -0.05, 50), (Figure::Other, 0.05, 50), (Figure::Other, -0.1, 50)]);
    for (figure, step, before) in cases {
        let mut rng = seeded(&format!("{} {step} {before}", figure.name()));
        let after = [2, 3, 4, 6, 10, 20];
        let (mut found, mut exact, mut close) = ([0; 6], 0, 0);
        let (mut seen, mut held, mut long) = (0_u32, 0_u32, 0);
        let mut overlap = AlertOverlap::default();
        for _ in 0..STEPS {
            let series = runs(&mut rng, before + 20, 0, 0.0, |run| {
                1000.0 * if run < before { 1.0 } else { 1.0 + step }
            });
            // An alert counts from the run that raises it first, whether or not it stays.
            let mut first: Option<usize> = None;
            let mut last = None;
            for length in before + 1..=before + 20 {
                let now = figure.find(&series[..length]);
                last = now.into_iter().find(|one| {
                    one.first.abs_diff(before) <= NEAR && (one.ratio > 1.0) == (step > 0.0)
                });
                if last.is_some() {
                    first = first.or(Some(length - before));
                }
            }
            for (count, most) in found.iter_mut().zip(after) {
                *count += usize::from(first.is_some_and(|first| first <= most));
            }
            exact += usize::from(last.is_some_and(|one| one.first == before));
            close += usize::from(last.is_some_and(|one| one.first.abs_diff(before) <= 1));
            if let Some((low, high)) = last.map(|one| one.first_runs) {
                seen += 1;
                held += u32::from((low..=high).contains(&before));
                long += high + 1 - low;
            }
            if exact % 20 == 0 {
                overlap.add(alert_overlap(&series, Scale::Ratio, figure.better()));
            }
        }
        let share = |count: usize| count as f64 / STEPS as f64;
        let mut row =
            vec![figure.name().to_owned(), format!("{:+.0} %", step * 100.0), before.to_string()];
        row.extend(found.map(|count| percent(share(count), 1)));
        row.extend([share(exact), share(close)].map(|share| percent(share, 0)));
        row.push(percent(f64::from(held) / f64::from(seen), 0));
        row.push(format!("{:.1}", long as f64 / f64::from(seen)));
        row.push(percent(overlap.share().unwrap_or(0.0), 0));
        assert!(f64::from(held) >= 0.9 * f64::from(seen), "{step} {before}: {held} of {seen}");
        table.row(row);
        if figure == Figure::Leading && step == -0.05 {
            // Two standard errors: the bound itself is tested.
            assert!(share(found[1]) >= 0.95 - 0.006, "{before}: {}", share(found[1]));
        }
        assert!(share(found[5]) >= if step == -0.03 { 0.7 } else { 0.95 }, "{step}");
    }
    table.hold();
}

/// Counts false changes in steady series of 200 correlated runs: confirmed ones in the end, and alerts run by run.
#[test]
fn correlated_runs_raise_no_more_false_alerts() {
    let columns = [
        "figure",
        "correlation",
        "confirmed of 200 runs, before",
        "now",
        "alerts in 200 runs, before",
        "now ",
    ];
    let mut table = Table::on("trends.md", "change points: correlated", &columns);
    for figure in [Figure::Leading, Figure::Other] {
        for correlation in [0.0, 0.3, 0.5, 0.7] {
            let mut rng = seeded(&format!("{} {correlation}", figure.name()));
            let (mut confirmed, mut alerts) = ([0; 2], [0; 2]);
            for _ in 0..STEADY {
                let series = runs(&mut rng, 200, 0, correlation, |_| 1000.0);
                let mut before: [Vec<ChangePoint>; 2] = Default::default();
                for length in 1..=series.len() {
                    let series = &series[..length];
                    let better = figure.better();
                    let old = change_points_of_independent_runs(series, Scale::Ratio, better);
                    let now = [old, figure.find(series)];
                    for (count, (now, before)) in alerts.iter_mut().zip(now.iter().zip(&before)) {
                        let is_new = |one: &&ChangePoint| {
                            before.iter().all(|other| other.first.abs_diff(one.first) > NEAR)
                        };
                        *count += now.iter().filter(is_new).count();
                    }
                    before = now;
                }
                for (count, found) in confirmed.iter_mut().zip(&before) {
                    *count += found.iter().filter(|one| one.confirmed).count();
                }
            }
            let mean = |count: usize| count as f64 / STEADY as f64;
            let cells = [confirmed[0], confirmed[1], alerts[0], alerts[1]].map(mean);
            table.row(
                [figure.name().to_owned(), correlation.to_string()]
                    .into_iter()
                    .chain(cells.map(|mean| format!("{mean:.2}"))),
            );
            assert!(mean(confirmed[1]) <= 0.1, "{correlation}: {}", mean(confirmed[1]));
            assert!(mean(alerts[1]) <= 2.8, "{correlation}: {}", mean(alerts[1]));
        }
    }
    table.hold();
}

/// Counts steps that are reported as a system's own, if a run has two systems.
#[test]
fn step_of_both_systems_is_the_machines() {
    const SERIES: usize = 500;
    let columns = ["step of A", "of B", "runs since", "found in A", "reported as A's own"];
    let mut table = Table::on("trends.md", "change points: two systems", &columns);
    for (own, other) in [(-0.05, -0.05), (-0.1, -0.1), (-0.05, 0.0), (-0.1, -0.05)] {
        for since in [3, 20] {
            let mut rng = seeded(&format!("{own} {other} {since}"));
            let (mut found, mut reported) = (0, 0);
            for _ in 0..SERIES {
                let level =
                    |step: f64| move |run: usize| 1000.0 * if run < 50 { 1.0 } else { 1.0 + step };
                let a = runs(&mut rng, 50 + since, 0, 0.0, level(own));
                let b = runs(&mut rng, 50 + since, 0, 0.0, level(other));
                let changes = Figure::Leading.find(&a);
                let near = changes.iter().find(|one| one.first.abs_diff(50) <= NEAR);
                found += u32::from(near.is_some());
                reported += u32::from(near.is_some_and(|one| !moved_alike(&a, &b, one.first)));
            }
            let share = |count: u32| f64::from(count) / SERIES as f64;
            let mut row = [own, other].map(|step| format!("{:+.0} %", step * 100.0)).to_vec();
            row.push(since.to_string());
            row.extend([found, reported].map(|count| percent(share(count), 0)));
            table.row(row);
            match own == other {
                true => assert!(share(reported) <= 0.1, "{own} {since}: {reported}"),
                false => {
                    assert!(share(reported) >= 0.8 * share(found), "{own} {since}: {reported}")
                }
            }
        }
    }
    table.hold();
}
