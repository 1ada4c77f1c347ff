//! Collects profiles of the server for `-pprof_interval`, with the server's own program.
//!
//! `vault debug` or `bao debug` runs next to the load and writes a folder into the working directory, as in the
//! original. It is interrupted when the load ends, so that it writes its index.

use std::fmt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_engine::tls::Pem;
use rustix::process::{Pid, Signal, kill_process};

use super::options::Options;
use super::server::TlsSettings;

/// Longest wait for the last files.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Programs with a `debug` command.
const PROGRAMS: [&str; 2] = ["vault", "bao"];

/// Reason why no profiles are collected.
#[derive(Debug)]
pub(super) enum NoProfiles {
    /// Neither program is on the `PATH`.
    NoProgram,
    /// The program could not be started.
    CannotRun {
        /// Name of the program.
        program: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl fmt::Display for NoProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no profiles: ")?;
        match self {
            Self::NoProgram => {
                f.write_str("`-pprof_interval` needs the program `vault` or `bao` on the PATH")
            }
            Self::CannotRun { program, source } => write!(f, "cannot run `{program}`: {source}"),
        }
    }
}

pub(super) struct Profiles {
    child: Child,
    program: &'static str,
}

impl Profiles {
    /// Starts the program. The token goes into its environment, where no list of processes shows it.
    pub(super) fn begin(
        address: &str,
        options: &Options,
        tls: &TlsSettings,
        interval: Duration,
    ) -> Result<Self, NoProfiles> {
        let duration = format!("-duration={}s", 2 * options.duration.as_secs().max(1));
        let interval = format!("-interval={}s", interval.as_secs().max(1));
        for program in PROGRAMS {
            let mut command = Command::new(program);
            command.args(["debug", &duration, &interval, "-compress=false"]);
            for prefix in ["VAULT", "BAO"] {
                command.env(format!("{prefix}_ADDR"), address);
                command.env(format!("{prefix}_TOKEN"), options.token.reveal());
                if let Some(ca) = tls.options.ca.as_ref().and_then(Pem::file) {
                    command.env(format!("{prefix}_CACERT"), ca);
                }
            }
            let started =
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            match started {
                Ok(child) => return Ok(Self { child, program }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(NoProfiles::CannotRun { program, source }),
            }
        }
        Err(NoProfiles::NoProgram)
    }

    /// Interrupts the program and waits for its end. Returns a message on the outcome.
    pub(super) fn end(mut self) -> String {
        let program = self.program;
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            kill_process(pid, Signal::INT).ok(); // the program may have ended already
        }
        let give_up_at = clock::now() + END_WITHIN;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => {
                    return format!(
                        "`{program} debug` wrote its profiles to the working directory"
                    );
                }
                Ok(Some(status)) => return format!("`{program} debug` failed: {status}"),
                Err(error) => return format!("cannot wait for `{program} debug`: {error}"),
                Ok(None) if clock::now() > give_up_at => {
                    self.child.kill().ok();
                    self.child.wait().ok();
                    return format!("`{program} debug` did not end and was killed");
                }
                Ok(None) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}
