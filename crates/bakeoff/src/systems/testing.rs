//! Runs systems and parts for real in the tests of their folders.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study;
use bakeoff_host::ports::Allocator;
use bakeoff_install::{self as install, Cache, Installed};
use tempfile::TempDir;

use super::{COMPOSITE, System};
use crate::cluster::{self, Ready, Starting};
use crate::machines::NodesOf;
use crate::machines::fleet::Fleet;
use crate::systems::seating::Seating;
use crate::systems::topology::{Component, compose};

/// A kind as a study asks for it.
pub(crate) fn asked(kind: &str, nodes: u32, options: &[(&str, &str)]) -> study::System {
    let options = options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    study::System { nodes, options: options.collect(), ..super::plain(kind) }
}

/// The program of a system, had as users have it; `None`, said, when it cannot be had here. In CI that
/// is a failure, unless the machine lacks what it is built with. `elsewhere`: where machines have it
/// that do not have it on `PATH`.
#[allow(clippy::disallowed_macros, reason = "a skipped test must not pass in silence")]
pub(crate) fn program(system: &dyn System, elsewhere: &[&str]) -> Option<Installed> {
    let recipe = system.declares().origin.recipe().expect("it is a program");
    let own = elsewhere.iter().map(PathBuf::from).find(|path| path.is_file());
    let cache = Cache::from_environment().expect("there is a cache");
    let never = AtomicBool::new(false);
    let own = own.as_deref();
    match install::install(recipe, None, own, &cache, &mut |_| {}, &never) {
        Ok(installed) => Some(installed),
        Err(error) => {
            let lacks = ["go", "java", "node"].iter().any(|tool| !on_path(tool));
            let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(lacks || !in_ci, "in CI a skip is a failure: {error}");
            eprintln!("skipped: {}: {error}", system.kind().name);
            None
        }
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// A system that runs by itself, and its directory.
pub(crate) struct Running {
    pub(crate) ready: Ready,
    pub(crate) dir: TempDir,
    /// All processes that were ever seen of it.
    seen: Vec<i32>,
}

/// Starts it and waits until it is ready.
pub(crate) fn start(
    system: &'static dyn System,
    asked: &study::System,
    program: Option<Installed>,
) -> Running {
    let dir = TempDir::new().unwrap();
    let components =
        [Component { role: COMPOSITE, tier: None, asked, system, program, seal: None }];
    let mut ports = Allocator::new(None);
    let seating = Seating::here();
    let members = compose(&components, dir.path(), 7, &seating, &mut ports).unwrap();
    let never = AtomicBool::new(false);
    let starting = Starting {
        components: &components,
        nodes: dir.path(),
        dir: dir.path(),
        seed: 7,
        seating: &seating,
        on: (&Fleet::Local, NodesOf::Trial),
    };
    let ready = cluster::start(members, &starting, &never, |_| {});
    let ready = ready.unwrap_or_else(|error| panic!("{error}"));
    Running { ready, dir, seen: Vec::new() }
}

impl Running {
    /// Something that was started otherwise.
    pub(crate) fn new(ready: Ready, dir: TempDir) -> Self {
        Self { ready, dir, seen: Vec::new() }
    }

    /// Kills all of it, starts it again and waits until it is ready.
    pub(crate) fn killed_and_restarted(mut self) -> Self {
        self.note();
        let never = AtomicBool::new(false);
        self.ready.kill9();
        let ready = self.ready.restart(&never).unwrap_or_else(|error| panic!("{error}"));
        Self { ready, dir: self.dir, seen: self.seen }
    }

    /// The command lines of all its processes, as everybody on the machine can read them.
    pub(crate) fn command_lines(&mut self) -> String {
        self.note();
        let read = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let lines = self.seen.iter().map(read);
        lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
    }

    fn note(&mut self) {
        let leaders: Vec<i32> = self.ready.processes().filter_map(|node| node.pid()).collect();
        self.seen.extend(descendants(&leaders));
    }

    /// Stops it; nothing of it may run afterwards.
    pub(crate) fn stopped(mut self) {
        self.note();
        let Self { ready, seen, dir } = self;
        assert!(seen.iter().any(|&pid| lives(pid)));
        ready.stop();
        let deadline = clock::now() + Duration::from_secs(5);
        while let Some(pid) = seen.iter().find(|&&pid| lives(pid)) {
            assert!(clock::now() < deadline, "{pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(dir);
    }
}

/// Processes and all that descends from them.
fn descendants(leaders: &[i32]) -> Vec<i32> {
    let mut family = leaders.to_vec();
    let mut next = 0;
    while let Some(pid) = family.get(next) {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        family.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        next += 1;
    }
    family
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Returns whether any file below a directory holds a text and can be read by others than its owner.
pub(crate) fn shown_to_others(dir: &Path, text: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            if let Some(found) = shown_to_others(&path, text) {
                return Some(found);
            }
            continue;
        }
        let public = metadata.is_file() && metadata.permissions().mode() & 0o077 != 0;
        let has = |bytes: Vec<u8>| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        if public && std::fs::read(&path).is_ok_and(has) {
            return Some(path);
        }
    }
    None
}
