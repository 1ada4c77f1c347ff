//! `bakeoff history --trend`: the figures of one study over time, and the runs from which they are different.
//!
//! Reads records and executes nothing. The only file that it writes inside a run is the mark of a reset, and it replaces
//! no file.
//!
//! Not here: the changes (`bakeoff_report::compare`), their forms (`bakeoff_report::trend`).

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use bakeoff_core::record::{RecordLine, chain};
use bakeoff_core::stats::rounds::Preference;
use bakeoff_files as files;
use bakeoff_report::compare::{LeftOut, Trend, TrendRun};
use bakeoff_report::{Style, trend, trend_page};
use bakeoff_trial::run::folder::{self, ReadRun, is_held};

use crate::cli::{HistoryArgs, TrendFormat};
use crate::commands::new_file;
use crate::commands::report::PLAIN;
use crate::failure::Failure;
use crate::messages;

/// File in a run's folder that marks a reset. It holds the reason.
pub(super) const RESET: &str = "trend-reset";
/// Most bytes of a reason that are read.
const REASON_MAX: u64 = 200;

/// Shows the trend of a study, or stores a reset.
pub(super) fn trend(args: &HistoryArgs, study: &str) -> Result<(), Failure> {
    let study = name_of(study);
    let folders = of_study(&args.out, study)?;
    let reset_of = args.reset.as_deref();
    let reset_of =
        reset_of.map(|run| find(&folders, run).map(|folder| (run, folder))).transpose()?;
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    for path in &folders {
        match read(path) {
            Ok(run) => runs.push(run),
            Err(why) => left_out.push(LeftOut { run: folder_name(path), why }),
        }
    }
    let reasons: Vec<String> =
        left_out.iter().map(|one| format!("  {}: {}", one.run, one.why)).collect();
    let trend = Trend::new(study, runs, left_out).ok_or_else(|| {
        Failure::input(
            format!("no run of `{study}` can be used:\n{}", reasons.join("\n")),
            "run the study again, or `bakeoff run --resume RUN` for an interrupted run",
        )
    })?;
    if let Some((run, folder)) = reset_of {
        return reset(&trend, run, folder, &args.because);
    }
    let format = match (args.format, &args.output) {
        _ if args.json => TrendFormat::Json,
        (Some(format), _) => format,
        (None, Some(file)) => format_of(file)?,
        (None, None) => TrendFormat::Terminal,
    };
    match &args.output {
        Some(file) => {
            let text = text(&trend, format, &PLAIN);
            new_file::write(file, text.as_bytes(), "name another file, or remove it")?;
            messages::output(&format!("Trend: {}", file.display()));
        }
        None => {
            let text = text(&trend, format, &messages::style());
            // An empty comment stays empty, without a newline.
            if !text.is_empty() {
                messages::output_styled(&text);
            }
        }
    }
    Ok(())
}

fn text(of: &Trend, format: TrendFormat, style: &Style) -> String {
    let json = |value| messages::json(&value) + "\n";
    match format {
        TrendFormat::Terminal => trend::terminal(of, style),
        TrendFormat::Markdown => trend::comment(of),
        TrendFormat::Json => json(trend::json(of)),
        TrendFormat::Html => trend_page(of),
        TrendFormat::Bencher => json(trend::bencher(of)),
        TrendFormat::GithubBigger => json(trend::github_action_benchmark(of, Preference::More)),
        TrendFormat::GithubSmaller => json(trend::github_action_benchmark(of, Preference::Less)),
        TrendFormat::Openmetrics => trend::openmetrics(of),
    }
}

/// Returns the name of a study that may be given by its file.
fn name_of(study: &str) -> &str {
    let file = Path::new(study);
    let is_file = file.extension().is_some_and(|one| one == "yaml" || one == "yml");
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    stem.filter(|_| is_file).unwrap_or(study)
}

fn folder_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the folders whose record names this study.
fn of_study(out: &Path, study: &str) -> Result<Vec<PathBuf>, Failure> {
    let (mut found, mut others) = (Vec::new(), BTreeSet::new());
    for path in super::folders(out)? {
        match studied(&path) {
            Ok(name) if name == study => found.push(path),
            Ok(name) => {
                others.insert(format!("`{name}`"));
            }
            Err(why) => messages::warn(&format!("`{}`: {why}", path.display())),
        }
    }
    found.sort_unstable();
    if found.is_empty() {
        let known: Vec<String> = others.into_iter().collect();
        return Err(Failure::input(
            format!("`{}` has no run of study `{study}`", out.display()),
            match known.as_slice() {
                [] => "`--out DIR` names the folder that holds the runs".to_owned(),
                known => format!("it has runs of {}", known.join(", ")),
            },
        ));
    }
    Ok(found)
}

/// Returns the name of a run's study.
fn studied(run: &Path) -> Result<String, String> {
    let line = files::open(&folder::record_file(run)).and_then(folder::first_line);
    let line = line.map_err(|error| error.to_string())?;
    match RecordLine::parse(&line) {
        Ok(RecordLine::Run(header)) => Ok(header.study.name),
        Ok(_) => Err("not a record of a run: it has no header".to_owned()),
        Err(error) => Err(format!("not a record of a run: {error}")),
    }
}

/// Reads the figures of a run. The error says why the run does not count.
fn read(run: &Path) -> Result<TrendRun, String> {
    let file = files::open(&folder::record_file(run)).map_err(|error| error.to_string())?;
    if is_held(&file) {
        return Err("it is in progress".to_owned());
    }
    let ReadRun { text, record, complaints } =
        folder::read(run).map_err(|failure| failure.headline())?;
    if let Some(complaint) = complaints.first() {
        return Err(format!("its record cannot be read: {}", complaint.what));
    }
    if !chain::check(&text).broken.is_empty() {
        return Err("its record was changed after it was written".to_owned());
    }
    if !record.is_complete() {
        return Err("it is incomplete".to_owned());
    }
    let read = TrendRun::new(folder_name(run), &record, reason(&run.join(RESET)));
    if read.is_empty() {
        return Err("it has no valid trial".to_owned());
    }
    Ok(read)
}

/// Returns the reason of a reset; `None` if the run has none.
fn reason(file: &Path) -> Option<String> {
    let is_link = file.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let mut bytes = Vec::new();
    let file = files::open(Some(file).filter(|_| !is_link)?).ok()?;
    file.take(REASON_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Finds the folder of a run by its name.
fn find<'a>(folders: &'a [PathBuf], run: &Path) -> Result<&'a Path, Failure> {
    let name = folder_name(run);
    let folder = folders.iter().find(|path| folder_name(path) == name).ok_or_else(|| {
        let newest = folders.last().map_or_else(String::new, |path| folder_name(path));
        Failure::input(
            format!("`{}` of --reset is no run of this study", run.display()),
            format!("name the first run after the change; the newest is `{newest}`"),
        )
    })?;
    Ok(folder)
}

/// Stores a reset in the folder of a run that counts in the trend.
fn reset(trend: &Trend, run: &Path, folder: &Path, because: &str) -> Result<(), Failure> {
    let name = folder_name(run);
    if let Err(why) = trend.counts(&name) {
        return Err(Failure::input(
            format!("the trend cannot begin anew with `{name}`: {why}"),
            "name a run that counts, such as the first one after it",
        ));
    }
    let file = folder.join(RESET);
    let written = files::create(&file).and_then(|mut to| to.write_all(because.as_bytes()));
    written
        .map_err(|error| new_file::not_written(&file, &error, "remove it to begin elsewhere"))?;
    messages::output(&format!(
        "The trend begins anew with `{name}`; remove `{}` to undo that",
        file.display()
    ));
    Ok(())
}

/// Returns the format for a file's extension.
fn format_of(file: &Path) -> Result<TrendFormat, Failure> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Ok(TrendFormat::Html),
        Some("md") => Ok(TrendFormat::Markdown),
        Some("json") => Ok(TrendFormat::Json),
        Some("txt") => Ok(TrendFormat::Terminal),
        _ => Err(Failure::input(
            format!("the extension of `{}` selects no format of a trend", file.display()),
            "use .html, .md, .json or .txt, or give `--format`",
        )),
    }
}
