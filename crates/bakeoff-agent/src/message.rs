//! What is asked of an agent, and how it introduces itself.
//!
//! Requests, answers and notes are JSON. Times are nanoseconds of the agent's own monotonic clock, since it began.
//!
//! Not here: how they travel (`frame`), what an agent does (`workshop`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bakeoff_core::record::durability::UnsafeSetting;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::order::LaunchOrder;

/// The version of the protocol. It changes with every change of what is sent.
pub const PROTOCOL: u32 = 10;
/// After this silence of the coordinator, which asks every two seconds, an agent takes it to be gone.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(30);

/// The first note of an agent, of request 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the agent.
    pub protocol: u32,
    /// bakeoff's version.
    pub version: String,
    /// SHA-256 of its executable.
    pub sha256: String,
    /// The path of its executable.
    pub program: PathBuf,
    /// The name that the machine gives itself.
    pub host: String,
    /// Its kind: `Linux x86_64`.
    pub machine: String,
    /// The folder of programs that it can be sent.
    pub cache: PathBuf,
    /// Whether it is root.
    pub root: bool,
    /// CPUs that it may use.
    pub cpus: u32,
    /// Names the running kernel (`/proc/sys/kernel/random/boot_id`): machines that have the same are one.
    pub kernel: Option<String>,
}

/// Both clocks of a machine, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Nanoseconds since its agent began.
    pub nanos: u64,
    /// Its clock on the wall, in seconds since 1970.
    pub wall: f64,
}

/// A request to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Asks for the time: a [`ClockReading`].
    Now,
    /// Makes the run's folder, below `data` where that is given, and keeps to CPUs. Answers with the folder's path.
    Prepare {
        /// A name for it.
        run: String,
        /// The folder that it is made in.
        data: Option<PathBuf>,
        /// The CPUs that the agent and its servers keep to; empty: all that they may use.
        #[serde(default)]
        cpus: Vec<u32>,
    },
    /// Begins a trial: throws the data and the logs of the one before away, unless its servers are kept.
    Trial {
        /// Names its logs.
        name: String,
        /// Whether servers of trials before go on.
        keeps: bool,
    },
    /// Removes a folder of the run with all that is in it.
    Discard {
        /// The folder.
        path: PathBuf,
    },
    /// Launches a server. Answers with its number.
    Launch {
        /// Its description.
        node: Box<LaunchOrder>,
    },
    /// Asks something of a server that was launched.
    Node {
        /// Its number.
        node: u32,
        /// The request.
        ask: NodeRequest,
    },
    /// Asks for the whole log of a server, as data; the last 64 MiB of a longer one. It may have ended, and be forgotten.
    Log {
        /// The server's number.
        node: u32,
    },
    /// Asks for a free port at an address of the machine.
    Port {
        /// The address.
        address: IpAddr,
        /// Where to begin, if the user said so.
        base: Option<u16>,
    },
    /// Asks whether a port at an address of the machine is free, and leaves it so. Port 0: whether the address is
    /// its own.
    IsFree {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
    },
    /// Asks for the bytes that are free for the run's folder.
    Space,
    /// Asks something of the samples of a trial.
    Watch(WatchRequest),
    /// Asks which of these files are there, whole: paths, sizes and SHA-256.
    Lacks {
        /// The files.
        files: Vec<FileStamp>,
    },
    /// Takes a file, whose bytes follow as data.
    Put {
        /// Where, its size and its SHA-256.
        file: FileStamp,
        /// Its permissions.
        mode: u32,
    },
    /// Makes a symbolic link.
    Link {
        /// Where.
        path: PathBuf,
        /// The path that it leads to.
        to: PathBuf,
    },
    /// Asks for the path of a program by its name or path.
    Find {
        /// `java`, `/usr/bin/java`.
        program: PathBuf,
    },
    /// Connects to an address, and carries data between that connection and this request ([`DialLine`]).
    Dial {
        /// The address.
        address: SocketAddr,
        /// The longest that it may take to be accepted, in milliseconds.
        within_ms: u64,
    },
    /// Answers connections at an address with the bytes that they send, until the request is told to end. Notes the
    /// address first.
    Echo {
        /// The machine's address.
        address: IpAddr,
    },
    /// Measures round trips and bandwidth to an echo elsewhere.
    Trips {
        /// Where it listens.
        address: SocketAddr,
    },
    /// Gives an order to the program around the host: see [`super::Duties`].
    Duty {
        /// The order.
        order: Value,
    },
}

/// A request to a server that an agent launched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRequest {
    /// Sends its group a signal, by its number.
    Signal(i32),
    /// Kills it with all that descends from it. Answers with its end.
    Kill,
    /// Starts it again.
    Restart,
    /// Asks it to end.
    AskToEnd,
    /// Waits so many milliseconds for its end, then kills what is left. Answers with how it was stopped.
    Finish(u64),
    /// Forgets it, which kills it.
    Forget,
    /// Asks how it ended; `null` while it runs.
    Ending,
    /// Asks what became of its limits.
    Limits,
    /// Asks for the effect of its limits.
    Held,
    /// Asks where it listens.
    Listening,
    /// Asks for daemons that it left.
    Strays,
    /// Begins to count its syncs.
    CountSyncs,
    /// Ends counting its syncs. Answers with the count.
    SyncsCounted,
    /// Asks which of these settings its processes run with.
    UnsafeSettings(Vec<UnsafeSetting>),
    /// Asks for this number of lines from the end of its log.
    LogTail(usize),
}

/// A request about what an agent samples on its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchRequest {
    /// Begins to sample the machine and the agent, at this interval in milliseconds. Answers with the time.
    Begin(u64),
    /// Samples the servers of these numbers too.
    Servers(Vec<u32>),
    /// Begins a phase of the trial, by its name in records.
    Phase(String),
    /// Tells when measuring begins, and when it ends if that is known.
    Moments {
        /// When it begins.
        begin: u64,
        /// When it ends.
        end: Option<u64>,
    },
    /// Asks for the samples so far.
    Samples,
    /// Ends sampling. Answers with all samples.
    End,
    /// Marks the place in the logs of the servers of these numbers where a load begins.
    MarkLogs(Vec<u32>),
    /// Marks where it ends.
    EndMarks,
    /// Asks for the complaints in between.
    Complaints,
}

/// The network between two machines, with nothing else on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TripsTold {
    /// Median round trip of a message of 64 bytes, in microseconds.
    pub median_us: f64,
    /// The shortest.
    pub shortest_us: f64,
    /// Bytes there and back in a second, each counted once.
    pub bytes_per_second: f64,
}

/// A file and what it must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// Notes about a connection that is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DialLine {
    /// From the agent: it was accepted.
    Connected,
    /// From the agent: it was not; the kernel's number of the error, none where nothing came in time.
    Failed(Option<i32>),
    /// Either way: so many bytes of data were taken by the connection, and as many more may be sent.
    Taken(u64),
}

/// Notes about a load that a generator drives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadLine {
    /// From the agent: all its clients are connected.
    Connected,
    /// To the agent: begin at this time of its clock.
    Begin(u64),
    /// To the agent: there will be no beginning, or an end now.
    Stop,
    /// From the agent: a second is over.
    Live(Value),
}
