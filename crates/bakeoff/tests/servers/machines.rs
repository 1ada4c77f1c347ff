//! Runs on several machines over SSH: hosts in namespaces, each with a real `sshd`.

use std::fs;
use std::path::Path;
use std::process::Output;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::hosts::Hosts;
use crate::support::skip::{Lacking, Skipped};

pub(crate) fn tests(skipped: &Skipped) -> Vec<Trial> {
    vec![skipped.unless_lacking("machines::etcd_runs_on_three_hosts_loaded_by_two", three_and_two)]
}

const ETCD: &str = "\
title: etcd on machines of its own
systems:
  etcd: {kind: etcd, nodes: 3}
workloads:
  mixed: {mix: {put: 1, get: 1}, keys: {count: 1000, order: uniform}, values: {size: 64}, fill: true}
loads:
  steady: {clients: 8, warmup: 500ms, stop: {after: 2s}}
trials: 1
";

fn run(hosts: &Hosts, study: &str, places: &Path, flags: &[&str]) -> Output {
    let file = hosts.dir().join("study.yaml");
    fs::write(&file, study).unwrap();
    let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("run").arg(&file).arg("--on").arg(places).args(["--shared-machine", "--out"]);
    command.arg(hosts.dir().join("runs")).args(flags).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// The trials of the only run in the folder of runs.
fn trials(hosts: &Hosts) -> Vec<Value> {
    let run = fs::read_dir(hosts.dir().join("runs")).unwrap().flatten().next().unwrap().path();
    let record = fs::read_to_string(run.join("record.jsonl")).unwrap();
    let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["line"] == "trial").collect()
}

fn three_and_two() -> Result<(), Lacking> {
    let hosts = Hosts::new(5)?;
    let places = hosts.places(&[1, 2, 3], &[4, 5]);
    let ended = run(&hosts, ETCD, &places, &[]);
    assert!(ended.status.success(), "{}", text(&ended));
    let trials = trials(&hosts);
    let generated = &trials[0]["machines"][3]["generated"][0];
    assert_eq!(generated["clients"], 4, "{generated}");
    assert!(generated["verified"].as_u64() > Some(100), "{generated}");
    for number in 1..=5 {
        assert_eq!(hosts.processes(number, "etcd"), Vec::<String>::new());
        let left: Vec<_> =
            fs::read_dir(hosts.own(number).join("data")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    Ok(())
}
