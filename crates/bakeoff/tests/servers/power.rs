//! Tests power cuts of real systems: those that do not sync are found, and those that sync are not accused.
//!
//! Not here: the canary (`commands`), the file system (`bakeoff-disk`).

use libtest_mimic::Trial;

use crate::support::case::{Case, Part, case, part, with};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{Bench, array, folders, text};

const UNSYNCED: &str = "options: {sync: none}";
const POSTGRESQL: Part = Part { needs: &["apt-get", "dpkg-deb"], ..part("storage", "postgresql") };
/// Log line of Redis and Valkey about a log with a torn end. The torn part was never acknowledged.
const TORN_LOG: &str = "Bad file format reading the append only file";
const REDIS: Case = Case { needs: &["apt-get", "dpkg-deb"], ..case("redis", "", 1) };
const BAO: Case = case("openbao", "2.7", 1);

const SYNCED: [Case; 5] = [
    Case { needs: &["go"], ..case("etcd", "3.6", 3) },
    Case { needs: &["go"], more: "options: {raft-multiplier: 1}", ..case("consul", "1.20.1", 3) },
    case("zookeeper", "3.9", 3),
    Case { more: "options: {raft-multiplier: 1}", ..BAO },
    Case { parts: &[POSTGRESQL], what: "on PostgreSQL", ..BAO },
];

const TORN: Case = Case { more: "options: {appendfsync: always}", ..REDIS };

const FORGETFUL: [Case; 6] = [
    Case { needs: &["go"], more: UNSYNCED, ..case("etcd", "3.6", 3) },
    Case { more: UNSYNCED, ..case("zookeeper", "3.9", 3) },
    case("nats", "2.12.4", 3),
    Case { parts: &[Part { more: UNSYNCED, ..POSTGRESQL }], what: "on PostgreSQL", ..BAO },
    Case { more: "options: {appendfsync: everysec}", what: "with everysec", ..REDIS },
    Case { more: "options: {appendfsync: 'no'}", what: "with no", ..REDIS },
];

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    let synced = SYNCED.map(|case| {
        with("power_cuts_accuse_no_system_that_syncs", case, skipped, |case| {
            let found = cut(case, 4)?;
            assert_eq!(found.verdict, "passed", "{}", found.why);
            Ok(())
        })
    });
    let torn = with("power_cuts_take_no_acknowledged_write_of_redis", TORN, skipped, |case| {
        let found = cut(case, 4)?;
        let is_torn = found.why.contains("no start after it") && found.log.contains(TORN_LOG);
        assert!(found.verdict == "passed" || is_torn, "{}\n{}", found.why, found.log);
        Ok(())
    });
    let forgetful = FORGETFUL.map(|case| {
        with("power_cuts_find_a_system_that_does_not_sync", case, skipped, |case| {
            let CutOutcome { verdict, why, .. } = cut(case, 4)?;
            assert_eq!(verdict, "not-checked", "{why}");
            assert!(why.starts_with("cut ") && why.contains("which breaks no guarantee"), "{why}");
            Ok(())
        })
    });
    synced.into_iter().chain(forgetful).chain([torn]).collect()
}

/// Holds the outcome of power cuts of all nodes.
struct CutOutcome {
    verdict: String,
    why: String,
    /// Log of the first node.
    log: String,
}

fn cut(case: &Case, cuts: u32) -> Result<CutOutcome, SkipReason> {
    let with = if case.kind == "openbao" { ", with: {kv: v1}" } else { "" };
    let bench = Bench::new(&format!(
        "title: Power cuts\nsystems:\n  {}\nworkloads:\n  write: {{mix: {{put: 1}}, keys: {{count: 500}}, \
         values: {{size: 64}}{with}}}\nloads:\n  few: {{clients: 8, warmup: 0s, stop: {{operations: 100}}}}\n\
         audit: {{power-cut: all, cuts: {cuts}}}\ntrials: 1\n",
        case.in_study(),
    ));
    let run = bench.run();
    crate::support::nothing_runs_in(run.bench.path());
    let record = run.record();
    let audit = array(&record[1]["audits"]).last().unwrap();
    assert_eq!(audit["when"], "after a power cut of all nodes", "{audit}");
    let why = audit["verdict"]["why"].as_str().unwrap_or_default().to_owned();
    match why.starts_with("this machine cannot mount") {
        true => Err(SkipReason::Machine(why)),
        false => {
            let trial = &folders(&run.bench.runs()[0].join("trials"))[0];
            let log = trial.join("logs").join(format!("{}-1.log", case.kind));
            let log = std::fs::read_to_string(log).unwrap_or_default();
            Ok(CutOutcome { verdict: text(&audit["verdict"]["verdict"]).to_owned(), why, log })
        }
    }
}
