//! Injects faults around an honest canary: no CPU, no cgroups, no disk, a stepped clock, a study that demands too much.
//! All are real, if this machine allows them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::http2::Http2;
use crate::support::{Bench, Busy, has, path_to_ours};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    Keys,
    Starved,
    Neighbour,
    Limits,
    Clock,
    Disk,
    Memory,
    Daemon,
    Descriptors,
    Flood,
}

/// A command to run, and processes next to it.
pub(crate) struct StagedCommand {
    pub(crate) bench: Bench,
    pub(crate) command: Command,
    /// Ended with the command.
    _adjacent: Vec<Busy>,
}

fn bench(more: &str, workload: &str, load: &str) -> Bench {
    Bench::new(&format!(
        "title: A canary\n\
         systems: {{canary: {{kind: canary{more}}}}}\n\
         workloads: {{work: {workload}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n"
    ))
}

/// Returns a study of bakeoff's own server, started by a shell after these words.
fn behind_a_shell(words: &str, load: &str) -> (Bench, Command) {
    let bench = Bench::new(&format!(
        "title: A service\n\
         systems:\n  canary:\n    kind: process\n    process:\n      command: [sh, -c, \"{words} exec bakeoff \
         __canary --listen 127.0.0.1:{{port}} --data {{dir}}/data\"]\n\
         workloads: {{work: {{mix: {{request: 1}}, request: {{path: /health}}}}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n"
    ));
    let mut command = bench.command();
    command.env("PATH", path_to_ours());
    (bench, command)
}

const READS: &str = "{mix: {get: 1}, keys: {count: 100}}";

/// Prepares the surroundings with or without the fault. The error is the reason why this machine cannot.
pub(crate) fn stage(how: Disturbance, faulty: bool) -> Result<StagedCommand, String> {
    let mut adjacent = Vec::new();
    let (bench, command) = match how {
        Disturbance::Keys => {
            let count = if faulty { 500 } else { 1_000_000 };
            let workload = format!("{{mix: {{put: 1}}, keys: {{count: {count}, order: unique}}}}");
            let bench = bench("", &workload, "{clients: 4, warmup: 0s, stop: {after: 1s}}");
            let command = bench.command();
            (bench, command)
        }
        Disturbance::Starved => {
            let bench =
                bench("", READS, "{clients: 20, rate: 400/s, warmup: 0s, stop: {after: 2s}}");
            // Nice enough that the kernel does not preempt a busy loop at each wake-up.
            let words = if faulty { "-c 0 nice -n 10" } else { "-c 0" };
            let command =
                behind(&["taskset", "nice"], &format!("taskset {words}"), bench.command())?;
            for _ in 0..if faulty { 2 } else { 0 } {
                adjacent.push(Busy::begin(&["taskset", "-c", "0", "sh"])?);
            }
            (bench, command)
        }
        Disturbance::Neighbour => {
            let bench = bench("", READS, "{clients: 4, rate: 100/s, stop: {after: 3s}}");
            if faulty {
                adjacent.push(Busy::begin(&["sh"])?);
            }
            let mut command = bench.command();
            command.env_remove("BAKEOFF_SHARED_MACHINE");
            (bench, command)
        }
        Disturbance::Limits => {
            let more = ", limits: {cpu: 0.5, memory: 256MiB}";
            let bench = bench(more, READS, "{clients: 4, stop: {operations: 1000}}");
            if !faulty {
                let command = bench.command();
                return Ok(StagedCommand { bench, command, _adjacent: adjacent });
            }
            // Foreign cgroup mounts cannot be unmounted, but hidden.
            let hide = "umount -R /sys/fs/cgroup || mount -t tmpfs tmpfs /sys/fs/cgroup";
            let command = apart(hide, ["", ""], &bench.command())?;
            (bench, command)
        }
        Disturbance::Clock => {
            let bench = bench("", READS, "{clients: 4, warmup: 0s, stop: {after: 3s}}");
            let mut command = bench.command();
            if faulty {
                command.env("BAKEOFF_CLOCK_STEP", "1s,-1h");
            }
            (bench, command)
        }
        Disturbance::Disk => {
            // 6 MiB/s into a log that is never truncated.
            let workload =
                "{mix: {put: 1}, keys: {count: 100}, values: {size: 65536}, fill: false}";
            let bench =
                bench("", workload, "{clients: 20, rate: 100/s, warmup: 0s, stop: {after: 4s}}");
            let out = bench.out();
            std::fs::create_dir(&out).expect("there is room for a test");
            let mount = format!("mount -t tmpfs -o size=2g tmpfs '{}'", out.display());
            // A run refuses to start on an almost full disk, so the disk shrinks once the load has begun.
            let shrink = format!(
                "until [ -n \"$(find '{out}' -name canary.log -size +1000k)\" ]; do sleep 0.1; done; \
                 mount -o remount,size=12m '{out}'",
                out = out.display()
            );
            let shrink = if faulty {
                format!("({shrink}) </dev/null >/dev/null 2>&1 &")
            } else {
                String::new()
            };
            let keep = format!(
                "mkdir '{kept}' && cd '{out}' && cp --parents */record.jsonl '{kept}'",
                kept = kept(&bench).display(),
                out = out.display()
            );
            let command = apart(&mount, [&shrink, &keep], &bench.command())?;
            (bench, command)
        }
        Disturbance::Memory => {
            may_limit()?;
            let limit = if faulty { "64MiB" } else { "2GiB" };
            let workload = "{mix: {put: 1}, keys: {count: 1000000, order: unique}, \
                            values: {size: 16KiB}, fill: false}";
            let load = "{clients: 8, timeout: 1s, warmup: 0s, stop: {after: 5s}}";
            let bench = bench(&format!(", limits: {{memory: {limit}}}"), workload, load);
            let command = bench.command();
            (bench, command)
        }
        Disturbance::Daemon => {
            // The grandchild is no descendant once its parent is gone.
            let words = if faulty { "(setsid sleep 60 &);" } else { "" };
            behind_a_shell(words, "{clients: 4, stop: {operations: 1000}}")
        }
        Disturbance::Descriptors => {
            let words = if faulty { "ulimit -n 24;" } else { "" };
            behind_a_shell(words, "{clients: 40, timeout: 500ms, warmup: 0s, stop: {after: 2s}}")
        }
        Disturbance::Flood => {
            let server = if faulty { Http2::flooding() } else { Http2::answering_together(1) };
            let bench = Bench::new(&format!(
                "title: A peer\n\
                 systems: {{canary: {{kind: http, endpoints: [\"http://{}\"]}}}}\n\
                 workloads: {{work: {{mix: {{request: 1}}, request: {{path: /, http2: true}}}}}}\n\
                 loads: {{load: {{clients: 2, timeout: 500ms, warmup: 0s, stop: {{after: 2s}}}}}}\n\
                 trials: 1\n",
                server.address
            ));
            let command = bench.command();
            (bench, command)
        }
    };
    Ok(StagedCommand { bench, command, _adjacent: adjacent })
}

/// Returns the reason why memory limits are not possible here.
fn may_limit() -> Result<(), String> {
    let places = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let place = places.iter().find(|place| std::path::Path::new(place).is_dir());
    let group = place.map(|place| format!("{place}/bakeoff-tests-{}", std::process::id()));
    let made = group.ok_or("there are no cgroups")?;
    std::fs::create_dir(&made).map_err(|error| format!("no cgroup of ours: {error}"))?;
    std::fs::remove_dir(&made).map_err(|error| format!("a cgroup stays: {error}"))
}

/// Prepends these words to a command, if the needed programs exist.
fn behind(needs: &[&str], words: &str, command: Command) -> Result<Command, String> {
    if let Some(absent) = needs.iter().find(|program| !has(program)) {
        return Err(format!("{absent} not found"));
    }
    let mut words = words.split(' ');
    let mut first = Command::new(words.next().unwrap_or_default());
    first.args(words);
    Ok(followed_by(first, &command))
}

fn followed_by(mut first: Command, then: &Command) -> Command {
    first.stdin(Stdio::null()).arg(then.get_program()).args(then.get_args());
    for (name, value) in then.get_envs() {
        match value {
            Some(value) => first.env(name, value),
            None => first.env_remove(name),
        };
    }
    first
}

/// Folder for the records of a run whose own folder vanishes with its file system.
pub(crate) fn kept(bench: &Bench) -> PathBuf {
    bench.path().join("kept")
}

/// Returns the command in its own mount namespace, after `mounts`. Shell commands run before and after it.
fn apart(mounts: &str, adjacent: [&str; 2], command: &Command) -> Result<Command, String> {
    let own = ["-m", "-Urm"].into_iter().find(|flags| {
        let tried = Command::new("unshare").args([flags, "sh", "-c", mounts]).output();
        tried.is_ok_and(|tried| tried.status.success())
    });
    let own = own.ok_or("mounting is not permitted here, not even in a new namespace")?;
    let [before, after] = adjacent;
    let script =
        format!("{{ {mounts}; }} >/dev/null 2>&1\n{before}\n\"$@\"\ncode=$?\n{after}\nexit $code");
    let mut unshared = Command::new("unshare");
    unshared.args([own, "sh", "-c", &script, "sh"]);
    Ok(followed_by(unshared, command))
}
