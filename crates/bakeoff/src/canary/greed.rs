//! Takes CPU time and memory, like a system that collects garbage or grows.
//!
//! Bursts of many threads delay everything on the same CPUs, including the load generator. A trial that they disturb
//! must not be blamed on the generator.
//!
//! Not here: faults of single answers (`faults`).

use std::hint::black_box;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

/// Burning threads per CPU: enough to delay a thread that wakes among them.
const THREADS_PER_CPU: usize = 32;
/// Steps of work between two clock reads.
const STEPS: u64 = 10_000;

/// Burns all CPUs for `burst` at every `every` after `began`, until the process ends.
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
        // A thread that cannot start only makes the burst weaker.
        std::thread::Builder::new().name("burn".into()).spawn(burn).ok();
    }
}

/// Allocates memory and writes to each page.
pub(super) fn hold(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}
