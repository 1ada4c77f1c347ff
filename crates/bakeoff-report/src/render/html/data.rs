//! The raw data, inside the page and to be saved from it.
//!
//! Each file stands in a block that no browser runs; the script offers it for saving, which works
//! from a mail attachment as well. Of the record itself goes in as much as there is room for: all
//! of it, or its trials without histograms, or without samples too.
//!
//! Not here: what the files say (`json`, `csv`, `record`).

use std::fmt::Write as _;

use bakeoff_core::record::{Record, RecordLine, TrialRecord, write_line};
use bakeoff_core::units::harmless_json;
use serde_json::{Value, json};

use crate::document::report::Report;
use crate::render::{csv::csv, json::json as report_json, markdown::markdown};

use super::page::{escape, paragraph};

/// The page with everything in it is to be no larger.
const PAGE_MAX: usize = 5_600_000;
/// A record that is larger is not a part of the page.
const RECORD_MAX: usize = 2_000_000;

/// A file to save.
struct Saved {
    id: &'static str,
    name: String,
    what: String,
    /// JSON; a text file is a JSON text.
    content: String,
}

/// The section, and the blocks with the files; `used` is how many bytes the page has already.
pub(super) fn section(report: &Report, record: &Record, used: usize) -> (String, String) {
    let study = &report.header.study.name;
    let text = |text: &str| Value::from(text).to_string();
    let mut files = vec![
        Saved {
            id: "file-json",
            name: format!("{study}-report.json"),
            what: "every figure of this report, of each trial and combined, as JSON".to_owned(),
            content: report_json(report).to_string(),
        },
        Saved {
            id: "file-csv",
            name: format!("{study}-trials.csv"),
            what: "one row a trial, for a spreadsheet".to_owned(),
            content: text(&csv(report)),
        },
        Saved {
            id: "file-md",
            name: format!("{study}-report.md"),
            what: "the report as Markdown, for a pull request".to_owned(),
            content: text(&markdown(report)),
        },
    ];
    let so_far: usize = files.iter().map(|file| file.content.len()).sum();
    let room = PAGE_MAX.saturating_sub(used + so_far).min(RECORD_MAX);
    files.extend(record_file(record, study, room));

    let mut list = String::from("<ul class=\"files\">");
    let mut blocks = String::new();
    for Saved { id, name, what, content } in &files {
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
    let how = "The files are parts of this page. Saving them takes JavaScript; without it they can \
               be read in the page's source.";
    (format!("{list}{}", paragraph("how", how)), blocks)
}

/// JSON that says the same without what could end a block or mislead who reads the page's source.
fn plain(json: &str) -> String {
    harmless_json(json).replace('<', "\\u003c")
}

/// As much of the record as there is room for.
fn record_file(record: &Record, study: &str, room: usize) -> Option<Saved> {
    if packed(record) < room {
        let text = whole(record);
        if text.len() < room {
            return Some(Saved {
                id: "file-record",
                name: format!("{study}-record.jsonl"),
                what: "the run's record, from which bakeoff makes this report again".to_owned(),
                content: Value::from(text).to_string(),
            });
        }
    }
    for (samples, what) in [
        (true, "the record's trials without histograms, as JSON"),
        (false, "the record's trials without histograms and without samples, as JSON"),
    ] {
        let trials: Vec<Value> = record.trials.iter().map(|one| condensed(one, samples)).collect();
        let content = json!({"run": record.header, "trials": trials}).to_string();
        if content.len() < room {
            return Some(Saved {
                id: "file-record",
                name: format!("{study}-trials.json"),
                what: format!("{what}; the whole is in the run's folder"),
                content,
            });
        }
    }
    None
}

/// At least how large the record is as text: what its seconds hold is packed already.
fn packed(record: &Record) -> usize {
    let stages = record.trials.iter().flat_map(|trial| &trial.stages);
    let seconds = stages.flat_map(|stage| &stage.measurement.seconds);
    let figures = seconds.flat_map(|second| second.operations.values());
    figures.map(|figures| figures.response.hdr.len() + figures.service.hdr.len()).sum()
}

/// The record as its file has it.
fn whole(record: &Record) -> String {
    let mut text = write_line(&RecordLine::Run(record.header.clone()));
    for trial in &record.trials {
        text.push_str(&write_line(&RecordLine::Trial(trial.clone())));
    }
    text.extend(record.resumed.iter().map(|one| write_line(&RecordLine::Resumed(one.clone()))));
    text.extend(record.end.iter().map(|one| write_line(&RecordLine::End(one.clone()))));
    text
}

/// A trial without its histograms, with the names of the record's own fields.
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
