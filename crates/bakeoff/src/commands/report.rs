//! `bakeoff report`: renders a record as a terminal report, page, Markdown, CSV, JSON or image. Every run uses this too.
//!
//! Not here: contents and layout of reports (`bakeoff_report`).

use std::path::{Path, PathBuf};

use bakeoff_core::record::Record;
use bakeoff_files as files;
use bakeoff_report::{self as report, Extent, Report, Style};
use bakeoff_trial::run::folder::{self, PAGE, ReadRun};

use crate::cli::{Format, ReportArgs};
use crate::failure::Failure;
use crate::messages;

/// Reports that a run writes next to its record.
pub(crate) const FILES: [(&str, Format); 5] = [
    (PAGE, Format::Html),
    ("report.md", Format::Markdown),
    ("report.csv", Format::Csv),
    ("report.json", Format::Json),
    ("report.png", Format::Png),
];

pub(crate) struct Rendering {
    run: ReadRun,
    report: Report,
}

impl Rendering {
    pub(crate) fn new(run: ReadRun) -> Self {
        Self { report: Report::new(&run.record), run }
    }

    pub(crate) fn record(&self) -> &Record {
        &self.run.record
    }

    /// Renders the report as text. `extent` applies to the terminal format.
    pub(crate) fn text(&self, format: Format, style: &Style, extent: Extent) -> String {
        match format {
            Format::Terminal => report::terminal(&self.report, style, extent),
            Format::Markdown => report::markdown(&self.report),
            Format::Html => report::html(&self.report, &self.run.record, &self.run.text),
            Format::Csv => report::csv(&self.report),
            Format::Json => messages::json(&report::json(&self.report)) + "\n",
            Format::Svg | Format::Png => report::card(&self.report),
        }
    }

    /// Renders the whole report for a file.
    pub(crate) fn file(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Png => report::png(&self.report),
            format => self.text(format, &PLAIN, Extent::Full).into_bytes(),
        }
    }

    /// Writes all formats into a run's folder, and returns the page's path.
    pub(crate) fn write_all(&self, folder: &Path) -> Result<PathBuf, Failure> {
        for (name, format) in FILES {
            write_inside(&folder.join(name), &self.file(format))?;
        }
        Ok(folder.join(PAGE))
    }
}

/// Style for files: no colours, unlimited width.
pub(crate) const PLAIN: Style = Style { width: None, colour: false };

/// Writes a file in a run's folder, which another user may own and fill with links.
fn write_inside(path: &Path, content: &[u8]) -> Result<(), Failure> {
    files::replace(path, content, files::PRIVATE)
        .map_err(|error| Failure::file("write", path, &error))
}

/// Writes a file that the user named. Writes into special files such as `/dev/stdout` instead of replacing them.
fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let special = path.symlink_metadata().is_ok_and(|found| !found.is_file());
    let written = match special {
        true => std::fs::write(path, content),
        false => files::replace(path, content, files::SHARED),
    };
    written.map_err(|error| Failure::file("write", path, &error))
}

/// Renders a run again from its record.
///
/// Without a format, prints the terminal report and writes the page next to the record.
pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let rendering = Rendering::new(folder::read_and_warn(&args.run)?);
    if args.method {
        messages::output_styled(&report::demands(&rendering.report, &messages::style()));
        return Ok(());
    }
    let asked = if args.json { Some(Format::Json) } else { args.format };
    if let Some(file) = &args.output {
        let format = match asked {
            Some(format) => format,
            None => format_of(file)?,
        };
        write(file, &rendering.file(format))?;
        messages::output(&format!("Report: {}", file.display()));
        return Ok(());
    }
    if asked == Some(Format::Png) {
        return Err(Failure::input("`--format png` writes no text", "add `--output report.png`"));
    }
    let shown = asked.unwrap_or(Format::Terminal);
    messages::output_styled(&rendering.text(shown, &messages::style(), extent(args.all)));
    if asked.is_none() {
        let folder = if args.run.is_dir() { Some(&*args.run) } else { args.run.parent() };
        let page = folder.unwrap_or(Path::new("")).join(PAGE);
        match write_inside(&page, &rendering.file(Format::Html)) {
            Ok(()) => messages::output(&format!("\nReport: {}", page.display())),
            // Another user's run may be read-only.
            Err(failure) => messages::warn(&format!(
                "{}; use `--output FILE` to write the page to another place",
                failure.headline()
            )),
        }
    }
    Ok(())
}

pub(crate) fn extent(all: bool) -> Extent {
    if all { Extent::Full } else { Extent::Glance }
}

/// Returns the format for a file's extension.
fn format_of(file: &Path) -> Result<Format, Failure> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("html" | "htm") => Ok(Format::Html),
        Some("md") => Ok(Format::Markdown),
        Some("csv") => Ok(Format::Csv),
        Some("json") => Ok(Format::Json),
        Some("txt") => Ok(Format::Terminal),
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        _ => Err(Failure::input(
            format!("the extension of `{}` selects no report format", file.display()),
            "use .html, .md, .csv, .json, .txt, .svg or .png, or give `--format`",
        )),
    }
}
