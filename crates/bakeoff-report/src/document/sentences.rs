//! The sentences that a report begins with: findings for each workload and load, and for the run.
//!
//! Not here: other texts (`words`), the comparison in a sentence (`bakeoff_core::stats`).

use bakeoff_core::stats::and;
use bakeoff_core::study::Study;

use crate::derive::comparison::Comparison;

/// Returns `scaled to 0.01 of the study's`; `None` for an unscaled study.
pub(crate) fn scale(study: &Study) -> Option<String> {
    study.scale_text().map(|scale| format!("scaled to {scale} of the study's"))
}

/// Returns the findings, one paragraph for each workload and load.
pub(crate) fn found(study: &Study, sentences: &[String]) -> Vec<String> {
    let scale = scale(study).map(|scale| format!("With counts {scale}:"));
    let nothing = sentences.is_empty().then(|| "nothing was measured.".to_owned());
    let sentences = sentences.iter().map(|one| format!("{one}."));
    scale.into_iter().chain(nothing).chain(sentences).collect()
}

/// Returns the summary of a run, with the scale in the first sentence. `summary`: findings without full stops; empty if
/// nothing was measured.
pub(crate) fn summary(study: &Study, summary: &[String]) -> Vec<String> {
    let nothing = ["nothing was measured".to_owned()];
    let found = if summary.is_empty() { &nothing[..] } else { summary };
    let mut scale = scale(study);
    let line = |found: &String| match scale.take() {
        Some(scale) => format!("With counts {scale}: {found}."),
        None => format!("{found}."),
    };
    found.iter().map(line).collect()
}

/// Returns the number of workloads and loads with a judged comparison. Each is a family of comparisons.
pub(crate) fn families(of: &[Comparison]) -> usize {
    let judged = |one: &&Comparison| one.judgements.iter().any(|judged| judged.answer.is_some());
    of.iter().filter(judged).count()
}

/// Returns how many families the claims come from, and which claims hold for all families together. `None` for a single
/// family, and without claims.
pub(crate) fn together(of: &[Comparison]) -> Option<String> {
    let families = families(of);
    let judgements = |one: &Comparison| -> Vec<bool> {
        one.judgements.iter().filter_map(|judged| judged.in_report).collect()
    };
    let claims: usize = of.iter().map(|one| judgements(one).len()).sum();
    if families < 2 || claims == 0 {
        return None;
    }
    let alone: Vec<String> =
        of.iter().filter(|one| judgements(one).contains(&false)).map(|one| one.place()).collect();
    let over = format!("from {families} workloads and loads");
    Some(match alone.as_slice() {
        [] => format!("claims {over}; the leading claims hold at 5 % for all of them together"),
        alone => format!(
            "claims {over}; a leading claim under {} holds at 5 % by itself, but not for all of \
             them together",
            and(alone)
        ),
    })
}
