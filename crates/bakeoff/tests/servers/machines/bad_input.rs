//! Tests unusable places files: rejected before anything starts, with the reason.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;

use super::{left_on, run, text};
use crate::support::hosts::Hosts;
use crate::support::skip::{SkipReason, SkippedTests};

pub(super) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![skipped.unless_lacking("machines::bad_places_are_refused_first", refused)]
}

const STUDY: &str = "\
title: Nothing of it is run
systems:
  canary: {kind: canary, options: {sync: none}, limits: {cpus: 0}}
workloads:
  work: {mix: {put: 1}, keys: {count: 1000}}
loads:
  load: {clients: 2, stop: {operations: 100}}
";

struct Bench {
    hosts: Hosts,
    places: String,
}

impl Bench {
    /// Runs with `of` replaced by `by` in the places file, and expects a rejection with this exit code and message.
    #[track_caller]
    fn check(&self, of: &str, by: &str, flags: &[&str], (code, words): (i32, &str)) {
        assert!(self.places.contains(of), "{of}\n{}", self.places);
        let file = self.hosts.dir().join("places.yaml");
        fs::write(&file, self.places.replacen(of, by, 1)).unwrap();
        let ended = run(&self.hosts, STUDY, &file, flags);
        let output = text(&ended);
        assert!(output.contains(words), "not `{words}`:\n{output}");
        assert_eq!(ended.status.code(), Some(code), "{output}");
        assert!(!output.contains("trial 1"), "{output}");
        assert_eq!(left_on(&self.hosts, &[1, 2]), Vec::<String>::new());
    }
}

fn refused() -> Result<(), SkipReason> {
    let hosts = Hosts::new(2)?;
    let places = fs::read_to_string(hosts.places(&[1], &[2])).unwrap();
    let bench = Bench { hosts, places };
    let hosts = &bench.hosts;
    bench.check("ssh: h2", "ssh: root@198.18.0.77", &[], (4, "cannot start the agent on `h2`"));
    bench.check("ssh: h2,", "ssh: h1,", &[], (2, "`h2` is the same machine as `h1`"));
    let wrong = "`198.18.0.77` is not an address of this machine";
    bench.check("address: 198.18.0.2", "address: 198.18.0.77", &[], (2, wrong));
    bench.check("/h2/data", "/h2/nowhere", &[], (4, "on `h2`: the data folder"));

    bench.check(
        "h1, ",
        "h1, cpus: [700], ",
        &[],
        (2, "is pinned to CPU 0, but `h1` gives CPUs 700"),
    );
    bench.check("h2, ", "h2, cpus: [700], ", &[], (4, "on `h2`: bakeoff cannot use CPU 700 there"));

    let tiny = hosts.own(1).join("tiny");
    fs::create_dir(&tiny).unwrap();
    let ssh = |words: &[&str]| {
        let mut command: Command = hosts.command("ssh");
        command.arg("-F").arg(hosts.config()).arg("h1").args(words);
        command
    };
    let mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", &tiny.display().to_string()];
    assert!(ssh(&mount).status().unwrap().success());
    let full = "1 MiB are free on the disk of `h1`";
    bench.check("/h1/data", "/h1/tiny", &[], (5, full));

    let other = hosts.dir().join("other-agent");
    let hello = r#"\000bakeoff agent\000\004\000\000\000\000\000\000\000\017{"protocol":99}"#;
    fs::write(&other, format!("#!/bin/sh\nprintf '{hello}'\nexec cat >/dev/null\n")).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = format!("agent: {}\nssh: [", other.display());
    bench.check("ssh: [", &agent, &[], (4, "speaks protocol version 99"));

    let canary = [env!("CARGO_BIN_EXE_bakeoff"), "__canary", "--listen", "198.18.0.1:23456"];
    let mut listener = ssh(&canary)
        .args(["--sync", "none", "--data", &hosts.own(1).join("canary").display().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(listener.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("listening")));
    bench.check("", "", &["--base-port", "23456"], (4, "port 23456"));
    listener.kill().unwrap();
    listener.wait().unwrap();
    Ok(())
}
