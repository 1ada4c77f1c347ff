//! Tests that two generators, each with the same share of a CPU, drive twice the load of one.
//!
//! Quotas on their hosts make the generators the limit; the server gets the rest of the machine. Other work affects
//! both sides equally: in each round each generator drives alone, and both together in between.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::hosts::{CanaryNextTo, Hosts};
use crate::support::skip::SkipReason;

/// Share of a CPU for each generator's host.
const PART: f64 = 0.1;
const ROUNDS: usize = 7;
const CLIENTS: usize = 64;

/// A CPU quota of a host, removed when dropped.
struct Quota {
    group: PathBuf,
    root: PathBuf,
}

impl Quota {
    fn new(host: u32, name: &str) -> Result<Self, SkipReason> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let two = root.join("cgroup.controllers").exists();
        let root = if two { root } else { root.join("cpu") };
        let group = root.join(format!("bakeoff-{}-{name}", std::process::id()));
        let lacks =
            |error: std::io::Error| SkipReason::Machine(format!("no quota on CPU: {error}"));
        fs::create_dir(&group).map_err(lacks)?;
        let quota = Self { group, root };
        // Microseconds.
        let (period, part) = (50_000, (PART * 50_000.0) as u32);
        let write = |file: &str, text: String| fs::write(quota.group.join(file), text);
        match two {
            // With the maximum weight, so that a host gets its quota despite other work.
            true => write("cpu.max", format!("{part} {period}"))
                .and_then(|()| write("cpu.weight", "10000".to_owned())),
            false => write("cpu.cfs_period_us", period.to_string())
                .and_then(|()| write("cpu.cfs_quota_us", part.to_string()))
                .and_then(|()| write("cpu.shares", "262144".to_owned())),
        }
        .and_then(|()| {
            descendants(host).into_iter().try_for_each(|pid| write("cgroup.procs", pid.to_string()))
        })
        .map_err(lacks)?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // An ending or newly started process keeps the group for a moment.
        for _ in 0..100 {
            let procs = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
            for pid in procs.lines() {
                fs::write(self.root.join("cgroup.procs"), pid).ok();
            }
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Returns a process and its descendants.
fn descendants(pid: u32) -> Vec<u32> {
    let children = super::children(pid).into_iter().flat_map(descendants);
    std::iter::once(pid).chain(children).collect()
}

pub(super) fn take(program: &Path, out: &Path) -> Result<(), SkipReason> {
    let hosts = Hosts::new(2)?;
    let _quotas = [1, 2].map(|number| Quota::new(hosts.process(number), &format!("h{number}")));
    let _quotas = _quotas.into_iter().collect::<Result<Vec<_>, _>>()?;
    // Prioritised, because it must answer both generators as fast as one.
    let mut command = hosts.command("chrt");
    command.args(["-f", "1"]).arg(program);
    let server = CanaryNextTo::start(&hosts, command);
    let url = format!("http://{}/health", server.address);
    let rate = |generators: &[usize]| -> f64 {
        let places = hosts.places(&[], generators);
        let clients = (CLIENTS * generators.len()).to_string();
        let mut command: Command = hosts.command(&program.display().to_string());
        command.args(["load", &url, "--for", "6s", "--json", "-c", &clients, "--on"]);
        let ended = command.arg(places).output().unwrap();
        let result: Value = serde_json::from_slice(&ended.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ended.stderr)));
        result["verified_in_window"].as_f64().unwrap() / result["window_seconds"].as_f64().unwrap()
    };
    let mut csv = String::from("one_per_second,other_per_second,both_per_second,times_one\n");
    for _ in 0..ROUNDS {
        // Both together run between the single runs, so that a machine that gets busier favours neither.
        let (one, both, other) = (rate(&[1]), rate(&[1, 2]), rate(&[2]));
        let times = 2.0 * both / (one + other);
        writeln!(csv, "{one:.0},{other:.0},{both:.0},{times:.3}").unwrap();
        fs::write(out.join("scale-pairs.csv"), &csv).unwrap();
    }
    Ok(())
}
