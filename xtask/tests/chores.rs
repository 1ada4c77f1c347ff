//! Runs xtask's commands. These tests also make `cargo test --workspace` build the program, which other tests need to
//! start a cluster.

use std::process::{Command, Output};

fn xtask(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(words).env("BAKEOFF_CLUSTER", "/nowhere/cluster").output().unwrap()
}

fn check(words: &[&str], code: i32, printed: &str) {
    let ended = xtask(words);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(code), "{words:?}: {stderr}");
    assert!(stderr.contains(printed), "{words:?}: {stderr}");
}

#[test]
fn unknown_command_prints_the_usage() {
    check(&["no-chore"], 2, "cargo xtask CHORE");
    check(&[], 2, "cluster up [--nodes N]");
}

#[test]
fn missing_cluster_is_an_error() {
    check(&["cluster", "status"], 1, "no cluster is up in `/nowhere/cluster`");
    check(&["cluster", "kubectl", "get", "nodes"], 1, "hint: `cargo xtask cluster up`");
}
