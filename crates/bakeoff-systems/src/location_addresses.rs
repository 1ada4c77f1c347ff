//! Checks that the configuration of every kind's nodes names the addresses of their locations, and no other.
//!
//! Describes each case without starting it.
//!
//! Not here: the cases (`testing`), running them (`trial::location_addresses` in the crate `bakeoff`).

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bakeoff_engine::tls::CaPem;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{Location, NodeSpec};
use bakeoff_install::InstalledProgram;
use tempfile::TempDir;

use super::location_plan::LocationPlan;
use super::testing::{
    ADDRESSES, AllowedWord, binary, components, contracts, study, three_locations,
};
use super::topology::{Member, compose};
use super::{Description, registry, without_relays};

/// Addresses at which no node has its location.
const WORDS: &[&str] = &["127.0.0.1", "0.0.0.0", "localhost", "[::]", "::1"];

/// Creates a program with all files that any kind expects next to it. It is never started.
fn nothing_but_names(dir: &Path) -> InstalledProgram {
    let file = |path: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    };
    for path in contracts().values().flat_map(|located| &located.adjacent) {
        file(path);
    }
    binary(file("usr/sbin/program"))
}

/// Returns all arguments, variables and files of a node, each with its place.
fn texts(node: &NodeSpec) -> Vec<(String, String)> {
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

/// Returns the places at which a member names an address without a location, and records the exceptions used.
fn astray(
    member: &Member<'_>,
    allowed: &[AllowedWord],
    used: &mut BTreeSet<(String, usize)>,
) -> Vec<String> {
    let kind = member.of.study_system.kind.as_str();
    let mut found = Vec::new();
    for node in &member.description.nodes {
        for (place, text) in texts(node) {
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
        let printed = [node.authority.clone(), node.target.address.to_string()];
        let wrong = printed.iter().any(|text| WORDS.iter().any(|word| text.contains(word)));
        found.extend(wrong.then(|| format!("`{}` is reached at {printed:?}", node.name)));
    }
    found
}

#[test]
fn nodes_of_every_kind_use_only_addresses_of_locations() {
    let folder = TempDir::new().unwrap();
    let installed = nothing_but_names(folder.path());
    let mut seen = BTreeSet::new();
    let mut used = BTreeSet::new();
    let contracts = contracts();
    for case in contracts.values().flat_map(|located| &located.systems) {
        let (name, study) = (&case.name, study(case));
        let components = components(&study.systems[0], |_| Some(installed.clone())).unwrap();
        let mut ports = Allocator::new(None);
        let members = compose(&components, folder.path(), 7, &three_locations(), &mut ports);
        for member in members.unwrap_or_else(|error| panic!("{name}: {error}")) {
            seen.insert(member.of.study_system.kind.clone());
            let allowed = &contracts[&member.of.study_system.kind].other_addresses;
            let astray = astray(&member, allowed, &mut used);
            assert!(astray.is_empty(), "{name}:\n{}", astray.join("\n"));
            let Description { tls, memory, .. } = &member.description;
            let trusted = memory.get::<CaPem>().is_some();
            assert_eq!(tls.is_some(), trusted, "{name}: remote clients have to trust it too");
            let taken: BTreeSet<IpAddr> =
                member.description.nodes.iter().map(|node| node.location.address).collect();
            let nodes = member.of.study_system.nodes as usize;
            assert_eq!(taken.len(), nodes.min(ADDRESSES.len()), "{name}: {taken:?}");
            for node in &member.description.nodes {
                let own = node.location.address.to_string();
                let texts = texts(node);
                assert!(texts.iter().any(|(_, text)| text.contains(&own)), "{}: {own}", node.name);
            }
        }
    }
    let all = contracts.iter().filter(|(_, located)| located.no_location.is_none());
    assert_eq!(seen, all.map(|(kind, _)| kind.clone()).collect::<BTreeSet<_>>());
    let allowed = contracts.values().map(|located| located.other_addresses.len()).sum::<usize>();
    assert_eq!(used.len(), allowed, "an exception is unused");
}

/// Returns a location whose address a relay has.
fn relayed(location: Location) -> Location {
    let IpAddr::V4(address) = location.address else {
        unreachable!("the locations are IPv4 addresses")
    };
    let [a, b, c, d] = address.octets();
    Location { relayed_to: Some([a, b, c + 1, d].into()), ..location }
}

#[test]
fn relayed_nodes_listen_at_one_address_and_announce_another() {
    let folder = TempDir::new().unwrap();
    let installed = nothing_but_names(folder.path());
    let locations = three_locations().of_role("", "").into_iter().map(relayed).collect();
    let mut seen = BTreeSet::new();
    for case in contracts().values().flat_map(|located| &located.systems) {
        let (name, study) = (&case.name, study(case));
        if without_relays(&study).is_some() {
            continue;
        }
        let components = components(&study.systems[0], |_| Some(installed.clone())).unwrap();
        let (locating, mut ports) =
            (LocationPlan::spread(Vec::clone(&locations)), Allocator::new(None));
        let members = compose(&components, folder.path(), 7, &locating, &mut ports);
        for member in members.unwrap_or_else(|error| panic!("{name}: {error}")) {
            seen.insert(member.of.study_system.kind.clone());
            let nodes = &member.description.nodes;
            for node in nodes {
                let names = |node: &NodeSpec, address: &str| {
                    texts(node).iter().any(|(_, text)| text.contains(address))
                };
                let listens = node.location.listens().to_string();
                for other in nodes {
                    let is_own = other.name == node.name;
                    assert_eq!(names(other, &listens), is_own, "{name}: {}, {listens}", other.name);
                }
                // Some name the address alone, and their ports apart.
                if names(node, &format!("\"{listens}\"")) {
                    continue;
                }
                for (port, number) in &node.ports {
                    let [announced, listens] =
                        [node.location.at(*number), node.location.listens_at(*number)];
                    let is_announced = names(node, &announced.to_string());
                    let is_listened_at = names(node, &listens.to_string());
                    assert!(!is_announced || is_listened_at, "{name}: {}, {port}", node.name);
                }
            }
            let reached: Vec<IpAddr> =
                member.nodes.iter().map(|node| node.target.address.ip()).collect();
            let announced: Vec<IpAddr> = nodes.iter().map(|node| node.location.address).collect();
            assert_eq!(reached, announced, "{name}");
        }
    }
    // All cases of one secret store have parts without relays. Its nodes are described as the other's are.
    let announce = registry().iter().filter(|system| system.declares().announces);
    assert_eq!(seen.len() + 1, announce.count(), "{seen:?}");
}
