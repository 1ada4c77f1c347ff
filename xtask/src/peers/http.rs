//! `cargo xtask peers http`: other HTTP load tools against bakeoff, request for request.
//!
//! Compares the cost of the generator: CPU time, user and system, of the whole process
//! from start to end, for one request whose response has six bytes; and requests per second and
//! peak memory. One NGINX has one CPU and each tool in its turn another. Each round runs all tools
//! of a case once, and each round begins with another tool. Ratios are taken within a round, since
//! what disturbs a machine commonly lasts longer than a run, and their median is what counts.
//!
//! A run counts when NGINX's own counter has the requests that the tool says it made.
//!
//! Not here: the tools (`tools`), the server (`nginx`), what must hold (`bounds`), the text
//! (`document`), ten minutes at full speed (`soak`).

mod bounds;
mod document;
pub(crate) mod nginx;
mod soak;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};

use self::nginx::Nginx;
use self::tools::{Job, Tool, ToolFigures};
use super::fetch::{Debian, Program};
use super::measure::{self, Place, Used};
use super::summary::Spread;
use crate::Failure;

const ROUNDS_MIN: usize = 5;
const CONNECTIONS_MANY: u32 = 10_000;
const SECONDS_MANY: u32 = 8;
const OPEN_RATE: u32 = 10_000;
/// Of a run whose claim is held against NGINX's counter: this share may be missing, or requests
/// that were under way at the end, two a connection.
const UNCLAIMED_MAX: f64 = 0.005;

#[derive(Debug)]
struct Options {
    seconds: u32,
    rounds: usize,
    only: Vec<Case>,
    dry: bool,
    realtime: bool,
    soak: Option<Duration>,
    /// Where `bakeoff` and `http_baseline` are that were built elsewhere, with other settings perhaps.
    programs: Option<PathBuf>,
    /// Tools that are left out, by name.
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
                    .ok_or(format!("`{word}` takes a number from {least} on"))
            };
            match word {
                "--seconds" => options.seconds = number(1)? as u32,
                "--rounds" => options.rounds = number(1)? as usize,
                "--only" => {
                    let name = words.next().copied().unwrap_or_default();
                    let case = Case::ALL.into_iter().find(|case| case.name() == name);
                    let names = Case::ALL.map(Case::name).join(", ");
                    options.only.push(case.ok_or(format!("`--only` takes one of {names}"))?);
                }
                "--programs" => {
                    let given = words.next().ok_or("`--programs` takes a folder")?;
                    options.programs = Some(PathBuf::from(given));
                }
                "--without" => {
                    let name = words.next().copied().unwrap_or_default();
                    if !Tool::ALL.iter().any(|tool| tool.name() == name) {
                        return Err(format!("`--without` takes a tool; there is no `{name}`"));
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
                _ => return Err(format!("`peers http` does not know `{word}`")),
            }
        }
        if options.writes() && options.soak.is_none() && options.rounds < ROUNDS_MIN {
            return Err(format!("what is written needs `--rounds` from {ROUNDS_MIN} on"));
        }
        Ok(options)
    }

    /// Returns whether the document is written: not when only some of it was measured.
    fn writes(&self) -> bool {
        !self.dry && self.only.is_empty()
    }
}

/// Cases that the tools are compared in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

    /// In the order in which they run: those that are held against each other beside each other.
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

/// One run of one tool.
#[derive(Debug, Clone)]
struct Run {
    used: Used,
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

/// The runs of a case, one of each tool a round, in the order of the rounds.
#[derive(Debug, Default)]
struct Results {
    runs: BTreeMap<Tool, Vec<Run>>,
    /// The tools that have no figure, and why.
    without: BTreeMap<Tool, String>,
    /// Which share of the machine's CPU time had other processes meanwhile.
    others: f64,
}

impl Results {
    /// `figure` of `ours` over that of `theirs`: its median over the rounds, the least and the most.
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

/// Everything a run needs.
struct Stand {
    programs: BTreeMap<Tool, Result<Program, Failure>>,
    nginx: Program,
    bakeoff: PathBuf,
    script: PathBuf,
    scratch: tempfile::TempDir,
    allowed: CpuSet,
    /// The server's CPU and the generator's, where there are two.
    cpus: Option<(usize, usize)>,
    /// Prefix of each command: `chrt`, where asked for.
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
    let findings = bounds::check(&all);
    let section = document::section(&stand, &options, &all, &findings)?;
    println!("\n{section}");
    if options.writes() {
        super::write("peers http", &section)?;
    }
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
                println!("{} is left out: {why}", tool.name());
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
        // What NGINX needs is more than the generator does (`nginx`).
        let files = u64::from(case.connections()) * 9 / 8 + 200;
        if files > self.files_max {
            let why = format!("this machine allows {} open files a process", self.files_max);
            results.without.extend(tools.drain(..).map(|(tool, _)| (tool, why.clone())));
        }
        if tools.is_empty() {
            return Ok(results);
        }
        let nginx = self.start(case.connections())?;
        let mut others = Others::default();
        for round in 0..options.rounds {
            let count = tools.len();
            for turn in 0..count {
                let (tool, program) = tools[(round + turn) % count];
                if results.without.contains_key(&tool) {
                    continue;
                }
                let mut once =
                    || others.beside(&nginx, || self.run(case, options, tool, program, &nginx));
                // Once more: with the machine busy a tool may have been late to start or to end.
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

    /// One run; a failure when the tool saw errors or NGINX counted something else.
    fn run(
        &self,
        case: Case,
        options: &Options,
        tool: Tool,
        program: &Program,
        nginx: &Nginx,
    ) -> Result<Run, Failure> {
        // Connecting ten thousand times takes a while of its own.
        let seconds =
            if case == Case::Many { options.seconds.max(SECONDS_MANY) } else { options.seconds };
        let job = self.job(case, seconds, nginx);
        let dir = self.scratch.path();
        let command = tools::command(tool, program, &job, dir)?;
        // A thread that waits without sleeping would be stopped now and then at a real-time
        // priority, so that others may run.
        let command = if tool == Tool::Precise { command } else { self.become_(command) };
        let before = nginx.requests()?;
        let (used, output) = self.place(tool).run(command, &dir.join("tool.log"))?;
        let reported = tools::read(tool, program, &output, dir)?;
        // The second question is counted too.
        let counted = nginx.requests()? - before - 1;
        // wrk, which is there for its memory, counts slow answers among ten thousand as errors.
        let errors = if case == Case::Many && !tool.is_ours() { 0 } else { reported.errors };
        honest(tool, &ToolFigures { errors, ..reported.clone() }, counted, job.connections)?;
        Ok(Run { used, reported })
    }

    /// `command`, as what `before` becomes.
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

/// Holds what a tool says against what NGINX counted.
fn honest(
    tool: Tool,
    reported: &ToolFigures,
    counted: u64,
    connections: u32,
) -> Result<(), Failure> {
    let ToolFigures { requests, errors, .. } = *reported;
    let name = tool.name();
    if requests == 0 || errors > 0 {
        return Err(format!("{name} made {requests} requests and saw {errors} errors"));
    }
    let slack = 2 * u64::from(connections) + (counted as f64 * UNCLAIMED_MAX) as u64;
    if requests > counted || requests + slack < counted {
        return Err(format!("{name} says {requests} requests, NGINX counted {counted}"));
    }
    Ok(())
}

/// CPU time that went to neither NGINX nor the tools while these ran.
#[derive(Default)]
struct Others {
    cpu: Duration,
    wall: Duration,
}

impl Others {
    fn beside(
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

/// Raises the number of files that this process and its children may have open, and tells it.
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
        "{} {}: {:12} {:6.2} us of CPU a request ({:.2} user), {:7.0}/s, {} MiB{}",
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
    fn a_claim_that_nginx_did_not_count_is_refused() {
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
            used: Used { user: Duration::from_micros(us), ..Used::default() },
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
    fn a_document_of_few_rounds_is_refused() {
        assert!(Options::read(&["--rounds", "4"]).is_err());
        assert!(Options::read(&["--rounds", "1", "--dry"]).is_ok());
        let some = Options::read(&["--only", "plain-16", "--rounds", "2"]).expect("words");
        assert_eq!((some.only.as_slice(), some.writes()), ([Case::Plain16].as_slice(), false));
        assert!(Options::read(&["--only", "plain"]).is_err());
        assert!(Options::read(&["--fast"]).is_err());
    }

    #[test]
    fn every_case_has_a_tool_of_ours() {
        let ours = |case: Case| case.tools().iter().any(|tool| tool.is_ours());
        assert!(Case::ALL.into_iter().all(ours));
    }
}
