//! Reads regular files up to a size.
//!
//! Opening a pipe without a writer blocks for ever, and a device such as `/dev/zero` has no end. `open` therefore opens
//! without waiting and refuses everything but a regular file. Only a path such as `/dev/stdin` or `/dev/fd/63`, which a
//! shell writes for `<(command)`, may be a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Paths that stand for descriptors which this process was given.
const GIVEN: [&str; 4] = ["/dev/stdin", "/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];

/// Opens a regular file to read. Follows links.
///
/// # Errors
/// Those of `open`, and for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    if GIVEN.iter().any(|given| path.starts_with(given)) {
        return File::open(path);
    }
    // Harmless for regular files: reads of them never wait for another process.
    let at_once = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(at_once).open(path)?;
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Reads a regular file of at most `max` bytes.
///
/// # Errors
/// As [`open`], and for a larger file.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(max)).unwrap_or(0));
    if size <= max {
        file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    match size > max || bytes.len() as u64 > max {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large(max))),
        false => Ok(bytes),
    }
}

fn too_large(max: u64) -> String {
    match max {
        1048576.. => format!("it has more than {} MiB", max >> 20),
        _ => format!("it has more than {max} bytes"),
    }
}

/// Reads a UTF-8 text of at most `max` bytes, without the byte order mark that some editors write first.
///
/// # Errors
/// As [`read`], and if the file is not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let mut text = String::from_utf8(read(path, max)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8 at byte {at}"))
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_none_is_awaited() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        mkfifoat(CWD, at("pipe"), Mode::RWXU).unwrap();
        symlink(at("pipe"), at("to-pipe")).unwrap();
        symlink("/dev/zero", at("to-zero")).unwrap();
        symlink("/dev/tty", at("to-tty")).unwrap();
        for name in ["pipe", "to-pipe", "to-zero", "to-tty", "."] {
            assert!(read(&at(name), 10).is_err(), "{name}");
        }
        fs::write(at("file"), "0123456789").unwrap();
        symlink(at("file"), at("to-file")).unwrap();
        assert_eq!(read(&at("to-file"), 10).unwrap(), b"0123456789");
        assert_eq!(read(&at("file"), 9).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let sparse = File::create(at("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let refused = read(&at("sparse"), 3 << 20).unwrap_err();
        assert_eq!(refused.to_string(), "it has more than 3 MiB");
        assert!(read(Path::new("/dev/fd/none"), 1).is_err());
    }

    #[test]
    fn text_loses_its_byte_order_mark() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("text");
        for (bytes, text) in [(&b"\xef\xbb\xbfa"[..], "a"), (b"a\xef\xbb\xbf", "a\u{feff}")] {
            fs::write(&file, bytes).unwrap();
            assert_eq!(read_text(&file, 9).unwrap(), text);
        }
        fs::write(&file, b"ab\xff").unwrap();
        assert_eq!(read_text(&file, 9).unwrap_err().to_string(), "it is not UTF-8 at byte 2");
    }
}
