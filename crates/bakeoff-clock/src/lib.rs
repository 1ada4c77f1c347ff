//! The one place that reads the monotonic clock.
//!
//! On Linux this is a read of the time-stamp counter without a system call, some 25 ns. A reading
//! is taken where something happened and handed on, so that what a latency covers can be seen in
//! the code.

pub mod wall;

use std::time::{Duration, Instant};

/// The time now.
#[allow(clippy::disallowed_methods, reason = "this is the one home of it")]
pub fn now() -> Instant {
    Instant::now()
}

/// The monotonic clock as of the kernel's last tick, up to 10 ms ago. It takes some 5 ns.
#[inline]
pub fn coarse() -> Duration {
    since_zero(rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse))
}

fn since_zero(time: rustix::time::Timespec) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// CPU time that the calling thread has used so far, user and system.
pub fn thread_cpu() -> Duration {
    since_zero(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

/// CPU time that this process has used so far, user and system, all threads.
pub fn process_cpu() -> Duration {
    since_zero(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

/// Begin or end of measuring. Published ahead if the load's schedule gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The first measured operations are due.
    Begin(Instant),
    /// The last operation is sent. In a load that stops by count, it has been answered.
    End(Instant),
}
