//! Where the tests of the report's page have a browser from: `CHROMIUM`, else the first of the usual
//! names on `PATH`, else Debian's headless Chromium, fetched once into bakeoff's cache.
//!
//! The machine's own apt fetches the packages and everything they depend on, but for C's library,
//! which must be the machine's. They are unpacked below `CACHE/tools` without root, with the fonts of
//! one package, so that what the tests see does not depend on what else is installed. Only a browser
//! that runs is kept; it is renamed into place last, and a lock keeps two tests from fetching at once.
//!
//! Not here: what is done with the browser (`report_html`).

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bakeoff_install::{apt, place};

const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chromium-headless-shell",
];
const PACKAGE: &str = "chromium-headless-shell";
const PROGRAM: &str = "usr/lib/chromium/chromium-headless-shell";
/// Without a font no text has a width.
const FONTS: &str = "fonts-dejavu-core";
/// What apt is told to be installed: the C library, which must fit the machine's loader, and tools of
/// a desktop that no headless browser calls, but that weigh 50 MB.
const THERE_ALREADY: [&str; 3] = ["libc6", "x11-utils", "xdg-utils"];
/// The fonts beside this file and no others. What is found out about them is kept with the profile.
const FONTS_CONF: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"#;

/// Longest waits: for another that fetches, for package lists, packages, one unpacked, and an answer.
const LOCKED: Duration = Duration::from_secs(1500);
const LISTS: Duration = Duration::from_secs(180);
const PACKAGES: Duration = Duration::from_secs(900);
const UNPACKED: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(30);

/// A browser that can be started.
#[derive(Debug)]
pub(crate) struct Chromium {
    program: PathBuf,
    /// Where it was unpacked, if it was not installed.
    tree: Option<PathBuf>,
}

/// Why there is no browser.
#[derive(Debug)]
pub(crate) enum Missing {
    /// This machine cannot fetch one, whatever the network.
    Unable(String),
    /// It should have been fetched, and was not.
    Failed(String),
}

impl Missing {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Unable(why) | Self::Failed(why) => why,
        }
    }
}

impl Chromium {
    /// The browser of this machine, else one that is fetched now if it was not before.
    pub(crate) fn find() -> Result<Self, Missing> {
        let installed = |program: PathBuf| Self { program, tree: None };
        if let Some(asked) = std::env::var_os("CHROMIUM") {
            let asked = installed(asked.into());
            asked.version().map_err(|why| Missing::Failed(format!("CHROMIUM: {why}")))?;
            return Ok(asked);
        }
        // Some distributions have a program of this name that only tells how to install another.
        let mut candidates = NAMES.iter().filter_map(|name| on_path(name)).map(installed);
        if let Some(found) = candidates.find(|candidate| candidate.version().is_ok()) {
            return Ok(found);
        }
        let lacking: Vec<&str> =
            ["apt-get", "dpkg"].into_iter().filter(|tool| on_path(tool).is_none()).collect();
        if !lacking.is_empty() {
            let lacking = lacking.join(", ");
            return Err(Missing::Unable(format!(
                "chromium not found (this machine has no {lacking} to fetch one with)"
            )));
        }
        fetched().map_err(|why| {
            Missing::Failed(format!(
                "chromium not found, and not fetched: {why}\nhint: install it, or name one in CHROMIUM"
            ))
        })
    }

    /// The browser's program, to be given its options, with `home` for whatever it leaves behind.
    pub(crate) fn command(&self, home: &Path) -> Command {
        // The pipe of its developer tools is on descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"]);
        command.arg(&self.program);
        self.prepare(&mut command, home);
        command
    }

    fn prepare(&self, command: &mut Command, home: &Path) {
        if let Some(tree) = &self.tree {
            let libraries = std::env::join_paths(library_folders(tree));
            command.env("LD_LIBRARY_PATH", libraries.expect("a cache has no colon in its path"));
            command.env("FONTCONFIG_FILE", tree.join("fonts.conf")).env("XDG_CACHE_HOME", home);
        }
    }

    /// What it says of its version: proof that it starts, with all its libraries.
    fn version(&self) -> Result<String, String> {
        let home = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut command = Command::new(&self.program);
        self.prepare(&mut command, home.path());
        let name = format!("{} --version", self.program.display());
        finish(&name, command.args(["--no-sandbox", "--version"]), ANSWER)
    }
}

fn fetched() -> Result<Chromium, String> {
    let tools = cache()?.join("tools");
    if tools.to_string_lossy().contains(':') {
        return Err(format!("a folder of libraries may have no colon in it: {}", tools.display()));
    }
    let place = tools.join(format!("debian-{PACKAGE}-{}", std::env::consts::ARCH));
    let at = |tree: &Path| Chromium { program: tree.join(PROGRAM), tree: Some(tree.to_owned()) };
    fs::create_dir_all(&tools).map_err(|error| told(&tools, &error))?;
    let lock_file = tools.join(".lock");
    let lock = File::create(&lock_file).map_err(|error| told(&lock_file, &error))?;
    take(&lock, &lock_file)?;
    if !place.is_dir() {
        // Whoever was ended while it fetched holds the lock no longer.
        for entry in fs::read_dir(&tools).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".work-") {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let work = tempfile::Builder::new().prefix(".work-").tempdir_in(&tools);
        let work = work.map_err(|error| told(&tools, &error))?;
        let tree = work.path().join("tree");
        fetch(work.path(), &tree)?;
        at(&tree).version().map_err(|why| format!("what was fetched does not run: {why}"))?;
        fs::rename(&tree, &place).map_err(|error| told(&place, &error))?;
    }
    let kept = at(&place);
    kept.version()
        .map_err(|why| format!("the one in {} does not run (delete it): {why}", place.display()))?;
    Ok(kept)
}

/// Unpacks the packages and all that they need into `tree`.
fn fetch(work: &Path, tree: &Path) -> Result<(), String> {
    eprintln!("fetching Debian's {PACKAGE} and its libraries (120 MB) into bakeoff's cache");
    let began = Instant::now();
    let apt_get = || -> Result<Command, String> {
        let mut command = Command::new("apt-get");
        apt::apart(&mut command, work).map_err(|error| told(work, &error))?;
        for (option, name) in [("Dir::State", ""), ("Dir::State::status", "status")] {
            command.arg("-o").arg(format!("{option}={}", work.join(name).display()));
        }
        command.arg("-qq");
        Ok(command)
    };
    let architecture = finish(
        "dpkg --print-architecture",
        Command::new("dpkg").arg("--print-architecture"),
        ANSWER,
    )?;
    let installed = THERE_ALREADY.map(|package| {
        // Newer than anything could ask for.
        format!(
            "Package: {package}\nStatus: install ok installed\nArchitecture: {}\nVersion: 99:0\n\n",
            architecture.trim()
        )
    });
    fs::write(work.join("status"), installed.concat()).map_err(|error| told(work, &error))?;

    // Some of the machine's sources may be unreachable: what counts is whether the packages are had.
    let updated = finish("apt-get update", apt_get()?.arg("update"), LISTS);
    let mut install = apt_get()?;
    install.args(["--yes", "--no-install-recommends", "--download-only", "install"]);
    finish("apt-get install", install.args([PACKAGE, FONTS]), PACKAGES).map_err(
        |why| match updated {
            Ok(_) => why,
            Err(first) => format!("{first}\n{why}"),
        },
    )?;
    let archives = work.join("archives");
    let archives = fs::read_dir(&archives).map_err(|error| told(&archives, &error))?;
    for package in archives.flatten().map(|entry| entry.path()) {
        if package.extension().is_some_and(|extension| extension == "deb") {
            finish("dpkg -x", Command::new("dpkg").arg("-x").arg(package).arg(tree), UNPACKED)?;
        }
    }
    let conf = tree.join("fonts.conf");
    fs::write(&conf, FONTS_CONF).map_err(|error| told(&conf, &error))?;
    eprintln!("fetched in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// The folders below `lib` and `usr/lib` that hold shared libraries.
fn library_folders(tree: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![tree.join("usr/lib"), tree.join("lib")];
    while let Some(folder) = waiting.pop() {
        let mut holds = false;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                _ => holds |= entry.file_name().to_string_lossy().contains(".so"),
            }
        }
        if holds {
            found.push(folder);
        }
    }
    found
}

/// bakeoff's cache.
fn cache() -> Result<PathBuf, String> {
    let found = place::cache(|name| std::env::var_os(name).map(PathBuf::from));
    found.ok_or_else(|| "none of BAKEOFF_CACHE, XDG_CACHE_HOME and HOME is set".to_owned())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Waits for the lock, which ends with whoever holds it.
fn take(lock: &File, path: &Path) -> Result<(), String> {
    let give_up = Instant::now() + LOCKED;
    let mut said = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(told(path, &error)),
            Err(TryLockError::WouldBlock) if Instant::now() > give_up => {
                return Err(format!("another holds {} for {LOCKED:?}", path.display()));
            }
            Err(TryLockError::WouldBlock) => {
                if !said {
                    eprintln!("waiting for another that holds {}", path.display());
                    said = true;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Runs a program to its end and returns all that it wrote; an error has its name and the last of it.
fn finish(name: &str, command: &mut Command, within: Duration) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("`{name}` cannot be run: {error}");
    let mut written = tempfile::tempfile().map_err(cannot)?;
    command.stdin(Stdio::null());
    command.stdout(written.try_clone().map_err(cannot)?);
    command.stderr(written.try_clone().map_err(cannot)?);
    let mut child = command.spawn().map_err(cannot)?;
    let give_up = Instant::now() + within;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if Instant::now() > give_up {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("`{name}` was given up after {within:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut bytes = Vec::new();
    written.rewind().and_then(|()| written.read_to_end(&mut bytes)).map_err(cannot)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
    Err(format!("`{name}` ended with {status}\n  {last}"))
}

fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
