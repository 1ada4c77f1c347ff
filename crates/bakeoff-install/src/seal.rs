//! Detects changes to a program's files between the hash and each launch.
//!
//! The kernel sets a file's change time on every write, and no user can set it back. So a file with the same device,
//! inode, size and times has the same bytes as when it was hashed. This check costs one `stat` per file. Hashing
//! hundreds of megabytes before each trial would disturb the measurement.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cache::Tree;
use super::hashes::State;
use super::refusal::Damage;
use super::{InstalledProgram, Program};

/// State of a program's files when the seal was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal(Vec<SealedFile>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct SealedFile {
    path: PathBuf,
    state: State,
}

impl Seal {
    /// Records the state of a program: its whole folder in the cache, or its own files if it is not from the cache.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn take(program: &InstalledProgram) -> Result<Self, Damage> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| Damage::Unreadable(path, error)
        };
        let paths = match (&program.folder, &program.program) {
            (Some(folder), _) => {
                let tree = Tree::read(folder).map_err(unreadable(folder))?;
                // A folder changes if a file is added.
                tree.files.iter().chain(&tree.folders).map(|path| folder.join(path)).collect()
            }
            (None, Program::Binary(path)) => vec![path.clone()],
            (None, Program::Java { class_path, .. }) => class_path.clone(),
            (None, Program::Node { script, .. }) => vec![script.clone()],
        };
        let sealed = paths.into_iter().map(|path| {
            let state = State::read(&fs::metadata(&path).map_err(unreadable(&path))?);
            Ok(SealedFile { path, state })
        });
        sealed.collect::<Result<_, _>>().map(Self)
    }

    /// Checks that no file has changed.
    ///
    /// # Errors
    /// If a file is missing, changed or replaced. Names the first one.
    pub fn check(&self) -> Result<(), Damage> {
        for sealed in &self.0 {
            let found = fs::metadata(&sealed.path)
                .map_err(|error| Damage::Unreadable(sealed.path.clone(), error))?;
            if State::read(&found) != sealed.state {
                return Err(Damage::Changed(sealed.path.clone()));
            }
        }
        Ok(())
    }
}
