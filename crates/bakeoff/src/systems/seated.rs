//! Cases of systems whose nodes are at several addresses, for tests that nodes listen at their seats alone.
//!
//! Linux has all of 127.0.0.0/8 on loopback, so nodes at 127.0.0.2 to 127.0.0.4 share this machine as little as
//! one machine allows: nothing answers at 127.0.0.1. Each case is described here so, and is under `seated` in the
//! `contract.json` of its kind.
//!
//! Not here: starting, loading and killing them (`trial::seated`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::study::{self, Kind, Study, Tier, parse};
use bakeoff_host::Seat;
use bakeoff_install::{Installed, Program};
use serde::Deserialize;
use serde_json::Value;

use super::seating::Seating;
use super::topology::{self, Component};
use super::{COMPOSITE, System, by_kind, kinds};

/// The addresses of the seats.
const ADDRESSES: [[u8; 4]; 3] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];

/// Seats nodes at the three addresses in turn.
pub(crate) fn three_seats() -> Seating {
    let seats = ADDRESSES.map(|address| Seat { address: address.into(), ..Seat::HERE });
    Seating::spread(seats.to_vec())
}

/// `seated` of a kind's `contract.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Seated {
    pub(crate) systems: Vec<Case>,
    /// Files that the kind looks for beside its program.
    beside: Vec<String>,
    other_addresses: Vec<Allowed>,
    /// Reason for a page on loopback, at a port that the program chooses.
    pub(crate) page_on_loopback: Option<String>,
    /// Reason for which no node of it can have a seat.
    no_seat: Option<String>,
}

/// A system that is put on several addresses.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The system as a study has it.
    study: String,
    /// Reason for which it is not started.
    pub(crate) described_only: Option<String>,
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
pub(crate) fn contracts() -> BTreeMap<String, Seated> {
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
pub(crate) fn cases(kind: &str) -> Vec<Case> {
    contracts().remove(&kind.replace('_', "-")).map(|seated| seated.systems).unwrap_or_default()
}

/// Returns a study of a case.
pub(crate) fn study(case: &Case) -> Study {
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
pub(crate) fn components<'a>(
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

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::net::IpAddr;
    use std::os::unix::fs::PermissionsExt as _;

    use bakeoff_engine::tls::CaPem;
    use bakeoff_host::NodeSpec;
    use bakeoff_host::ports::Allocator;
    use tempfile::TempDir;

    use super::super::Description;
    use super::super::topology::{Member, compose};
    use super::*;

    /// Words for an address that is nobody's seat.
    const WORDS: &[&str] = &["127.0.0.1", "0.0.0.0", "localhost", "[::]", "::1"];

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
        let args =
            node.args.iter().map(|arg| ("args".to_owned(), arg.to_string_lossy().into_owned()));
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
                    let allowed = allowed.iter().position(|allowed| {
                        allowed.word == *word && place.ends_with(&allowed.file)
                    });
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
                assert_eq!(
                    tls.is_some(),
                    trusted,
                    "{name}: clients elsewhere have to trust it too"
                );
                let taken: BTreeSet<IpAddr> =
                    member.description.nodes.iter().map(|node| node.seat.address).collect();
                let nodes = member.of.asked.nodes as usize;
                assert_eq!(taken.len(), nodes.min(ADDRESSES.len()), "{name}: {taken:?}");
                for node in &member.description.nodes {
                    let own = node.seat.address.to_string();
                    let texts = told(node);
                    assert!(
                        texts.iter().any(|(_, text)| text.contains(&own)),
                        "{}: {own}",
                        node.name
                    );
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
    pub(in crate::systems) fn file_for_clients(
        kind: &str,
        case: &str,
        clients: &[[u8; 4]],
        file: &str,
    ) -> String {
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
}
