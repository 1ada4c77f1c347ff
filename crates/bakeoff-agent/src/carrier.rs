//! Programs that carry the pipe to an agent: bakeoff itself as a child process, `ssh`, `kubectl exec`.
//!
//! They run as external programs, so the user's configuration, keys, jump hosts and credentials apply. A carrier has
//! its own process group. Ctrl-C then reaches bakeoff first, which ends the run before it closes the connections.
//!
//! If a machine lacks this executable (by SHA-256), bakeoff sends it. A short POSIX shell script reports the platform,
//! receives the bytes, compressed if the machine has gzip, and replaces itself with the agent.
//!
//! Not here: the protocol on the pipe (`client`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bakeoff_clock as clock;
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::process::{Pid, Signal};

use super::error::AgentError;
use super::transfer::Meter;

/// Transport to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// Child process on this machine.
    Child {
        /// Arguments before `agent`: those that make it enter a network namespace.
        enter: Vec<OsString>,
    },
    /// `ssh`.
    Ssh {
        /// Destination as `ssh` takes it: `db1`, `me@db1`.
        destination: String,
        /// Extra arguments for `ssh`: `-F`, `FILE`.
        arguments: Vec<String>,
    },
    /// `kubectl exec -i`.
    Kubectl {
        /// Program name or path: `kubectl`.
        program: String,
        /// Arguments that select cluster and namespace: `--context`, `NAME`.
        arguments: Vec<String>,
        /// Pod name.
        pod: String,
        /// Container name.
        container: String,
        /// Path of bakeoff in the image; `None` if a shell in the pod receives it.
        image_program: Option<String>,
    },
}

/// An executable for machines of one platform.
#[derive(Debug, Clone)]
pub struct AgentExecutable {
    /// Path on this machine.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// Platform it runs on: `Linux x86_64`.
    pub machine: String,
    /// Compressed executable, made for the first machine that lacks it.
    packed: CompressedFile,
}

/// A compressed file, shared by all copies of its description.
#[derive(Clone, Default)]
struct CompressedFile(Arc<Mutex<Option<Arc<Vec<u8>>>>>);

impl std::fmt::Debug for CompressedFile {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Packed")
    }
}

/// Prefix of the line in which the script reports the platform.
const FOUND: &str = "bakeoff-finds ";
/// Most bytes of output before that line.
const BEFORE_MAX: u64 = 64 << 10;

/// Time limit for the machine's shell to report the platform.
const FOUND_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 60 });

/// A running carrier: its process and both ends of the pipe.
pub(crate) struct CarrierProcess {
    pub(crate) child: Child,
    pub(crate) to: ChildStdin,
    pub(crate) from: BufReader<ChildStdout>,
}

impl Carrier {
    /// Returns the name of the carrier's program.
    pub fn program(&self) -> &str {
        match self {
            Self::Child { .. } => "bakeoff",
            Self::Ssh { .. } => "ssh",
            Self::Kubectl { program, .. } => program,
        }
    }

    /// Starts the carrier and sends the executable if needed. Does not wait for the agent's hello.
    pub(crate) fn start(
        &self,
        machine: &str,
        sent: &[AgentExecutable],
    ) -> Result<CarrierProcess, AgentError> {
        let mut command = self.command(sent);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = self.program().to_owned();
        let mut child = command
            .process_group(0)
            .spawn()
            .map_err(|error| AgentError::NoCarrier { program, why: error.to_string() })?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (to, from) = (to.expect("it is piped"), from.expect("it is piped"));
        let mut carried = CarrierProcess { child, to, from: BufReader::new(from) };
        if self.is_scripted()
            && let Err(failure) = send(&mut carried, machine, sent)
        {
            let message = failure.into_error(machine, &mut carried.child, self.by_hand());
            return Err(self.not_begun(message));
        }
        Ok(carried)
    }

    /// Returns the same carrier, but sends the executable even if the image contains one.
    pub fn scripted(&self) -> Self {
        let mut scripted = self.clone();
        if let Self::Kubectl { image_program, .. } = &mut scripted {
            *image_program = None;
        }
        scripted
    }

    /// Converts a failed start to the error for this kind of carrier.
    pub(crate) fn not_begun(&self, error: AgentError) -> AgentError {
        match (self, error) {
            (Self::Kubectl { .. }, AgentError::NotBegun { machine, how, said, .. }) => {
                AgentError::NotBegunInPod { machine, how, said }
            }
            (_, error) => error,
        }
    }

    /// Returns a command for a manual test of the connection.
    fn by_hand(&self) -> Option<String> {
        let Self::Ssh { destination, arguments } = self else { return None };
        let words = ["ssh", "-o", "BatchMode=yes"].into_iter();
        let words = words.chain(arguments.iter().map(String::as_str));
        let words: Vec<&str> = words.chain([&**destination, "uname", "-sm"]).collect();
        Some(words.join(" "))
    }

    /// Returns true if a shell on the other side receives the executable.
    fn is_scripted(&self) -> bool {
        match self {
            Self::Child { .. } => false,
            Self::Ssh { .. } => true,
            Self::Kubectl { image_program, .. } => image_program.is_none(),
        }
    }

    fn command(&self, sent: &[AgentExecutable]) -> Command {
        match self {
            Self::Child { enter } => {
                let own = own_machine();
                let ours = sent.iter().find(|one| one.machine == own).unwrap_or(&sent[0]);
                let mut command = Command::new(&ours.path);
                command.args(enter).arg("agent");
                command
            }
            Self::Ssh { destination, arguments } => {
                let mut command = Command::new("ssh");
                // ssh uses the first value of an option, so the user's arguments come first.
                command.arg("-T").args(arguments).args([
                    "-o",
                    "BatchMode=yes",
                    "-o",
                    "ConnectTimeout=10",
                ]);
                command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
                command.arg("--").arg(destination);
                // The user's login shell may not be a POSIX shell.
                command.arg(format!("exec /bin/sh -c '{}'", script(sent)));
                command
            }
            Self::Kubectl { program, arguments, pod, container, image_program } => {
                let mut command = Command::new(program);
                command.args(arguments).args(["exec", "-i", pod, "--container", container, "--"]);
                match image_program {
                    Some(path) => command.args([path, "agent"]),
                    None => command.args(["/bin/sh", "-c", &script(sent)]),
                };
                command
            }
        }
    }
}

/// Returns the script that reports the platform, receives the executable if it is missing, and becomes the agent. The
/// script contains no single quote, so it can be put between single quotes.
fn script(sent: &[AgentExecutable]) -> String {
    let cases: String = sent
        .iter()
        .map(|AgentExecutable { size, sha256, machine, .. }| {
            format!("\"{machine}\") f=\"bakeoff-{sha256}\"; n={size} ;;\n")
        })
        .collect();
    format!(
        r#"umask 077
d="${{XDG_CACHE_HOME:-$HOME/.cache}}/bakeoff/agents"
if ! [ -r /proc/self/stat ] || ! [ -w /dev/null ]; then
  echo "bakeoff needs /proc and /dev there, and one of them is missing" >&2; exit 1
fi
m="$(uname -s) $(uname -m)"
case "$m" in
{cases}*) echo "{FOUND}$m lacks"; exit 1 ;;
esac
mkdir -p "$d" 2>/dev/null && [ -w "$d" ] || d="$(mktemp -d)" || exit 1
f="$d/$f"
if [ -x "$f" ]; then h=has; elif command -v gzip >/dev/null 2>&1; then h=unpacks; else h=lacks; fi
echo "{FOUND}$m $h"
receive() {{
  if [ $h = lacks ]; then head -c $n; else read -r z && head -c "$z" | gzip -dc; fi
}}
if [ $h != has ]; then
  t="$f.$$"
  if ! receive >"$t" || ! [ -s "$t" ] || ! chmod 700 "$t" || ! mv -f "$t" "$f"; then
    rm -f "$t"; echo "bakeoff could not be kept in $d" >&2; exit 1
  fi
fi
exec "$f" agent"#
    )
}

/// The reason why the executable was not sent.
enum NotSent {
    Other {
        theirs: String,
        ours: String,
    },
    Io(io::Error, String),
    /// Nothing arrived in time. Holds the time waited and the output so far.
    Silent(String, String),
}

impl NotSent {
    /// Converts the failure to an error. `by_hand`: command for a manual test of the connection.
    fn into_error(self, machine: &str, child: &mut Child, by_hand: Option<String>) -> AgentError {
        let machine = machine.to_owned();
        match self {
            Self::Other { theirs, ours } => {
                end(child);
                AgentError::OtherArchitecture { machine, theirs, ours }
            }
            Self::Io(error, before) => {
                let (how, said) = last_words(child, &error);
                let said = format!("{before}{said}");
                AgentError::NotBegun { machine, how, said, by_hand }
            }
            Self::Silent(how, said) => {
                end(child);
                AgentError::NotBegun { machine, how, said, by_hand }
            }
        }
    }
}

/// Reads the platform that the script reports and sends the executable if it is missing.
fn send(
    carried: &mut CarrierProcess,
    machine: &str,
    sent: &[AgentExecutable],
) -> Result<(), NotSent> {
    let mut before = String::new();
    // Reads have no timeout. Killing the carrier ends them.
    let (is_found, waits) = mpsc::channel::<()>();
    let silent = Pid::from_raw(carried.child.id() as i32);
    let was_silent = Arc::new(AtomicBool::new(false));
    let gave_up = was_silent.clone();
    std::thread::spawn(move || {
        if let Err(mpsc::RecvTimeoutError::Timeout) = waits.recv_timeout(FOUND_WITHIN)
            && let Some(silent) = silent
        {
            gave_up.store(true, Ordering::Relaxed);
            // The process is not reaped yet, because the reader still waits, so its ID is still valid.
            let _ = rustix::process::kill_process(silent, Signal::KILL);
        }
    });
    let found = loop {
        let mut line = Vec::new();
        let mut limited = (&mut carried.from).take(BEFORE_MAX);
        let read = limited.read_until(b'\n', &mut line);
        let line = String::from_utf8_lossy(&line).into_owned();
        match read {
            Ok(0) if was_silent.load(Ordering::Relaxed) => {
                let why = format!("no output from its shell within {FOUND_WITHIN:?}");
                return Err(NotSent::Silent(why, before));
            }
            Ok(0) => return Err(NotSent::Io(io::ErrorKind::UnexpectedEof.into(), before)),
            Err(error) => return Err(NotSent::Io(error, before)),
            Ok(_) => {}
        }
        if let Some(found) = line.trim_end().strip_prefix(FOUND) {
            break found.to_owned();
        }
        before.push_str(&line);
        if before.len() as u64 > BEFORE_MAX {
            let why = io::Error::other(format!("`{machine}` printed 64 KiB and started no agent"));
            return Err(NotSent::Io(why, String::new()));
        }
    };
    drop(is_found);
    let (theirs, has) = found.rsplit_once(' ').unwrap_or((&found, ""));
    let Some(sent) = sent.iter().find(|one| one.machine == theirs) else {
        let ours: Vec<&str> = sent.iter().map(|one| &*one.machine).collect();
        return Err(NotSent::Other { theirs: theirs.to_owned(), ours: ours.join(" and ") });
    };
    upload(sent, machine, has, &mut carried.to).map_err(|error| NotSent::Io(error, before.clone()))
}

/// Bytes per write of an executable.
const PART: usize = 64 << 10;

/// Sends an executable as the script asks: nothing, its bytes, or the size of the compressed file and that file.
fn upload(
    sent: &AgentExecutable,
    machine: &str,
    asked: &str,
    to: &mut impl Write,
) -> io::Result<()> {
    if asked == "has" {
        return Ok(());
    }
    let mut meter = Meter::begin(machine, "bakeoff", sent.size);
    if asked == "unpacks" {
        let packed = sent.packed()?;
        writeln!(to, "{}", packed.len())?;
        let mut before = 0;
        for (number, part) in packed.chunks(PART).enumerate() {
            to.write_all(part)?;
            // The part of the file that these bytes stand for, as far as it is compressed evenly.
            let bytes = (number * PART + part.len()) as u64;
            let done = sent.size * bytes / (packed.len() as u64).max(1);
            meter.sent(done - before, part.len() as u64);
            before = done;
        }
    } else {
        let mut file = File::open(&sent.path)?.take(sent.size);
        let mut part = vec![0; PART];
        loop {
            let read = file.read(&mut part)?;
            if read == 0 {
                break;
            }
            to.write_all(&part[..read])?;
            meter.sent(read as u64, read as u64);
        }
    }
    to.flush()?;
    meter.end();
    Ok(())
}

/// Kills a carrier and reaps it.
pub(crate) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits up to `within` for a carrier whose pipe was closed to exit, then kills it.
pub(crate) fn end_by_pipe(child: &mut Child, within: Duration) {
    let until = clock::now() + within;
    while matches!(child.try_wait(), Ok(None)) && clock::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    end(child);
}

/// Most bytes of the carrier's standard error to keep.
const SAID_MAX: u64 = 8 << 10;

/// Waits for a carrier that failed. Returns how it ended and its standard error.
pub(crate) fn last_words(child: &mut Child, error: &io::Error) -> (String, String) {
    let mut said = Vec::new();
    let stderr = child.stderr.take();
    // The standard error of a running carrier stays open, so wait for its exit or kill it before reading.
    let ended = child.try_wait().ok().flatten().is_some() || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        child.try_wait().ok().flatten().is_some()
    };
    if !ended {
        end(child);
    }
    if let Some(stderr) = stderr {
        let _ = stderr.take(SAID_MAX).read_to_end(&mut said);
    }
    let how = match child.wait() {
        Ok(status) if ended => format!("the connection ended with {status}"),
        _ => error.to_string(),
    };
    (how, shown(&said))
}

/// Returns output of another machine without control characters, empty lines and long lines.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut clean = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: String =
            line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        let _ = writeln!(clean, "{}", line.trim_end());
    }
    clean
}

impl AgentExecutable {
    /// Reads an executable's size, SHA-256 and platform.
    ///
    /// # Errors
    /// When the file cannot be read or is not an executable.
    pub fn read(path: &Path) -> io::Result<Self> {
        let size = path.metadata()?.len();
        let mut header = Vec::new();
        File::open(path)?.take(HEADER).read_to_end(&mut header)?;
        let machine = machine_of(&header).ok_or_else(|| io::Error::other("not an executable"))?;
        let sha256 = bakeoff_install::sha256_of(path)?;
        Ok(Self { path: path.to_owned(), size, sha256, machine, packed: CompressedFile::default() })
    }

    /// Returns the executable, compressed by gzip.
    fn packed(&self) -> io::Result<Arc<Vec<u8>>> {
        let mut packed = self.packed.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = &*packed {
            return Ok(Arc::clone(packed));
        }
        let mut to = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut File::open(&self.path)?.take(self.size), &mut to)?;
        Ok(Arc::clone(packed.insert(Arc::new(to.finish()?))))
    }
}

/// Bytes of an ELF header up to and including the processor's number.
const HEADER: u64 = 20;

/// Returns the platform that an ELF file is for. Returns this machine's platform for an unknown processor and for a
/// script.
fn machine_of(header: &[u8]) -> Option<String> {
    if header.starts_with(b"#!") {
        return Some(own_machine());
    }
    let number = header.starts_with(b"\x7fELF").then(|| header.get(18..20)).flatten()?;
    // `EM_X86_64` and `EM_AARCH64` of `elf.h`.
    Some(match number {
        [62, 0] => "Linux x86_64".to_owned(),
        [183, 0] => "Linux aarch64".to_owned(),
        _ => own_machine(),
    })
}

/// Returns the platform of this machine: `Linux x86_64`.
pub fn own_machine() -> String {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    format!("{} {}", word(uname.sysname()), word(uname.machine()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> AgentExecutable {
        AgentExecutable {
            path: "/bin/true".into(),
            size: 4,
            sha256: "abc".to_owned(),
            machine: "Linux x86_64".to_owned(),
            packed: CompressedFile::default(),
        }
    }

    #[test]
    fn script_contains_no_single_quote() {
        assert!(!script(&[sent()]).contains('\''));
    }

    #[test]
    fn destination_is_never_parsed_as_an_option() {
        let carrier = Carrier::Ssh { destination: "-oProxyCommand=x".into(), arguments: vec![] };
        let command = carrier.command(&[sent()]);
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        let place = args.iter().position(|arg| arg == "-oProxyCommand=x").unwrap();
        assert_eq!(args[place - 1], "--");
    }

    /// Runs this script as the carrier and returns the error.
    fn started(script: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubectl");
        std::fs::write(&file, script).unwrap();
        // A shell reads the script: executing a file that was just written may fail with "text file busy".
        let carrier = Carrier::Kubectl {
            program: "/bin/sh".to_owned(),
            arguments: vec![file.display().to_string()],
            pod: "pod-0".to_owned(),
            container: "agent".to_owned(),
            image_program: None,
        };
        carrier.start("far", &[sent()]).err().unwrap().to_string()
    }

    #[test]
    fn silent_shell_times_out() {
        let message = started("exec sleep 100");
        assert!(message.starts_with("cannot start the agent in the pod `far`: "), "{message}");
    }

    #[test]
    fn other_architecture_is_rejected_before_sending() {
        let message =
            started("echo Welcome; echo 'bakeoff-finds Linux aarch64 lacks'; exec sleep 100");
        let expected =
            "`far` is Linux aarch64, but the bakeoff to send is built for Linux x86_64\nhint: ";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("`agent: {aarch64: PATH}`"), "{message}");
    }

    #[test]
    fn script_receives_an_executable_once() {
        let folder = tempfile::tempdir().unwrap();
        let agent = b"#!/bin/sh\nread -r rest\necho \"agent $1 begins and reads $rest\"\n";
        let path = folder.path().join("bakeoff");
        std::fs::write(&path, agent).unwrap();
        let other = AgentExecutable { machine: "Linux riscv64".to_owned(), size: 1, ..sent() };
        let own =
            AgentExecutable { machine: own_machine(), size: agent.len() as u64, path, ..sent() };
        let sent = [other, own];
        // A machine without gzip has the programs of these names only.
        let bare = folder.path().join("bin");
        std::fs::create_dir(&bare).unwrap();
        for name in ["sh", "head", "mkdir", "chmod", "mv", "uname", "rm"] {
            let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(name))
                .find(|path| path.exists());
            std::os::unix::fs::symlink(found.unwrap(), bare.join(name)).unwrap();
        }
        let all = std::env::var_os("PATH").unwrap();
        for (path, lacks) in [(all, "unpacks"), (bare.into_os_string(), "lacks")] {
            let home = tempfile::tempdir().unwrap();
            for expected in [lacks, "has"] {
                let mut child = Command::new("/bin/sh")
                    .args(["-c", &script(&sent)])
                    .env("HOME", home.path())
                    .env("PATH", &path)
                    .env_remove("XDG_CACHE_HOME")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut to = child.stdin.take().unwrap();
                upload(&sent[1], "far", expected, &mut to).unwrap();
                to.write_all(b"frames\n").unwrap();
                drop(to);
                let out = child.wait_with_output().unwrap();
                let out = String::from_utf8(out.stdout).unwrap();
                let lines: Vec<&str> = out.lines().collect();
                assert_eq!(lines[0], format!("{FOUND}{} {expected}", own_machine()));
                assert_eq!(lines[1], "agent agent begins and reads frames");
            }
            let kept = std::fs::read_dir(home.path().join(".cache/bakeoff/agents")).unwrap();
            let kept: Vec<_> =
                kept.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
            assert_eq!(kept, [agent.to_vec()]);
        }
    }

    #[test]
    fn damaged_upload_starts_nothing_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let own = AgentExecutable { machine: own_machine(), ..sent() };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script(&[own])]).env("HOME", home.path());
        command.env_remove("XDG_CACHE_HOME").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"20\nno compressed file at all").unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stderr).contains("could not be kept in"), "{out:?}");
        assert_eq!(
            std::fs::read_dir(home.path().join(".cache/bakeoff/agents")).unwrap().count(),
            0
        );
    }

    #[test]
    fn unsupported_platform_is_reported_and_nothing_is_stored() {
        let home = tempfile::tempdir().unwrap();
        let other = AgentExecutable { machine: "Linux riscv64".to_owned(), ..sent() };
        let mut command = Command::new("sh");
        command.args(["-c", &script(&[other])]).env("HOME", home.path());
        let out = command.env_remove("XDG_CACHE_HOME").stdin(Stdio::null()).output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        let message = String::from_utf8(out.stdout).unwrap();
        assert_eq!(message, format!("{FOUND}{} lacks\n", own_machine()));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn executable_header_gives_the_platform() {
        let of = |number: u8| {
            let mut header = [0; HEADER as usize];
            header[..4].copy_from_slice(b"\x7fELF");
            header[18] = number;
            machine_of(&header).unwrap()
        };
        assert_eq!([of(62), of(183), of(1)], ["Linux x86_64", "Linux aarch64", &own_machine()]);
        assert_eq!(machine_of(b"#!/bin/sh"), Some(own_machine()));
        for none in ["", "\x7fELF", "root:x:0:0"] {
            assert_eq!(machine_of(none.as_bytes()), None);
        }
        let own = AgentExecutable::read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.machine, own_machine());
    }
}
