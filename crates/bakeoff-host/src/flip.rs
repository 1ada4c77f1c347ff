//! Flips a bit in a data file of a stopped node.
//!
//! The file is the largest or the most recently written one, and the byte is not zero: preallocated files mostly hold
//! zeros that no server reads.
//!
//! Not here: stopping and starting nodes (`server`), what a system makes of it (`bakeoff_trial`).

use std::cmp::Reverse;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Largest part of a file in which a byte is chosen, from its beginning.
const READ_MAX: u64 = 256 << 20;

/// Selects the file of a flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlipIn {
    /// The largest one.
    Largest,
    /// The most recently written one.
    Newest,
}

/// Place of a flipped bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flip {
    /// Path below the directory.
    pub file: PathBuf,
    /// Size of the file in bytes.
    pub size: u64,
    /// Place of the byte, from 0.
    pub offset: u64,
    /// Number of the bit, from 0 for the lowest.
    pub bit: u8,
}

/// A file that can be damaged.
struct FlipTarget {
    path: PathBuf,
    size: u64,
    written: SystemTime,
}

/// Flips a bit of a data file below `dir`. `seed` chooses byte and bit; `spared` are files and folders that hold no
/// data. Returns `None` if no file holds any.
///
/// # Errors
/// When a file cannot be read or written.
pub fn flip_a_bit(
    dir: &Path,
    spared: &[PathBuf],
    chosen: FlipIn,
    seed: u64,
) -> io::Result<Option<Flip>> {
    let mut files = Vec::new();
    find(dir, spared, &mut files)?;
    match chosen {
        FlipIn::Largest => files.sort_by_key(|file| Reverse(file.size)),
        FlipIn::Newest => files.sort_by_key(|file| Reverse((file.written, file.size))),
    }
    for file in files {
        if let Some((offset, bit)) = flip(&file, seed)? {
            let below = file.path.strip_prefix(dir).unwrap_or(&file.path).to_owned();
            return Ok(Some(Flip { file: below, size: file.size, offset, bit }));
        }
    }
    Ok(None)
}

/// Flips a bit of a byte that is not zero. Returns the place of both; `None` if there is no such byte.
fn flip(FlipTarget { path, size, .. }: &FlipTarget, seed: u64) -> io::Result<Option<(u64, u8)>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = vec![0; usize::try_from((*size).min(READ_MAX)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    let used = bytes.iter().filter(|byte| **byte != 0).count() as u64;
    let Some(nth) = (seed >> 8).checked_rem(used) else { return Ok(None) };
    let used = (0..).zip(&bytes).filter(|(_, byte)| **byte != 0);
    let Some((offset, byte)) = used.map(|(at, byte)| (at, *byte)).nth(nth as usize) else {
        return Ok(None);
    };
    let bit = seed as u8 % 8;
    file.write_all_at(&[byte ^ (1 << bit)], offset)?;
    file.sync_all()?;
    Ok(Some((offset, bit)))
}

/// Adds all files below `dir` that are not empty.
fn find(dir: &Path, spared: &[PathBuf], found: &mut Vec<FlipTarget>) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, metadata) = (entry.path(), entry.metadata()?);
        if spared.contains(&path) {
            continue;
        }
        if metadata.is_dir() {
            find(&path, spared, found)?;
        } else if metadata.is_file() && metadata.len() > 0 {
            found.push(FlipTarget { path, size: metadata.len(), written: metadata.modified()? });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_of_a_data_file_is_flipped() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("data")).unwrap();
        fs::write(at("server.log"), vec![7; 9000]).unwrap();
        let mut data = vec![0; 4096];
        data[1000] = 0b1010;
        fs::write(at("data/large"), &data).unwrap();
        for seed in 0..40 {
            let flip = flip_a_bit(dir.path(), &[at("server.log")], FlipIn::Largest, seed)
                .unwrap()
                .unwrap();
            assert_eq!((flip.file.to_str(), flip.offset), (Some("data/large"), 1000));
            let now = fs::read(at("data/large")).unwrap();
            let differs: Vec<usize> = (0..4096).filter(|&at| now[at] != data[at]).collect();
            assert_eq!(differs, [1000]);
            assert_eq!(now[1000] ^ data[1000], 1 << flip.bit);
            fs::write(at("data/large"), &data).unwrap();
        }
        fs::write(at("data/newest"), [1]).unwrap();
        // The clock of a file system may tick only every few milliseconds.
        let newest = fs::File::options().write(true).open(at("data/newest")).unwrap();
        let later = at("data/large").metadata().unwrap().modified().unwrap();
        newest.set_modified(later + std::time::Duration::from_secs(1)).unwrap();
        let flip = flip_a_bit(dir.path(), &[at("server.log")], FlipIn::Newest, 1).unwrap().unwrap();
        assert_eq!(flip.file.to_str(), Some("data/newest"));
    }

    #[test]
    fn zeros_and_spared_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(flip_a_bit(dir.path(), &[], FlipIn::Newest, 3).unwrap(), None);
        fs::write(dir.path().join("zeros"), vec![0; 100]).unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        fs::write(dir.path().join("tmp/a"), [1; 200]).unwrap();
        let spared = [dir.path().join("tmp")];
        assert_eq!(flip_a_bit(dir.path(), &spared, FlipIn::Largest, 2).unwrap(), None);
    }
}
