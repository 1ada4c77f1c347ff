//! `studies`, `systems`, `install`, `doctor`: lists studies and systems, and finds and fetches missing programs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bakeoff_core::study::{self, Study, shipped};
use bakeoff_host::{network, volatile_disk_support};
use bakeoff_install::{self as install, Availability, Cache, InstallMessage, Program};
use bakeoff_systems::declaration::Origin;
use bakeoff_systems::{self as systems, System};
use bakeoff_trial::cluster::contenders::version_request;
use bakeoff_trial::event::{Event, Reporter};
use bakeoff_trial::run::refusals::{DISKS_HINT, refuse_relays};
use serde_json::{Value, json};

use crate::commands::study_file::load_study;
use crate::failure::Failure;
use crate::messages;

pub(crate) fn studies(name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else {
        let mut text = String::new();
        let longest = shipped::shipped().iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, _) in shipped::shipped() {
            let study = load_study(name)?;
            let systems: Vec<&str> = study.systems.iter().map(|s| s.name.as_str()).collect();
            let quick = if study.quick.is_some() { "; --quick" } else { "" };
            let systems = systems.join(", ");
            let _ = writeln!(text, "{name:longest$}  {} ({systems}{quick})", study.title);
        }
        text.push_str(
            "\n`bakeoff run NAME` runs a study, `bakeoff studies NAME` prints its file.\n\
             With `--quick`, `bakeoff run` answers a study's question in minutes",
        );
        messages::output(&text);
        return Ok(());
    };
    match shipped::shipped().iter().find(|(known, _)| *known == name) {
        Some((_, text)) => messages::output(text),
        None => {
            let hint = "`bakeoff studies` lists the studies that ship";
            return Err(Failure::input(format!("no study `{name}` ships with bakeoff"), hint));
        }
    }
    Ok(())
}

/// Lists all systems, or shows the one with this name.
pub(crate) fn systems(name: Option<&str>) -> Result<(), Failure> {
    let cache = Cache::from_environment()?;
    let asked = |system: &&&dyn System| name.is_none_or(|name| system.kind().name == name);
    let texts: Vec<String> =
        systems::registry().iter().filter(asked).map(|system| describe(*system, &cache)).collect();
    if let (Some(name), []) = (name, &texts[..]) {
        let known: Vec<&str> =
            systems::registry().iter().map(|system| system.kind().name).collect();
        let hint = study::suggest(name, known.iter().copied(), "systems:");
        return Err(Failure::input(format!("no system `{name}`"), hint));
    }
    messages::output(&texts.join("\n"));
    Ok(())
}

fn describe(system: &dyn System, cache: &Cache) -> String {
    let kind = system.kind();
    let mut text = format!("{}\n", kind.name);
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:13} {value}");
    };
    let origin = system.declares().origin;
    match origin {
        Origin::Recipe(_) | Origin::Recipes { .. } => {}
        Origin::Study(words) => row("from", words),
        Origin::Bakeoff => {
            row("version", &format!("{}, part of bakeoff", env!("CARGO_PKG_VERSION")));
        }
    }
    for recipe in origin.recipes() {
        if origin.recipes().len() > 1 {
            row("product", recipe.system);
        }
        availability_rows(install::describe(recipe, None, None, cache), &mut row);
    }
    if kind.is_part() {
        row("is", "only a part of other systems");
    } else {
        let operations: Vec<&str> = kind.operations.iter().map(|&o| o.name()).collect();
        row("operations", &operations.join(", "));
    }
    let nodes = if kind.nodes_max == 1 { "1".into() } else { format!("1 to {}", kind.nodes_max) };
    row("nodes", &nodes);
    let guarantees = system.guarantees(&systems::plain(kind.name));
    row("replication", &guarantees.replication);
    row("acknowledges", &guarantees.acknowledged);
    row("reads", &guarantees.reads);
    for option in kind.options {
        row("option", &format!("{}: {}", option.name, option.meaning));
    }
    for parameter in kind.parameters {
        row("with", &format!("{}: {}", parameter.name, parameter.meaning));
    }
    for role in kind.roles {
        let kinds = role.kinds.join(", ");
        row("part", &format!("{}, of kind {kinds}: {}", role.name, role.meaning));
    }
    text
}

/// Adds rows for the program and its source, or for the reason why it is missing and the fix.
fn availability_rows(availability: Availability, row: &mut impl FnMut(&str, &str)) {
    match availability {
        Availability::Found(found) => {
            row("version", &found.version);
            row("from", &found.source);
            row("runs", &path_of(&found.program));
        }
        Availability::Missing { reason, remedy, sources } => {
            row("version", &format!("not found: {reason}"));
            for source in sources {
                let can = if source.possible { "can come from" } else { "cannot come from" };
                row("", &format!("{can} {}: {}", source.title, source.note));
            }
            row("fix", &remedy);
        }
    }
}

/// Returns the file that is executed.
fn path_of(program: &Program) -> String {
    match program {
        Program::Binary(path) => path.display().to_string(),
        Program::Node { node, node_version, script } => {
            format!("{} by {} ({node_version})", script.display(), node.display())
        }
        Program::Java { java, java_version, .. } => format!("{} ({java_version})", java.display()),
    }
}

pub(crate) fn install(
    asked: &[String],
    reporter: &mut dyn Reporter,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let cache = Cache::from_environment()?;
    for text in asked {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text.as_str(), None),
        };
        let Some(recipe) = systems::recipe_of(name) else {
            if systems::by_kind(name).is_some() {
                messages::output(&format!("{name} is part of bakeoff"));
                continue;
            }
            let products = systems::recipes().map(|recipe| recipe.system);
            let hint = study::suggest(name, products, "systems:");
            return Err(Failure::input(format!("no system `{name}`"), hint));
        };
        let wanted = version_request(version)?;
        let progress =
            &mut |message: InstallMessage<'_>| reporter.report(&Event::Installing { message });
        let found = install::install(recipe, wanted.as_ref(), None, &cache, progress, stop)?;
        messages::output(&format!(
            "{name} {}, {}\n{}\nSHA-256 {}",
            found.version,
            found.source,
            path_of(&found.program),
            found.sha256
        ));
    }
    Ok(())
}

/// Prints what each study lacks on this machine, or writes it as JSON.
pub(crate) fn doctor(asked: &[String], json: bool) -> Result<ExitCode, Failure> {
    let studies = asked_studies(asked)?;
    let lacks = lacks(&studies, RunLocation::Here)?;
    let complete = is_complete(&lacks);
    if json {
        let found = json!({"format": 1, "complete": complete, "studies": json_of(&lacks)});
        messages::output(&messages::json(&found));
    } else {
        let end = match complete {
            true => "\nNothing is missing.",
            false => "\n`bakeoff run` fetches these programs itself where it can.",
        };
        messages::output(&(text_of(&lacks) + end));
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(MISSING) })
}

/// Exit code if something is missing.
pub(crate) const MISSING: u8 = 3;

/// Fix for a machine that refuses simulated networks and disks.
const NAMESPACES: &str = "allow user namespaces to ordinary users, and `/dev/fuse` for power cuts";

/// Returns the named studies with their names; all that ship if `asked` is empty.
pub(crate) fn asked_studies(asked: &[String]) -> Result<Vec<(String, Study)>, Failure> {
    let names: Vec<&str> = match asked {
        [] => shipped::shipped().iter().map(|(name, _)| *name).collect(),
        asked => asked.iter().map(String::as_str).collect(),
    };
    names.into_iter().map(|name| Ok((name.to_owned(), load_study(name)?))).collect()
}

/// The machines that would run a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// This machine, which must also cause the faults.
    Here,
    /// Those of a places file, to which this machine sends programs.
    Places,
}

/// A missing system, or a fault that this machine cannot cause.
pub(crate) struct Lack {
    what: String,
    reason: String,
    fix: String,
}

/// Returns what each study lacks on this machine.
pub(crate) fn lacks(
    studies: &[(String, Study)],
    place: RunLocation,
) -> Result<Vec<(&str, Vec<Lack>)>, Failure> {
    let cache = Cache::from_environment()?;
    studies.iter().map(|(name, study)| Ok((&**name, missing(study, place, &cache)?))).collect()
}

/// Returns true if no study lacks anything.
pub(crate) fn is_complete(lacks: &[(&str, Vec<Lack>)]) -> bool {
    lacks.iter().all(|(_, missing)| missing.is_empty())
}

/// Lists what each study lacks.
pub(crate) fn text_of(lacks: &[(&str, Vec<Lack>)]) -> String {
    let mut text = String::new();
    for (name, missing) in lacks {
        if missing.is_empty() {
            let _ = writeln!(text, "{name}: nothing is missing");
            continue;
        }
        let _ = writeln!(text, "{name}:");
        for Lack { what, reason, fix } in missing {
            let _ = writeln!(text, "  {what}: {reason}\n    fix: {fix}");
        }
    }
    text
}

/// Returns what each study lacks as JSON.
pub(crate) fn json_of(lacks: &[(&str, Vec<Lack>)]) -> Value {
    let missing = |one: &Lack| json!({"what": one.what, "reason": one.reason, "fix": one.fix});
    let study = |(name, lacks): &(&str, Vec<Lack>)| json!({"study": name, "missing": lacks.iter().map(missing).collect::<Vec<_>>()});
    lacks.iter().map(study).collect()
}

/// Returns each missing system, and each fault that this machine cannot cause.
fn missing(study: &Study, place: RunLocation, cache: &Cache) -> Result<Vec<Lack>, Failure> {
    let mut missing = Vec::new();
    let mut lacks = |what: &str, fix: &str, support: Result<(), String>| {
        let lack = |reason| Lack { what: what.to_owned(), reason, fix: fix.to_owned() };
        missing.extend(support.err().map(lack));
    };
    if place == RunLocation::Here {
        let relays_do = || refuse_relays(study, "no relays").is_ok();
        if study.needs_network() && !relays_do() {
            lacks("network faults", NAMESPACES, network::support(study.delays_packets()));
        }
        if study.with_disk_faults().is_some() {
            lacks("disk faults", DISKS_HINT, volatile_disk_support());
        }
        if study.power_cuts.is_some() {
            lacks("power cuts", NAMESPACES, volatile_disk_support());
        }
    }
    let started = study.systems.iter().filter(|system| system.is_started());
    for system in started.flat_map(study::System::members) {
        let wanted = version_request(system.version.as_deref())?;
        let recipe = systems::recipe_for(system);
        if let (None, Some(process)) = (recipe, &system.process) {
            if let Err(error) = install::named(&system.name, &process.command[0], wanted.as_ref()) {
                let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
                let fix = "correct its `command`".to_owned();
                missing.push(Lack { what: system.name.clone(), reason, fix });
            }
            continue;
        }
        let Some(recipe) = recipe else { continue };
        let own = system.program.as_deref().map(Path::new);
        if let Availability::Missing { reason, remedy, .. } =
            install::describe(recipe, wanted.as_ref(), own, cache)
        {
            missing.push(Lack { what: system.name.clone(), reason, fix: remedy });
        }
    }
    Ok(missing)
}
