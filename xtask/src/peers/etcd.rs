//! Runs etcd's benchmark tool, and an etcd for it and bakeoff.
//!
//! The tool is built from the Go module proxy's sources (`fetch`), as bakeoff builds servers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{fetch, free_port, get};
use crate::Failure;

const MODULE: &str = "go.etcd.io/etcd/v3";
const PACKAGE: &str = "go.etcd.io/etcd/v3/tools/benchmark";
/// Version of etcd's benchmark tool.
pub(super) const BENCHMARK_VERSION: &str = "3.6.8";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Returns etcd's benchmark tool, built into the cache if it is missing.
pub(super) fn benchmark() -> Result<PathBuf, Failure> {
    let program = fetch::go("etcd-benchmark", MODULE, PACKAGE, BENCHMARK_VERSION)?;
    Ok(program.path().to_owned())
}

/// Returns the etcd that `bakeoff install etcd@3.6` finds or fetches, and its version.
pub(super) fn server(bakeoff: &Path) -> Result<(PathBuf, String), Failure> {
    super::installed(bakeoff, "etcd@3.6", "etcd")
}

/// A new etcd of one node, stopped when dropped.
pub(super) struct Etcd {
    child: Child,
    pub(super) client: SocketAddr,
    _data: tempfile::TempDir,
}

impl Etcd {
    /// Starts an etcd on loopback with a temporary data folder and default settings.
    pub(super) fn start(program: &Path) -> Result<Self, Failure> {
        let data = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let (client, peer) = (free_port()?, free_port()?);
        let log = data.path().join("etcd.log");
        let file =
            fs::File::create(&log).map_err(|error| format!("cannot write a log: {error}"))?;
        let child = Command::new(program)
            .arg("--name=etcd")
            .arg(format!("--data-dir={}", data.path().join("data").display()))
            .arg(format!("--listen-client-urls=http://{client}"))
            .arg(format!("--advertise-client-urls=http://{client}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--initial-cluster=etcd=http://{peer}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|error| format!("cannot run etcd: {error}"))?;
        let etcd = Self { child, client, _data: data };
        let until = Instant::now() + READY_WITHIN;
        while !get(client, "/health").is_ok_and(|answer| answer.contains("\"true\"")) {
            if Instant::now() > until {
                let output = fs::read_to_string(&log).unwrap_or_default();
                let last = output.lines().last().unwrap_or_default();
                return Err(format!("etcd was not ready after {READY_WITHIN:?}\n  log: {last}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(etcd)
    }

    /// Returns etcd's own count of puts.
    pub(super) fn puts(&self) -> Result<u64, Failure> {
        let metrics = get(self.client, "/metrics")?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("etcd_mvcc_put_total "));
        let count = line.and_then(|count| count.trim().parse::<f64>().ok());
        count.map(|count| count as u64).ok_or_else(|| "etcd reports no number of puts".into())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
