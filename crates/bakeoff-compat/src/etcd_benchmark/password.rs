//! Asks the user's terminal for a password, without showing it.
//!
//! Not here: passwords of the command line and the environment (`run`).

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Longest password in bytes.
const LENGTH_MAX: usize = 4096;
/// Time between two checks whether the user interrupts.
const CHECK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Restores the terminal's settings when dropped.
struct TerminalSettings<'a>(&'a std::fs::File, Termios);

impl Drop for TerminalSettings<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        tcsetattr(self.0, OptionalActions::Flush, &self.1).ok();
    }
}

/// Asks for a password at the controlling terminal.
///
/// # Errors
/// Fails without a terminal, and if the user interrupts or types nothing.
pub(super) fn ask(interrupted: &AtomicBool) -> io::Result<String> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let settings = tcgetattr(&terminal)?;
    let mut silent = settings.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    terminal.write_all(b"Password: ")?;
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let restored = TerminalSettings(&terminal, settings);
    let typed = line(&terminal, interrupted);
    drop(restored);
    terminal.write_all(b"\n")?;
    let typed = typed?;
    let password = String::from_utf8(typed).map_err(|_| io::Error::other("it is not UTF-8"))?;
    match password.is_empty() {
        true => Err(io::Error::other("nothing was typed")),
        false => Ok(password),
    }
}

/// Reads a line, without its end.
fn line(mut terminal: &std::fs::File, interrupted: &AtomicBool) -> io::Result<Vec<u8>> {
    let mut typed = Vec::new();
    let mut byte = [0];
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
        match poll(&mut ready, Some(&CHECK_EVERY)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        if terminal.read(&mut byte)? == 0 || byte == *b"\n" {
            return Ok(typed);
        }
        if typed.len() == LENGTH_MAX {
            return Err(io::Error::other("it is too long"));
        }
        typed.push(byte[0]);
    }
}
