//! Tests `bakeoff history --trend` on made-up histories: one real run, copied to other days with other throughputs.
//!
//! Not here: the power of the tests (`bakeoff-core`'s `statistics`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bakeoff_core::record::chain::Chain;
use bakeoff_core::record::{self, Record, RecordLine};
use bakeoff_core::study::DecidingPlace;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, bakeoff};

/// Returns the record of a short run whose trials are all valid.
fn template() -> Record {
    static RECORD: OnceLock<String> = OnceLock::new();
    let text = RECORD.get_or_init(|| {
        let bench = Bench::new(
            "title: A short one\n\
             systems:\n  canary: {kind: canary, options: {sync: none, delay: 2ms}}\n\
             workloads:\n  work: {mix: {put: 1}, keys: {count: 20}}\n\
             loads:\n  load: {clients: 4, warmup: 0s, stop: {after: 400ms}}\n\
             trials: 3\n",
        );
        CommandOutput::run(bench.command().arg("--json")).ends_with(0);
        let run = bench.runs().pop().expect("it left a run");
        std::fs::read_to_string(run.join("record.jsonl")).expect("a run has a record")
    });
    record::read(text).expect("the record can be read").0
}

/// A folder of runs.
struct History {
    dir: TempDir,
    runs: usize,
}

impl History {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("there is room for a test"), runs: 0 }
    }

    /// Adds a run of the next day with this throughput, and returns its folder.
    fn push(&mut self, per_second: f64, change: impl Fn(&mut Record)) -> PathBuf {
        let mut record = template();
        let (month, day) = (1 + self.runs / 28, 1 + self.runs % 28);
        record.header.started = format!("2026-{month:02}-{day:02}T02:00:00Z");
        for (number, trial) in record.trials.iter_mut().enumerate() {
            // The median is the wanted figure.
            let off = 1.0 + (number as f64 - 1.0) * 0.004;
            for stage in &mut trial.stages {
                let window = stage.measurement.window.as_secs_f64();
                // More operations than were sent would be an impossible record.
                let scale = per_second * off * window;
                for figures in stage.measurement.operations.values_mut() {
                    figures.verified = scale.round() as u64;
                    figures.verified_in_window = scale.round() as u64;
                }
            }
        }
        change(&mut record);
        let folder = self.dir.path().join(format!("run-{:03}", self.runs));
        self.runs += 1;
        std::fs::create_dir(&folder).unwrap();
        let mut chain = Chain::default();
        let end = record.end.take().map(RecordLine::End);
        let trials = record.trials.into_iter().map(RecordLine::Trial);
        let lines = [RecordLine::Run(record.header)].into_iter().chain(trials).chain(end);
        let text: String = lines.map(|line| chain.link(&line)).collect();
        std::fs::write(folder.join("record.jsonl"), text).unwrap();
        folder
    }

    /// Adds runs that scatter by some 1.5 % around this throughput.
    fn steady(mut self, runs: usize, per_second: f64) -> Self {
        const OFF: [f64; 11] = [0.2, -1.4, 1.1, 2.2, -0.9, 0.4, -2.3, 1.6, -0.1, -1.8, 1.0];
        for _ in 0..runs {
            let off = OFF[(self.runs * 7) % OFF.len()] + OFF[self.runs % 5] / 3.0;
            self.push(per_second * (1.0 + off / 100.0), |_| {});
        }
        self
    }

    fn trend(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = bakeoff();
        command.args(["history", "--trend", "study", "--out"]).arg(self.dir.path());
        CommandOutput::run(command.args(arguments))
    }

    fn json(&self) -> Value {
        let text = self.trend(&["--json"]).ends_with(0).stdout;
        serde_json::from_str(&text).expect("JSON and nothing else")
    }
}

fn throughput(trend: &Value) -> &Value {
    let is_it = |one: &&Value| one["quantity"] == "throughput_mean_per_second";
    array(&trend["series"]).iter().find(is_it).expect("throughput is followed")
}

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "`{expected}` is not in\n{text}");
    }
}

#[test]
fn trend_names_the_first_bad_run_with_size_and_interval() {
    let history = History::new().steady(40, 1000.0).steady(2, 950.0);
    let json = history.json();
    schema::allow("trend", &json);
    let series = throughput(&json);
    assert_eq!(array(&series["points"]).len(), 42);
    let [change] = array(&series["changes"]) else { panic!("{series}") };
    assert_eq!((&change["first_run"], &change["confirmed"]), (&"run-040".into(), &false.into()));
    assert_eq!((&change["worse"], &change["runs_since"]), (&true.into(), &2.into()));
    let size = change["change"].as_f64().unwrap();
    assert!((-0.06..-0.02).contains(&size), "{change}");
    let interval: Vec<f64> =
        array(&change["interval"]).iter().map(|end| end.as_f64().unwrap()).collect();
    assert!(interval[0] < size && size < interval[1] && interval[1] < 0.0, "{change}");
    let terminal = history.trend(&[]).ends_with(0).stdout;
    let expected = [
        "! work/load canary throughput mean /s: -",
        "worse from run-040 on (2 runs",
        "new: later runs confirm it or end it",
        "Parameters: e-divisive in windows of 100 runs",
        "Alerts of neighbouring runs overlap by",
    ];
    says(&terminal, &expected);
    let comment = history.trend(&["--format", "markdown"]).ends_with(0).stdout;
    says(&comment, &["## Trend of study: 42 runs", "- **work/load canary throughput mean /s: -"]);
    let page = history.trend(&["--format", "html"]).ends_with(0).stdout;
    says(&page, &["Content-Security-Policy", "run-040", "event unplanned", "Parameters: "]);
    let confirmed = history.steady(10, 950.0).json();
    let [change] = array(&throughput(&confirmed)["changes"]) else { panic!("{confirmed}") };
    assert_eq!((&change["first_run"], &change["confirmed"]), (&"run-040".into(), &true.into()));
}

#[test]
fn comment_stays_empty_if_nothing_changed() {
    let history = History::new().steady(45, 1000.0);
    let comment = history.trend(&["--format", "markdown"]).ends_with(0);
    assert_eq!((&*comment.stdout, &*comment.stderr), ("", ""));
    let file = history.dir.path().join("comment.md");
    history.trend(&["-o", file.to_str().unwrap()]).ends_with(0);
    assert_eq!(std::fs::read(file).unwrap(), b"");
    says(&history.trend(&[]).ends_with(0).stdout, &["Nothing changed in "]);
    // A change of long ago is in the trend and no news for a merge request.
    let history = History::new().steady(20, 1000.0).steady(15, 900.0);
    assert_eq!(array(&throughput(&history.json())["changes"]).len(), 1);
    assert_eq!(history.trend(&["--format", "markdown"]).ends_with(0).stdout, "");
}

#[test]
fn runs_of_equal_loads_are_one_series_whatever_a_study_asks() {
    let mut history = History::new().steady(12, 1000.0);
    history.push(1000.0, |record| {
        let (workload, load) = ("work".to_owned(), "load".to_owned());
        record.header.study.question = Some(DecidingPlace { workload, load });
        record.header.study.is_quick = true;
    });
    let json = history.json();
    assert_eq!((array(&json["runs"]).len(), array(&json["left_out"]).len()), (13, 0), "{json}");
}

#[test]
fn runs_of_another_key_and_spoilt_runs_are_left_out() {
    let mut history = History::new().steady(12, 1000.0);
    history.push(500.0, |record| record.header.environment.kernel = "Linux 7.0".to_owned());
    history.push(500.0, |record| record.header.study.audit_keys += 1);
    history.push(500.0, |record| record.trials.truncate(2));
    history.push(500.0, |record| {
        let broken = || record::TrialOutcome::Failed("it broke".to_owned());
        record.trials.iter_mut().for_each(|trial| trial.outcome = broken());
    });
    history.push(500.0, |record| record.header.study.name = "other".to_owned());
    let altered = history.push(500.0, |_| {}).join("record.jsonl");
    let text = std::fs::read_to_string(&altered).unwrap();
    std::fs::write(&altered, text.replacen("\"seed\":", "\"seed\":1", 1)).unwrap();
    let copy = history.push(500.0, |_| {});
    let first = history.dir.path().join("run-000");
    std::fs::copy(first.join("record.jsonl"), copy.join("record.jsonl")).unwrap();
    let history = history.steady(1, 1000.0);
    let json = history.json();
    schema::allow("trend", &json);
    assert_eq!(array(&json["runs"]).len(), 13, "{json}");
    let reasons: Vec<(&str, &str)> = array(&json["left_out"])
        .iter()
        .map(|one| (one["run"].as_str().unwrap(), one["why"].as_str().unwrap()))
        .collect();
    let expected = [
        ("run-012", "it differs from the newest run in the kernel"),
        ("run-013", "it differs from the newest run in the study"),
        ("run-014", "it is incomplete"),
        ("run-015", "it has no valid trial"),
        ("run-017", "its record was changed after it was written"),
        ("run-018", "it is a copy"),
    ];
    assert_eq!(reasons, expected);
    let refused = history.trend(&["--reset", "run-015"]).ends_with(2);
    refused.complains(&["cannot begin anew with `run-015`: it has no valid trial"]);
    assert!(!history.dir.path().join("run-015/trend-reset").exists());
    let points = array(&throughput(&json)["points"]);
    assert!(points.iter().all(|point| point["median"].as_f64().unwrap() > 900.0), "{json}");
    says(&history.trend(&[]).ends_with(0).stdout, &["Left out: run-012: it differs from"]);
}

#[test]
fn reset_begins_the_trend_anew_and_is_never_replaced() {
    let history = History::new().steady(30, 1000.0).steady(10, 800.0);
    assert_eq!(array(&throughput(&history.json())["changes"]).len(), 1);
    let before = std::fs::read(history.dir.path().join("run-030/record.jsonl")).unwrap();
    let reset = ["--reset", "run-030", "--because", "new disk"];
    says(&history.trend(&reset).ends_with(0).stdout, &["begins anew with `run-030`", "remove"]);
    let json = history.json();
    schema::allow("trend", &json);
    assert_eq!(array(&json["runs"]).len(), 10);
    assert_eq!(
        (&json["reset"]["why"], &json["reset"]["runs_before"]),
        (&"new disk".into(), &30.into())
    );
    assert_eq!(array(&throughput(&json)["changes"]).len(), 0);
    says(
        &history.trend(&[]).ends_with(0).stdout,
        &["Reset at run-030: new disk; 30 runs before it left out", "Nothing changed in "],
    );
    history.trend(&reset).ends_with(2).complains(&["exists, and is not overwritten", "remove it"]);
    history
        .trend(&["--reset", "nowhere"])
        .ends_with(2)
        .complains(&["`nowhere` of --reset is no run of this study", "the newest is `run-039`"]);
    history
        .trend(&["--reset", "run-029"])
        .ends_with(2)
        .complains(&["`run-029`: the trend was begun anew with a later run", "name a run that"]);
    let after = std::fs::read(history.dir.path().join("run-030/record.jsonl")).unwrap();
    assert!(before == after, "a reset changed the record");
}

#[test]
fn exports_have_the_forms_of_their_tools() {
    let history = History::new().steady(14, 1000.0);
    let export = |format: &str| history.trend(&["--format", format]).ends_with(0).stdout;
    let json = |format: &str| -> Value { serde_json::from_str(&export(format)).unwrap() };
    let bencher = json("bencher");
    let measures = &bencher["study work/load canary"];
    let rate = &measures["throughput_mean_per_second"];
    let value = |of: &str| rate[of].as_f64().unwrap();
    assert!(value("lower_value") < value("value") && value("value") < value("upper_value"));
    assert!((900.0..1100.0).contains(&value("value")), "{bencher}");
    let (bigger, smaller) = (json("github-bigger"), json("github-smaller"));
    let [only] = array(&bigger) else { panic!("{bigger}") };
    assert_eq!(only["name"], "study work/load canary throughput_mean_per_second");
    assert_eq!((&only["unit"], &only["value"]), (&"/s".into(), &rate["value"]));
    assert_eq!(only["extra"], "median of 3 trials");
    let names: Vec<&str> =
        array(&smaller).iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"study work/load canary response_p50_ms"), "{names:?}");
    let metrics = export("openmetrics");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    says(
        &metrics,
        &[
            "# TYPE bakeoff_throughput_mean_per_second gauge\n",
            "# TYPE bakeoff_response_p50_seconds gauge\n# UNIT bakeoff_response_p50_seconds seconds\n",
        ],
    );
    let of_rate =
        |line: &&str| line.starts_with("bakeoff_throughput_mean_per_second{study=\"study\"");
    let samples: Vec<&str> = metrics.lines().filter(of_rate).collect();
    assert_eq!(samples.len(), 14, "{metrics}");
    // The first of January 2026, 2 o'clock.
    assert!(samples[0].ends_with(" 1767232800"), "{}", samples[0]);
}

#[test]
fn bad_input_is_refused_with_a_hint_and_nothing_is_overwritten() {
    let history = History::new().steady(2, 1000.0);
    let out = history.dir.path().to_str().unwrap();
    let ran = |study: &str, out: &str| {
        CommandOutput::run(bakeoff().args(["history", "--trend", study, "--out", out])).ends_with(2)
    };
    ran("none", out).complains(&["has no run of study `none`", "it has runs of `study`"]);
    ran("study", "/nowhere/at/all").complains(&["`/nowhere/at/all` of --out is not a folder"]);
    // A study may be given by its file, which need not exist.
    let by_file = ["history", "--trend", "some/study.yaml", "--out", out];
    CommandOutput::run(bakeoff().args(by_file)).ends_with(0);
    let kept = history.dir.path().join("kept.html");
    std::fs::write(&kept, "mine").unwrap();
    let write = |file: &Path| history.trend(&["-o", file.to_str().unwrap()]);
    write(&kept).ends_with(2).complains(&["exists, and is not overwritten", "name another file"]);
    assert_eq!(std::fs::read(&kept).unwrap(), b"mine");
    write(Path::new("trend.pdf")).ends_with(2).complains(&["selects no format", "use .html"]);
    let refused = CommandOutput::run(bakeoff().args(["history", "--format", "html", "--out", out]));
    refused.ends_with(2).complains(&["--trend"]);
    let mut broken = History::new();
    broken.push(1000.0, |record| record.trials.clear());
    let said = broken.trend(&[]).ends_with(2);
    said.complains(&["no run of `study` can be used", "run-000: it is incomplete", "--resume RUN"]);
}

#[test]
fn texts_of_strangers_are_harmless_in_every_format() {
    const EVIL: &str = "a\"b\\c\nd\u{1b}[31m<script>\u{202e}@all";
    let evil = |record: &mut Record| {
        record.header.study.systems[0].name = EVIL.to_owned();
        record.header.systems[0].name = EVIL.to_owned();
        record.header.order.iter_mut().for_each(|trial| trial.system = EVIL.to_owned());
        record.trials.iter_mut().for_each(|trial| trial.trial.system = EVIL.to_owned());
    };
    let mut history = History::new();
    for run in 0..24 {
        let slow = run >= 16;
        history.push(if slow { 800.0 } else { 1000.0 } + f64::from(run % 4), |record| {
            evil(record);
            if slow {
                record.header.systems[0].version = Some(EVIL.to_owned());
            }
        });
    }
    std::fs::write(history.dir.path().join("run-000/trend-reset"), EVIL).unwrap();
    let named = history.dir.path().join("evil-\u{1b}[31m<script>");
    std::fs::rename(history.dir.path().join("run-016"), &named).unwrap();
    let formats =
        ["terminal", "markdown", "json", "html", "bencher", "github-bigger", "openmetrics"];
    for format in formats {
        let ran = history.trend(&["--format", format]).ends_with(0);
        let harmful = |c: char| c != '\n' && c != '\t' && bakeoff_core::units::is_harmful(c);
        assert!(ran.stdout.contains("script"), "{format}: {}", ran.stdout);
        assert!(!ran.stdout.contains(harmful), "{format}: {}", ran.stdout);
        let markup = ["html", "markdown"].contains(&format) && ran.stdout.contains("[31m<script>");
        assert!(!markup, "{format}: {}", ran.stdout);
        let is_sample = |line: &str| line.starts_with('#') || line.starts_with("bakeoff_");
        assert!(format != "openmetrics" || ran.stdout.lines().all(is_sample), "{}", ran.stdout);
    }
    let comment = history.trend(&["--format", "markdown"]).stdout;
    assert!(comment.contains("that run also") && !comment.contains("@all"), "{comment}");
}
