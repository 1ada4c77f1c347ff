//! Tests the agent behind a child's pipe: the processes it starts, reports and ends.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_agent::{
    Agent, AgentError, AgentExecutable, Carrier, ClockReading, FileStamp, IncomingFrame,
    LaunchOrder, Request,
};
use bakeoff_host::{Exit, NodeSpec, Process};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::support::{close_for_all, listener_apart};

const CHILD: Carrier = Carrier::Child { enter: Vec::new() };

fn sent() -> AgentExecutable {
    AgentExecutable::read(Path::new(env!("CARGO_BIN_EXE_bakeoff"))).unwrap()
}

fn agent() -> Arc<Agent> {
    Arc::new(Agent::begin("here", &CHILD, &[sent()]).unwrap())
}

/// Compresses bytes as the coordinator does.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

/// Returns an agent that prepared a run's folder in `data`.
fn prepared(data: &Path) -> (Arc<Agent>, PathBuf) {
    let agent = agent();
    let folder: PathBuf = agent.ask(&prepare(data, Vec::new())).unwrap();
    assert_eq!(folder, data.join("bakeoff-test"));
    (agent, folder)
}

fn prepare(data: &Path, cpus: Vec<u32>) -> Request {
    Request::Prepare { run: "test".into(), data: Some(data.to_owned()), cpus }
}

fn launch(agent: &Arc<Agent>, folder: &Path, name: &str, script: &str) -> Process {
    let dir = folder.join("nodes").join(name);
    let spec = NodeSpec {
        args: vec!["-c".into(), script.into()],
        ..NodeSpec::new(name.to_owned(), "sh", dir)
    };
    let order = LaunchOrder::new(&spec).unwrap();
    agent.launch(spec, order).unwrap()
}

fn wait_for(what: &str, mut until: impl FnMut() -> bool) {
    for _ in 0..500 {
        if until() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never came: {what}");
}

fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Returns the id that a server logged.
fn pid(process: &Process) -> String {
    let mut pid = String::new();
    wait_for("a process id in the log", || {
        pid = process.log_tail(1).lines.first().cloned().unwrap_or_default();
        !pid.is_empty()
    });
    pid
}

#[test]
fn agent_starts_signals_restarts_and_kills_servers() {
    let data = tempfile::tempdir().unwrap();
    let (agent, folder) = prepared(data.path());
    let process = launch(&agent, &folder, "a-1", "echo $$; exec sleep 600");
    let first = pid(&process);
    assert!(runs(&first) && process.is_alive());
    assert_eq!(process.kill9(), Exit::Signal(9));
    assert!(!runs(&first) && process.exit() == Some(Exit::Signal(9)));
    process.restart().unwrap();
    assert!(process.is_alive());
    let stopped = process.terminate(Duration::from_secs(5));
    assert_eq!((stopped.exit, stopped.forced), (Exit::Signal(15), false));
    // A server that ends by itself is reported with its code and the end of its log.
    let ends = launch(&agent, &folder, "b-1", "echo no port; exit 3");
    wait_for("its end", || ends.exit() == Some(Exit::Code(3)));
    assert_eq!(ends.log_tail(5).lines, ["no port"]);
    let spec = NodeSpec::new("c-1".into(), "no-such-program", folder.join("nodes/c-1"));
    let order = LaunchOrder::new(&spec).unwrap();
    let refused = agent.launch(spec, order).err().unwrap().to_string();
    assert!(refused.starts_with("on `here`: cannot run `c-1`: program"), "{refused}");
}

#[test]
fn rejects_folders_outside_of_the_run() {
    let data = tempfile::tempdir().unwrap();
    let (agent, folder) = prepared(data.path());
    let precious = data.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    let message_of = |error: AgentError| error.to_string();
    let refused = |message: Option<String>, of: &str| {
        let message = message.unwrap_or_else(|| panic!("{of} was not refused"));
        assert!(message.contains("is outside the run"), "{of}: {message}");
    };
    for path in [precious.clone(), folder.join("../precious"), folder.clone()] {
        let spec = NodeSpec::new("d-1".into(), "true", path.clone());
        let order = LaunchOrder::new(&spec).unwrap();
        refused(agent.launch(spec, order).err().map(|error| error.to_string()), "a server");
        let discard = Request::Discard { path };
        refused(agent.ask::<Value>(&discard).err().map(message_of), "a removal");
    }
    for name in ["../precious", "", "/tmp"] {
        let trial = Request::Trial { name: name.into(), keeps: false };
        refused(agent.ask::<Value>(&trial).err().map(message_of), "a trial");
    }
    assert!(precious.is_dir() && folder.is_dir());
}

#[test]
fn agent_and_servers_stay_on_their_cpus() {
    let allowed = |line: &str| line.split_whitespace().last().unwrap().to_owned();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).map(allowed);
    let last: u32 = own.unwrap().split(['-', ',']).next_back().unwrap().parse().unwrap();
    let data = tempfile::tempdir().unwrap();
    let agent = agent();
    let refused = agent.ask::<PathBuf>(&prepare(data.path(), vec![1023])).unwrap_err();
    assert!(refused.to_string().contains("bakeoff cannot use CPU 1023 there"), "{refused}");
    let folder: PathBuf = agent.ask(&prepare(data.path(), vec![last])).unwrap();
    // Includes the agent's children and its threads, old and new.
    let script =
        "grep -hs Cpus_allowed_list /proc/self/status /proc/$PPID/task/*/status; exec sleep 600";
    let process = launch(&agent, &folder, "a-1", script);
    let mut lines = Vec::new();
    wait_for("the CPUs of all threads", || {
        lines = process.log_tail(100).lines;
        lines.len() > 3
    });
    let kept = |line: &String| allowed(line) == last.to_string();
    assert!(lines.iter().all(kept), "{lines:?}");
}

#[test]
fn everything_ends_with_the_pipe() {
    let data = tempfile::tempdir().unwrap();
    for how in ["dropped", "killed"] {
        let (agent, folder) = prepared(data.path());
        // A grandchild in its own session belongs to the agent like the server.
        let script = "echo $$; setsid sleep 7042 & exec sleep 7041";
        let process = launch(&agent, &folder, "a-1", script);
        let server = pid(&process);
        if how == "killed" {
            let parent = std::fs::read_to_string(format!("/proc/{server}/stat")).unwrap();
            let agent_pid = parent.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
            Command::new("kill").args(["-9", agent_pid]).status().unwrap();
            wait_for("the loss", || agent.lost().is_some());
            assert_eq!(process.exit(), Some(Exit::OutOfReach));
            let lost = agent.ask::<ClockReading>(&Request::Now).unwrap_err();
            assert!(
                lost.is_loss() && lost.to_string().starts_with("lost the connection to `here`: "),
                "{lost}"
            );
        }
        drop(process);
        drop(agent);
        wait_for("the server's end", || !runs(&server));
        wait_for("the folder's end", || !folder.exists());
    }
    wait_for("the grandchildren's end", || {
        let left = Command::new("pgrep").args(["-f", "^sleep 704[12]$"]).output().unwrap();
        left.stdout.is_empty()
    });
}

#[test]
fn clock_offset_is_known_within_half_a_round_trip() {
    let agent = agent();
    let offset = agent.offset().unwrap();
    let before = std::time::Instant::now();
    let theirs: ClockReading = agent.ask(&Request::Now).unwrap();
    let after = std::time::Instant::now();
    let ours = offset.ours(theirs.nanos);
    assert!(ours + offset.error >= before && ours <= after + offset.error, "{:?}", offset.error);
    assert!(offset.error < Duration::from_millis(50), "{:?}", offset.error);
    let bound = offset.error.as_secs_f64() + 1e-3;
    assert!(offset.wall_ahead.abs() < bound, "one machine has one clock: {}", offset.wall_ahead);
}

#[test]
fn files_arrive_whole_or_not_at_all() {
    let data = tempfile::tempdir().unwrap();
    let agent = agent();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let original = data.path().join("original");
    std::fs::write(&original, &bytes).unwrap();
    let file = FileStamp {
        path: data.path().join("a/b/copy"),
        size: bytes.len() as u64,
        sha256: bakeoff_install::sha256_of(&original).unwrap(),
    };
    let lacks = Request::Lacks { files: vec![file.clone()] };
    assert_eq!(agent.ask::<Vec<FileStamp>>(&lacks).unwrap(), std::slice::from_ref(&file));
    let put = |bytes: &[u8]| -> Result<(), AgentError> {
        let exchange = agent.open(&Request::Put { file: file.clone(), mode: 0o755 })?;
        exchange.data(&packed(bytes))?;
        exchange.end()?;
        exchange.answer()
    };
    let cut = |packed: &[u8]| -> Result<(), AgentError> {
        let exchange = agent.open(&Request::Put { file: file.clone(), mode: 0o755 })?;
        exchange.data(&packed[..packed.len() / 2])?;
        exchange.end()?;
        exchange.answer()
    };
    cut(&packed(&bytes)).unwrap_err();
    let damaged = put(&bytes[1..]).unwrap_err().to_string();
    assert!(damaged.contains("does not match its SHA-256"), "{damaged}");
    assert_eq!(std::fs::read_dir(file.path.parent().unwrap()).unwrap().count(), 0);
    put(&bytes).unwrap();
    assert_eq!(std::fs::read(&file.path).unwrap(), bytes);
    assert_eq!(agent.ask::<Vec<FileStamp>>(&lacks).unwrap(), []);
}

#[test]
fn tunnel_carries_both_directions() {
    let agent = agent();
    let listener = listener_apart();
    let address = listener.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        close_for_all(listener);
        let mut copy = stream.try_clone().unwrap();
        std::io::copy(&mut stream, &mut copy).unwrap();
    });
    let dial = Request::Dial { address, within_ms: 5000 };
    let exchange = agent.open(&dial).unwrap();
    exchange.data(b"there and back").unwrap();
    let mut back = Vec::new();
    while back.len() < 14 {
        if let IncomingFrame::Data(bytes) = exchange.next().unwrap() {
            back.extend(bytes);
        }
    }
    assert_eq!(back, b"there and back");
    exchange.end().unwrap();
    exchange.answer::<()>().unwrap();
    echo.join().unwrap();
    let exchange = agent.open(&dial).unwrap();
    let IncomingFrame::Note(nobody) = exchange.next().unwrap() else { panic!("no note came") };
    assert_eq!(nobody, br#"{"failed":111}"#);
}

#[test]
fn tunnel_connection_reaches_the_server() {
    let agent = agent();
    let dialer = agent.dialer();
    let listener = listener_apart();
    let address = listener.local_addr().unwrap();
    let within = Duration::from_secs(5);
    // A large answer is read slowly: all of it arrives, then the end.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = sent.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 5];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(&sent).unwrap();
        (listener, asked)
    });
    let mut ours = dialer.connect(address, within).unwrap();
    ours.write_all(b"more!").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let mut seen = Vec::new();
    ours.read_to_end(&mut seen).unwrap();
    assert!(seen == expected, "{} bytes came", seen.len());
    let (listener, asked) = server.join().unwrap();
    assert_eq!(&asked, b"more!");

    // The server sees a close by either side.
    let ours = dialer.connect(address, within).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    drop(ours);
    assert_eq!(accepted.read(&mut [0; 8]).unwrap(), 0);

    // The agent's end closes its connections, and later connects fail.
    let mut ours = dialer.connect(address, within).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    drop(agent);
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 0);
    assert!(matches!(accepted.read(&mut [0; 8]), Ok(0) | Err(_)));
    let lost = dialer.connect(address, within).unwrap_err();
    assert!(lost.to_string().contains("the run has ended"), "{lost}");

    // Errors are those of the connection attempt there.
    let agent = self::agent();
    close_for_all(listener);
    let refused = agent.dialer().connect(address, within).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn killed_agent_ends_its_tunnels() {
    let data = tempfile::tempdir().unwrap();
    let (agent, folder) = prepared(data.path());
    let process = launch(&agent, &folder, "a-1", "echo $$; exec sleep 600");
    let server = pid(&process);
    let parent = std::fs::read_to_string(format!("/proc/{server}/stat")).unwrap();
    let agent_pid = parent.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut ours = agent.dialer().connect(address, Duration::from_secs(5)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    Command::new("kill").args(["-9", agent_pid]).status().unwrap();
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 0);
    assert!(matches!(accepted.read(&mut [0; 8]), Ok(0) | Err(_)));
    let lost = agent.dialer().connect(address, Duration::from_secs(5)).unwrap_err();
    assert!(lost.to_string().starts_with("lost the connection to `here`: "), "{lost}");
}

#[test]
fn shows_the_output_of_a_program_that_is_not_an_agent() {
    let begin = |program: &str| {
        let mut sent = sent();
        sent.path = program.into();
        Agent::begin("there", &CHILD, &[sent]).err().unwrap().to_string()
    };
    let heard = begin("/bin/echo");
    assert!(
        heard.starts_with("cannot start the agent on `there`: the connection ended"),
        "{heard}"
    );
    assert!(heard.contains("| agent"), "{heard}");
    assert!(begin("/no/such/program").starts_with("cannot start `bakeoff`: "));
}

#[test]
fn invalid_requests_end_the_agent() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(complaint.contains("unknown kind 0x47"), "{complaint}");
    assert_eq!(ended.status.code(), Some(5), "{complaint}");
}
