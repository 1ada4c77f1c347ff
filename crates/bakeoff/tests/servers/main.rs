//! Tests real systems: the contract of each kind, and particular tests of some.
//!
//! One test program, because each one links all of bakeoff; it counts the skipped tests of all. Not here: bakeoff with
//! its canary (`commands`).

#![allow(clippy::disallowed_methods, reason = "tests wait by the clock for what they look at")]

mod access_gateway;
mod cache;
mod contract;
mod dbtester;
mod durability;
mod etcd_benchmark;
mod exports;
mod faults;
mod ingress;
mod kubernetes;
mod locks;
mod machine;
mod machines;
mod machines_commands;
mod machines_scale;
mod own_clusters;
mod own_credentials;
mod porcupine;
mod power;
mod secret_stores;
#[path = "../support/mod.rs"]
mod support;
mod vault_benchmark;
mod watches;
mod wrk_vault;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use support::skip::SkippedTests;

/// Clusters tested at once: they spend much time waiting for an election, a lock or a vote.
const AT_ONCE: usize = 6;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let skipped = SkippedTests::default();
    let shared = wrk_vault::SharedVault::default();
    // Tests with the longest waits start first.
    let tests = [
        vec![kubernetes::study(&skipped)],
        cache::tests(&skipped),
        contract::tests(&skipped),
        access_gateway::tests(&skipped),
        dbtester::tests(&skipped),
        durability::tests(&skipped),
        etcd_benchmark::tests(&skipped),
        exports::tests(&skipped),
        faults::tests(&skipped),
        ingress::tests(&skipped),
        kubernetes::tests(&skipped),
        machine::tests(&skipped),
        machines::tests(&skipped),
        machines_scale::tests(&skipped),
        machines_commands::tests(&skipped),
        own_clusters::tests(&skipped),
        own_credentials::tests(&skipped),
        porcupine::tests(&skipped),
        power::tests(&skipped),
        secret_stores::tests(&skipped),
        vault_benchmark::tests(&skipped),
        watches::tests(&skipped),
        locks::tests(&skipped),
        wrk_vault::tests(&shared, &skipped),
    ];
    let ended = skipped.conclude(&arguments, tests.into_iter().flatten().collect());
    vault_benchmark::stop_shared();
    wrk_vault::stop_shared(&shared);
    ended
}
