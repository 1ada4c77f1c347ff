//! Runs `cargo xtask peers kv`: compares etcd's own benchmark tool with bakeoff, put for put and event for event.
//!
//! bakeoff takes part twice: as a study (`bakeoff run`), and with the command line of etcd's tool (`bakeoff
//! etcd-benchmark`).
//!
//! Compares the cost of the generator: user and system CPU time of the whole process per put of a 256-byte key and a 1
//! KiB value, over 64 clients. Requests per second are shown too, but depend more on etcd and its disk than on either
//! tool. A second part compares the CPU time per event of 1,000 watchers, with the command line of etcd's tool.
//!
//! Each run has a new etcd of one node, so that no run inherits data. The tools alternate, and so does the order
//! within a round. With two CPUs, etcd has one and the generator the other. Go and bakeoff both adapt their threads to
//! their CPUs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bakeoff_core::record;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use super::etcd::{self, BENCHMARK_VERSION, Etcd};
use super::measure::{self, Place, ResourceUse};
use super::summary::{Spread, mib, table};
use super::{Comparison, output_of, when_and_where};
use crate::Failure;

/// Largest accepted CPU time per put, relative to the other tool.
const CPU_RATIO_MAX: f64 = 0.5;
/// Largest accepted memory with [`CLIENTS_MANY`] clients.
const RSS_BYTES_MAX: u64 = 64 << 20;
const CLIENTS: u32 = 64;
const CLIENTS_MANY: u32 = 1000;
const KEY_SIZE: u32 = 256;
const VALUE_SIZE: u32 = 1024;
const ROUNDS_MIN: usize = 5;
/// Streams of watchers, each with a hundred.
const STREAMS: u32 = 10;
const WATCHERS_OF_A_STREAM: u32 = 100;
const WATCHED_PUTS: u64 = 300;
const WATCHED_PUTS_PER_SECOND: u32 = 50;

struct Options {
    operations: u64,
    rounds: usize,
    dry: bool,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let mut options = Self { operations: 100_000, rounds: ROUNDS_MIN, dry: false };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut number = |least: u64| {
                let given = words.next().and_then(|text| text.parse().ok());
                given
                    .filter(|&given| given >= least)
                    .ok_or(format!("`{word}` needs a number of at least {least}"))
            };
            match word {
                "--operations" => options.operations = number(u64::from(CLIENTS_MANY))?,
                "--rounds" => options.rounds = number(ROUNDS_MIN as u64)? as usize,
                "--dry" => options.dry = true,
                _ => return Err(format!("unknown option `{word}` of `peers kv`")),
            }
        }
        Ok(options)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Theirs,
    /// `bakeoff run`.
    Ours,
    /// `bakeoff etcd-benchmark`.
    DropIn,
}

/// Tools that take part with watchers.
const WATCHING: [Tool; 2] = [Tool::Theirs, Tool::DropIn];

impl Tool {
    const ALL: [Self; 3] = [Self::Theirs, Self::Ours, Self::DropIn];

    fn name(self) -> &'static str {
        match self {
            Self::Theirs => "etcd's benchmark",
            Self::Ours => "bakeoff run",
            Self::DropIn => "bakeoff etcd-benchmark",
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Run {
    used: ResourceUse,
    /// Number of puts, or of events.
    count: u64,
    per_second: f64,
    /// CPU time during the load, without start and end. Only bakeoff reports it.
    load_cpu: Option<Duration>,
}

impl Run {
    /// Returns the CPU time per put or event in microseconds.
    fn cpu_us(&self) -> f64 {
        self.used.cpu().as_secs_f64() * 1e6 / self.count as f64
    }
}

/// Runs of the comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KvRuns {
    machine: String,
    /// Runs of [`Tool::ALL`] with 64 clients, one for each round.
    puts: [Vec<Run>; 3],
    /// One run of each tool with 1,000 clients.
    many: [Run; 3],
    /// Runs of etcd's tool and of bakeoff with its command line, with 1,000 watchers.
    events: [Vec<Run>; 2],
}

/// Programs and settings for all runs.
struct Stand {
    benchmark: PathBuf,
    bakeoff: PathBuf,
    etcd: PathBuf,
    scratch: tempfile::TempDir,
    allowed: CpuSet,
    /// CPUs of the server and the generator; `None` on a machine with one CPU.
    cpus: Option<(usize, usize)>,
    operations: u64,
}

pub(crate) fn compare(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let bakeoff = super::built(["--bin", "bakeoff"])?;
    let benchmark = etcd::benchmark()?;
    let (etcd, etcd_version) = etcd::server(&bakeoff)?;
    let allowed = sched_getaffinity(None).map_err(|error| format!("cannot read CPUs: {error}"))?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let cpus = cpus.next().zip(cpus.next());
    let scratch = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let operations = options.operations;
    let stand = Stand { benchmark, bakeoff, etcd, scratch, allowed, cpus, operations };

    let mut puts = [const { Vec::new() }; 3];
    let mut events = [const { Vec::new() }; 2];
    for round in 0..options.rounds {
        let name = format!("round {}", round + 1);
        for turn in 0..Tool::ALL.len() {
            let tool = Tool::ALL[(round + turn) % Tool::ALL.len()];
            let run = stand.run(tool, CLIENTS)?;
            say(&name, tool, "put", &run);
            puts[tool as usize].push(run);
        }
        for turn in 0..events.len() {
            let place = (round + turn) % events.len();
            let tool = WATCHING[place];
            let run = stand.run_watchers(tool)?;
            say(&name, tool, "event", &run);
            events[place].push(run);
        }
    }
    let many = Tool::ALL.map(|tool| {
        let run = stand.run(tool, CLIENTS_MANY)?;
        say("1000 clients", tool, "put", &run);
        Ok::<Run, Failure>(run)
    });
    let [theirs, ours, drop_in] = many;
    let many = [theirs?, ours?, drop_in?];
    let measured = KvRuns { machine: machine(&stand, &etcd_version)?, puts, many, events };
    println!("\n{}", measured.section());
    if !options.dry {
        measured.publish()?;
    }
    let missed = measured.missed();
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n  ")) }
}

impl Comparison for KvRuns {
    const NAME: &'static str = "kv";

    fn section(&self) -> String {
        let Self { machine, puts, many, events } = self;
        let [theirs, ours @ ..] = many;
        let results = results(puts, self.ratios());
        [machine.clone(), results, memory(theirs, ours), watching(events)].join("\n\n")
    }
}

impl KvRuns {
    /// Returns the CPU time per put of each tool of bakeoff, relative to etcd's tool.
    fn ratios(&self) -> [Spread; 2] {
        let [theirs, ours, drop_in] = &self.puts;
        [ratio(theirs, ours), ratio(theirs, drop_in)]
    }

    /// Describes the bounds that are missed.
    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (tool, (ratio, run)) in
            Tool::ALL[1..].iter().zip(self.ratios().iter().zip(&self.many[1..]))
        {
            let (name, rss) = (tool.name(), run.used.rss_bytes_max);
            if ratio.median > CPU_RATIO_MAX {
                missed.push(format!(
                    "{name}: CPU per put is {:.2} of etcd's tool; the bound is {CPU_RATIO_MAX}",
                    ratio.median
                ));
            }
            if rss >= RSS_BYTES_MAX {
                missed.push(format!(
                    "{name}: memory with {CLIENTS_MANY} clients is {} MiB; the bound is 64 MiB",
                    rss >> 20
                ));
            }
        }
        missed
    }
}

fn say(what: &str, tool: Tool, unit: &str, run: &Run) {
    println!(
        "{what}: {}: {:.1} us of CPU per {unit}, {:.0} {unit}s/s, {} MiB",
        tool.name(),
        run.cpu_us(),
        run.per_second,
        run.used.rss_bytes_max >> 20,
    );
}

/// Returns the ratio of CPU per put, ours to theirs: of the medians, with the range over single rounds.
fn ratio(theirs: &[Run], ours: &[Run]) -> Spread {
    let of = |runs: &[Run]| Spread::measure(runs.iter().map(Run::cpu_us));
    let rounds = theirs.iter().zip(ours).map(|(t, o)| o.cpu_us() / t.cpu_us());
    Spread { median: of(ours).median / of(theirs).median, ..Spread::measure(rounds) }
}

impl Stand {
    /// Runs a tool against a new etcd. Fails unless etcd counted exactly `puts`.
    fn counted(
        &self,
        puts: u64,
        run: impl FnOnce(&Etcd) -> Result<Run, Failure>,
    ) -> Result<Run, Failure> {
        measure::pin(self.cpus.map(|(server, _)| server), &self.allowed)?;
        let etcd = Etcd::start(&self.etcd)?;
        let before = etcd.puts()?;
        measure::pin(None, &self.allowed)?;
        let run = run(&etcd)?;
        let counted = etcd.puts()? - before;
        if counted == puts {
            return Ok(run);
        }
        Err(format!("{puts} puts were requested, but etcd counted {counted}"))
    }

    /// Runs a tool against a new etcd. Fails unless the tool and etcd both counted the requested puts.
    fn run(&self, tool: Tool, clients: u32) -> Result<Run, Failure> {
        // `bakeoff run` writes a key of its own first, to see that it may.
        let own = u64::from(tool == Tool::Ours);
        let run = self.counted(self.operations + own, |etcd| match self.command(tool) {
            Some(command) => self.run_tool(command, etcd, clients),
            None => self.run_ours(etcd, clients),
        })?;
        if run.count != self.operations {
            return Err(format!(
                "{} puts were requested, but {tool:?} counted {}",
                self.operations, run.count
            ));
        }
        Ok(run)
    }

    /// Runs watchers with a tool against a new etcd. Fails unless each watcher had an event for each put.
    fn run_watchers(&self, tool: Tool) -> Result<Run, Failure> {
        let command = self.command(tool).ok_or("a study does not take part")?;
        let run = self.counted(WATCHED_PUTS, |etcd| {
            let log = self.scratch.path().join("watchers.log");
            let (used, output) = self.place().run(watching_of(command, etcd), &log)?;
            let events = output.split("Watch events received summary:").nth(1);
            let (count, per_second) = read_theirs(events.ok_or("the tool reported no events")?)?;
            Ok(Run { used, count, per_second, load_cpu: None })
        })?;
        let expected = u64::from(STREAMS * WATCHERS_OF_A_STREAM) * WATCHED_PUTS;
        if run.count != expected {
            return Err(format!("{tool:?} counted {} events, not {expected}", run.count));
        }
        Ok(run)
    }

    /// Returns the command of etcd's tool, or of bakeoff with its command line; `None` for a study.
    fn command(&self, tool: Tool) -> Option<Command> {
        match tool {
            Tool::Theirs => Some(Command::new(&self.benchmark)),
            Tool::DropIn => {
                let mut command = Command::new(&self.bakeoff);
                command.arg("etcd-benchmark");
                Some(command)
            }
            Tool::Ours => None,
        }
    }

    fn place(&self) -> Place<'_> {
        Place {
            cpu: self.cpus.map(|(_, generator)| generator),
            allowed: &self.allowed,
            codes: &[0],
        }
    }

    /// Runs etcd's tool, or bakeoff with its command line.
    fn run_tool(&self, mut command: Command, etcd: &Etcd, clients: u32) -> Result<Run, Failure> {
        command
            .arg(format!("--endpoints={}", etcd.client))
            .arg(format!("--clients={clients}"))
            .arg(format!("--conns={clients}"))
            .arg("put")
            .arg(format!("--key-size={KEY_SIZE}"))
            .arg(format!("--val-size={VALUE_SIZE}"))
            .arg(format!("--total={}", self.operations))
            .arg(format!("--key-space-size={}", self.operations))
            .arg("--sequential-keys");
        let (used, output) = self.place().run(command, &self.scratch.path().join("theirs.log"))?;
        let (count, per_second) = read_theirs(&output)?;
        Ok(Run { used, count, per_second, load_cpu: None })
    }

    fn run_ours(&self, etcd: &Etcd, clients: u32) -> Result<Run, Failure> {
        let dir = tempfile::tempdir_in(self.scratch.path())
            .map_err(|error| format!("cannot make a folder: {error}"))?;
        let study = dir.path().join("peers.yaml");
        let (client, operations) = (etcd.client, self.operations);
        let text = format!(
            "title: etcd's benchmark tool and bakeoff\n\
             systems:\n  etcd: {{kind: etcd, endpoints: [\"http://{client}\"]}}\n\
             workloads:\n  create:\n    mix: {{put: 1}}\n    \
             keys: {{count: {operations}, size: {KEY_SIZE}, order: unique}}\n    \
             values: {{size: {VALUE_SIZE}}}\n\
             loads:\n  closed: {{clients: {clients}, stop: {{operations: {operations}}}}}\n\
             trials: 1\naudit-keys: 1\n"
        );
        std::fs::write(&study, text).map_err(|error| format!("cannot write a study: {error}"))?;
        let runs = dir.path().join("runs");
        let mut command = Command::new(&self.bakeoff);
        // Other machines' load disturbs all tools, which take turns.
        command.arg("run").arg(&study).arg("--out").arg(&runs).arg("--shared-machine");
        let (used, _) = self.place().run(command, &dir.path().join("ours.log"))?;
        read_ours(&runs, used)
    }
}

/// Adds the arguments of a load with watchers.
fn watching_of(mut command: Command, etcd: &Etcd) -> Command {
    command
        .arg(format!("--endpoints={}", etcd.client))
        .arg(format!("--clients={STREAMS}"))
        .arg(format!("--conns={STREAMS}"))
        .arg("watch")
        .arg(format!("--streams={STREAMS}"))
        .arg(format!("--watch-per-stream={WATCHERS_OF_A_STREAM}"))
        .arg(format!("--put-total={WATCHED_PUTS}"))
        .arg(format!("--put-rate={WATCHED_PUTS_PER_SECOND}"));
    command
}

/// Returns the number of answered puts or of events, and their rate, from the output of etcd's tool.
fn read_theirs(output: &str) -> Result<(u64, f64), Failure> {
    let unclear = |what: &str| format!("etcd's tool reported no {what}\n{output}");
    if output.contains("Error distribution:") {
        return Err(format!("etcd's tool reported errors\n{output}"));
    }
    let rate = output.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let rate = rate.and_then(|rate| rate.trim().parse().ok()).ok_or_else(|| unclear("rate"))?;
    // A bar of the histogram with its number of answers: `  0.0123 [456]      |∎∎∎`.
    let bars =
        output.split("Response time histogram:").nth(1).ok_or_else(|| unclear("histogram"))?;
    let bars = bars.split("Latency distribution:").next().unwrap_or_default();
    let counts = bars
        .lines()
        .filter_map(|line| line.split_once('[')?.1.split_once(']')?.0.parse::<u64>().ok());
    Ok((counts.sum(), rate))
}

fn read_ours(runs: &Path, used: ResourceUse) -> Result<Run, Failure> {
    let mut folders = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let run = folders.next().ok_or("bakeoff left no run")?.path();
    let text = std::fs::read_to_string(run.join("record.jsonl"))
        .map_err(|error| format!("cannot read bakeoff's record: {error}"))?;
    let (record, _) = record::read(&text).map_err(|complaint| complaint.to_string())?;
    let trial = record.trials.first().ok_or("bakeoff's record has no trial")?;
    let reasons = trial.invalid_because();
    if !reasons.is_empty() {
        return Err(format!("bakeoff's trial is not valid: {}", reasons.join("; ")));
    }
    let measurement = trial.measurement().ok_or("bakeoff measured nothing")?;
    Ok(Run {
        used,
        count: measurement.verified(),
        per_second: measurement.throughput().ok_or("bakeoff's window is empty")?,
        load_cpu: Some(measurement.generator_cpu),
    })
}

fn results([theirs, ours, drop_in]: &[Vec<Run>; 3], ratios: [Spread; 2]) -> String {
    let us = |runs: &[Run]| Spread::measure(runs.iter().map(Run::cpu_us)).text(1);
    let rate = |runs: &[Run]| Spread::measure(runs.iter().map(|run| run.per_second)).text(0);
    let load =
        ours.iter().filter_map(|run| Some(run.load_cpu?.as_secs_f64() * 1e6 / run.count as f64));
    let rows = [
        vec!["CPU per put, whole process, µs".into(), us(theirs), us(ours), us(drop_in)],
        vec![
            "CPU per put, while the load ran, µs".into(),
            "not reported".into(),
            Spread::measure(load).text(1),
            "not reported".into(),
        ],
        vec!["puts per second".into(), rate(theirs), rate(ours), rate(drop_in)],
        vec![
            "most memory, MiB".into(),
            most_memory(theirs),
            most_memory(ours),
            most_memory(drop_in),
        ],
    ];
    let [first, second, third] = Tool::ALL.map(Tool::name);
    let verdicts = Tool::ALL[1..].iter().zip(ratios).map(|(tool, ratio)| {
        let verdict = if ratio.median <= CPU_RATIO_MAX { "kept" } else { "**missed**" };
        format!(
            "The CPU time per put of `{}` is **{:.2}** of etcd's benchmark tool's (ratio of medians; in single \
             rounds {:.2} to {:.2}). The bound of {CPU_RATIO_MAX} is {verdict}.",
            tool.name(),
            ratio.median,
            ratio.min,
            ratio.max,
        )
    });
    format!(
        "{CLIENTS} clients, {} puts a run, {} runs of each, median (least–most):\n\n{}\n\n{}",
        theirs[0].count,
        theirs.len(),
        table(&["", first, second, third], &rows),
        verdicts.collect::<Vec<_>>().join("\n\n"),
    )
}

fn most_memory(runs: &[Run]) -> String {
    Spread::measure(runs.iter().map(|run| mib(run.used.rss_bytes_max))).text(1)
}

fn memory(theirs: &Run, ours: &[Run]) -> String {
    let of =
        |run: &Run| format!("{:.1} MiB and {:.1} µs", mib(run.used.rss_bytes_max), run.cpu_us());
    let own = Tool::ALL[1..].iter().zip(ours).map(|(tool, run)| {
        let verdict = if run.used.rss_bytes_max < RSS_BYTES_MAX { "kept" } else { "**missed**" };
        format!("`{}` took {}, so the bound of 64 MiB is {verdict}", tool.name(), of(run))
    });
    format!(
        "Memory and CPU time per put with {CLIENTS_MANY} clients, one run each: {}. etcd's benchmark tool took {}.",
        own.collect::<Vec<_>>().join("; "),
        of(theirs),
    )
}

fn watching([theirs, ours]: &[Vec<Run>; 2]) -> String {
    let us = |runs: &[Run]| Spread::measure(runs.iter().map(Run::cpu_us)).text(2);
    let rows = [
        vec!["CPU per event, whole process, µs".into(), us(theirs), us(ours)],
        vec!["most memory, MiB".into(), most_memory(theirs), most_memory(ours)],
    ];
    let [first, second] = WATCHING.map(Tool::name);
    let ratio = ratio(theirs, ours);
    format!(
        "{} watchers of one key on {STREAMS} streams, {WATCHED_PUTS_PER_SECOND} puts per second, {} events a run, {} runs \
         of each, median (least–most):\n\n{}\n\nThe CPU time per event of `{second}` is **{:.2}** of etcd's benchmark \
         tool's (in single rounds {:.2} to {:.2}). It includes the creation of the watchers. etcd's tool counts \
         the events; bakeoff verifies each.",
        STREAMS * WATCHERS_OF_A_STREAM,
        theirs[0].count,
        theirs.len(),
        table(&["", first, second], &rows),
        ratio.median,
        ratio.min,
        ratio.max,
    )
}

/// Describes date, machine and versions.
fn machine(stand: &Stand, etcd_version: &str) -> Result<String, Failure> {
    let place = when_and_where(&stand.allowed)?;
    let bakeoff = output_of(&stand.bakeoff.to_string_lossy(), &["--version"])?;
    let go = output_of("go", &["env", "GOVERSION"])?;
    let pinned = match stand.cpus {
        Some(_) => "etcd on one, the generator on another",
        None => "shared by etcd and the generator",
    };
    Ok(format!(
        "Measured on {place} ({pinned}); {bakeoff}, etcd {etcd_version} (one node, its own defaults), \
         etcd's benchmark tool {BENCHMARK_VERSION} built with {go}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\nSummary:\n  Total:\t1.2345 secs.\n  Requests/sec:\t8100.4455\n\n\
        Response time histogram:\n  0.0010 [1]\t|\n  0.0020 [98]\t|∎∎∎\n  0.0030 [1]\t|\n\n\
        Latency distribution:\n  10% in 0.0012 secs.\n";

    #[test]
    fn answers_are_counted_from_the_histogram_of_etcds_tool() {
        assert_eq!(read_theirs(SAID), Ok((100, 8100.4455)));
    }

    #[test]
    fn errors_of_etcds_tool_are_a_failure() {
        assert!(read_theirs(&format!("{SAID}\nError distribution:\n  [1]\tno\n")).is_err());
        assert!(read_theirs("nothing\n").is_err());
    }

    #[test]
    fn too_few_rounds_are_refused() {
        assert!(Options::read(&["--rounds", "4"]).is_err());
        assert_eq!(Options::read(&["--rounds", "7"]).map(|options| options.rounds), Ok(7));
        assert!(Options::read(&["--fast"]).is_err());
    }

    #[test]
    fn ratio_is_of_medians_with_the_range_of_rounds() {
        let run = |us: u64| Run {
            used: ResourceUse { user: Duration::from_micros(us), ..ResourceUse::default() },
            count: 1,
            per_second: 1.0,
            load_cpu: None,
        };
        let ratio = ratio(&[run(10), run(20), run(40)], &[run(5), run(4), run(10)]);
        assert_eq!(ratio, Spread { median: 0.25, min: 0.2, max: 0.5 });
    }
}
