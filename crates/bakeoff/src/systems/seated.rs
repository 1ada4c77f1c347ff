//! Tests that nodes of every kind listen at the addresses of their seats and find each other there.
//!
//! Linux has all of 127.0.0.0/8 on loopback, so nodes at 127.0.0.2 to 127.0.0.4 share this machine as little as
//! one machine allows: nothing answers at 127.0.0.1. Each case is described so. Programs that bakeoff finds are
//! started, loaded, killed and started again.
//!
//! Not here: the cases. Each is under `seated` in the `contract.json` of its kind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bakeoff_core::check::Verdict;
use bakeoff_core::plan::plan;
use bakeoff_core::record::{Acknowledged, SystemRecord, TrialOutcome, TrialRecord};
use bakeoff_core::study::{Study, Tier, parse};
use bakeoff_engine::tls::CaPem;
use bakeoff_host::{NodeSpec, Process, Seat};
use bakeoff_install::{Installed, Program};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::cluster::contenders::Contender;
use crate::cluster::{self, Starting};
use crate::event::{Event, Reporter};
use crate::machines::NodesOf;
use crate::machines::fleet::Fleet;
use crate::systems::seating::Seating;
use crate::systems::testing::program;
use crate::systems::topology::{self, Component, Member, compose};
use crate::trial::{self, TrialContext};

/// The addresses of the seats.
const ADDRESSES: [[u8; 4]; 3] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];

fn three_seats() -> Seating {
    let seats = ADDRESSES.map(|address| Seat { address: address.into(), ..Seat::HERE });
    Seating::spread(seats.to_vec())
}

/// `seated` of a kind's `contract.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Seated {
    systems: Vec<Case>,
    /// Files that the kind looks for beside its program.
    beside: Vec<String>,
    other_addresses: Vec<Allowed>,
    /// Reason for a page on loopback, at a port that the program chooses.
    page_on_loopback: Option<String>,
    /// Reason for which no node of it can have a seat.
    no_seat: Option<String>,
}

/// A system that is put on several addresses.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The system as a study has it.
    study: String,
    /// Reason for which it is not started.
    described_only: Option<String>,
    #[serde(skip)]
    kind: String,
    /// True if all of its nodes take writes.
    #[serde(skip)]
    masters: bool,
}

/// A word that a node's configuration may hold although it is the address of no seat.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    word: String,
    /// The file that holds it.
    file: String,
    #[serde(rename = "why")]
    _why: String,
}

/// Returns what each kind's folder says of seats, by kind.
fn contracts() -> BTreeMap<String, Seated> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/systems");
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
fn cases(kind: &str) -> Vec<Case> {
    contracts().remove(&kind.replace('_', "-")).map(|seated| seated.systems).unwrap_or_default()
}

/// Words for an address that is nobody's seat.
const WORDS: &[&str] = &["127.0.0.1", "0.0.0.0", "localhost", "[::]", "::1"];

/// Returns a study of a case.
fn study(case: &Case) -> Study {
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

/// Its components, in the order of their start, with the programs that are found for them.
fn components<'a>(
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

fn binary(path: PathBuf) -> Installed {
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

/// Makes a program with all files that any kind looks for beside it. None is ever started.
fn nothing_but_names(dir: &Path) -> Installed {
    let file = |path: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    };
    for path in contracts().values().flat_map(|seated| &seated.beside) {
        file(path);
    }
    binary(file("usr/sbin/program"))
}

/// Everything that a node is told, each with where it stands.
fn told(node: &NodeSpec) -> Vec<(String, String)> {
    let args = node.args.iter().map(|arg| ("args".to_owned(), arg.to_string_lossy().into_owned()));
    let env = node.env.iter().map(|(name, value)| (format!("${name}"), value.clone()));
    let before = node.before.iter().flat_map(|before| &before.args);
    let before =
        before.map(|arg| ("args of `before`".to_owned(), arg.to_string_lossy().into_owned()));
    let files = node.files.iter().map(|file| {
        let text = String::from_utf8_lossy(&file.contents).into_owned();
        (file.path.display().to_string(), text)
    });
    args.chain(env).chain(before).chain(files).collect()
}

/// Returns where a member names an address that is no seat, and notes which exceptions it used.
fn astray(
    member: &Member<'_>,
    allowed: &[Allowed],
    used: &mut BTreeSet<(String, usize)>,
) -> Vec<String> {
    let kind = member.of.asked.kind.as_str();
    let mut found = Vec::new();
    for node in &member.description.nodes {
        for (place, text) in told(node) {
            for word in WORDS.iter().filter(|word| text.contains(**word)) {
                let allowed = allowed
                    .iter()
                    .position(|allowed| allowed.word == *word && place.ends_with(&allowed.file));
                match allowed {
                    Some(number) => drop(used.insert((kind.to_owned(), number))),
                    None => found.push(format!("`{}`, {place}: {word} in {text}", node.name)),
                }
            }
        }
    }
    for node in &member.nodes {
        let told = [node.authority.clone(), node.target.address.to_string()];
        let wrong = told.iter().any(|text| WORDS.iter().any(|word| text.contains(word)));
        found.extend(wrong.then(|| format!("`{}` is reached at {told:?}", node.name)));
    }
    found
}

#[test]
fn nodes_of_every_kind_are_told_the_addresses_of_seats_and_no_other() {
    let folder = TempDir::new().unwrap();
    let installed = nothing_but_names(folder.path());
    let mut seen = BTreeSet::new();
    let mut used = BTreeSet::new();
    let contracts = contracts();
    for case in contracts.values().flat_map(|seated| &seated.systems) {
        let (name, study) = (&case.name, study(case));
        let components = components(&study.systems[0], |_| Some(installed.clone())).unwrap();
        let mut ports = Allocator::new(None);
        let members = compose(&components, folder.path(), 7, &three_seats(), &mut ports);
        for member in members.unwrap_or_else(|error| panic!("{name}: {error}")) {
            seen.insert(member.of.asked.kind.clone());
            let allowed = &contracts[&member.of.asked.kind].other_addresses;
            let astray = astray(&member, allowed, &mut used);
            assert!(astray.is_empty(), "{name}:\n{}", astray.join("\n"));
            let Description { tls, memory, .. } = &member.description;
            let trusted = memory.get::<CaPem>().is_some();
            assert_eq!(tls.is_some(), trusted, "{name}: clients elsewhere have to trust it too");
            let taken: BTreeSet<IpAddr> =
                member.description.nodes.iter().map(|node| node.seat.address).collect();
            let nodes = member.of.asked.nodes as usize;
            assert_eq!(taken.len(), nodes.min(ADDRESSES.len()), "{name}: {taken:?}");
            for node in &member.description.nodes {
                let own = node.seat.address.to_string();
                let texts = told(node);
                assert!(texts.iter().any(|(_, text)| text.contains(&own)), "{}: {own}", node.name);
            }
        }
    }
    let all = contracts.iter().filter(|(_, seated)| seated.no_seat.is_none());
    assert_eq!(seen, all.map(|(kind, _)| kind.clone()).collect::<BTreeSet<_>>());
    let allowed = contracts.values().map(|seated| seated.other_addresses.len()).sum::<usize>();
    assert_eq!(used.len(), allowed, "an exception that no node uses");
}

/// Describes a kind's case whose clients connect from these addresses, and returns a file of a node of its first
/// component.
pub(super) fn file_for_clients(kind: &str, case: &str, clients: &[[u8; 4]], file: &str) -> String {
    let folder = TempDir::new().unwrap();
    let installed = nothing_but_names(folder.path());
    let case = cases(kind).into_iter().find(|one| one.name == case).expect("it is a case");
    let study = study(&case);
    let components = components(&study.systems[0], |_| Some(installed.clone())).unwrap();
    let clients = clients.iter().map(|&client| client.into()).collect();
    let seating = Seating::spread(vec![Seat::HERE]).with_clients(clients);
    let mut ports = Allocator::new(None);
    let members = compose(&components, folder.path(), 7, &seating, &mut ports).unwrap();
    let mut files = members[0].description.nodes[0].files.iter();
    let found = files.find(|one| one.path.ends_with(file)).unwrap();
    String::from_utf8(found.contents.clone()).unwrap()
}

/// Notes what a run says that nobody wants to hear.
#[derive(Default)]
struct Complaints(RefCell<Vec<String>>);

impl Reporter for Complaints {
    fn report(&mut self, event: &Event<'_>) {
        match event {
            Event::Exposed { warning } => self.0.borrow_mut().push((*warning).to_owned()),
            Event::TrialFailed { text } => self.0.borrow_mut().push((*text).to_owned()),
            _ => {}
        }
    }
}

/// Returns where a process listens that is not the address of its seat. `has_page`: it also has a page on loopback.
fn off_its_seat(process: &Process, has_page: bool) -> Vec<String> {
    let own = process.seat().address;
    let is_page = |address: &SocketAddr| {
        has_page
            && address.ip() == Ipv4Addr::LOCALHOST
            && process.ports().all(|p| p != address.port())
    };
    let at = process.listens_on().into_iter();
    let off = at.filter(|address| address.ip() != own && !is_page(address));
    off.map(|address| format!("`{}` at {own} listens on {address}", process.name())).collect()
}

/// Runs every case of a kind that is not described only.
fn runs_at_three_addresses(kind: &str) {
    cases(kind).iter().filter(|case| case.described_only.is_none()).for_each(runs_case);
}

/// Runs a trial of a system with its nodes at three addresses, and checks where they listen. Reports a skipped test if
/// a program is missing.
fn runs_case(case: &Case) {
    let (name, study) = (case.name.as_str(), study(case));
    let asked = &study.systems[0];
    let Some(components) = components(asked, |system| program(system, &[])) else { return };
    let system = by_kind(&asked.kind).unwrap();
    let never = AtomicBool::new(false);
    let dir = TempDir::new().unwrap();
    let mut reporter = Complaints::default();
    let seating = three_seats();

    // The trial goes on with the cluster that is looked at: some take half a minute to start.
    let home = dir.path().join("kept").join(name);
    let (nodes, mut ports) = (&home.join("nodes"), Allocator::new(None));
    let of = Starting {
        components: &components,
        nodes,
        dir: &home,
        seed: 7,
        seating: &seating,
        on: (&Fleet::Local, NodesOf::Trial),
    };
    let ready = cluster::start_on_free_ports(of, &mut ports, &never, &mut reporter, |_| {});
    let ready = ready.unwrap_or_else(|error| panic!("{name}: {error}"));
    let contracts = contracts();
    let with_page = components
        .iter()
        .filter(|one| contracts[&one.asked.kind].page_on_loopback.is_some())
        .flat_map(|one| (1..=one.asked.nodes).map(|number| format!("{}-{number}", one.asked.name)));
    let with_page: BTreeSet<String> = with_page.collect();
    let off = ready.processes().flat_map(|one| off_its_seat(one, with_page.contains(one.name())));
    let off: Vec<String> = off.collect();
    let seats: BTreeSet<IpAddr> = ready.processes().map(|one| one.seat().address).collect();
    assert!(off.is_empty(), "{name}: {off:?}");
    let places = components.iter().map(|one| one.asked.nodes as usize).sum::<usize>();
    assert!(seats.len() >= places.min(2), "{name}: all at {seats:?}");

    let record = SystemRecord { guarantees: system.guarantees(asked), ..SystemRecord::default() };
    let contender = Contender { asked, found: asked.clone(), system, components, record };
    let mut context = TrialContext {
        study: &study,
        threads: 1,
        run_dir: dir.path(),
        ports,
        seating,
        interrupted: &never,
        shared_machine: true,
        fleet: &Fleet::Local,
        kept: [(asked.name.clone(), ready)].into(),
    };
    let trial = plan(&study, 7).remove(0);
    let record = trial::run(&mut context, &contender, &trial, &mut reporter);
    context.end();
    assert_eq!(reporter.0.into_inner(), [""; 0], "{name}");
    let in_memory = system.guarantees(asked).acknowledged_in == Some(Acknowledged::Memory);
    all_went_well(name, &record, in_memory);
}

/// Checks a trial. `in_memory`: a kill may take what was acknowledged, which its audit leaves open.
fn all_went_well(name: &str, record: &TrialRecord, in_memory: bool) {
    assert_eq!(record.outcome, TrialOutcome::Completed, "{name}");
    let measured = record.measurement().expect("it was loaded");
    let errors: Vec<_> = measured.error_examples().collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    assert_eq!((measured.verified(), measured.error_count()), (200, 0), "{name}");
    let passed = |verdict: &Verdict| match verdict {
        Verdict::Passed => true,
        Verdict::NotChecked(why) => in_memory && why.contains("which breaks no guarantee"),
        Verdict::Failed(_) => false,
    };
    let failed: Vec<_> = record.audits.iter().filter(|audit| !passed(&audit.verdict)).collect();
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

/// A test for each kind that has cases, made by `build.rs`.
mod at_addresses_of_its_own {
    include!(concat!(env!("OUT_DIR"), "/seated_tests.rs"));
}
