//! YAML text to a resolved study, or everything that is wrong with it.
//!
//! Reading goes on after a mistake wherever that makes sense: a study is often written far from
//! the machine that runs it, and one round of mending is better than five. Nothing is ever
//! adjusted to make a study work, since that would be another experiment.
//!
//! Not here: the fields (`fields`), reading one value (`reading`), YAML itself (`tree`).

mod combine;
mod loads;
mod published;
pub(super) mod systems;
mod workloads;

#[cfg(test)]
pub(in crate::study) mod tests;

use std::time::Duration;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::fields;
use super::reading::Fields;
use super::tree::{self, Mistaken, Node};
use super::{Clusters, Kill, Kind, Publication, SAMPLE_EVERY_MIN, Study};
use crate::units::duration_text;

/// Reads the study `name` from `text`. `file` is how messages call where it came from; `kinds` says
/// what each kind of system can do.
///
/// # Errors
/// Every mistake that was found, each with its place, in the order of the text.
pub fn parse(name: &str, file: &str, text: &str, kinds: &[Kind]) -> Result<Study, Diagnostics> {
    let mut mistaken = Mistaken::new(file, text);
    let study =
        tree::read(text, &mut mistaken).and_then(|root| study(&mut mistaken, name, &root, kinds));
    match study {
        Some(study) if mistaken.is_empty() => Ok(study),
        _ if mistaken.is_empty() => Err(Diagnostics::from(Diagnostic {
            what: format!("`{file}` could not be read as a study, and bakeoff does not know why"),
            place: None,
            hint: Some("this is a mistake in bakeoff; please report it with the file".to_owned()),
        })),
        _ => Err(mistaken.into_diagnostics()),
    }
}

fn study(mistaken: &mut Mistaken<'_>, name: &str, root: &Node, kinds: &[Kind]) -> Option<Study> {
    let top = Fields::open(mistaken, &fields::STUDY, "the study", &(0..0), root)?;
    let title = top.text(mistaken, "title");
    let description = top.text(mistaken, "description");
    let systems = systems::read(mistaken, &top, kinds);
    let loads = loads::read(mistaken, &top, &systems);
    let workloads = workloads::read(mistaken, &top, &systems, &loads);
    combine::check(mistaken, &systems, &workloads, &loads);
    let trials = top.whole(mistaken, "trials");
    let audit_keys = top.whole(mistaken, "audit-keys");
    let audit = top.table(mistaken, "audit");
    let kill = audit.filter(|audit| audit.node("kill").is_some());
    let kill = kill.map(|audit| audit.word(mistaken, "kill", Kill::ALL));
    let sample_every = sample_every(mistaken, &top);
    let clusters = top.word(mistaken, "clusters", Clusters::ALL);
    let publication = top
        .table(mistaken, "publication")
        .and_then(|publication| self::publication(mistaken, &publication));
    let published = published::read(mistaken, &top, &systems, &workloads, &loads);
    Some(Study {
        name: name.to_owned(),
        title: title?,
        description,
        systems: systems.into_iter().map(|read| read.system).collect::<Option<_>>()?,
        workloads: workloads.into_iter().map(|read| read.workload).collect::<Option<_>>()?,
        loads: loads.into_iter().map(|read| read.load).collect::<Option<_>>()?,
        trials: u32::try_from(trials?).ok()?,
        audit_keys: audit_keys?,
        kill: kill.map_or(Some(None), |kill| kill.map(Some))?,
        sample_every: sample_every?,
        clusters: clusters?,
        publication,
        published,
        scale: 1.0,
    })
}

fn sample_every(mistaken: &mut Mistaken<'_>, top: &Fields<'_>) -> Option<Duration> {
    let every = top.duration(mistaken, "sample-every")?;
    if every < SAMPLE_EVERY_MIN {
        let least = duration_text(SAMPLE_EVERY_MIN);
        mistaken
            .add(top.value_at("sample-every"), format!("`sample-every` must be at least {least}"));
        return None;
    }
    Some(every)
}

fn publication(mistaken: &mut Mistaken<'_>, fields: &Fields<'_>) -> Option<Publication> {
    let title = fields.text(mistaken, "title");
    let hardware = fields.text(mistaken, "hardware");
    let versions = fields.text(mistaken, "versions");
    Some(Publication { title: title?, hardware: hardware?, versions })
}
