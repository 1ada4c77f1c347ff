//! `bakeoff report`, and what every run leaves beside its record: the page, Markdown, CSV, JSON.
//!
//! Not here: what a report says and how it looks (`bakeoff_report`).

use std::path::{Path, PathBuf};

use bakeoff_core::record::Record;
use bakeoff_host::private;
use bakeoff_report::{self as report, Extent, Report, Style};
use bakeoff_trial::run::folder;

use crate::cli::{Format, ReportArgs};
use crate::failure::Failure;
use crate::messages;

/// The page that is written where no other file is asked for.
const PAGE: &str = "report.html";

/// The files that a run leaves beside its record.
pub(crate) const FILES: [(&str, Format); 4] = [
    (PAGE, Format::Html),
    ("report.md", Format::Markdown),
    ("report.csv", Format::Csv),
    ("report.json", Format::Json),
];

/// A record with all that is shown of it.
pub(crate) struct Rendering {
    record: Record,
    report: Report,
}

impl Rendering {
    pub(crate) fn new(record: Record) -> Self {
        Self { report: Report::new(&record), record }
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Renders it in one of the forms; a terminal's may show the first screen alone.
    pub(crate) fn text(&self, format: Format, style: &Style, extent: Extent) -> String {
        match format {
            Format::Terminal => report::terminal(&self.report, style, extent),
            Format::Markdown => report::markdown(&self.report),
            Format::Html => report::html(&self.report, &self.record),
            Format::Csv => report::csv(&self.report),
            Format::Json => messages::json(&report::json(&self.report)) + "\n",
        }
    }

    /// Writes every form into a run's folder and yields the page's path.
    pub(crate) fn write_all(&self, folder: &Path) -> Result<PathBuf, Failure> {
        for (name, format) in FILES {
            write_inside(&folder.join(name), &self.text(format, &PLAIN, Extent::Full))?;
        }
        Ok(folder.join(PAGE))
    }
}

/// For files: neither colours nor a width.
pub(crate) const PLAIN: Style = Style { width: None, colour: false };

/// Writes a file of a run's folder, which may be somebody else's and hold links.
fn write_inside(path: &Path, text: &str) -> Result<(), Failure> {
    private::replace(path, text.as_bytes(), private::PRIVATE)
        .map_err(|error| Failure::file("write", path, &error))
}

/// Writes a file that the user named; what is there and no file, such as `/dev/stdout`, is written to.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let special = path.symlink_metadata().is_ok_and(|found| !found.is_file());
    let written = match special {
        true => std::fs::write(path, text),
        false => private::replace(path, text.as_bytes(), private::SHARED),
    };
    written.map_err(|error| Failure::file("write", path, &error))
}

/// Renders a run again from its record alone.
///
/// Without a form: the terminal's on standard output, and the page beside the record where it may be written.
pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let record = folder::read_and_warn(&args.run)?;
    let rendering = Rendering::new(record);
    if args.method {
        messages::output(&report::demands(&rendering.report, &messages::style()));
        return Ok(());
    }
    let asked = if args.json { Some(Format::Json) } else { args.format };
    if let Some(file) = &args.output {
        let format = match asked {
            Some(format) => format,
            None => format_of(file)?,
        };
        write(file, &rendering.text(format, &PLAIN, Extent::Full))?;
        messages::output(&format!("Report: {}", file.display()));
        return Ok(());
    }
    let shown = asked.unwrap_or(Format::Terminal);
    messages::output(&rendering.text(shown, &messages::style(), extent(args.all)));
    if asked.is_none() {
        let folder = if args.run.is_dir() { Some(&*args.run) } else { args.run.parent() };
        let page = folder.unwrap_or(Path::new("")).join(PAGE);
        match write_inside(&page, &rendering.text(Format::Html, &PLAIN, Extent::Full)) {
            Ok(()) => messages::output(&format!("\nReport: {}", page.display())),
            // A run of somebody else's may be read alone.
            Err(failure) => messages::warn(&format!(
                "{}; `--output FILE` writes the page elsewhere",
                failure.headline()
            )),
        }
    }
    Ok(())
}

/// Returns how much a terminal shows.
pub(crate) fn extent(all: bool) -> Extent {
    if all { Extent::Full } else { Extent::Glance }
}

/// The form that a file's name asks for.
fn format_of(file: &Path) -> Result<Format, Failure> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("html" | "htm") => Ok(Format::Html),
        Some("md") => Ok(Format::Markdown),
        Some("csv") => Ok(Format::Csv),
        Some("json") => Ok(Format::Json),
        Some("txt") => Ok(Format::Terminal),
        _ => Err(Failure::input(
            format!("the name `{}` does not tell the report's form", file.display()),
            "end it with .html, .md, .csv, .json or .txt, or give `--format`",
        )),
    }
}
