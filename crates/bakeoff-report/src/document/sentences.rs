//! The sentences that a report begins with: what was found, for each workload and load and for the run.
//!
//! Not here: other words of a report (`words`), how systems are compared in one (`bakeoff_core::stats`).

use bakeoff_core::stats::and;
use bakeoff_core::study::Study;

use crate::derive::comparison::Comparison;

/// `scaled to 0.01 of the study's`; `None` for a study as it stands.
pub(crate) fn scale(study: &Study) -> Option<String> {
    ((study.scale - 1.0).abs() > 1e-9)
        .then(|| format!("scaled to {} of the study's", scale_number(study)))
}

/// The scale without the noise of binary fractions.
pub(crate) fn scale_number(study: &Study) -> String {
    let text = format!("{:.9}", study.scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the findings, a paragraph for each workload and load.
pub(crate) fn found(study: &Study, sentences: &[String]) -> Vec<String> {
    let scale = scale(study).map(|scale| format!("With counts {scale}:"));
    let nothing = sentences.is_empty().then(|| "nothing was measured.".to_owned());
    let sentences = sentences.iter().map(|one| format!("{one}."));
    scale.into_iter().chain(nothing).chain(sentences).collect()
}

/// Returns the run in a few sentences, the scale in the first.
/// `summary`: what the comparisons found, without full stops; empty if nothing was measured.
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

/// Returns how many workloads and loads have something judged: each is a family of comparisons.
pub(crate) fn families(of: &[Comparison]) -> usize {
    let judged = |one: &&Comparison| one.judgements.iter().any(|judged| judged.answer.is_some());
    of.iter().filter(judged).count()
}

/// Over how many families claims were drawn, and which hold for all together; `None` for one family,
/// and where nothing is claimed.
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
    let over = format!("over {families} workloads and loads");
    Some(match alone.as_slice() {
        [] => format!("drawn {over}; the leading claims hold at 5 % for all of them together"),
        alone => format!(
            "drawn {over}; a leading claim under {} holds at 5 % taken by itself, and not for all of \
             them together",
            and(alone)
        ),
    })
}
