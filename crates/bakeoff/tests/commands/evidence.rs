//! Tests that figures in the documents are those of the records in `docs/evidence/records`.
//!
//! A section of a document between `<!-- record NAME PART: begin -->` and `<!-- record NAME PART: end -->` follows from
//! the record: its answer, its first sentence or tables, its first screen, the conditions of the run, or the servers'
//! memory, which fits into a line. `BLESS=1` rewrites these sections.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::record::chain;
use bakeoff_core::units::ByteCount;
use bakeoff_report::verify::{self, Outcome};
use bakeoff_report::{self as report, Extent, Report, Style};
use bakeoff_trial::run::folder::{self, ReadRun};
use serde_json::Value;

/// Folder of the records.
const RECORDS: &str = "docs/evidence/records";
/// Maximum size of all records together, in bytes.
const SIZE_MAX: u64 = 20_000_000;
/// Longest second sentence of a part `sentence`, in bytes.
const SUPPORT_MAX: usize = 500;
/// Part of a record that fits into a line.
const MEMORY: &str = "memory";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the names of all records.
fn names() -> BTreeSet<String> {
    let runs = folder::runs_in(&root().join(RECORDS)).expect("the records");
    let name = |run: PathBuf| run.file_name().unwrap().to_str().unwrap().to_owned();
    runs.into_iter().map(name).collect()
}

fn read(name: &str) -> ReadRun {
    folder::read(&root().join(RECORDS).join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Returns README.md and the pages below `docs`.
fn documents() -> Vec<PathBuf> {
    fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                pages(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![root().join("README.md")];
    pages(&root().join("docs"), &mut found);
    found
}

/// Renders a part of a record for a page. `records`: the path from the page's folder to the records.
fn part(name: &str, part: &str, records: &str) -> String {
    let run = read(name);
    let report = Report::new(&run.record);
    let page = report::markdown(&report);
    // The first screen is before the first section and the first fold, and after the title.
    let end = ["\n## ", "\n<details>"].iter().filter_map(|mark| page.find(mark)).min();
    let screen: Vec<&str> = page[..end.unwrap_or(page.len())].split("\n\n").skip(1).collect();
    let is_table = |block: &&str| block.starts_with("| ");
    let kept: Vec<String> = match part {
        "answer" => screen.iter().filter(|block| !is_heading(block)).map(trimmed).collect(),
        // A long list of figures is in the report.
        "sentence" => screen
            .iter()
            .filter(|block| !is_heading(block))
            .take(2)
            .enumerate()
            .filter(|(number, block)| *number == 0 || block.len() <= SUPPORT_MAX)
            .map(|(_, block)| trimmed(block))
            .collect(),
        "screen" => vec![first_screen(&report)],
        "table" => screen.iter().filter(|block| is_table(block)).map(trimmed).collect(),
        MEMORY => vec![memory(&report)],
        "conditions" => vec![conditions(name, &run, &page, records)],
        _ => panic!("`{part}` is no part of a record"),
    };
    assert!(!kept.is_empty(), "record `{name}` has no {part}");
    kept.join("\n\n")
}

/// Returns the most memory that servers of a system had in a trial.
fn memory(report: &Report) -> String {
    let json = report::json(report);
    let all = |list: &Value| list.as_array().expect("a list").clone();
    let systems = all(&json["comparisons"]).into_iter().flat_map(|one| all(&one["systems"]));
    let memory = |of: Value| {
        let most = of["figures"]["server_memory_max_sum_of_nodes_bytes"]["max"].as_f64()?;
        Some((most as u64, of["system"].as_str()?.to_owned()))
    };
    let (bytes, system) = systems.filter_map(memory).max().expect("servers with memory");
    format!("{} ({system})", ByteCount(bytes))
}

/// Returns what a terminal shows of a run.
fn first_screen(report: &Report) -> String {
    let wide = Style { width: Some(120), colour: false };
    let screen = report::terminal(report, &wide, Extent::Glance);
    format!("```text\n{}\n```", screen.trim_end())
}

fn is_heading(block: &str) -> bool {
    block.starts_with('#')
}

fn trimmed(block: &&str) -> String {
    block.trim().to_owned()
}

/// Describes a run in two sentences, with a link to its record.
fn conditions(name: &str, run: &ReadRun, page: &str, records: &str) -> String {
    let header = &run.record.header;
    let versions = header.systems.iter().map(|system| {
        let version = system.version.as_deref().unwrap_or_default();
        format!("{} {version}", system.name).trim_end().to_owned()
    });
    let machine = page.trim_end().rsplit('\n').next().unwrap_or_default();
    format!(
        "[Record]({records}/{name}): `{}` with bakeoff {} on {}. {}. {machine}.",
        header.repeat_command(),
        header.bakeoff,
        header.started.get(..10).unwrap_or_default(),
        versions.collect::<Vec<_>>().join(", "),
    )
}

/// Returns the path from a page's folder to the records.
fn records_from(page: &Path) -> String {
    let folder: Vec<_> = page.strip_prefix(root()).unwrap().parent().unwrap().iter().collect();
    let records: Vec<_> = Path::new(RECORDS).iter().collect();
    let shared = folder.iter().zip(&records).take_while(|(one, other)| one == other).count();
    let down = PathBuf::from_iter(&records[shared..]);
    "../".repeat(folder.len() - shared) + down.to_str().unwrap()
}

/// Replaces each section of a page that follows from a record, and returns the names of these records.
fn renewed(page: &str, records: &str) -> (String, Vec<String>) {
    let (mut text, mut rest, mut used) = (String::new(), page, Vec::new());
    while let Some(at) = rest.find("<!-- record ") {
        let (before, section) = rest.split_at(at);
        let (mark, _) = section.split_once(": begin -->").expect("a section begins");
        let words: Vec<&str> = mark.split(' ').collect();
        let [_, _, name, wanted] = words[..] else { panic!("`{mark}` is not `record NAME PART`") };
        let end = format!("{mark}: end -->");
        let (_, after) = section.split_once(&end).unwrap_or_else(|| panic!("no `{end}`"));
        let gap = if wanted == MEMORY { "" } else { "\n\n" };
        let part = part(name, wanted, records);
        text += &format!("{before}{mark}: begin -->{gap}{part}{gap}{end}");
        used.push(name.to_owned());
        rest = after;
    }
    (text + rest, used)
}

#[test]
fn figures_of_documents_are_those_of_their_records() {
    let mut used = BTreeSet::new();
    for path in documents() {
        let page = fs::read_to_string(&path).unwrap();
        let (expected, names) = renewed(&page, &records_from(&path));
        used.extend(names);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, expected).unwrap();
        } else {
            assert_eq!(page, expected, "{}: `cargo xtask bless` writes it anew", path.display());
        }
    }
    assert_eq!(used, names(), "each record stands behind a figure");
}

#[test]
fn published_records_are_consistent_small_and_without_paths_of_a_machine() {
    let mut size = 0;
    for name in names() {
        let run = read(&name);
        let faults = verify::verify(&chain::check(&run.text), &run.record, &run.complaints);
        let fault = faults.iter().find(|one| one.outcome == Outcome::Fails);
        assert!(fault.is_none(), "{name}: {fault:?}");
        let text = String::from_utf8(run.text).unwrap();
        for folder in ["home", "root", "tmp", "Users"] {
            let path = format!("/{folder}/");
            let at = text.find(&path).map(|at| text.get(at.saturating_sub(60)..at + 60));
            assert_eq!(at, None, "{name} names a path of a machine");
        }
        let record = folder::record_file(&root().join(RECORDS).join(&name));
        size += record.metadata().unwrap().len();
    }
    assert!(size > 0 && size < SIZE_MAX, "{size} bytes of records");
}
