//! Parses the question of a study: `create`, or `create/best`.

use super::workloads::ReadWorkload;
use crate::study::DecidingPlace;
use crate::study::reading::Fields;
use crate::study::tree::{ByteRange, DiagnosticSink};
use crate::suggest::suggest;
use crate::units::shown;

/// Parses `question`; the outer `None` is a mistake.
pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    workloads: &[ReadWorkload],
) -> Option<Option<DecidingPlace>> {
    if top.node("question").is_none() {
        return Some(None);
    }
    let text = top.text(sink, "question")?;
    let (name, load) = match text.split_once('/') {
        Some((workload, load)) => (workload.trim(), Some(load.trim())),
        None => (text.as_str(), None),
    };
    let [workload_at, load_at] = sides(sink, top.value_at("question"));
    let Some(workload) = workloads.iter().find(|one| one.name == name) else {
        let names = workloads.iter().map(|one| one.name.as_str());
        let hint = suggest(name, names, "known workloads:");
        sink.hint(&workload_at, format!("unknown workload `{}` in `question`", shown(name)), hint);
        return None;
    };
    let load = match load {
        None => workload.loads.first()?.clone(),
        Some(load) if workload.loads.iter().any(|one| one == load) => load.to_owned(),
        Some(load) => {
            let what = format!("workload `{name}` has no load `{}`", shown(load));
            let names = workload.loads.iter().map(String::as_str);
            sink.hint(&load_at, what, suggest(load, names, "its loads:"));
            return None;
        }
    };
    Some(Some(DecidingPlace { workload: name.to_owned(), load }))
}

/// Returns the places before and after the `/`; the whole place for each without one.
fn sides(sink: &DiagnosticSink<'_>, at: &ByteRange) -> [ByteRange; 2] {
    match sink.text().get(at.clone()).and_then(|text| text.find('/')) {
        Some(slash) => [at.start..at.start + slash, at.start + slash + 1..at.end],
        None => [at.clone(), at.clone()],
    }
}
