//! Tests that syncs of the running servers are compared with a claim of disks.
//!
//! Not here: real systems with a switch that turns syncs off (`servers`), judging counts (`bakeoff_core`).

use crate::support::{Bench, CommandOutput, Run, array, bakeoff, text};

/// Three canaries: one syncs, one claims to but does not, one claims nothing.
const STUDY: &str = "title: Three canaries\n\
    systems:\n  synced: {kind: canary, options: {sync: each}}\n  \
    claimed: {kind: canary, options: {sync: claimed}}\n  \
    unsynced: {kind: canary, options: {sync: none}}\n\
    workloads: {write: {mix: {put: 1}, keys: {count: 500, size: 64}, values: {size: 256}}}\n\
    loads: {few: {clients: 4, stop: {operations: 400}}}\n\
    trials: 1\n";

/// Returns the cells of a row of the fairness sheet.
fn cells<'a>(run: &'a Run, what: &str) -> Vec<&'a str> {
    let rows = array(&run.report["fairness"]["rows"]);
    let row = rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{rows:#?}"));
    array(&row["cells"]).iter().map(text).collect()
}

#[test]
fn canary_that_syncs_less_than_it_claims_loses_its_claim() {
    let run = Bench::new(STUDY).run();
    crate::support::nothing_runs_in(run.bench.path());
    let syncs = cells(&run, "syncs observed");
    assert_eq!(syncs[0], "for each write");
    assert_eq!(syncs[1], "0 syncs for 50 acknowledged writes");
    assert_eq!(syncs[2], "not counted: no disk durability claimed");
    let places = [
        "on one node's disk",
        "observed in the page cache of one node, claimed on one node's disk",
        "in the page cache of one node",
    ];
    assert_eq!(cells(&run, "a write is acknowledged"), places);
    let finding = "claimed claims one node's disk for acknowledged writes, but 0 syncs for 50 \
                   acknowledged writes";
    assert_eq!(array(&run.report["findings"])[0], finding);
    let shown =
        CommandOutput::run(bakeoff().args(["report", "--all"]).arg(&run.bench.runs()[0])).stdout;
    let place = |part: &str| shown.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{shown}"));
    assert!(place("claimed claims one node's disk") < place("total seconds"), "{shown}");
    // The trial stays valid: its figures describe such a system.
    assert!(array(&run.report["findings"]).iter().all(|one| !text(one).contains("not valid")));
}
