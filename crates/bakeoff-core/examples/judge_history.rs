//! Measures the linearizability check: judges a history of a correct register.
//!
//! `cargo run --release -p bakeoff-core --example judge_history -- OPERATIONS KEYS`
//!
//! Half of the operations are writes. About 100 of all keys together overlap at any time. It prints the time that
//! judging takes, and the most memory of the process before and after.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "it only prints figures")]

use std::time::Instant;

use bakeoff_core::linearizability::history::History;
use bakeoff_core::linearizability::judged_history::OperationOutcome;
use bakeoff_core::linearizability::recorded_operation::{
    OperationOrigin, RecordedAction, RecordedOperation,
};
use bakeoff_core::workload::mix64;

fn main() {
    let arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let [count, keys]: [u64; 2] =
        arguments.collect::<Vec<u64>>().try_into().expect("OPERATIONS KEYS");
    let mut newest = vec![0_u32; keys as usize];
    let operations = (0..count).map(|number| {
        let random = mix64(number + 1);
        let key = random % keys;
        // Each takes effect a microsecond after the one before, and takes up to 200 µs.
        let effect = 1000 * number + 200_000;
        let times = (effect - (random >> 20) % 100_000, effect + (random >> 40) % 100_000);
        let newest = &mut newest[key as usize];
        let action = if random >> 63 == 0 || *newest == 0 {
            *newest += 1;
            RecordedAction::Write(*newest)
        } else {
            RecordedAction::Read(*newest)
        };
        let origin = OperationOrigin { key: key as u32, client: (number % 64) as u32, node: 0 };
        RecordedOperation::new(origin, times, action, OperationOutcome::Done)
    });
    let mut history =
        History { operations: operations.collect(), recorded: count, ..History::default() };
    let before = memory();
    let began = Instant::now();
    let judged = history.judge(&|key| key.to_string());
    let took = began.elapsed().as_secs_f64();
    println!("{count} operations on {keys} keys: {took:.2} s, {:?}", judged.verdict);
    println!("most memory before: {before}, after: {}", memory());
}

/// Returns the most memory that the process had.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("unknown".to_owned(), |text| text.trim().to_owned())
}
