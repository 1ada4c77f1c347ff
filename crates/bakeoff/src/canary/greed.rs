//! Takes CPU time and memory, as a system does that collects garbage or grows.
//!
//! Bursts of many threads hold back whatever shares the CPUs, the load generator too: a trial that they disturb
//! must not count as the generator's fault.
//!
//! Not here: faults of single answers (`faults`).

use std::hint::black_box;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

/// Threads that burn for each CPU: as many as hold back a thread that wakes among them.
const THREADS_PER_CPU: usize = 32;
/// Work between two looks at the clock.
const STEPS: u64 = 10_000;

/// Burns all CPUs for `burst` of each `every`, counted from `began`, until the process ends.
pub(super) fn burn(began: Instant, burst: Duration, every: Duration) {
    if burst.is_zero() {
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..cpus * THREADS_PER_CPU {
        let burn = move || {
            let mut next = began + every;
            loop {
                std::thread::sleep(next.saturating_duration_since(clock::now()));
                while clock::now() < next + burst {
                    black_box((0..STEPS).fold(0u64, |sum, step| black_box(sum ^ step)));
                }
                next += every;
            }
        };
        // One thread less burns less, and that is all.
        std::thread::Builder::new().name("burn".into()).spawn(burn).ok();
    }
}

/// Takes so many bytes and writes to each page of them.
pub(super) fn hold(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}
