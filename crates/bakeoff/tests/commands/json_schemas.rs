//! Tests that printed and recorded JSON matches the schemas in `schema/`, and that no field is missing there.
//!
//! Not here: generating schemas (tests of `bakeoff-report`), the schema of studies (`bakeoff_core::study::schema`).

use serde_json::{Value, json};

use crate::support::canary::Canary;
use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, bakeoff, folders, record};

/// Handwritten schemas.
const SCHEMAS: [&str; 5] = ["run", "history", "compare", "load", "trend"];

/// Two systems, closed and open loads in stages, a request body, a search: as much as a short run can cover.
const STUDY: &str = "\
title: All that a short run shows
systems:
  three: {kind: canary, options: {sync: none}, nodes: 3}
  slow: {kind: canary, options: {delay: 1ms}}
workloads:
  work: {mix: {put: 1, get: 3}, keys: {count: 100}, fill: true, loads: [closed, open]}
  found: {mix: {get: 1}, keys: {count: 10}, fill: true, loads: [search], systems: [three]}
loads:
  closed: {clients: [2, 4], warmup: 100ms, stop: {after: 600ms}}
  open: {clients: 4, arrivals: poisson, rate: 200, warmup: 100ms, stop: {after: 600ms}}
  search:
    {clients: 8, arrivals: constant, rate: 100, warmup: 100ms, find: {objective: \"p50 < 1us\"}, stop: {after: 500ms}}
trials: 2
";

#[track_caller]
fn printed(ran: &CommandOutput) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn run_outputs_match_their_schemas() {
    let bench = Bench::new(STUDY);
    let ran = CommandOutput::run(bench.command().arg("--json"));
    schema::allow("run", &printed(&ran));
    let run = bench.runs().pop().expect("it left a run");
    record(&run).iter().for_each(|line| schema::allow("record", line));
    let report = std::fs::read_to_string(run.join("report.json")).unwrap();
    schema::allow("run", &serde_json::from_str(&report).unwrap());
    let history =
        CommandOutput::run(bakeoff().args(["history", "--json", "--out"]).arg(bench.out()));
    let history = printed(&history.ends_with(0));
    assert_eq!(array(&history).len(), 1);
    schema::allow("history", &history);
    let compare = ["--json", "--fail-if", "p99 > 5%", "--fail-if", "throughput < -5%"];
    let compared = CommandOutput::run(bakeoff().arg("compare").args([&run, &run]).args(compare));
    let compared = printed(&compared.ends_with(7));
    assert!(!array(&compared["comparisons"]).is_empty());
    schema::allow("compare", &compared);
}

#[test]
fn load_outputs_match_their_schema() {
    let canary = Canary::with_value("--delay 2ms");
    let (key, none) = (canary.url("/kv/key"), canary.url("/kv/none"));
    let out = canary.dir.path().join("runs");
    let steps = ["--steps", "50,100", "--for", "1s", "--fail-if", "p50 > 1s"];
    let search =
        ["--find-max", "--slo", "p50 < 1us", "--rate", "100", "--warmup", "0s", "--for", "500ms"];
    let loads: [&[&str]; 4] = [
        &[&key, "-n", "50", "-c", "2"],
        &[&[&*key, &none][..], &steps].concat(),
        &[&key, "--ramp", "50..100", "--for", "1s"],
        &[&[&*key][..], &search].concat(),
    ];
    for (number, load) in loads.iter().enumerate() {
        let mut command = bakeoff();
        command.args(["load", "--json"]).args(*load);
        if number == 1 {
            command.arg("--out").arg(&out);
        }
        schema::allow("load", &printed(&CommandOutput::run(&mut command)));
    }
    let run = folders(&out).pop().expect("it left a run");
    record(&run).iter().for_each(|line| schema::allow("record", line));
}

/// Returns the first line of a short run's record.
fn first_line() -> Value {
    let bench = Bench::new(
        "title: t\nsystems: {one: {kind: canary}}\nworkloads: {w: {mix: {get: 1}, keys: {count: 9}, fill: true}}\n\
         loads: {steady: {clients: 1, warmup: 0s, stop: {operations: 10}}}\n",
    );
    CommandOutput::run(&mut bench.command());
    record(&bench.runs()[0]).swap_remove(0)
}

#[test]
fn wrong_types_and_missing_fields_are_reported_with_their_path() {
    let mut header = first_line();
    header["systems"][0]["nodes"] = json!("three");
    header["systems"][0].as_object_mut().unwrap().remove("kind");
    assert_eq!(
        schema::faults("record", &header),
        [
            "/systems/0: \"kind\" is a required property",
            "/systems/0/nodes: \"three\" is not of type \"integer\"",
        ]
    );
}

/// Adds the names of fields without a description, also in their targets.
fn undescribed(schema: &Value, found: &mut Vec<String>) {
    let properties = || schema["properties"].as_object().into_iter().flatten();
    // The description of an alternative with one value is that of its value.
    let values = properties().filter(|(_, property)| property.get("const").is_none()).count();
    let is_described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
    for (name, property) in properties().filter(|_| !(is_described && values == 1)) {
        let leads_on =
            ["description", "$ref", "const"].iter().any(|word| property.get(word).is_some());
        if !leads_on || property["description"] == "" {
            found.push(name.clone());
        }
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|below| undescribed(below, found)),
        Value::Array(items) => items.iter().for_each(|below| undescribed(below, found)),
        _ => {}
    }
}

#[test]
fn every_schema_field_is_described() {
    for name in SCHEMAS {
        let mut found = Vec::new();
        undescribed(schema::json(name), &mut found);
        assert_eq!(found, [""; 0], "{name}");
    }
    for name in ["run", "load", "compare"] {
        let text = schema::json(name).to_string();
        assert!(text.contains("Percentiles rank failures above all successes"), "{name}");
    }
}
