//! The raw data, embedded in the page for saving.
//!
//! Each file is in a block that no browser runs. The script offers it for saving, even in a mail attachment. The record
//! is embedded as far as it fits: complete, or without histograms, or also without samples.
//!
//! Not here: the content of the files (`json`, `csv`, `record`).

use std::fmt::Write as _;

use bakeoff_core::record::{Record, TrialRecord};
use bakeoff_core::units::harmless_json;
use serde_json::{Value, json};

use crate::document::report::Report;
use crate::render::{csv::csv, json::json as report_json, markdown::markdown};

use super::page::{escape, paragraph};

/// Largest size of the page, in bytes.
const PAGE_MAX: usize = 5_600_000;
/// Largest record to embed, in bytes.
const RECORD_MAX: usize = 2_000_000;

/// The section of a page whose record lies next to it.
pub(super) const ADJACENT: &str = "<p><a href=\"record.jsonl\">record.jsonl</a>: the run's record, from which \
                                 <code>bakeoff report record.jsonl</code> writes every format.</p>";

/// A file to save.
struct DownloadFile {
    id: &'static str,
    name: String,
    what: String,
    /// JSON; a text file is a JSON string.
    content: String,
}

/// Returns the section, and the blocks with the files. `bytes` are those of the record, `used` is the page's size so far.
pub(super) fn section(
    report: &Report,
    record: &Record,
    bytes: &[u8],
    used: usize,
) -> (String, String) {
    let study = &report.header.study.name;
    let text = |text: &str| Value::from(text).to_string();
    let mut files = vec![
        DownloadFile {
            id: "file-json",
            name: format!("{study}-report.json"),
            what: "every figure of this report, of each trial and combined, as JSON".to_owned(),
            content: report_json(report).to_string(),
        },
        DownloadFile {
            id: "file-csv",
            name: format!("{study}-trials.csv"),
            what: "one row per trial, for a spreadsheet".to_owned(),
            content: text(&csv(report)),
        },
        DownloadFile {
            id: "file-md",
            name: format!("{study}-report.md"),
            what: "the report as Markdown, for a pull request".to_owned(),
            content: text(&markdown(report)),
        },
    ];
    let so_far: usize = files.iter().map(|file| file.content.len()).sum();
    let room = PAGE_MAX.saturating_sub(used + so_far).min(RECORD_MAX);
    files.extend(record_file(record, bytes, study, room));

    let mut list = String::from("<ul class=\"files\">");
    let mut blocks = String::new();
    for DownloadFile { id, name, what, content } in &files {
        let (file, size) = (escape(name), bakeoff_core::units::ByteCount(content.len() as u64));
        let _ = write!(
            list,
            "<li><a data-file=\"{id}\" download=\"{file}\">{file}</a> ({size}): {}</li>",
            escape(what)
        );
        let content = plain(content);
        let _ =
            writeln!(blocks, "<script type=\"application/json\" id=\"{id}\">{content}</script>");
    }
    list.push_str("</ul>");
    let how = "The files are parts of this page. Saving them needs JavaScript; without it they can \
               be read in the page's source.";
    (format!("{list}{}", paragraph("how", how)), blocks)
}

/// Escapes JSON so that it cannot end its block or mislead a reader of the page's source.
fn plain(json: &str) -> String {
    harmless_json(json).replace('<', "\\u003c")
}

/// Returns as much of the record as fits. The whole record keeps its bytes, so that its hashes hold.
fn record_file(record: &Record, bytes: &[u8], study: &str, room: usize) -> Option<DownloadFile> {
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| text.len() < room) {
        return Some(DownloadFile {
            id: "file-record",
            name: format!("{study}-record.jsonl"),
            what: "the run's record, from which bakeoff can render this report again".to_owned(),
            content: Value::from(text).to_string(),
        });
    }
    for (samples, what) in [
        (true, "the record's trials without histograms, as JSON"),
        (false, "the record's trials without histograms and without samples, as JSON"),
    ] {
        let trials: Vec<Value> = record.trials.iter().map(|one| condensed(one, samples)).collect();
        let content = json!({"run": record.header, "trials": trials}).to_string();
        if content.len() < room {
            return Some(DownloadFile {
                id: "file-record",
                name: format!("{study}-trials.json"),
                what: format!("{what}; the whole record is in the run's folder"),
                content,
            });
        }
    }
    None
}

/// Returns a trial without its histograms, with the record's field names.
fn condensed(of: &TrialRecord, samples: bool) -> Value {
    let stages: Vec<Value> = of
        .stages
        .iter()
        .map(|stage| {
            let measured = &stage.measurement;
            let seconds: Vec<Value> = measured
                .seconds
                .iter()
                .map(|second| {
                    let errors: u64 = second.operations.values().map(|one| one.errors).sum();
                    json!({"second": second.second, "verified": second.verified(), "errors": errors})
                })
                .collect();
            let mut condensed = json!({
                "clients": stage.clients,
                "began": stage.began,
                "window": measured.window.as_secs_f64(),
                "generator_cpu": measured.generator_cpu.as_secs_f64(),
                "generator_busiest": measured.generator_busiest,
                "seconds": seconds,
            });
            if let Some(tried) = &stage.tried {
                condensed["tried"] = json!(tried);
            }
            condensed
        })
        .collect();
    let mut trial = json!({
        "trial": of.trial,
        "started": of.started,
        "ready_after": of.ready_after.as_secs_f64(),
        "leader": of.leader,
        "targets": of.targets,
        "filled": of.filled,
        "stages": stages,
        "usage": of.usage,
        "audits": of.audits,
        "checks": of.checks,
        "outcome": of.outcome,
    });
    if let (true, Some(observed)) = (samples, &of.observed) {
        trial["observed"] = json!(observed);
    }
    trial
}
