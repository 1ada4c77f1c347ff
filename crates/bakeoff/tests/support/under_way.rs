//! Provides a run in progress for a test.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Bench, wait_for};

/// A study of one canary that takes two minutes.
pub(crate) const LONG: &str = "\
title: A long one
systems:
  canary: {kind: canary, options: {sync: none}}
workloads:
  work: {mix: {put: 1}, keys: {count: 1000}}
loads:
  load: {clients: 2, rate: 200/s, warmup: 0s, stop: {after: 60s}}
trials: 2
";

/// A run in progress; killed when dropped.
pub(crate) struct UnderWay {
    pub(crate) bakeoff: Child,
    pub(crate) bench: Bench,
}

impl UnderWay {
    /// Starts a study and waits until its first trial is under load.
    pub(crate) fn start(study: &str) -> Self {
        let bench = Bench::new(study);
        let stderr = std::fs::File::create(bench.path().join("stderr")).unwrap();
        let mut command = bench.command();
        command.arg("--json").stdout(Stdio::piped()).stderr(stderr);
        let bakeoff = command.spawn().unwrap();
        let run = Self { bakeoff, bench };
        wait_for("a server", Duration::from_secs(60), || !run.servers().is_empty());
        run
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.bench.path().join("stderr")).unwrap()
    }

    /// Returns the processes whose working directory is in this run's trials.
    pub(crate) fn servers(&self) -> Vec<String> {
        let own = format!("{}:", self.bakeoff.id());
        let all = super::processes_of(&self.bench.out());
        all.into_iter().filter(|process| !process.starts_with(&own)).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.bakeoff), signal).unwrap();
    }

    /// Waits for the end, and returns exit code and standard output.
    pub(crate) fn ends_within(&mut self, within: Duration) -> (Option<i32>, String) {
        let mut code = None;
        wait_for("bakeoff's end", within, || {
            code = self.bakeoff.try_wait().unwrap();
            code.is_some()
        });
        let mut out = String::new();
        std::io::Read::read_to_string(self.bakeoff.stdout.as_mut().unwrap(), &mut out).unwrap();
        (code.and_then(|status| status.code()), out)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let _ = self.bakeoff.kill();
        let _ = self.bakeoff.wait();
    }
}
