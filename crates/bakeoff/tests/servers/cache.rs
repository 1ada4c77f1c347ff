//! Tests the cache of programs with concurrent and killed bakeoffs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{bakeoff, has};

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        skipped.unless_lacking("program_is_whole_after_kill_9_in_the_midst_of_fetching", killed),
        skipped.unless_lacking("two_bakeoffs_at_once_share_a_cache", together),
    ]
}

/// A Debian package, which downloads in seconds.
const SYSTEM: &str = "redis";

fn install(cache: &Path) -> Command {
    let mut command = bakeoff();
    command.args(["install", SYSTEM]).env("BAKEOFF_CACHE", cache);
    // A program on `PATH` would be preferred.
    command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Checks that this machine can fetch Debian packages and lacks the program itself.
fn can_fetch() -> Result<(), SkipReason> {
    if !has("apt-get") || !has("dpkg") {
        return Err(SkipReason::Machine("no `apt-get` and no `dpkg` here".to_owned()));
    }
    if has("redis-server") {
        return Err(SkipReason::Machine(
            "redis-server is on PATH, so that none is fetched".to_owned(),
        ));
    }
    Ok(())
}

/// Returns the system's folders in a cache: complete programs, and unfinished ones.
fn folders(cache: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let items = fs::read_dir(cache.join(SYSTEM)).into_iter().flatten().flatten();
    let folders = items.map(|item| item.path()).filter(|path| path.is_dir());
    folders.partition(|path| path.join("manifest.json").exists())
}

/// Waits for an install, and returns its standard output.
fn finish(child: Child) -> Result<String, SkipReason> {
    let output = child.wait_with_output().expect("its end can be waited for");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(SkipReason::Program(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn killed() -> Result<(), SkipReason> {
    can_fetch()?;
    let cache = tempfile::tempdir().expect("there is room for a test");
    // Some time after it began: while it fetches, unpacks, runs or hashes.
    for pause in [0, 300, 1500] {
        let mut first = install(cache.path()).spawn().expect("bakeoff starts");
        let deadline = Instant::now() + Duration::from_secs(60);
        while folders(cache.path()).1.is_empty() && Instant::now() < deadline {
            assert!(first.try_wait().is_ok_and(|ended| ended.is_none()), "it ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(pause));
        first.kill().expect("it can be killed");
        first.wait().expect("its end can be waited for");
    }
    let whole = folders(cache.path()).0;
    assert!(whole.is_empty(), "a killed fetch left what looks whole: {whole:?}");
    let output = finish(install(cache.path()).spawn().expect("bakeoff starts"))?;
    assert!(output.contains("Debian package redis"), "{output}");
    let (whole, worked_on) = folders(cache.path());
    assert_eq!((whole.len(), worked_on.len()), (1, 0), "{whole:?} {worked_on:?}");
    Ok(())
}

fn together() -> Result<(), SkipReason> {
    can_fetch()?;
    let cache = tempfile::tempdir().expect("there is room for a test");
    let both = [(); 2].map(|()| install(cache.path()).spawn().expect("bakeoff starts"));
    let outputs = both.map(finish);
    let [one, other] = outputs;
    assert_eq!(one?, other?);
    assert_eq!(folders(cache.path()).0.len(), 1);
    Ok(())
}
