//! Runs a canary process for tests that load it by URL.
//!
//! Not here: tests of the canary itself (`tests/commands/canary.rs`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

use super::bakeoff;
use super::semaphore::{Permits, Semaphore};

pub(crate) struct Canary {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Folder for the test's files and the canary's data.
    pub(crate) dir: TempDir,
}

impl Canary {
    /// Starts a canary with these options, separated by spaces.
    pub(crate) fn start(flags: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = bakeoff();
        command.args(["__canary", "--listen", "127.0.0.1:0", "--sync", "none", "--data"]);
        command.arg(dir.path().join("data")).args(flags.split_whitespace());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            line.unwrap().strip_prefix("canary: listening on ").map(|at| at.parse().unwrap())
        });
        std::thread::spawn(move || lines.for_each(drop)); // a full pipe would stop it
        Self { process, address: address.expect("a canary says where it listens"), dir }
    }

    /// Starts a canary that holds `value` under `/kv/key`.
    pub(crate) fn with_value(flags: &str) -> Self {
        let canary = Self::start(flags);
        let put = "PUT /kv/key HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nvalue";
        let mut socket = TcpStream::connect(canary.address).unwrap();
        socket.write_all(put.as_bytes()).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 204");
        canary
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn stats(&self) -> Value {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.write_all(b"GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    #[track_caller]
    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.stats()[name].as_u64().expect(name)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Waits until fewer than three searches for a highest rate run. They take long but load the machine little, so they do
/// not wait for heavy loads.
pub(crate) fn search() -> Permits<'static> {
    static SEARCHES: Semaphore = Semaphore::new(3);
    SEARCHES.acquire(1)
}

/// Locks the machine for one load at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
