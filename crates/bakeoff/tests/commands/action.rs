//! Tests the script of the GitHub Action, `action.yml`: it only calls `bakeoff gate` and passes on what that prints.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Bench, CommandOutput, bakeoff, has, skipped};

/// Returns the script of the action's step `gate`.
fn script() -> String {
    let action = include_str!("../../../../action.yml");
    let (_, step) = action.split_once("id: gate\n").expect("the step");
    let (_, script) = step.split_once("run: |\n").expect("its script");
    let lines = script.lines().take_while(|line| line.starts_with("        "));
    lines.map(|line| format!("{}\n", &line[8..])).collect()
}

struct ActionResult {
    ran: CommandOutput,
    outputs: String,
    summary: String,
    comment: String,
    junit: String,
}

/// Runs the step on a study of the canary, with these arguments, one a line.
fn run(arguments: &str) -> ActionResult {
    let bench = Bench::new(
        "title: A short one\n\
         systems:\n  canary: {kind: canary, options: {sync: none, delay: 5ms}}\n\
         workloads:\n  work: {mix: {put: 1}, keys: {count: 20}}\n\
         loads:\n  load: {clients: 4, warmup: 100ms, stop: {after: 400ms}}\n\
         trials: 50\n",
    );
    let program = bakeoff().get_program().to_owned();
    let folder = Path::new(&program).parent().expect("its folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("PATH"));
    let [summary, outputs] = ["summary", "outputs"].map(|name| bench.path().join(name));
    let mut step = Command::new("bash");
    step.args(["-e", "-o", "pipefail", "-c", &script()]).env("PATH", path);
    step.env("STUDY", bench.study()).env("BASE", "").env("NEW", "").env("ARGUMENTS", arguments);
    step.env("RUNNER_TEMP", bench.path()).env("GITHUB_ACTIONS", "true");
    step.env("GITHUB_STEP_SUMMARY", &summary).env("GITHUB_OUTPUT", &outputs);
    let ran = CommandOutput::run(&mut step);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let gate = bench.path().join("bakeoff-gate");
    ActionResult {
        ran,
        outputs: read(&outputs),
        summary: read(&summary),
        comment: read(&gate.join("comment.md")),
        junit: read(&gate.join("gate.xml")),
    }
}

#[test]
fn action_fails_and_comments_if_the_new_build_is_worse() {
    if !has("bash") {
        skipped("bash runs the action, and is not on PATH");
        return;
    }
    let of = run("--new-option\ndelay=50ms\n--trials\n6\n--shared-machine\n");
    assert_eq!(of.ran.code, Some(6), "{}{}", of.ran.stdout, of.ran.stderr);
    assert!(of.ran.stderr.contains("::error title=bakeoff gate"), "{}", of.ran.stderr);
    assert!(of.summary.contains("proven for the new build"), "{}", of.summary);
    assert_eq!(of.comment, of.summary);
    assert!(of.outputs.starts_with("code=6\n"), "{}", of.outputs);
    assert!(of.junit.contains("failures=\"1\""), "{}", of.junit);
}

#[test]
fn action_passes_and_has_nothing_to_say_if_nothing_changed() {
    if !has("bash") {
        skipped("bash runs the action, and is not on PATH");
        return;
    }
    // A setting that costs nothing, and a loss that few trials exclude.
    let of = run("--new-option\ndelay-share=100%\n--trials\n10\n--detect\n50%\n--shared-machine\n");
    assert_eq!(of.ran.code, Some(0), "{}{}", of.ran.stdout, of.ran.stderr);
    assert_eq!(of.comment, "");
    assert!(of.summary.contains("canary"), "{}", of.summary);
    assert!(of.outputs.starts_with("code=0\n"), "{}", of.outputs);
}
