//! Searches nodes' logs for a full disk, and for findings during a load.
//!
//! Not here: the rules for findings (`bakeoff_core::log_findings`), the last lines of a log for an error message
//! (`error`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bakeoff_core::log_findings::{LevelWord, NodeLog, Tally};

use super::Process;

/// ENOSPC as the C library and Java print it, in lower case.
const FULL: &str = "no space left on device";
/// Most bytes to read of each log, from its end.
const READ_MAX: u64 = 64 << 20;

/// Returns the first node, by name, whose log in this directory mentions a full disk.
pub fn of_a_full_disk(logs: &Path) -> Option<String> {
    let entries = std::fs::read_dir(logs).ok()?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut full = paths
        .filter(|path| path.extension().is_some_and(|end| end == "log") && says(path, 0, FULL))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect::<Vec<_>>();
    full.sort();
    full.into_iter().next()
}

/// Returns true if a log mentions a full disk after byte `from`.
pub(super) fn speaks_of_a_full_disk(log: &Path, from: u64) -> bool {
    says(log, from, FULL)
}

/// Returns true if a line after byte `from` contains `words`, ignoring case. `words` are in lower case.
fn says(path: &Path, from: u64, words: &str) -> bool {
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if file.seek(SeekFrom::Start(size.saturating_sub(READ_MAX).max(from))).is_err() {
        return false;
    }
    let mut lines = BufReader::new(file.take(READ_MAX));
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        line.make_ascii_lowercase();
        if line.windows(words.len()).any(|part| part == words.as_bytes()) {
            return true;
        }
    }
}

/// Most bytes to read of each log for one load, from the load's beginning.
const LOAD_READ_MAX: u64 = 32 << 20;

/// Lengths of some nodes' logs when a load began and when it ended.
#[derive(Debug, Default)]
pub struct Marks(Vec<Mark>);

#[derive(Debug)]
struct Mark {
    node: String,
    level_words: &'static [LevelWord],
    file: PathBuf,
    from: u64,
    to: Option<u64>,
}

impl Marks {
    /// Marks the beginning of a load in the logs of these nodes.
    pub fn begin<'a>(nodes: impl Iterator<Item = &'a Process>) -> Self {
        let of = |node: &Process| {
            let name = node.name().to_owned();
            let files = node.logs();
            let mark = |file: PathBuf| {
                let from = length(&file).unwrap_or(0);
                let level_words = node.level_words();
                Mark { node: name.clone(), level_words, from, to: None, file }
            };
            files.into_iter().map(mark).collect::<Vec<_>>()
        };
        Self(nodes.flat_map(of).collect())
    }

    /// Marks the end of the load. Later lines do not count.
    pub fn end(&mut self) {
        for mark in &mut self.0 {
            mark.to = length(&mark.file);
        }
    }

    /// Returns each node's findings between both marks, or until now if the load has not ended.
    pub fn complaints(&self) -> Vec<NodeLog> {
        let mut found = Vec::new();
        for of_node in self.0.chunk_by(|a, b| a.node == b.node) {
            let mut tally = Tally::new(of_node[0].level_words);
            let unread = of_node.iter().map(|mark| mark.read(&mut tally)).sum();
            found.extend(tally.finish(&of_node[0].node, unread));
        }
        found
    }
}

impl Mark {
    /// Counts the findings among the load's lines and returns the number of bytes not read. A file that cannot be read
    /// has no lines.
    fn read(&self, tally: &mut Tally) -> u64 {
        let Some(to) = self.to.or_else(|| length(&self.file)) else { return 0 };
        // A file shorter than before was replaced.
        let from = if to < self.from { 0 } else { self.from };
        let Ok(mut file) = File::open(&self.file) else { return 0 };
        if file.seek(SeekFrom::Start(from)).is_err() {
            return 0;
        }
        let length = (to - from).min(LOAD_READ_MAX);
        let mut lines = BufReader::new(file.take(length));
        let mut line = Vec::new();
        while let Ok(1..) = lines.read_until(b'\n', &mut line) {
            tally.take(&line);
            line.clear();
        }
        to - from - length
    }
}

/// Returns the length of a regular file. Other files (a pipe, a terminal) are never opened.
fn length(file: &Path) -> Option<u64> {
    file.metadata().ok().filter(|file| file.is_file()).map(|file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_written_during_the_load_count() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| {
            let mut file = File::options().create(true).append(true).open(path(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mark = |node: &str, name: &str| {
            let from = length(&path(name)).unwrap_or(0);
            Mark { node: node.into(), level_words: &[], file: path(name), from, to: None }
        };
        write("a.log", "[error] before\n");
        write("turned", "[error] a long line before it is turned over\n");
        let mut marks = Marks(vec![
            mark("a", "a.log"),
            mark("a", "error.log"),
            mark("b", "missing"),
            mark("c", "."),
            mark("d", "turned"),
        ]);
        write("a.log", "[error] in it 1\nall is well\n[error] in it 2\n");
        write("error.log", "[crit] of a file that was not there\u{ff}\n");
        std::fs::write(path("turned"), "[warn] new\n").unwrap();
        type LogSummary = (String, u64, Vec<(String, u64)>);
        let message = |marks: &Marks| -> Vec<LogSummary> {
            let kinds = |log: &NodeLog| {
                log.kinds.iter().map(|kind| (kind.what.clone(), kind.count)).collect()
            };
            marks.complaints().iter().map(|log| (log.node.clone(), log.lines, kinds(log))).collect()
        };
        let expected = |more: u64| {
            let not_there = ("of a file that was not there\u{ff}".to_owned(), 1);
            let a = vec![("in it N".to_owned(), 2 + more), not_there];
            [("a".to_owned(), 3 + more, a), ("d".to_owned(), 1, vec![("new".to_owned(), 1)])]
        };
        assert_eq!(message(&marks), expected(0));
        write("a.log", "[error] in it 3\n");
        assert_eq!(message(&marks), expected(1), "a load that did not end lasts until now");
        marks.end();
        write("a.log", "[error] in it 4\n");
        assert_eq!(message(&marks), expected(1), "what comes later is not of the load");
    }

    #[test]
    fn rest_of_a_long_log_is_reported_as_unread() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("long");
        let line = "[error] it broke\n".repeat(1 << 12);
        std::fs::write(&file, &line).unwrap();
        File::options().write(true).open(&file).unwrap().set_len(LOAD_READ_MAX + 7).unwrap();
        let marks =
            Marks(vec![Mark { node: "n".into(), level_words: &[], file, from: 0, to: None }]);
        let found = marks.complaints();
        assert_eq!((found[0].lines, found[0].unread_bytes), (1 << 12, 7));
    }

    #[test]
    fn full_disk_is_found_in_any_nodes_log() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).unwrap();
        write("a-1.log", b"all is well\nno space\nleft on device\n");
        write("a-2.txt", b"no space left on device\n");
        assert_eq!(of_a_full_disk(dir.path()), None);
        write("a-3.log", b"x\xff\nIOException: No space left on device");
        assert_eq!(of_a_full_disk(dir.path()).as_deref(), Some("a-3"));
        assert_eq!(of_a_full_disk(&dir.path().join("missing")), None);
    }
}
