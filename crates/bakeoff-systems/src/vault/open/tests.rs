//! Probes a scripted test server.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use bakeoff_engine::transport::Target;

use super::*;
use crate::Memory;

/// Returns a node that answers each path with a status and JSON, until the test ends.
fn node(memory: &Memory, reply: &[(&str, u16, Value)]) -> Access {
    let reply: BTreeMap<String, (u16, String)> = reply
        .iter()
        .map(|(path, status, body)| (format!("/v1/{path}"), (*status, body.to_string())))
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let head: Vec<String> = BufReader::new(socket.try_clone().unwrap())
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let target = head[0].split(' ').nth(1).unwrap_or_default();
            let (status, body) = reply.get(target).cloned().unwrap_or((404, "{}".into()));
            let length = body.len();
            write!(socket, "HTTP/1.1 {status} S\r\nContent-Length: {length}\r\n\r\n{body}").ok();
        }
    });
    Access {
        name: format!("node-{}", address.port()),
        authority: address.to_string(),
        target: Target { address, tls: None },
        memory: memory.clone(),
    }
}

fn open(storage: &str) -> (&'static str, u16, Value) {
    let status = json!({
        "initialized": true, "sealed": false, "storage_type": storage, "version": "1.21.0",
    });
    ("sys/seal-status", 200, status)
}

fn led(is_self: bool, address: &str) -> (&'static str, u16, Value) {
    let reply = json!({"ha_enabled": true, "is_self": is_self, "leader_address": address});
    ("sys/leader", 200, reply)
}

fn lookup(status: u16) -> (&'static str, u16, Value) {
    ("auth/token/lookup-self", status, json!({"errors": ["permission denied"]}))
}

fn with_token() -> Memory {
    let memory = Memory::default();
    memory.keep(Keys { token: "the-token".into(), unseal: vec!["the-key".into()] });
    memory
}

#[track_caller]
fn never_opens(seen: Result<ClusterStatus, NotReady>, what: &str) {
    match seen {
        Err(NotReady::Never { seen, hint }) => {
            assert!(seen.contains(what), "no `{what}` in `{seen}`");
            assert!(!seen.contains("the-token") && !hint.is_empty());
        }
        other => panic!("waited for: {other:?}"),
    }
}

#[track_caller]
fn may_open(seen: Result<ClusterStatus, NotReady>, what: &str) {
    match seen {
        Err(NotReady::NotYet(seen) | NotReady::Odd { seen, .. }) => {
            assert!(seen.contains(what), "no `{what}` in `{seen}`")
        }
        other => panic!("not waited for: {other:?}"),
    }
}

#[test]
fn active_node_is_the_leader() {
    let memory = with_token();
    let nodes = [
        node(&memory, &[open("consul"), led(false, "http://b")]),
        node(&memory, &[open("consul"), led(true, "http://b"), lookup(200)]),
    ];
    let view = probe(&nodes).unwrap();
    assert_eq!((view.leader, view.version.as_deref()), (Some(1), Some("1.21.0")));
    // Without high availability the only node is the leader.
    let alone = json!({"ha_enabled": false, "is_self": false});
    let nodes = [node(&memory, &[open("file"), ("sys/leader", 200, alone), lookup(200)])];
    assert_eq!(probe(&nodes).unwrap().leader, Some(0));
}

#[test]
fn does_not_wait_for_others_to_open_their_cluster() {
    let memory = with_token();
    let shut = |initialized: bool| {
        let status = json!({"initialized": initialized, "sealed": true});
        [node(&memory, &[("sys/seal-status", 200, status)])]
    };
    never_opens(probe(&shut(true)), "is sealed");
    never_opens(probe(&shut(false)), "is not initialised");
    let refused = [node(&memory, &[open("raft"), led(true, ""), lookup(403)])];
    never_opens(probe(&refused), "refuses the token");
}

#[test]
fn waits_while_no_node_is_active() {
    let memory = with_token();
    let nodes = [node(&memory, &[open("raft"), led(false, "https://elsewhere:8200")])];
    may_open(probe(&nodes), "add the active node `https://elsewhere:8200`");
    let nodes = [node(&memory, &[open("raft"), led(false, "")])];
    may_open(probe(&nodes), "no node is active yet");
    let nodes = [node(&memory, &[open("raft"), led(true, ""), lookup(500)])];
    may_open(probe(&nodes), "500");
    let nodes = [node(&memory, &[("sys/seal-status", 503, json!({"errors": []}))])];
    may_open(probe(&nodes), "503");
}

#[test]
fn waits_until_every_started_node_has_a_vote() {
    let memory = with_token();
    memory.keep(OwnCluster);
    let servers = |voters: &[bool]| {
        let servers: Vec<Value> = voters.iter().map(|voter| json!({ "voter": voter })).collect();
        ("sys/storage/raft/configuration", 200, json!({"data": {"config": {"servers": servers}}}))
    };
    let cluster = |voters: &[bool]| {
        let leader = node(&memory, &[open("raft"), led(true, ""), lookup(200), servers(voters)]);
        [leader, node(&memory, &[open("raft"), led(false, "")])]
    };
    may_open(probe(&cluster(&[true, false])), "1 of 2 nodes have a vote");
    assert_eq!(probe(&cluster(&[true, true])).unwrap().leader, Some(0));
    // The token is known to be valid, so a refusal is temporary.
    let nodes = [node(&memory, &[open("raft"), led(true, ""), lookup(403)])];
    may_open(probe(&nodes), "403");
}

#[test]
fn key_is_sent_once_to_a_node_that_joins() {
    let memory = with_token();
    memory.keep(OwnCluster);
    let sealed = |progress: u64| json!({"initialized": true, "sealed": true, "progress": progress});
    let joins =
        node(&memory, &[("sys/seal-status", 200, sealed(0)), ("sys/unseal", 200, sealed(0))]);
    may_open(probe(std::slice::from_ref(&joins)), "is still sealed");
    assert!(is_joining(&joins), "it took the key");
    // A second key would be refused by this node.
    let fails = [("sys/seal-status", 200, sealed(0)), ("sys/unseal", 500, json!({}))];
    let fails = Access { name: joins.name.clone(), ..node(&memory, &fails) };
    may_open(probe(&[fails]), "is still sealed");
    let lacks =
        node(&memory, &[("sys/seal-status", 200, sealed(1)), ("sys/unseal", 200, sealed(1))]);
    may_open(probe(std::slice::from_ref(&lacks)), "is still sealed");
    assert!(!is_joining(&lacks), "it needs another key");
}

#[test]
fn killed_inmem_storage_never_opens() {
    let memory = with_token();
    memory.keep(OwnCluster);
    let empty = |storage: &str| {
        let status = json!({"initialized": false, "sealed": true, "storage_type": storage});
        [node(&memory, &[("sys/seal-status", 200, status)])]
    };
    never_opens(probe(&empty("inmem")), "lost all data");
    may_open(probe(&empty("raft")), "has not joined");
}

#[test]
fn keys_of_an_opened_cluster_stay_in_memory() {
    use crate::running_system::{self, shown_to_others};
    use crate::testing::{program, study_system};
    let vault = crate::by_kind("vault").unwrap();
    let Some(program) = program(vault, &[]) else { return };
    let mut running = running_system::start(vault, &study_system("vault", 1, &[]), Some(program));
    let node = running.ready.nodes[0].clone();
    let keys = node.memory.get::<Keys>().unwrap();
    let base64 = keys.unseal[0].clone();
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &base64);
    let hex: String = bytes.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(keys.token.len() > 20 && hex.len() >= 64);
    for secret in [&keys.token, &base64, &hex] {
        assert!(!running.command_lines().contains(secret.as_str()));
        assert_eq!(shown_to_others(running.dir.path(), secret), None);
    }
    assert!(running.command_lines().contains("server -config"));
    // Prove that the check would notice a leak.
    std::fs::write(running.dir.path().join("leak"), &keys.token).unwrap();
    assert!(shown_to_others(running.dir.path(), &keys.token).is_some());
    let running = running.killed_and_restarted();
    assert_eq!(node.memory.get::<Keys>().unwrap().token, keys.token, "it was not opened anew");
    running.stopped();
}
