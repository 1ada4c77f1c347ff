//! Commands that use the machines of a places file, over SSH: `doctor --on`, `load --on`, `dbtester control --on`.

use std::fs;
use std::path::Path;
use std::process::Output;

use libtest_mimic::Trial;

use crate::support::hosts::Hosts;
use crate::support::skip::{Lacking, Skipped};

pub(crate) fn tests(skipped: &Skipped) -> Vec<Trial> {
    vec![skipped.unless_lacking(
        "machines_commands::doctor_tells_of_each_machine_with_others_down",
        doctor_with_one_down,
    )]
}

fn bakeoff(hosts: &Hosts, words: &[&str], on: &Path) -> Output {
    let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(words).arg("--on").arg(on).current_dir(hosts.dir()).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// The part of a text that tells of a machine.
fn part<'a>(told: &'a str, machine: &str) -> &'a str {
    let begin = told.find(&format!("{machine}\n")).unwrap_or_else(|| panic!("{told}"));
    let part = &told[begin..];
    part.split("\n\n").next().unwrap_or(part)
}

fn doctor_with_one_down() -> Result<(), Lacking> {
    let mut hosts = Hosts::new(3)?;
    let places = hosts.places(&[1, 2], &[3]);
    let study = "title: one command\nsystems: {own: {kind: process, process: {command: [sleep, '{port}']}, limits: {cpu: 1}}}\n\
                 workloads: {all: {mix: {request: 1}, request: {path: /}}}\n\
                 loads: {steady: {clients: 1, stop: {after: 1s}}}\n";
    let canary = hosts.dir().join("study.yaml");
    fs::write(&canary, study).unwrap();
    let canary = canary.display().to_string();
    let whole = bakeoff(&hosts, &["doctor", &canary], &places);
    let told = text(&whole);
    assert!(whole.status.success(), "{told}");
    for machine in ["h1", "h2", "h3"] {
        let part = part(&told, machine);
        for words in ["the one sent)", "there and back", "with this machine's", "a sync takes"] {
            assert!(part.contains(words), "{machine} without `{words}`:\n{told}");
        }
        assert!(!part.contains("  missing"), "{told}");
    }
    assert!(part(&told, "h1").contains("free at 198.18.0.1: "), "{told}");
    assert!(!part(&told, "h3").contains("free at"), "it takes no servers:\n{told}");

    fs::remove_dir(hosts.own(1).join("data")).unwrap();
    hosts.kill(2);
    let ended = bakeoff(&hosts, &["doctor", &canary], &places);
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(3), "{told}");
    assert!(part(&told, "h1").contains("missing   a folder for data"), "{told}");
    assert!(part(&told, "h1").contains("free at 198.18.0.1: "), "{told}");
    assert!(part(&told, "h2").contains("missing   no agent began on `h2`"), "{told}");
    assert!(part(&told, "h3").contains("a sync takes"), "{told}");
    Ok(())
}
