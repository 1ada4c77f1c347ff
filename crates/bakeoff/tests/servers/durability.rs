//! Tests that a wrapper which turns off an etcd's syncs is found, and an honest etcd is not accused.
//!
//! Not here: the canary that syncs less than it claims (`commands`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use libtest_mimic::Trial;

use crate::support::case::{Case, cached, case, with};
use crate::support::skip::SkippedTests;
use crate::support::{Bench, array, text};

const ETCD: Case = Case { needs: &["dpkg-deb"], ..case("etcd", "3.4", 1) };

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![with("an_etcd_that_a_wrapper_made_unsafe_loses_its_claim", ETCD, skipped, wrapped)]
}

fn wrapped(_: &Case) {
    let etcd = cached("etcd");
    let dir = tempfile::tempdir().unwrap();
    let wrapper = |name: &str, line: &str| -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let etcd = etcd.display();
    let replaced = wrapper("replaced", &format!("exec {etcd} --unsafe-no-fsync \"$@\""));
    // The wrapper stays, with the server as its child.
    let child = wrapper("child", &format!("ETCD_UNSAFE_NO_FSYNC=true {etcd} \"$@\""));
    let system = |name: &str, nodes: u32, program: &str| {
        format!("  {name}: {{kind: etcd, nodes: {nodes}, program: {program}}}\n")
    };
    let run = Bench::new(&format!(
        "title: etcd with and without syncs\nsystems:\n{}{}{}workloads:\n  write: {{mix: {{put: 1}}, \
         keys: {{count: 200}}}}\nloads:\n  few: {{clients: 4, stop: {{operations: 400}}}}\ntrials: 1\n",
        system("honest", 3, &etcd.to_string()),
        system("replaced", 3, &replaced.display().to_string()),
        system("child", 1, &child.display().to_string()),
    ))
    .run();
    crate::support::nothing_runs_in(run.bench.path());
    let found: Vec<&str> = array(&run.report["findings"])
        .iter()
        .map(text)
        .filter(|finding| finding.contains("for acknowledged writes"))
        .collect();
    let expected = [
        "replaced claims a majority's disks for acknowledged writes, but ran with `--unsafe-no-fsync` on \
         replaced-1, replaced-2, replaced-3: 0 syncs on 3 nodes for 50 acknowledged writes",
        "child claims one node's disk for acknowledged writes, but ran with `ETCD_UNSAFE_NO_FSYNC=true` on \
         child-1: 0 syncs for 50 acknowledged writes",
    ];
    assert_eq!(found, expected, "{}", run.ran.stdout);
    let rows = array(&run.report["fairness"]["rows"]);
    let syncs = rows.iter().find(|row| row["what"] == "syncs observed").unwrap();
    assert_eq!(text(&syncs["cells"][0]), "by a majority for each write");
}
