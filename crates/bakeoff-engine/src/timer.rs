//! Wakes a thread at an operation's due time, more precisely than `epoll_wait`'s milliseconds.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Makes its token ready when it expires.
pub struct Timer {
    file: OwnedFd,
}

impl Timer {
    /// Creates a timer that is not set.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { file })
    }

    /// Makes the token ready once, after `wait`. Replaces an earlier setting.
    pub fn set(&self, wait: Duration) -> io::Result<()> {
        // A value of zero would disarm the timer, so the shortest wait is 1 ns.
        let wait = wait.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: wait.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: wait.subsec_nanos().into(),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}
