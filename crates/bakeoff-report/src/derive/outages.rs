//! Compares what faults cost: the service that each system lost by fault, with intervals over clusters.
//!
//! Each injection is judged by itself. Checks of its trial's undisturbed load decide only about throughput and latency.
//!
//! Injections of one cluster are not independent, so each cluster contributes one figure, their mean. Systems are judged
//! by the service lost, as one family over all faults of a load. The outage stands next to it.
//!
//! Not here: the figures of one injection (`bakeoff_core::outage`), tables (`document::outages`), sentences (`outage_sentence`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bakeoff_core::measurement::{ErrorKind, LoadPart, StepSeries};
use bakeoff_core::outage::{
    Outage, PartOutage, StepOutage, TailPercentile, left_out, length, outage_by, part_outages,
    step_outages, tail_before,
};
use bakeoff_core::ranked_latencies::TAILS;
use bakeoff_core::record::{FaultHit, Injection, Record, TrialRecord};
use bakeoff_core::stats::clusters::{self, BoundedFigure};
use bakeoff_core::stats::judge::{Correction, Finding, Question, Scale, TestResult, judge_at};
use bakeoff_core::stats::{TRIALS_MIN, middle, sequential};
use bakeoff_core::study::Fault;
use bakeoff_core::units::figure_text;
use bakeoff_core::watch::WatchCounts;

use crate::model::changed_keys::ChangedKeys;
use crate::model::contest::Contest;
use crate::model::measurement::WatchSummary;
use crate::model::trial::untrue;

/// Service lost, in seconds, below which systems are not told apart.
pub(crate) const LOST_MIN: f64 = 0.01;

/// A fault under one workload and load.
#[derive(Debug, Clone)]
pub(crate) struct FaultOutages {
    pub(crate) fault: Fault,
    /// Name of the percentile that stands for the latency of a second. All injections support it.
    pub(crate) tail: &'static str,
    /// Systems that the fault happens to, in the study's order.
    pub(crate) systems: Vec<SystemOutages>,
    /// Judged pairs, by their places in `systems`.
    pub(crate) pairs: Vec<(usize, usize, TestResult)>,
}

/// A system's injections of one fault.
#[derive(Debug, Clone)]
pub(crate) struct SystemOutages {
    pub(crate) system: String,
    /// Index in the study, which sets colour and mark.
    pub(crate) look: usize,
    pub(crate) injections: Vec<InjectionFigures>,
    /// True if it broke a guarantee in the run. It is shown and never ranked.
    pub(crate) broken: bool,
    /// Published outages in seconds, the shortest first.
    pub(crate) published: Vec<f64>,
    /// Notes on the published outages.
    pub(crate) notes: Vec<String>,
}

/// One injection.
#[derive(Debug, Clone)]
pub(crate) struct InjectionFigures {
    /// Number of the trial, from 1, and of the injection in it.
    pub(crate) place: (u32, u32),
    /// Number of the system's cluster. Trials on a kept cluster share it.
    pub(crate) cluster: usize,
    /// Time of the fault, and of its end if it ended, in seconds since measuring began.
    pub(crate) from: f64,
    pub(crate) healed: Option<f64>,
    pub(crate) outage: Outage,
    /// Outages of each node's clients and of each operation; empty if they are one.
    pub(crate) parts: Vec<PartOutage>,
    /// Effects of the fault, in the order of their times.
    pub(crate) effects: Vec<FaultHit>,
    /// Outages of each fault of a sequence; empty for a single fault.
    pub(crate) sequence: Vec<StepOutage>,
    /// Reason why it does not count.
    pub(crate) left_out: Option<String>,
    /// Keys that did not keep an acknowledged write; `None` if they were not read back.
    pub(crate) changed: Option<ChangedKeys>,
    /// Reads of older values than the system guarantees, and wrong ones.
    pub(crate) untrue: u64,
    /// Renewals of leases that had expired.
    pub(crate) leases_expired: u64,
    /// Describes what watchers observed; `None` without watchers.
    pub(crate) watch: Option<Box<WatchSummary>>,
    pub(crate) steps: StepSeries,
    /// Whole seconds of the load, each with its percentile [`Outage::tail`] in milliseconds if it is known.
    pub(crate) tail: Vec<(u32, Option<f64>)>,
    /// Length of the load in seconds.
    pub(crate) window: f64,
}

impl SystemOutages {
    /// Returns the injections that count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &InjectionFigures> {
        self.injections.iter().filter(|one| one.left_out.is_none())
    }

    /// Returns a figure of each cluster, the mean of its injections that count and have it.
    fn of_clusters(
        &self,
        of: impl Fn(&InjectionFigures) -> Option<BoundedFigure>,
    ) -> Vec<BoundedFigure> {
        let mut figures: BTreeMap<usize, Vec<BoundedFigure>> = BTreeMap::new();
        for (cluster, figure) in self.counted().filter_map(|one| Some((one.cluster, of(one)?))) {
            figures.entry(cluster).or_default().push(figure);
        }
        figures.values().filter_map(|all| clusters::mean(all)).collect()
    }

    /// Returns the median over clusters of a figure; `None` without one.
    fn over_clusters(
        &self,
        of: impl Fn(&InjectionFigures) -> Option<BoundedFigure>,
    ) -> Option<BoundedFigure> {
        clusters::median(&self.of_clusters(of))
    }

    /// Returns the service that each cluster lost, in seconds.
    fn losses(&self) -> Vec<BoundedFigure> {
        self.of_clusters(|one| Some(one.outage.service_lost))
    }

    /// Returns the median service lost in seconds; `None` without injections.
    pub(crate) fn service_lost(&self) -> Option<BoundedFigure> {
        clusters::median(&self.losses())
    }

    /// Returns the 95 % interval of the service lost; `None` with too few clusters, or with bounds among them.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        let is_lost = self.service_lost()?.least >= LOST_MIN;
        clusters::interval(&self.losses(), LOST_MIN).filter(|_| is_lost)
    }

    /// Returns the number of clusters with injections that count.
    pub(super) fn clusters(&self) -> usize {
        self.counted().map(|one| one.cluster).collect::<BTreeSet<usize>>().len()
    }

    /// Returns the median of a figure over the injections; `None` if more than half of them have none.
    pub(crate) fn median(&self, of: impl Fn(&InjectionFigures) -> Option<f64>) -> Option<f64> {
        let value = |one: &InjectionFigures| of(one).unwrap_or(f64::INFINITY);
        let mut values: Vec<f64> = self.counted().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let median = (!values.is_empty()).then(|| middle(&values));
        median.filter(|value| value.is_finite())
    }

    /// Returns the median outage in seconds; `None` without injections.
    pub(crate) fn outage(&self) -> Option<BoundedFigure> {
        self.over_clusters(|one| Some(one.outage.length()))
    }

    /// Formats the published outages: `32 to 40 s`; `None` without any.
    pub(crate) fn published_text(&self) -> Option<String> {
        match &self.published[..] {
            [] => None,
            [only] => Some(seconds_text(*only)),
            [least, .., most] => {
                Some(format!("{} to {}", figure_text(*least), seconds_text(*most)))
            }
        }
    }

    /// Returns the names of the operations with outages of their own, in the order of the alphabet.
    pub(crate) fn operations(&self) -> BTreeSet<&str> {
        let parts = self.injections.iter().flat_map(|one| &one.parts);
        parts
            .filter_map(|one| match &one.part {
                LoadPart::Operation(name) => Some(name.as_str()),
                LoadPart::Node(_) => None,
            })
            .collect()
    }

    /// Returns the median outage in one fault of a sequence; `None` if no injection has it.
    pub(crate) fn step(&self, fault: &str) -> Option<BoundedFigure> {
        self.over_clusters(|one| {
            let step = one.sequence.iter().find(|step| step.fault == fault)?;
            Some(length(step.seconds, one.outage.shortest, step.lasted))
        })
    }

    /// Returns the median outage of a part: in each injection of the longest one that `is_of` selects. `None` if no
    /// injection has such a part.
    pub(crate) fn part(&self, is_of: impl Fn(&PartOutage) -> bool) -> Option<BoundedFigure> {
        self.over_clusters(|one| {
            let parts = one.parts.iter().filter(|part| is_of(part)).map(PartOutage::length);
            parts.max_by(|a, b| shorter(*a, *b))
        })
    }

    /// Returns a sum over all injections.
    pub(crate) fn sum(&self, of: impl Fn(&InjectionFigures) -> u64) -> u64 {
        self.injections.iter().map(of).sum()
    }

    /// Returns the longest silence of its watchers in an injection that counts, in seconds; `None` without watchers.
    pub(crate) fn watch_silence(&self) -> Option<f64> {
        let watches = self.counted().filter_map(|one| one.watch.as_ref());
        watches.map(|watch| watch.longest_silence_seconds).reduce(f64::max)
    }

    /// Returns the counts of its watchers, over all injections.
    pub(crate) fn watch_counts(&self) -> WatchCounts {
        let mut sum = WatchCounts::default();
        let watches = self.injections.iter().filter_map(|one| one.watch.as_ref());
        watches.for_each(|watch| sum.merge(&watch.counts));
        sum
    }

    /// Returns the changed keys of all injections; `None` if no injection was followed by an audit that could tell.
    pub(crate) fn changed(&self) -> Option<ChangedKeys> {
        self.injections.iter().filter_map(|one| one.changed).reduce(|a, b| a + b)
    }
}

/// Orders figures by their lower bounds, and then by their upper ones.
pub(crate) fn shorter(a: BoundedFigure, b: BoundedFigure) -> Ordering {
    let most = |one: BoundedFigure| one.most.unwrap_or(f64::INFINITY);
    a.least.total_cmp(&b.least).then(most(a).total_cmp(&most(b)))
}

/// Formats a figure in seconds that may be a bound: `1.21 s`, `< 20 ms`, `> 8.00 s`.
pub(crate) fn bounded(of: BoundedFigure) -> String {
    format!("{}{}", bound(of), seconds_text(of.drawn()))
}

/// Returns the sign before a figure that is a bound: `< `, `> `.
pub(crate) fn bound(of: BoundedFigure) -> &'static str {
    match (of.value(), of.most) {
        (Some(_), _) => "",
        (None, Some(_)) => "< ",
        (None, None) => "> ",
    }
}

impl FaultOutages {
    /// Returns the place of the system that is proven to lose less service than all others.
    pub(crate) fn best(&self) -> Option<usize> {
        let beats = |a: usize, b: usize| {
            self.pairs.iter().any(|(one, other, answer)| match (*one, *other) {
                pair if pair == (a, b) => answer.finding == Finding::Lower,
                pair if pair == (b, a) => answer.finding == Finding::Higher,
                _ => false,
            })
        };
        let places: Vec<usize> =
            (0..self.systems.len()).filter(|&place| !self.systems[place].broken).collect();
        let beats_all = |&a: &usize| places.iter().all(|&b| a == b || beats(a, b));
        places.iter().copied().find(|place| places.len() > 1 && beats_all(place))
    }

    /// Returns true if further injections could add nothing: each pair of systems has an answer.
    pub(crate) fn is_answered(&self) -> bool {
        let systems = self.systems.iter().filter(|one| !one.broken).count();
        self.pairs.len() == systems * systems.saturating_sub(1) / 2
            && self.pairs.iter().all(|(.., answer)| sequential::is_answered(answer))
    }

    /// Returns true if a system has too few clusters for a comparison.
    pub(super) fn has_too_few(&self) -> bool {
        self.systems.iter().any(|one| !one.broken && one.clusters() < TRIALS_MIN)
    }

    /// Returns true if a difference between any two systems is proven.
    pub(crate) fn any_proven(&self) -> bool {
        let is_proven =
            |answer: &TestResult| matches!(answer.finding, Finding::Higher | Finding::Lower);
        self.pairs.iter().any(|(.., answer)| is_proven(answer))
    }
}

/// Returns the outages of all faults under one workload and load, in the study's order. Empty without injections.
pub(crate) fn outages(record: &Record, contest: &Contest) -> Vec<FaultOutages> {
    let faults = record.header.study.faults.iter();
    let mut all: Vec<FaultOutages> =
        faults.map(|fault| fault_outages(record, contest, fault)).collect();
    all.retain(|one| one.systems.iter().any(|system| !system.injections.is_empty()));
    let mut questions = Vec::new();
    let mut places = Vec::new();
    for (number, of) in all.iter().enumerate() {
        for (a, one) in of.systems.iter().enumerate() {
            for (b, other) in of.systems.iter().enumerate().skip(a + 1) {
                if one.broken || other.broken {
                    continue;
                }
                let Some(trials) = clusters::trials(&one.losses(), &other.losses(), LOST_MIN)
                else {
                    continue;
                };
                questions.push(Question { trials, leading: true, scale: Scale::Ratio });
                places.push((number, a, b));
            }
        }
    }
    let answers = judge_at(&questions, Correction::Steps, record.false_alarms());
    for ((number, a, b), answer) in places.into_iter().zip(answers) {
        all[number].pairs.extend(answer.map(|answer| (a, b, answer)));
    }
    all
}

/// Formats a time in seconds: `1.21 s`, `23 ms`.
pub(crate) fn seconds_text(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        _ if seconds < 0.1 => format!("{} ms", figure_text(seconds * 1e3)),
        _ => format!("{} s", figure_text(seconds)),
    }
}

fn fault_outages(record: &Record, contest: &Contest, fault: &Fault) -> FaultOutages {
    let of_contest = |trial: &&TrialRecord| {
        let of = &trial.trial;
        of.workload == contest.workload.name && of.load == contest.load.name
    };
    let trials = || record.trials.iter().filter(of_contest);
    let tails = trials().flat_map(|trial| injections_of(trial, fault)).map(tail_before);
    let tail = tails.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(TAILS[0]);
    let befallen = contest.contenders.iter().filter(|one| fault.befalls(&one.system));
    let systems = befallen.map(|one| {
        let own = clusters_of(record, &one.system).filter(|(_, trial)| of_contest(trial));
        let injections: Vec<InjectionFigures> =
            own.flat_map(|(cluster, trial)| figures(trial, cluster, fault, tail)).collect();
        let (system, look) = (one.system.clone(), one.look);
        let published = record.header.study.published.iter().filter(|published| {
            published.system == one.system
                && published.workload == contest.workload.name
                && published.load == contest.load.name
                && published.fault.as_ref() == Some(&fault.name)
        });
        let mut seconds: Vec<f64> = published.clone().map(|one| one.value).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        let mut notes: Vec<String> = published.filter_map(|one| one.note.clone()).collect();
        notes.dedup();
        let (published, broken) = (seconds, one.broken.is_some());
        SystemOutages { system, look, injections, broken, published, notes }
    });
    let systems = systems.collect();
    FaultOutages { fault: fault.clone(), tail: tail.0, systems, pairs: Vec::new() }
}

/// Returns a system's trials, each with the number of its cluster: a trial may keep the cluster of an earlier one.
fn clusters_of<'a>(
    record: &'a Record,
    system: &'a str,
) -> impl Iterator<Item = (usize, &'a TrialRecord)> {
    let own = record.trials.iter().filter(move |trial| trial.trial.system == system);
    own.scan(0, |cluster, trial| {
        *cluster += usize::from(!trial.kept);
        Some((*cluster, trial))
    })
}

/// Returns a trial's injections of a fault.
fn injections_of<'a>(trial: &'a TrialRecord, fault: &Fault) -> impl Iterator<Item = &'a Injection> {
    trial.injections.iter().filter(|one| one.fault == fault.name)
}

fn figures(
    trial: &TrialRecord,
    cluster: usize,
    fault: &Fault,
    tail: TailPercentile,
) -> Vec<InjectionFigures> {
    let of_fault = injections_of(trial, fault);
    let one = |one: &Injection| {
        let measurement = &one.stage.measurement;
        let (outage, from) = (outage_by(one, tail)?, one.from()?);
        let tail = measurement.seconds.iter().map(|second| {
            let tail = second.percentile(tail.1);
            (second.second, tail.map(|tail| tail.as_secs_f64() * 1e3))
        });
        Some(InjectionFigures {
            left_out: left_out(one, &outage),
            place: (trial.trial.number + 1, one.repeat),
            cluster,
            from,
            healed: one.healed(),
            outage,
            parts: part_outages(one, &trial.targets),
            effects: one.hits.clone(),
            sequence: step_outages(one),
            changed: one.audit.as_ref().and_then(ChangedKeys::told_by),
            untrue: untrue(one),
            leases_expired: measurement.errors_of(ErrorKind::LeaseExpired),
            watch: measurement.watch.as_deref().map(|of| Box::new(WatchSummary::new(of))),
            steps: measurement.steps.clone(),
            tail: tail.collect(),
            window: measurement.window.as_secs_f64(),
        })
    };
    of_fault.filter_map(one).collect()
}
