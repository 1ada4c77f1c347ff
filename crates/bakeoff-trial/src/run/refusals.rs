//! Refuses a run whose result would mislead, before its first trial and with a hint.
//!
//! Not here: mistakes of a study (`bakeoff_core::study`), studies that do not fit a places file (`misfits`), a gate's flags
//! (the binary's `commands::gate`).

use std::path::Path;

use bakeoff_core::places::{Machine, Reach};
use bakeoff_core::plan::Trial;
use bakeoff_core::record::machines::machine_changes;
use bakeoff_core::record::{Environment, FORMAT, Record, RunHeader, RunMachine, SystemRecord};
use bakeoff_core::study::Study;
use bakeoff_core::units::ranges_text;
use bakeoff_systems as systems;
use bakeoff_systems::topology::compose;

use crate::cluster::contenders::{self, PreparedSystem};
use crate::run::folder::RunFolder;
use crate::run::trust::RecordTrust;
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::machines::fleet::Fleet;

/// Refuses to resume with other programs.
pub(super) fn refuse_changed_programs(
    header: &RunHeader,
    contenders: &[PreparedSystem<'_>],
    folder: &RunFolder,
) -> Result<(), FleetError> {
    let found: Vec<&SystemRecord> = contenders.iter().map(|contender| &contender.record).collect();
    refuse(&changes(header, &found), folder, "start a new run of the study")
}

/// Refuses to resume on machines with other properties than those that the run began on. Returns the changes that the
/// user trusts, now or when the run was resumed before.
pub(super) fn refuse_changed_machines(
    record: &Record,
    now: &Environment,
    trust: RecordTrust,
    folder: &RunFolder,
) -> Result<Vec<String>, FleetError> {
    let changes = machine_changes(&record.header.environment, now);
    let known = record.machine_changes();
    if trust != RecordTrust::Any && !changes.iter().all(|change| known.contains(change)) {
        refuse(&changes, folder, OTHER_MACHINES)?;
    }
    Ok(changes)
}

const OTHER_MACHINES: &str = "start a new run of the study; `--trust` mixes machines in this one, and its report and \
                              `bakeoff verify` begin with that";

/// Refuses to resume a run of another version of bakeoff.
pub(super) fn refuse_another_bakeoff(
    header: &RunHeader,
    folder: &RunFolder,
) -> Result<(), FleetError> {
    let mut changes = Vec::new();
    differs(&mut changes, "bakeoff", &header.bakeoff, env!("CARGO_PKG_VERSION"));
    // A field may change its meaning between formats.
    let (then, now) = (header.format.to_string(), FORMAT.to_string());
    differs(&mut changes, "the record's format", &then, &now);
    refuse(&changes, folder, "start a new run of the study")
}

fn refuse(changes: &[String], folder: &RunFolder, hint: &str) -> Result<(), FleetError> {
    if changes.is_empty() {
        return Ok(());
    }
    Err(FleetError::input(
        format!("cannot resume `{}`: {}", folder.path.display(), changes.join("; ")),
        hint,
    ))
}

/// Lists the differences in programs since the run began, as clauses.
fn changes(header: &RunHeader, found: &[&SystemRecord]) -> Vec<String> {
    let mut changes = Vec::new();
    let mut differs = |what: &str, then: &str, now: &str| differs(&mut changes, what, then, now);
    for (then, now) in header.systems.iter().zip(found) {
        let text = |of: &Option<String>| of.clone().unwrap_or_else(|| "unknown".to_owned());
        let name = &then.name;
        differs(&format!("{name}'s version"), &text(&then.version), &text(&now.version));
        differs(&format!("the SHA-256 of {name}"), &text(&then.sha256), &text(&now.sha256));
    }
    changes
}

fn differs(changes: &mut Vec<String>, what: &str, then: &str, now: &str) {
    if then != now {
        changes.push(format!("{what} was {then} and is {now}"));
    }
}

/// Hint for a machine that cannot mount a file system whose disk breaks.
pub const DISKS_HINT: &str = "disk faults need `/dev/fuse`, and user namespaces for ordinary users; or choose others with `--faults`";

/// Refuses a study with disk faults on machines that cannot mount a file system whose disk breaks.
pub(super) fn refuse_disks(study: &Study, fleet: &Fleet) -> Result<(), FleetError> {
    let Some(system) = study.with_disk_faults() else { return Ok(()) };
    match fleet.lacks_own_disks()? {
        None => Ok(()),
        Some(why) => Err(FleetError::input(
            format!("cannot break the disks of system `{}`: {why}", system.name),
            DISKS_HINT,
        )),
    }
}

/// Refuses a gate whose two builds are the same program. Two version requests may lead to one.
pub(super) fn refuse_same_program(contenders: &[PreparedSystem<'_>]) -> Result<(), FleetError> {
    let [base, new] = contenders else { return Ok(()) };
    let of = |one: &PreparedSystem<'_>| one.record.sha256.clone();
    let same_options = base.study_system.options == new.study_system.options;
    match of(base) {
        Some(sum) if same_options && of(new).as_ref() == Some(&sum) => {
            let text = |record: &SystemRecord| {
                let version = record.version.clone().unwrap_or_else(|| "no version".to_owned());
                format!("{version}, {}", record.source.clone().unwrap_or_default())
            };
            Err(FleetError::input(
                format!(
                    "base ({}) and new ({}) are the same program (SHA-256 {sum})",
                    text(&base.record),
                    text(&new.record)
                ),
                SAME_HINT,
            ))
        }
        _ => Ok(()),
    }
}

/// Hint for a gate whose builds do not differ.
pub const SAME_HINT: &str = "was the new one built? nothing was started";

/// Checks that all ports from `base` on that the trials will use are free.
pub(super) fn check_ports(
    base: Option<u16>,
    order: &[Trial],
    contenders: &[PreparedSystem<'_>],
    dir: &Path,
    fleet: &Fleet,
) -> Result<(), FleetError> {
    let Some(base) = base else { return Ok(()) };
    let (mut ports, locating) = (fleet.rehearsal(base), fleet.locating());
    for trial in order {
        let components = &contenders::for_trial(contenders, trial).components;
        compose(components, dir, 0, &locating, &mut ports)?;
    }
    Ok(())
}

/// Refuses to resume on machines with other names, addresses or CPUs.
pub(super) fn refuse_other_machines(
    record: &Record,
    fleet: &Fleet,
    folder: &RunFolder,
) -> Result<(), FleetError> {
    let then = &record.header.environment.machines;
    let now: &[Machine] = fleet.places().map_or(&[], |places| &places.machines);
    // New pods have new addresses.
    let is_same = |then: &RunMachine, now: &Machine| {
        let same_place =
            matches!(now.reach, Reach::Pod { .. }) || then.address == now.address.to_string();
        then.name == now.name && then.cpus == now.cpus && same_place
    };
    if then.len() == now.len() && then.iter().zip(now).all(|(then, now)| is_same(then, now)) {
        return Ok(());
    }
    let text = |(name, address, cpus): (&str, String, &[u32])| match cpus {
        [] => format!("{name} ({address})"),
        cpus => format!("{name} ({address}, CPUs {})", ranges_text(cpus)),
    };
    let all = |machines: Vec<String>| match machines.as_slice() {
        [] => "this machine alone".to_owned(),
        several => several.join(", "),
    };
    let before = then.iter().map(|one| text((&one.name, one.address.clone(), &one.cpus)));
    let after = now.iter().map(|one| text((&one.name, one.address.to_string(), &one.cpus)));
    let hint = match then.is_empty() {
        true => "resume it without `--on`",
        false => "resume it with `--on FILE`, the places file that it began with",
    };
    let what = format!(
        "`{}` runs on {}, not on {}",
        folder.path.display(),
        all(before.collect()),
        all(after.collect())
    );
    Err(FleetError::input(what, hint))
}

/// Refuses machines without disk space for the servers' data.
pub(super) fn check_space_elsewhere(study: &Study, fleet: &Fleet) -> Result<(), FleetError> {
    let Some(machines) = fleet.placed() else { return Ok(()) };
    match machines.least_space()? {
        Some((free, machine)) if study.starts_any() && free < SPACE_MIN => {
            Err(FleetError::machine(format!(
                "only {} MiB are free on the disk of `{machine}` that would hold the servers' data\n  needed: at \
                 least {} MiB\nhint: {}",
                free >> 20,
                SPACE_MIN >> 20,
                match machines.places.kubernetes {
                    None => "`data` in the places file names another folder",
                    Some(_) =>
                        "`storage-class` and `storage` in the places file ask for volumes of a size",
                }
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses systems that no relay can stand before, and faults that lose packets, where networks are cut by relays. `why`:
/// the reason for relays.
///
/// # Errors
/// The first such system or fault.
pub fn refuse_relays(study: &Study, why: &str) -> Result<(), FleetError> {
    if let Some(fault) = study.faults.iter().find(|fault| fault.action.loses_packets()) {
        let what = format!("fault `{}` cannot lose packets here: {why}", fault.name);
        let hint = "relays delay bytes and lose none: leave `loss` out, or allow user namespaces";
        return Err(FleetError::input(what, hint));
    }
    let Some(lacking) = systems::without_relays(study) else { return Ok(()) };
    Err(FleetError::input(
        format!(
            "the network of `{}` cannot be cut here: {why}\n  and no relay can stand before {}, which announces the \
             address that it listens on",
            lacking.name, lacking.kind
        ),
        "allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, or an AppArmor profile), or leave those \
         faults out: `--faults`",
    ))
}

/// Free disk space, in bytes, with which three servers of any kind start and keep their logs.
pub const SPACE_MIN: u64 = 1 << 30;

/// Refuses a disk without space for the servers' data. `free`: in bytes.
pub(super) fn check_space(study: &Study, free: u64) -> Result<(), FleetError> {
    if study.starts_any() && free < SPACE_MIN {
        let mib = free >> 20;
        return Err(FleetError::machine(format!(
            "only {mib} MiB are free on the disk that would hold the servers' data\n  needed: at least \
             {} MiB\nhint: `--out DIR` puts runs somewhere else",
            SPACE_MIN >> 20
        )));
    }
    Ok(())
}
