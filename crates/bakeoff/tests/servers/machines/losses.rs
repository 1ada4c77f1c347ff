//! Tests runs whose coordinator, agents, hosts or network end during a load.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use super::{command, left_on, run_folder, text, trials};
use crate::support::hosts::Hosts;
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::wait_for;

pub(super) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        skipped.unless_lacking("machines::cut_generator_fails_its_trial", cut_generator),
        skipped.unless_lacking("machines::killed_generator_fails_its_trial", killed_generator),
        skipped.unless_lacking("machines::killed_agent_fails_its_trial", killed_agent),
        skipped.unless_lacking("machines::killed_agent_is_waited_for", awaited_agent),
        skipped.unless_lacking("machines::stopped_agent_leaves_nothing", stopped_agent),
        skipped.unless_lacking("machines::killed_run_leaves_nothing_and_resumes", killed_run),
        skipped.unless_lacking("machines::interrupted_run_leaves_nothing", interrupted),
    ]
}

/// The server is on the first host, the generators on the others.
const STUDY: &str = "\
title: A canary elsewhere
systems:
  canary: {kind: canary, options: {sync: each}}
workloads:
  work: {mix: {put: 1}, keys: {count: 1000}}
loads:
  load: {clients: 4, warmup: 0s, stop: {after: LENGTHs}}
trials: 2
";

/// A run on three hosts with its first trial under load.
struct UnderLoad {
    bakeoff: Child,
    hosts: Hosts,
    ends: Option<i32>,
}

impl UnderLoad {
    fn start(seconds: u32) -> Result<Self, SkipReason> {
        Self::start_with(seconds, &[])
    }

    fn start_with(seconds: u32, flags: &[&str]) -> Result<Self, SkipReason> {
        let hosts = Hosts::new(3)?;
        let places = hosts.places(&[1], &[2, 3]);
        let stderr = fs::File::create(hosts.dir().join("stderr")).unwrap();
        let study = STUDY.replace("LENGTH", &seconds.to_string());
        let mut command = command(&hosts, &study, &places);
        command.args(flags).stdout(Stdio::null()).stderr(stderr);
        let bakeoff = command.spawn().unwrap();
        let run = Self { bakeoff, hosts, ends: None };
        wait_for("a load", Duration::from_secs(60), || run.written() > 20_000);
        Ok(run)
    }

    /// Returns the bytes that servers on the first host have written.
    fn written(&self) -> u64 {
        fn size(of: &std::path::Path) -> u64 {
            let entries = fs::read_dir(of).into_iter().flatten().flatten();
            let sizes = entries.map(|entry| match entry.file_type() {
                Ok(kind) if kind.is_dir() => size(&entry.path()),
                _ => entry.metadata().map_or(0, |found| found.len()),
            });
            sizes.sum()
        }
        size(&self.hosts.own(1).join("data"))
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.hosts.dir().join("stderr")).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.bakeoff), signal).unwrap();
    }

    /// Waits for the end, and returns the exit code.
    fn ends_within(&mut self, seconds: u64) -> Option<i32> {
        wait_for("the run's end", Duration::from_secs(seconds), || {
            let ended = self.bakeoff.try_wait().unwrap();
            self.ends = ended.and_then(|status| status.code());
            ended.is_some()
        });
        self.ends
    }

    /// Waits until nothing of the run is left on these hosts.
    fn is_gone_within(&self, seconds: u64, numbers: &[usize]) {
        let until = Instant::now() + Duration::from_secs(seconds);
        loop {
            let mut left = left_on(&self.hosts, numbers);
            left.extend(self.carriers());
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "after {seconds} s: {left:#?}\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the `ssh` processes of the coordinator.
    fn carriers(&self) -> Vec<String> {
        let config = self.hosts.config().display().to_string();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(&config)).collect()
    }

    /// Asserts that the trial failed by the loss of this host, and that the run stopped without the other trial and
    /// said so.
    fn failed_by_losing(&mut self, number: usize, within: u64) {
        let code = self.ends_within(within);
        let stderr = self.stderr();
        assert_eq!(code, Some(4), "{stderr}");
        assert!(
            stderr.contains("lost a machine; stopping the run with 2 trials left: "),
            "{stderr}"
        );
        let lost = format!("lost the connection to `h{number}`");
        assert!(stderr.contains(&lost), "{stderr}");
        let trials = trials(&self.hosts);
        assert_eq!(trials.len(), 1, "{stderr}");
        for trial in trials {
            let outcome = trial["outcome"].to_string();
            assert!(outcome.contains("machine-lost") && outcome.contains(&lost), "{outcome}");
        }
    }
}

impl Drop for UnderLoad {
    fn drop(&mut self) {
        self.bakeoff.kill().ok();
        self.bakeoff.wait().ok();
    }
}

fn killed_run() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start(3)?;
    run.signal(Signal::KILL);
    run.bakeoff.wait().unwrap();
    run.is_gone_within(40, &[1, 2, 3]);
    let resume = |flags: &[&str]| {
        let mut command = run.hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
        command.args(["run", "--shared-machine", "--resume"]).arg(run_folder(&run.hosts));
        command.args(flags).output().unwrap()
    };
    let places = run.hosts.dir().join("places.yaml");
    let resumed = resume(&["--on", &places.display().to_string()]);
    // 1 means not valid: a shared machine sometimes delays a generator. Both trials are there.
    assert!(matches!(resumed.status.code(), Some(0 | 1)), "{}", text(&resumed));
    let trials = trials(&run.hosts);
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial["outcome"]["ended"], "completed");
        assert_eq!(trial["machines"][1]["generated"][0]["clients"], 2);
    }
    run.is_gone_within(1, &[1, 2, 3]);
    // Without its machines its trials would differ, so it is not resumed, even with one trial missing.
    let record = run_folder(&run.hosts).join("record.jsonl");
    let lines = fs::read_to_string(&record).unwrap();
    let mut lines: Vec<&str> = lines.lines().collect();
    let last = lines.iter().rposition(|line| line.contains(r#""line":"trial""#)).unwrap();
    lines.truncate(last);
    fs::write(&record, lines.join("\n") + "\n").unwrap();
    let elsewhere = resume(&[]);
    assert_eq!(elsewhere.status.code(), Some(2), "{}", text(&elsewhere));
    assert!(text(&elsewhere).contains("not on this machine alone"));
    Ok(())
}

/// Sends a signal (`-9`, `-STOP`) to the agent on the first host.
fn signal_agent(run: &UnderLoad, signal: &str) {
    let agents = run.hosts.processes(1, " agent ");
    assert_eq!(agents.len(), 1, "{agents:?}");
    let pid = agents[0].split(' ').next().unwrap();
    let ssh = run
        .hosts
        .command("ssh")
        .arg("-F")
        .arg(run.hosts.config())
        .args(["h1", "kill", signal, pid])
        .status();
    assert!(ssh.unwrap().success());
}

/// The trial is repeated on all machines, and the run completes.
fn awaited_agent() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start_with(4, &["--retry-lost", "1"])?;
    signal_agent(&run, "-9");
    let code = run.ends_within(120);
    // 1 means not valid: a shared machine sometimes delays a generator.
    assert!(matches!(code, Some(0 | 1)), "{}", run.stderr());
    let trials = trials(&run.hosts);
    let ended = |trial: &serde_json::Value| trial["outcome"]["ended"].as_str().unwrap().to_owned();
    let ended: Vec<String> = trials.iter().map(ended).collect();
    assert_eq!(ended, ["machine-lost", "completed", "completed"], "{}", run.stderr());
    assert!(trials[1..].iter().all(|trial| trial["machines"].as_array().unwrap().len() == 3));
    run.is_gone_within(5, &[1, 2, 3]);
    Ok(())
}

fn killed_agent() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start(60)?;
    signal_agent(&run, "-9");
    run.failed_by_losing(1, 20);
    run.is_gone_within(5, &[1, 2, 3]);
    Ok(())
}

/// The stopped agent does not notice the end of the run, but its warden does.
fn stopped_agent() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start(60)?;
    signal_agent(&run, "-STOP");
    run.failed_by_losing(1, 40);
    let stderr = run.stderr();
    assert!(stderr.contains("the agent hangs or is stopped"), "{stderr}");
    assert!(stderr.contains("everything bakeoff started there stops within 30 s"), "{stderr}");
    run.is_gone_within(5, &[2, 3]);
    run.is_gone_within(35, &[1]);
    Ok(())
}

fn killed_generator() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start(60)?;
    run.hosts.kill(3);
    run.failed_by_losing(3, 40);
    run.is_gone_within(5, &[1, 2]);
    Ok(())
}

fn cut_generator() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start(60)?;
    run.hosts.connect(2, false);
    run.failed_by_losing(2, 40);
    run.is_gone_within(5, &[1, 3]);
    // The disconnected host gets no message, and stops its processes itself.
    run.is_gone_within(40, &[2]);
    Ok(())
}

fn interrupted() -> Result<(), SkipReason> {
    let mut run = UnderLoad::start(60)?;
    run.signal(Signal::INT);
    let code = run.ends_within(20);
    assert_eq!(code, Some(130), "{}", run.stderr());
    run.is_gone_within(1, &[1, 2, 3]);
    assert_eq!(trials(&run.hosts)[0]["outcome"]["ended"], "interrupted");
    Ok(())
}
