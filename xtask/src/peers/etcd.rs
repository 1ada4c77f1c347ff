//! etcd's benchmark tool, and one etcd to point it and bakeoff at.
//!
//! The tool is built from the Go module proxy's sources by a wrapper module, as bakeoff itself has
//! its servers: Go's checksum database vouches for them and is never switched off.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{cache, make_dir};
use crate::{Failure, cargo, run};

const MODULE: &str = "go.etcd.io/etcd/v3";
const PACKAGE: &str = "go.etcd.io/etcd/v3/tools/benchmark";
/// The version of etcd's benchmark tool.
pub(super) const BENCHMARK_VERSION: &str = "3.6.8";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// etcd's benchmark tool, built into the cache if it is not there.
pub(super) fn benchmark() -> Result<PathBuf, Failure> {
    let peers = cache()?.join("peers");
    let program = peers.join(format!("etcd-benchmark-{BENCHMARK_VERSION}"));
    if program.is_file() {
        return Ok(program);
    }
    make_dir(&peers)?;
    let go = |args: &[&str], dir: &Path| {
        let mut go = Command::new("go");
        go.args(args).current_dir(dir);
        go.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GOFLAGS", "-mod=mod -buildvcs=false");
        go
    };
    let sums = go(&["env", "GOSUMDB"], &peers).output().map_err(|error| {
        format!("cannot run `go`: {error}\nhint: etcd's benchmark tool is built with Go")
    })?;
    if String::from_utf8_lossy(&sums.stdout).trim() == "off" {
        return Err("GOSUMDB is off: what would be built could not be verified".into());
    }
    println!("building etcd's benchmark tool {BENCHMARK_VERSION}");
    let scratch = tempfile::Builder::new()
        .prefix(".work-")
        .tempdir_in(&peers)
        .map_err(|error| format!("cannot make a folder: {error}"))?;
    let dir = scratch.path();
    run(go(&["mod", "init", "wrapper"], dir))?;
    run(go(&["get", &format!("{PACKAGE}@v{BENCHMARK_VERSION}")], dir))?;
    run(go(&["build", "-trimpath", "-ldflags", "-s -w", "-o", "benchmark", PACKAGE], dir))?;
    let built = dir.join("benchmark");
    let about = go(&["version", "-m", "benchmark"], dir).output();
    let about = about.map_err(|error| format!("cannot run `go version -m`: {error}"))?;
    let about = String::from_utf8_lossy(&about.stdout).into_owned();
    if !about.contains(&format!("{MODULE}\tv{BENCHMARK_VERSION}\t")) {
        return Err(format!(
            "what was built does not say that it is {MODULE} v{BENCHMARK_VERSION}"
        ));
    }
    // Renamed into place last, so that a program in the cache is whole.
    fs::rename(&built, &program).map_err(|error| format!("cannot keep the tool: {error}"))?;
    Ok(program)
}

/// bakeoff's own program, built for release.
pub(super) fn bakeoff() -> Result<PathBuf, Failure> {
    println!("building bakeoff");
    let mut build = cargo();
    build.args([
        "build",
        "--release",
        "-p",
        "bakeoff",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = build
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("bakeoff does not build".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_ours = message.pointer("/target/name")? == "bakeoff";
        is_ours.then(|| message.get("executable")?.as_str().map(PathBuf::from))?
    });
    programs.next_back().ok_or_else(|| "cargo does not say where bakeoff is".into())
}

/// The etcd that `bakeoff install etcd@3.6` finds or fetches, and its version.
pub(super) fn server(bakeoff: &Path) -> Result<(PathBuf, String), Failure> {
    let installed = Command::new(bakeoff)
        .args(["install", "etcd@3.6"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run bakeoff: {error}"))?;
    let said = String::from_utf8_lossy(&installed.stdout).into_owned();
    let version = said.strip_prefix("etcd ").and_then(|rest| rest.split(',').next());
    let Some(version) = version.filter(|_| installed.status.success()) else {
        return Err("`bakeoff install etcd@3.6` failed".into());
    };
    let programs = cache()?.join("etcd");
    let mut found: Vec<PathBuf> = fs::read_dir(&programs)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}-")))
        .flat_map(|entry| {
            ["bin/etcd", "etcd", "usr/bin/etcd"].map(|inside| entry.path().join(inside))
        })
        .filter(|program| program.is_file())
        .collect();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(
        std::env::split_paths(&on_path).map(|dir| dir.join("etcd")).filter(|p| p.is_file()),
    );
    let program = found.into_iter().next().ok_or("the installed etcd is not where it should be")?;
    Ok((program, version.to_owned()))
}

/// A fresh etcd of one node. It ends when this is dropped.
pub(super) struct Etcd {
    child: Child,
    pub(super) client: SocketAddr,
    _data: tempfile::TempDir,
}

impl Etcd {
    /// Starts one on loopback, its data in a folder of its own, everything else as it comes.
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
                let said = fs::read_to_string(&log).unwrap_or_default();
                let last = said.lines().last().unwrap_or_default();
                return Err(format!(
                    "etcd was not ready after {READY_WITHIN:?}\n  it said: {last}"
                ));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(etcd)
    }

    /// How many puts this etcd has carried out, by its own count.
    pub(super) fn puts(&self) -> Result<u64, Failure> {
        let metrics = get(self.client, "/metrics")?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("etcd_mvcc_put_total "));
        let count = line.and_then(|count| count.trim().parse::<f64>().ok());
        count
            .map(|count| count as u64)
            .ok_or_else(|| "etcd does not tell its number of puts".into())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn free_port() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("no port is free: {error}"))
}

fn get(address: SocketAddr, path: &str) -> Result<String, Failure> {
    let asked = || {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().map_err(|error: std::io::Error| format!("GET {path} of {address}: {error}"))
}
