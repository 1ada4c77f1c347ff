//! Reads requests to restart servers from standard input, a line each, without blocking.
//!
//! A job in the background must not read its terminal: the kernel would stop it.
//!
//! Not here: the restart (`start`).

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp};

/// Maximum bytes of a line.
const LINE_MAX: usize = 4096;

/// Holds what was read of standard input.
#[derive(Default)]
pub(super) struct RestartRequests {
    bytes: Vec<u8>,
    closed: bool,
}

impl RestartRequests {
    /// Returns true if requests can still come.
    pub(super) fn can_come(&self) -> bool {
        let stdin = io::stdin();
        !self.closed && (!isatty(&stdin) || tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp()))
    }

    /// Returns the next line, if a whole one has arrived.
    pub(super) fn next(&mut self) -> Option<String> {
        if self.can_come() && is_readable() {
            let mut read = [0; LINE_MAX];
            match rustix::io::read(io::stdin(), &mut read) {
                Ok(count) if count > 0 && self.bytes.len() < LINE_MAX => {
                    self.bytes.extend_from_slice(&read[..count]);
                }
                _ => self.closed = true,
            }
        }
        let end = self.bytes.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

fn is_readable() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}
