//! Checks what an operation costs the generator: system calls, heap allocations, copies of values.
//!
//! No clock is involved, so the numbers do not depend on the machine or its other work. Each test starts this program
//! again as the generator and traces it (`tracer`). The server is in the tracer (`servers`). It answers only at the
//! moment at which the generator is about to wait. So each wait returns the answers for all clients.
//!
//! The counts of a longer load minus those of a shorter one are the cost of a steady window. The start, connections
//! and the end of a load cancel out.
//!
//! Not here: CPU time per operation (docs/performance.md).

#![allow(clippy::disallowed_macros, reason = "a test program of its own reports what it measured")]

mod generator;
mod memory;
mod servers;
mod tracer;

use std::alloc::System;
use std::io::Write as _;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use generator::{FEW, MANY};
use servers::{Protocol, Server};
use tracer::TraceError;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Maximum system calls per operation: one to send, one to receive, and a share of the wait that serves all clients.
const CALLS_MAX: f64 = 2.2;
/// Maximum heap allocations per operation. None is allowed for an operation, but a load has some 80 each second. On a
/// busy machine, a few seconds pass.
const ALLOCATIONS_MAX: f64 = 0.2;

fn main() -> ExitCode {
    if let Some(load) = generator::requested() {
        generator::run(load);
        return ExitCode::SUCCESS;
    }
    let test = |protocol: Protocol| {
        let name = format!("{protocol:?} operation costs few calls, no memory and no copies");
        Trial::ignorable_test(name, move || check(protocol))
    };
    libtest_mimic::run(&Arguments::from_args(), Protocol::ALL.map(test).into()).exit_code()
}

fn check(protocol: Protocol) -> Result<Completion, Failed> {
    let mut server = Server::start(protocol);
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    generator::request(&mut command, protocol, server.address());
    let traced = match tracer::trace(&mut command, &mut server) {
        Ok(traced) => traced,
        Err(TraceError::Forbidden(why)) => {
            let why = format!("the kernel forbids tracing: {why}");
            // Counted by `.ci/run`.
            writeln!(std::io::stderr(), "skipped: {why}")
                .expect("standard error can be written to");
            return Ok(Completion::ignored_with(why));
        }
        Err(TraceError::Failed(why)) => return Err(why.into()),
    };
    let allocations = generator::allocations(&traced.output).ok_or("the generator did not end")?;
    let [.., few, many] = traced.threads.as_slice() else {
        return Err(format!("{} threads drove the loads", traced.threads.len()).into());
    };
    let calls = many.less(few);
    let operations = (MANY - FEW) as f64;
    let calls_each = calls.total() as f64 / operations;
    let allocations_each = allocations as f64 / operations;
    // A value that is sent is in the table that it was cut from, where it was made, and in the send buffer.
    let copies = [
        traced.sent_places.unwrap_or_default().saturating_sub(3),
        traced.received_copies.unwrap_or_default(),
    ];
    println!(
        "{protocol:?}: {calls_each:.3} system calls ({}) and {allocations_each:.3} allocations per operation; \
         a sent value is copied {} times more than needed, a received one {} times",
        calls.per(operations),
        copies[0],
        copies[1]
    );
    let mut failures = Vec::new();
    let sends = protocol != Protocol::Http1;
    if traced.received_copies.is_none() || traced.sent_places.is_some() != sends {
        failures.push("no value was found in the messages".to_owned());
    }
    if copies[0] > protocol.sent_copies_max() || copies[1] > 0 {
        failures.push(format!("values are copied {copies:?} times more than needed"));
    }
    if calls_each > CALLS_MAX {
        failures.push(format!("{calls_each:.3} system calls per operation exceed {CALLS_MAX}"));
    }
    if allocations_each > ALLOCATIONS_MAX {
        failures.push(format!("{allocations_each:.3} allocations per operation exceed zero"));
    }
    match failures.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(format!("{}: {}", failures.join("; "), calls.per(operations)).into()),
    }
}
