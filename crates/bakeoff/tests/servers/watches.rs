//! Tests that a real system which breaks a guarantee of its watches is accused, and its repaired version is not.
//!
//! etcd before 3.4.25 and 3.5.8 sends reports of progress on another queue than events, so that they overtake them
//! ([etcd #15220](https://github.com/etcd-io/etcd/issues/15220)). Debian's etcd is 3.4.23.
//!
//! Not here: faults of the canary's watches (`commands::watches`), watchers of every system (`contract`).

use libtest_mimic::Trial;

use super::contract;
use crate::support::case::{Case, case, with};
use crate::support::skip::SkippedTests;
use crate::support::watched::{check, trial};
use crate::support::{Bench, array, nothing_runs_in, text};

const OLD: Case = Case { needs: &["apt-get", "dpkg-deb"], ..case("etcd", "3.4", 1) };
const NEW: Case = Case { needs: &["go"], ..case("etcd", "3.6", 1) };

const STREAMS: Case = Case {
    needs: &["apt-get", "dpkg-deb"],
    more: "options: {appendfsync: always, values: stream}",
    reads: "default",
    what: "with streams",
    ..case("redis", "7.0", 1)
};

const THREE: Case = Case { nodes: 3, ..NEW };

const WORKLOAD: &str = "prefix: {mix: {put: 1}, keys: {count: 16}, values: {size: 256}, \
                        watchers: {count: 100, of: prefix, connections: 10, progress: 100ms}}";
const LOAD: &str = "steady: {rate: 400/s, clients: 16, warmup: 1s, stop: {after: 10s}}";

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        with("etcd_reports_progress_before_its_events", OLD, skipped, |case: &Case| {
            let run = contract::run(&case.in_study(), &[WORKLOAD], &[LOAD]);
            let why = run.invalid_because();
            assert!(why.contains("not bookmarkable"), "{why}\n{}", run.ran.stderr);
            let heading = &run.ran.stdout;
            assert!(heading.contains("broke a guarantee of its watches"), "{heading}");
            nothing_runs_in(run.bench.path());
        }),
        with("etcd_keeps_the_guarantees_of_its_watches", NEW, skipped, |case: &Case| {
            let run = contract::run(&case.in_study(), &[WORKLOAD], &[LOAD]);
            let trial = trial(&run.bench);
            let verdict = check(&trial, "watches");
            assert_eq!(text(&verdict["verdict"]), "passed", "{verdict}");
        }),
        with("old_events_of_etcd_are_received", NEW, skipped, receives_old_events),
        with("old_entries_of_a_stream_are_received", STREAMS, skipped, receives_old_events),
        with(
            "watchers_are_disturbed_next_to_networks_that_are_cut",
            THREE,
            skipped,
            are_disturbed_in_networks,
        ),
    ]
}

/// Watchers of one key each first receive the versions from before the load, also after their connections broke.
fn receives_old_events(case: &Case) {
    let reads =
        if case.reads.is_empty() { String::new() } else { format!(", reads: {}", case.reads) };
    let workload = format!(
        "old: {{mix: {{put: 4, get: 1}}, keys: {{count: 8}}{reads}, watchers: {{count: 24, connections: 6, from: oldest, \
         churn: 200ms}}}}"
    );
    let load = "steady: {rate: 100/s, clients: 4, warmup: 1s, stop: {after: 4s}}";
    let run = contract::run(&case.in_study(), &[&workload], &[load]);
    let trial = trial(&run.bench);
    let verdict = check(&trial, "watches");
    assert_eq!(text(&verdict["verdict"]), "passed", "{verdict}");
    let watch = &trial["stages"][0]["measurement"]["watch"];
    assert_eq!(watch["catch_up"]["watchers"], 24, "{watch}");
    let counts = &watch["counts"];
    assert_eq!(counts["delivered"], counts["expected"], "{counts}");
    assert!(watch["catch_up"]["events"].as_u64() > Some(24 * 40), "{watch}");
    assert!(counts["resumes"].as_u64() > Some(0), "{counts}");
    nothing_runs_in(run.bench.path());
}

/// Cut networks put the watchers into an agent's process, where the kernel allows that.
fn are_disturbed_in_networks(case: &Case) {
    let study = format!(
        "title: Watchers and networks\nsystems:\n  {}\nworkloads:\n  all: {{mix: {{put: 1}}, keys: {{count: 8}}, \
         watchers: {{count: 12, of: prefix, connections: 6}}}}\nloads:\n  steady: {{rate: 100/s, clients: 8, \
         warmup: 500ms, stop: {{after: 6s}}}}\nfaults:\n  cut: {{isolate: follower-1, at: 1s, for: 2s}}\n  \
         dropped: {{drop: watchers, share: 50%, at: 1s}}\n  silent: {{silence: watchers, share: 50%, at: 1s, for: \
         1s}}\ntrials: 1\n",
        case.in_study()
    );
    let run = contract::to_its_end(Bench::new(&study));
    let trial = trial(&run.bench);
    let verdict = check(&trial, "watches");
    assert_eq!(text(&verdict["verdict"]), "passed", "{verdict}");
    let injections = array(&trial["injections"]);
    assert_eq!(injections.len(), 3, "{trial}");
    let dropped = injections.iter().find(|one| one["fault"] == "dropped").unwrap();
    let counts = &dropped["stage"]["measurement"]["watch"]["counts"];
    assert!(counts["resumes"].as_u64() > Some(0), "{dropped}");
}
