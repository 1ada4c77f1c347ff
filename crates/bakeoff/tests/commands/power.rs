//! Tests that power cuts find a canary that does not sync, spare one that does, and leave nothing behind.
//!
//! Not here: the file system (`bakeoff-disk`, `bakeoff-host`), real systems (`servers`).

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, nothing_runs_in, skipped, text, wait_for};

const ALL: &str = "after a power cut of all nodes";

fn bench(options: &str, audit: &str) -> Bench {
    Bench::new(&format!(
        "title: A canary\n\
         systems: {{canary: {{kind: canary, {options}}}}}\n\
         workloads: {{work: {{mix: {{put: 1}}, keys: {{count: 100}}, values: {{size: 64}}}}}}\n\
         loads: {{load: {{clients: 4, warmup: 0s, stop: {{operations: 500}}}}}}\n\
         audit: {{{audit}}}\ntrials: 1\n"
    ))
}

/// Runs a study and returns the audit of its power cuts, and its reports; `None` if this machine cannot cut power.
fn cut(options: &str, audit: &str) -> Option<(Value, String)> {
    let bench = bench(options, audit);
    let ran = CommandOutput::run(&mut bench.command());
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    nothing_runs_in(bench.path());
    let record = bench.record();
    record.iter().for_each(|line| schema::allow("record", line));
    let audits = array(&record[1]["audits"]);
    assert_eq!(audits.len(), 3, "{audits:?}");
    let why = audits[2]["verdict"]["why"].as_str().unwrap_or_default();
    if why.starts_with("this machine cannot mount") {
        skipped(why);
        return None;
    }
    let mut report = crate::support::bakeoff();
    let shown = CommandOutput::run(report.args(["report", "--all"]).arg(&bench.runs()[0])).stdout;
    Some((audits[2].clone(), shown))
}

#[test]
fn canary_that_syncs_survives_power_cuts() {
    let Some((audit, shown)) = cut("nodes: 1", "power-cut: all, cuts: 4") else { return };
    assert_eq!(
        (text(&audit["when"]), text(&audit["verdict"]["verdict"])),
        (ALL, "passed"),
        "{audit}"
    );
    let made = &audit["power_cuts"];
    assert_eq!(made["cuts"], 4);
    assert!(made.get("found_in").is_none(), "{made}");
    // Four clients share a sync at best.
    let count = |name: &str| made[name].as_u64().unwrap();
    assert!(count("syncs") * 4 >= count("acknowledged") && count("acknowledged") > 0, "{made}");
    assert!(shown.contains("4 cuts under load ("), "{shown}");
}

#[test]
fn canary_that_claims_to_sync_fails_at_the_first_power_cut() {
    for (of, when) in [("all", ALL), ("one", "after a power cut of one node")] {
        let audit = format!("power-cut: {of}");
        let Some((audit, shown)) = cut("options: {sync: claimed}", &audit) else { return };
        assert_eq!((text(&audit["when"]), text(&audit["verdict"]["verdict"])), (when, "failed"));
        let why = text(&audit["verdict"]["why"]);
        assert!(why.starts_with("cut 1 of 3, which dropped "), "{why}");
        assert!(
            why.contains("the system claims to acknowledge a write after it is synced"),
            "{why}"
        );
        assert_eq!(audit["power_cuts"]["found_in"], 1);
        assert!(audit["power_cuts"]["dropped_bytes"].as_u64() > Some(0));
        assert!(shown.contains("FAILED after a power cut"), "{shown}");
    }
}

#[test]
fn loss_that_breaks_no_guarantee_is_reported_with_its_number() {
    let Some((audit, shown)) = cut("options: {sync: none}", "power-cut: all") else { return };
    assert_eq!(audit["verdict"]["verdict"], "not-checked");
    let why = text(&audit["verdict"]["why"]);
    let lost = "100 of 100 acknowledged keys are lost or older, which breaks no guarantee: the system acknowledges a \
                write once it is in the page cache";
    assert!(why.ends_with(lost), "{why}");
    assert!(shown.contains("100 of 100 acknowledged keys are lost"), "{shown}");
}

#[test]
fn kill_9_amid_power_cuts_leaves_no_process_and_no_data() {
    for moment in [0, 50, 300, 900, 1500, 2200, 2700, 3300] {
        let bench = bench("nodes: 2", "power-cut: all, cuts: 1000");
        let mut run = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let disks = || {
            let all = crate::support::processes_of(bench.path());
            all.into_iter().filter(|process| process.contains(" __disk ")).count()
        };
        let mut ended = false;
        wait_for("file systems, or the end", Duration::from_secs(60), || {
            ended = run.try_wait().unwrap().is_some();
            disks() == 2 || ended
        });
        if ended {
            return skipped("this machine cannot cut power, as the tests above say");
        }
        std::thread::sleep(Duration::from_millis(moment));
        run.kill().unwrap();
        run.wait().unwrap();
        nothing_runs_in(bench.path());
        let data = bench.runs()[0].join("trials/01-canary-work-load/nodes");
        let is_gone = || std::fs::read_dir(&data).map_or(true, |mut nodes| nodes.next().is_none());
        wait_for("the end of the data", Duration::from_secs(10), is_gone);
    }
}

#[test]
fn disks_of_other_machines_are_not_cut_or_damaged() {
    let bench = Bench::new(
        "title: t\nsystems: {canary: {kind: canary}}\n\
         workloads: {work: {mix: {put: 1}, keys: {count: 100}}}\n\
         loads: {load: {clients: 4, warmup: 0s, stop: {operations: 100}}}\n\
         audit: {power-cut: all, bit-flip: one}\ntrials: 1\n",
    );
    let places = bench.path().join("places.yaml");
    std::fs::write(&places, "machines: {me: {here: true, servers: true, generator: true}}\n")
        .unwrap();
    let ran = CommandOutput::run(bench.command().arg("--on").arg(places));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let record = bench.record();
    let audits = array(&record[1]["audits"]);
    let whys: Vec<&str> = audits.iter().filter_map(|one| one["verdict"]["why"].as_str()).collect();
    for why in ["power cuts", "bit flips"] {
        let why = format!("{why} work without a places file only");
        assert!(whys.contains(&&*why), "{audits:#?}");
    }
}
