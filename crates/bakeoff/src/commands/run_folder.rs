//! A run's folder and its record on disk.
//!
//! A line is written and synced before the next trial begins, so that a later crash loses nothing.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use bakeoff_clock::wall::utc_folder;
use bakeoff_core::record::chain::{self, Chain};
use bakeoff_core::record::{self, Complaint, Record, RecordLine};
use bakeoff_host::private;
use bakeoff_report::verify::{self, Outcome};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::event::{Event, Reporter};
use crate::failure::Failure;
use crate::messages;

/// The folder in which runs are kept unless a flag says otherwise.
pub(crate) const RUNS: &str = "runs";

/// The record's name in a run's folder.
pub(crate) const RECORD: &str = "record.jsonl";

/// A run's folder, with its record open for writing.
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    record: File,
    chain: Chain,
    /// True once the record has a first line. A run that never began leaves no folder behind.
    begun: bool,
}

impl RunFolder {
    /// Makes `OUT/2026-11-21-202450-STUDY`, or the like if that is taken.
    pub(crate) fn create(out: &Path, study: &str) -> Result<Self, Failure> {
        fs::create_dir_all(out).map_err(|error| Failure::file("make", out, &error))?;
        let base = format!("{}-{study}", utc_folder());
        let names = std::iter::once(base.clone()).chain((2..).map(|n| format!("{base}-{n}")));
        for name in names {
            let path = out.join(name);
            match private::make_dir(&path) {
                Ok(()) => {
                    let file = path.join(RECORD);
                    let record = private::create(&file)
                        .map_err(|error| Failure::file("make", &file, &error))?;
                    hold(&record, &path)?;
                    let chain = Chain::default();
                    return Ok(Self { path, record, chain, begun: false });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::file("make", &path, &error)),
            }
        }
        unreachable!("there is always a next number")
    }

    /// Opens a run to go on with it: what a crash left torn at its end is cut off.
    pub(crate) fn open(run: &Path, reporter: &mut dyn Reporter) -> Result<(Self, Record), Failure> {
        let file = record_file(run);
        let path = file.parent().unwrap_or(run).to_owned();
        let failed =
            |error| Failure::input(format!("cannot open `{}`: {error}", file.display()), RUN_HINT);
        let record_file = private::append(&file, false).map_err(failed)?;
        hold(&record_file, &path)?;
        refuse_links(&path)?;
        let text = read_file(&file)?;
        let (record, complaints) = parse(&file, &text)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let torn = whole < text.len();
        // Anything else in it that cannot be read is not for us to go on from.
        if let Some(complaint) = complaints.get(usize::from(torn)) {
            return Err(Failure::input(format!("`{}`: {complaint}", file.display()), RUN_HINT));
        }
        if torn {
            reporter.report(&Event::RecordTorn { file: &file });
            record_file
                .set_len(whole as u64)
                .map_err(|error| Failure::file("cut the torn line off", &file, &error))?;
        }
        let chain = Chain::behind(&text[..whole]);
        Ok((Self { path, record: record_file, chain, begun: true }, record))
    }

    /// Appends a line and waits until it is on disk.
    pub(crate) fn push(&mut self, line: &RecordLine) -> Result<(), Failure> {
        let text = self.chain.link(line);
        let written = self.record.write_all(text.as_bytes()).and_then(|()| self.record.sync_data());
        self.begun |= written.is_ok();
        written.map_err(|error| Failure::file("write", &self.path.join(RECORD), &error))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.begun {
            fs::remove_file(self.path.join(RECORD)).ok();
            fs::remove_dir(&self.path).ok(); // not if anybody put something there
        }
    }
}

const RUN_HINT: &str = "a run is a folder below `runs/`, or its `record.jsonl`";

/// The largest record that is read, in bytes; one of a thousand trials has some 30 MB.
const RECORD_MAX: u64 = 1 << 30;

/// Reads a record's file: a file, and not one without an end.
pub(crate) fn read_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::input(format!("cannot read `{}`: {why}", file.display()), RUN_HINT)
    };
    let found = fs::metadata(file).map_err(|error| match file.parent().and_then(newest_run) {
        Some(run) => Failure::input(
            format!("`{}` is a folder of runs", run.parent().unwrap_or(&run).display()),
            format!("name one of them: `{}` is the newest", run.display()),
        ),
        None => cannot(&error),
    })?;
    if !found.is_file() {
        return Err(cannot(&"it is not a file"));
    }
    let mut text = Vec::new();
    let opened = File::open(file).map_err(|error| cannot(&error))?;
    opened.take(RECORD_MAX + 1).read_to_end(&mut text).map_err(|error| cannot(&error))?;
    if text.len() as u64 > RECORD_MAX {
        return Err(cannot(&format_args!("it has more than {} MiB", RECORD_MAX >> 20)));
    }
    Ok(text)
}

/// Returns the newest run of a folder that holds runs.
fn newest_run(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.join(RECORD).is_file()).max()
}

/// How deep below a run's folder its own files lie: `kept/SYSTEM/logs/NODE.log`.
const DEPTH: u32 = 4;

/// Refuses a folder in which a link would lead what is written or removed to another place.
fn refuse_links(run: &Path) -> Result<(), Failure> {
    // Servers may make links among their data, which goes as a whole.
    let found = private::link_in(run, DEPTH, "nodes")
        .map_err(|error| Failure::file("read", run, &error))?;
    match found {
        None => Ok(()),
        Some(link) => Err(Failure::input(
            format!("`{}` is a link, and runs have none", link.display()),
            "nothing was written; look where it leads, and remove it",
        )),
    }
}

/// Keeps others from writing to a record for as long as this file is open.
pub(crate) fn hold(record: &File, run: &Path) -> Result<(), Failure> {
    match rustix::fs::flock(record, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(Failure::input(
            format!("the run in `{}` still goes on", run.display()),
            "wait for its end, or end it",
        )),
        // Two bakeoffs that both write to it would spoil it.
        Err(error) => Err(Failure::machine(format!(
            "the record in `{}` cannot be locked: {error}\nhint: `--out DIR` puts runs on another file system",
            run.display()
        ))),
    }
}

/// Returns whether a run still writes to this record; nobody is known to where the file system has no locks.
pub(crate) fn is_held(record: &File) -> bool {
    let held = rustix::fs::flock(record, FlockOperation::NonBlockingLockShared);
    held == Err(Errno::WOULDBLOCK)
}

/// Returns the record's file of a run that is named by its folder, or by the file itself.
pub(crate) fn record_file(run: &Path) -> PathBuf {
    if run.is_dir() { run.join(RECORD) } else { run.to_owned() }
}

/// Returns the run that is meant: a folder or a record by its path, or `latest`, `latest~1` and so on, counted back
/// from the newest in `runs`.
pub(crate) fn named(run: &Path) -> Result<PathBuf, Failure> {
    let back = match run.to_str().and_then(|text| text.strip_prefix("latest")) {
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix('~').and_then(|back| back.parse().ok()),
        None => None,
    };
    let Some(back) = back.filter(|_| !run.exists()) else { return Ok(run.to_owned()) };
    newest(Path::new(RUNS), back).ok_or_else(|| {
        let what = format!("there is no run `{}` in `{RUNS}`", run.display());
        Failure::input(what, "`bakeoff history` lists the runs that are there")
    })
}

/// Returns the newest run below a folder, or the one so many runs before it.
fn newest(out: &Path, back: usize) -> Option<PathBuf> {
    let entries = fs::read_dir(out).ok()?.filter_map(Result::ok);
    let mut runs: Vec<(String, std::time::SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let made = fs::metadata(entry.path().join(RECORD)).ok()?.modified().ok()?;
            let name = entry.file_name().into_string().ok()?;
            // The second in which it began; runs of the same second ended one after the other.
            let began = name.get(..BEGAN_LENGTH)?.to_owned();
            Some((began, made, entry.path()))
        })
        .collect();
    runs.sort_unstable();
    let place = runs.len().checked_sub(back.checked_add(1)?)?;
    Some(runs.swap_remove(place).2)
}

/// Characters of `2026-11-21-202450`, with which a run's folder begins.
const BEGAN_LENGTH: usize = 17;

/// Reads the record of a run with its text.
pub(crate) fn read_with_text(run: &Path) -> Result<(Vec<u8>, Record, Vec<Complaint>), Failure> {
    let file = record_file(run);
    let text = read_file(&file)?;
    let (record, complaints) = parse(&file, &text)?;
    Ok((text, record, complaints))
}

/// Reads a run that somebody may have altered, and warns of all that does not hold together.
pub(crate) fn read_and_warn(run: &Path) -> Result<Record, Failure> {
    let (text, record, complaints) = read_with_text(run)?;
    let shown = run.display();
    complaints.iter().for_each(|complaint| messages::warn(&format!("{shown}: {complaint}")));
    let found = verify::verify(&chain::check(&text), &record, &complaints);
    for fault in found.iter().filter(|one| one.outcome == Outcome::Fails) {
        let (what, seen) = (&fault.what, &fault.seen);
        messages::warn(&format!(
            "{shown} does not hold together: {what}: {seen}; `bakeoff verify` looks at all of it"
        ));
    }
    Ok(record)
}

/// Reads the record of a run.
pub(crate) fn read(run: &Path) -> Result<(Record, Vec<Complaint>), Failure> {
    read_with_text(run).map(|(_, record, complaints)| (record, complaints))
}

fn parse(file: &Path, text: &[u8]) -> Result<(Record, Vec<Complaint>), Failure> {
    record::read(&String::from_utf8_lossy(text))
        .map_err(|complaint| Failure::input(format!("`{}`: {complaint}", file.display()), RUN_HINT))
}
