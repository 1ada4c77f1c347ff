//! Runs a real PostgreSQL, if it is installed.

use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_install::InstalledProgram;

use super::vault_tables::VAULT_TABLES;
use super::*;
use crate::running_system::{self, shown_to_others};
use crate::testing::{program, study_system};

/// Returns the server program. Debian installs it outside of `PATH`.
fn postgres() -> Option<InstalledProgram> {
    let series = ["18", "17", "16", "15", "14", "13"];
    let places = series.map(|series| format!("/usr/lib/postgresql/{series}/bin/postgres"));
    program(&PostgreSql, &places.each_ref().map(String::as_str))
}

fn one(node: &Access, sql: &str) -> String {
    let rows = execute(node, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows[0][0].clone().unwrap_or_else(|| "NULL".into())
}

#[test]
fn single_node_keeps_commits_and_hides_its_password() {
    let Some(program) = postgres() else { return };
    let system =
        study_system("postgresql", 1, &[("connections", "30"), ("shared-buffers", "16MiB")]);
    let mut running = running_system::start(&PostgreSql, &system, Some(program));
    let node = running.ready.nodes[0].clone();
    assert!(running.ready.view.version.as_ref().unwrap().starts_with(|c: char| c.is_ascii_digit()));
    let settings =
        ["max_connections", "shared_buffers", "fsync", "full_page_writes", "synchronous_commit"];
    let reply = settings.map(|name| one(&node, &format!("SHOW {name}")));
    assert_eq!(reply, ["30", "16MB", "on", "on", "on"]);

    execute(&node, VAULT_TABLES).unwrap();
    execute(&node, VAULT_TABLES).unwrap();
    execute(&node, "INSERT INTO vault_kv_store VALUES ('/', '/a', 'k', 'v')").unwrap();

    let password = node.memory.get::<Credentials>().unwrap().password.clone();
    assert!(password.len() >= 32 && url(&node).unwrap().contains(&password));
    assert!(!running.command_lines().contains(&password));
    assert_eq!(shown_to_others(running.dir.path(), &password), None);
    assert!(shown_to_others(running.dir.path(), "max_connections").is_some());

    let stranger = Access { memory: Memory::default(), ..node.clone() };
    stranger.memory.keep(Credentials {
        user: "bakeoff".into(),
        password: "guessed".into(),
        database: "postgres".into(),
    });
    let refused = execute(&stranger, "SELECT 1").unwrap_err().to_string();
    assert!(refused.contains("28P01"), "{refused}");
    let wrong = execute(&node, "SELECT nothing").unwrap_err().to_string();
    assert!(wrong.contains("42703"), "{wrong}");

    let running = running.killed_and_restarted();
    assert_eq!(one(&node, "SELECT convert_from(value, 'UTF8') FROM vault_kv_store"), "v");
    running.stopped();
}

#[test]
fn commit_waits_for_the_standby_only_if_synchronous() {
    let Some(program) = postgres() else { return };
    let asked_for = study_system("postgresql", 2, &[]);
    let running = running_system::start(&PostgreSql, &asked_for, Some(program.clone()));
    let [primary, standby] = &running.ready.nodes.clone()[..] else { panic!() };
    assert_eq!(running.ready.view.leader, Some(0));
    assert_eq!(one(primary, "SELECT sync_state FROM pg_stat_replication"), "quorum");
    execute(primary, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)").unwrap();
    arrives(standby, "1");
    assert!(
        execute(standby, "INSERT INTO t VALUES (2)").unwrap_err().to_string().contains("25006")
    );

    let processes: Vec<_> = running.ready.processes().collect();
    processes[1].kill9();
    let waited = execute(primary, "INSERT INTO t VALUES (3)").unwrap_err().to_string();
    assert!(waited.contains("no answer in time"), "{waited}");
    assert!(PostgreSql.probe(&running.ready.nodes).is_err());
    processes[1].restart().unwrap();
    // If killed while it writes its lock file, it would refuse to start because the file is empty.
    arrives(standby, "2");

    let running = running.killed_and_restarted();
    execute(primary, "INSERT INTO t VALUES (4)").unwrap();
    arrives(standby, "3");
    running.stopped();

    let asked_for = study_system("postgresql", 2, &[("synchronous", "off")]);
    let running = running_system::start(&PostgreSql, &asked_for, Some(program));
    let primary = running.ready.nodes[0].clone();
    assert_eq!(one(&primary, "SELECT sync_state FROM pg_stat_replication"), "async");
    let processes: Vec<_> = running.ready.processes().collect();
    processes[1].kill9();
    execute(&primary, "CREATE TABLE t (n int)").unwrap();
    running.stopped();
}

/// Waits until the standby shows this many rows. A commit waits for the standby's disk, not for its readers.
fn arrives(standby: &Access, rows: &str) {
    let deadline = clock::now() + Duration::from_secs(5);
    while execute(standby, "SELECT count(*) FROM t")
        .map_or(true, |n| n[0][0].as_deref() != Some(rows))
    {
        assert!(clock::now() < deadline, "no {rows} rows on the standby");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn commit_waits_for_a_majority_of_standbys() {
    let waits = |nodes| waits_for(&study_system("postgresql", nodes, &[]));
    assert_eq!([1, 2, 3, 4, 5].map(waits), [0, 1, 1, 2, 2]);
    assert_eq!(waits_for(&study_system("postgresql", 3, &[("synchronous", "off")])), 0);
}
