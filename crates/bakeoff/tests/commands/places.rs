//! Tests places files whose only machine is this one: the code path of SSH, with a child process as the connection.
//!
//! Not here: several machines (`servers`), the agent alone (`agent`).

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, bakeoff, record, text};

const HERE: &str = "machines: {me: {here: true, servers: true, generator: true}}\n";

fn places(bench: &Bench, file: &str) -> PathBuf {
    let path = bench.path().join("places.yaml");
    std::fs::write(&path, file).unwrap();
    path
}

fn study(system: &str, load: &str) -> String {
    format!(
        "title: A canary\nsystems: {{canary: {{kind: canary, {system}}}}}\n\
         workloads: {{work: {{mix: {{put: 1, get: 1}}, keys: {{count: 100}}, values: {{size: 64}}, fill: true}}}}\n\
         loads: {{load: {load}}}\naudit: {{kill: under-load}}\ntrials: 1\n"
    )
}

fn trial(system: &str, load: &str) -> Value {
    let bench = Bench::new(&study(system, load));
    let places = places(&bench, HERE);
    let ran = CommandOutput::run(bench.command().arg("--on").arg(places));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let record = bench.record();
    record.iter().for_each(|line| schema::allow("record", line));
    let described = array(&record[0]["environment"]["machines"]);
    assert_eq!((described.len(), text(&described[0]["name"])), (1, "me"));
    assert_eq!(record[0]["environment"]["shared_with_servers"], true);
    record[1].clone()
}

#[test]
fn local_agent_drives_and_audits_a_load() {
    let trial = trial("nodes: 2", "{clients: 4, stop: {operations: 2000}}");
    let operations = &trial["stages"][0]["measurement"]["operations"];
    let verified = |name: &str| operations[name]["verified"].as_u64().unwrap();
    assert_eq!(verified("put") + verified("get"), 2000, "{operations}");
    let audits = array(&trial["audits"]);
    assert_eq!(audits.len(), 2);
    for audit in audits {
        assert_eq!(audit["verdict"]["verdict"], "passed", "{audit}");
        assert_eq!(audit["acknowledged"], 100);
    }
    assert_eq!(audits[1]["under_load"]["clients"], 4, "{}", audits[1]);
    let machine = &trial["machines"][0];
    assert_eq!(array(&machine["servers"]).len(), 2, "{machine}");
    assert_eq!(machine["generated"][0]["verified"], 2000);
    let sampled = array(&trial["usage"]);
    let named = |name: &str| sampled.iter().any(|one| one["name"] == name);
    assert!(named("canary-1") && named("canary-2"), "{sampled:?}");
}

#[test]
fn agent_that_owns_a_key_finds_its_loss() {
    let trial = trial("options: {lose: 0.2}", "{clients: 4, stop: {operations: 1000}}");
    let audit = &trial["audits"][0];
    assert_eq!(audit["verdict"]["verdict"], "failed", "{audit}");
    let gone = ["lost", "wrong"].map(|how| audit[how].as_u64().unwrap());
    assert!(gone[0] + gone[1] > 5, "a fifth of 100 keys' writes are forgotten: {audit}");
}

#[test]
fn rejects_an_unusable_places_file_before_starting_anything() {
    let bench = Bench::new(&study("nodes: 1", "{clients: 1, stop: {operations: 10}}"));
    let refused = |file: &str, parts: &[&str]| {
        let places = places(&bench, file);
        let ran = CommandOutput::run(bench.command().arg("--on").arg(places)).complains(parts);
        assert!(ran.code != Some(0) && bench.runs().is_empty(), "{ran:?}");
    };
    refused("machines: {a: {here: true}}", &["no machine takes servers", "places.yaml:1:"]);
    let nowhere = HERE.replace("here: true,", "here: true, data: /no/such/folder,");
    let listed = "listed in: ";
    refused(
        &nowhere,
        &["on `me`", "`/no/such/folder` does not exist", listed, "places.yaml:1", "hint:"],
    );
    let foreign = HERE.replace("here: true,", "here: true, address: 192.0.2.1,");
    refused(&foreign, &["`192.0.2.1` is not an address of this machine", listed, "places.yaml:1"]);
    let agent = |agent: &str| format!("{HERE}agent: {agent}\n");
    refused(&agent("/bin/echo"), &["cannot start the agent on `me`", "`agent` in the places file"]);
    let cannot = "`agent` of the places file cannot be";
    refused(&agent("/no/such"), &[cannot, "`/no/such`: No such file", "leave `agent` out"]);
    refused(&agent("/etc/passwd"), &[cannot, "not an executable"]);
    let (other, ours) = match cfg!(target_arch = "x86_64") {
        true => ("arm64", "it is for Linux x86_64, not aarch64"),
        false => ("amd64", "it is for Linux aarch64, not x86_64"),
    };
    let swapped = agent(&format!("{{{other}: {}}}", env!("CARGO_BIN_EXE_bakeoff")));
    refused(&swapped, &[cannot, ours]);
}

/// Faults that only some machines can cause.
fn faulty(faults: &str) -> String {
    let study = study("nodes: 3", "{rate: 50/s, clients: 3, stop: {after: 5s}}");
    study + &format!("faults:\n  broken: {faults}\n")
}

#[test]
fn doctor_and_run_refuse_the_same_studies_before_anything_starts() {
    let cases = [
        (
            HERE,
            "{isolate: leader, at: 1s, for: 1s}",
            "fault `broken` cannot `isolate` nodes on other machines",
        ),
        (
            "kubernetes: {}",
            "{disk: leader, stall: true, at: 1s, for: 1s}",
            "pods may not mount file systems",
        ),
        (
            "kubernetes: {}",
            "{isolate: leader, at: 1s, for: 1s}",
            "fault `broken` cannot `isolate` nodes",
        ),
        (
            "machines: {me: {here: true, servers: [storage], generator: true}}\n",
            "{kill: leader, at: 1s, restart-after: 1s}",
            "no machine of the places file takes the servers of role `system`",
        ),
    ];
    for (file, faults, why) in cases {
        let bench = Bench::new(&faulty(faults));
        let places = places(&bench, file);
        CommandOutput::run(bench.command().arg("--on").arg(&places)).ends_with(2).complains(&[why]);
        assert!(bench.runs().is_empty());
        let doctor = |flags: &[&str]| {
            let mut doctor = bakeoff();
            doctor.arg("doctor").args(flags).arg("--on").arg(&places);
            CommandOutput::run(doctor.arg(bench.path().join("study.yaml"))).ends_with(3)
        };
        let ran = doctor(&[]);
        assert!(ran.stdout.contains(why) && !ran.stdout.contains("Nothing is missing"), "{ran:?}");
        let found: Value = serde_json::from_str(&doctor(&["--json"]).stdout).unwrap();
        assert!(text(&found["refused"][0]["reason"]).contains(why), "{found}");
        assert_eq!(found["complete"], false);
    }
}

#[test]
fn doctor_describes_a_machine_as_json() {
    let bench = Bench::new(&study("nodes: 1", "{clients: 1, stop: {operations: 10}}"));
    let places = places(&bench, HERE);
    let mut doctor = bakeoff();
    doctor.args(["doctor", "--json", "--on"]).arg(places).arg(bench.path().join("study.yaml"));
    let ran = CommandOutput::run(&mut doctor).ends_with(0);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let machine = &found["machines"][0];
    assert_eq!(
        (text(&machine["machine"]), &found["complete"]),
        ("me", &Value::Bool(true)),
        "{found}"
    );
    for row in ["address", "host", "clock", "disk", "limits", "ports"] {
        assert!(!text(&machine["has"][row]).is_empty(), "{machine}");
    }
}

/// Returns a program that starts the agent of a machine whose clock is set back by an hour, after some time.
fn agent_with_stepping_clock(bench: &Bench, after: u64) -> PathBuf {
    let path = bench.path().join("agent");
    let bakeoff = env!("CARGO_BIN_EXE_bakeoff");
    let script = format!("#!/bin/sh\nBAKEOFF_CLOCK_STEP={after}s,-1h exec {bakeoff} \"$@\"\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn stepped_clock_of_a_machine_invalidates_a_trial() {
    // The agent's clock counts from its start, and a busy machine takes seconds until its first trial.
    for after in [4, 12, 40] {
        let load = format!("{{clients: 2, warmup: 0s, stop: {{after: {after}s}}}}");
        let bench = Bench::new(&study("nodes: 1", &load));
        let agent = agent_with_stepping_clock(&bench, after);
        let places = places(&bench, &format!("{HERE}agent: {}\n", agent.display()));
        let ran = CommandOutput::run(bench.command().arg("--on").arg(places));
        let lines = bench.record();
        let trials: Vec<&Value> = lines.iter().filter(|line| line["line"] == "trial").collect();
        let clock = |trial: &Value| {
            let mut checks = array(&trial["checks"]).iter();
            checks.find(|check| check["name"] == "clock").expect("it was checked")["verdict"]
                .clone()
        };
        let Some(spoilt) =
            trials.iter().map(|trial| clock(trial)).find(|one| one["verdict"] == "failed")
        else {
            continue; // it was set before the first trial
        };
        let why = text(&spoilt["why"]);
        assert!(why.starts_with("on `me`: the machine's clock was set back by 3,60"), "{why}");
        let offsets = &trials[0]["machines"][0]["clock"];
        let step =
            offsets["wall_after"].as_f64().unwrap() - offsets["wall_before"].as_f64().unwrap();
        assert!((step + 3600.0).abs() < 1.0, "{offsets} {ran:?}");
        return;
    }
    panic!("the clock was never set during a trial");
}

#[test]
fn moved_data_and_other_machines_are_not_mixed_into_a_run() {
    let bench = Bench::new(
        &study("nodes: 1", "{clients: 2, warmup: 0s, stop: {after: 1s}}")
            .replace("trials: 1", "trials: 3"),
    );
    let disk = bench.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let on = |data: &Path| {
        places(
            &bench,
            &HERE.replace("here: true", &format!("here: true, data: {}", data.display())),
        )
    };
    let child = bench
        .command()
        .arg("--on")
        .arg(on(&disk))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let run = bench.has_trials(1);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();

    let memory = tempfile::Builder::new().prefix("bakeoff-").tempdir_in("/dev/shm").unwrap();
    let places = on(memory.path());
    let resume = |flags: &[&str]| {
        let mut command = bakeoff();
        command.args(["run", "--resume"]).arg(&run).args(flags).arg("--on").arg(&places);
        CommandOutput::run(&mut command)
    };
    let changed =
        format!("`data` of `me` was {} and is {}", disk.display(), memory.path().display());
    resume(&[]).ends_with(2).complains(&["cannot resume", &changed, "`--trust` mixes machines"]);
    let before = record(&run);
    let ran = resume(&["--trust"]);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let ran = ran.complains(&["this run mixes machines", &changed]);
    assert!(ran.stdout.contains("This run mixes machines: "), "{}", ran.stdout);

    let lines = record(&run);
    let resumed = &lines[before.len()];
    assert_eq!(resumed["line"], "resumed");
    assert_eq!(
        text(&resumed["environment"]["machines"][0]["data"]),
        memory.path().display().to_string()
    );
    lines.iter().for_each(|line| schema::allow("record", line));
    let verified = CommandOutput::run(bakeoff().arg("verify").arg(&run)).ends_with(6);
    let first = verified.stdout.lines().next().unwrap_or_default().to_owned();
    assert!(
        first.starts_with("fails") && first.contains("machines") && first.contains(&changed),
        "{verified:?}"
    );
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("This run mixes machines: "), "it is the heading");
}
