//! Runs both meshes: with mutual TLS, after a kill and restart, and with faults.

use std::path::Path;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study::{Study, Tier, Tls, parse};
use bakeoff_engine::tls::{self, Authority, Trust};
use bakeoff_engine::transport::{Target, TlsTarget};
use bakeoff_host::{Host, NodeSpec};
use rustix::process::Signal;
use tempfile::TempDir;

use super::*;
use crate::exchange::PATIENCE;
use crate::location_plan::LocationPlan;
use crate::running_system::{RunningSystem, launch, shown_to_others};
use crate::testing::program;
use crate::topology::{Component, Member, compose};
use crate::{COMPOSITE, Memory, by_kind, kinds};

/// Returns a study of one system with this control plane; `more` holds its options and limits.
fn study(plane: &str, more: &str) -> Study {
    let plane = match plane {
        "consul" => "{kind: consul, options: {raft-multiplier: 1}}".to_owned(),
        other => format!("{{kind: {other}}}"),
    };
    let text = format!(
        "title: t\nsystems:\n  mesh:\n    kind: ingress-gateway\n{more}    parts:\n      \
         application: {{kind: application}}\n      control-plane: {plane}\n      \
         sidecar: {{kind: envoy}}\nworkloads:\n  w: {{mix: {{request: 1}}, request: {{path: /}}}}\nloads:\n  \
         l: {{clients: 1, stop: {{operations: 1}}}}\n"
    );
    parse("t", "t.yaml", &text, &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Returns all members of the system with their programs. Reports the first one that cannot be installed.
fn components(system: &study::System) -> Option<Vec<Component<'_>>> {
    let mut all = Vec::new();
    let roles = ROLES.iter().map(|role| (role.name, Some(Tier::Backend), &system.parts[role.name]));
    for (role, tier, study_system) in roles.chain([(COMPOSITE, None, system)]) {
        let kind = by_kind(&study_system.kind).unwrap();
        let program = match kind.declares().origin.recipe() {
            None => None,
            Some(_) => Some(program(kind, &[])?),
        };
        all.push(Component {
            role,
            tier,
            study_system,
            system: kind,
            program,
            seal: None,
            upgrade: None,
        });
    }
    Some(all)
}

fn described<'a>(components: &'a [Component<'a>], dir: &TempDir) -> Vec<Member<'a>> {
    compose(components, dir.path(), 7, &LocationPlan::here(), &mut Allocator::new(None)).unwrap()
}

/// Returns the description of the node with a role.
fn node_of<'m>(members: &'m mut [Member<'_>], role: &str) -> &'m mut NodeSpec {
    let member = members.iter_mut().find(|member| member.of.role == role).unwrap();
    &mut member.description.nodes[0]
}

/// Returns the same address with TLS, for a client without a certificate that trusts any.
fn over_tls(node: &Access) -> Access {
    let insecure = Tls { ca: None, cert: None, key: None, insecure: true };
    let config = tls::client_config(Some(&insecure), Trust::Nobody, &[]).unwrap();
    let name = "application.invalid".try_into().unwrap();
    let tls = Some(TlsTarget::new(name, config));
    Access { target: Target { tls, ..node.target.clone() }, ..node.clone() }
}

fn at(spec: &NodeSpec) -> Access {
    let port = spec.port("client");
    Access {
        name: spec.name.clone(),
        authority: format!("127.0.0.1:{port}"),
        target: Target { address: ([127, 0, 0, 1], port).into(), tls: None },
        memory: Memory::default(),
    }
}

fn passes(gateway: &Access) {
    let (status, body) = ask(gateway, "GET", "/any/path").unwrap();
    assert_eq!((status, body.len()), (200, 255), "{body}");
}

fn through_mutual_tls(plane: &str) {
    let study = study(plane, "");
    let Some(components) = components(&study.systems[0]) else { return };
    let dir = TempDir::new().unwrap();
    let mut members = described(&components, &dir);
    let sidecar = at(node_of(&mut members, mesh::SIDECAR));
    let ready = launch(members, dir.path()).unwrap_or_else(|error| panic!("{error}"));
    let gateway = ready.nodes[0].clone();
    passes(&gateway);
    let refused = |sidecar: &Access| {
        assert_eq!(proxy::plain(sidecar).unwrap(), proxy::Plain::Refused);
        let reply = ask(&over_tls(sidecar), "GET", "/");
        assert!(reply.is_err(), "somebody without a certificate was answered {reply:?}");
    };
    refused(&sidecar);
    if plane == "istio" {
        // Consul keeps its authority's key in its log, which other users can read.
        assert_eq!(shown_to_others(dir.path(), "PRIVATE KEY"), None);
    }
    let running = RunningSystem::new(ready, dir).killed_and_restarted();
    passes(&gateway);
    refused(&sidecar);
    running.stopped();
}

#[test]
fn consul_mesh_passes_requests_and_refuses_plain_ones() {
    through_mutual_tls("consul");
}

#[test]
fn istio_mesh_passes_requests_and_refuses_plain_ones() {
    through_mutual_tls("istio");
}

#[test]
fn plain_request_reaches_the_istio_sidecar_without_mutual_tls() {
    let study = study("istio", "    options: {mtls: off}\n");
    let Some(components) = components(&study.systems[0]) else { return };
    let dir = TempDir::new().unwrap();
    let mut members = described(&components, &dir);
    let sidecar = at(node_of(&mut members, mesh::SIDECAR));
    let settings = &members.last().unwrap().description.settings;
    assert!(settings.iter().any(|one| one.name.starts_with("mutual TLS") && one.value == "off"));
    let ready = launch(members, dir.path()).unwrap_or_else(|error| panic!("{error}"));
    passes(&ready.nodes[0]);
    passes(&sidecar);
    RunningSystem::new(ready, dir).stopped();
}

/// Starts an Istio mesh with other credentials for one proxy. Returns the error.
fn with_credentials(role: &str, identity: &tls::Identity, ca: Option<&str>) -> Option<String> {
    let study = study("istio", "");
    let components = components(&study.systems[0])?;
    let dir = TempDir::new().unwrap();
    let mut members = described(&components, &dir);
    for file in &mut node_of(&mut members, role).files {
        let text = match file.path.file_name().and_then(|name| name.to_str()) {
            Some("cert-chain.pem") => &identity.cert_pem,
            Some("key.pem") => &identity.key_pem,
            Some("root-cert.pem") => match ca {
                Some(ca) => ca,
                None => continue,
            },
            _ => continue,
        };
        file.contents = text.as_bytes().to_vec();
    }
    let began = clock::now();
    let error = launch(members, dir.path()).map(|_| ()).unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(20), "it was waited for: {error}");
    Some(error)
}

#[test]
fn mismatched_certificate_fails_at_once() {
    let other = Authority::new().unwrap();
    let name = "spiffe://cluster.local/ns/default/sa/application";
    let (identity, ca) = (other.workload(name).unwrap(), other.ca_pem());
    let reply = "do not trust each other's certificates";
    // The right name, signed by an authority unknown to the gateway.
    let Some(error) = with_credentials(mesh::SIDECAR, &identity, Some(&ca)) else { return };
    assert!(error.contains(reply) && error.contains("CERTIFICATE_VERIFY_FAILED"), "{error}");
}

#[test]
fn sidecar_without_required_mutual_tls_fails_at_once() {
    let study = study("istio", "");
    let Some(components) = components(&study.systems[0]) else { return };
    let dir = TempDir::new().unwrap();
    let mut members = described(&components, &dir);
    let files = &mut node_of(&mut members, mesh::CONTROL_PLANE).files;
    let policy = files.iter_mut().find(|file| file.path.ends_with("PeerAuthentication.yaml"));
    let policy = &mut policy.unwrap().contents;
    let lax = String::from_utf8(policy.clone()).unwrap().replace("STRICT", "PERMISSIVE");
    *policy = lax.into_bytes();
    let error = launch(members, dir.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("answered a plain request"), "{error}");
    assert!(error.contains("there is no mutual TLS in force"), "{error}");
}

#[test]
fn silent_control_plane_is_reported_with_its_proxy_counters() {
    let study = study("consul", "");
    let Some(components) = components(&study.systems[0]) else { return };
    let dir = TempDir::new().unwrap();
    let mut members = described(&components, &dir);
    let host = Host::new(dir.path()).unwrap();
    let mut processes = Vec::new();
    let sidecar = members.iter().position(|member| member.of.role == mesh::SIDECAR).unwrap();
    let access = members[sidecar].nodes.clone();
    for member in &mut members[..=sidecar] {
        for spec in std::mem::take(&mut member.description.nodes) {
            let process = host.launch(spec).unwrap();
            if member.of.role == mesh::CONTROL_PLANE {
                // The stopped process keeps its ports open.
                process.signal(Signal::STOP);
            }
            processes.push(process);
        }
    }
    let deadline = clock::now() + Duration::from_secs(20);
    let printed = loop {
        match envoy::Envoy.probe(&access) {
            Err(NotReady::NotYet(printed)) if printed.contains("has no listener on port") => {
                break printed;
            }
            other => assert!(clock::now() < deadline, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(printed.contains("`mesh-sidecar-1` has no listener on port "), "{printed}");
    // The kernel may have accepted its connection, which then stays silent.
    assert!(
        printed.contains("control plane is connected, clusters were sent 0 times"),
        "{printed}"
    );
}

#[test]
fn unsupported_combinations_are_refused() {
    let check = |text: &str, reply: &str| {
        let composite = format!(
            "title: t\nsystems:\n  mesh: {text}\nworkloads:\n  w: {{mix: {{request: 1}}, request: {{path: /}}}}\nloads:\n  \
             l: {{clients: 1, stop: {{operations: 1}}}}\n"
        );
        let diagnostics = parse("t", "t.yaml", &composite, &kinds()).unwrap_err().to_string();
        assert!(diagnostics.contains(reply), "{diagnostics}");
    };
    let with = |parts: &str| format!("{{kind: ingress-gateway, parts: {{{parts}}}}}");
    let (app, sidecar) = ("application: {kind: application}", "sidecar: {kind: envoy}");
    let consul = "control-plane: {kind: consul}";
    check(&with(&format!("{app}, {consul}")), "it has no part `sidecar`");
    check(&with(&format!("{app}, {sidecar}")), "it has no part `control-plane`");
    let all = format!("{app}, {consul}, {sidecar}");
    let off = with(&all).replace("parts:", "options: {mtls: off}, parts:");
    check(&off, "Consul's gateway always uses mutual TLS");
    let secret = with(&all.replace("kind: application", "kind: nginx, options: {tls: on}"));
    check(&secret, "the sidecar uses plain HTTP to its application");
    check("{kind: ingress-gateway, endpoints: [\"http://127.0.0.1:1\"]}", "write `kind: http`");
    check("{kind: envoy}", "which is only a part of others");
}

/// Makes three changes. Each must reach the gateway within seconds, and other requests must still pass.
fn takes_changes(plane: &str) {
    let study = study(plane, "");
    let Some(components) = components(&study.systems[0]) else { return };
    let dir = TempDir::new().unwrap();
    let ready =
        launch(described(&components, &dir), dir.path()).unwrap_or_else(|error| panic!("{error}"));
    let gateway = ready.nodes[0].clone();
    let running = RunningSystem::new(ready, dir);
    let mut earlier: Option<RouteChange> = None;
    for _ in 0..3 {
        let change = RouteChange::next(&gateway).unwrap();
        let has = |change: &RouteChange| change.has_arrived(&gateway, PATIENCE.into()).unwrap();
        assert!(!has(&change), "the gateway has the change too early");
        let replace = |node: &str, path: &Path, contents: &[u8]| {
            let mut processes = running.ready.processes();
            processes.find(|process| process.name() == node).unwrap().replace_file(path, contents)
        };
        change.hand_over(PATIENCE.into(), replace).unwrap();
        let until = clock::now() + Duration::from_secs(10);
        while !has(&change) {
            assert!(clock::now() < until, "{} is missing", change.path());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!earlier.is_some_and(|earlier| has(&earlier)), "the change before is still there");
        passes(&gateway);
        earlier = Some(change);
    }
    running.stopped();
}

#[test]
fn gateway_of_consul_takes_changes_of_its_routes() {
    takes_changes("consul");
}

#[test]
fn gateway_of_istio_takes_changes_of_its_routes() {
    takes_changes("istio");
}
