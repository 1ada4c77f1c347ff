//! Simulates injections of faults that share a cluster: coverage of the interval of one system, and false claims between
//! two alike ones, if each injection counts as independent and if each cluster counts once. The table is in
//! `docs/evidence/outages.md`.

use bakeoff_core::stats::clusters::{self, Bounded};
use bakeoff_core::stats::judge::{Finding, Scale, Trials, alone, interval_alone};
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

fn of_clusters(system: &System) -> Vec<Bounded> {
    let mean = |cluster: &Vec<f64>| {
        let figures: Vec<Bounded> = cluster.iter().copied().map(Bounded::exact).collect();
        clusters::mean(&figures).expect("a cluster has injections")
    };
    system.iter().map(mean).collect()
}

/// Counts of repetitions in which a rule erred.
#[derive(Default)]
struct Errors {
    missed: usize,
    claimed: usize,
}

impl Errors {
    fn count(&mut self, interval: Option<(f64, f64)>, truth: f64, trials: &Trials) {
        let (low, high) = interval.expect("there are enough figures");
        self.missed += usize::from(truth < low || truth > high);
        let answer = alone(trials, Scale::Ratio, 0.05).expect("there are enough figures");
        self.claimed += usize::from(!matches!(answer.finding, Finding::NoneShown { .. }));
    }

    fn cells(&self) -> [String; 2] {
        let share = |count: usize| count as f64 / REPETITIONS as f64;
        [percent(1.0 - share(self.missed), 1), percent(share(self.claimed), 1)]
    }
}

#[test]
fn one_figure_a_cluster_restores_coverage_and_false_claims() {
    let mut table = Table::on(
        "outages.md",
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
        // A mean of a cluster is higher than its median, which is 1.
        let many = (0..REPETITIONS).flat_map(|_| of_clusters(&draw(&mut rng, share)));
        let logs: Vec<f64> = many.map(|one| one.least.ln()).collect();
        let truth = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        for _ in 0..REPETITIONS {
            let (one, other) = (draw(&mut rng, share), draw(&mut rng, share));
            let (all, others) = (one.concat(), other.concat());
            let interval = interval_alone(&all, Scale::Ratio);
            before.count(interval, 1.0, &Trials::Apart(all, others));
            let (one, other) = (of_clusters(&one), of_clusters(&other));
            let interval = clusters::interval(&one, FLOOR);
            let trials = clusters::trials(&one, &other, FLOOR).expect("nothing is a bound");
            after.count(interval, truth, &trials);
        }
        let allowed = 0.05 + 3.0 * (0.05_f64 * 0.95 / REPETITIONS as f64).sqrt();
        let is_within = |count: usize| count as f64 / REPETITIONS as f64 <= allowed;
        assert!(is_within(after.missed), "{share}: {}", after.missed);
        assert!(is_within(after.claimed), "{share}: {}", after.claimed);
        table.row([percent(share, 0)].into_iter().chain(before.cells()).chain(after.cells()));
    }
    table.hold();
}
