//! Prepares the systems of a study before anything is started: fetches programs, queries endpoints.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bakeoff_core::plan::Trial;
use bakeoff_core::record::{Encryption, Guarantees, PartRecord, SystemRecord, UpgradeRecord};
use bakeoff_core::study::{self, CredentialForm, Study, Tier};
use bakeoff_host::ports::Allocator;
use bakeoff_install::{
    self as install, Availability, Cache, InstallMessage, InstalledProgram, Program, Seal,
    SourceOption, VersionRequest,
};
use bakeoff_systems::location_plan::LocationPlan;
use bakeoff_systems::topology::{self, Component, Member, compose};
use bakeoff_systems::{self as systems, COMPOSITE, System, exchange};

use crate::cluster;
use crate::event::{Event, Reporter};
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::machines::fleet::Fleet;

/// A system of the study, ready to start.
pub struct PreparedSystem<'a> {
    /// The system as the study describes it.
    pub study_system: &'a study::System,
    /// System with the version of the program that was found. Guarantees may depend on it.
    pub found: study::System,
    /// Implementation of the system's kind.
    pub system: &'static dyn System,
    /// Components in the order of their start. Empty if bakeoff does not start the system.
    pub components: Vec<Component<'a>>,
    /// Description in the record's header.
    pub record: SystemRecord,
}

/// Finds or fetches the programs of all systems, and queries systems that already run.
///
/// # Errors
/// If a program is missing and cannot be fetched, or a running system does not answer.
pub fn gather<'a>(
    study: &'a Study,
    run_dir: &Path,
    fleet: &Fleet,
    (reporter, stop): (&mut dyn Reporter, &AtomicBool),
) -> Result<Vec<PreparedSystem<'a>>, FleetError> {
    let missing = missing_programs(study, fleet)?;
    if !missing.is_empty() {
        reporter.report(&Event::ProgramsMissing { programs: &missing });
    }
    let each = study.systems.iter();
    each.map(|study_system| contender(study, study_system, run_dir, fleet, (&mut *reporter, stop)))
        .collect()
}

fn contender<'a>(
    study: &Study,
    study_system: &'a study::System,
    run_dir: &Path,
    fleet: &Fleet,
    (reporter, stop): (&mut dyn Reporter, &AtomicBool),
) -> Result<PreparedSystem<'a>, FleetError> {
    let system = kind_of(study_system);
    if !study_system.is_started() {
        return running(study_system, system, reporter, stop);
    }
    let mut add = |role: &'a str, tier: Option<Tier>, component_of: &'a study::System| {
        let part = tier.map(|_| role);
        let upgrade = study.upgrade_of(&study_system.name, part);
        component((role, tier), component_of, upgrade, fleet, (&mut *reporter, stop))
    };
    let mut components = vec![add(COMPOSITE, None, study_system)?];
    // In the kind's order of roles, because a later part may need an earlier one.
    for role in system.kind().roles {
        if let Some(part) = study_system.parts.get(role.name) {
            components.push(add(role.name, Some(role.tier), part)?);
        }
    }
    components.sort_by_key(|one| topology::order(one.tier));
    // Described once for their settings. Ports and folders differ by trial.
    let members =
        compose(&components, run_dir, 0, &LocationPlan::here(), &mut Allocator::new(None))?;
    let mut record = SystemRecord::default();
    let mut parts = Vec::new();
    let mut between: Vec<(&str, Encryption)> = Vec::new();
    for member in members {
        let role = member.of.role;
        between.extend(member.description.between.filter(|message| !between.contains(message)));
        let one = started(member);
        match role {
            COMPOSITE => record = one,
            role => parts.push(PartRecord { role: role.to_owned(), part: one }),
        }
    }
    record.parts = parts;
    let words: Vec<&str> = between.iter().map(|(words, _)| *words).collect();
    record.between = (!words.is_empty()).then(|| words.join("; "));
    // One plain connection means that the system is not encrypted.
    record.encryption_between = between.iter().map(|(_, encryption)| *encryption).min();
    let found = with_version(study_system, record.version.clone());
    Ok(PreparedSystem { study_system, found, system, components, record })
}

/// Queries a system that already runs.
fn running<'a>(
    study_system: &'a study::System,
    system: &'static dyn System,
    reporter: &mut dyn Reporter,
    stop: &AtomicBool,
) -> Result<PreparedSystem<'a>, FleetError> {
    let endpoints: Vec<String> =
        study_system.endpoints().iter().map(|e| format!("{}:{}", e.host, e.port)).collect();
    let endpoints = endpoints.join(", ");
    reporter.report(&Event::SystemAsked { system: &study_system.name, endpoints: &endpoints });
    let cluster = cluster::attach(system, study_system)?.ready(stop)?;
    let version = cluster.view.version.clone();
    let record = SystemRecord {
        already_running: true,
        tls_version: (exchange::handshake(cluster.first()).ok().flatten())
            .map(|version| study_system.tls_text(version)),
        source: Some(endpoints),
        // bakeoff did not configure it.
        guarantees: Guarantees { acknowledged_in: None, ..system.guarantees(study_system) },
        version: version.clone(),
        authentication: shown_credentials(study_system, system),
        ..named(study_system, system)
    };
    let found = with_version(study_system, version);
    Ok(PreparedSystem { study_system, found, system, components: Vec::new(), record })
}

/// Returns, in words, how clients authenticate at a system that already runs.
fn shown_credentials(study_system: &study::System, system: &'static dyn System) -> Option<String> {
    let given = study_system.credentials.as_ref();
    match given.map(|given| (system.kind().credentials, given.token.is_some())) {
        Some((CredentialForm::Token, _)) => Some("a token with each request".to_owned()),
        Some((CredentialForm::PasswordOrToken, true)) => Some("a token".to_owned()),
        Some((CredentialForm::Password | CredentialForm::PasswordOrToken, _)) => {
            Some("user and password".to_owned())
        }
        _ => system.declares().clients.authentication.map(str::to_owned),
    }
}

/// Returns the record of a system or part, as the study describes it.
fn named(study_system: &study::System, system: &'static dyn System) -> SystemRecord {
    SystemRecord {
        name: study_system.name.clone(),
        kind: study_system.kind.clone(),
        nodes: study_system.nodes,
        authentication: system.declares().clients.authentication.map(str::to_owned),
        ..SystemRecord::default()
    }
}

/// Returns the record of a system or part to start, with its program.
fn started(member: Member<'_>) -> SystemRecord {
    let Component { study_system, system, program, upgrade, .. } = member.of;
    let mut record = SystemRecord {
        settings: member.description.settings,
        tls_version: member.description.tls.map(|_| "TLS".to_owned()),
        ..named(study_system, *system)
    };
    note_program(&mut record, program.as_ref());
    record.upgrade = upgrade.as_ref().map(|(new, _)| UpgradeRecord {
        version: new.version.clone(),
        source: source_text(new),
        sha256: new.sha256.clone(),
    });
    record.guarantees = system.guarantees(&with_version(study_system, record.version.clone()));
    record
}

/// Returns the system with this version, unless its study sets one.
fn with_version(study_system: &study::System, version: Option<String>) -> study::System {
    study::System { version: study_system.version.clone().or(version), ..study_system.clone() }
}

fn kind_of(study_system: &study::System) -> &'static dyn System {
    systems::by_kind(&study_system.kind).expect("the study was checked against the registry")
}

/// Finds or fetches the program of a system or part.
fn component<'a>(
    (role, tier): (&'a str, Option<Tier>),
    study_system: &'a study::System,
    upgrade: Option<&str>,
    fleet: &Fleet,
    (reporter, stop): (&mut dyn Reporter, &AtomicBool),
) -> Result<Component<'a>, FleetError> {
    let system = kind_of(study_system);
    let of_image = fleet.program_of_image(study_system)?;
    if of_image.is_some() {
        if upgrade.is_some() {
            return Err(not_upgradable(study_system, "its program comes from an image"));
        }
        let (seal, upgrade) = (None, None);
        return Ok(Component {
            role,
            tier,
            study_system,
            system,
            program: of_image,
            seal,
            upgrade,
        });
    }
    let program = program(study_system, study_system.version.as_deref(), (&mut *reporter, stop))?;
    let seal = program.as_ref().map(|program| sealed(study_system, program)).transpose()?;
    let upgrade = match upgrade {
        None => None,
        Some(to) => {
            let new = self::program(study_system, Some(to), (reporter, stop))?;
            let new = new.ok_or_else(|| not_upgradable(study_system, "it is part of bakeoff"))?;
            if program.as_ref().is_some_and(|first| first.version == new.version) {
                let why = format!("it begins with {}, the version of the upgrade", new.version);
                return Err(not_upgradable(study_system, &why));
            }
            let seal = sealed(study_system, &new)?;
            Some((new, seal))
        }
    };
    Ok(Component { role, tier, study_system, system, program, seal, upgrade })
}

fn not_upgradable(study_system: &study::System, why: &str) -> FleetError {
    let hint = "set the system's `version` to an older one, or leave `to` out of the fault";
    FleetError::input(format!("`{}` cannot be upgraded: {why}", study_system.name), hint)
}

/// Notes the state of a program's files.
fn sealed(study_system: &study::System, program: &InstalledProgram) -> Result<Seal, FleetError> {
    Seal::take(program).map_err(|damage| {
        FleetError::machine(format!("cannot read the program of `{}`: {damage}", study_system.name))
    })
}

/// Lists the programs to fetch or compile, each with its first two possible sources. All of them are there before the
/// first trial, because compiling would disturb it.
fn missing_programs(study: &Study, fleet: &Fleet) -> Result<Vec<String>, FleetError> {
    let cache = Cache::from_environment()?;
    let mut missing = Vec::new();
    for study_system in
        study.systems.iter().flat_map(|one| std::iter::once(one).chain(one.parts.values()))
    {
        let Some(recipe) = systems::recipe_for(study_system) else { continue };
        if !study_system.is_started() || fleet.program_of_image(study_system)?.is_some() {
            continue;
        }
        let wanted = version_request(study_system.version.as_deref())?;
        let own = study_system.program.as_deref().map(Path::new);
        let found = install::describe(recipe, wanted.as_ref(), own, &cache);
        let Availability::Missing { sources, .. } = found else { continue };
        let source = |one: &SourceOption| format!("{} ({})", one.title, one.note);
        let sources: Vec<String> =
            sources.iter().filter(|one| one.possible).take(2).map(source).collect();
        let version = wanted.map_or_else(String::new, |wanted| format!(" {wanted}"));
        let line = format!("{}{version}: {}", recipe.system, sources.join(", or else "));
        if !sources.is_empty() && !missing.contains(&line) {
            missing.push(line);
        }
    }
    Ok(missing)
}

/// Finds or fetches a version of the program; `None` for a kind that is part of bakeoff.
fn program(
    study_system: &study::System,
    version: Option<&str>,
    (reporter, stop): (&mut dyn Reporter, &AtomicBool),
) -> Result<Option<InstalledProgram>, FleetError> {
    let wanted = version_request(version)?;
    Ok(match (systems::recipe_for(study_system), &study_system.process) {
        (None, None) => None,
        (None, Some(process)) => {
            Some(install::named(&study_system.name, &process.command[0], wanted.as_ref())?)
        }
        (Some(recipe), _) => {
            let own = study_system.program.as_deref().map(Path::new);
            let cache = Cache::from_environment()?;
            let progress =
                &mut |message: InstallMessage<'_>| reporter.report(&Event::Installing { message });
            let found = install::install(recipe, wanted.as_ref(), own, &cache, progress, stop)?;
            if let Some(newer) = recipe.newer_than(&found.version) {
                let (system, version) = (&*study_system.name, &*found.version);
                reporter.report(&Event::Outdated { system, version, newer: &newer });
            }
            Some(found)
        }
    })
}

/// Adds the program's version, source and hash to the record.
fn note_program(record: &mut SystemRecord, program: Option<&InstalledProgram>) {
    match program {
        Some(installed) => {
            // A command may not report its version.
            record.version = Some(installed.version.clone()).filter(|version| !version.is_empty());
            record.source = Some(source_text(installed));
            record.sha256 = Some(installed.sha256.clone());
            record.date.clone_from(&installed.date);
        }
        None => {
            record.version = Some(env!("CARGO_PKG_VERSION").to_owned());
            record.source = Some("part of bakeoff".to_owned());
        }
    }
}

/// Returns the source of a program, with its runtime.
fn source_text(installed: &InstalledProgram) -> String {
    match &installed.program {
        Program::Java { java_version, .. } => {
            format!("{}, run by Java {java_version}", installed.source)
        }
        _ => installed.source.clone(),
    }
}

/// Parses a version such as `3.6`, as a user wrote it.
///
/// # Errors
/// If the text is not dotted numbers.
pub fn version_request(text: Option<&str>) -> Result<Option<VersionRequest>, FleetError> {
    let parse = |text: &str| {
        let hint = "write dotted numbers, such as `3.6` or `3.6.16`";
        text.parse::<VersionRequest>().map_err(|error| FleetError::input(error.to_string(), hint))
    };
    text.map(parse).transpose()
}

/// Returns the prepared system of a trial.
pub(crate) fn for_trial<'a, 'b>(
    contenders: &'a [PreparedSystem<'b>],
    trial: &Trial,
) -> &'a PreparedSystem<'b> {
    let found = contenders.iter().find(|contender| contender.study_system.name == trial.system);
    found.expect("a plan names the systems of its study")
}

/// Sends the programs of all systems to the machines that take their servers.
///
/// # Errors
/// Fails if a program cannot be sent, or a machine lacks its runtime.
pub(crate) fn send_programs(
    contenders: &[PreparedSystem<'_>],
    fleet: &Fleet,
) -> Result<(), FleetError> {
    let Some(machines) = fleet.placed() else { return Ok(()) };
    for of in contenders.iter().flat_map(|contender| &contender.components) {
        let recipe = systems::recipe_for(of.study_system);
        let needed = recipe.and_then(|recipe| recipe.shape.runtime());
        let upgrade = of.upgrade.as_ref().map(|(program, _)| program);
        for program in of.program.iter().chain(upgrade) {
            machines.send_program(of.role, &of.study_system.kind, program, needed)?;
        }
    }
    Ok(())
}
