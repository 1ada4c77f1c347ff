//! Checks bakeoff's cost against bounds relative to the other tools.
//!
//! A bound without figures counts as missed.

use std::collections::BTreeMap;

use super::super::summary::mib;
use super::tools::Tool;
use super::{Case, OPEN_RATE, Results, Run};

/// Smallest accepted ratio of requests per second. If the server is the slower side, equal tools differ by chance by
/// up to this much.
const RATE_RATIO_MIN: f64 = 0.97;
const SCHEDULE_LAG_P99_US_MAX: f64 = 100.0;
const RATE_OFF_MAX: f64 = 0.001;
const MIB_MANY_MAX: f64 = 120.0;

/// Result of one bound.
#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) bound: String,
    pub(super) seen: String,
    pub(super) kept: Option<bool>,
}

impl Finding {
    pub(super) fn verdict(&self) -> &'static str {
        match self.kept {
            Some(true) => "kept",
            Some(false) => "**missed**",
            None => "**not measured**",
        }
    }

    /// Returns a complaint unless the bound is kept.
    pub(super) fn complaint(&self) -> Option<String> {
        let what = match self.kept {
            Some(true) => return None,
            Some(false) => "missed",
            None => "not measured",
        };
        Some(format!("{what}: {}: {}", self.bound, self.seen))
    }
}

/// Type of a bound on a ratio.
#[derive(Clone, Copy)]
enum BoundKind {
    Most(f64),
    Below(f64),
    Least(f64),
}

/// Checks all bounds of the cases that were run.
pub(super) fn check(all: &BTreeMap<Case, Results>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (&case, results) in all {
        let ours = subject(results);
        let mut ratio = |what: &str, theirs: Tool, figure: fn(&Run) -> f64, held: BoundKind| {
            findings.push(of_ratio(case, results, (ours, theirs), what, figure, held));
        };
        match case {
            Case::Plain16 | Case::Plain64 => {
                ratio("CPU per request", Tool::Wrk, Run::cpu_us, BoundKind::Most(0.85));
                ratio("CPU per request", Tool::Baseline, Run::cpu_us, BoundKind::Most(1.15));
                ratio("user time per request", Tool::Wrk, Run::user_us, BoundKind::Below(0.5));
                let per_second = |run: &Run| run.reported.per_second;
                ratio(
                    "requests per second",
                    Tool::Wrk,
                    per_second,
                    BoundKind::Least(RATE_RATIO_MIN),
                );
                for theirs in [Tool::Hey, Tool::Vegeta, Tool::K6] {
                    ratio("CPU per request", theirs, Run::cpu_us, BoundKind::Most(0.4));
                }
                ratio("CPU per request", Tool::Oha, Run::cpu_us, BoundKind::Most(0.7));
                ratio("CPU per request", Tool::Fortio, Run::cpu_us, BoundKind::Most(0.9));
            }
            Case::Tls => ratio("CPU per request", Tool::Wrk, Run::cpu_us, BoundKind::Most(1.1)),
            Case::Script => ratio("CPU per request", Tool::Wrk, Run::cpu_us, BoundKind::Most(0.9)),
            Case::Http2 => {}
            Case::Open => findings.extend(open(results)),
            Case::Many => findings.push(memory(results)),
        }
    }
    findings
}

/// Returns the tool that the bounds apply to: `bakeoff load`, or `bakeoff wrk` if `load` does not take part.
pub(super) fn subject(results: &Results) -> Tool {
    if results.runs.contains_key(&Tool::Load) { Tool::Load } else { Tool::OurWrk }
}

fn of_ratio(
    case: Case,
    results: &Results,
    (ours, theirs): (Tool, Tool),
    what: &str,
    figure: fn(&Run) -> f64,
    held: BoundKind,
) -> Finding {
    let words = match held {
        BoundKind::Most(bound) => format!("at most {bound} of {}'s", theirs.name()),
        BoundKind::Below(bound) => format!("below {bound} of {}'s", theirs.name()),
        BoundKind::Least(_) => format!("no lower than {}'s", theirs.name()),
    };
    let bound = format!("{}: {what} {words}", case.name());
    let Some(ratio) = results.ratio(ours, theirs, figure) else {
        let why = [ours, theirs]
            .into_iter()
            .find_map(|tool| Some(format!("{}: {}", tool.name(), results.without.get(&tool)?)));
        return Finding { bound, seen: why.unwrap_or_else(|| "no run".into()), kept: None };
    };
    let kept = match held {
        BoundKind::Most(bound) => ratio.median <= bound,
        BoundKind::Below(bound) => ratio.median < bound,
        BoundKind::Least(bound) => ratio.median >= bound,
    };
    Finding { bound, seen: ratio.text(2), kept: Some(kept) }
}

fn open(results: &Results) -> [Finding; 2] {
    let rate = f64::from(OPEN_RATE);
    let schedule_lag = results.spread(Tool::Precise, |run| {
        run.reported.schedule_lag.map_or(f64::INFINITY, |schedule_lag| schedule_lag[1])
    });
    let schedule_lag = Finding {
        bound: format!(
            "open: p99 of the schedule lag, with --precision, at most {SCHEDULE_LAG_P99_US_MAX} µs"
        ),
        seen: schedule_lag
            .map_or("no run".into(), |schedule_lag| format!("{} µs", schedule_lag.text(0))),
        kept: schedule_lag.map(|schedule_lag| schedule_lag.median <= SCHEDULE_LAG_P99_US_MAX),
    };
    let sent = results.spread(Tool::Precise, |run| run.reported.per_second);
    let sent = Finding {
        bound: format!("open: {rate} requests per second within 0.1 %"),
        seen: sent.map_or("no run".into(), |sent| sent.text(1)),
        kept: sent.map(|sent| (sent.median / rate - 1.0).abs() <= RATE_OFF_MAX),
    };
    [schedule_lag, sent]
}

fn memory(results: &Results) -> Finding {
    let used = results.spread(subject(results), |run| mib(run.used.rss_bytes_max));
    Finding {
        bound: format!("10000: memory below {MIB_MANY_MAX} MiB"),
        seen: used.map_or("no run".into(), |used| format!("{} MiB", used.text(1))),
        // Use the maximum, because a bound on memory applies to every run.
        kept: used.map(|used| used.max < MIB_MANY_MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::measure::ResourceUse;
    use super::super::tools::ToolFigures;
    use super::*;

    fn run(us: u64, schedule_lag: Option<[f64; 3]>) -> Run {
        Run {
            used: ResourceUse { system: Duration::from_micros(us), ..ResourceUse::default() },
            reported: ToolFigures { requests: 1, errors: 0, per_second: 10_000.0, schedule_lag },
        }
    }

    fn results(runs: &[(Tool, Run)]) -> Results {
        let runs = runs.iter().map(|(tool, run)| (*tool, vec![run.clone()])).collect();
        Results { runs, ..Results::default() }
    }

    fn kept(case: Case, results: Results) -> Vec<Option<bool>> {
        check(&BTreeMap::from([(case, results)])).iter().map(|finding| finding.kept).collect()
    }

    #[test]
    fn excess_cpu_misses_the_bound_and_a_missing_tool_does_not_keep_it() {
        let both = |ours| results(&[(Tool::OurWrk, run(ours, None)), (Tool::Wrk, run(100, None))]);
        assert_eq!(kept(Case::Script, both(90)), [Some(true)]);
        assert_eq!(kept(Case::Script, both(91)), [Some(false)]);
        let alone = results(&[(Tool::OurWrk, run(90, None))]);
        let findings = check(&BTreeMap::from([(Case::Script, alone)]));
        assert_eq!(findings[0].kept, None);
        assert!(findings[0].complaint().is_some());
    }

    #[test]
    fn missing_schedule_lag_is_a_miss() {
        let open = |schedule_lag| results(&[(Tool::Precise, run(1, schedule_lag))]);
        assert_eq!(kept(Case::Open, open(Some([1.0, 100.0, 500.0]))), [Some(true), Some(true)]);
        assert_eq!(kept(Case::Open, open(Some([1.0, 101.0, 500.0]))), [Some(false), Some(true)]);
        assert_eq!(kept(Case::Open, open(None)), [Some(false), Some(true)]);
    }
}
