//! Tests sessions with a scripted server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::study::parse;
use bakeoff_engine::Drive;
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::keyed::{KeyedState, Reading, Source, StalenessTracking};

use super::*;
use crate::replay;
use crate::{KvLoad, Memory, kinds};

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// Returns the reply to a request: its number, the transaction, its error, and the rest.
fn reply(number: i32, error: i32, rest: &[u8]) -> Vec<u8> {
    frame(&[&number.to_be_bytes(), &[0; 8], &error.to_be_bytes(), rest])
}

/// Returns the reply to a request whose transaction is 9.
fn reply_at_9(number: i32, error: i32, rest: &[u8]) -> Vec<u8> {
    frame(&[&number.to_be_bytes(), &9_u64.to_be_bytes(), &error.to_be_bytes(), rest])
}

/// Returns the reply to a connecting client: a new session with a timeout of 4 s.
fn granted() -> Vec<u8> {
    let password = [&16_i32.to_be_bytes()[..], &[7; 16]].concat();
    frame(&[&[0; 4], &4000_i32.to_be_bytes(), &[1; 8], &password, &[0]])
}

fn node(address: SocketAddr) -> Access {
    Access {
        name: "zookeeper-1".into(),
        authority: address.to_string(),
        target: Target { address, tls: None },
        memory: Memory::default(),
    }
}

fn connected() -> ZooKeeperSession {
    let mut session = ZooKeeperSession::new(&node(([127, 0, 0, 1], 1).into()));
    session.open(&mut Vec::new());
    assert_eq!(heard(&mut session, &granted()), [""; 0]);
    session
}

fn ask(session: &mut ZooKeeperSession, tag: Tag, operation: Operation) -> bool {
    let request = replay::request(operation, b"bakeoff/a", b"");
    session.request(tag, &request, &mut Vec::new())
}

fn heard(session: &mut ZooKeeperSession, bytes: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut on = |tag, answer: Answer<'_>| {
        let answer = match answer {
            Answer::Names(names) => format!("{} names", names.count()),
            Answer::Unprocessed(why) => format!("not processed: {why}"),
            Answer::Refused(_, why) => format!("refused: {why}"),
            Answer::Failed(_, why) => why,
            Answer::Versioned(_, version) => version.to_string(),
            Answer::DoneAt(place) => format!("done at {place}"),
            Answer::MissingAt(place) => format!("missing at {place}"),
            Answer::Recreated => "recreated".to_owned(),
            _ => "another".to_owned(),
        };
        seen.push(format!("{tag} {answer}"));
    };
    session.receive(bytes, &mut Vec::new(), &mut on).unwrap();
    seen
}

#[test]
fn expired_session_ends_and_its_requests_may_be_sent_again() {
    let mut session = connected();
    assert!(ask(&mut session, 0, Operation::Put) && ask(&mut session, 1, Operation::Get));
    let seen = heard(&mut session, &reply(1, -112, b""));
    assert_eq!(seen, ["0 not processed: SessionExpired (-112)"]);
    assert!(session.is_ending() && !ask(&mut session, 0, Operation::Put));
    let seen = heard(&mut session, &reply(2, -102, b""));
    assert_eq!(seen, ["1 NoAuth (-102)"]);
}

#[test]
fn deletes_and_missing_keys_have_the_zxid_of_their_reply() {
    for (operation, error, expected) in [
        (Operation::Delete, 0, "0 done at 9"),
        (Operation::Delete, -101, "0 missing at 9"),
        (Operation::Get, -101, "0 missing at 9"),
    ] {
        let mut session = connected();
        let request =
            Request { reads: ReadConsistency::Stale, ..replay::request(operation, b"a", b"") };
        assert!(session.request(0, &request, &mut Vec::new()));
        assert_eq!(heard(&mut session, &reply_at_9(1, error, b"")), [expected]);
    }
}

#[test]
fn node_that_was_created_again_is_no_more_the_one_that_was_read() {
    // Both have version 0.
    let stat = |created_at: i64| [&created_at.to_be_bytes()[..], &[0; 60]].concat();
    for (created_at, expected) in [(5, "0 done at 9"), (6, "0 recreated")] {
        let mut session = connected();
        let mut request = replay::request(Operation::CompareAndSet, b"a", b"");
        request.reads = ReadConsistency::Stale;
        assert!(session.request(0, &request, &mut Vec::new()));
        let data = [&0_u32.to_be_bytes()[..], &stat(5)].concat();
        let read = heard(&mut session, &reply_at_9(1, 0, &data));
        let version = read[0].strip_prefix("0 ").and_then(|text| text.parse().ok());
        request.compare = Compare::Replace(version.expect("it has a version"));
        assert!(session.request(0, &request, &mut Vec::new()));
        assert_eq!(heard(&mut session, &reply_at_9(2, 0, &stat(created_at))), [expected]);
    }
}

#[test]
fn silent_session_pings_well_within_the_granted_timeout() {
    assert_eq!(connected().keep_alive_every(), Some(Duration::from_millis(400)));
}

#[test]
fn list_of_any_size_is_read() {
    let mut session = connected();
    assert!(ask(&mut session, 0, Operation::List));
    let name = vec![b'k'; 17 << 20];
    let length = (name.len() as u32).to_be_bytes();
    let names = [&1_u32.to_be_bytes()[..], &length, &name].concat();
    assert_eq!(heard(&mut session, &reply(1, 0, &names)), ["0 1 names"]);
}

/// Serves a session that expires at its third request, and a second session without faults.
fn serve(listener: &TcpListener) {
    for refused in [Some(3), None] {
        let (mut socket, _) = listener.accept().unwrap();
        for number in 0.. {
            if receive(&mut socket).is_none() {
                break; // the client has disconnected
            }
            let answer = match number {
                0 => granted(),
                number if refused == Some(number) => reply(number, -112, b""),
                number => reply(number, 0, &[0; 68]), // the metadata of a node
            };
            socket.write_all(&answer).unwrap();
            if refused == Some(number) {
                break;
            }
        }
    }
}

/// Receives a frame, or `None` at the end of the connection.
fn receive(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut frame).ok()?;
    Some(frame)
}

#[test]
fn operation_in_flight_at_session_expiry_counts_once() {
    let study = "title: t\nsystems: {z: {kind: zookeeper}}\nworkloads: {w: {mix: {put: 1}, keys: {count: 9}, fill: true}}\n\
                 loads: {l: {clients: 1, stop: {operations: 1}}}\n";
    let workload = parse("t", "t.yaml", study, &kinds()).unwrap().workloads.remove(0);
    let keyed = Arc::new(KeyedState::new(&workload, 7, StalenessTracking::NotMeasured));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(&listener));
    let reads = ReadConsistency::Default;
    let load = KvLoad {
        nodes: &[node(address)],
        keyed: &keyed,
        source: &mut |_| Source::mix(&workload, 7, 7),
        reading: Reading { reads, may_be_stale: false, lists_are_complete: false },
        drive: &Drive::once(6, 1, 1, Duration::from_secs(10)),
        barrier: None,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_| {},
    };
    let (measurement, _) = crate::zookeeper::SYSTEM.drive(load).unwrap();
    let errors: Vec<_> = measurement.error_examples().map(|(_, example)| &example.what).collect();
    assert_eq!((measurement.verified(), measurement.reissued), (6, 1), "{errors:?}");
    assert_eq!(measurement.error_count(), 0, "{errors:?}");
}
