//! `bakeoff __disk PARENT DIR`: mounts a file system that can forget and break on a directory, and takes orders.
//!
//! Reads an order a line from standard input and writes an answer a line, both as JSON. It ends with its input, and the
//! kernel ends it with its parent. The mount is in a namespace of its own.
//!
//! Not here: what a cut drops (`image`), who enters the namespace (`bakeoff-host`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bakeoff_core::study::DiskFault;
use fuser::BackgroundSession;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, Signal, getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::fault::Gate;
use crate::image::{Attributes, CutLosses, Image, Kind, ROOT, UnsyncedFate};
use crate::mount::{SharedImage, lock, mount};

/// Name of the internal command.
pub const COMMAND: &str = "__disk";

/// Most bytes of a file system, all in memory.
const BYTES_MAX: u64 = 2 << 30;

/// Attempts to unmount a directory that is in use, and the pause between them: 5 s in all.
const BUSY_ATTEMPTS: u32 = 500;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Asks something of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Write everything back, as the kernel does with what is older than 30 s.
    WriteBack,
    /// Cut the power, and mount what is left. No process may use the file system.
    Cut {
        /// Seed of what is kept.
        seed: u64,
        /// Fate of blocks and names that were not synced.
        unsynced: UnsyncedFate,
    },
    /// Break the disk, or heal it. Either answers the requests that wait.
    Fault(Option<DiskFault>),
}

/// Answers of a file system: first that it is ready, then once for each order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskReply {
    /// It is mounted, or has written everything back.
    Ready,
    /// The power was cut.
    Cut(CutLosses),
    /// The reason of a failure.
    Failed(String),
}

/// Runs the command until its input ends.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    match serve(&args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            answer(&DiskReply::Failed(why)).ok();
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &[OsString]) -> Result<(), String> {
    let [parent, dir] = args else { return Err("needs a parent and a directory".to_owned()) };
    let dir = PathBuf::from(dir);
    isolate_mounts().map_err(|error| format!("cannot make a mount namespace: {error}"))?;
    end_with(parent)?;
    let image =
        imported(&dir).map_err(|error| format!("cannot read `{}`: {error}", dir.display()))?;
    let image: SharedImage = Arc::new(Mutex::new(image));
    let gate = Gate::open().map_err(|error| format!("cannot start a thread: {error}"))?;
    let disk = Disk { image, gate, dir };
    let mut session = Some(disk.mounted()?);
    answer(&DiskReply::Ready).map_err(|error| error.to_string())?;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let answered = match serde_json::from_str(&line) {
            Ok(Order::WriteBack) => {
                lock(&disk.image).sync_all();
                DiskReply::Ready
            }
            Ok(Order::Cut { seed, unsynced }) => disk
                .cut(&mut session, (seed, unsynced))
                .map_or_else(DiskReply::Failed, DiskReply::Cut),
            Ok(Order::Fault(fault)) => {
                lock(&disk.image).set_full(fault == Some(DiskFault::Full));
                disk.gate.set(fault);
                DiskReply::Ready
            }
            Err(error) => DiskReply::Failed(format!("no order: {error}")),
        };
        answer(&answered).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A file system with its place.
struct Disk {
    image: SharedImage,
    gate: Arc<Gate>,
    dir: PathBuf,
}

impl Disk {
    /// Drops what was not synced. The kernel forgets its caches with the old mount.
    fn cut(
        &self,
        session: &mut Option<BackgroundSession>,
        (seed, unsynced): (u64, UnsyncedFate),
    ) -> Result<CutLosses, String> {
        if let Some(old) = session.take() {
            unmount(&self.dir).map_err(|error| format!("cannot unmount it: {error}"))?;
            old.join().map_err(|error| format!("cannot end its session: {error}"))?;
        }
        let dropped = lock(&self.image).cut(seed, unsynced);
        *session = Some(self.mounted()?);
        Ok(dropped)
    }

    fn mounted(&self) -> Result<BackgroundSession, String> {
        mount(Arc::clone(&self.image), Arc::clone(&self.gate), &self.dir).map_err(|error| {
            let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
            match device {
                Err(device) => format!("cannot open /dev/fuse: {device}"),
                Ok(_) => format!("cannot mount a file system: {error}"),
            }
        })
    }
}

/// Unmounts a directory. A killed process may hold it for a moment longer.
fn unmount(dir: &Path) -> nix::Result<()> {
    let mut attempts = 0;
    loop {
        match umount2(dir, MntFlags::empty()) {
            Err(Errno::EBUSY) if attempts < BUSY_ATTEMPTS => attempts += 1,
            done => return done,
        }
        std::thread::sleep(BUSY_PAUSE);
    }
}

/// Makes the kernel end this process with its parent, whose ID is an argument. Call it after a change of privileges,
/// which would clear that.
///
/// # Errors
/// When the parent has ended, or the kernel refuses.
pub fn end_with(parent: &OsStr) -> Result<(), String> {
    let parent = parent.to_str().and_then(|parent| Pid::from_raw(parent.parse().ok()?));
    let set = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    set.map_err(|error| format!("cannot set the parent-death signal: {error}"))?;
    match rustix::process::getppid() == parent {
        true => Ok(()),
        false => Err("bakeoff has ended".to_owned()),
    }
}

/// Prints an answer, as a line of JSON.
///
/// # Errors
/// When the reader has closed the pipe.
pub fn answer(answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Moves this process to a mount namespace whose mounts reach no other.
fn isolate_mounts() -> io::Result<()> {
    isolate(CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    Ok(nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?)
}

/// Moves this process, which has one thread, to namespaces of its own. An ordinary user needs a user namespace for that,
/// in which every user stays who they are.
///
/// # Errors
/// When the kernel refuses.
pub fn isolate(namespaces: CloneFlags) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    match unshare(namespaces) {
        Err(Errno::EPERM) => {}
        done => return Ok(done?),
    }
    unshare(CloneFlags::CLONE_NEWUSER | namespaces)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Reads a directory into a new image, all of it durable.
fn imported(dir: &Path) -> io::Result<Image> {
    let metadata = dir.metadata()?;
    let mut image = Image::new(attributes(&metadata), BYTES_MAX);
    import(&mut image, ROOT, dir)?;
    image.sync_all();
    Ok(image)
}

fn import(image: &mut Image, parent: u64, dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, name, metadata) = (entry.path(), entry.file_name(), entry.metadata()?);
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Link(fs::read_link(&path)?.into_os_string()),
            kind if kind.is_file() => Kind::File,
            _ => continue,
        };
        let (is_dir, is_file) = (kind == Kind::Directory, kind == Kind::File);
        let inode = image.create((parent, &name), kind, attributes(&metadata))?;
        if is_dir {
            import(image, inode, &path)?;
        } else if is_file {
            image.write(inode, 0, &fs::read(&path)?, SystemTime::UNIX_EPOCH)?;
        }
    }
    Ok(())
}

fn attributes(metadata: &fs::Metadata) -> Attributes {
    let owner = (metadata.uid(), metadata.gid());
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Attributes::new(metadata.mode() & 0o7777, owner, modified)
}
