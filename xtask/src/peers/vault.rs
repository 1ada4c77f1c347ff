//! Runs `cargo xtask peers vault`: compares vault-benchmark or benchmark-openbao with `bakeoff vault-benchmark`.
//!
//! Compares the cost of the generator: user and system CPU time of the whole process per request. Then compares the
//! requests of each test type in the server's audit log (`traffic`). The user supplies the original program, because
//! no package registry has it. The results are only printed.
//!
//! The server keeps all data in memory (`-dev`). With two CPUs, it has one and the generator the other. Each round
//! runs both tools in alternating order. A run counts if the server's counter agrees with the tool's number of
//! requests. Ratios are taken within a round.
//!
//! Not here: the server (`server`), the audit log (`traffic`).

mod server;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

use self::server::Server;
use super::measure::{self, Place, ResourceUse};
use super::summary::{Spread, table};
use super::{output_of, when_and_where};
use crate::Failure;

/// Largest accepted CPU time per request, relative to the original.
const CPU_RATIO_MAX: f64 = 0.4;
const WORKERS: u32 = 16;
/// Test types that both tools measure, without an audit device.
const MEASURED: [&str; 2] = ["kvv2_read", "kvv1_write"];
/// Secrets written during set-up. Few, so that the load dominates the measurement.
const SECRETS: u64 = 100;
/// Accepted number of requests outside of the load: mounts, checks, clean-up.
const ADJACENT: u64 = 100;

struct Options {
    original: PathBuf,
    server: Option<PathBuf>,
    /// Existing build of bakeoff to use.
    program: Option<PathBuf>,
    rounds: usize,
    seconds: u32,
    /// True to pin nothing to a CPU, for a machine with other work.
    shared: bool,
    cpu: bool,
    traffic: bool,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let (mut original, mut server, mut program) = (None, None, None);
        let (mut rounds, mut seconds) = (5, 5);
        let (mut only, mut shared) = (None, false);
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            let number = |text: &str| {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.ok_or(format!("`{word}` needs a number of at least 1"))
            };
            match word {
                "--original" => original = Some(PathBuf::from(value()?)),
                "--server" => server = Some(PathBuf::from(value()?)),
                "--program" => program = Some(PathBuf::from(value()?)),
                "--rounds" => rounds = number(value()?)? as usize,
                "--seconds" => seconds = number(value()?)?,
                "--only" => only = Some(*value()?),
                "--shared" => shared = true,
                _ => return Err(format!("unknown option `{word}` of `peers vault`")),
            }
        }
        if !matches!(only, None | Some("cpu" | "traffic")) {
            return Err("`--only` must be `cpu` or `traffic`".into());
        }
        let original =
            original.ok_or("give vault-benchmark or benchmark-openbao with `--original PATH`")?;
        let wants = |what| only.is_none_or(|only| only == what);
        let (cpu, traffic) = (wants("cpu"), wants("traffic"));
        Ok(Self { original, server, program, rounds, seconds, shared, cpu, traffic })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Theirs,
    Ours,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    used: ResourceUse,
    requests: u64,
    /// Share of successful requests, 0 to 1.
    success: f64,
    per_second: f64,
}

impl Run {
    fn cpu_us(&self) -> f64 {
        self.used.cpu().as_secs_f64() * 1e6 / self.requests as f64
    }
}

/// Programs and settings for all runs.
struct Stand {
    original: PathBuf,
    bakeoff: PathBuf,
    server: PathBuf,
    scratch: tempfile::TempDir,
    allowed: CpuSet,
    /// CPUs of the server and the generator; `None` on a machine with one CPU.
    cpus: Option<(usize, usize)>,
}

pub(crate) fn compare(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let bakeoff = match &options.program {
        Some(program) => program.clone(),
        None => super::built(["--bin", "bakeoff"])?,
    };
    let server = match &options.server {
        Some(server) => server.clone(),
        None => super::installed(&bakeoff, "vault", "vault")?.0,
    };
    let allowed = sched_getaffinity(None).map_err(|error| format!("cannot read CPUs: {error}"))?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let cpus = cpus.next().zip(cpus.next()).filter(|_| !options.shared);
    let scratch = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let original = options.original.clone();
    let stand = Stand { original, bakeoff, server, scratch, allowed, cpus };
    println!("{}\n", stand.machine()?);
    let mut missed = Vec::new();
    if options.cpu {
        missed.extend(stand.compare_cpu(&options)?);
    }
    if options.traffic {
        missed.extend(traffic::compare(&stand)?);
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n  ")) }
}

impl Stand {
    /// Describes date, machine and versions.
    fn machine(&self) -> Result<String, Failure> {
        let place = when_and_where(&self.allowed)?;
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let bakeoff = output_of(&self.bakeoff.to_string_lossy(), &["--version"])?;
        let server = first(output_of(&self.server.to_string_lossy(), &["version"])?);
        let pinned = match self.cpus {
            Some(_) => "the server on one, the generator on another",
            None => "shared by the server and the generator",
        };
        let name = self.original_name();
        Ok(format!("Measured on {place} ({pinned}); {bakeoff}, {name}, {server} with `-dev`."))
    }

    fn original_name(&self) -> String {
        self.original.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Measures the CPU time. Returns the missed bounds.
    fn compare_cpu(&self, options: &Options) -> Result<Vec<Failure>, Failure> {
        let mut missed = Vec::new();
        let name = self.original_name();
        for kind in MEASURED {
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for round in 0..options.rounds {
                let mut order = [Tool::Theirs, Tool::Ours];
                if round % 2 == 1 {
                    order.reverse();
                }
                for tool in order {
                    let run = self.run(tool, kind, options.seconds)?;
                    say(kind, round, if tool == Tool::Ours { "bakeoff" } else { &name }, &run);
                    match tool {
                        Tool::Theirs => theirs.push(run),
                        Tool::Ours => ours.push(run),
                    }
                }
            }
            let ratio = ratio(&theirs, &ours);
            println!("\n{}\n", results(kind, &name, &theirs, &ours, ratio));
            if ratio.median > CPU_RATIO_MAX {
                missed.push(format!(
                    "CPU per request of `{kind}` is {:.2} of {name}'s; the bound is {CPU_RATIO_MAX}",
                    ratio.median
                ));
            }
            for run in ours.iter().filter(|run| run.success < 1.0) {
                missed.push(format!("success of `{kind}` was {:.4}", run.success));
            }
        }
        Ok(missed)
    }

    /// Runs a tool against a new server.
    fn run(&self, tool: Tool, kind: &str, seconds: u32) -> Result<Run, Failure> {
        measure::pin(self.cpus.map(|(server, _)| server), &self.allowed)?;
        let server = Server::start(&self.server);
        measure::pin(None, &self.allowed)?;
        let server = server?;
        let file = self.scratch.path().join("test.hcl");
        let text = format!(
            "duration = \"{seconds}s\"\nworkers = {WORKERS}\ncleanup = true\ntest \"{kind}\" \"{kind}\" {{\n  \
             weight = 100\n  config {{\n    numkvs = {SECRETS}\n  }}\n}}\n"
        );
        std::fs::write(&file, text).map_err(|error| format!("cannot write a test: {error}"))?;
        let before = server.handled()?;
        let place = Place {
            cpu: self.cpus.map(|(_, generator)| generator),
            allowed: &self.allowed,
            codes: &[0],
        };
        let log = self.scratch.path().join("tool.log");
        let (used, output) = place.run(self.command(tool, &server, &file), &log)?;
        let run = read(&output, kind, used)?;
        let counted = server.handled()? - before;
        honest(tool, run.requests, counted)?;
        Ok(run)
    }

    /// Returns the command of a tool with a file and a server. The token goes into its environment.
    fn command(&self, tool: Tool, server: &Server, file: &Path) -> Command {
        let mut command = match tool {
            Tool::Theirs => Command::new(&self.original),
            Tool::Ours => {
                let mut command = Command::new(&self.bakeoff);
                command.arg("vault-benchmark");
                command
            }
        };
        command.arg("run").arg(format!("-config={}", file.display())).arg("-report_mode=json");
        server::without_variables(&mut command);
        command.env("VAULT_ADDR", server.url()).env("VAULT_TOKEN", server::TOKEN);
        command.env("HOME", self.scratch.path());
        command
    }
}

/// Parses the JSON report, which has the same format in both tools.
fn read(output: &str, kind: &str, used: ResourceUse) -> Result<Run, Failure> {
    let report: Value = serde_json::from_str(output.trim())
        .map_err(|error| format!("the report is not JSON: {error}\n  {output}"))?;
    let metrics = &report["metrics"][kind];
    let figure = |name: &str| metrics[name].as_f64();
    let run = metrics["requests"].as_u64().filter(|requests| *requests > 0).and_then(|requests| {
        Some(Run { used, requests, success: figure("success")?, per_second: figure("rate")? })
    });
    run.ok_or_else(|| format!("the report has no figures of `{kind}`:\n  {output}"))
}

/// Compares a tool's count with the server's.
fn honest(tool: Tool, requests: u64, counted: u64) -> Result<(), Failure> {
    let most = requests + SECRETS + ADJACENT + u64::from(WORKERS);
    if (requests..=most).contains(&counted) {
        return Ok(());
    }
    Err(format!("{tool:?} reported {requests} requests, but the server counted {counted}"))
}

fn say(kind: &str, round: usize, name: &str, run: &Run) {
    println!(
        "{kind} {}: {name}: {:.1} us of CPU per request, {:.0}/s, success {:.2} %, {} MiB",
        round + 1,
        run.cpu_us(),
        run.per_second,
        run.success * 100.0,
        run.used.rss_bytes_max >> 20,
    );
}

/// Returns the ratio of CPU per request, ours to theirs, within each round.
fn ratio(theirs: &[Run], ours: &[Run]) -> Spread {
    Spread::measure(theirs.iter().zip(ours).map(|(theirs, ours)| ours.cpu_us() / theirs.cpu_us()))
}

fn results(kind: &str, name: &str, theirs: &[Run], ours: &[Run], ratio: Spread) -> String {
    let both = |what: &str, decimals: usize, of: fn(&Run) -> f64| {
        let text = |runs: &[Run]| Spread::measure(runs.iter().map(of)).text(decimals);
        vec![what.to_owned(), text(theirs), text(ours)]
    };
    let rows = [
        both("CPU per request, whole process, µs", 1, Run::cpu_us),
        both("of it user, µs", 1, |run| run.used.user.as_secs_f64() * 1e6 / run.requests as f64),
        both("requests per second", 0, |run| run.per_second),
        both("success, %", 2, |run| run.success * 100.0),
        both("most memory, MiB", 1, |run| run.used.rss_bytes_max as f64 / f64::from(1 << 20)),
    ];
    let verdict = if ratio.median <= CPU_RATIO_MAX { "kept" } else { "**missed**" };
    format!(
        "`{kind}`, {WORKERS} workers, no audit device, {} runs of each, median (least–most):\n\n{}\n\n\
         bakeoff's CPU time per request is **{}** of {name}'s, taken within rounds. The bound of \
         {CPU_RATIO_MAX} is {verdict}.",
        theirs.len(),
        table(&["", name, "bakeoff"], &rows),
        ratio.text(2),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn original_is_required_and_unknown_options_are_refused() {
        assert!(Options::read(&[]).is_err());
        assert!(Options::read(&["--original", "x", "--rounds", "0"]).is_err());
        assert!(Options::read(&["--original", "x", "--only", "all"]).is_err());
        assert!(Options::read(&["--original"]).is_err());
        let options = Options::read(&["--original", "x", "--only", "cpu"]).expect("words");
        assert_eq!((options.cpu, options.traffic, options.rounds), (true, false, 5));
    }

    #[test]
    fn count_that_differs_from_the_servers_is_refused() {
        assert_eq!(honest(Tool::Ours, 5000, 5110), Ok(()));
        assert!(honest(Tool::Ours, 5000, 4999).is_err());
        assert!(honest(Tool::Ours, 5000, 5300).is_err());
    }

    #[test]
    fn reads_reports_and_takes_ratios_within_rounds() {
        let report = r#"{"metrics":{"k":{"requests":4,"success":0.5,"rate":2.5}}}"#;
        let used = |us| ResourceUse { user: Duration::from_micros(us), ..ResourceUse::default() };
        let run = |us| read(report, "k", used(us)).expect("a report");
        assert_eq!((run(8).requests, run(8).success, run(8).cpu_us()), (4, 0.5, 2.0));
        assert!(read(report, "other", used(1)).is_err());
        assert!(read("no", "k", used(1)).is_err());
        let ratio = ratio(&[run(40), run(40), run(10)], &[run(10), run(20), run(10)]);
        assert_eq!(ratio, Spread { median: 0.5, min: 0.25, max: 1.0 });
    }
}
