//! Real systems: each kind keeps its contract, and what is particular to some of them.
//!
//! One program, since each links all of bakeoff; it counts what was skipped for all of them together.
//! Not here: bakeoff on its own canary (`commands`).

#![allow(clippy::disallowed_methods, reason = "tests wait by the clock for what they look at")]
#![allow(clippy::disallowed_macros, reason = "a test program of its own reports what it skipped")]

mod access_gateway;
mod contract;
mod ingress;
mod secret_stores;
#[path = "../support/mod.rs"]
mod support;
mod vault_benchmark;
mod wrk_vault;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use support::case::{Skipped, conclude};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let skipped = Skipped::default();
    let shared = wrk_vault::Shared::default();
    let tests = [
        contract::tests(&skipped),
        access_gateway::tests(&skipped),
        ingress::tests(&skipped),
        secret_stores::tests(&skipped),
        vault_benchmark::tests(&skipped),
        wrk_vault::tests(&shared, &skipped),
    ];
    let ended = conclude(arguments, tests.into_iter().flatten().collect(), &skipped);
    vault_benchmark::stop_shared();
    wrk_vault::stop_shared(&shared);
    ended
}
