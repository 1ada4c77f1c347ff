//! Tests that printed and recorded JSON matches the schemas in `schema/`, and that no field is missing there.
//!
//! Not here: the generated schema of studies (`bakeoff_core::study::schema`).

use bakeoff_core::check::CheckName;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::record::SystemRecord;
use bakeoff_core::study::{Operation, Workload};
use serde_json::{Value, json};

use crate::support::canary::Canary;
use crate::support::schema::Schemas;
use crate::support::{Bench, CommandOutput, array, bakeoff, folders, record};

/// Handwritten schemas.
const SCHEMAS: [&str; 6] = ["record", "run", "history", "compare", "load", "trend"];

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
    let schemas = Schemas::read();
    let bench = Bench::new(STUDY);
    let ran = CommandOutput::run(bench.command().arg("--json"));
    schemas.allow("run", &printed(&ran));
    let run = bench.runs().pop().expect("it left a run");
    record(&run).iter().for_each(|line| schemas.allow("record", line));
    let report = std::fs::read_to_string(run.join("report.json")).unwrap();
    schemas.allow("run", &serde_json::from_str(&report).unwrap());
    let history =
        CommandOutput::run(bakeoff().args(["history", "--json", "--out"]).arg(bench.out()));
    let history = printed(&history.ends_with(0));
    assert_eq!(array(&history).len(), 1);
    schemas.allow("history", &history);
    let compare = ["--json", "--fail-if", "p99 > 5%", "--fail-if", "throughput < -5%"];
    let compared = CommandOutput::run(bakeoff().arg("compare").args([&run, &run]).args(compare));
    let compared = printed(&compared.ends_with(7));
    assert!(!array(&compared["comparisons"]).is_empty());
    schemas.allow("compare", &compared);
}

#[test]
fn load_outputs_match_their_schema() {
    let schemas = Schemas::read();
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
        schemas.allow("load", &printed(&CommandOutput::run(&mut command)));
    }
    let run = folders(&out).pop().expect("it left a run");
    record(&run).iter().for_each(|line| schemas.allow("record", line));
}

/// Returns a system with every field of a record.
fn system() -> Value {
    let part = json!({
        "role": "storage", "name": "vault-storage", "kind": "postgresql", "already_running": false,
        "nodes": 1, "guarantees": {"replication": "", "acknowledged": "", "reads": ""}, "settings": []
    });
    json!({
        "name": "vault", "kind": "vault", "version": "2.0", "source": "here", "sha256": "0",
        "date": "2024-10-29", "already_running": false, "tls_version": "TLS 1.3",
        "authentication": "a token with each request", "between": "plain HTTP",
        "encryption_between": "plain", "nodes": 1,
        "guarantees": {
            "replication": "none", "acknowledged": "at once", "reads": "anything",
            "acknowledged_in": "disk", "freshness": {"default": "node-asked"}
        },
        "settings": [{"name": "a", "value": "b", "reason": "c"}],
        "parts": [part]
    })
}

#[test]
fn rare_fields_are_documented() {
    let schemas = Schemas::read();
    let line: SystemRecord = serde_json::from_value(system()).unwrap();
    assert_eq!(serde_json::to_value(line).unwrap(), system(), "these are a record's fields");
    let mut header = first_line();
    header["systems"] = json!([system()]);
    let workload = json!({
        "name": "signing", "mix": {"sign": 1, "request": 2},
        "keys": {"count": 1, "size": 16, "order": {"zipfian": {"exponent": 0.99}}, "per_directory": 0},
        "value_size": 1024, "with": {"key-type": "ed25519"}, "reads": "default",
        "request": {
            "method": "POST", "path": "/{key}", "headers": {"a": "$B"}, "http2": true,
            "rows": {"file": "rows.csv", "sha256": "0"}, "body": "text", "status": 201,
            "body_size": 5, "contains": "x"
        },
        "fill": false, "loads": ["steady"], "systems": ["vault"]
    });
    let read: Workload = serde_json::from_value(workload.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), workload, "these are a record's fields");
    header["study"]["workloads"] = json!([workload]);
    schemas.allow("record", &header);
}

#[test]
fn schema_lists_all_checks_errors_and_operations() {
    let schemas = Schemas::read();
    let names = |names: Vec<Value>| {
        let mut names: Vec<String> =
            names.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    let known = |pointer: &str| {
        let known = schemas.json("record").pointer(pointer).unwrap();
        let fields =
            known.as_object().map(|fields| fields.keys().cloned().map(Value::from).collect());
        names(fields.unwrap_or_else(|| array(known).to_vec()))
    };
    let checks = CheckName::ALL.iter().map(|name| serde_json::to_value(name).unwrap());
    assert_eq!(known("/$defs/check/properties/name/enum"), names(checks.collect()));
    let errors = ErrorKind::ALL.iter().map(|kind| serde_json::to_value(kind).unwrap());
    let fields = "/$defs/operation/properties/errors/properties";
    assert_eq!(known(fields), names(errors.collect()));
    let operations = Operation::NAMES.iter().map(|&name| name.into()).collect();
    assert_eq!(known("/$defs/workload/properties/mix/properties"), names(operations));
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
fn unknown_fields_and_wrong_types_are_reported_with_their_path() {
    let schemas = Schemas::read();
    let mut header = first_line();
    header["environment"]["colour"] = json!("green");
    header["systems"][0]["nodes"] = json!("three");
    header["systems"][0].as_object_mut().unwrap().remove("kind");
    assert_eq!(
        schemas.faults("record", &header),
        [
            "/environment/colour: is not documented",
            "/systems/0/nodes: \"three\" is no \"integer\"",
            "/systems/0: lacks \"kind\"",
        ]
    );
}

/// Adds the names of fields without a description, also in their targets.
fn undescribed(schema: &Value, found: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
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
    let schemas = Schemas::read();
    for name in SCHEMAS {
        let mut found = Vec::new();
        undescribed(schemas.json(name), &mut found);
        assert_eq!(found, [""; 0], "{name}");
    }
    for name in ["run", "load", "compare"] {
        let text = schemas.json(name).to_string();
        assert!(text.contains("Percentiles rank failures above all successes"), "{name}");
    }
}
