//! Provides test cases with nodes at several addresses, and their programs, for the tests of other crates.
//!
//! Linux has all of 127.0.0.0/8 on loopback. Nodes at 127.0.0.2 to 127.0.0.4 behave almost like nodes on separate
//! machines, because nothing answers at 127.0.0.1. The cases are under `located` in the `contract.json` of each kind.
//!
//! Not here: the check of the nodes' configuration (`location_addresses`), servers in the tests of a folder
//! (`running_system`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bakeoff_core::study::{self, Kind, Study, Tier, parse};
use bakeoff_host::Location;
use bakeoff_install::{self as install, Cache, InstalledProgram, Program};
use serde::Deserialize;
use serde_json::Value;

use super::location_plan::LocationPlan;
use super::topology::{self, Component};
use super::{COMPOSITE, System, by_kind, kinds};

#[cfg(test)]
pub(crate) fn study_system(kind: &str, nodes: u32, options: &[(&str, &str)]) -> study::System {
    let options = options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    study::System { nodes, options: options.collect(), ..super::plain(kind) }
}

/// Returns the program of a system as users get it. Without one, reports a skipped test and returns `None`. In CI that
/// fails the test, unless the machine lacks the tools to build the program. `elsewhere` lists paths to try besides
/// `PATH`.
pub fn program(system: &dyn System, elsewhere: &[&str]) -> Option<InstalledProgram> {
    let recipe = system.declares().origin.recipe().expect("it is a program");
    let own = elsewhere.iter().map(PathBuf::from).find(|path| path.is_file());
    let cache = Cache::from_environment().expect("there is a cache");
    let never = AtomicBool::new(false);
    let own = own.as_deref();
    match install::install(recipe, None, own, &cache, &mut |_| {}, &never) {
        Ok(installed) => Some(installed),
        Err(error) => {
            let lacks = ["go", "java", "node"].iter().any(|tool| !on_path(tool));
            let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(lacks || !in_ci, "in CI a skip is a failure: {error}");
            // The test harness captures `eprintln!`, so write directly.
            writeln!(io::stderr(), "skipped: {}: {error}", system.kind().name)
                .expect("standard error can be written to");
            None
        }
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

pub(crate) const ADDRESSES: [[u8; 4]; 3] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];

/// Locations nodes at the three addresses in rotation.
pub fn three_locations() -> LocationPlan {
    let locations = ADDRESSES.map(|address| Location { address: address.into(), ..Location::HERE });
    LocationPlan::spread(locations.to_vec())
}

/// The entry `located` of a kind's `contract.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocationContract {
    /// Cases of the kind.
    pub systems: Vec<Case>,
    /// Files that the kind expects next to its program.
    pub adjacent: Vec<String>,
    /// Words in a configuration that look like addresses and are no locations.
    pub other_addresses: Vec<AllowedWord>,
    /// Reason for a web page on loopback, on a port that the program chooses.
    pub page_on_loopback: Option<String>,
    /// Reason why its nodes can have no locations.
    pub no_location: Option<String>,
}

/// A system to run on several addresses.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name of the system in the study.
    pub name: String,
    /// System in the study's format.
    study: String,
    /// Reason why it is only described and not started.
    pub described_only: Option<String>,
    #[serde(skip)]
    kind: String,
    /// True if all of its nodes accept writes.
    #[serde(skip)]
    masters: bool,
}

/// A word in a node's configuration that is allowed although it is no location's address.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedWord {
    /// Word, such as `127.0.0.1`.
    pub word: String,
    /// File that holds it.
    pub file: String,
    #[serde(rename = "why")]
    _why: String,
}

/// Returns the entry `located` of each kind, by kind.
pub fn contracts() -> BTreeMap<String, LocationContract> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |kind: Kind| {
        let path = folder.join(kind.name.replace('-', "_")).join("contract.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let mut contract: Value = serde_json::from_str(&text).unwrap();
        let masters = contract["cases"].as_array();
        let masters = masters.is_some_and(|cases| cases.iter().any(|case| case["masters"] == true));
        let located = Option::<LocationContract>::deserialize(contract["located"].take());
        let mut located =
            located.unwrap_or_else(|error| panic!("{path:?}: {error}")).unwrap_or_default();
        for case in &mut located.systems {
            (case.kind, case.masters) = (kind.name.to_owned(), masters);
        }
        (kind.name.to_owned(), located)
    };
    kinds().into_iter().map(read).collect()
}

/// Returns the cases of a kind; empty if its `contract.json` has none.
pub fn cases(kind: &str) -> Vec<Case> {
    contracts().remove(&kind.replace('_', "-")).map(|located| located.systems).unwrap_or_default()
}

/// Returns a study that loads the case.
pub fn study(case: &Case) -> Study {
    let Case { name, study, masters, .. } = case;
    let takes_requests = by_kind(&case.kind).unwrap().kind().takes_requests();
    let (mix, keys) = match (takes_requests, masters) {
        (true, _) => ("{request: 1}", "keys: {count: 200}, request: {path: /a.gif}"),
        // After concurrent writes each master may keep a different one, so each key is written once.
        (_, true) => ("{put: 1, get: 1}", "keys: {count: 200, order: unique}, reads: default"),
        (_, false) => ("{put: 1, get: 1}", "keys: {count: 60}, reads: default"),
    };
    let text = format!(
        "title: t\nsystems:\n  {name}: {study}\nworkloads:\n  w: {{mix: {mix}, {keys}}}\nloads:\n  \
         l: {{clients: 4, stop: {{operations: 200}}, timeout: 30s}}\nclusters: kept\n"
    );
    parse("t", "t.yaml", &text, &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Returns the components of a case's system in the order of their start, with the programs from `found`. Returns
/// `None` if `found` does.
pub fn components<'a>(
    study_system: &'a study::System,
    mut found: impl FnMut(&'static dyn System) -> Option<InstalledProgram>,
) -> Option<Vec<Component<'a>>> {
    let composite = by_kind(&study_system.kind).unwrap();
    let part = |role: &'static study::Role| {
        Some((role.name, Some(role.tier), study_system.parts.get(role.name)?))
    };
    let mut all: Vec<(&str, Option<Tier>, &study::System)> =
        composite.kind().roles.iter().filter_map(part).collect();
    all.insert(0, (COMPOSITE, None, study_system));
    all.sort_by_key(|(_, tier, _)| topology::order(*tier));
    let component = |(role, tier, study_system): (&'a str, Option<Tier>, &'a study::System)| {
        let system = by_kind(&study_system.kind).unwrap();
        let program = match (system.declares().origin.recipe(), &study_system.process) {
            (None, None) => None,
            (None, Some(_)) => Some(binary(bakeoff_host::own_program())),
            (Some(_), _) => Some(found(system)?),
        };
        Some(Component { role, tier, study_system, system, program, seal: None, upgrade: None })
    };
    all.into_iter().map(component).collect()
}

/// Returns a program with only a path.
pub(crate) fn binary(path: PathBuf) -> InstalledProgram {
    InstalledProgram {
        system: "it".into(),
        version: "99.0.0".into(),
        source: "a test".into(),
        program: Program::Binary(path),
        library_path: Vec::new(),
        sha256: String::new(),
        date: None,
        folder: None,
    }
}
