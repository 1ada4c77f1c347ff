//! Tests that two generators together run the same operations as one.

use std::collections::BTreeMap;
use std::fs;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{run, text, trials};
use crate::support::hosts::Hosts;
use crate::support::skip::{SkipReason, SkippedTests};

pub(super) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![skipped.unless_lacking("machines::two_generators_do_what_one_does", same_operations)]
}

/// Draws few of many keys, so that different draws would give a different number of keys.
const STUDY: &str = "\
title: The same by one and by two
systems:
  canary: {kind: canary, options: {sync: none}}
workloads:
  work: {mix: {put: 2, get: 1}, keys: {count: 100000, order: uniform}, values: {size: 64}, fill: false}
loads:
  load: {clients: 4, stop: {operations: 6001}}
trials: 1
";

/// Returns the operations of the only trial by kind, and the acknowledged keys.
fn done(hosts: &Hosts, generators: &[usize]) -> (BTreeMap<String, u64>, u64) {
    fs::remove_dir_all(hosts.dir().join("runs")).ok();
    let places = hosts.places(&[1], generators);
    let ended = run(hosts, STUDY, &places, &["--seed", "17"]);
    let trials = trials(hosts);
    assert_eq!(trials[0]["outcome"]["ended"], "completed", "{}", text(&ended));
    let operations = trials[0]["stages"][0]["measurement"]["operations"].as_object().unwrap();
    let verified = |(name, of): (&String, &Value)| (name.clone(), of["verified"].as_u64().unwrap());
    let acknowledged = trials[0]["audits"][0]["acknowledged"].as_u64().unwrap();
    (operations.iter().map(verified).collect(), acknowledged)
}

fn same_operations() -> Result<(), SkipReason> {
    let hosts = Hosts::new(3)?;
    let one = done(&hosts, &[2]);
    let two = done(&hosts, &[2, 3]);
    assert_eq!(one.0.values().sum::<u64>(), 6001, "{one:?}");
    assert!(one.1 > 3000 && one.1 <= one.0["put"], "{one:?}");
    assert_eq!(one, two);
    Ok(())
}
