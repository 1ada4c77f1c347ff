//! Cases of systems whose nodes are at several addresses, and programs for them, for the tests of crates that run them.
//!
//! Linux has all of 127.0.0.0/8 on loopback, so nodes at 127.0.0.2 to 127.0.0.4 share this machine as little as
//! one machine allows: nothing answers at 127.0.0.1. A case is under `seated` in the `contract.json` of its kind.
//!
//! Not here: what the nodes of a case are told (`seated`), servers in the tests of a folder (`running`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bakeoff_core::study::{self, Kind, Study, Tier, parse};
use bakeoff_host::Seat;
use bakeoff_install::{self as install, Cache, Installed, Program};
use serde::Deserialize;
use serde_json::Value;

use super::seating::Seating;
use super::topology::{self, Component};
use super::{COMPOSITE, System, by_kind, kinds};

/// Returns a kind as a study asks for it.
#[cfg(test)]
pub(crate) fn asked(kind: &str, nodes: u32, options: &[(&str, &str)]) -> study::System {
    let options = options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    study::System { nodes, options: options.collect(), ..super::plain(kind) }
}

/// Returns the program of a system as users get it, or reports a skipped test and returns `None` if there is none.
/// In CI that fails the test, unless the machine lacks what the program is built with. `elsewhere` lists its paths on
/// machines that do not have it on `PATH`.
pub fn program(system: &dyn System, elsewhere: &[&str]) -> Option<Installed> {
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
            // The test harness captures `eprintln!`.
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

/// The addresses of the seats.
pub(crate) const ADDRESSES: [[u8; 4]; 3] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];

/// Seats nodes at the three addresses in turn.
pub fn three_seats() -> Seating {
    let seats = ADDRESSES.map(|address| Seat { address: address.into(), ..Seat::HERE });
    Seating::spread(seats.to_vec())
}

/// `seated` of a kind's `contract.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Seated {
    /// Its cases.
    pub systems: Vec<Case>,
    /// Files that the kind looks for beside its program.
    pub beside: Vec<String>,
    /// Words that name no seat and may stand in a configuration all the same.
    pub other_addresses: Vec<Allowed>,
    /// Reason for a page on loopback, at a port that the program chooses.
    pub page_on_loopback: Option<String>,
    /// Reason for which no node of it can have a seat.
    pub no_seat: Option<String>,
}

/// A system that is put on several addresses.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The system's name in the study.
    pub name: String,
    /// The system as a study has it.
    study: String,
    /// Reason for which it is not started.
    pub described_only: Option<String>,
    #[serde(skip)]
    kind: String,
    /// True if all of its nodes take writes.
    #[serde(skip)]
    masters: bool,
}

/// A word that a node's configuration may hold although it is the address of no seat.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// `127.0.0.1`.
    pub word: String,
    /// The file that holds it.
    pub file: String,
    #[serde(rename = "why")]
    _why: String,
}

/// Returns what each kind's folder says of seats, by kind.
pub fn contracts() -> BTreeMap<String, Seated> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |kind: Kind| {
        let path = folder.join(kind.name.replace('-', "_")).join("contract.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let mut contract: Value = serde_json::from_str(&text).unwrap();
        let masters = contract["cases"].as_array();
        let masters = masters.is_some_and(|cases| cases.iter().any(|case| case["masters"] == true));
        let seated = Option::<Seated>::deserialize(contract["seated"].take());
        let mut seated =
            seated.unwrap_or_else(|error| panic!("{path:?}: {error}")).unwrap_or_default();
        for case in &mut seated.systems {
            (case.kind, case.masters) = (kind.name.to_owned(), masters);
        }
        (kind.name.to_owned(), seated)
    };
    kinds().into_iter().map(read).collect()
}

/// Returns the cases of a kind.
pub fn cases(kind: &str) -> Vec<Case> {
    contracts().remove(&kind.replace('_', "-")).map(|seated| seated.systems).unwrap_or_default()
}

/// Returns a study of a case.
pub fn study(case: &Case) -> Study {
    let Case { name, study, masters, .. } = case;
    let takes_requests = by_kind(&case.kind).unwrap().kind().takes_requests();
    let (mix, keys) = match (takes_requests, masters) {
        (true, _) => ("{request: 1}", "keys: {count: 200}, request: {path: /a.gif}"),
        // Masters each keep a write of their own where two are made at once, so each key gets one.
        (_, true) => ("{put: 1, get: 1}", "keys: {count: 200, order: unique}, reads: default"),
        (_, false) => ("{put: 1, get: 1}", "keys: {count: 60}, reads: default"),
    };
    let text = format!(
        "title: t\nsystems:\n  {name}: {study}\nworkloads:\n  w: {{mix: {mix}, {keys}}}\nloads:\n  \
         l: {{clients: 4, stop: {{operations: 200}}, timeout: 30s}}\nclusters: kept\n"
    );
    parse("t", "t.yaml", &text, &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Returns the components of a case's system in the order of their start, with the programs that `found` returns;
/// `None` if it does not return one.
pub fn components<'a>(
    asked: &'a study::System,
    mut found: impl FnMut(&'static dyn System) -> Option<Installed>,
) -> Option<Vec<Component<'a>>> {
    let composite = by_kind(&asked.kind).unwrap();
    let part = |role: &'static study::Role| {
        Some((role.name, Some(role.tier), asked.parts.get(role.name)?))
    };
    let mut all: Vec<(&str, Option<Tier>, &study::System)> =
        composite.kind().roles.iter().filter_map(part).collect();
    all.insert(0, (COMPOSITE, None, asked));
    all.sort_by_key(|(_, tier, _)| topology::order(*tier));
    let component = |(role, tier, asked): (&'a str, Option<Tier>, &'a study::System)| {
        let system = by_kind(&asked.kind).unwrap();
        let program = match (system.declares().origin.recipe(), &asked.process) {
            (None, None) => None,
            (None, Some(_)) => Some(binary(bakeoff_host::own_program())),
            (Some(_), _) => Some(found(system)?),
        };
        Some(Component { role, tier, asked, system, program, seal: None })
    };
    all.into_iter().map(component).collect()
}

/// Returns a program that is nothing but a path.
pub(crate) fn binary(path: PathBuf) -> Installed {
    Installed {
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
