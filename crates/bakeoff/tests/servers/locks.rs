//! Tests that a system is accused if it grants a lock after the lease has ended, and its repaired version is not.
//!
//! etcd 3.4 grants a lock to a client whose lease ended while it waited
//! ([etcd #11456](https://github.com/etcd-io/etcd/issues/11456)). From 3.5 on it answers that the session has expired.
//! So clients renew no lease here.
//!
//! Not here: faults of the canary's locks (`faults`), locks of every system (`contract`).

use libtest_mimic::Trial;

use super::contract;
use crate::support::case::{Case, case, with};
use crate::support::nothing_runs_in;
use crate::support::skip::SkippedTests;
use crate::support::text;
use crate::support::watched::check;

const OLD: Case = Case { needs: &["apt-get", "dpkg-deb"], ..case("etcd", "3.4", 1) };
const NEW: Case = Case { needs: &["go"], ..case("etcd", "3.6", 1) };

const WORKLOAD: &str =
    "locks: {mix: {lock: 1}, keys: {count: 1}, with: {lease-ttl: 2, renewals: 'off'}}";
const LOAD: &str = "rivals: {clients: 60, warmup: 1s, stop: {after: 8s}}";

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        with("etcd_grants_locks_to_clients_whose_lease_has_ended", OLD, skipped, |case: &Case| {
            let run = contract::run(&case.in_study(), &[WORKLOAD], &[LOAD]);
            let why = run.invalid_because();
            let nobody = "the lock was granted although the client's key in it did not exist";
            assert!(why.contains(nobody), "{why}\n{}", run.ran.stderr);
            nothing_runs_in(run.bench.path());
        }),
        with("etcd_grants_locks_to_living_clients_alone", NEW, skipped, |case: &Case| {
            let run = contract::run(&case.in_study(), &[WORKLOAD], &[LOAD]);
            let trial = run.trial();
            let verdict = check(trial, "answers");
            assert_eq!(text(&verdict["verdict"]), "passed", "{verdict}");
            let expired = trial["figures"]["errors_lease_expired"].as_f64();
            assert!(expired > Some(0.0), "leases end while clients wait: {trial}");
        }),
    ]
}
