//! Tests `bakeoff compare` as CI uses it: output and exit code for two runs of the canary.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Bench, CommandOutput, bakeoff, reasons, trials};

const FAST: &str = "2ms";
const SLOW: &str = "25ms";

/// Returns a run of five short trials with a delay of [`FAST`] or [`SLOW`], in its own folder. Each runs once for all
/// tests.
fn ran(delay: &str) -> (TempDir, PathBuf) {
    static RECORDS: [OnceLock<String>; 2] = [OnceLock::new(), OnceLock::new()];
    let record = RECORDS[usize::from(delay == SLOW)].get_or_init(|| {
        let bench = Bench::new(&format!(
            "title: A short one\n\
             systems:\n  canary: {{kind: canary, options: {{sync: none, delay: {delay}}}}}\n\
             workloads:\n  work: {{mix: {{put: 1}}, keys: {{count: 20}}}}\n\
             loads:\n  load: {{clients: 4, warmup: 0s, stop: {{after: 400ms}}}}\n\
             trials: 5\n"
        ));
        CommandOutput::run(bench.command().arg("--json")).ends_with(0);
        let run = bench.runs().pop().expect("it left a run");
        std::fs::read_to_string(run.join("record.jsonl")).expect("a run has a record")
    });
    let dir = tempfile::tempdir().expect("there is room for a test");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("there is room for a run");
    std::fs::write(run.join("record.jsonl"), record).expect("a record can be written");
    (dir, run)
}

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "`{expected}` is not in\n{text}");
    }
}

fn compare(base: &Path, new: &Path, arguments: &[&str]) -> CommandOutput {
    CommandOutput::run(bakeoff().arg("compare").arg(base).arg(new).args(arguments))
}

/// Adds four copies of a run, as if run on other days.
fn on_other_days(run: &Path) {
    let record = std::fs::read_to_string(run.join("record.jsonl")).unwrap();
    let (first, rest) = record.split_once('\n').unwrap();
    for day in 1..5 {
        let mut header: Value = serde_json::from_str(first).unwrap();
        header["started"] = format!("2020-01-0{day}T00:00:00Z").into();
        let folder = run.with_file_name(format!("day-{day}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("record.jsonl"), format!("{header}\n{rest}")).unwrap();
    }
}

#[test]
fn two_runs_prove_nothing() {
    let ((_kept, fast), (_also, slow)) = (ran(FAST), ran(SLOW));
    let condition = ["--fail-if", "throughput < -20%"];
    let alone = compare(&fast, &slow, &condition);
    assert_eq!(alone.code, Some(7), "{}{}", alone.stdout, alone.stderr);
    says(
        &alone.stdout,
        &[
            "nothing can be proven: the spread between runs needs 5 runs",
            "`bakeoff gate` runs both builds in turn",
            "run the base's study 4 times more",
            "throughput < -20%: cannot tell",
        ],
    );
    // Further runs are found next to the base or by `--history`.
    on_other_days(&fast);
    assert_eq!(compare(&fast, &slow, &condition).code, Some(6));
    let history = slow.parent().unwrap().to_str().unwrap();
    let ran = compare(&fast, &slow, &[&condition[..], &["--history", history]].concat());
    assert_eq!(ran.code, Some(7), "{}", ran.stdout);
    let missing = compare(&fast, &slow, &["--history", "/nowhere/at/all"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stdout);
    says(&missing.stderr, &["`/nowhere/at/all` of --history is not a folder"]);
}

#[test]
fn only_regressions_beyond_the_limit_are_proven() {
    let ((_kept, fast), (_also, slow)) = (ran(FAST), ran(SLOW));
    on_other_days(&fast);
    on_other_days(&slow);
    let fails = |base: &Path, new: &Path, conditions: &[&str]| {
        let arguments: Vec<&str> =
            conditions.iter().flat_map(|condition| ["--fail-if", condition]).collect();
        compare(base, new, &arguments)
    };
    // A tenth of the throughput and ten times the response time: more than a busy machine adds.
    let ran = fails(&fast, &slow, &["throughput < -20%"]);
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    says(&ran.stdout, &["throughput < -20%: proven", "work/load canary", "options.delay"]);
    assert_eq!(fails(&fast, &slow, &["work/load canary: p50 > +20%"]).code, Some(6));
    // In the other direction nothing got worse, which is proven too.
    let ran = fails(&slow, &fast, &["throughput < -20%"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    says(&ran.stdout, &["throughput < -20%: does not hold"]);
    // A proven condition takes precedence over an inconclusive one.
    let ran = fails(&fast, &slow, &["service p99.9 < -49%", "throughput < -20%"]);
    assert_eq!(ran.code, Some(6), "{}", ran.stdout);
    assert_eq!(compare(&fast, &slow, &[]).code, Some(0));

    let ran = compare(&fast, &slow, &["--json", "--fail-if", "throughput < -20%"]);
    assert_eq!(ran.code, Some(6));
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON and nothing else");
    assert_eq!(json["fail_if"][0]["outcome"], "proven");
    let changes = json["comparisons"][0]["changes"].as_array().unwrap();
    let change = changes.iter().find(|one| one["quantity"] == "throughput_mean_per_second");
    let change = change.expect("throughput is compared");
    let by = change["new_median"].as_f64().unwrap() / change["base_median"].as_f64().unwrap() - 1.0;
    assert!((change["change"].as_f64().unwrap() - by).abs() < 1e-9, "{change}");
    assert_eq!(change["verdict"], "lower");
    says(&compare(&fast, &slow, &["--format", "markdown"]).stdout, &["# Two runs compared", "| "]);
}

#[test]
fn too_few_trials_are_inconclusive() {
    let (_kept, run) = ran(FAST);
    let record = std::fs::read_to_string(run.join("record.jsonl")).unwrap();
    // The run as if killed after two trials.
    let torn: String = record.split_inclusive('\n').take(3).collect();
    let short = run.join("short.jsonl");
    std::fs::write(&short, torn).unwrap();
    // A too busy machine leaves no trials to compare.
    let valid = |run: &Path| {
        let report =
            CommandOutput::run(bakeoff().arg("report").arg(run).arg("--json")).ends_with(0).stdout;
        let report: Value = serde_json::from_str(&report).expect("one JSON document");
        trials(&report).into_iter().filter(|trial| reasons(trial).is_empty()).count()
    };
    let too_few = format!("too few valid trials: {} and {}", valid(&run), valid(&short));
    let ran = compare(&run, &short, &["--fail-if", "throughput < -5%"]);
    assert_eq!(ran.code, Some(7), "{}", ran.stdout);
    says(&ran.stdout, &["cannot tell", &too_few, "the new run is incomplete"]);
    // A run compared with itself has no changes.
    let ran = compare(&run, &run, &["--fail-if", "throughput < -95%", "--fail-if", "errors > 5%"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
}

#[test]
fn rejects_a_bad_condition_with_its_position() {
    let (_kept, run) = ran(FAST);
    let check = |condition: &str, expected: &[&str]| {
        let ran = compare(&run, &run, &["--fail-if", condition]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        says(&ran.stderr, expected);
        assert_eq!(ran.stdout, "");
    };
    check("throughput < 5", &["`5` is not a change", "^"]);
    check("nobody: p99 > 5%", &["`nobody` is not in both runs; known: `canary`", "^^^^^^"]);
    check("work/none p99 > 5%", &["`work/none` is not in both runs; known: `work/load`"]);
}
