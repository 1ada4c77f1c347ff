//! Tests that every check catches its canary by name and message, and accuses no honest one.
//!
//! A check that has never failed may be unable to. Each row of the matrix (`matrix`) injects one fault and expects its
//! report in the exit code and the JSON of `bakeoff run`. An honest canary runs the same study, and must not be
//! accused.
//!
//! Studies run in parallel where they mostly wait. Bounds are wide, so that tests pass on a slow and noisy machine but
//! fail if a check does not work. A machine that is too busy for the generator is reported as such, not as a false
//! accusation.

#![allow(clippy::disallowed_macros, reason = "a test program of its own reports what it skipped")]
#![allow(clippy::disallowed_methods, reason = "a test waits by the clock for what it looks at")]

mod matrix;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::Value;

use matrix::{COURSE, ELSEWHERE, ExpectedFinding, FaultInjection, READS, ROWS, Row, Scene};
use support::excuse::{OF_THE_MACHINE, excuse_of};
use support::semaphore::Semaphore;
use support::{AUDITS, Bench, CommandOutput, array, figure, text};
use surroundings::{Disturbance, StagedCommand, stage};

/// All checks of every trial.
const CHECKS: [&str; 15] = [
    "generator",
    "schedule",
    "timers",
    "receive lag",
    "steal",
    "neighbours",
    "errors",
    "answers",
    "successes",
    "keys",
    "servers",
    "stationary",
    "limits",
    "disk",
    "clock",
];
/// Checks that some machines cannot make: without cgroups, without steal times, or shared with other tests.
const NOT_EVERYWHERE: [&str; 3] = ["limits", "steal", "neighbours"];
/// Attempts for an honest canary on a machine that is too busy. The second one runs next to at most one other study, the
/// last one alone.
const ATTEMPTS: usize = 3;
const BEGIN: &str = "<!-- faults: begin -->";
const END: &str = "<!-- faults: end -->";
/// Name of the honest system in each scene.
const HONEST: &str = "honest";
/// Studies that may run at once.
const AT_ONCE: usize = 6;

/// Report, exit code and messages of a run.
struct RunOutput {
    report: Value,
    code: Option<i32>,
    stderr: String,
    /// Excuse of each trial by its number; `None` if it is valid. The error says why nothing excuses it.
    excuses: BTreeMap<u64, Result<Option<String>, String>>,
}

type FaultRun = Result<Arc<RunOutput>, String>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::ignorable_test("the_honest_canary_passes_everything", honest_passes),
        Trial::test("evidence_page_shows_the_matrix", documented),
    ];
    // Longest studies first, so that they do not run alone at the end.
    let is_long = |row: &&Row| match row.made {
        FaultInjection::Canary { scene, .. } => [COURSE.name, READS.name].contains(&scene.name),
        FaultInjection::Around { .. } => false,
    };
    let (long, short): (Vec<_>, Vec<_>) = ROWS.iter().partition(is_long);
    for row in long.into_iter().chain(short) {
        let name = format!("{}/{}", row.name, row.load);
        trials
            .push(Trial::ignorable_test(format!("caught: {} ({name})", row.fault), || caught(row)));
        trials
            .push(Trial::ignorable_test(format!("no false alarm: {} ({name})", row.fault), || {
                spared(row)
            }));
    }
    // Rows wait for each other's studies; the number of parallel studies is limited below.
    arguments.test_threads.get_or_insert(trials.len());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs a study as a user would.
fn run(bench: &Bench, command: &mut std::process::Command) -> FaultRun {
    let ran = CommandOutput::run(command.arg("--json"));
    support::nothing_runs_in(bench.path());
    // Even after failures, the record is consistent.
    bench.verifies();
    let report: Value = serde_json::from_str(&ran.stdout).map_err(|error| {
        format!("standard output is no JSON: {error}\n{}\nstderr:\n{}", ran.stdout, ran.stderr)
    })?;
    let mut runs = support::folders(&surroundings::kept(bench));
    runs.extend(bench.runs());
    let excuse = |trial: &Value| {
        let run = runs.last().ok_or("there is no run")?;
        excuse_of(run, trial)
    };
    let numbered = |trial: &Value| Some((trial["number"].as_u64()?, excuse(trial)));
    let excuses = support::trials(&report).into_iter().filter_map(numbered).collect();
    Ok(Arc::new(RunOutput { report, code: ran.code, stderr: ran.stderr, excuses }))
}

/// Limits parallel work: this work occupies `share` of [`AT_ONCE`].
fn in_turn<T>(share: usize, work: impl FnOnce() -> T) -> T {
    static STUDIES: Semaphore = Semaphore::new(AT_ONCE);
    let _permits = STUDIES.acquire(share);
    work()
}

/// Returns the result of a study, which runs once for all rows that use it.
fn once(key: &str, share: usize, study: impl FnOnce() -> FaultRun) -> FaultRun {
    type Cell = Arc<OnceLock<FaultRun>>;
    static DONE: LazyLock<Mutex<BTreeMap<String, Cell>>> = LazyLock::new(Mutex::default);
    let cell =
        DONE.lock().unwrap_or_else(PoisonError::into_inner).entry(key.into()).or_default().clone();
    cell.get_or_init(|| in_turn(share, study)).clone()
}

/// Runs a scene with the honest canary and all of its rows' canaries.
fn scene(scene: &'static Scene) -> FaultRun {
    once(scene.name, 1, || {
        let mut systems = BTreeMap::from([(HONEST, "")]);
        for row in ROWS {
            if let FaultInjection::Canary { scene: its, options } = row.made
                && its.name == scene.name
            {
                systems.insert(row.name, options);
            }
        }
        run_scene(scene, &systems)
    })
}

/// Returns the share of the machine for this attempt of an honest canary.
fn share(attempt: usize) -> usize {
    match ATTEMPTS - attempt {
        1 => AT_ONCE,
        2 => AT_ONCE / 2,
        _ => 1,
    }
}

/// Returns true if this attempt runs alone.
fn is_alone(attempt: usize) -> bool {
    share(attempt) == AT_ONCE
}

/// Runs a scene's honest canary again without the others, once for all rows.
fn honest_again(scene: &'static Scene, attempt: usize) -> FaultRun {
    let key = format!("{}, attempt {attempt}", scene.name);
    once(&key, share(attempt), || run_scene(scene, &BTreeMap::from([(HONEST, "")])))
}

/// Runs a scene. `systems` has the options of each system by name.
fn run_scene(scene: &'static Scene, systems: &BTreeMap<&str, &str>) -> FaultRun {
    let nodes = scene.nodes;
    let systems = systems.iter().map(|(name, own)| {
        // A row's options replace the scene's.
        let name_of = |option: &str| option.split(':').next().map(str::to_owned);
        let set: Vec<_> = own.split(", ").map(name_of).collect();
        let of_scene = scene.options.split(", ").filter(|option| !set.contains(&name_of(option)));
        let options = of_scene.chain(own.split(", ")).filter(|option| !option.is_empty());
        let options = options.collect::<Vec<_>>().join(", ");
        format!("  {name}: {{kind: canary, nodes: {nodes}, options: {{{options}}}}}\n")
    });
    let bench = Bench::new(&format!(
        "title: Canaries\nsystems:\n{}workloads: {{{}: {}}}\nloads: {}\ntrials: 1\n",
        systems.collect::<String>(),
        scene.name,
        scene.workload,
        scene.loads
    ));
    run(&bench, &mut bench.command())
}

/// Returns the share that surroundings need: all of it if they use the CPUs or check for neighbours.
fn share_of(how: Disturbance, faulty: bool) -> usize {
    match how {
        Disturbance::Neighbour => AT_ONCE,
        Disturbance::Starved if faulty => AT_ONCE,
        _ => 1,
    }
}

/// Runs an honest canary in surroundings with or without a fault. The error is the reason why this machine cannot.
fn around(how: Disturbance, faulty: bool) -> Result<FaultRun, String> {
    let mut cannot = None;
    let found = once(&format!("{how:?} {faulty}"), share_of(how, faulty), || {
        run_around(how, faulty).unwrap_or_else(|why| {
            cannot = Some(why);
            Err("not on this machine".into())
        })
    });
    cannot.map_or(Ok(found), Err)
}

fn run_around(how: Disturbance, faulty: bool) -> Result<FaultRun, String> {
    let mut staged = stage(how, faulty)?;
    let StagedCommand { bench, command, .. } = &mut staged;
    Ok(run(bench, command))
}

/// Returns a row's system in a report.
fn contender<'a>(seen: &'a RunOutput, load: &str, system: &str) -> Result<&'a Value, Failed> {
    let comparisons = array(&seen.report["comparisons"]);
    let of_load = comparisons.iter().find(|one| one["load"] == load);
    let found =
        of_load.and_then(|one| array(&one["systems"]).iter().find(|one| one["system"] == system));
    found.ok_or_else(|| {
        format!("{system} under {load} is not in the report\n{}", seen.stderr).into()
    })
}

/// Checks that a system's only trial shows the expected finding. The error describes what it shows instead.
fn says(
    seen: &RunOutput,
    load: &str,
    system: &str,
    expected: &ExpectedFinding,
) -> Result<(), String> {
    let of = contender(seen, load, system).map_err(|_| "nothing of this system".to_owned())?;
    let trial = &of["trials"][0];
    let because = || array(&trial["invalid_because"]).iter().map(text).collect::<Vec<_>>();
    let invalid = |name: &str, words: &str| {
        let by = because().into_iter().any(|why| {
            why.strip_prefix(name).is_some_and(|why| why.starts_with(": ") && why.contains(words))
        });
        if by && trial["valid"] == false {
            Ok(())
        } else {
            Err(format!("not valid because: {:#?}", because()))
        }
    };
    let held = |holds: bool, instead: &Value| {
        if holds { Ok(()) } else { Err(format!("{instead:#}")) }
    };
    match expected {
        ExpectedFinding::Check(name, words) | ExpectedFinding::Audit(name, words) => {
            invalid(name, words)
        }
        ExpectedFinding::AnyCheck(names, words) => {
            let first = names.iter().map(|name| invalid(name, words)).find(Result::is_ok);
            first.unwrap_or_else(|| Err(format!("not valid because: {:#?}", because())))
        }
        ExpectedFinding::NotChecked(name, words) => {
            let all = array(&of["not_checked"]);
            let found =
                all.iter().any(|one| one["what"] == *name && text(&one["why"]).contains(words));
            held(found, &of["not_checked"])
        }
        ExpectedFinding::Finding(words) => {
            let found = array(&seen.report["findings"]).iter().any(|one| text(one).contains(words));
            held(found, &seen.report["findings"])
        }
        ExpectedFinding::Error(kind, words) => {
            let all = array(&trial["measurement"]["error_examples"]);
            let found =
                all.iter().any(|one| one["kind"] == *kind && text(&one["what"]).contains(words));
            held(found, &trial["measurement"]["error_examples"])
        }
        ExpectedFinding::Figure(name, least) => {
            held(figure(trial, name) >= *least, &trial["figures"])
        }
        ExpectedFinding::NotRanked => {
            let sentence = &seen.report["sentence"];
            let out = format!("{system} has no valid trial");
            let left_out = format!("{system} is not ranked");
            let not_ranked = text(sentence).contains(&out) || text(sentence).contains(&left_out);
            held(not_ranked, sentence)
        }
    }
}

/// Checks that the row's fault is reported as expected.
fn caught(row: &'static Row) -> Result<Completion, Failed> {
    let seen = match row.made {
        FaultInjection::Canary { scene: of, .. } => scene(of)?,
        FaultInjection::Around { how, .. } => match around(how, true) {
            Ok(found) => found?,
            Err(why) => return Ok(Completion::ignored_with(why)),
        },
    };
    for expected in row.expectations {
        says(&seen, row.load, row.name, expected).map_err(|instead| {
            format!("{} is not said; instead:\n{instead}\n{}", expected.text(), seen.stderr)
        })?;
    }
    // A run without a valid trial has no report. One clock step disturbs one round, which is repeated.
    let repeated = matches!(row.made, FaultInjection::Around { how: Disturbance::Clock, .. });
    if row.expectations.iter().any(ExpectedFinding::is_invalid) && !repeated && seen.code != Some(1)
    {
        return Err(format!("the run ended with {:?} and not with 1", seen.code).into());
    }
    Ok(Completion::Completed)
}

/// Checks that the honest canary under the same study is not accused. Repeats it if the machine was too busy, at last
/// alone.
fn spared(row: &'static Row) -> Result<Completion, Failed> {
    let mut busy = String::new();
    for attempt in 0..ATTEMPTS {
        let found = match row.made {
            FaultInjection::Canary { scene: of, .. } if attempt == 0 => scene(of),
            FaultInjection::Canary { scene: of, .. } => honest_again(of, attempt),
            FaultInjection::Around { how, .. } => {
                let share = share(attempt).max(share_of(how, false));
                let again = || in_turn(share, || run_around(how, false));
                match if attempt == 0 { around(how, false) } else { again() } {
                    Ok(found) => found,
                    Err(why) => return Ok(Completion::ignored_with(why)),
                }
            }
        };
        match is_spared(row, &*found?)? {
            HonestOutcome::Busy(why) => busy = why,
            HonestOutcome::Unable => {
                return Ok(Completion::ignored_with("this machine cannot do it either way"));
            }
            HonestOutcome::Valid => return Ok(Completion::Completed),
        }
    }
    support::skipped(&busy);
    Ok(Completion::ignored_with(busy))
}

enum HonestOutcome {
    Valid,
    /// Other work on the machine spoilt the trial.
    Busy(String),
    /// This machine cannot run it, with or without the fault.
    Unable,
}

fn is_spared(row: &'static Row, seen: &RunOutput) -> Result<HonestOutcome, Failed> {
    let name = match row.made {
        FaultInjection::Canary { .. } => HONEST,
        FaultInjection::Around { .. } => row.name,
    };
    // The findings mention a trial that the machine disturbed, too.
    let spoiled =
        matches!(not_valid(seen, &contender(seen, row.load, name)?["trials"][0]), Ok(Some(_)));
    let others = |words: &str| name == HONEST && !words.contains(row.name);
    for expected in row.expectations {
        let accused = match expected {
            // About the scene's other systems.
            ExpectedFinding::Finding(words) if others(words) => false,
            ExpectedFinding::Finding(words) => {
                let words = words.replace(row.name, name);
                array(&seen.report["findings"]).iter().any(|one| text(one).contains(&words))
            }
            ExpectedFinding::NotRanked if spoiled => false,
            expected => says(seen, row.load, name, expected).is_ok(),
        };
        if accused && matches!(expected, ExpectedFinding::NotChecked(..)) {
            return Ok(HonestOutcome::Unable);
        }
        if accused && !expected.is_of_the_machine() {
            return Err(format!(
                "{} is said of an honest canary\n{}",
                expected.text(),
                seen.stderr
            )
            .into());
        }
    }
    match not_valid(seen, &contender(seen, row.load, name)?["trials"][0]) {
        Ok(None) => Ok(HonestOutcome::Valid),
        Ok(Some(busy)) => Ok(HonestOutcome::Busy(busy)),
        Err(why) => Err(format!("an honest canary is not valid: {why}\n{}", seen.stderr).into()),
    }
}

/// Returns `None` for a valid trial of an honest canary, and its excuse if other work spoilt it. Fails if it was
/// accused falsely.
fn not_valid(seen: &RunOutput, trial: &Value) -> Result<Option<String>, String> {
    let excuse = trial["number"].as_u64().and_then(|number| seen.excuses.get(&number));
    excuse.cloned().unwrap_or_else(|| Err(format!("the report has no such trial: {trial}")))
}

/// Checks that all checks pass. Names those that this machine cannot make.
fn honest_passes() -> Result<Completion, Failed> {
    let study = "title: An honest canary\n\
                 systems: {honest: {kind: canary, limits: {cpu: 1, memory: 512MiB}}}\n\
                 workloads: {work: {mix: {put: 20, get: 70, delete: 5, list: 5}, \
                 keys: {count: 200, per-directory: 20}}}\n\
                 loads: {closed: {clients: 4, stop: {after: 5s}, warmup: 500ms}, \
                 open: {clients: 20, rate: 200/s, stop: {after: 5s}, warmup: 500ms}}\n\
                 trials: 1\n";
    let mut busy = String::new();
    for attempt in 0..ATTEMPTS {
        let seen = in_turn(share(attempt), || {
            let bench = Bench::new(study);
            run(&bench, &mut bench.command())
        })?;
        busy.clear();
        for load in ["closed", "open"] {
            let of = contender(&seen, load, HONEST)?;
            let trial = &of["trials"][0];
            for when in AUDITS {
                assert_eq!(support::audit(trial, when), "passed", "{when}, {load}");
            }
            match not_valid(&seen, trial)? {
                None => assert_eq!(trial["valid"], true),
                Some(why) => {
                    busy = why;
                    continue;
                }
            }
            let errors = figure(trial, "errors");
            // Next to other studies, the machine may be too busy for due requests; alone it is not.
            if !is_alone(attempt) && errors > 0.0 && errors == figure(trial, "errors_dropped") {
                busy = format!("the machine was busy: {errors} were due and never sent, {load}");
                continue;
            }
            assert_eq!(errors, 0.0, "{load}: {:#}", trial["measurement"]["error_examples"]);
            let verdict = |name: &str| {
                let check = array(&trial["checks"]).iter().find(|check| check["name"] == name);
                check.map(|check| &check["verdict"])
            };
            // Only open loads have a schedule and percentiles to judge.
            let of_open = |name: &str| ["schedule", "receive lag"].contains(&name);
            for name in CHECKS.into_iter().filter(|&name| !of_open(name) || load == "open") {
                let verdict = verdict(name).ok_or_else(|| format!("there is no check `{name}`"))?;
                match (text(&verdict["verdict"]), text(&verdict["why"])) {
                    ("passed", _) => {}
                    ("not-checked", why) if NOT_EVERYWHERE.contains(&name) => {
                        eprintln!("not checked on this machine, {load}: {name}: {why}");
                    }
                    other => return Err(format!("check `{name}` under {load}: {other:?}").into()),
                }
            }
        }
        if busy.is_empty() {
            assert_eq!(seen.code, Some(0), "{}", seen.stderr);
            return Ok(Completion::Completed);
        }
    }
    support::skipped(&busy);
    Ok(Completion::ignored_with(busy))
}

/// Compares `docs/method/validity.md` with the matrix; `BLESS=1` writes it anew (`cargo xtask bless --all`).
fn documented() -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/method/validity.md");
    let document = std::fs::read_to_string(&path)?;
    let mut table =
        String::from("| fault | how it is made | what catches it |\n| --- | --- | --- |\n");
    for row in ROWS {
        let how = match row.made {
            FaultInjection::Canary { scene, options } => {
                let nodes = if scene.nodes > 1 {
                    format!(" of {} nodes", scene.nodes)
                } else {
                    String::new()
                };
                format!("canary{nodes} with `{options}`")
            }
            FaultInjection::Around { by, .. } => by.to_owned(),
        };
        let expected: Vec<String> = row.expectations.iter().map(ExpectedFinding::text).collect();
        writeln!(table, "| {} | {how} | {} |", row.fault, expected.join("; "))?;
    }
    table.push_str("\nFaults around a run, such as a damaged cache, have tests of their own:\n\n");
    table.push_str("| fault | how it is made | what follows |\n| --- | --- | --- |\n");
    for one in ELSEWHERE {
        let (file, name) = one.test;
        let source =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file))?;
        if !source.contains(name) {
            return Err(format!("`{file}` has no test `{name}`").into());
        }
        writeln!(table, "| {} | {} | {} |", one.fault, one.by, one.follows)?;
    }
    let expected = format!("{BEGIN}\n\n{}\n\n{END}", table.trim());
    let (from, to) =
        document.find(BEGIN).zip(document.find(END)).ok_or("the document has no place for it")?;
    let held = document.get(from..to + END.len()).ok_or("its marks are in the wrong order")?;
    if held == expected {
        return Ok(());
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, document.replacen(held, &expected, 1))?;
        return Ok(());
    }
    Err("docs/method/validity.md differs from the matrix; `cargo xtask bless --all`".into())
}

impl ExpectedFinding {
    /// Returns true if it makes a trial invalid.
    fn is_invalid(&self) -> bool {
        matches!(self, Self::Check(..) | Self::AnyCheck(..) | Self::Audit(..))
    }

    fn is_of_the_machine(&self) -> bool {
        match self {
            Self::Check(name, _) => OF_THE_MACHINE.contains(name),
            Self::AnyCheck(names, _) => names.iter().all(|name| OF_THE_MACHINE.contains(name)),
            _ => false,
        }
    }

    /// Returns the cell in `docs/method/validity.md`: the check or finding, and its message.
    fn text(&self) -> String {
        let words = |words: &str| {
            if words.is_empty() { String::new() } else { format!(": “{}”", words.trim()) }
        };
        match self {
            Self::Check(name, expected) => format!("check `{name}`{}", words(expected)),
            Self::AnyCheck(names, expected) => {
                format!("check `{}`{}", names.join("` or `"), words(expected))
            }
            Self::Audit(when, expected) => format!("audit {when}{}", words(expected)),
            Self::NotChecked(name, expected) => {
                format!("check `{name}` not checked{}", words(expected))
            }
            Self::Finding(expected) => format!("finding{}", words(expected)),
            Self::Error(kind, expected) => format!("error of kind {kind}{}", words(expected)),
            Self::Figure(name, least) => format!("figure `{name}` at least {least}"),
            Self::NotRanked => "not ranked in the answer".to_owned(),
        }
    }
}
