//! Words what faults cost: who was out for how long, what it lost, and what of that is not shown.
//!
//! Not here: the figures (`outages`), those of a fault's single effects (`effects`).

use std::collections::BTreeSet;

use bakeoff_core::stats::and;
use bakeoff_core::stats::clusters::BoundedFigure;
use bakeoff_core::units::{figure_text, plural};

use super::effects;
use super::outages::{
    FaultOutages, LOST_MIN, SystemOutages, bound, bounded, seconds_text, shorter,
};
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::trial::TrialFigures;

/// Service lost as a multiple of the longest outage, from which a sentence says that the outage was one of several.
const FLAPPING_TIMES: f64 = 1.5;

/// Words what one fault cost: `leader killed: etcd was out for 1.21 s and lost 2.80 s of service (95 % interval 2.70 to
/// 2.91, 9 injections on 3 clusters), consul was out for …; neither lost an acknowledged write`. `place` is a clause
/// about the load, or empty.
pub(crate) fn sentence(of: &FaultOutages, place: &str) -> String {
    let measured: Vec<&SystemOutages> =
        of.systems.iter().filter(|one| one.counted().next().is_some()).collect();
    let systems = match ends(&measured).filter(|_| measured.len() > ONE_BY_ONE) {
        Some(ends) => ends,
        None => one_by_one(of, &measured),
    };
    let ranked = measured.iter().filter(|one| !one.broken).count();
    let undecided = match ranked > 1 {
        true if of.has_too_few() => "; too few clusters to compare",
        true if !of.any_proven() => "; no difference is shown",
        _ => "",
    };
    let (arrivals, lost) = (effects::arrivals(of), lost_text(&measured));
    let expired = expired_text(&measured);
    format!("{place}{}: {systems}{undecided}{arrivals}{expired}{lost}", of.fault.text())
}

/// Most systems that a sentence describes one by one.
const ONE_BY_ONE: usize = 4;

/// Describes the outage of each system.
fn one_by_one(of: &FaultOutages, measured: &[&SystemOutages]) -> String {
    let first_lost = measured.iter().position(|one| one.loses());
    let first_interval = measured.iter().position(|one| one.interval().is_some());
    let count_of_first = measured.first().map(|first| first.counts());
    let clauses = measured.iter().enumerate().map(|(nth, one)| {
        let details = match of.fault.action.steps() {
            [] => one.longer_operations(),
            steps => one.steps(steps),
        };
        let count = nth == 0 || Some(one.counts()) != count_of_first;
        let of_service = if first_lost == Some(nth) { " of service" } else { "" };
        let brackets = one.brackets(first_interval == Some(nth), count);
        one.clause(of_service, &details) + &brackets
    });
    clauses.collect::<Vec<_>>().join(", ")
}

/// Returns who lost the least service and who the most: `7 systems lost 17.4 s (openbao) to 44.1 s (vault) of service`.
fn ends(of: &[&SystemOutages]) -> Option<String> {
    let mut lost: Vec<(BoundedFigure, &str)> =
        of.iter().filter_map(|one| Some((one.service_lost()?, one.system.as_str()))).collect();
    lost.sort_by(|(a, _), (b, _)| shorter(*a, *b));
    let ((least, first), (most, last)) = (*lost.first()?, *lost.last()?);
    let (least, most) = (bounded(least), bounded(most));
    Some(format!("{} systems lost {least} ({first}) to {most} ({last}) of service", of.len()))
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

impl SystemOutages {
    /// Names the operations that were out at least twice as long as all together: ` (put for 14.0 s)`; empty if none was.
    fn longer_operations(&self) -> String {
        let all = self.outage().map_or(0.0, BoundedFigure::drawn);
        let longer = self.operations().into_iter().filter_map(|name| {
            let own = self.part(|part| part.part.is_operation(name))?;
            (own.least > 2.0 * all).then(|| format!("{name} for {}", bounded(own)))
        });
        let longer: Vec<String> = longer.collect();
        if longer.is_empty() { String::new() } else { format!(" ({})", longer.join(", ")) }
    }

    /// Lists the outage in each fault of a sequence: ` (leader-paused 1.16 s, leader-killed 0.95 s)`.
    fn steps(&self, sequence: &[String]) -> String {
        let step = |fault: &String| Some(format!("{fault} {}", bounded(self.step(fault)?)));
        let steps: Vec<String> = sequence.iter().filter_map(step).collect();
        if steps.is_empty() { String::new() } else { format!(" ({})", steps.join(", ")) }
    }

    /// Words the outage and the service lost: `x was out for at most 0.61 s at a time, and lost 3.90 s of service`.
    /// `details` follow the outage, `of_service` the service lost.
    fn clause(&self, of_service: &str, details: &str) -> String {
        let Some((outage, lost)) = self.outage().zip(self.service_lost()) else {
            return format!("{} was not measured", self.system);
        };
        let longest = self.counted().map(|one| one.outage.length()).max_by(|a, b| shorter(*a, *b));
        let longest = longest.map_or(0.0, BoundedFigure::drawn);
        let length = seconds_text(outage.drawn());
        let flaps = lost.least > FLAPPING_TIMES * longest;
        let out = match (outage.least > 0.0, outage.most) {
            (false, _) => format!("had no outage of {length} or more{details} and"),
            (true, None) => format!("was out for at least {length}{details} and"),
            (true, Some(_)) if flaps => {
                format!("was out for at most {} at a time{details}, and", seconds_text(longest))
            }
            (true, Some(_)) => format!("was out for {length}{details} and"),
        };
        let lost = match bound(lost) {
            _ if !self.loses() => "no service".to_owned(),
            "> " => format!("at least {}{of_service}", seconds_text(lost.least)),
            "< " => format!("at most {}{of_service}", seconds_text(lost.drawn())),
            _ => format!("{}{of_service}", seconds_text(lost.drawn())),
        };
        format!("{} {out} lost {lost}", self.system)
    }

    /// Returns true if it lost enough service to be named.
    fn loses(&self) -> bool {
        self.service_lost().is_some_and(|lost| lost.drawn() >= LOST_MIN)
    }

    /// Returns the interval of the service lost and the counts in brackets; empty without either. `names`: says that it is
    /// an interval. `count`: adds the counts.
    fn brackets(&self, names: bool, count: bool) -> String {
        let named = if names { "95 % interval " } else { "" };
        let interval = self
            .interval()
            .map(|(low, high)| format!("{named}{} to {}", figure_text(low), figure_text(high)));
        let (injections, clusters) = self.counts();
        let counts = count.then(|| {
            format!("{} on {}", plural(injections, "injection"), plural(clusters, "cluster"))
        });
        let within: Vec<String> = interval.into_iter().chain(counts).collect();
        if within.is_empty() { String::new() } else { format!(" ({})", within.join(", ")) }
    }

    /// Returns the number of injections that count, and that of their clusters.
    fn counts(&self) -> (u64, u64) {
        (self.counted().count() as u64, self.clusters() as u64)
    }
}
