//! Tests the canary as a process over real sockets, honest and with each fault.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bakeoff_wire::canary::{self, Frame, FrameKind};

struct Canary {
    process: Child,
    address: SocketAddr,
    /// Lines printed before it listened.
    printed: Vec<String>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Canary {
    fn start(data: &Path, flags: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command.args(["__canary", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.args(flags.split_whitespace()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let mut canary = Self { process, address: ([0; 4], 0).into(), printed: Vec::new(), stderr };
        loop {
            let mut line = String::new();
            let read = canary.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "ended at once: {:?}", canary.printed);
            if let Some(address) = line.trim_end().strip_prefix("canary: listening on ") {
                canary.address = address.parse().unwrap();
                return canary;
            }
            canary.printed.push(line);
        }
    }

    fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { from: BufReader::new(socket) }
    }

    /// Sends one request on its own connection.
    fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.connect().ask(method, path, body)
    }

    fn stat(&self, pointer: &str) -> u64 {
        let Answer::Whole(200, json) = self.ask("GET", "/stats", "") else { panic!() };
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        json.pointer(pointer).and_then(serde_json::Value::as_u64).expect(pointer)
    }

    fn kill9(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn ends(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap(), rest)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Whole(u16, Vec<u8>),
    /// The body ended early.
    Short(Vec<u8>),
    /// The connection ended without an answer.
    Nothing,
    /// The answer is not HTTP.
    Garbage,
}

fn ok(body: &str) -> Answer {
    Answer::Whole(200, body.into())
}

const NO_CONTENT: Answer = Answer::Whole(204, Vec::new());
const NOT_FOUND: Answer = Answer::Whole(404, Vec::new());

/// Returns the answer about a missing key after the write at `place`. The first write has place 2.
fn missing(place: u64) -> Answer {
    Answer::Whole(404, place.to_string().into())
}

struct Client {
    from: BufReader<TcpStream>,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.from.get_mut().write_all(bytes).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.send(request(method, path, body).as_bytes());
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        let mut line = Vec::new();
        if self.from.read_until(b'\n', &mut line).is_err() || line.is_empty() {
            return Answer::Nothing;
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let Some(status) = line.strip_prefix("HTTP/1.1 ").and_then(|l| l[..3].parse().ok()) else {
            return Answer::Garbage;
        };
        let mut length = 0;
        loop {
            let mut header = String::new();
            self.from.read_line(&mut header).unwrap();
            match header.trim_end().split_once(": ") {
                Some(("Content-Length", n)) => length = n.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = Vec::new();
        let _ = self.from.by_ref().take(length).read_to_end(&mut body);
        if (body.len() as u64) < length { Answer::Short(body) } else { Answer::Whole(status, body) }
    }

    /// Makes the connection one of watchers.
    fn upgrades(&mut self) {
        let head = "GET /watch HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\
                    Upgrade: bakeoff-watch\r\n\r\n";
        self.send(head.as_bytes());
        assert_eq!(self.answer(), Answer::Whole(101, Vec::new()));
    }

    /// Creates a watcher of all keys, for changes after a place.
    fn watches(&mut self, watcher: u32, after: u64) {
        let kind = FrameKind::WatchPrefix;
        self.send_frame(&Frame { kind, watcher, place: after, name: b"", value: b"" });
    }

    fn send_frame(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.send(&bytes);
    }

    /// Returns the next frame: its kind, watcher, place, name and value.
    fn frame(&mut self) -> String {
        let mut bytes = Vec::new();
        loop {
            if let Some((frame, _)) = canary::read(&bytes).unwrap() {
                let Frame { kind, watcher, place, name, value } = frame;
                let (name, value) = (name.escape_ascii(), value.escape_ascii());
                return format!("{kind:?} {watcher} {place} {name} {value}").trim().to_owned();
            }
            let mut byte = [0; 1];
            self.from.read_exact(&mut byte).unwrap();
            bytes.push(byte[0]);
        }
    }

    fn ended(&mut self) -> bool {
        self.from.read(&mut [0; 1]).is_ok_and(|n| n == 0)
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn honest_canary_keeps_all_writes() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    let mut client = canary.connect();
    assert_eq!(client.ask("GET", "/health", ""), ok(""));
    assert_eq!(client.ask("GET", "/kv/a/1", ""), missing(1));
    assert_eq!(client.ask("PUT", "/kv/a/1", "one"), NO_CONTENT);
    assert_eq!(client.ask("PUT", "/kv/a/2", ""), NO_CONTENT);
    assert_eq!(client.ask("PUT", "/kv/b%2F1", "else"), NO_CONTENT);
    assert_eq!(client.ask("GET", "/kv/a/1", ""), ok("one"));
    assert_eq!(client.ask("GET", "/kv/a/2", ""), ok(""));
    assert_eq!(client.ask("GET", "/kv/b/1", ""), ok("else"));
    assert_eq!(client.ask("GET", "/list/a/", ""), ok("a/1\na/2\n"));
    assert_eq!(client.ask("DELETE", "/kv/a/1", ""), ok("5"));
    assert_eq!(client.ask("DELETE", "/kv/a/1", ""), ok("6"));
    assert_eq!(client.ask("GET", "/kv/a/1", ""), missing(6));
    assert_eq!(client.ask("GET", "/list/", ""), ok("a/2\nb/1\n"));
    assert_eq!(canary.stat("/keys"), 2);
    assert_eq!(canary.stat("/puts"), 3);
}

#[test]
fn acknowledged_writes_survive_kill_9_with_either_durability() {
    for flags in ["--sync each", "--sync none"] {
        let dir = temp();
        let canary = Canary::start(dir.path(), flags);
        let mut client = canary.connect();
        for n in 0..200 {
            assert_eq!(client.ask("PUT", &format!("/kv/{n}"), &format!("v{n}")), NO_CONTENT);
        }
        assert_eq!(client.ask("DELETE", "/kv/7", ""), ok("202"));
        canary.kill9();
        let canary = Canary::start(dir.path(), flags);
        assert_eq!(canary.printed, ["canary: 201 records replayed, 199 keys\n"]);
        let mut client = canary.connect();
        for n in (0..200).filter(|&n| n != 7) {
            assert_eq!(client.ask("GET", &format!("/kv/{n}"), ""), ok(&format!("v{n}")));
        }
        assert_eq!(client.ask("GET", "/kv/7", ""), missing(202));
    }
}

#[test]
fn incomplete_log_end_is_removed_and_reported() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    canary.ask("PUT", "/kv/whole", "1");
    canary.ask("PUT", "/kv/torn", "2");
    canary.kill9();
    let log = dir.path().join("canary.log");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 1]).unwrap();
    let canary = Canary::start(dir.path(), "");
    assert_eq!(
        canary.printed[1],
        "canary: the log ended in an incomplete record: 17 bytes removed\n"
    );
    assert_eq!(canary.ask("GET", "/kv/whole", ""), ok("1"));
    assert_eq!(canary.ask("GET", "/kv/torn", ""), missing(2));
    canary.ask("PUT", "/kv/new", "3");
    canary.kill9();
    let canary = Canary::start(dir.path(), "");
    assert_eq!(canary.ask("GET", "/kv/new", ""), ok("3"));
}

#[test]
fn sigterm_ends_the_canary_cleanly() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    let _idle = canary.connect();
    let pid = rustix::process::Pid::from_child(&canary.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (status, printed) = canary.ends();
    assert_eq!((status.code(), &*printed), (Some(0), "canary: stopped\n"));
}

#[test]
fn many_requests_in_one_packet_are_answered_in_order() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--sync each");
    let mut client = canary.connect();
    let mut bytes = String::new();
    for n in 0..100 {
        bytes += &request("PUT", &format!("/kv/{n}"), &n.to_string());
        bytes += &request("GET", &format!("/kv/{n}"), "");
    }
    client.send(bytes.as_bytes());
    for n in 0..100 {
        assert_eq!(client.answer(), NO_CONTENT);
        assert_eq!(client.answer(), ok(&n.to_string()));
    }
    assert!(canary.stat("/commits") < 50, "they share syncs");
}

#[test]
fn request_may_arrive_in_single_bytes() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    let mut client = canary.connect();
    for byte in request("PUT", "/kv/a", "value").bytes() {
        client.send(&[byte]);
    }
    assert_eq!(client.answer(), NO_CONTENT);
    assert_eq!(client.ask("GET", "/kv/a", ""), ok("value"));
}

#[test]
fn unread_answers_all_arrive_later() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    let mut client = canary.connect();
    let value = "x".repeat(1 << 20);
    assert_eq!(client.ask("PUT", "/kv/big", &value), NO_CONTENT);
    for _ in 0..20 {
        client.send(request("GET", "/kv/big", "").as_bytes());
    }
    std::thread::sleep(Duration::from_millis(100));
    // Other clients are served meanwhile.
    assert_eq!(canary.ask("GET", "/health", ""), ok(""));
    for _ in 0..20 {
        assert_eq!(client.answer(), ok(&value));
    }
    assert_eq!(client.ask("GET", "/health", ""), ok(""));
}

#[test]
fn half_closed_client_gets_its_answers() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--delay 20ms");
    let mut client = canary.connect();
    let twice = request("PUT", "/kv/a", "1") + &request("GET", "/kv/a", "");
    client.send(twice.as_bytes());
    client.from.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.answer(), NO_CONTENT);
    assert_eq!(client.answer(), ok("1"));
    assert!(client.ended());
}

#[test]
fn sends_100_continue_to_clients_that_expect_it() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    let mut client = canary.connect();
    client.send(b"PUT /kv/a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.answer(), Answer::Whole(100, Vec::new()));
    client.send(b"ok");
    assert_eq!(client.answer(), NO_CONTENT);
}

#[test]
fn canary_survives_bad_requests() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    let big = format!("GET /kv/a HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(20_000));
    let cases = [
        ("nonsense\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00", 400),
        ("PUT /kv/a HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        ("PUT /kv/a HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", 413),
        ("PUT /kv/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (&big, 431),
    ];
    for (bytes, status) in cases {
        let mut client = canary.connect();
        client.send(bytes.as_bytes());
        assert_eq!(client.answer(), Answer::Whole(status, Vec::new()), "{bytes:.40}");
        assert!(client.ended(), "{bytes:.40}");
    }
    let statuses = [
        ("GET", "/kv/", 400),
        ("GET", "/kv/%zz", 400),
        ("GET", "/else", 404),
        ("POST", "/kv/a", 405),
        ("PUT", "/list/a", 405),
        ("DELETE", "/health", 405),
    ];
    let mut client = canary.connect();
    for (method, path, status) in statuses {
        assert_eq!(client.ask(method, path, ""), Answer::Whole(status, Vec::new()), "{path}");
    }
    assert_eq!(client.ask("GET", "/health", ""), ok(""));
}

#[test]
fn canary_survives_arbitrary_bytes() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--sync none");
    let good = request("PUT", "/kv/some%20key", "value") + &request("GET", "/list/s", "");
    // A simple generator is enough: it makes many almost valid requests.
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..500 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.drain(at..(at + random(20)).min(bytes.len()))),
                _ => bytes.truncate(at + 1),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        let mut client = canary.connect();
        client.send(&bytes);
        client.from.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = Vec::new();
        let _ = client.from.read_to_end(&mut answers);
        let http = answers.is_empty() || answers.starts_with(b"HTTP/1.1 ");
        assert!(http, "{:?} gave {answers:?}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(canary.ask("GET", "/health", ""), ok(""));
}

#[test]
fn serves_a_thousand_connections() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--sync none");
    let mut clients = (0..1000).map(|_| canary.connect()).collect::<Vec<_>>();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(request("PUT", &format!("/kv/{n}"), "v").as_bytes());
    }
    assert!(clients.iter_mut().all(|client| client.answer() == NO_CONTENT));
    drop(clients);
    assert_eq!(canary.stat("/keys"), 1000);
}

#[test]
fn watchers_of_every_node_receive_changes_in_order() {
    let dir = temp();
    let canary = Canary::start(&dir.path().join("first"), "");
    let first = format!("--first {}", canary.address);
    let further = Canary::start(&dir.path().join("further"), &first);
    canary.ask("PUT", "/kv/before", "1");
    let mut watchers = [canary.connect(), further.connect()];
    for client in &mut watchers {
        client.upgrades();
        client.watches(7, 0);
        assert_eq!(client.frame(), "Created 7 2");
    }
    further.ask("PUT", "/kv/a", "one");
    canary.ask("DELETE", "/kv/a", "");
    for client in &mut watchers {
        assert_eq!(client.frame(), "Put 7 3 a one");
        assert_eq!(client.frame(), "Delete 7 4 a");
        client.send_frame(&Frame::bare(FrameKind::AskProgress, 0, 0));
        assert_eq!(client.frame(), "Progress 7 4");
        client.send_frame(&Frame::bare(FrameKind::Ping, 0, 0));
        assert_eq!(client.frame(), "Pong 0 0");
    }
    canary.kill9();
    assert!(watchers.iter_mut().all(Client::ended), "the node without a store ends, too");
}

#[test]
fn watcher_resumes_after_kill_9() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    for value in ["1", "2", "3"] {
        canary.ask("PUT", "/kv/a", value);
    }
    canary.kill9();
    let canary = Canary::start(dir.path(), "");
    let mut client = canary.connect();
    client.upgrades();
    client.watches(0, 2);
    canary.ask("PUT", "/kv/a", "4");
    let expected = ["Created 0 2", "Put 0 3 a 2", "Put 0 4 a 3", "Put 0 5 a 4"];
    assert_eq!([(); 4].map(|()| client.frame()), expected);
}

#[test]
fn lost_history_of_watchers_is_reported() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--history 1KiB");
    for _ in 0..20 {
        canary.ask("PUT", "/kv/a", &"x".repeat(200));
    }
    let mut client = canary.connect();
    client.upgrades();
    client.watches(0, 2);
    // Three changes of about 300 bytes have room, and the last write has place 21.
    assert_eq!(client.frame(), "Gone 0 19");
}

#[test]
fn watchers_are_refused_without_the_protocol() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "");
    assert_eq!(canary.ask("GET", "/watch", ""), Answer::Whole(426, Vec::new()));
    assert_eq!(canary.ask("PUT", "/watch", ""), Answer::Whole(405, Vec::new()));
    for bytes in [&b"nonsense"[..], &[b'w'; 64]] {
        let mut client = canary.connect();
        client.upgrades();
        client.send(bytes);
        assert!(client.ended(), "{bytes:?}");
    }
    assert_eq!(canary.ask("GET", "/health", ""), ok(""));
}

#[test]
fn watchers_are_dropped_and_refused_for_a_while() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--drop-watchers 1s");
    let mut client = canary.connect();
    client.upgrades();
    client.watches(0, 0);
    assert_eq!(client.frame(), "Created 0 1");
    assert!(client.ended());
    assert_eq!(canary.stat("/faults/watchers_dropped"), 1);
    assert_eq!(canary.ask("GET", "/kv/a", ""), missing(1), "other clients go on");
}

#[test]
fn refuses_to_listen_on_all_addresses() {
    let dir = temp();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(["__canary", "--listen", "0.0.0.0:0", "--data"]).arg(dir.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("`0.0.0.0` is every address of this machine"), "{printed}");
}

#[test]
fn lost_write_is_acknowledged_but_absent() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--lose 100%");
    assert_eq!(canary.ask("PUT", "/kv/a", "1"), NO_CONTENT);
    assert_eq!(canary.ask("GET", "/kv/a", ""), missing(1));
    assert_eq!(canary.stat("/faults/lost"), 1);
}

#[test]
fn loses_the_configured_share_of_writes() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--lose 10% --sync none --seed 3");
    let mut client = canary.connect();
    for n in 0..1000 {
        assert_eq!(client.ask("PUT", &format!("/kv/{n}"), "1"), NO_CONTENT);
    }
    let kept = (0..1000).filter(|n| client.ask("GET", &format!("/kv/{n}"), "") == ok("1"));
    let lost = 1000 - kept.count() as u64;
    assert!((60..140).contains(&lost), "{lost}");
    assert_eq!(canary.stat("/faults/lost"), lost);
}

#[test]
fn write_lost_on_restart_is_visible_before() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--lose-on-restart 1.0");
    assert_eq!(canary.ask("PUT", "/kv/a", "1"), NO_CONTENT);
    assert_eq!(canary.ask("GET", "/kv/a", ""), ok("1"));
    canary.kill9();
    let canary = Canary::start(dir.path(), "");
    assert_eq!(canary.ask("GET", "/kv/a", ""), missing(1));
}

#[test]
fn corrupted_answer_differs_in_one_byte() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--corrupt 100%");
    canary.ask("PUT", "/kv/a", "the value");
    let Answer::Whole(200, body) = canary.ask("GET", "/kv/a", "") else { panic!() };
    assert_eq!(body.len(), 9);
    assert_eq!(body.iter().zip(b"the value").filter(|(a, b)| a != b).count(), 1);
    canary.kill9();
    let canary = Canary::start(dir.path(), "");
    assert_eq!(canary.ask("GET", "/kv/a", ""), ok("the value"));
}

#[test]
fn truncated_answer_ends_early() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--truncate 100%");
    canary.ask("PUT", "/kv/a", "the value");
    assert_eq!(canary.ask("GET", "/kv/a", ""), Answer::Short(b"the ".into()));
}

#[test]
fn stale_answer_is_the_previous_value() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--stale 100%");
    canary.ask("PUT", "/kv/a", "old");
    assert_eq!(canary.ask("GET", "/kv/a", ""), ok("old"));
    canary.ask("PUT", "/kv/a", "new");
    assert_eq!(canary.ask("GET", "/kv/a", ""), ok("old"));
    assert_eq!(canary.stat("/faults/stale"), 1);
}

#[test]
fn delayed_answer_does_not_delay_other_clients() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--delay 100ms");
    let mut delayed = canary.connect();
    let began = Instant::now();
    delayed.send((request("PUT", "/kv/a", "1") + &request("GET", "/kv/a", "")).as_bytes());
    assert_eq!(canary.ask("GET", "/health", ""), ok(""));
    assert!(began.elapsed() < Duration::from_millis(100));
    assert_eq!((delayed.answer(), delayed.answer()), (NO_CONTENT, ok("1")));
    assert!(began.elapsed() >= Duration::from_millis(200));
    delayed.send(b"GET /kv/a HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(delayed.answer(), ok("1"));
    assert!(delayed.ended());
}

#[test]
fn stall_stops_everything_once() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--stall 500ms --stall-after 200ms");
    let mut client = canary.connect();
    let mut slow = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1200) {
        let asked = Instant::now();
        assert_eq!(client.ask("GET", "/health", ""), ok(""));
        slow.extend(Some(asked.elapsed()).filter(|took| *took > Duration::from_millis(300)));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(slow.len(), 1, "{slow:?}");
    assert_eq!(canary.stat("/faults/stalls"), 1);
}

#[test]
fn reported_truth_is_the_latency_without_the_network() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--truth uniform:2ms,12ms --truth-order cycle");
    let mut client = canary.connect();
    let mut seen = Vec::new();
    for path in ["/truth", "/truth/a/b?c"].repeat(20) {
        let asked = Instant::now();
        assert_eq!(client.ask("GET", path, ""), ok("truth\n"));
        seen.push(asked.elapsed().as_nanos() as u64);
    }
    seen.sort_unstable();
    assert_eq!(canary.stat("/truth/count"), 40);
    // At least the configured delay, and at most the client's latency, up to a histogram's three digits.
    for (rank, pointer) in [(20, "/truth/p50_ns"), (36, "/truth/p90_ns"), (40, "/truth/max_ns")] {
        let (reported, seen) = (canary.stat(pointer), seen[rank - 1]);
        let intended = 2_000_000 + 10_000_000 / 40 * (rank as u64 - 2);
        assert!(
            (intended..=seen + seen / 1000).contains(&reported),
            "{pointer}: {reported}, {seen}"
        );
    }
    assert_eq!(client.ask("PUT", "/truth", "1"), Answer::Whole(405, Vec::new()));
    assert_eq!(client.ask("GET", "/truths", ""), NOT_FOUND);
    let canary = Canary::start(temp().path(), "");
    assert_eq!(canary.ask("GET", "/truth", ""), NOT_FOUND, "not asked for");
}

#[test]
fn stall_shows_in_the_reported_truth() {
    let dir = temp();
    let flags = "--truth constant:300ms --stall 500ms --stall-after 200ms";
    let canary = Canary::start(dir.path(), flags);
    // Read before the stall and due during it.
    let asked = Instant::now();
    assert_eq!(canary.ask("GET", "/truth", ""), ok("truth\n"));
    assert_eq!(canary.stat("/faults/stalls"), 1);
    let (stalled, took) = (canary.stat("/faults/stalled_ns"), asked.elapsed().as_nanos() as u64);
    assert!(stalled >= 500_000_000, "{stalled}");
    assert!(took >= 500_000_000, "{took}");
    let given = canary.stat("/truth/max_ns");
    assert!(given > 301_000_000 && given <= took + took / 1000, "{given}, {took}");
}

#[test]
fn refused_request_closes_the_connection() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--refuse 100%");
    assert_eq!(canary.ask("PUT", "/kv/a", "1"), Answer::Nothing);
    assert_eq!(canary.ask("GET", "/health", ""), ok(""));
    assert_eq!(canary.stat("/faults/refused"), 1);
    assert_eq!(canary.stat("/keys"), 0);
}

#[test]
fn injected_error_executes_nothing() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--error 100%");
    let mut client = canary.connect();
    for _ in 0..3 {
        assert_eq!(client.ask("PUT", "/kv/a", "1"), Answer::Whole(500, Vec::new()));
    }
    assert_eq!((canary.stat("/faults/errors"), canary.stat("/keys")), (3, 0));
}

#[test]
fn garbage_is_not_http() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--garbage 100%");
    assert_eq!(canary.ask("GET", "/kv/a", ""), Answer::Garbage);
}

#[test]
fn slow_start_is_not_ready_at_first() {
    let dir = temp();
    let began = Instant::now();
    let canary = Canary::start(dir.path(), "--slow-start 300ms");
    assert_eq!(canary.ask("GET", "/health", ""), Answer::Whole(503, Vec::new()));
    assert_eq!(canary.ask("PUT", "/kv/a", "1"), Answer::Whole(503, Vec::new()));
    while canary.ask("GET", "/health", "") != ok("") {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(canary.ask("PUT", "/kv/a", "1"), NO_CONTENT);
}

#[test]
fn die_after_has_its_own_exit_code() {
    let dir = temp();
    let canary = Canary::start(dir.path(), "--die-after 300ms");
    assert_eq!(canary.ask("PUT", "/kv/a", "1"), NO_CONTENT);
    let (status, printed) = canary.ends();
    assert_eq!((status.code(), &*printed), (Some(86), "canary: dying after `--die-after`\n"));
    let canary = Canary::start(dir.path(), "");
    assert_eq!(canary.ask("GET", "/kv/a", ""), ok("1"));
}

#[test]
fn same_seed_fails_the_same_requests() {
    let answers = |seed: u32| {
        let dir = temp();
        let canary = Canary::start(dir.path(), &format!("--error 50% --seed {seed}"));
        let mut client = canary.connect();
        (0..64).map(|_| client.ask("GET", "/kv/a", "")).collect::<Vec<_>>()
    };
    assert_eq!(answers(1), answers(1));
    assert_ne!(answers(1), answers(2));
}
