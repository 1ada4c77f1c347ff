//! Skips a system that cannot start. After two start failures with the same message, its other trials fail unrun.
//!
//! Not here: how a cluster starts (`cluster`).

use std::collections::BTreeMap;

use bakeoff_core::plan::Trial;
use bakeoff_core::record::{TrialOutcome, TrialRecord};

use crate::trial::begun;

/// Start failures in a row after which a system is skipped.
const GIVES_UP_AFTER: u32 = 2;

/// Start failures, by system.
#[derive(Debug, Default)]
pub(super) struct StartFailures {
    in_a_row: BTreeMap<String, InARow>,
}

#[derive(Debug)]
struct InARow {
    count: u32,
    /// Message of the latest failure.
    why: String,
}

impl StartFailures {
    /// Adds a trial. Returns the failure if it makes bakeoff skip the system from now on.
    pub(super) fn note(&mut self, record: &TrialRecord) -> Option<&str> {
        let system = &record.trial.system;
        let TrialOutcome::Failed(why) = &record.outcome else {
            self.in_a_row.remove(system);
            return None;
        };
        if !record.never_ready() {
            self.in_a_row.remove(system);
            return None;
        }
        let entry = self.in_a_row.entry(system.clone());
        let row = entry.or_insert_with(|| InARow { count: 0, why: why.clone() });
        row.count = if is_same(&row.why, why) { row.count + 1 } else { 1 };
        row.why.clone_from(why);
        (row.count == GIVES_UP_AFTER).then_some(&row.why)
    }

    /// Returns the record of a skipped trial, or `None` if the trial should run.
    pub(super) fn not_tried(&self, trial: &Trial) -> Option<TrialRecord> {
        let row = self.in_a_row.get(&trial.system)?;
        (row.count >= GIVES_UP_AFTER).then(|| TrialRecord {
            outcome: TrialOutcome::Failed(format!(
                "not tried: it failed to start twice: {}",
                row.why
            )),
            not_tried: true,
            ..begun(trial, bakeoff_clock::wall::utc_now())
        })
    }
}

/// Compares messages without numbers and units, because ports, process IDs and times vary.
fn is_same(one: &str, other: &str) -> bool {
    let without = |text: &str| -> Vec<String> {
        let words =
            text.split_whitespace().filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
        words.map(|word| word.chars().filter(|c| !c.is_ascii_digit()).collect()).collect()
    };
    without(one) == without(other)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_with_other_times_and_ports_are_equal() {
        let died = |after: &str| {
            format!("`web-1` ended with exit code 3 after {after}, before it was ready")
        };
        assert!(is_same(&died("10.5ms"), &died("170.1µs")));
        assert!(is_same("port 17001: in use", "port 17002: in use"));
        assert!(!is_same(&died("1s"), "`web-1` was not ready after 30s"));
    }

    fn ended(system: &str, outcome: TrialOutcome) -> TrialRecord {
        let text = format!(
            r#"{{"number":0,"round":0,"system":"{system}","workload":"w","load":"l","seed":1}}"#
        );
        let trial: Trial = serde_json::from_str(&text).unwrap();
        TrialRecord { outcome, ..begun(&trial, String::new()) }
    }

    fn failed(why: &str) -> TrialRecord {
        ended("kv", TrialOutcome::Failed(why.to_owned()))
    }

    #[test]
    fn system_is_skipped_after_two_equal_start_failures() {
        let mut failures = StartFailures::default();
        assert_eq!(failures.note(&failed("`kv-1` at port 1: exited with code 1")), None);
        assert!(failures.not_tried(&failed("").trial).is_none());
        let second = failed("`kv-1` at port 27: exited with code 1");
        assert!(failures.note(&second).is_some_and(|why| why.contains("exited with code 1")));
        let record = failures.not_tried(&second.trial).unwrap();
        let TrialOutcome::Failed(why) = record.outcome else { panic!("{:?}", record.outcome) };
        assert!(record.not_tried, "counted as skipped");
        assert!(why.starts_with("not tried: it failed to start twice: `kv-1`"), "{why}");
        assert!(failures.not_tried(&ended("other", TrialOutcome::Completed).trial).is_none());
    }

    #[test]
    fn different_failures_skip_no_system() {
        let mut failures = StartFailures::default();
        failures.note(&failed("a"));
        assert_eq!(failures.note(&failed("b")), None, "another reason");
        failures.note(&ended("kv", TrialOutcome::Completed));
        assert_eq!(failures.note(&failed("b")), None, "it started in between");
        let later = TrialRecord { ready_after: Duration::from_secs(1), ..failed("b") };
        failures.note(&later);
        assert_eq!(failures.note(&later), None, "it had started");
    }
}
