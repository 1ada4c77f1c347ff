//! Keeps a run in a folder, with its record on disk.
//!
//! Each line is synced before the next trial begins, so a crash loses no finished trial.
//!
//! Not here: the record's lines (`bakeoff_core::record`), reports (`bakeoff_report`).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use bakeoff_clock::wall::utc_folder;
use bakeoff_core::record::chain::{self, Chain};
use bakeoff_core::record::{self, Complaint, Record, RecordLine};
use bakeoff_files as files;
use bakeoff_report::verify::{self, Outcome};
use flate2::read::MultiGzDecoder;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde_json::Value;

use super::origin;
use crate::event::{Event, Reporter};
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::warnings;

/// Default folder of runs.
pub const RUNS: &str = "runs";

/// File name of the record in the folder of its run.
pub const RECORD: &str = "record.jsonl";
/// File name of a record that somebody compressed with gzip, to send it or to keep it.
const COMPRESSED: &str = "record.jsonl.gz";
/// First bytes of a file of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Page next to the record, the report of a finished run.
pub const PAGE: &str = "report.html";

/// Folders in a run's folder that hold its servers' logs and data, and files of the machine's baseline.
pub const LOGS: [&str; 3] = ["trials", "kept", "baseline"];

/// The folder of a run, with its record open for writing and locked.
pub struct RunFolder {
    /// Path of the folder.
    pub path: PathBuf,
    record: File,
    chain: Chain,
    /// True once the record has a line. Until then dropping this removes the folder.
    begun: bool,
}

impl RunFolder {
    /// Creates `OUT/2026-11-21-202450-STUDY`, with a number behind it if that exists.
    ///
    /// # Errors
    /// If the folder or the record cannot be created.
    pub fn create(out: &Path, study: &str) -> Result<Self, FleetError> {
        fs::create_dir_all(out).map_err(|error| FleetError::file("make", out, &error))?;
        let base = format!("{}-{study}", utc_folder());
        let names = std::iter::once(base.clone()).chain((2..).map(|n| format!("{base}-{n}")));
        for name in names {
            let path = out.join(name);
            match files::make_dir(&path) {
                Ok(()) => {
                    let file = path.join(RECORD);
                    let record = files::create(&file)
                        .map_err(|error| FleetError::file("make", &file, &error))?;
                    hold(&record, &path)?;
                    let chain = Chain::new(origin::own_key());
                    return Ok(Self { path, record, chain, begun: false });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FleetError::file("make", &path, &error)),
            }
        }
        unreachable!("there is always a next number")
    }

    /// Opens a run to resume it. An incomplete last line, left by a crash, is removed and reported.
    ///
    /// # Errors
    /// If the record cannot be read, another run writes to it, or a link is in the folder.
    pub fn open(run: &Path, reporter: &mut dyn Reporter) -> Result<(Self, Record), FleetError> {
        let file = record_file(run);
        let path = file.parent().unwrap_or(run).to_owned();
        let failed = |error| {
            FleetError::input(format!("cannot open `{}`: {error}", file.display()), RUN_HINT)
        };
        let record_file = files::append(&file, false).map_err(failed)?;
        hold(&record_file, &path)?;
        refuse_links(&path)?;
        let text = read_as_stored(&file)?;
        if text.starts_with(&GZIP) {
            let what = format!("`{}` is compressed, so nothing can be added to it", file.display());
            let hint = "decompress it with `gunzip`, then resume the run";
            return Err(FleetError::input(what, hint));
        }
        let (record, complaints) = parse(&file, &text)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let torn = whole < text.len();
        // Anything else in it that cannot be read is not for us to go on from.
        if let Some(complaint) = complaints.get(usize::from(torn)) {
            return Err(FleetError::input(format!("`{}`: {complaint}", file.display()), RUN_HINT));
        }
        if torn {
            reporter.report(&Event::RecordTorn { file: &file });
            record_file
                .set_len(whole as u64)
                .map_err(|error| FleetError::file("cut the torn line off", &file, &error))?;
        }
        let chain = Chain::behind(&text[..whole], origin::own_key());
        Ok((Self { path, record: record_file, chain, begun: true }, record))
    }

    /// Appends a line and syncs the record. Paths of files in the run's folder become relative to it, as records leave
    /// their machine.
    ///
    /// # Errors
    /// If the line cannot be written or synced.
    pub fn push(&mut self, line: &RecordLine) -> Result<(), FleetError> {
        let text = self.chain.link_text(relative_paths(record::write_line(line), &self.path));
        let written = self.record.write_all(text.as_bytes()).and_then(|()| self.record.sync_data());
        self.begun |= written.is_ok();
        written.map_err(|error| FleetError::file("write", &self.path.join(RECORD), &error))
    }
}

/// Returns a line of a record whose paths in a folder are relative to it.
fn relative_paths(line: String, folder: &Path) -> String {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let prefix = Value::from(format!("{}/", absolute.display())).to_string();
    line.replace(&prefix[1..prefix.len() - 1], "")
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.begun {
            fs::remove_file(self.path.join(RECORD)).ok();
            fs::remove_dir(&self.path).ok(); // fails if somebody put a file there
        }
    }
}

const RUN_HINT: &str = "a run is a folder below `runs/`, or its `record.jsonl`, also as `.gz`";

/// Largest record that is read, in bytes. A record of a thousand trials has about 30 MB.
const RECORD_MAX: u64 = 1 << 30;

/// Reads the bytes of a record, and decompresses them.
///
/// # Errors
/// If it is missing, no regular file, no sound gzip file, or larger than 1 GiB. The hint names the newest run of a folder
/// of runs.
pub fn read_file(file: &Path) -> Result<Vec<u8>, FleetError> {
    decompress(read_as_stored(file)?).map_err(|error| unreadable(file, &error))
}

/// Reads the bytes of a record, which may be compressed.
fn read_as_stored(file: &Path) -> Result<Vec<u8>, FleetError> {
    files::read(file, RECORD_MAX).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &io::Error) -> FleetError {
    match file.parent().and_then(newest_run) {
        Some(run) if error.kind() == std::io::ErrorKind::NotFound => FleetError::input(
            format!("`{}` is a folder of runs", run.parent().unwrap_or(&run).display()),
            format!("name one of them: `{}` is the newest", run.display()),
        ),
        _ => FleetError::input(format!("cannot read `{}`: {error}", file.display()), RUN_HINT),
    }
}

/// Returns the text of a record, which may be compressed.
fn decompress(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    MultiGzDecoder::new(&*bytes).take(RECORD_MAX + 1).read_to_end(&mut text)?;
    match text.len() as u64 > RECORD_MAX {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 1 GiB of text")),
        false => Ok(text),
    }
}

/// Returns the newest run in a folder of runs.
fn newest_run(folder: &Path) -> Option<PathBuf> {
    runs_in(folder).ok()?.into_iter().max()
}

/// Returns the folders of a folder that hold a record.
///
/// # Errors
/// If the folder cannot be listed.
pub fn runs_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path| path.is_dir() && record_file(path).is_file()).collect())
}

/// Depth of a run's own files below its folder: `kept/SYSTEM/logs/NODE.log`.
const DEPTH: u32 = 4;

/// Refuses a run with a symbolic link, which could redirect a write or a removal.
fn refuse_links(run: &Path) -> Result<(), FleetError> {
    // Servers may make links in their data, which is removed as a whole.
    let found = files::link_in(run, DEPTH, "nodes")
        .map_err(|error| FleetError::file("read", run, &error))?;
    match found {
        None => Ok(()),
        Some(link) => Err(FleetError::input(
            format!("`{}` is a symbolic link, which no run has", link.display()),
            "nothing was written; check its target, and remove it",
        )),
    }
}

/// Locks a record for writing, until `record` is closed.
///
/// # Errors
/// If another process holds the lock, or the file system has no locks.
pub fn hold(record: &File, run: &Path) -> Result<(), FleetError> {
    match rustix::fs::flock(record, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(FleetError::input(
            format!("the run in `{}` is still running", run.display()),
            "wait until it ends, or stop it",
        )),
        // Two writers would spoil the record.
        Err(error) => Err(FleetError::machine(format!(
            "cannot lock the record in `{}`: {error}\nhint: `--out DIR` puts runs on another file system",
            run.display()
        ))),
    }
}

/// Returns true if a run still writes to this record. False on a file system without locks.
pub fn is_held(record: &File) -> bool {
    let held = rustix::fs::flock(record, FlockOperation::NonBlockingLockShared);
    held == Err(Errno::WOULDBLOCK)
}

/// Returns the first line of a record that was opened.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub fn first_line(record: File) -> io::Result<String> {
    let mut line = String::new();
    let mut record = BufReader::new(record);
    let mut text: Box<dyn BufRead> = match record.fill_buf()?.starts_with(&GZIP) {
        true => Box::new(BufReader::new(MultiGzDecoder::new(record).take(RECORD_MAX))),
        false => Box::new(record.take(RECORD_MAX)),
    };
    text.read_line(&mut line)?;
    Ok(line)
}

/// Returns the path of a run's record. `run` is the folder or the record itself.
pub fn record_file(run: &Path) -> PathBuf {
    if !run.is_dir() {
        return run.to_owned();
    }
    let [plain, compressed] = [RECORD, COMPRESSED].map(|name| run.join(name));
    if !plain.is_file() && compressed.is_file() { compressed } else { plain }
}

/// Resolves a run's name: a path, or `latest`, `latest~1` and so on, counted back from the newest in `runs`.
///
/// # Errors
/// If `runs` has fewer runs.
pub fn named(run: &Path) -> Result<PathBuf, FleetError> {
    let back = match run.to_str().and_then(|text| text.strip_prefix("latest")) {
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix('~').and_then(|back| back.parse().ok()),
        None => None,
    };
    let Some(back) = back.filter(|_| !run.exists()) else { return Ok(run.to_owned()) };
    newest(Path::new(RUNS), back).ok_or_else(|| {
        let what = format!("there is no run `{}` in `{RUNS}`", run.display());
        FleetError::input(what, "`bakeoff history` lists the runs that are there")
    })
}

/// Returns the newest run in a folder, or the run `back` runs before it.
fn newest(out: &Path, back: usize) -> Option<PathBuf> {
    let entries = fs::read_dir(out).ok()?.filter_map(Result::ok);
    let mut runs: Vec<(String, std::time::SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let made = fs::metadata(record_file(&entry.path())).ok()?.modified().ok()?;
            let name = entry.file_name().into_string().ok()?;
            // Runs that began within the same second are ordered by their last change.
            let began = name.get(..BEGAN_LENGTH)?.to_owned();
            Some((began, made, entry.path()))
        })
        .collect();
    runs.sort_unstable();
    let place = runs.len().checked_sub(back.checked_add(1)?)?;
    Some(runs.swap_remove(place).2)
}

/// Length of the time in a folder's name: `2026-11-21-202450`.
const BEGAN_LENGTH: usize = 17;

/// A run that was read from its record.
pub struct ReadRun {
    /// Bytes of the record.
    pub text: Vec<u8>,
    /// Content of the record.
    pub record: Record,
    /// Complaints about unreadable lines.
    pub complaints: Vec<Complaint>,
}

/// Reads the record of a run.
///
/// # Errors
/// If the record cannot be read or its first line is invalid.
pub fn read(run: &Path) -> Result<ReadRun, FleetError> {
    let file = record_file(run);
    let text = read_file(&file)?;
    let (record, complaints) = parse(&file, &text)?;
    Ok(ReadRun { text, record, complaints })
}

/// Reads a run, and warns about damage and alterations. Returns its bytes too.
///
/// # Errors
/// As [`read`].
pub fn read_and_warn(run: &Path) -> Result<ReadRun, FleetError> {
    let read = read(run)?;
    let ReadRun { text, record, complaints } = &read;
    let shown = run.display();
    complaints.iter().for_each(|complaint| warnings::warn(&format!("{shown}: {complaint}")));
    let found = verify::verify(&chain::check(text), record, complaints);
    for fault in found.iter().filter(|one| one.outcome == Outcome::Fails) {
        let (what, seen) = (&fault.what, &fault.seen);
        warnings::warn(&format!(
            "{shown} is inconsistent: {what}: {seen}; `bakeoff verify` checks all of it"
        ));
    }
    Ok(read)
}

fn parse(file: &Path, text: &[u8]) -> Result<(Record, Vec<Complaint>), FleetError> {
    record::read(text).map_err(|complaint| {
        FleetError::input(format!("`{}`: {complaint}", file.display()), RUN_HINT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_the_runs_folder_become_relative() {
        let relative =
            |line: &str, folder: &str| relative_paths(line.to_owned(), Path::new(folder));
        let line = r#"{"log":"/runs/a \"b\"/trials/1.log","data":"/runs/c"}"#;
        let expected = r#"{"log":"trials/1.log","data":"/runs/c"}"#;
        assert_eq!(relative(line, r#"/runs/a "b""#), expected);
        let here = std::env::current_dir().unwrap();
        let line = format!(r#"{{"log":"{}/runs/a/trials/1.log"}}"#, here.display());
        assert_eq!(relative(&line, "runs/a"), r#"{"log":"trials/1.log"}"#);
    }
}
