//! `bakeoff history`: lists the stored runs, newest first, with their size on disk, and deletes them.
//!
//! It reads only the fields of a record that a line shows. The verdict comes from the run's `report.json`. A folder
//! without a readable record gives a warning.
//!
//! It also finds the runs of one study whose variation `compare` uses.
//!
//! Not here: rendering a run again (`report`).

mod trend;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_core::record::{Record, RecordLine, RunHeader, chain};
use bakeoff_core::units::{ByteCount, harmless, trials_text};
use bakeoff_files as files;
use bakeoff_host::disk;
use bakeoff_report::compare::is_of_the_same_study;
use bakeoff_report::history::{Run, RunState};
use bakeoff_trial::run::folder::{self, RUNS, is_held};
use serde::Deserialize;

use crate::cli::{HistoryArgs, Prune};
use crate::commands::report::FILES;
use crate::commands::reproduce;
use crate::failure::Failure;
use crate::messages;

/// Maximum bytes to read of a `report.json`.
const REPORT_MAX: u64 = 64 << 20;

/// Lists the runs in a folder, or deletes parts of them.
pub(crate) fn history(args: &HistoryArgs) -> Result<(), Failure> {
    if let Some(study) = &args.trend {
        return trend::trend(args, study);
    }
    let mut runs = Vec::new();
    for path in folders(&args.out)? {
        match read(&path) {
            Ok(run) => runs.push(run),
            Err(why) => messages::warn(&format!("`{}`: {why}", path.display())),
        }
    }
    runs.sort_by(|a, b| (&b.started, &b.run).cmp(&(&a.started, &a.run)));
    if let Some(what) = args.prune {
        return prune(&runs, what, args.older_than);
    }
    if args.json {
        let runs = serde_json::to_value(&runs).expect("paths and texts can be written");
        messages::output(&messages::json(&runs));
    } else if runs.is_empty() {
        messages::output(&format!("no runs in {}", args.out.display()));
    } else {
        let mut texts: Vec<String> = runs.iter().map(text).collect();
        let bytes = runs.iter().map(|run| run.bytes).sum();
        if runs.len() > 1 {
            texts.push(format!("{} runs, {}", runs.len(), ByteCount(bytes)));
        }
        messages::output(&texts.join("\n\n"));
    }
    Ok(())
}

/// Deletes a part of each run that is not in progress and was last written at least `older_than` ago.
fn prune(runs: &[Run], what: Prune, older_than: Option<Duration>) -> Result<(), Failure> {
    let (mut count, mut freed) = (0, 0);
    for run in runs {
        let shown = run.run.display();
        if run.run.is_symlink() {
            messages::warn(&format!("`{shown}` is a symbolic link; it stays, with its target"));
            continue;
        }
        let record = folder::record_file(&run.run);
        let file = files::append(&record, false)
            .map_err(|error| Failure::file("open", &record, &error))?;
        let age = file.metadata().and_then(|found| found.modified()).ok();
        let age = age.and_then(|written| written.elapsed().ok()).unwrap_or_default();
        if older_than.is_some_and(|least| age < least) || folder::hold(&file, &run.run).is_err() {
            continue;
        }
        let kept = remove(&run.run, what)
            .map_err(|error| Failure::file("remove from", &run.run, &error))?;
        if let Some(kept) = kept {
            messages::warn(&format!(
                "`{shown}` stays: it holds `{}`, not a file of bakeoff",
                kept.display()
            ));
        }
        count += 1;
        freed += run.bytes.saturating_sub(size(&run.run));
    }
    let of = if count == 1 { "run" } else { "runs" };
    messages::output(&format!("freed {} in {count} {of}", ByteCount(freed)));
    Ok(())
}

/// Deletes a part of a run. Deletes links, not their targets. Returns a name that bakeoff did not write, which keeps
/// the folder.
fn remove(run: &Path, what: Prune) -> io::Result<Option<PathBuf>> {
    let mut foreign = None;
    let record = folder::record_file(run);
    let record = record.file_name().unwrap_or_default();
    for entry in fs::read_dir(run)? {
        let name = entry?.file_name();
        let is_log = folder::LOGS.iter().any(|log| name == *log);
        let goes = match what {
            Prune::Logs => is_log,
            Prune::All => is_log || is_report(&name),
        };
        if goes {
            files::remove_below(run, Path::new(&name))?;
        } else if what == Prune::All && name != record {
            foreign = Some(PathBuf::from(name));
        }
    }
    if what == Prune::All {
        files::remove_below(run, Path::new(record))?;
        if foreign.is_none() {
            fs::remove_dir(run)?;
        }
    }
    Ok(foreign)
}

/// Returns true for a file that bakeoff writes next to a record, or a new one that a kill left.
fn is_report(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let whole = match name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")) {
        Some(new) => new.rsplit_once('.').map_or(new, |(name, _)| name),
        None => &name,
    };
    let mut reports = FILES.iter().map(|(name, _)| *name);
    [reproduce::FILE, trend::RESET].contains(&whole) || reports.any(|report| report == whole)
}

/// Returns the size of a run's folder on disk, 0 if unknown.
fn size(run: &Path) -> u64 {
    disk::space(run, usize::MAX).unwrap_or(0)
}

/// Returns the newest runs of the same study on the same machine, at most `most`. Skips unreadable runs and those in
/// progress.
pub(crate) fn of_the_same_study(
    folder: &Path,
    of: &RunHeader,
    most: usize,
) -> Result<Vec<Record>, Failure> {
    let header = |path: PathBuf| {
        let file = files::open(&folder::record_file(&path)).ok()?;
        if is_held(&file) {
            return None;
        }
        let line = folder::first_line(file).ok()?;
        match RecordLine::parse(&line).ok()? {
            RecordLine::Run(header) if is_of_the_same_study(of, &header) => {
                Some((header.started, path))
            }
            _ => None,
        }
    };
    let mut found: Vec<(String, PathBuf)> =
        folders(folder)?.into_iter().filter_map(header).collect();
    found.sort_unstable();
    let newest = found.into_iter().rev().take(most);
    Ok(newest.filter_map(|(_, path)| Some(folder::read(&path).ok()?.record)).collect())
}

/// Returns the runs in the folder of `--out`.
fn folders(out: &Path) -> Result<Vec<PathBuf>, Failure> {
    match folder::runs_in(out) {
        Ok(runs) => Ok(runs),
        // The default folder does not exist before the first run.
        Err(error) if error.kind() == io::ErrorKind::NotFound && out == Path::new(RUNS) => {
            Ok(Vec::new())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure::input(
            format!("`{}` of --out is not a folder", out.display()),
            "name the folder that was given to `bakeoff run --out`",
        )),
        Err(error) => Err(Failure::file("list", out, &error)),
    }
}

fn text(run: &Run) -> String {
    let trials = match run.state {
        RunState::Complete if run.trials_run == run.trials => trials_text(run.trials),
        _ => format!("{} of {}", run.trials_run, trials_text(run.trials)),
    };
    let mut text = format!(
        "{}  {}{}  {trials}, {}, {}\n  {}",
        run.started,
        run.study,
        if run.quick { " (quick form)" } else { "" },
        run.state,
        ByteCount(run.bytes),
        run.run.display()
    );
    if run.altered {
        text.push_str("\n  changed after it was written: `bakeoff verify` shows where");
    }
    if let Some(sentence) = &run.sentence {
        text.push_str(&format!("\n  {}", harmless(sentence)));
    }
    if matches!(run.state, RunState::Killed | RunState::Interrupted) {
        text.push_str(&format!(
            "\n  `bakeoff run --resume {}` runs the missing trials",
            run.run.display()
        ));
    }
    text
}

/// Fields of a record's lines that are read; others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
enum Glance {
    Run {
        started: String,
        study: StudyHeader,
        order: Vec<serde::de::IgnoredAny>,
    },
    Trial {
        trial: TrialNumber,
        outcome: EndLine,
        #[serde(default)]
        not_tried: bool,
    },
    Resumed {},
    End {},
}

#[derive(Deserialize)]
struct StudyHeader {
    name: String,
    #[serde(default)]
    is_quick: bool,
}

#[derive(Deserialize)]
struct TrialNumber {
    number: u32,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case", tag = "ended")]
enum EndLine {
    Interrupted,
    #[serde(other)]
    Otherwise,
}

/// Error of a record that cannot be listed.
#[derive(Debug, thiserror::Error)]
enum ListingError {
    #[error(transparent)]
    NotOpened(io::Error),
    #[error("{}", .0.headline())]
    NotRead(#[source] Failure),
    #[error("not a record of a run:  {0}")]
    NotALine(#[source] serde_json::Error),
    #[error("not a record of a run:  it has no header")]
    NoHeader,
}

fn read(path: &Path) -> Result<Run, ListingError> {
    let file = folder::record_file(path);
    let goes_on = is_held(&files::open(&file).map_err(ListingError::NotOpened)?);
    let record = folder::read_file(&file).map_err(ListingError::NotRead)?;
    let mut lines = record.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut next = || -> Result<Option<Glance>, ListingError> {
        let line = lines.next().map(serde_json::from_slice);
        line.transpose().map_err(ListingError::NotALine)
    };
    let Some(Glance::Run { started, study, order }) = next()? else {
        return Err(ListingError::NoHeader);
    };
    let (mut run, mut ended) = (std::collections::BTreeSet::new(), false);
    let mut skipped = 0;
    // An unreadable line is an incomplete end, or one that `report` complains about.
    while let Ok(Some(line)) = next() {
        match line {
            Glance::Trial { trial, outcome, not_tried } if outcome != EndLine::Interrupted => {
                skipped += usize::from(run.insert(trial.number) && not_tried);
            }
            Glance::Trial { .. } => {}
            Glance::End {} => ended = true,
            Glance::Resumed {} => ended = false,
            Glance::Run { .. } => break,
        }
    }
    let state = match (run.len() == order.len(), ended, goes_on) {
        (_, _, true) => RunState::InProgress,
        (true, ..) => RunState::Complete,
        (false, true, _) => RunState::Interrupted,
        (false, false, _) => RunState::Killed,
    };
    Ok(Run {
        run: path.to_owned(),
        study: study.name,
        quick: study.is_quick,
        started,
        trials: order.len(),
        trials_run: run.len() - skipped,
        state,
        bytes: size(path),
        altered: !chain::check(&record).broken.is_empty(),
        sentence: sentence(&path.join("report.json")),
    })
}

fn sentence(report: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Summary {
        /// Absent in reports of older versions.
        verdict: Option<String>,
        sentence: String,
    }
    let text = files::read(report, REPORT_MAX).ok()?;
    let found: Summary = serde_json::from_slice(&text).ok()?;
    Some(found.verdict.unwrap_or(found.sentence))
}
