//! The file that keeps the history of a trial, hashed while it is written.
//!
//! Not here: recording (`bakeoff_engine`), the lines (`bakeoff_core::linearizability`).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use bakeoff_core::linearizability::judged_history::KeptHistory;
use sha2::{Digest as _, Sha256};

/// A history file under way.
pub(super) struct HistoryFile {
    to: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
}

impl HistoryFile {
    /// Creates the file and its folder.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let to = BufWriter::new(File::create(path)?);
        Ok(Self { to, hash: Sha256::new(), bytes: 0 })
    }

    /// Writes what is left in memory. Returns the file with its hash.
    pub(super) fn finish(mut self, path: &Path) -> io::Result<KeptHistory> {
        self.to.flush()?;
        let sha256 = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(KeptHistory {
            file: path.display().to_string(),
            file_bytes: self.bytes,
            file_sha256: sha256,
        })
    }
}

impl Write for HistoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
