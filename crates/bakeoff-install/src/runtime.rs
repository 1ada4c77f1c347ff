//! Finds a runtime on this machine for a program from another machine.
//!
//! Not here: runtimes for this machine's programs (`java`, `npm`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::RuntimeMissing;
use super::recipe::Runtime;
use super::{Host, java, npm, tool};

/// A suitable runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFound {
    /// Path of the executable.
    pub program: PathBuf,
    /// Version that it prints: `17.0.15`.
    pub version: String,
}

impl Runtime {
    /// Finds the runtime at a path, or by its name on `PATH` if the path has none. `least`: oldest suitable major
    /// version.
    ///
    /// # Errors
    /// If no runtime was found, or it is too old.
    pub fn look_for(self, program: &Path, least: u32) -> Result<RuntimeFound, RuntimeMissing> {
        self.look_on(&Host::from_environment(), program, least)
    }

    fn look_on(
        self,
        host: &Host,
        program: &Path,
        least: u32,
    ) -> Result<RuntimeFound, RuntimeMissing> {
        let at_path = program.is_absolute() && tool::is_executable(program);
        let found = match at_path {
            true => Some(program.to_owned()),
            false => tool::on_path(self.program(), host.path.as_deref()),
        };
        let program =
            found.ok_or_else(|| RuntimeMissing::one(format!("no `{}` on PATH", self.program())))?;
        let (version, major) = match self {
            Self::Java => java::ask(&program),
            Self::Node => npm::ask(&program),
        }?;
        if major < least {
            let (path, name) = (program.display(), self.name());
            return Err(RuntimeMissing::one(format!("`{path}` is {name} {version}")));
        }
        Ok(RuntimeFound { program, version })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn too_old_runtime_is_reported_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, line: &str| {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let java = program("java", "openjdk version \"11.0.2\" 2019-01-15");
        let node = program("node", "v20.1.0");
        let found = Runtime::Java.look_for(&java, 11).unwrap();
        assert_eq!((&found.program, &*found.version), (&java, "11.0.2"));
        let why = Runtime::Java.look_for(&java, 17).unwrap_err().to_string();
        assert_eq!(why, format!("`{}` is Java 11.0.2", java.display()));
        let why = Runtime::Node.look_for(&node, 22).unwrap_err().to_string();
        assert_eq!(why, format!("`{}` is Node.js 20.1.0", node.display()));
        // Nothing is at the path, so the search falls back to `PATH`.
        let host = crate::testing::machine(dir.path(), None);
        let found = Runtime::Java.look_on(&host, Path::new("/nowhere/java"), 11).unwrap();
        assert_eq!(found.program, java);
    }
}
