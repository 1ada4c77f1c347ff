//! Ends a cluster: its processes, cgroups, mounts and files, and nothing else.
//!
//! Works without the state file of `up`, so it also ends an incomplete cluster, or one whose `up` was killed.
//! Namespaces need no clean-up: they are unnamed and end with their processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cgroup::Cgroups;
use super::error::ClusterError;
use super::process::{finish, kill_marked, marked, wait_until};
use super::process_id::ProcessId;
use super::run::Run;

const ENDED: Duration = Duration::from_secs(20);
const BRIEF: Duration = Duration::from_secs(20);

/// Files that remain after the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// No files.
    Nothing,
    /// Logs, which show why a start failed.
    Logs,
}

/// Ends everything of this cluster. Returns false if there was nothing.
///
/// # Errors
/// When something remains.
pub(super) fn end(run: &Run, keep: Keep) -> Result<bool, ClusterError> {
    let mut left = Vec::new();
    let had_processes = end_processes(run, &mut left);
    left.extend(Cgroups::remove(run));
    let had_folder = run.folder().exists();
    if had_folder {
        for mount in mounts_below(run.folder()) {
            if finish(Command::new("umount").arg("--lazy").arg(&mount), BRIEF).is_err() {
                left.push(format!("mount {}", mount.display()));
            }
        }
        // Do not delete below a mount: it may show files of others.
        if mounts_below(run.folder()).is_empty() {
            remove_files(run, keep)?;
        }
    }
    match left.is_empty() {
        true => Ok(had_processes || had_folder),
        false => Err(ClusterError::Left { what: left }),
    }
}

fn end_processes(run: &Run, left: &mut Vec<String>) -> bool {
    let mut known: Vec<ProcessId> = Vec::new();
    let all_gone = || {
        // The next round finds processes started during this one.
        let found = marked(run);
        for pid in &found {
            known.extend(ProcessId::read(*pid).filter(|one| !known.contains(one)));
            kill_marked(*pid, run);
        }
        // Containers' processes have no mark, but end before the first process of their machine.
        Ok(found.is_empty() && known.iter().all(|one| !one.is_running()))
    };
    let late = || ClusterError::Left { what: Vec::new() };
    if wait_until(ENDED, all_gone, late).is_err() {
        let still = known.iter().filter(|one| one.is_running());
        left.extend(still.map(|one| format!("process {}", one.pid)));
    }
    !known.is_empty()
}

fn remove_files(run: &Run, keep: Keep) -> Result<(), ClusterError> {
    let folder = run.folder();
    if keep == Keep::Nothing {
        return fs::remove_dir_all(folder).map_err(ClusterError::file("remove", folder));
    }
    let entries = fs::read_dir(folder).map_err(ClusterError::file("read", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_log = path.file_name().is_some_and(|name| name == "logs");
        let removed = match path.is_dir() && !path.is_symlink() {
            true if is_log => Ok(()),
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(ClusterError::file("remove", &path))?;
    }
    Ok(())
}

/// Returns the visible mounts below a folder, the innermost first.
fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    places_below(folder, &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

fn places_below(folder: &Path, mountinfo: &str) -> Vec<PathBuf> {
    let place =
        |line: &str| line.split(' ').nth(4).map(|path| PathBuf::from(path.replace("\\040", " ")));
    let mut found: Vec<PathBuf> =
        mountinfo.lines().filter_map(place).filter(|path| path.starts_with(folder)).collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::super::run::MARK;
    use super::*;

    #[test]
    fn cluster_without_a_state_file_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let run = Run::at(&dir.path().join("run"));
        assert!(!end(&run, Keep::Nothing).unwrap(), "there is none");
        run.make_folder("n1/kubelet").unwrap();
        let mut child = Command::new("sleep").arg("60").env(MARK, run.name()).spawn().unwrap();
        let pid = child.id().try_into().unwrap();
        let is_marked = || Ok(marked(&run).contains(&pid));
        wait_until(BRIEF, is_marked, || panic!("it has no mark")).unwrap();
        assert!(end(&run, Keep::Nothing).unwrap());
        assert!(!child.wait().unwrap().success());
        assert!(!run.folder().exists());
        assert!(!end(&run, Keep::Nothing).unwrap(), "it is ended twice");
    }

    #[test]
    fn logs_of_a_failed_start_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let run = Run::at(&dir.path().join("run"));
        for folder in ["logs", "pki", "n1/logs"] {
            run.make_folder(folder).unwrap();
        }
        run.write("logs/etcd.log", "why").unwrap();
        run.write("kubeconfig", "a secret").unwrap();
        end(&run, Keep::Logs).unwrap();
        let left: Vec<_> =
            fs::read_dir(run.folder()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["logs"]);
        assert!(run.log("etcd").exists());
    }

    #[test]
    fn mounts_are_listed_from_the_innermost() {
        let info = "1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / /a/run/n1 rw - tmpfs x rw\n\
                    3 2 0:3 / /a/run/n1/x\\040y rw - tmpfs x rw\n4 1 0:4 / /a/runner rw - tmpfs x rw\n";
        let found = places_below(Path::new("/a/run"), info);
        assert_eq!(found, [Path::new("/a/run/n1/x y"), Path::new("/a/run/n1")]);
    }
}
