//! `bakeoff site`: writes static pages from the records of many runs, for a web server or a folder that is shared.
//!
//! It only reads records, and writes a new folder. A record that was altered is listed without figures.
//!
//! Not here: the pages (`bakeoff_report::site`), the report of one run (`report`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::record::{Record, chain};
use bakeoff_core::units::plural;
use bakeoff_files as files;
use bakeoff_report::site::{self, SiteRun};
use bakeoff_report::verify::{self, Outcome};
use bakeoff_report::{Report, html_next_to_record};
use bakeoff_trial::run::folder::{self, PAGE, RECORD, is_held};

use crate::cli::SiteArgs;
use crate::commands::new_file;
use crate::failure::Failure;
use crate::messages;

/// Writes the site.
pub(crate) fn write(args: &SiteArgs) -> Result<(), Failure> {
    let records = records(&args.runs)?;
    let site = &args.out;
    let is_free = fs::read_dir(site).map_or(true, |mut entries| entries.next().is_none());
    if !is_free || site.is_file() {
        return Err(Failure::input(
            format!("`{}` of --out is there already", site.display()),
            "name a new folder: nothing is overwritten",
        ));
    }
    let (mut runs, mut unread) = (Vec::new(), Vec::new());
    let (mut names, mut heads) = (BTreeSet::new(), BTreeSet::new());
    for path in records {
        let run = match read(&path) {
            Ok(run) => run,
            Err(why) => {
                let why = format!("`{}`: {why}", path.display());
                messages::warn(&why);
                unread.push(why);
                continue;
            }
        };
        // A run that is named twice is shown once.
        if heads.insert(run.head.clone()) {
            let name = free_name(&path, &mut names);
            run.write(&site.join("runs").join(&name))?;
            runs.push(SiteRun::new(&run.record, name, run.altered));
        }
    }
    for page in site::pages(&runs, &unread) {
        put(&site.join(&page.path), page.html.as_bytes())?;
    }
    let count = plural(runs.len() as u64, "run");
    messages::output(&format!("Site: {} ({count})", site.join("index.html").display()));
    Ok(())
}

/// A run that was read.
struct ReadRun {
    text: Vec<u8>,
    record: Record,
    /// SHA-256 of its last line.
    head: String,
    /// Evidence that the record was changed.
    altered: Option<String>,
}

/// Reads a record. The error is the reason why it is not in the site.
fn read(path: &Path) -> Result<ReadRun, String> {
    let file = files::open(path).map_err(|error| error.to_string())?;
    if is_held(&file) {
        return Err("the run is in progress".to_owned());
    }
    let folder::ReadRun { text, record, complaints } =
        folder::read(path).map_err(|failure| failure.headline())?;
    let links = chain::check(&text);
    let faults = verify::verify(&links, &record, &complaints);
    let fault = faults.iter().find(|one| one.outcome == Outcome::Fails);
    let altered = fault.map(|fault| format!("{}: {}", fault.what, fault.seen));
    Ok(ReadRun { text, record, head: links.head, altered })
}

impl ReadRun {
    /// Writes the record, and its report unless it was altered.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        put(&folder.join(RECORD), &self.text)?;
        if self.altered.is_none() {
            let page = html_next_to_record(&Report::new(&self.record));
            put(&folder.join(PAGE), page.as_bytes())?;
        }
        Ok(())
    }
}

/// Returns the name of a run's folder, with a number if it is taken.
fn free_name(record: &Path, names: &mut BTreeSet<String>) -> String {
    let name = record.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = site::slug(&name);
    let mut free = name.clone();
    let mut number = 1;
    while !names.insert(free.clone()) {
        number += 1;
        free = format!("{name}-{number}");
    }
    free
}

/// Returns the records of runs, and of folders of runs.
fn records(of: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for dir in of {
        let record = folder::record_file(dir);
        if record.is_file() {
            found.push(record);
            continue;
        }
        let runs = folder::runs_in(dir).map_err(|error| Failure::file("list", dir, &error))?;
        found.extend(runs.iter().map(|run| folder::record_file(run)));
        if runs.is_empty() {
            return Err(Failure::input(
                format!("no run in `{}`", dir.display()),
                "name a run's folder, or the folder that was given to `bakeoff run --out`",
            ));
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a new file, and its folder if that is missing.
fn put(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
    new_file::write(path, content, "name a new folder")
}
