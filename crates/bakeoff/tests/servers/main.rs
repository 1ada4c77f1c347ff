//! Real systems: each kind keeps its contract, and what is particular to some of them.
//!
//! One program, since each links all of bakeoff; it counts what was skipped for all of them together.
//! Not here: bakeoff on its own canary (`commands`).

#![allow(clippy::disallowed_methods, reason = "tests wait by the clock for what they look at")]

mod access_gateway;
mod cache;
mod contract;
mod dbtester;
mod durability;
mod ingress;
mod kubernetes;
mod machine;
mod machines;
mod machines_commands;
mod machines_scale;
mod own_clusters;
mod own_credentials;
mod secret_stores;
#[path = "../support/mod.rs"]
mod support;
mod vault_benchmark;
mod wrk_vault;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use support::skip::Skipped;

/// How many clusters are tested at once: much of their time they wait for an election, a lock or a
/// vote.
const AT_ONCE: usize = 6;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let skipped = Skipped::default();
    let shared = wrk_vault::Shared::default();
    // What waits longest begins first.
    let tests = [
        vec![kubernetes::study(&skipped)],
        cache::tests(&skipped),
        contract::tests(&skipped),
        access_gateway::tests(&skipped),
        dbtester::tests(&skipped),
        durability::tests(&skipped),
        ingress::tests(&skipped),
        kubernetes::tests(&skipped),
        machine::tests(&skipped),
        machines::tests(&skipped),
        machines_scale::tests(&skipped),
        machines_commands::tests(&skipped),
        own_clusters::tests(&skipped),
        own_credentials::tests(&skipped),
        secret_stores::tests(&skipped),
        vault_benchmark::tests(&skipped),
        wrk_vault::tests(&shared, &skipped),
    ];
    let ended = skipped.conclude(&arguments, tests.into_iter().flatten().collect());
    vault_benchmark::stop_shared();
    wrk_vault::stop_shared(&shared);
    ended
}
