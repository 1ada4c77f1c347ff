//! Starts nodes with another version of their program, and asks the system which version it has then.
//!
//! Not here: finding the program (`cluster::contenders`), the restarts in turn (`faults`).

use bakeoff_core::check::Cause;
use bakeoff_core::record::Injection;
use bakeoff_host::Process;

use crate::cluster::ReadyCluster;

/// Starts nodes with the version of the upgrade. Returns the proof.
pub(super) fn start(processes: &[&Process]) -> Result<String, String> {
    let mut versions = Vec::new();
    for process in processes {
        versions.push(process.upgrade()?);
    }
    let started = super::start(processes)?;
    Ok(format!("{started} with version {}", versions.join(", ")))
}

/// Adds the version that an upgraded system reports to the proof. Another version than that of the upgrade makes the
/// injection unproven, for the returned cause: a further round would end alike.
pub(super) fn prove(
    cluster: &ReadyCluster,
    part: Option<&str>,
    injection: &mut Injection,
) -> Option<Cause> {
    let member = cluster.member(part)?;
    let hit = injection.hits.last_mut()?;
    let upgrade = member.own_processes().first().and_then(|node| node.spec().upgrade.as_ref());
    match (&member.view.version, upgrade) {
        (Some(seen), Some(new)) if !seen.starts_with(&new.version) => {
            let why = format!("the system reports version {seen} after the upgrade");
            injection.unproven.get_or_insert(why);
            return Some(Cause::Unclear);
        }
        (Some(seen), _) => hit.proof.push(format!("the system reports version {seen}")),
        (None, _) => {}
    }
    None
}
