//! The state in which a program's files were found, to see at each launch that nobody changed them since.
//!
//! A kernel sets a file's change time on every write, and no user can set it back: files of the same device, inode, size and
//! times hold what they held when they were hashed. A look costs a `stat` of each file; hashing hundreds of
//! megabytes before each trial would cost what the trial is to measure.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cache::Tree;
use super::hashes::State;
use super::refusal::Damage;
use super::{Installed, Program};

/// The files of a program, as they were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal(Vec<Sealed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Sealed {
    path: PathBuf,
    state: State,
}

impl Seal {
    /// Seals a program: all of its folder in the cache, or its own files where it is none of the cache's.
    ///
    /// # Errors
    /// When a file of it cannot be read.
    pub fn take(program: &Installed) -> Result<Self, Damage> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| Damage::Unreadable(path, error)
        };
        let paths = match (&program.folder, &program.program) {
            (Some(folder), _) => {
                let tree = Tree::read(folder).map_err(unreadable(folder))?;
                // A folder changes when something is put into it.
                tree.files.iter().chain(&tree.folders).map(|path| folder.join(path)).collect()
            }
            (None, Program::Binary(path)) => vec![path.clone()],
            (None, Program::Java { class_path, .. }) => class_path.clone(),
            (None, Program::Node { script, .. }) => vec![script.clone()],
        };
        let sealed = paths.into_iter().map(|path| {
            let state = State::read(&fs::metadata(&path).map_err(unreadable(&path))?);
            Ok(Sealed { path, state })
        });
        sealed.collect::<Result<_, _>>().map(Self)
    }

    /// Checks that all files are as they were.
    ///
    /// # Errors
    /// The first file that is gone, changed or replaced.
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
