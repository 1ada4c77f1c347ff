//! Compares what faults cost: each system's outages by fault, with intervals over injections.
//!
//! Each injection is judged by itself. Checks of its trial's undisturbed load decide only about throughput and latency.
//!
//! Injections of one trial share a cluster, so an interval describes repeated faults on the same servers and may be too
//! narrow for others. Systems are judged by the injections of both, as one family over all faults of a load.
//!
//! Not here: the figures of one injection (`bakeoff_core::outage`), tables (`document::outages`).

use std::collections::BTreeSet;

use bakeoff_core::measurement::{ErrorKind, LoadPart, StepSeries};
use bakeoff_core::outage::{
    Outage, PartOutage, StepOutage, TailPercentile, left_out, outage_by, part_outages,
    step_outages, tail_before,
};
use bakeoff_core::ranked::TAILS;
use bakeoff_core::record::{FaultHit, Injection, Record, TrialRecord};
use bakeoff_core::stats::judge::{
    Correction, Finding, Question, Scale, TestResult, Trials, interval_alone, judge_at,
};
use bakeoff_core::stats::{and, middle, sequential};
use bakeoff_core::study::Fault;
use bakeoff_core::units::{figure_text, plural, share_text};

use crate::derive::effects;
use crate::model::changed_keys::ChangedKeys;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::trial::{TrialFigures, untrue};

/// Share of operations from which a verdict says that they failed although the system served others.
const FAILED_MIN: f64 = 0.01;

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
    /// 95 % interval of the outage; `None` with too few injections.
    pub(crate) interval: Option<(f64, f64)>,
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

    /// Returns the length of each outage that counts, in seconds.
    fn lengths(&self) -> Vec<f64> {
        self.counted().map(|one| one.outage.length()).collect()
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
    pub(crate) fn outage(&self) -> Option<f64> {
        self.median(|one| Some(one.outage.length()))
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

    /// Formats the median outage; `None` without injections.
    pub(crate) fn outage_text(&self) -> Option<String> {
        Some(bounded(self.outage()?, self.is_none(), self.lasted()))
    }

    /// Returns true if most injections had no outage.
    pub(crate) fn is_none(&self) -> bool {
        let none = self.counted().filter(|one| one.outage.seconds.is_none()).count();
        none * 2 > self.counted().count()
    }

    /// Returns true if most outages lasted until the load ended.
    pub(crate) fn lasted(&self) -> bool {
        self.counted().filter(|one| one.outage.lasted).count() * 2 > self.counted().count()
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

    /// Formats the median outage of one fault of a sequence; `None` if most injections do not have it.
    pub(crate) fn step_text(&self, fault: &str) -> Option<String> {
        let step = |one: &InjectionFigures| -> Option<StepOutage> {
            one.sequence.iter().find(|step| step.fault == fault).cloned()
        };
        let length = |one: &InjectionFigures| {
            step(one).map(|step| step.seconds.unwrap_or(one.outage.shortest))
        };
        let all: Vec<StepOutage> = self.counted().filter_map(step).collect();
        let most = |is: fn(&StepOutage) -> bool| most_are(&all, is);
        let none = most(|one| one.seconds.is_none());
        Some(bounded(self.median(length)?, none, most(|one| one.lasted)))
    }

    /// Formats the median outage of a part: in each injection of the longest one that `is_of` selects. `None` if most
    /// injections have no such part.
    pub(crate) fn part_text(&self, is_of: impl Fn(&PartOutage) -> bool) -> Option<String> {
        let longest = |one: &InjectionFigures| -> Option<PartOutage> {
            let parts = one.parts.iter().filter(|part| is_of(part));
            parts.max_by(|a, b| a.length().total_cmp(&b.length())).cloned()
        };
        let median = self.median(|one| longest(one).map(|part| part.length()))?;
        let all: Vec<PartOutage> = self.counted().filter_map(longest).collect();
        let most = |is: fn(&PartOutage) -> bool| most_are(&all, is);
        let none = most(|part| part.seconds.is_none());
        Some(bounded(median, none, most(|part| part.lasted)))
    }

    /// Names the operations that were out at least twice as long as all together: ` (put for 14.0 s)`; empty if none was.
    fn longer_operations(&self) -> String {
        let all = self.outage().unwrap_or_default();
        let longer = self.operations().into_iter().filter_map(|name| {
            let length = |one: &InjectionFigures| {
                one.parts.iter().find(|part| part.part.is_operation(name))?.seconds
            };
            let median = self.median(length).filter(|median| *median > 2.0 * all)?;
            Some(format!("{name} for {}", seconds_text(median)))
        });
        let longer: Vec<String> = longer.collect();
        if longer.is_empty() { String::new() } else { format!(" ({})", longer.join(", ")) }
    }

    /// Returns the median share of operations due after the fault that did not succeed; `None` if it is small.
    fn failed_though_up(&self) -> Option<f64> {
        self.median(|one| Some(one.outage.lost_share)).filter(|share| *share >= FAILED_MIN)
    }

    /// Lists the outage in each fault of a sequence: ` (leader-paused 1.16 s, leader-killed 0.95 s)`.
    fn steps(&self, sequence: &[String]) -> String {
        let step = |fault: &String| Some(format!("{fault} {}", self.step_text(fault)?));
        let steps: Vec<String> = sequence.iter().filter_map(step).collect();
        if steps.is_empty() { String::new() } else { format!(" ({})", steps.join(", ")) }
    }

    /// Returns a sum over all injections.
    pub(crate) fn sum(&self, of: impl Fn(&InjectionFigures) -> u64) -> u64 {
        self.injections.iter().map(of).sum()
    }

    /// Returns the changed keys of all injections; `None` if no injection was followed by an audit that could tell.
    pub(crate) fn changed(&self) -> Option<ChangedKeys> {
        self.injections.iter().filter_map(|one| one.changed).reduce(|a, b| a + b)
    }
}

fn most_are<T>(all: &[T], is: fn(&T) -> bool) -> bool {
    all.iter().filter(|one| is(one)).count() * 2 > all.len()
}

/// Formats a median that may be a bound: `< 0.1 s`.
pub(crate) fn bounded(median: f64, is_none: bool, lasted: bool) -> String {
    let before = match (is_none, lasted) {
        (true, _) => "< ",
        (_, true) => "> ",
        _ => "",
    };
    format!("{before}{}", seconds_text(median))
}

impl FaultOutages {
    /// Returns the place of the system whose outage is proven shorter than all others.
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
                let trials = Trials::Apart(one.lengths(), other.lengths());
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

/// Words the outages of one fault: `leader killed: etcd was out for 1.21 s (95 % interval 1.13 to 1.29, 9 injections),
/// consul for 7.9 s (…); neither lost an acknowledged write`. `place` is a clause about the load, or empty.
pub(crate) fn sentence(of: &FaultOutages, place: &str) -> String {
    let measured: Vec<&SystemOutages> =
        of.systems.iter().filter(|one| one.counted().next().is_some()).collect();
    let first_out = measured.iter().position(|one| !one.is_none());
    let count_of_first = first_out.map_or(0, |first| measured[first].counted().count());
    let clauses = measured.iter().enumerate().map(|(nth, one)| {
        let was = if first_out == Some(nth) { " was out" } else { "" };
        let details = match of.fault.sequence.is_empty() {
            true => one.longer_operations(),
            false => one.steps(&of.fault.sequence),
        };
        let clause = match one.is_none() {
            true => {
                let count = plural(one.counted().count() as u64, "injection");
                let least = seconds_text(one.outage().unwrap_or_default());
                let failed = one.failed_though_up().filter(|_| details.is_empty());
                let failed = failed.map_or_else(String::new, |share| {
                    format!(
                        ", though {} of operations due after the fault failed",
                        share_text(share)
                    )
                });
                format!("{} had no outage of {least} or more{failed} ({count})", one.system)
            }
            false => {
                let in_full = first_out == Some(nth);
                let count = in_full || one.counted().count() != count_of_first;
                format!("{}{was} for {}", one.system, one.text(in_full, count))
            }
        };
        clause + &details
    });
    let clauses: Vec<String> = clauses.collect();
    let ranked = measured.iter().filter(|one| !one.broken).count();
    let undecided = match (ranked > 1, of.pairs.is_empty(), of.any_proven()) {
        (true, true, _) => "; too few injections to compare",
        (true, false, false) => "; no difference is shown",
        _ => "",
    };
    let (arrivals, lost) = (effects::arrivals(of), lost_text(&measured));
    let expired = expired_text(&measured);
    format!(
        "{place}{}: {}{undecided}{arrivals}{expired}{lost}",
        of.fault.text(),
        clauses.join(", ")
    )
}

/// Returns a clause about expired leases; empty if none expired.
fn expired_text(of: &[&SystemOutages]) -> String {
    let clauses = of.iter().filter_map(|one| {
        let expired = one.sum(|injection| injection.leases_expired);
        let leases = plural(expired, "lease");
        (expired > 0).then(|| format!("; {leases} of {} expired", one.system))
    });
    clauses.collect()
}

/// Names the trials whose throughput and latency do not count although their outages do.
pub(crate) fn without_figures(of: &Contest, outages: &[FaultOutages]) -> Vec<String> {
    let counted = |system: &str, number: u32| {
        let own = outages.iter().flat_map(|fault| &fault.systems);
        let own = own.filter(|one| one.system == system);
        own.flat_map(SystemOutages::counted).any(|one| one.place.0 == number)
    };
    let of_system = |one: &Contender| {
        let is_shown = |trial: &&TrialFigures| !trial.valid() && counted(&one.system, trial.number);
        let trials: Vec<&TrialFigures> = one.trials.iter().filter(is_shown).collect();
        let numbers: Vec<String> = trials.iter().map(|one| format!("{:02}", one.number)).collect();
        let reasons = trials.iter().flat_map(|trial| &trial.validity.invalid_because);
        let reason = |why: &String| why.split(": ").next().unwrap_or_default().to_owned();
        let reasons: BTreeSet<String> = reasons.map(reason).collect();
        let (trial, is, its) = match numbers.len() {
            0 => return None,
            1 => ("trial", "is", "its"),
            _ => ("trials", "are", "their"),
        };
        Some(format!(
            "{trial} {} of {} {is} not valid ({}): {its} throughput and latency do not count, {its} proven outages do",
            and(&numbers),
            one.system,
            reasons.into_iter().collect::<Vec<_>>().join(", ")
        ))
    };
    of.contenders.iter().filter_map(of_system).collect()
}

/// Returns a clause about acknowledged writes; empty if nothing was read back.
fn lost_text(of: &[&SystemOutages]) -> String {
    let losers: Vec<String> = of
        .iter()
        .filter_map(|one| {
            let changed = one.changed().filter(|changed| changed.all() > 0)?;
            Some(format!("{} {}", one.system, changed.words(None)))
        })
        .collect();
    let unread = of.iter().filter(|one| one.changed().is_none()).count();
    let clause = match (losers.is_empty(), unread > 0, of.len()) {
        (false, ..) => losers.join(", "),
        // Workloads that write nothing lose nothing.
        (true, true, all) if unread == all => return String::new(),
        // The heading has what was lost, or read older, at another time.
        (true, ..) if of.iter().any(|one| one.broken) => return String::new(),
        (true, true, _) => "whether writes were lost is not checked for all".to_owned(),
        (true, false, 1) => "no acknowledged write was lost".to_owned(),
        (true, false, 2) => "neither lost an acknowledged write".to_owned(),
        (true, false, _) => "none lost an acknowledged write".to_owned(),
    };
    format!("; {clause}")
}

/// Formats a time in seconds: `1.21 s`, `23 ms`.
pub(crate) fn seconds_text(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        _ if seconds < 0.1 => format!("{} ms", figure_text(seconds * 1e3)),
        _ => format!("{} s", figure_text(seconds)),
    }
}

impl SystemOutages {
    /// Formats the outage with its interval: `1.21 s (95 % interval 1.13 to 1.29, 9 injections)`.
    ///
    /// `in_full`: names the interval. `count`: adds the number of injections.
    fn text(&self, in_full: bool, count: bool) -> String {
        let Some(outage) = self.outage() else { return "an unknown time".to_owned() };
        let at_least = if self.lasted() { "at least " } else { "" };
        let named = if in_full { "95 % interval " } else { "" };
        let interval = self
            .interval
            .map(|(low, high)| format!("{named}{} to {}", figure_text(low), figure_text(high)));
        let counted = self.counted().count() as u64;
        let count = (count || interval.is_none()).then(|| plural(counted, "injection"));
        let in_brackets: Vec<String> = interval.into_iter().chain(count).collect();
        // The interval is in the unit of the outage.
        format!("{at_least}{} s ({})", figure_text(outage), in_brackets.join(", "))
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
        let trials = trials().filter(|trial| trial.trial.system == one.system);
        let injections: Vec<InjectionFigures> =
            trials.flat_map(|trial| figures(trial, fault, tail)).collect();
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
        let (interval, published) = (None, seconds);
        let broken = one.broken.is_some();
        let all = SystemOutages { system, look, injections, broken, interval, published, notes };
        SystemOutages { interval: interval_alone(&all.lengths(), Scale::Ratio), ..all }
    });
    let systems = systems.collect();
    FaultOutages { fault: fault.clone(), tail: tail.0, systems, pairs: Vec::new() }
}

/// Returns a trial's injections of a fault.
fn injections_of<'a>(trial: &'a TrialRecord, fault: &Fault) -> impl Iterator<Item = &'a Injection> {
    trial.injections.iter().filter(|one| one.fault == fault.name)
}

fn figures(trial: &TrialRecord, fault: &Fault, tail: TailPercentile) -> Vec<InjectionFigures> {
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
            from,
            healed: one.healed(),
            outage,
            parts: part_outages(one, &trial.targets),
            effects: one.hits.clone(),
            sequence: step_outages(one),
            changed: one.audit.as_ref().and_then(ChangedKeys::told_by),
            untrue: untrue(one),
            leases_expired: measurement.errors_of(ErrorKind::LeaseExpired),
            steps: measurement.steps.clone(),
            tail: tail.collect(),
            window: measurement.window.as_secs_f64(),
        })
    };
    of_fault.filter_map(one).collect()
}
