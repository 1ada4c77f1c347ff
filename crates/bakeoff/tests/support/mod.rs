//! Runs the built binary as a user would, and reads its results.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "a test waits by the clock for what it looks at")]

pub(crate) mod canary;
pub(crate) mod case;
pub(crate) mod certificates;
pub(crate) mod debian;
pub(crate) mod excuse;
pub(crate) mod go_tool;
pub(crate) mod held;
pub(crate) mod hostile;
pub(crate) mod hosts;
pub(crate) mod http2;
pub(crate) mod kubernetes;
pub(crate) mod schema;
pub(crate) mod semaphore;
pub(crate) mod skip;
pub(crate) mod under_way;
pub(crate) mod vault;
pub(crate) mod watched;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rustix::net::Shutdown;
use serde_json::Value;
use tempfile::TempDir;

/// Audits that a trial with writes must pass.
pub(crate) const AUDITS: [&str; 2] = ["after the load", "after kill -9 and restart of all nodes"];

/// A study of three nodes that takes seconds, for runs on other machines.
pub(crate) const SMALL_ETCD: &str = "\
title: etcd on machines of its own
systems:
  etcd: {kind: etcd, nodes: 3}
workloads:
  mixed: {mix: {put: 1, get: 1}, keys: {count: 1000, order: uniform}, values: {size: 64}, fill: true}
loads:
  steady: {clients: 8, warmup: 500ms, stop: {after: 2s}}
trials: 1
";

/// Faults on machines of their own. Other lines with faults may follow.
pub(crate) const FAULTY_ETCD: &str = "\
title: etcd breaks on machines of its own
systems:
  etcd: {kind: etcd, nodes: 3}
workloads:
  mixed: {mix: {put: 1, get: 1}, keys: {count: 200}, values: {size: 64}}
loads:
  steady: {rate: 100/s, clients: 6, warmup: 500ms, timeout: 2s, stop: {after: 8s}}
trials: 1
faults:
  paused: {pause: leader, at: 1s, for: 3s}
  killed: {kill: leader, at: 1s, restart-after: 3s}
  rolling: {restart: each, at: 1s, every: 1s}
";

/// Expects that all injections of a trial are proven and lost nothing, and returns the names of their faults.
pub(crate) fn proven_faults(trial: &Value) -> BTreeSet<&str> {
    let injections = array(&trial["injections"]).iter();
    injections
        .map(|injection| {
            let fault = text(&injection["fault"]);
            assert!(injection["unproven"].is_null(), "{fault}: {}", injection["unproven"]);
            assert_eq!(injection["audit"]["verdict"]["verdict"], "passed", "{fault}: {injection}");
            fault
        })
        .collect()
}

/// Reports a skipped test.
pub(crate) fn skipped(why: &str) {
    skip::report("skipped", why);
}

/// Environment variable for the maximum time of the machine baseline. Tests of other things shorten it.
pub(crate) const BASELINE_FOR: &str = "BAKEOFF_BASELINE_FOR";
/// Value for tests of other things.
pub(crate) const BRIEFLY: &str = "30ms";

/// Returns bakeoff without a terminal, on a machine marked as shared with other tests.
pub(crate) fn bakeoff() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.stdin(Stdio::null()).env("BAKEOFF_SHARED_MACHINE", "1").env(BASELINE_FOR, BRIEFLY);
    // The tests themselves may run on GitHub Actions, or in a terminal that exports its width.
    command.env_remove("GITHUB_ACTIONS").env_remove("COLUMNS");
    command
}

/// Returns a command that a shell script starts as `"$@"`, as root of a new user namespace. `options`: for `unshare`.
pub(crate) fn unshared(options: &[&str], script: &str, command: &Command) -> Command {
    let mut unshared = Command::new("unshare");
    unshared.args(["--user", "--map-root-user"]).args(options).args(["sh", "-c", script, "sh"]);
    unshared.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshared.env(name, value),
            None => unshared.env_remove(name),
        };
    }
    unshared
}

/// Checks that this machine runs a command of `unshare`.
pub(crate) fn can_unshare(command: &mut Command) -> Result<(), String> {
    let ran = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    match ran.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err("`unshare` makes no namespace here".to_owned()),
    }
}

/// Kinds of namespaces, as the kernel's limits name them.
pub(crate) const NETWORKS: &str = "net";
pub(crate) const MOUNTS: &str = "mnt";

/// Returns a command in a user namespace that may make no namespace of this kind.
pub(crate) fn without_namespaces(kind: &str, command: &Command) -> Command {
    let script = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces && exec \"$@\"");
    unshared(&[], &script, command)
}

/// Checks that this machine runs such a command.
pub(crate) fn can_refuse_namespaces(kind: &str) -> Result<(), String> {
    can_unshare(&mut without_namespaces(kind, &Command::new("true")))
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Folders of the runs that it may have written.
    pub(crate) runs: Vec<PathBuf>,
}

impl CommandOutput {
    pub(crate) fn run(command: &mut Command) -> Self {
        let ran = Self::from_output(command.output().expect("bakeoff can be started"));
        Self { runs: excuse::runs_of(command), ..ran }
    }

    pub(crate) fn from_output(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            runs: Vec::new(),
        }
    }

    /// Fails the test with the full output unless the command ended with this code. For 0 it excuses trials that other
    /// work on the machine spoilt, as their samples show.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        if self.code == Some(code) {
            return self;
        }
        let excused = match (code, self.code) {
            (0, Some(1)) => self.excused(),
            _ => Err("another exit code".to_owned()),
        };
        if let Err(why) = excused {
            panic!(
                "ended with {:?} and not with {code}: {why}; stdout:\n{}\nstderr:\n{}",
                self.code, self.stdout, self.stderr
            );
        }
        self
    }

    /// Excuses the invalid trials of the command's run.
    fn excused(&self) -> Result<(), String> {
        match serde_json::from_str::<Value>(&self.stdout) {
            Ok(report) => excuse::excuse_report(&report, &self.runs),
            Err(_) => {
                let mut runs = self.stdout.lines().filter_map(|line| line.strip_prefix("Run: "));
                let run = runs.next().ok_or("no run, so no record")?;
                excuse::excuse_run(Path::new(run))
            }
        }
    }

    /// Fails the test unless standard error contains each of these.
    #[track_caller]
    pub(crate) fn complains(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in:\n{}", self.stderr);
        }
        self
    }
}

/// A folder with a study and its runs.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new(study: &str) -> Self {
        let dir = tempfile::tempdir().expect("there is room for a test");
        std::fs::write(dir.path().join("study.yaml"), study).expect("a study can be written");
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn study(&self) -> PathBuf {
        self.dir.path().join("study.yaml")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// Returns `bakeoff run STUDY --out OUT --seed 7`, for more arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = bakeoff();
        command.arg("run").arg(self.study()).arg("--out").arg(self.out()).args(["--seed", "7"]);
        command
    }

    /// Runs the study to its end. Its output and files must match the schema::
    pub(crate) fn run(self) -> Run {
        self.run_with(&[])
    }

    /// Runs the study to its end, with these further arguments.
    pub(crate) fn run_with(self, words: &[&str]) -> Run {
        let mut command = self.command();
        command.args(words);
        self.run_by(command)
    }

    /// Runs the study to its end by a command that takes bakeoff's arguments.
    pub(crate) fn run_by(self, mut command: Command) -> Run {
        let ran = CommandOutput::run(command.arg("--json"));
        let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| {
            panic!("standard output is no JSON: {error}\n{}\nstderr:\n{}", ran.stdout, ran.stderr)
        });
        self.verifies();
        schema::allow("run", &report);
        self.runs()
            .iter()
            .flat_map(|run| record(run))
            .for_each(|line| schema::allow("record", &line));
        Run { report, ran, bench: self }
    }

    /// Checks that `bakeoff verify` accepts the runs in this folder, and that their records name no path of theirs.
    #[track_caller]
    pub(crate) fn verifies(&self) {
        for run in self.runs() {
            let text = std::fs::read_to_string(run.join("record.jsonl")).unwrap_or_default();
            let path = format!("{}/", run.display());
            let named = text.lines().find(|line| line.contains(&path));
            assert!(named.is_none(), "a record names its own path: {named:?}");
            let verified = CommandOutput::run(bakeoff().arg("verify").arg(&run));
            assert_eq!(verified.code, Some(0), "{}\n{}", verified.stdout, verified.stderr);
        }
    }

    /// Returns the folders of the runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        folders(&self.out())
    }

    /// Waits until the only run has `least` trials in its record, and returns its folder.
    pub(crate) fn has_trials(&self, least: usize) -> PathBuf {
        let trials = |run: &Path| {
            let text = std::fs::read_to_string(run.join("record.jsonl")).unwrap_or_default();
            text.matches("{\"line\":\"trial\"").count()
        };
        wait_for("a trial", Duration::from_secs(60), || {
            self.runs().first().is_some_and(|run| trials(run) >= least)
        });
        self.runs().remove(0)
    }

    /// Returns the lines of the only run's record.
    pub(crate) fn record(&self) -> Vec<Value> {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        record(&runs[0])
    }
}

/// Returns the folders in a folder, sorted; none if it does not exist.
pub(crate) fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}

/// Returns the lines of a record without an incomplete last one.
pub(crate) fn record(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("record.jsonl")).expect("a run has a record");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A finished run.
pub(crate) struct Run {
    pub(crate) report: Value,
    pub(crate) ran: CommandOutput,
    pub(crate) bench: Bench,
}

impl Run {
    pub(crate) fn trials(&self) -> Vec<&Value> {
        trials(&self.report)
    }

    /// Returns true if other work on the machine spoilt this trial, and false if it is valid.
    ///
    /// # Errors
    /// Returns the reason why the trial is invalid, if its samples show no such work.
    pub(crate) fn excused(&self, trial: &Value) -> Result<bool, String> {
        let runs = self.bench.runs();
        excuse::excuse_trial(runs.last().expect("it was run"), trial)
    }

    /// Does the same as [`Self::excused`]. Fails the test in place of an error.
    #[track_caller]
    pub(crate) fn excuses(&self, trial: &Value) -> bool {
        let excused = self.excused(trial);
        excused.unwrap_or_else(|why| panic!("{why}\n{trial}\n{}", self.ran.stderr))
    }

    /// Fails the test unless the run succeeded, as in [`CommandOutput::ends_with`].
    #[track_caller]
    pub(crate) fn ended_well(self) -> Self {
        Self { ran: self.ran.ends_with(0), ..self }
    }

    /// Returns the only trial.
    #[track_caller]
    pub(crate) fn trial(&self) -> &Value {
        let trials = self.trials();
        assert_eq!(trials.len(), 1, "{}", self.ran.stderr);
        trials[0]
    }

    /// Returns the reasons why the only trial is invalid, as one text; empty if it is valid.
    #[track_caller]
    pub(crate) fn invalid_because(&self) -> String {
        reasons(self.trial()).join("\n")
    }

    /// Returns a figure of the only trial; 0 if absent.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> f64 {
        figure(self.trial(), name)
    }

    /// Returns the verdict of the only trial's audit: `passed`, `failed` or `not-checked`.
    #[track_caller]
    pub(crate) fn audit(&self, when: &str) -> &str {
        audit(self.trial(), when)
    }

    pub(crate) fn record(&self) -> Vec<Value> {
        self.bench.record()
    }
}

/// Returns all trials of a report.
pub(crate) fn trials(report: &Value) -> Vec<&Value> {
    let systems = array(&report["comparisons"]).iter().flat_map(|one| array(&one["systems"]));
    systems.flat_map(|system| array(&system["trials"])).collect()
}

/// Returns the reasons why a trial is invalid; empty if it is valid.
pub(crate) fn reasons(trial: &Value) -> Vec<String> {
    array(&trial["invalid_because"]).iter().map(|why| text(why).to_owned()).collect()
}

/// Returns a figure of a trial; 0 if absent.
pub(crate) fn figure(trial: &Value, name: &str) -> f64 {
    trial["figures"][name].as_f64().unwrap_or(0.0)
}

/// Returns the verdict of a trial's audit; `absent` without one.
pub(crate) fn audit<'a>(trial: &'a Value, when: &str) -> &'a str {
    let found = array(&trial["audits"]).iter().find(|audit| audit["when"] == when);
    found.map_or("absent", |audit| text(&audit["verdict"]["verdict"]))
}

pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Polls until `holds` returns true; fails the test after `within`.
#[track_caller]
pub(crate) fn wait_for(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < give_up, "{what} did not come to be within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the processes with this folder in their command line, environment or working directory.
pub(crate) fn processes_of(dir: &Path) -> Vec<String> {
    let needle = dir.as_os_str().as_encoded_bytes();
    let holds = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("this is Linux").flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if name.parse::<u32>().is_ok_and(|pid| pid != std::process::id()) {
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let (cmdline, environ) = (read("cmdline"), read("environ"));
            let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            if holds(&cmdline) || holds(&environ) || cwd.starts_with(dir) {
                let words = String::from_utf8_lossy(&cmdline).replace('\0', " ");
                found.push(format!("{name}: {words}"));
            }
        }
    }
    found
}

/// Fails the test if processes of this folder still run. Waits a while, because a killed process takes a moment to end.
#[track_caller]
pub(crate) fn nothing_runs_in(dir: &Path) {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let left = processes_of(dir);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < give_up, "still running: {left:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns `PATH` with the tested bakeoff's folder first.
pub(crate) fn path_to_ours() -> std::ffi::OsString {
    let ours = Path::new(env!("CARGO_BIN_EXE_bakeoff")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([ours].into_iter().chain(std::env::split_paths(&others))).unwrap()
}

/// Returns true if `PATH` has a program of this name.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Decodes a distribution from a record or result.
#[track_caller]
pub(crate) fn decode(packed: &Value) -> Histogram<u64> {
    let bytes = STANDARD.decode(text(&packed["hdr"])).unwrap();
    Deserializer::new().deserialize(&mut &bytes[..]).unwrap()
}

/// Listens at its own loopback address, so that nothing else listens at its port afterwards.
pub(crate) fn listener_apart() -> TcpListener {
    static HOST: AtomicU8 = AtomicU8::new(1);
    let address = Ipv4Addr::new(127, 46, 3, HOST.fetch_add(1, Ordering::Relaxed));
    TcpListener::bind((address, 0)).expect("all of 127.0.0.0/8 is this machine's")
}

/// Closes a listener in all processes: a process that another test is starting may hold a copy until it executes its
/// program.
pub(crate) fn close_for_all(listener: TcpListener) {
    rustix::net::shutdown(&listener, Shutdown::Both).expect("it listens");
}

/// A shell that keeps a CPU busy until dropped.
pub(crate) struct Busy(Child);

impl Busy {
    /// Starts it with this command line, which ends in the shell's arguments.
    pub(crate) fn begin(words: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        command.spawn().map(Self).map_err(|error| format!("no busy loop: {error}"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}
