//! Runs `cargo xtask peers http`: compares other HTTP load tools with bakeoff, request for request.
//!
//! Compares the cost of the generator: user and system CPU time of the whole process per request, for a response of
//! six bytes. Also compares requests per second and peak memory. One NGINX has one CPU, and each tool in turn has
//! another. Each round runs all tools of a case once, and starts with a different tool. A disturbance usually lasts
//! longer than one run, so ratios are taken within a round, and their median is the result.
//!
//! A run counts if NGINX's counter agrees with the tool's number of requests.
//!
//! Not here: the tools (`tools`), the server (`nginx`), the bounds (`bounds`), the text (`document`), ten minutes at
//! full speed (`soak`).

mod bounds;
mod document;
pub(crate) mod nginx;
pub(super) mod soak;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use self::nginx::Nginx;
use self::tools::{Job, Tool, ToolFigures};
use super::Comparison;
use super::fetch::{Debian, Program};
use super::measure::{self, Place, ResourceUse};
use super::summary::Spread;
use crate::Failure;

const ROUNDS_MIN: usize = 5;
const CONNECTIONS_MANY: u32 = 10_000;
const SECONDS_MANY: u32 = 8;
const OPEN_RATE: u32 = 10_000;
/// Accepted difference between a tool's count and NGINX's: this share, or the requests in flight at the end, two per
/// connection.
const UNCLAIMED_MAX: f64 = 0.005;

#[derive(Debug)]
struct Options {
    seconds: u32,
    rounds: usize,
    only: Vec<Case>,
    dry: bool,
    realtime: bool,
    soak: Option<Duration>,
    /// Folder with `bakeoff` and `http_baseline` built elsewhere, perhaps with other settings.
    programs: Option<PathBuf>,
    /// Tools to leave out, by name.
    without: Vec<String>,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let mut options = Self {
            seconds: 3,
            rounds: ROUNDS_MIN,
            only: Vec::new(),
            dry: false,
            realtime: false,
            soak: None,
            programs: None,
            without: Vec::new(),
        };
        let mut words = words.iter().peekable();
        while let Some(&word) = words.next() {
            let mut number = |least: u64| {
                let given = words.next().and_then(|text| text.parse().ok());
                given
                    .filter(|&given| (least..=100_000).contains(&given))
                    .ok_or(format!("`{word}` needs a number of at least {least}"))
            };
            match word {
                "--seconds" => options.seconds = number(1)? as u32,
                "--rounds" => options.rounds = number(1)? as usize,
                "--only" => {
                    let name = words.next().copied().unwrap_or_default();
                    let case = Case::ALL.into_iter().find(|case| case.name() == name);
                    let names = Case::ALL.map(Case::name).join(", ");
                    options.only.push(case.ok_or(format!("`--only` needs one of {names}"))?);
                }
                "--programs" => {
                    let given = words.next().ok_or("`--programs` needs a folder")?;
                    options.programs = Some(PathBuf::from(given));
                }
                "--without" => {
                    let name = words.next().copied().unwrap_or_default();
                    if !Tool::ALL.iter().any(|tool| tool.name() == name) {
                        return Err(format!("`--without` needs a tool; there is no `{name}`"));
                    }
                    options.without.push(name.to_owned());
                }
                "--dry" => options.dry = true,
                "--realtime" => options.realtime = true,
                "--soak" => {
                    options.soak = Some(Duration::from_secs(600));
                    if words.peek().is_some_and(|next| next.parse::<u64>().is_ok()) {
                        let minutes: u64 = words.next().and_then(|m| m.parse().ok()).unwrap_or(10);
                        options.soak = Some(Duration::from_secs(60 * minutes.max(2)));
                    }
                }
                _ => return Err(format!("unknown option `{word}` of `peers http`")),
            }
        }
        if options.writes() && options.soak.is_none() && options.rounds < ROUNDS_MIN {
            return Err(format!("writing the document needs at least `--rounds {ROUNDS_MIN}`"));
        }
        Ok(options)
    }

    /// Returns true if the document is written, which needs all cases.
    fn writes(&self) -> bool {
        !self.dry && self.only.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Case {
    Plain16,
    Plain64,
    Tls,
    Script,
    Http2,
    Open,
    Many,
}

impl Case {
    const ALL: [Self; 7] = [
        Self::Plain16,
        Self::Plain64,
        Self::Tls,
        Self::Script,
        Self::Http2,
        Self::Open,
        Self::Many,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Plain16 => "plain-16",
            Self::Plain64 => "plain-64",
            Self::Tls => "tls-64",
            Self::Script => "script-64",
            Self::Http2 => "http2-64",
            Self::Open => "open",
            Self::Many => "10000",
        }
    }

    /// Returns the tools in the order of a round. Tools compared with each other are adjacent.
    fn tools(self) -> &'static [Tool] {
        use Tool::{Baseline, Fortio, H2load, Hey, K6, Load, Oha, OurWrk, Precise, Vegeta, Wrk};
        match self {
            Self::Plain16 | Self::Plain64 => {
                &[Wrk, Load, Baseline, OurWrk, H2load, Fortio, Oha, Hey, Vegeta, K6]
            }
            Self::Tls => &[Wrk, Load, OurWrk, Fortio, Oha, Hey, Vegeta, K6],
            Self::Script => &[Wrk, OurWrk],
            Self::Http2 => &[H2load, Load],
            Self::Open => &[Load, Precise],
            Self::Many => &[Load, OurWrk, Wrk],
        }
    }

    fn connections(self) -> u32 {
        match self {
            Self::Plain16 => 16,
            Self::Many => CONNECTIONS_MANY,
            _ => 64,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Run {
    used: ResourceUse,
    reported: ToolFigures,
}

impl Run {
    fn us_per_request(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.reported.requests as f64
    }

    fn cpu_us(&self) -> f64 {
        self.us_per_request(self.used.cpu())
    }

    fn user_us(&self) -> f64 {
        self.us_per_request(self.used.user)
    }

    fn system_us(&self) -> f64 {
        self.us_per_request(self.used.system)
    }
}

/// Runs of a case by tool, one per round, in the order of the rounds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Results {
    runs: BTreeMap<Tool, Vec<Run>>,
    /// Tools without figures, with the reason.
    without: BTreeMap<Tool, String>,
    /// Share of the machine's CPU time that other processes used meanwhile.
    others: f64,
}

impl Results {
    /// Returns the ratio of `figure` between `ours` and `theirs`: median, minimum and maximum over the rounds.
    fn ratio(&self, ours: Tool, theirs: Tool, figure: fn(&Run) -> f64) -> Option<Spread> {
        let (ours, theirs) = (self.runs.get(&ours)?, self.runs.get(&theirs)?);
        let rounds = ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs));
        (!ours.is_empty() && !theirs.is_empty()).then(|| Spread::measure(rounds))
    }

    fn spread(&self, tool: Tool, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        let runs = self.runs.get(&tool).filter(|runs| !runs.is_empty())?;
        Some(Spread::measure(runs.iter().map(figure)))
    }
}

/// Runs of the comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HttpRuns {
    machine: String,
    rounds: usize,
    /// Seconds of a run.
    seconds: u32,
    realtime: bool,
    cases: BTreeMap<Case, Results>,
}

impl Comparison for HttpRuns {
    const NAME: &'static str = "http";

    fn section(&self) -> String {
        document::section(self, &bounds::check(&self.cases))
    }
}

/// Programs and settings for all runs.
struct Stand {
    programs: BTreeMap<Tool, Result<Program, Failure>>,
    nginx: Program,
    bakeoff: PathBuf,
    script: PathBuf,
    scratch: tempfile::TempDir,
    allowed: CpuSet,
    /// CPUs of the server and the generator; `None` on a machine with one CPU.
    cpus: Option<(usize, usize)>,
    /// Prefix of each command: `chrt`, if requested.
    before: Vec<&'static str>,
    files_max: u64,
}

pub(crate) fn compare(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let stand = Stand::new(&options)?;
    if let Some(length) = options.soak {
        return soak::run(&stand, length, options.dry);
    }
    let cases = if options.only.is_empty() { Case::ALL.to_vec() } else { options.only.clone() };
    let mut all = BTreeMap::new();
    for case in cases {
        all.insert(case, stand.rounds(case, &options)?);
    }
    let measured = HttpRuns {
        machine: document::machine(&stand)?,
        rounds: options.rounds,
        seconds: options.seconds,
        realtime: options.realtime,
        cases: all,
    };
    println!("\n{}", measured.section());
    if options.writes() {
        measured.publish()?;
    }
    let findings = bounds::check(&measured.cases);
    let missed: Vec<String> = findings.iter().filter_map(bounds::Finding::complaint).collect();
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n  ")) }
}

impl Stand {
    fn new(options: &Options) -> Result<Self, Failure> {
        let program = |kind: &'static str, name: &'static str| match &options.programs {
            Some(dir) => Ok(dir.join(name)),
            None => super::built([kind, name]),
        };
        let (bakeoff, baseline) =
            (program("--bin", "bakeoff")?, program("--example", "http_baseline")?);
        let debian = Debian::default();
        let nginx = debian.program("nginx", "nginx", &["libpcre2-8-0"])?;
        let programs = tools::fetch(&debian, &bakeoff, &baseline, &options.without);
        for (tool, program) in &programs {
            if let Err(why) = program {
                println!("leaving out {}: {why}", tool.name());
            }
        }
        let allowed =
            sched_getaffinity(None).map_err(|error| format!("cannot read CPUs: {error}"))?;
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let cpus = cpus.next().zip(cpus.next());
        let scratch =
            tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let script = scratch.path().join("load.lua");
        std::fs::write(&script, include_str!("http/load.lua"))
            .map_err(|error| format!("cannot write a script: {error}"))?;
        let before = if options.realtime { vec!["chrt", "--rr", "1"] } else { Vec::new() };
        let files_max = open_files();
        Ok(Self { programs, nginx, bakeoff, script, scratch, allowed, cpus, before, files_max })
    }

    fn rounds(&self, case: Case, options: &Options) -> Result<Results, Failure> {
        let mut results = Results::default();
        let mut tools = Vec::new();
        for &tool in case.tools() {
            match &self.programs[&tool] {
                Ok(program) => tools.push((tool, program)),
                Err(why) => drop(results.without.insert(tool, first_line(why))),
            }
        }
        // NGINX needs more open files than the generator (`nginx`).
        let files = u64::from(case.connections()) * 9 / 8 + 200;
        if files > self.files_max {
            let why = format!("this machine allows {} open files a process", self.files_max);
            results.without.extend(tools.drain(..).map(|(tool, _)| (tool, why.clone())));
        }
        if tools.is_empty() {
            return Ok(results);
        }
        let nginx = self.start(case.connections())?;
        let mut others = OtherCpu::default();
        for round in 0..options.rounds {
            let count = tools.len();
            for turn in 0..count {
                let (tool, program) = tools[(round + turn) % count];
                if results.without.contains_key(&tool) {
                    continue;
                }
                let mut once =
                    || others.adjacent(&nginx, || self.run(case, options, tool, program, &nginx));
                // Try once more: on a busy machine a tool may start or end late.
                match once().or_else(|_| once()) {
                    Ok(run) => {
                        say(case, round, tool, &run);
                        results.runs.entry(tool).or_default().push(run);
                    }
                    Err(why) => {
                        println!("{}: {} failed: {why}", case.name(), tool.name());
                        results.without.insert(tool, format!("failed: {}", first_line(&why)));
                        results.runs.remove(&tool);
                    }
                }
            }
        }
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| self.allowed.is_set(cpu)).count();
        results.others = others.share(cpus);
        Ok(results)
    }

    fn start(&self, connections: u32) -> Result<Nginx, Failure> {
        measure::pin(self.cpus.map(|(server, _)| server), &self.allowed)?;
        let nginx = Nginx::start(&self.nginx, &self.before, u64::from(connections));
        measure::pin(None, &self.allowed)?;
        nginx
    }

    fn place(&self, tool: Tool) -> Place<'_> {
        let cpu = self.cpus.map(|(_, generator)| generator);
        Place { cpu, allowed: &self.allowed, codes: tool.codes() }
    }

    fn job(&self, case: Case, seconds: u32, nginx: &Nginx) -> Job {
        let url = match case {
            Case::Tls => format!("https://{}/", nginx.tls),
            Case::Http2 => format!("http://{}/", nginx.http2),
            _ => format!("http://{}/", nginx.plain),
        };
        Job {
            url,
            connections: case.connections(),
            seconds,
            http2: case == Case::Http2,
            rate: (case == Case::Open).then_some(OPEN_RATE),
            script: (case == Case::Script).then(|| self.script.clone()),
        }
    }

    /// Runs a tool once. Fails if the tool reports errors or NGINX's count differs.
    fn run(
        &self,
        case: Case,
        options: &Options,
        tool: Tool,
        program: &Program,
        nginx: &Nginx,
    ) -> Result<Run, Failure> {
        // Ten thousand connections take a while to open.
        let seconds =
            if case == Case::Many { options.seconds.max(SECONDS_MANY) } else { options.seconds };
        let job = self.job(case, seconds, nginx);
        let dir = self.scratch.path();
        let command = tools::command(tool, program, &job, dir)?;
        // At real-time priority the kernel would interrupt a busy-waiting thread now and then, so that others can run.
        let command = if tool == Tool::Precise { command } else { self.become_(command) };
        let before = nginx.requests()?;
        let (used, output) = self.place(tool).run(command, &dir.join("tool.log"))?;
        let reported = tools::read(tool, program, &output, dir)?;
        // The second request for the status counts too.
        let counted = nginx.requests()? - before - 1;
        // wrk runs here only for its memory; among ten thousand connections it counts slow answers as errors.
        let errors = if case == Case::Many && !tool.is_ours() { 0 } else { reported.errors };
        honest(tool, &ToolFigures { errors, ..reported.clone() }, counted, job.connections)?;
        Ok(Run { used, reported })
    }

    /// Returns `command` with the prefix `before`.
    fn become_(&self, command: std::process::Command) -> std::process::Command {
        let Some((first, rest)) = self.before.split_first() else { return command };
        let mut whole = std::process::Command::new(first);
        whole.args(rest).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                whole.env(name, value);
            }
        }
        whole
    }
}

/// Compares a tool's count with NGINX's.
fn honest(
    tool: Tool,
    reported: &ToolFigures,
    counted: u64,
    connections: u32,
) -> Result<(), Failure> {
    let ToolFigures { requests, errors, .. } = *reported;
    let name = tool.name();
    if requests == 0 || errors > 0 {
        return Err(format!("{name} reported {requests} requests and {errors} errors"));
    }
    let slack = 2 * u64::from(connections) + (counted as f64 * UNCLAIMED_MAX) as u64;
    if requests > counted || requests + slack < counted {
        return Err(format!("{name} reported {requests} requests, but NGINX counted {counted}"));
    }
    Ok(())
}

/// CPU time used by other processes than NGINX and the tools during the runs.
#[derive(Default)]
struct OtherCpu {
    cpu: Duration,
    wall: Duration,
}

impl OtherCpu {
    fn adjacent(
        &mut self,
        nginx: &Nginx,
        run: impl FnOnce() -> Result<Run, Failure>,
    ) -> Result<Run, Failure> {
        let state = || (Instant::now(), measure::machine_cpu(), nginx.cpu());
        let (began, all_before, server_before) = state();
        let run = run()?;
        let (ended, all, server) = state();
        if let (Some(all), Some(before)) = (all, all_before) {
            let known = server.saturating_sub(server_before) + run.used.cpu();
            self.cpu += all.saturating_sub(before).saturating_sub(known);
            self.wall += ended - began;
        }
        Ok(run)
    }

    fn share(&self, cpus: usize) -> f64 {
        self.cpu.as_secs_f64() / (self.wall.as_secs_f64() * cpus as f64).max(f64::MIN_POSITIVE)
    }
}

/// Raises the limit of open files of this process and its children, and returns it.
fn open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(CONNECTIONS_MANY) * 9 / 8 + 1000;
    let most = limit.maximum.unwrap_or(u64::MAX);
    let now = limit.current.unwrap_or(u64::MAX);
    if now >= wanted {
        return now;
    }
    let raised = Rlimit { current: Some(wanted.min(most)), ..limit };
    if setrlimit(Resource::Nofile, raised).is_ok() { wanted.min(most) } else { now }
}

fn say(case: Case, round: usize, tool: Tool, run: &Run) {
    let schedule_lag = run
        .reported
        .schedule_lag
        .map(|[p50, p99, max]| format!(", schedule lag p50 {p50:.0} p99 {p99:.0} max {max:.0} us"));
    println!(
        "{} {}: {:12} {:6.2} us of CPU per request ({:.2} user), {:7.0}/s, {} MiB{}",
        case.name(),
        round + 1,
        tool.name(),
        run.cpu_us(),
        run.user_us(),
        run.reported.per_second,
        run.used.rss_bytes_max >> 20,
        schedule_lag.unwrap_or_default(),
    );
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(requests: u64, errors: u64) -> ToolFigures {
        ToolFigures { requests, errors, per_second: 1.0, schedule_lag: None }
    }

    #[test]
    fn count_that_differs_from_nginxs_is_refused() {
        let honest = |reported: ToolFigures, counted| honest(Tool::Wrk, &reported, counted, 16);
        assert_eq!(honest(reported(100_000, 0), 100_016), Ok(()));
        assert!(honest(reported(100_017, 0), 100_016).is_err());
        assert!(honest(reported(100_000, 0), 101_000).is_err());
        assert!(honest(reported(100_000, 1), 100_001).is_err());
        assert!(honest(reported(0, 0), 0).is_err());
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let run = |us: u64| Run {
            used: ResourceUse { user: Duration::from_micros(us), ..ResourceUse::default() },
            reported: reported(1, 0),
        };
        let mut results = Results::default();
        results.runs.insert(Tool::Wrk, vec![run(10), run(20), run(10)]);
        results.runs.insert(Tool::Load, vec![run(8), run(15), run(9)]);
        let ratio = results.ratio(Tool::Load, Tool::Wrk, Run::cpu_us);
        assert_eq!(ratio, Some(Spread { median: 0.8, min: 0.75, max: 0.9 }));
        assert_eq!(results.ratio(Tool::Load, Tool::Hey, Run::cpu_us), None);
    }

    #[test]
    fn writing_with_too_few_rounds_is_refused() {
        assert!(Options::read(&["--rounds", "4"]).is_err());
        assert!(Options::read(&["--rounds", "1", "--dry"]).is_ok());
        let some = Options::read(&["--only", "plain-16", "--rounds", "2"]).expect("words");
        assert_eq!((some.only.as_slice(), some.writes()), ([Case::Plain16].as_slice(), false));
        assert!(Options::read(&["--only", "plain"]).is_err());
        assert!(Options::read(&["--fast"]).is_err());
    }

    #[test]
    fn every_case_runs_a_tool_of_bakeoff() {
        let ours = |case: Case| case.tools().iter().any(|tool| tool.is_ours());
        assert!(Case::ALL.into_iter().all(ours));
    }
}
