//! Simulates injections of faults that share a cluster: coverage of the interval of one system, and false claims between
//! two alike ones, if each injection counts as independent and if each cluster counts once. Does the same for outages
//! that the load's end cuts off, as lengths and as bounds. The tables are in `docs/evidence/statistics.md`.

use bakeoff_core::stats::clusters::{self, BoundedFigure};
use bakeoff_core::stats::judge::{Finding, Scale, TestResult, Trials, alone, interval_alone};
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::evidence::{Table, percent};

const CLUSTERS: usize = 3;
const INJECTIONS: usize = 3;
/// Standard deviation of an injection's logarithm.
const SCATTER: f64 = 0.2;
/// Repetitions of a case. At a true share of 5 % the standard error is 0.2 %.
const REPETITIONS: usize = 10_000;
/// Value below which figures count as this value. No simulated figure is.
const FLOOR: f64 = 1e-6;

/// Figures of one system, cluster by cluster.
type System = Vec<Vec<f64>>;

/// Draws a system whose clusters carry this share of the variance.
fn draw(rng: &mut Xoshiro256PlusPlus, share: f64) -> System {
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let mut cluster = |_| {
        let common = share.sqrt() * normal();
        let one = |_| (SCATTER * (common + (1.0 - share).sqrt() * normal())).exp();
        (0..INJECTIONS).map(one).collect()
    };
    (0..CLUSTERS).map(&mut cluster).collect()
}

fn of_clusters(system: &System) -> Vec<BoundedFigure> {
    cut(system, BoundedFigure::exact)
}

/// Returns the figures of clusters whose injections are known as `seen`.
fn cut(system: &System, seen: impl Fn(f64) -> BoundedFigure) -> Vec<BoundedFigure> {
    let mean = |cluster: &Vec<f64>| {
        let figures: Vec<BoundedFigure> = cluster.iter().copied().map(&seen).collect();
        clusters::mean(&figures).expect("a cluster has injections")
    };
    system.iter().map(mean).collect()
}

/// Returns the figure that clusters' logarithms scatter around. A mean of a cluster is higher than its median, which is 1.
fn truth(rng: &mut Xoshiro256PlusPlus, share: f64) -> f64 {
    let many = (0..REPETITIONS).flat_map(|_| of_clusters(&draw(rng, share)));
    let logs: Vec<f64> = many.map(|one| one.least.ln()).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

/// Counts of repetitions in which a rule erred.
#[derive(Default)]
struct Errors {
    missed: usize,
    claimed: usize,
}

impl Errors {
    fn count(&mut self, interval: Option<(f64, f64)>, truth: f64, trials: Option<&Trials>) {
        let is_missed = |(low, high): (f64, f64)| truth < low || truth > high;
        self.missed += usize::from(interval.is_some_and(is_missed));
        let answer = trials.and_then(|trials| alone(trials, Scale::Ratio, 0.05));
        let is_claim = |one: TestResult| !matches!(one.finding, Finding::NoneShown { .. });
        self.claimed += usize::from(answer.is_some_and(is_claim));
    }

    /// Checks that both shares are at most 5 %.
    fn hold(&self, case: &str) {
        let allowed = 0.05 + 3.0 * (0.05_f64 * 0.95 / REPETITIONS as f64).sqrt();
        let is_within = |count: usize| count as f64 / REPETITIONS as f64 <= allowed;
        assert!(is_within(self.missed), "{case}: {} missed", self.missed);
        assert!(is_within(self.claimed), "{case}: {} claimed", self.claimed);
    }

    fn cells(&self) -> [String; 2] {
        let share = |count: usize| count as f64 / REPETITIONS as f64;
        [percent(1.0 - share(self.missed), 1), percent(share(self.claimed), 1)]
    }
}

#[test]
fn one_figure_a_cluster_restores_coverage_and_false_claims() {
    let mut table = Table::on(
        "statistics.md",
        "clusters",
        &[
            "variance between clusters",
            "coverage, each injection",
            "false claims, each injection",
            "coverage, each cluster",
            "false claims, each cluster",
        ],
    );
    for (seed, share) in (1..).zip([0.0, 0.25, 0.5, 0.8]) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut before, mut after) = (Errors::default(), Errors::default());
        let truth = truth(&mut rng, share);
        for _ in 0..REPETITIONS {
            let (one, other) = (draw(&mut rng, share), draw(&mut rng, share));
            let (all, others) = (one.concat(), other.concat());
            let interval = interval_alone(&all, Scale::Ratio);
            before.count(interval, 1.0, Some(&Trials::Apart(all, others)));
            let (one, other) = (of_clusters(&one), of_clusters(&other));
            let interval = clusters::interval(&one, FLOOR);
            let trials = clusters::trials(&one, &other, FLOOR);
            assert!(interval.is_some() && trials.is_some(), "nothing is a bound");
            after.count(interval, truth, trials.as_ref());
        }
        after.hold(&percent(share, 0));
        table.row([percent(share, 0)].into_iter().chain(before.cells()).chain(after.cells()));
    }
    table.hold();
}

#[test]
fn outages_cut_by_the_end_of_the_load_are_bounds() {
    let columns = [
        "outages cut off",
        "wrong intervals, as lengths",
        "false claims, as lengths",
        "wrong intervals, as bounds",
        "false claims, as bounds",
    ];
    let mut table = Table::on("statistics.md", "bounds", &columns);
    // Quantiles of the standard normal distribution.
    for (seed, (cut_off, quantile)) in
        (11..).zip([(0.1, 1.282), (0.3, 0.524), (0.5, 0.0), (0.8, -0.842)])
    {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut before, mut after) = (Errors::default(), Errors::default());
        let share = 0.5;
        let truth = truth(&mut rng, share);
        let end = (SCATTER * quantile).exp();
        let as_bound = |length: f64| match length < end {
            true => BoundedFigure::exact(length),
            false => BoundedFigure::at_least(end),
        };
        for _ in 0..REPETITIONS {
            let (one, other) = (draw(&mut rng, share), of_clusters(&draw(&mut rng, share)));
            let lengths = cut(&one, |length| BoundedFigure::exact(length.min(end)));
            let bounds = cut(&one, as_bound);
            for (errors, one) in [(&mut before, lengths), (&mut after, bounds)] {
                let interval = clusters::interval(&one, FLOOR);
                errors.count(interval, truth, clusters::trials(&one, &other, FLOOR).as_ref());
            }
        }
        after.hold(&percent(cut_off, 0));
        let share = |count: usize| percent(count as f64 / REPETITIONS as f64, 1);
        let of = |errors: &Errors| [share(errors.missed), share(errors.claimed)];
        table.row([percent(cut_off, 0)].into_iter().chain(of(&before)).chain(of(&after)));
    }
    table.hold();
}
