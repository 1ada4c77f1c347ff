//! Waking up when the next operation is due, finer than `epoll_wait`'s milliseconds.

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

/// A timer that makes its token ready.
pub struct Timer {
    file: OwnedFd,
}

impl Timer {
    /// A timer that is not set.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { file })
    }

    /// Makes the token ready after `wait`, once. Setting it again replaces what was set.
    pub fn set(&self, wait: Duration) -> io::Result<()> {
        // A timer of zero would be switched off: the shortest wait is a nanosecond.
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
