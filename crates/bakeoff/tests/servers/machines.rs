//! Tests runs on several machines over SSH: hosts in namespaces, each with a real `sshd`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::case::cached;
use crate::support::hosts::Hosts;
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{BASELINE_FOR, CommandOutput, SMALL_ETCD, bakeoff};

mod bad_input;
mod exactness;
mod losses;
mod studies;
mod tunnel;

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    let mut tests = losses::tests(skipped);
    tests.extend(bad_input::tests(skipped));
    tests.extend(exactness::tests(skipped));
    tests.extend(studies::tests(skipped));
    tests.push(
        skipped.unless_lacking("machines::etcd_runs_on_three_hosts_loaded_by_two", three_and_two),
    );
    tests
}

/// Returns `bakeoff run` of a study on hosts.
fn command(hosts: &Hosts, study: &str, places: &Path) -> Command {
    let file = hosts.dir().join("study.yaml");
    fs::write(&file, study).unwrap();
    let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("run").arg(&file).arg("--on").arg(places).args(["--shared-machine", "--out"]);
    command.arg(hosts.dir().join("runs"));
    command
}

fn run(hosts: &Hosts, study: &str, places: &Path, flags: &[&str]) -> Output {
    command(hosts, study, places).args(flags).output().unwrap()
}

/// Returns the folder of the only run.
fn run_folder(hosts: &Hosts) -> PathBuf {
    fs::read_dir(hosts.dir().join("runs")).unwrap().flatten().next().unwrap().path()
}

/// Lists the leftovers of a run on these hosts: processes, and files in data folders.
fn left_on(hosts: &Hosts, numbers: &[usize]) -> Vec<String> {
    let mut left = Vec::new();
    for &number in numbers {
        left.extend(hosts.processes(number, "/bakeoff/agents/bakeoff-"));
        let data = fs::read_dir(hosts.own(number).join("data")).unwrap().flatten();
        left.extend(data.map(|entry| entry.path().display().to_string()));
    }
    left
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Returns the lines of the only run's record.
fn record(hosts: &Hosts) -> Vec<Value> {
    let record = fs::read_to_string(run_folder(hosts).join("record.jsonl")).unwrap();
    record.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn header(hosts: &Hosts) -> Value {
    record(hosts).swap_remove(0)
}

fn trials(hosts: &Hosts) -> Vec<Value> {
    record(hosts).into_iter().filter(|line| line["line"] == "trial").collect()
}

fn three_and_two() -> Result<(), SkipReason> {
    let hosts = Hosts::bare(5)?;
    let places = hosts.places(&[1, 2, 3], &[4, 5]);
    // Pin to the last CPU, which always exists.
    let cpu = std::thread::available_parallelism().unwrap().get() - 1;
    let text_of = fs::read_to_string(&places).unwrap();
    let pinned = text_of.replacen("{ssh: h1, ", &format!("{{ssh: h1, cpus: {cpu}, "), 1);
    fs::write(&places, pinned).unwrap();
    let mut command = command(&hosts, SMALL_ETCD, &places);
    command.env_remove(BASELINE_FOR);
    // The program on PATH is sent to the cache of hosts that lack it.
    CommandOutput::run(bakeoff().args(["install", "etcd"])).ends_with(0);
    let etcd = cached("etcd").parent().unwrap().to_owned();
    let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = format!("{}:{}", etcd.display(), set.unwrap().display());
    let ended = command.env("PATH", path).output().unwrap();
    // 1 means not valid: a shared machine sometimes delays a generator. The trial is complete.
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", text(&ended));
    let (header, trials) = (header(&hosts), trials(&hosts));
    // The baseline of each machine: disks of those with servers, loopback of all.
    let environment = &header["environment"];
    for (number, machine) in environment["machines"].as_array().unwrap().iter().enumerate() {
        let baseline = &machine["environment"]["machine_baseline"];
        let appends = baseline["appends"].as_array().map_or(0, Vec::len);
        assert_eq!(appends, usize::from(number < 3), "{machine:#}");
        assert!(baseline["round_trips"][0]["per_second"].as_f64() > Some(100.0), "{machine:#}");
    }
    assert_eq!(environment["machines"][0]["cpus"], serde_json::json!([cpu]));
    // Hosts that are namespaces are reported as one machine.
    assert_eq!(environment["machines"][0]["same_kernel_as"], Value::Null);
    assert_eq!(environment["machines"][4]["same_kernel_as"], "h1");
    assert!(text(&ended).contains("h1, h2, h3, h4 and h5 are one machine"), "{}", text(&ended));
    let best = &environment["machine_baseline"];
    assert!(best["appends"][0]["per_second"].as_f64() > Some(1.0), "{best:#}");
    assert_eq!(best["round_trips"], serde_json::json!([]), "loopback is no way between machines");
    assert_eq!(trials[0]["outcome"]["ended"], "completed", "{}", text(&ended));
    let generated = &trials[0]["machines"][3]["generated"][0];
    assert_eq!(generated["clients"], 4, "{generated}");
    assert!(generated["verified"].as_u64() > Some(100), "{generated}");
    for number in 1..=5 {
        assert_eq!(hosts.processes(number, "etcd"), Vec::<String>::new());
    }
    assert_eq!(left_on(&hosts, &[1, 2, 3, 4, 5]), Vec::<String>::new());
    // Reuses the hosts, because creating them takes longer than a run.
    fs::remove_dir_all(hosts.dir().join("runs")).unwrap();
    tunnel::sets_up_servers_that_are_not_reached(&hosts);
    Ok(())
}
