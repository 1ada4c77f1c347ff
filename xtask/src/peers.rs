//! Measures other load tools next to bakeoff.
//!
//! Anybody can repeat these measurements. A comparison fetches the other tool, gives both the same work on the same
//! machine in alternating order, checks with the server's counters that both did it, and writes the results.
//!
//! `kv`: etcd's `benchmark put`. `http`: wrk, hey, h2load, vegeta, k6, fortio and oha.
//! `vault`: vault-benchmark and benchmark-openbao.

mod etcd;
pub(crate) mod fetch;
pub(crate) mod http;
pub(crate) mod kv;
pub(crate) mod measure;
pub(crate) mod summary;
pub(crate) mod vault;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bakeoff_install::place;
use rustix::thread::CpuSet;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Failure, cargo, root};

const DOCUMENT: &str = "docs/performance.md";
/// Folder of the runs behind the document.
const RECORDS: &str = "docs/evidence/peers";

/// Runs of a comparison. Its section of the document follows from them.
trait Comparison: Serialize + DeserializeOwned {
    /// Name of the comparison, of its file, and of its section: `kv`.
    const NAME: &'static str;

    /// Returns the section.
    fn section(&self) -> String;

    /// Keeps the runs, and writes the section.
    fn publish(&self) -> Result<(), Failure> {
        let path = record(Self::NAME);
        make_dir(path.parent().unwrap_or(&path))?;
        let text = serde_json::to_string(self).map_err(|error| format!("no JSON: {error}"))?;
        std::fs::write(&path, text + "\n")
            .map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        write(&section_name(Self::NAME), &self.section())
    }
}

fn record(name: &str) -> PathBuf {
    root().join(RECORDS).join(name).with_extension("json")
}

fn section_name(name: &str) -> String {
    format!("peers {name}")
}

/// Returns bakeoff's cache folder.
fn cache() -> Result<PathBuf, Failure> {
    let found = place::of_environment();
    found.ok_or_else(|| "none of BAKEOFF_CACHE, XDG_CACHE_HOME and HOME is set".to_owned())
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|error| format!("cannot make `{}`: {error}", dir.display()))
}

/// Builds a program of this checkout for release, given as `["--bin", "bakeoff"]` or `["--example", "http_baseline"]`.
pub(crate) fn built(target: [&str; 2]) -> Result<PathBuf, Failure> {
    let [kind, name] = target;
    built_by(&["build", "-p", "bakeoff", "--release", kind, name], name)
}

/// Builds bakeoff as the tests do: other arguments would build its dependencies again, with fewer features.
pub(crate) fn built_for_tests() -> Result<PathBuf, Failure> {
    built_by(&["test", "--workspace", "--no-run"], "bakeoff")
}

/// Runs cargo with these arguments. Returns the path of the program that this built.
fn built_by(arguments: &[&str], name: &str) -> Result<PathBuf, Failure> {
    println!("building {name}");
    let mut build = cargo();
    build.args(arguments).args(["--message-format", "json-render-diagnostics"]);
    let output = build
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cannot build {name}"));
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message.pointer("/target/name")? == name
            && message.pointer("/profile/test")?.as_bool() == Some(false);
        is_it.then(|| message.get("executable")?.as_str().map(PathBuf::from))?
    });
    programs.next_back().ok_or_else(|| format!("cargo reported no path of {name}"))
}

/// Returns the program that `bakeoff install SYSTEM[@VERSION]` finds or fetches, and its version.
fn installed(bakeoff: &Path, wanted: &str, executable: &str) -> Result<(PathBuf, String), Failure> {
    let output = Command::new(bakeoff)
        .args(["install", wanted])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run bakeoff: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let system = wanted.split('@').next().unwrap_or(wanted);
    let version = printed
        .strip_prefix(system)
        .and_then(|rest| rest.strip_prefix(' '))
        .and_then(|rest| rest.split(',').next());
    let Some(version) = version.filter(|_| output.status.success()) else {
        return Err(format!("`bakeoff install {wanted}` failed"));
    };
    let programs = cache()?.join(system);
    let mut found: Vec<PathBuf> = std::fs::read_dir(&programs)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}-")))
        .flat_map(|entry| {
            ["bin", "", "usr/bin"].map(|inside| entry.path().join(inside).join(executable))
        })
        .filter(|program| program.is_file())
        .collect();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).map(|dir| dir.join(executable));
    found.extend(on_path.filter(|program| program.is_file()));
    let program = found.into_iter().next();
    let program = program
        .ok_or_else(|| format!("the installed {system} has no program at the expected path"))?;
    Ok((program, version.to_owned()))
}

pub(crate) fn free_port() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("no port is free: {error}"))
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String, Failure> {
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

pub(crate) fn output_of(program: &str, args: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("cannot run `{program}`: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns a general description for the public document: `2026-11-21 on Linux 6.18, x86_64, 2 CPUs`.
fn when_and_where(allowed: &CpuSet) -> Result<String, Failure> {
    let date = output_of("date", &["-u", "+%Y-%m-%d"])?;
    let uname = rustix::system::uname();
    // The text after the second dot identifies one machine's build.
    let release = uname.release().to_string_lossy();
    let kernel: Vec<&str> = release.split('.').take(2).collect();
    let kernel = kernel.join(".");
    let arch = uname.machine().to_string_lossy();
    let count = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).count();
    Ok(format!("{date} on Linux {kernel}, {arch}, {count} CPUs"))
}

/// Writes a section of the document between its markers.
fn write(name: &str, section: &str) -> Result<(), Failure> {
    let path = root().join(DOCUMENT);
    let document =
        std::fs::read_to_string(&path).unwrap_or_else(|_| "# What bakeoff itself costs\n".into());
    std::fs::write(&path, summary::replace_section(&document, name, section))
        .map_err(|error| format!("cannot write {DOCUMENT}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that the document shows what follows from the runs of a comparison.
    fn is_published<C: Comparison>() {
        let text = std::fs::read_to_string(record(C::NAME)).expect("its runs are kept");
        let measured: C = serde_json::from_str(&text).expect("its runs can be read");
        let document = std::fs::read_to_string(root().join(DOCUMENT)).expect("the document");
        let again =
            summary::replace_section(&document, &section_name(C::NAME), &measured.section());
        assert_eq!(again, document, "`cargo xtask peers {}` writes it", C::NAME);
    }

    #[test]
    fn sections_follow_from_the_runs_that_are_kept() {
        is_published::<kv::KvRuns>();
        is_published::<http::HttpRuns>();
        is_published::<http::soak::SoakRun>();
    }
}
