//! Tests places files whose only machine is this one: the code path of SSH, with a child process as the connection.
//!
//! Not here: several machines (`servers`), the agent alone (`agent`).

use std::path::PathBuf;

use serde_json::Value;

use crate::support::schema::Schemas;
use crate::support::{Bench, Ran, array, text};

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
    let ran = Ran::run(bench.command().arg("--on").arg(places));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let record = bench.record();
    let schemas = Schemas::read();
    record.iter().for_each(|line| schemas.allow("record", line));
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
        let ran = Ran::run(bench.command().arg("--on").arg(places)).complains(parts);
        assert!(ran.code != Some(0) && bench.runs().is_empty(), "{ran:?}");
    };
    refused("machines: {a: {here: true}}", &["no machine takes servers", "places.yaml:1:"]);
    let nowhere = HERE.replace("here: true,", "here: true, data: /no/such/folder,");
    refused(&nowhere, &["on `me`", "`/no/such/folder` does not exist", "hint:"]);
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
