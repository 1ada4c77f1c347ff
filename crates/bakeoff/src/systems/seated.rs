//! Tests that nodes listen at the addresses of their seats and find each other there, of every kind.
//!
//! Linux has all of 127.0.0.0/8 on loopback, so nodes at 127.0.0.2 to 127.0.0.4 share this machine as little as
//! one machine allows: whoever asks 127.0.0.1 finds nobody. Every kind is described so. Those that can be had here are
//! started too, looked at, loaded, killed and started again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bakeoff_core::check::Verdict;
use bakeoff_core::plan::plan;
use bakeoff_core::record::{SystemRecord, TrialOutcome, TrialRecord};
use bakeoff_core::study::{Study, Tier, parse};
use bakeoff_engine::tls::CaPem;
use bakeoff_host::Process;
use bakeoff_install::Program;
use tempfile::TempDir;

use super::*;
use crate::cluster::contenders::Contender;
use crate::cluster::topology::{self, Component, Member, compose};
use crate::cluster::{self, Starting};
use crate::event::{Event, Reporter};
use crate::machines::seating::Seating;
use crate::systems::testing::program;
use crate::trial::{self, TrialContext};

/// The addresses of the seats.
const ADDRESSES: [[u8; 4]; 3] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];

fn three_seats() -> Seating {
    let seats = ADDRESSES.map(|address| Seat { address: address.into(), ..Seat::HERE });
    Seating::spread(seats.to_vec())
}

/// Systems by names of their own. Together they have every kind, and every way in which one finds another.
const SYSTEMS: &[(&str, &str)] = &[
    ("etcd", "{kind: etcd, nodes: 3}"),
    ("zookeeper", "{kind: zookeeper, nodes: 3, options: {heap: 192MiB}}"),
    ("consul", "{kind: consul, nodes: 3, options: {raft-multiplier: 3}}"),
    (
        "vault-raft",
        "{kind: vault, nodes: 3, options: {raft-multiplier: 1, tls: on}, parts: {balancer: {kind: haproxy, \
         options: {to: leader}}}}",
    ),
    (
        "vault-consul",
        "{kind: vault, nodes: 2, parts: {storage: {kind: consul, options: {raft-multiplier: 1}}, \
         balancer: {kind: haproxy, options: {to: all, mode: http}}}}",
    ),
    ("vault-postgresql", "{kind: vault, nodes: 2, parts: {storage: {kind: postgresql, nodes: 2}}}"),
    (
        "vault-gcs-emulated",
        "{kind: vault, nodes: 2, parts: {storage: {kind: gcs-emulator, options: {latency: 1ms}}}}",
    ),
    (
        "vault-dynamodb-emulated",
        "{kind: vault, nodes: 1, parts: {storage: {kind: dynamodb-emulator}}}",
    ),
    ("openbao", "{kind: openbao, nodes: 3, options: {raft-multiplier: 1, tls: on}}"),
    ("canary", "{kind: canary, nodes: 3}"),
    ("redis", "{kind: redis, nodes: 3, options: {appendfsync: always, wait: majority}}"),
    ("nats", "{kind: nats, nodes: 3, options: {sync-interval: always}}"),
    ("tarantool", "{kind: tarantool, nodes: 3}"),
    ("nginx", "{kind: nginx, options: {tls: on}}"),
    (
        "access-gateway",
        "{kind: access-gateway, parts: {protected: {kind: nginx}, rights: {kind: tarantool, nodes: 2}}}",
    ),
    (
        "mesh-consul",
        "{kind: ingress-gateway, parts: {application: {kind: application}, control-plane: {kind: consul, \
         options: {raft-multiplier: 1}}, sidecar: {kind: envoy}}}",
    ),
    (
        "mesh-istio",
        "{kind: ingress-gateway, parts: {application: {kind: application}, control-plane: {kind: istio}, \
         sidecar: {kind: envoy}}}",
    ),
    (
        "process",
        "{kind: process, process: {command: [bakeoff, __delay, \"{address}:{port}\", \"{backend}\", 1ms]}, parts: \
         {backend: {kind: process, process: {command: [bakeoff, __canary, --listen, \"{address}:{port}\", \
         --data, \"{dir}/data\", --answer, \"43\"], ready: /health}}}}",
    ),
];

/// A word that a node may be told although it is the address of nobody's seat.
struct Allowed {
    kind: &'static str,
    word: &'static str,
    /// Where it stands: the name of a file.
    place: &'static str,
    /// Read by whoever adds another.
    _reason: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        kind: "postgresql",
        word: "127.0.0.1",
        place: "pg_hba.conf",
        _reason: "clients of this machine connect from there, whichever of its addresses they connect to",
    },
    Allowed {
        kind: "istio",
        word: "0.0.0.0",
        place: "Sidecar.yaml",
        _reason: "Istio's word for the sidecar's own address; it is connected to, and nobody listens there",
    },
];

/// Words for an address that is nobody's seat.
const WORDS: &[&str] = &["127.0.0.1", "0.0.0.0", "localhost", "[::]", "::1"];

/// A study of one of the systems.
fn study(name: &str) -> Study {
    let (_, system) = SYSTEMS.iter().find(|(known, _)| *known == name).expect("it is known");
    let takes_requests = ["nginx", "access-gateway", "mesh-consul", "mesh-istio", "process"];
    let (mix, keys) = match takes_requests.contains(&name) {
        true => ("{request: 1}", "keys: {count: 200}, request: {path: /a.gif}"),
        // Masters each keep a write of their own where two are made at once, so each key gets one.
        false if name == "tarantool" => {
            ("{put: 1, get: 1}", "keys: {count: 200, order: unique}, reads: default")
        }
        false => ("{put: 1, get: 1}", "keys: {count: 60}, reads: default"),
    };
    let text = format!(
        "title: t\nsystems:\n  {name}: {system}\nworkloads:\n  w: {{mix: {mix}, {keys}}}\nloads:\n  \
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
            (None, Some(_)) => Some(binary(crate::canary::delay::program())),
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

/// A program with all that any kind looks for beside it, none of which is ever started.
fn nothing_but_names(dir: &Path) -> Installed {
    let file = |path: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    };
    for name in ["initdb", "pg_basebackup", "pilot-agent"] {
        file(&format!("usr/sbin/{name}"));
    }
    for name in ["ndk_http_module.so", "ngx_http_lua_module.so"] {
        file(&format!("usr/lib/nginx/modules/{name}"));
    }
    file("usr/share/lua/5.1/resty/core.lua");
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

/// Returns where a member says an address that is nobody's seat, and notes which exceptions it made use of.
fn astray(member: &Member<'_>, used: &mut BTreeSet<usize>) -> Vec<String> {
    let kind = member.of.asked.kind.as_str();
    let mut found = Vec::new();
    for node in &member.description.nodes {
        for (place, text) in told(node) {
            for word in WORDS.iter().filter(|word| text.contains(**word)) {
                let allowed = ALLOWED.iter().position(|allowed| {
                    allowed.kind == kind && allowed.word == *word && place.ends_with(allowed.place)
                });
                match allowed {
                    Some(number) => drop(used.insert(number)),
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
    for (name, _) in SYSTEMS {
        let study = study(name);
        let components = components(&study.systems[0], |_| Some(installed.clone())).unwrap();
        let mut ports = Allocator::new(None);
        let members = compose(&components, folder.path(), 7, &three_seats(), &mut ports);
        for member in members.unwrap_or_else(|error| panic!("{name}: {error}")) {
            seen.insert(member.of.asked.kind.clone());
            let astray = astray(&member, &mut used);
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
    // What runs already has no seat.
    let all = kinds().into_iter().map(|kind| kind.name.to_owned()).filter(|kind| kind != "http");
    assert_eq!(seen, all.collect::<BTreeSet<_>>());
    assert_eq!(used.len(), ALLOWED.len(), "an exception that nobody makes use of");
}

#[test]
fn clients_elsewhere_are_let_in_and_nobody_else() {
    let folder = TempDir::new().unwrap();
    let installed = nothing_but_names(folder.path());
    let from = |clients: &[[u8; 4]]| {
        let study = study("vault-postgresql");
        let components = components(&study.systems[0], |_| Some(installed.clone())).unwrap();
        let clients = clients.iter().map(|&client| client.into()).collect();
        let seating = Seating::spread(vec![Seat::HERE]).with_clients(clients);
        let mut ports = Allocator::new(None);
        let members = compose(&components, folder.path(), 7, &seating, &mut ports).unwrap();
        let mut files = members[0].description.nodes[0].files.iter();
        let access = files.find(|one| one.path.ends_with("pg_hba.conf")).unwrap();
        String::from_utf8(access.contents.clone()).unwrap()
    };
    assert_eq!(
        from(&[[198, 18, 0, 9]]),
        "host all all 127.0.0.1/32 scram-sha-256\nhost all all 198.18.0.9/32 scram-sha-256\n\
         host replication bakeoff 127.0.0.1/32 scram-sha-256\n\
         host replication bakeoff 198.18.0.9/32 scram-sha-256\n"
    );
    assert_eq!(from(&[[127, 0, 0, 1]]).lines().count(), 2, "each address once");
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

/// Returns where a process listens that is not the address of its seat.
fn off_its_seat(process: &Process) -> Vec<String> {
    let own = process.seat().address;
    // Istio's control plane has a page of its own on loopback, at a port of its choice, which cannot be switched off
    // and which nobody asks for.
    let has_page = process.name().starts_with("mesh-istio-control-plane");
    let is_page = |address: &SocketAddr| {
        has_page
            && address.ip() == Ipv4Addr::LOCALHOST
            && process.ports().all(|p| p != address.port())
    };
    let at = process.listens_on().into_iter();
    let off = at.filter(|address| address.ip() != own && !is_page(address));
    off.map(|address| format!("`{}` at {own} listens on {address}", process.name())).collect()
}

/// Runs a trial of a system with its nodes at three addresses, and looks where they listen; does nothing, and says
/// so, where a program cannot be had.
fn runs_at_three_addresses(name: &str) {
    let study = study(name);
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
        machines: None,
    };
    let ready = cluster::start_on_free_ports(of, &mut ports, &never, &mut reporter, |_| {});
    let ready = ready.unwrap_or_else(|error| panic!("{name}: {error}"));
    let off: Vec<String> = ready.processes().flat_map(off_its_seat).collect();
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
        machines: None,
        kept: [(asked.name.clone(), ready)].into(),
    };
    let trial = plan(&study, 7).remove(0);
    let record = trial::run(&mut context, &contender, &trial, &mut reporter);
    context.end();
    assert_eq!(reporter.0.into_inner(), [""; 0], "{name}");
    all_went_well(name, &record);
}

fn all_went_well(name: &str, record: &TrialRecord) {
    assert_eq!(record.outcome, TrialOutcome::Completed, "{name}");
    let measured = record.measurement().expect("it was loaded");
    let errors: Vec<_> = measured.error_examples().collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    assert_eq!((measured.verified(), measured.error_count()), (200, 0), "{name}");
    let failed = record.audits.iter().filter(|audit| audit.verdict != Verdict::Passed);
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

#[test]
fn etcd_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("etcd");
}

#[test]
fn zookeeper_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("zookeeper");
}

#[test]
fn consul_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("consul");
}

#[test]
fn a_vault_by_raft_over_tls_behind_a_balancer_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("vault-raft");
}

#[test]
fn a_vault_on_postgresql_with_a_standby_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("vault-postgresql");
}

#[test]
fn a_vault_on_an_emulator_with_a_latency_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("vault-gcs-emulated");
}

#[test]
fn canary_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("canary");
}

#[test]
fn redis_with_replicas_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("redis");
}

#[test]
fn nats_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("nats");
}

#[test]
fn tarantool_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("tarantool");
}

#[test]
fn nginx_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("nginx");
}

#[test]
fn access_gateway_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("access-gateway");
}

#[test]
fn mesh_of_consul_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("mesh-consul");
}

#[test]
fn mesh_of_istio_runs_at_addresses_of_its_own() {
    runs_at_three_addresses("mesh-istio");
}

#[test]
fn commands_run_at_addresses_of_their_own() {
    runs_at_three_addresses("process");
}
