//! Looks through nodes' logs for what they cannot tell in any other way.
//!
//! Not here: the last lines of a log for an error message (`error`).

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// What the kernel's ENOSPC is called by the C library and by Java.
const FULL: &str = "no space left on device";
/// The most that is read of each log, from its end.
const READ_MAX: u64 = 64 << 20;

/// The first node, by name, whose log in this directory speaks of a full disk.
pub(crate) fn of_a_full_disk(logs: &Path) -> Option<String> {
    let entries = std::fs::read_dir(logs).ok()?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut full = paths
        .filter(|path| path.extension().is_some_and(|end| end == "log") && says(path, FULL))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect::<Vec<_>>();
    full.sort();
    full.into_iter().next()
}

/// Whether a line has these words, in whatever case; `words` are in lower case.
fn says(path: &Path, words: &str) -> bool {
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if file.seek(SeekFrom::Start(size.saturating_sub(READ_MAX))).is_err() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_found_in_any_nodes_log() {
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
