//! Judges the history of a trial's load: whether some order of the operations on each key explains every answer.
//!
//! The history covers the fill and all stages with their warm-ups. Later writes, such as those during a kill, are not
//! in it.
//!
//! Not here: recording (`bakeoff_engine`), judging (`bakeoff_core::linearizability`), reading keys back (`audit`).

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::linearizability::judged_history::{HistoryVerdict, JudgedHistory, KeptHistory};
use bakeoff_core::record::{Check, Freshness};
use bakeoff_core::study::{LinearizabilityCheck, Operation, Study, Workload};
use bakeoff_core::trial_samples::PhaseName;
use bakeoff_core::units::{count_text, plural};
use bakeoff_fleet::generators::all_generators::Generators;
use bakeoff_fleet::warnings;

use super::TrialRunner;

/// Name of a history's file in its trial's folder.
const FILE: &str = "history.jsonl";

/// Returns true if the study checks the histories of keys, and the workload uses single keys.
pub(super) fn is_recorded(study: &Study, workload: &Workload) -> bool {
    let of_one_key = |operation: &Operation| operation.writes() || operation.reads_one_key();
    !study.linearizability.is_off() && workload.mix.keys().any(of_one_key)
}

impl TrialRunner<'_, '_> {
    /// Judges the history of the load, if it was recorded.
    pub(super) fn judge_history(&mut self, generators: &Generators<'_>) {
        let (contender, workload) = (self.of.contender, self.of.workload);
        let study = self.context.study;
        if !is_recorded(study, workload) {
            return;
        }
        self.phase(PhaseName::JudgingHistory);
        let path = self.own.join(FILE);
        let always = study.linearizability == LinearizabilityCheck::KeepingHistory;
        let judged = generators.judge_history();
        let mut judged = judged.unwrap_or_else(|why| JudgedHistory {
            verdict: HistoryVerdict::NotChecked(format!("lost the generator with it: {why}")),
            ..JudgedHistory::default()
        });
        let kept = match always || judged.verdict == HistoryVerdict::Violated {
            true => generators.keep_history(&path).map(Some),
            false => generators.forget_history().map(|()| None),
        };
        match kept {
            Ok(kept) => {
                let in_run = path.strip_prefix(self.context.run_dir).unwrap_or(&path);
                let file = in_run.display().to_string();
                judged.kept = kept.map(|kept| KeptHistory { file, ..kept });
            }
            Err(why) => {
                let path = path.display();
                warnings::warn(&format!("cannot keep the history in `{path}`: {why}"));
            }
        }
        let freshness = contender.system.freshness(&contender.found, workload.reads);
        judged.unguaranteed = freshness != Freshness::Linearizable;
        self.record.checks.push(Check::new(CheckName::Linearizability, verdict(&judged)));
        self.record.linearizability = Some(judged);
    }
}

/// Returns the verdict of the check. A violation fails it if the system guarantees linearizable reads.
fn verdict(of: &JudgedHistory) -> Verdict {
    match &of.verdict {
        HistoryVerdict::Linearizable => Verdict::Passed,
        HistoryVerdict::NotChecked(why) => Verdict::NotChecked(why.clone()),
        HistoryVerdict::Undecided(why) => Verdict::NotChecked(format!("could not decide: {why}")),
        HistoryVerdict::Violated => {
            let shown = of.violation.as_ref();
            let shown = shown.map(|one| format!("; key `{}`: {}", one.key, one.text()));
            let violated = format!(
                "{} of {} no order that explains every answer{}",
                count_text(of.keys_violated),
                match of.keys {
                    1 => "1 key has".to_owned(),
                    keys => format!("{} have", plural(keys, "key")),
                },
                shown.unwrap_or_default(),
            );
            match of.unguaranteed {
                true => Verdict::NotChecked(format!(
                    "{violated}. This breaks no guarantee: such reads may be stale"
                )),
                false => Verdict::Failed(violated),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violation_fails_the_trial_only_against_a_guarantee() {
        let found = |unguaranteed| JudgedHistory {
            verdict: HistoryVerdict::Violated,
            keys: 9,
            keys_violated: 2,
            unguaranteed,
            ..JudgedHistory::default()
        };
        let why = "2 of 9 keys have no order that explains every answer";
        assert_eq!(verdict(&found(false)), Verdict::Failed(why.into()));
        let Verdict::NotChecked(text) = verdict(&found(true)) else { panic!("no guarantee") };
        assert!(text.starts_with(why), "{text}");
    }

    #[test]
    fn undecided_history_never_passes() {
        let found = |verdict| JudgedHistory { verdict, ..JudgedHistory::default() };
        let undecided = found(HistoryVerdict::Undecided("too long".into()));
        assert_eq!(verdict(&undecided), Verdict::NotChecked("could not decide: too long".into()));
        let not_checked = found(HistoryVerdict::NotChecked("all keys have deletes".into()));
        assert!(matches!(verdict(&not_checked), Verdict::NotChecked(_)));
        assert_eq!(verdict(&found(HistoryVerdict::Linearizable)), Verdict::Passed);
    }
}
