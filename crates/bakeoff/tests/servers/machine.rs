//! Tests with requirements that not every machine has: a mount, cgroups, root, Go, etcd.
//!
//! Each reports why it was skipped. Not here: the same tests without requirements (`commands`).

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::canary::Canary;
use crate::support::case::{Case, cached, case, with};
use crate::support::held::hold_so;
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::under_way::{LONG, UnderWay};
use crate::support::watched::{self, check, trial};
use crate::support::{
    Bench, CommandOutput, array, bakeoff, figure, folders, has, record, text, wait_for,
};

const ETCD: Case = Case { needs: &["go"], ..case("etcd", "", 3) };
const ETCD_3_4: Case = Case { needs: &["go"], ..case("etcd", "3.4", 1) };

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn() -> Result<(), SkipReason>;
    let tests: [(&str, Test); 7] = [
        (
            "full_disk_is_refused_before_a_server_starts",
            full_disk_is_refused_before_a_server_starts,
        ),
        ("disk_that_fills_up_is_reported", disk_that_fills_up_is_reported),
        ("histograms_are_read_by_the_go_library", histograms_are_read_by_the_go_library),
        ("cpu_limit_of_a_study_holds", cpu_limit_of_a_study_holds),
        (
            "cgroups_of_a_killed_run_and_warden_go_with_the_next",
            cgroups_of_a_killed_run_and_warden_go_with_the_next,
        ),
        ("cgroups_of_a_killed_run_go_with_its_warden", cgroups_of_a_killed_run_go_with_its_warden),
        ("nodes_that_refuse_to_be_root_end_with_bakeoff", nodes_that_refuse_to_be_root_end),
    ];
    let mut trials: Vec<Trial> =
        tests.into_iter().map(|(name, test)| skipped.unless_lacking(name, test)).collect();
    trials.push(with("kill_9_of_bakeoff_leaves_no_etcd", ETCD, skipped, kill_9_leaves_no_etcd));
    let name = "gate_takes_a_program_that_becomes_etcd";
    trials.push(with(name, ETCD_3_4, skipped, gate_takes_a_program_that_becomes_etcd));
    trials
}

fn quick(canary: &str) -> Bench {
    Bench::new(&format!(
        "title: A quick one\n\
         systems:\n  canary: {canary}\n\
         workloads:\n  work: {{mix: {{put: 50, get: 50}}, keys: {{count: 100}}}}\n\
         loads:\n  load: {{clients: 2, stop: {{operations: 400}}}}\n\
         trials: 1\n"
    ))
}

fn nodes_that_refuse_to_be_root_end() -> Result<(), SkipReason> {
    if !rustix::process::geteuid().is_root() {
        return Err(SkipReason::Machine("only root can start a node as another user".to_owned()));
    }
    hold_so("2,never-root").ends_by(Signal::KILL);
    Ok(())
}

fn kill_9_leaves_no_etcd(_: &Case) {
    let study = LONG
        .replace("canary: {kind: canary, options: {sync: none}}", "etcd: {kind: etcd, nodes: 3}");
    let mut run = UnderWay::start(&study);
    wait_for("three etcds", Duration::from_secs(30), || {
        run.servers().iter().filter(|server| server.contains("--name=etcd-")).count() == 3
    });
    run.bakeoff.kill().unwrap();
    run.bakeoff.wait().unwrap();
    crate::support::nothing_runs_in(run.bench.path());
    let ran = CommandOutput::run(bakeoff().arg("report").arg(&run.bench.runs()[0])).ends_with(0);
    assert!(ran.stdout.contains("incomplete: 0 of 2"), "{}", ran.stdout);
}

fn gate_takes_a_program_that_becomes_etcd(_: &Case) {
    let bench = Bench::new(
        "title: etcd\n\
         systems:\n  etcd: {kind: etcd}\n\
         workloads:\n  work: {mix: {put: 1}, keys: {count: 100}}\n\
         loads:\n  load: {clients: 4, warmup: 100ms, stop: {after: 300ms}}\n\
         trials: 50\n",
    );
    let etcd = cached("etcd");
    let wrapped = bench.path().join("wrapped");
    std::fs::write(&wrapped, format!("#!/bin/sh\nexec {} \"$@\"\n", etcd.display())).unwrap();
    std::fs::set_permissions(&wrapped, std::fs::Permissions::from_mode(0o755)).unwrap();
    let gate = |arguments: &[&OsStr]| {
        let mut command = bakeoff();
        command.arg("gate").arg(bench.study()).arg("--out").arg(bench.out()).args(["--seed", "7"]);
        CommandOutput::run(command.args(arguments).current_dir(bench.path()))
    };
    let text_of = |text: &'static str| OsStr::new(text);
    let ran = gate(&[
        text_of("--base"),
        text_of("etcd@3.4"),
        text_of("--new"),
        wrapped.as_os_str(),
        text_of("--trials"),
        text_of("3"),
    ]);
    // Too few trials to exclude a loss, and a busy machine may disturb one.
    assert!(matches!(ran.code, Some(0 | 1 | 7)), "{:?} {}{}", ran.code, ran.stdout, ran.stderr);
    let run = bench.runs().pop().expect("it left a run");
    let systems = &record(&run)[0]["systems"];
    let source = text(&systems[1]["source"]);
    assert!(source.contains("program given: ") && source.contains("/wrapped"), "{source}");
    assert_ne!(systems[0]["sha256"], systems[1]["sha256"]);
    // The same program twice is rejected before anything starts.
    let copy = bench.path().join("copy");
    std::fs::copy(&etcd, &copy).unwrap();
    let ran = gate(&[text_of("--base"), etcd.as_os_str(), text_of("--new"), copy.as_os_str()]);
    assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("hold the same bytes (SHA-256 "), "{}", ran.stderr);
    assert_eq!(bench.runs().len(), 1);
    crate::support::nothing_runs_in(bench.path());
}

/// A small file system, removed after the test.
struct SmallDisk(PathBuf, #[allow(dead_code, reason = "it is the disk's place")] tempfile::TempDir);

impl SmallDisk {
    /// Mounts the file system, which only root can, and not everywhere.
    fn mount(size: &str) -> Result<Self, SkipReason> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).stderr(Stdio::null());
        match mount.status().is_ok_and(|status| status.success()) {
            true => Ok(Self(path, dir)),
            false => Err(SkipReason::Machine("no tmpfs can be mounted here".to_owned())),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn full_disk_is_refused_before_a_server_starts() -> Result<(), SkipReason> {
    let disk = SmallDisk::mount("16m")?;
    let bench = quick("{kind: canary}");
    let mut command = bakeoff();
    command.arg("run").arg(bench.study()).arg("--out").arg(&disk.0);
    let ran = CommandOutput::run(&mut command).ends_with(5);
    assert!(!ran.stderr.contains("[1/"), "{}", ran.stderr);
    ran.complains(&["error: only 1", "needed: at least", "hint: `--out DIR`"]);
    Ok(())
}

fn disk_that_fills_up_is_reported() -> Result<(), SkipReason> {
    let disk = SmallDisk::mount("1m")?;
    // A system that already runs needs no space for data, but the record does.
    let canary = Canary::start("");
    let bench = quick(&format!("{{kind: canary, endpoints: [\"http://{}\"]}}", canary.address));
    let fill = |bytes: usize| {
        let filler = std::fs::File::create(disk.0.join("filler"));
        filler.and_then(|mut file| file.write_all(&vec![0; bytes])).ok();
    };
    let mut command = bakeoff();
    command.arg("run").arg(bench.study()).arg("--out").arg(&disk.0);
    fill(2 << 20);
    CommandOutput::run(&mut command).ends_with(5).complains(&[
        "error: ",
        "No space left",
        "hint: the disk is full",
    ]);
    assert!(folders(&disk.0).is_empty(), "a run that never began leaves no folder");
    // Space for the machine baseline and the first line, and little more.
    let page = 4096;
    for room in [28, 30, 32] {
        for run in folders(&disk.0) {
            std::fs::remove_dir_all(run).unwrap();
        }
        fill((1 << 20) - room * page);
        let ran = CommandOutput::run(&mut command);
        if ran.code != Some(0) {
            ran.ends_with(5).complains(&[
                "error: cannot",
                "No space left",
                "hint: the disk is full",
            ]);
        }
    }
    Ok(())
}

fn cpu_limit_of_a_study_holds() -> Result<(), SkipReason> {
    let load = "{clients: 16, warmup: 0s, stop: {after: 3s}}";
    let bench = watched::bench(", limits: {cpu: 0.05}", load);
    let ran = CommandOutput::run(&mut bench.command());
    let trial = trial(&bench);
    let limits = check(&trial, "limits");
    if limits["verdict"] == "not-checked" {
        return Err(SkipReason::Machine(format!("limits: {}", text(&limits["why"]))));
    }
    assert_eq!(limits["verdict"], "passed", "{}", ran.stderr);
    let usage = array(&trial["usage"]);
    let canary = usage.iter().find(|one| one["name"] == "canary-1").unwrap();
    let mean = canary["cpu_mean_percent"].as_f64().unwrap();
    // The kernel counts in 10 ms steps; three seconds have fifteen of them for the server.
    assert!(mean < 6.0, "{mean} % of a core");
    let throttled = canary["throttled_seconds"].as_f64().unwrap();
    assert!(throttled > 0.1, "{throttled} s");
    Ok(())
}

/// Returns the cgroups of this name in all hierarchies.
fn groups_named(name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = left.pop() {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name() == name {
                found.push(entry.path());
            }
            left.push(entry.path());
        }
    }
    found
}

/// A run with limits, and its cgroups.
struct LimitedRun {
    bench: Bench,
    bakeoff: std::process::Child,
    name: String,
}

impl LimitedRun {
    fn begin() -> Result<Self, SkipReason> {
        let bench =
            watched::bench(", limits: {cpu: 0.5}", "{clients: 2, warmup: 0s, stop: {after: 60s}}");
        let mut bakeoff = bench.command().stderr(std::process::Stdio::null()).spawn().unwrap();
        let name = format!("bakeoff-{}", bakeoff.id());
        let give_up = Instant::now() + Duration::from_secs(20);
        while groups_named(&name).is_empty() {
            if Instant::now() > give_up {
                bakeoff.kill().and_then(|()| bakeoff.wait()).unwrap();
                return Err(SkipReason::Machine("no cgroup can be made here".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { bench, bakeoff, name })
    }

    fn killed(mut self) -> (Bench, String) {
        self.bakeoff.kill().and_then(|()| self.bakeoff.wait()).unwrap();
        crate::support::nothing_runs_in(self.bench.path());
        (self.bench, self.name)
    }
}

fn cgroups_of_a_killed_run_go_with_its_warden() -> Result<(), SkipReason> {
    let (_bench, name) = LimitedRun::begin()?.killed();
    let gone = || groups_named(&name).is_empty();
    crate::support::wait_for("the end of the cgroups", Duration::from_secs(10), gone);
    Ok(())
}

fn cgroups_of_a_killed_run_and_warden_go_with_the_next() -> Result<(), SkipReason> {
    let confined = LimitedRun::begin()?;
    let parent = format!(" {} ", confined.bakeoff.id());
    let is_warden = |stat: &String| stat.contains("(bakeoff-warden)") && stat.contains(&parent);
    let stats = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
    let warden = stats.filter(is_warden).find_map(|stat| stat.split(' ').next()?.parse().ok());
    let warden = rustix::process::Pid::from_raw(warden.expect("it has a warden")).unwrap();
    rustix::process::kill_process(warden, rustix::process::Signal::KILL).unwrap();
    let (_bench, name) = confined.killed();
    assert!(!groups_named(&name).is_empty(), "nothing has removed them yet");
    let next = watched::bench(", limits: {cpu: 0.5}", "{clients: 2, stop: {operations: 10}}");
    let null = std::process::Stdio::null;
    let next = next.command().stdout(null()).stderr(null()).spawn().unwrap();
    let next_name = format!("bakeoff-{}", next.id());
    assert!(next.wait_with_output().unwrap().status.success());
    assert_eq!(groups_named(&name), Vec::<std::path::PathBuf>::new());
    assert_eq!(groups_named(&next_name), Vec::<std::path::PathBuf>::new());
    Ok(())
}

/// Compares our percentiles of a run's histograms with those of HdrHistogram's Go library.
fn histograms_are_read_by_the_go_library() -> Result<(), SkipReason> {
    const PROGRAM: &str = r#"
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		h, err := hdrhistogram.Decode(lines.Bytes())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		// It rounds ranks, while others take the next whole one, so the test accepts adjacent ranks.
		rank := 100 / float64(h.TotalCount())
		around := func(q float64) (int64, int64) {
			return h.ValueAtQuantile(q - rank), h.ValueAtQuantile(q + rank)
		}
		a, b := around(50)
		c, d := around(99)
		fmt.Println(h.TotalCount(), a, b, c, d, h.Max(), h.Max())
	}
}
"#;
    if !has("go") {
        return Err(SkipReason::Machine("go not found".to_owned()));
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("main.go"), PROGRAM).unwrap();
    let go = |arguments: &[&str]| {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(dir.path()).env("GOFLAGS", "-mod=mod");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for arguments in
        [&["mod", "init", "reads"][..], &["get", "github.com/HdrHistogram/hdrhistogram-go@v1.1.2"]]
    {
        let ran = CommandOutput::from_output(go(arguments).wait_with_output().unwrap());
        if ran.code != Some(0) {
            assert_eq!(arguments[0], "get", "{}", ran.stderr);
            let why = format!("the Go library is not available: {}", ran.stderr);
            return Err(SkipReason::Program(why));
        }
    }

    // Our percentiles, from the report.
    let out = tempfile::tempdir().unwrap();
    let mut demo = bakeoff();
    demo.args(["run", "demo", "--trials", "1", "--out"]).arg(out.path());
    CommandOutput::run(&mut demo).ends_with(0);
    let run = &folders(out.path())[0];
    let ran = CommandOutput::run(bakeoff().arg("report").arg(run).arg("--json")).ends_with(0);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let mut ours = Vec::new();
    for system in array(&report["comparisons"][0]["systems"]) {
        for trial in array(&system["trials"]) {
            ours.push((trial["number"].as_u64().unwrap(), trial.clone()));
        }
    }
    let lines = record(run);
    let trials = lines.iter().filter(|line| line["line"] == "trial");
    let hdrs: Vec<(u64, &str)> = trials
        .map(|line| {
            let number = line["trial"]["number"].as_u64().unwrap() + 1;
            let put = &line["stages"][0]["measurement"]["operations"]["put"];
            (number, text(&put["response"]["hdr"]))
        })
        .collect();
    assert_eq!(hdrs.len(), 2);
    let mut child = go(&["run", "."]);
    let input: String = hdrs.iter().map(|(_, hdr)| format!("{hdr}\n")).collect();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let theirs = CommandOutput::from_output(child.wait_with_output().unwrap()).ends_with(0).stdout;
    assert_eq!(theirs.lines().count(), 2);
    for ((number, hdr), line) in hdrs.iter().zip(theirs.lines()) {
        assert!(base64::engine::general_purpose::STANDARD.decode(hdr).is_ok());
        let read: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let (_, trial) = ours.iter().find(|(of, _)| of == number).expect("the same trials");
        assert_eq!(read[0], figure(trial, "requests_verified"));
        let figures = ["response_p50_ms", "response_p99_ms", "response_max_ms"];
        for (name, theirs) in figures.into_iter().zip(read[1..].chunks(2)) {
            let ours = figure(trial, name);
            let (least, most) = (theirs[0] / 1e6, theirs[1] / 1e6);
            let width = ours / 500.0;
            let same = (least - width..=most + width).contains(&ours);
            assert!(same, "{name}: {ours} and {least} to {most} ms");
        }
    }
    Ok(())
}
