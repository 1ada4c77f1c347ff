//! Tests that a flipped bit is recorded with its place, and that a damaged node which does not start is no lost write.
//!
//! Not here: the flip (`bakeoff-host`), verdicts (`bakeoff-trial`), real systems (`servers`).

use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, nothing_runs_in, text};

const WHEN: &str = "after a flipped bit of one node";

#[test]
fn damaged_canary_notices_the_flipped_bit() {
    let bench = Bench::new(
        "title: t\nsystems: {canary: {kind: canary}}\n\
         workloads: {work: {mix: {put: 1}, keys: {count: 100}, values: {size: 4000}}}\n\
         loads: {load: {clients: 4, warmup: 0s, stop: {operations: 500}}}\n\
         audit: {bit-flip: one}\ntrials: 1\n",
    );
    let ran = CommandOutput::run(&mut bench.command());
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    nothing_runs_in(bench.path());
    let record = bench.record();
    record.iter().for_each(|line| schema::allow("record", line));
    let audit = array(&record[1]["audits"]).last().unwrap().clone();
    assert_eq!(text(&audit["when"]), WHEN, "{audit}");
    // A single node has no other copy.
    assert_eq!(text(&audit["verdict"]["verdict"]), "not-checked", "{audit}");
    let flipped = &audit["flipped"];
    assert_eq!((text(&flipped["node"]), text(&flipped["file"])), ("canary-1", "data/canary.log"));
    assert!(flipped["offset"].as_u64() < flipped["size"].as_u64(), "{flipped}");
    let why = text(&audit["verdict"]["why"]);
    let place = format!("bit {} of byte ", flipped["bit"]);
    assert!(why.starts_with(&place) && why.contains(" of `data/canary.log` of canary-1 "), "{why}");
}
