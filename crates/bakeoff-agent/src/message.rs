//! Requests to an agent, and its introduction.
//!
//! Requests, answers and notes are JSON. Times are nanoseconds of the agent's monotonic clock since it started.
//!
//! Not here: frames (`frame`), the handling of requests (`agent_state`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bakeoff_core::record::durability::UnsafeSetting;
use bakeoff_core::study::DiskFault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::order::LaunchOrder;

/// Protocol version. Changes with every change to the messages.
pub const PROTOCOL: u32 = 15;
/// Silence after which an agent gives its coordinator up. The coordinator sends a request every two seconds.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(30);

/// First note of an agent, under number 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the agent.
    pub protocol: u32,
    /// bakeoff's version on that machine.
    pub version: String,
    /// SHA-256 of the agent's executable, in hexadecimal.
    pub sha256: String,
    /// Path of the agent's executable.
    pub program: PathBuf,
    /// Host name of the machine.
    pub host: String,
    /// Operating system and architecture: `Linux x86_64`.
    pub machine: String,
    /// Folder for programs that the coordinator sends.
    pub cache: PathBuf,
    /// True if the agent runs as root.
    pub root: bool,
    /// CPUs that the agent may use.
    pub cpus: u32,
    /// Boot ID of the running kernel (`/proc/sys/kernel/random/boot_id`). Machines with the same ID share a kernel.
    pub kernel: Option<String>,
}

/// Both clocks of a machine, read at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Nanoseconds since the agent started.
    pub nanos: u64,
    /// Wall clock, in seconds since 1970.
    pub wall: f64,
}

impl ClockReading {
    /// Returns the wall clock minus the monotonic clock, in seconds. It changes only if somebody sets the wall clock, or
    /// the machine sleeps.
    pub fn wall_offset(self) -> f64 {
        self.wall - self.nanos as f64 / 1e9
    }
}

/// A request to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Reads the clocks. Answers with a [`ClockReading`].
    Now,
    /// Creates the run's folder below `data` and pins the agent to CPUs. Answers with the folder's path.
    Prepare {
        /// Name of the run: letters, digits and `-`.
        run: String,
        /// Parent folder; `/var/tmp` if `None`.
        data: Option<PathBuf>,
        /// CPUs for the agent and its servers; empty for all that they may use.
        #[serde(default)]
        cpus: Vec<u32>,
    },
    /// Begins a trial. Deletes the data and logs of the previous one, unless `keeps` is true.
    Trial {
        /// Name of the trial's folder of logs.
        name: String,
        /// True if servers of earlier trials keep running.
        keeps: bool,
    },
    /// Removes a folder of the run with its contents.
    Discard {
        /// Path below the run's folder.
        path: PathBuf,
    },
    /// Launches a server. Answers with the server's number.
    Launch {
        /// Description of the server, with paths of the agent's machine.
        node: Box<LaunchOrder>,
    },
    /// Sends a request to a launched server.
    Node {
        /// Number from [`Request::Launch`].
        node: u32,
        /// Request to the server.
        ask: NodeRequest,
    },
    /// Sends the server's log as data, at most the last 64 MiB. Works after the server ended or was forgotten.
    Log {
        /// Number from [`Request::Launch`].
        node: u32,
    },
    /// Reserves a free port at an address of the machine.
    Port {
        /// Address of the machine.
        address: IpAddr,
        /// First port to try, if the user set one.
        base: Option<u16>,
    },
    /// Checks that a port at an address of the machine is free, without reserving it. Port 0 checks the address only.
    IsFree {
        /// Address of the machine.
        address: IpAddr,
        /// Port, or 0.
        port: u16,
    },
    /// Tries to mount a file system whose disk can break. Answers with the reason why it cannot, or `null`.
    LacksOwnDisks,
    /// Returns the free bytes on the file system of the run's folder.
    Space,
    /// Sends a request about the samples of a trial.
    Watch(WatchRequest),
    /// Returns those of these files that are missing or differ in size or SHA-256.
    Lacks {
        /// Files to check.
        files: Vec<FileStamp>,
    },
    /// Writes a file. Its bytes follow as data, compressed by gzip.
    Put {
        /// Path, size and SHA-256 of the file.
        file: FileStamp,
        /// Permission bits.
        mode: u32,
    },
    /// Creates a symbolic link.
    Link {
        /// Path of the link.
        path: PathBuf,
        /// Target of the link.
        to: PathBuf,
    },
    /// Finds a program by its path, or by its name on `PATH`.
    Find {
        /// `java`, `/usr/bin/java`.
        program: PathBuf,
    },
    /// Connects to an address and tunnels the connection through this request ([`DialLine`]).
    Dial {
        /// Address to connect to.
        address: SocketAddr,
        /// Connect timeout in milliseconds.
        within_ms: u64,
    },
    /// Echoes all bytes on connections to an address until the coordinator ends the request. Notes the listening
    /// address first.
    Echo {
        /// Address of the machine to listen on.
        address: IpAddr,
    },
    /// Measures round trips and bandwidth to an echo on another machine.
    Trips {
        /// Address that the echo listens on.
        address: SocketAddr,
    },
    /// Removes what bakeoff keeps in its cache, unless something runs from there. Answers with the freed bytes.
    ClearCache,
    /// Passes an order to the program around the host: see [`super::Duties`].
    Duty {
        /// Order, as JSON.
        order: Value,
    },
}

/// A request to a launched server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRequest {
    /// Sends a signal, by number, to the server's process group.
    Signal(i32),
    /// Stops all processes of the server. Answers with the number of threads that stand still.
    Pause,
    /// Continues all processes of the server. Answers with the number of their threads.
    Resume,
    /// Breaks the disk of the server. Answers with the proof.
    BreakDisk(DiskFault),
    /// Heals the disk of the server. Answers with the proof.
    HealDisk,
    /// Replaces one of the files of the server's description.
    ReplaceFile {
        /// Path in the server's directory.
        path: PathBuf,
        /// New contents.
        contents: Vec<u8>,
    },
    /// Kills the server and its descendants. Answers with its exit.
    Kill,
    /// Starts the server again.
    Restart,
    /// Makes later starts use the other version of the server's program. Answers with that version.
    Upgrade,
    /// Sends the server its stop signal.
    AskToEnd,
    /// Waits up to this many milliseconds for the server to exit, then kills what is left. Answers with how it stopped.
    Finish(u64),
    /// Removes the server from the agent, which kills it.
    Forget,
    /// Returns how the server ended; `null` while it runs.
    Ending,
    /// Returns how its limits were applied.
    Limits,
    /// Returns the effect of its limits.
    Held,
    /// Returns the addresses that it listens on.
    Listening,
    /// Returns daemons that it left behind.
    Strays,
    /// Begins counting the server's syncs.
    CountSyncs,
    /// Ends counting syncs. Answers with the count.
    SyncsCounted,
    /// Returns which of these unsafe settings its processes run with.
    UnsafeSettings(Vec<UnsafeSetting>),
    /// Returns this many lines from the end of its log, at most 1,000.
    LogTail(usize),
}

/// A request about the samples that an agent takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchRequest {
    /// Begins sampling the machine and the agent, at this interval in milliseconds. Answers with the start time.
    Begin(u64),
    /// Counts a process of bakeoff's that the agent did not start as one of its helpers.
    Helper(i32),
    /// Adds the servers with these numbers to the samples.
    Servers(Vec<u32>),
    /// Begins a phase of the trial, by its name in records.
    Phase(String),
    /// Sets when measuring begins, and when it ends if known.
    Moments {
        /// Start, in nanoseconds of the agent's clock.
        begin: u64,
        /// End, in nanoseconds of the agent's clock.
        end: Option<u64>,
    },
    /// Returns the samples so far.
    Samples,
    /// Ends sampling. Answers with all samples.
    End,
    /// Marks the current end of these servers' logs as the start of a load.
    MarkLogs(Vec<u32>),
    /// Marks the current end of the marked logs as the end of the load.
    EndMarks,
    /// Returns the log findings between both marks.
    Complaints,
}

/// Measured latency and bandwidth between two idle machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TripTimes {
    /// Median round trip of a 64-byte message, in microseconds.
    pub median_us: f64,
    /// Shortest round trip, in microseconds.
    pub shortest_us: f64,
    /// Bytes echoed per second. Each byte counts once, though it travels both ways.
    pub bytes_per_second: f64,
}

/// A file's path and expected content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Absolute path.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Notes about a tunnelled connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DialLine {
    /// From the agent: the connection is established.
    Connected,
    /// From the agent: the connection failed. Holds the kernel's error number; `None` after a timeout.
    Failed(Option<i32>),
    /// Either direction: this many bytes were written to the connection, so as many more may be sent.
    Taken(u64),
}

/// Notes about a generator's load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadLine {
    /// From the agent: all clients are connected.
    Connected,
    /// To the agent: begin at this time of the agent's clock.
    Begin(u64),
    /// To the agent: stop now, or do not begin.
    Stop,
    /// From the agent: live figures of one second.
    Live(Value),
}
