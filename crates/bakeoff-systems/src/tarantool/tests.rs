//! Runs a real Tarantool, if it is installed, and checks its configuration.

use bakeoff_clock as clock;
use bakeoff_wire::msgpack::Value;

use super::*;
use crate::SystemError;
use crate::running_system::{self, shown_to_others};
use crate::testing::{program, study_system};

/// Returns true if a node grants a session access to a resource.
fn may(node: &Access, session: &str, resource: &str) -> bool {
    let arguments = [Value::Text(session.as_bytes()), Value::Text(resource.as_bytes())];
    check(node, &arguments).unwrap()
}

fn check(node: &Access, arguments: &[Value<'_>]) -> Result<bool, SystemError> {
    call(node, PATIENCE, "check_access", arguments, |mut reply| match reply.next()? {
        Value::Bool(may) => Some(may),
        _ => None,
    })
}

fn counted(nodes: &[Access]) -> (u64, u64) {
    let Counts { granted, refused, since } = granted(nodes).unwrap();
    assert_eq!(since.len(), nodes.len());
    (granted, refused)
}

#[test]
fn node_checks_counts_and_hides_its_password() {
    let Some(program) = program(&Tarantool, &[]) else { return };
    let system = study_system("tarantool", 1, &[(MEMTX_MEMORY, "64MiB"), (WAL_MODE, "fsync")]);
    let mut running = running_system::start(&Tarantool, &system, Some(program));
    let nodes = running.ready.nodes.clone();
    let node = &nodes[0];
    assert_eq!(running.ready.view.leader, Some(0));
    assert!(running.ready.view.version.as_ref().unwrap().starts_with(|c: char| c.is_ascii_digit()));

    assert_eq!(counted(&nodes), (0, 0));
    assert!(!may(node, "session-0", "/"), "none was made yet");
    fill_sessions(&nodes, 2500).unwrap();
    assert!(may(node, "session-0", "/") && may(node, "session-2499", "/pixel.gif"));
    assert!(!may(node, "session-2500", "/") && !may(node, "stranger-0", "/"));
    assert!(!may(node, "session-0", "elsewhere"), "it is not for all resources");
    assert_eq!(counted(&nodes), (2, 4));
    // A request without a cookie has no session. It is refused and counted.
    for arguments in [&[][..], &[Value::Nil, Value::Nil], &[Value::Unsigned(1), Value::Text(b"/")]]
    {
        assert!(!check(node, arguments).unwrap(), "{arguments:?}");
    }
    assert_eq!(counted(&nodes), (2, 7));
    // Fewer sessions, and all others removed.
    fill_sessions(&nodes, 1).unwrap();
    assert!(may(node, "session-0", "/") && !may(node, "session-1", "/"));

    let password = node.memory.get::<Credentials>().unwrap().password.clone();
    assert!(password.len() >= 32);
    assert!(!running.command_lines().contains(&password));
    assert_eq!(shown_to_others(running.dir.path(), &password), None);
    assert!(shown_to_others(running.dir.path(), "box.cfg").is_some(), "files are looked into");
    let stranger = Access { memory: Memory::default(), ..node.clone() };
    let unknown = check(&stranger, &[]).unwrap_err().to_string();
    assert!(unknown.contains("its password is unknown"), "{unknown}");
    stranger.memory.keep(Credentials { user: "bakeoff".into(), password: "guessed".into() });
    let refused = check(&stranger, &[]).unwrap_err().to_string();
    assert!(refused.contains("ER_PASSWORD_MISMATCH"), "{refused}");
    // The clients' user is not an administrator.
    let failed =
        call(node, PATIENCE, "box.schema.space.create", &[], |_| Some(())).unwrap_err().to_string();
    assert!(failed.contains("ER_ACCESS_DENIED"), "{failed}");

    let before = granted(&nodes).unwrap();
    let running = running.killed_and_restarted();
    assert!(may(node, "session-0", "/"), "its log has the session");
    let after = granted(&nodes).unwrap();
    assert_eq!((after.granted, after.refused), (1, 0));
    assert_ne!(before.since, after.since, "a restarted count looks like a continued one");
    running.stopped();
}

#[test]
fn masters_share_sessions_and_counts() {
    let Some(program) = program(&Tarantool, &[]) else { return };
    let system = study_system("tarantool", 3, &[]);
    let mut running = running_system::start(&Tarantool, &system, Some(program));
    let nodes = running.ready.nodes.clone();
    assert_eq!(running.ready.view.leader, None);

    // Sessions are created at the first of these nodes.
    let began = clock::now();
    fill_sessions(&nodes, 100_000).unwrap();
    let took = clock::now() - began;
    assert!(took < Duration::from_secs(20), "{took:?} for 100,000 sessions");
    assert!(nodes.iter().all(|node| may(node, "session-99999", "/")));
    // One write that takes the others a while, and that they must have after `settle`.
    let many = [Value::Unsigned(0), Value::Unsigned(150_000), Value::Text(b"/")];
    let patience = Duration::from_secs(30);
    call(&nodes[1], patience, "bakeoff.make_sessions", &many, |_| Some(())).unwrap();
    settle(&nodes).unwrap();
    assert!(may(&nodes[2], "session-149999", "/"));
    let backwards: Vec<Access> = nodes.iter().rev().cloned().collect();
    fill_sessions(&backwards, 200).unwrap();
    assert!(nodes.iter().all(|node| may(node, "session-199", "/")), "all can be written to");
    assert!(!may(&nodes[1], "stranger-0", "/"));
    assert_eq!(counted(&nodes), (7, 1));
    assert_eq!(counted(&nodes[..1]), (2, 0), "each counts its own");

    // The same sessions at two nodes at once, with different resources: a conflict that nothing resolves.
    let at_once = std::sync::Barrier::new(2);
    std::thread::scope(|threads| {
        for (node, resources) in [(&nodes[0], b"/a"), (&nodes[1], b"/b")] {
            let at_once = &at_once;
            threads.spawn(move || {
                let many = [Value::Unsigned(0), Value::Unsigned(20_000), Value::Text(resources)];
                at_once.wait();
                call(node, patience, "bakeoff.make_sessions", &many, |_| Some(())).unwrap();
            });
        }
    });
    let differ = settle(&nodes).unwrap_err().to_string();
    assert!(differ.starts_with("`tarantool-1` and `tarantool-"), "{differ}");
    assert!(differ.contains(" have each other's writes but differ for good"), "{differ}");
    fill_sessions(&nodes, 200).unwrap();

    let password = nodes[0].memory.get::<Credentials>().unwrap().password.clone();
    assert!(!running.command_lines().contains(&password));
    assert_eq!(shown_to_others(running.dir.path(), &password), None, "its address holds it");

    let processes: Vec<_> = running.ready.processes().collect();
    processes[2].kill9();
    let deadline = clock::now() + Duration::from_secs(10);
    // The first node notices the loss before the lost node is contacted.
    let misses =
        |seen: &str| seen.starts_with("`tarantool-1` replicates with 1 of 2 other nodes: ");
    loop {
        let looked = Tarantool.probe(&nodes);
        let Err(NotReady::NotYet(seen)) = looked else { panic!("{looked:?}") };
        if misses(&seen) {
            break;
        }
        assert!(clock::now() < deadline, "{seen}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(may(&nodes[0], "session-0", "/"), "the others go on");

    let running = running.killed_and_restarted();
    assert!(nodes.iter().all(|node| may(node, "session-199", "/")));
    running.stopped();
}

#[test]
fn configuration_holds_only_what_the_study_sets() {
    let installed = None;
    let printed = |nodes: u32, options: &[(&str, &str)], number| {
        let system = study_system("tarantool", nodes, options);
        let dir = std::path::Path::new("/");
        let of = DescribeContext {
            system: &system,
            composite: &system,
            role: "",
            program: installed,
            dir,
            locations: &[bakeoff_host::Location::HERE],
            members: &[],
            seed: 0,
            neighbours: &[],
        };
        let credentials = Credentials { user: "u".into(), password: "p".into() };
        let at = |port| bakeoff_host::Location::HERE.at(port);
        let all: Vec<_> = (7001..).map(at).take(nodes as usize).collect();
        config(&of, number, &all, &credentials)
    };
    assert_eq!(
        printed(1, &[], 1),
        "return {\n    user = 'u', password = 'p',\n    nodes = 1, first = true, kv = 512,\n    \
         box = {\n        listen = '127.0.0.1:7001',\n        feedback_enabled = false,\n    },\n}\n"
    );
    let more = printed(2, &[(MEMTX_MEMORY, "1GiB"), (WAL_MODE, "none")], 2);
    for line in [
        "nodes = 2, first = false, kv = 512,",
        "listen = '127.0.0.1:7002',",
        "memtx_memory = 1073741824,",
        "wal_mode = 'none',",
        "instance_uuid = '00000000-0000-4000-8000-000000000002',",
        "'u:p@127.0.0.1:7001',",
        "'u:p@127.0.0.1:7002',",
    ] {
        assert!(more.lines().any(|one| one.trim() == line), "no `{line}` in {more}");
    }
}

#[test]
fn invalid_options_are_refused_when_reading_the_study() {
    assert!(sound(&study_system("tarantool", 1, &[(WAL_MODE, "none")])).is_ok());
    assert!(sound(&study_system("tarantool", 3, &[(WAL_MODE, "write")])).is_ok());
    let (what, hint) = sound(&study_system("tarantool", 2, &[(WAL_MODE, "none")])).unwrap_err();
    assert!(what.contains("keeps no log") && hint.contains("nodes: 1"), "{what}; {hint}");
    let endpoint = study::Endpoint { tls: false, host: "127.0.0.1".into(), port: 3301 };
    let runs = study::System {
        servers: study::Servers::Running(vec![endpoint]),
        ..study_system("tarantool", 1, &[])
    };
    assert!(sound(&runs).is_err());
}

#[test]
fn guarantee_follows_from_wal_mode() {
    let guarantees = |nodes, mode: Option<&'static str>| {
        let options: Vec<_> = mode.map(|mode| (WAL_MODE, mode)).into_iter().collect();
        SYSTEM.guarantees(&study_system("tarantool", nodes, &options))
    };
    let kept = |nodes, mode| guarantees(nodes, mode).acknowledged_in;
    assert_eq!(kept(1, Some("none")), Some(AckLocation::Memory));
    assert_eq!(kept(1, Some("fsync")), Some(AckLocation::Disk));
    for nodes in [1, 2] {
        assert_eq!(kept(nodes, None), Some(AckLocation::PageCache));
        assert_eq!(guarantees(nodes, None), guarantees(nodes, Some("write")), "its own default");
    }
    let read = |nodes| guarantees(nodes, None).freshness[&ReadConsistency::Default];
    assert_eq!((read(1), read(2)), (Freshness::Linearizable, Freshness::NodeAsked));
}
