//! Derives the quick form of a study: the part that answers its question in minutes.
//!
//! A published comparison may take hours, and one trial of it decides nothing. Its quick form keeps the workloads and
//! loads that carry the question, shortens the loads, and has enough trials to compare.
//!
//! Records hold the form that ran, marked as such, and never a form that did not.
//!
//! Not here: reading the form and checking it by the rules of studies (`parse::quick`), shrinking counts (`scale`).

use super::diagnostic::{Diagnostic, Diagnostics};
use super::{Load, PublishedValue, Study};

/// Describes the quick form of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct QuickForm {
    /// Names of its workloads, in the study's order.
    pub workloads: Vec<String>,
    /// Names of its systems, in the study's order.
    pub systems: Vec<String>,
    /// Its loads, in the study's order and with their own warm-up and end.
    pub loads: Vec<Load>,
    /// Number of trials of each combination.
    pub trials: u32,
}

impl Study {
    /// Returns the quick form of this study: only its workloads, systems and loads, the faults and published figures
    /// of what is left, and its number of trials.
    ///
    /// # Errors
    /// Fails if the study has no quick form.
    pub fn quick_form(mut self) -> Result<Study, Diagnostics> {
        let Some(QuickForm { workloads, systems, loads, trials }) = self.quick.take() else {
            return Err(Diagnostics::from(Diagnostic {
                what: format!("study `{}` has no quick form", self.name),
                place: None,
                hint: Some(
                    "add `quick: {trials: 3}` to its file; `bakeoff studies kv-stores` shows one"
                        .to_owned(),
                ),
            }));
        };
        self.systems.retain(|one| systems.contains(&one.name));
        self.workloads.retain(|one| workloads.contains(&one.name));
        for workload in &mut self.workloads {
            workload.systems.retain(|one| systems.contains(one));
            workload.loads.retain(|one| loads.iter().any(|load| load.name == *one));
        }
        self.loads = loads;
        // A fault without systems of its own happens to all.
        self.faults.retain_mut(|fault| {
            let is_general = fault.systems.is_empty();
            fault.systems.retain(|one| systems.contains(one));
            is_general || !fault.systems.is_empty()
        });
        if self.faults.is_empty() {
            self.repeat = super::fault::repeat();
        }
        let (workloads, faults) = (&self.workloads, &self.faults);
        let remains = |one: &PublishedValue| {
            let workload = workloads.iter().find(|workload| workload.name == one.workload);
            systems.contains(&one.system)
                && workload.is_some_and(|workload| workload.loads.contains(&one.load))
                && one.fault.as_ref().is_none_or(|name| faults.iter().any(|it| it.name == *name))
        };
        self.published.retain(remains);
        (self.trials, self.is_quick) = (trials, true);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::parse::tests::{EVERY_FIELD, read_shipped};
    use super::super::shipped::shipped;
    use super::super::testing::kinds;
    use super::super::{Stop, parse};
    use super::*;

    /// Study of two workloads. The second one carries the question.
    const TWO: &str = "\
title: t
systems:
  one: {kind: etcd, nodes: 3}
  two: {kind: etcd, nodes: 3}
  three: {kind: etcd, nodes: 3}
workloads:
  read: {mix: {get: 1}, keys: {count: 100}, systems: [one], loads: [slow]}
  write: {mix: {put: 1}, keys: {count: 100}, systems: [one, three], loads: [slow, brisk]}
loads:
  slow: {rate: 10/s, clients: 2, stop: {after: 60s}}
  brisk: {rate: 100/s, clients: 8, clients-for: {one: 4, two: 6}, warmup: 9s, stop: {after: 60s}}
question: write/brisk
faults:
  paused: {pause: leader, at: 2s, for: 1s}
  killed: {kill: leader, at: 2s, restart-after: 1s, systems: [two]}
repeat: 2
published:
  - {system: one, workload: write, load: brisk, metric: throughput-mean, value: 1}
  - {system: one, workload: write, load: slow, metric: throughput-mean, value: 2}
  - {system: one, workload: read, metric: throughput-mean, value: 3}
  - {system: two, workload: write, load: brisk, metric: throughput-mean, value: 4}
";

    /// Shipped studies that repeat a published comparison.
    const COMPARISONS: [&str; 5] =
        ["kv-stores", "vault-backends", "openbao-read-scaling", "ingress", "access-gateway"];

    fn quick(form: &str) -> Study {
        let text = format!("{TWO}{form}\n");
        let study = parse("t", "t.yaml", &text, &kinds()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let whole = study.clone();
        let quick = study.quick_form().unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(quick.deciding_place(), whole.deciding_place());
        quick
    }

    fn names<'a>(of: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
        of.into_iter().map(String::as_str).collect()
    }

    #[test]
    fn quick_form_keeps_the_workload_of_the_question_and_its_systems() {
        let quick = quick("quick: {}");
        assert_eq!(names(quick.workloads.iter().map(|one| &one.name)), ["write"]);
        assert_eq!(names(quick.systems.iter().map(|one| &one.name)), ["one", "three"]);
        assert_eq!(names(quick.loads.iter().map(|one| &one.name)), ["slow", "brisk"]);
        assert_eq!((quick.trials, quick.is_quick), (3, true));
        assert_eq!(quick.quick, None);
        assert_eq!(quick.published.iter().map(|one| one.value).collect::<Vec<_>>(), [1.0, 2.0]);
        assert_eq!(names(quick.faults.iter().map(|one| &one.name)), ["paused"]);
    }

    #[test]
    fn quick_form_changes_only_the_windows_of_its_loads() {
        let quick =
            quick("quick: {systems: [one], loads: {brisk: {stop: {after: 10s}}}, trials: 5}");
        let [brisk] = &quick.loads[..] else { panic!("{:?}", quick.loads) };
        assert_eq!(brisk.stop, Stop::After(Duration::from_secs(10)));
        assert_eq!(brisk.warmup, Duration::from_secs(9), "as in the study");
        assert_eq!((brisk.clients_on("one"), brisk.clients_for.len()), (&[4][..], 1));
        assert_eq!(names(&quick.workloads[0].loads), ["brisk"]);
        assert_eq!(names(&quick.workloads[0].systems), ["one"]);
        assert_eq!(quick.published.len(), 1);
        assert_eq!(quick.trials, 5);
    }

    #[test]
    fn warmup_that_the_study_omits_follows_the_new_end() {
        let warmup = |form: &str| quick(form).loads[0].warmup;
        let shorter = "quick: {loads: {slow: {stop: {after: 10s}}, brisk: {}}}";
        assert_eq!(warmup(shorter), Duration::from_secs(2));
        let own = "quick: {loads: {slow: {warmup: 0s}, brisk: {warmup: 1s}}}";
        assert_eq!(warmup(own), Duration::ZERO);
    }

    #[test]
    fn study_without_quick_form_is_refused() {
        let study = parse("t", "t.yaml", TWO, &kinds()).expect("a study");
        assert_eq!(
            study.quick_form().expect_err("it has none").to_string(),
            "error: study `t` has no quick form\n\
             hint: add `quick: {trials: 3}` to its file; `bakeoff studies kv-stores` shows one"
        );
    }

    #[test]
    fn records_hold_no_form_that_did_not_run() {
        let study = parse("my", "my.yaml", EVERY_FIELD, &kinds()).expect("a study");
        assert!(study.quick.is_some());
        let json = serde_json::to_value(&study).expect("a study is JSON");
        assert_eq!((json.get("quick"), json.get("is_quick")), (None, None));
        let json = serde_json::to_value(study.quick_form().expect("a form")).expect("JSON");
        assert_eq!((json.get("quick"), json["is_quick"].as_bool()), (None, Some(true)));
    }

    #[test]
    fn published_comparisons_have_quick_forms_that_can_decide() {
        let mut with_form = Vec::new();
        for (name, _) in shipped() {
            let study = read_shipped(name);
            if study.quick.is_none() || study.published.is_empty() {
                continue;
            }
            with_form.push(*name);
            let place = study.deciding_place();
            let quick = study.clone().quick_form().unwrap_or_else(|wrong| panic!("{wrong}"));
            assert_eq!(quick.deciding_place(), place, "{name}");
            assert!(quick.trials >= 3 && quick.systems.len() >= 2, "{name}");
            assert!(!quick.published.is_empty(), "{name}");
            let first = (&quick.published[0].workload[..], &quick.published[0].load[..]);
            assert_eq!(first, place, "{name} begins with figures of another workload");
        }
        assert_eq!(with_form, COMPARISONS);
    }
}
