//! Tests loads of calls against a server that answers each request with the same message.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff_core::measurement::Measurement;

use super::*;
use crate::address::Address;
use crate::worker::ClientSlots;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` of the static table.
const STATUS_OK: &[u8] = &[0x88];
/// A literal `grpc-status: 0`.
const TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";
/// A message of one byte with its prefix.
const MESSAGE: &[u8] = b"\0\0\0\0\x01m";

/// Requests that a server got.
#[derive(Default)]
struct Requests {
    /// Number of requests by connection.
    by_connection: BTreeMap<usize, u64>,
    /// Connection and stream of each request.
    streams: BTreeSet<(usize, u32)>,
    total: u64,
    /// Answers that wait for further requests.
    waiting: Vec<(TcpStream, Vec<u8>)>,
}

struct Server {
    peer: Peer,
    requests: Arc<Mutex<Requests>>,
}

impl Server {
    /// Starts a server that answers once it has got this number of requests.
    fn start(answers_from: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Peer { address: Address::Tcp(listener.local_addr().unwrap()), tls: None };
        let requests: Arc<Mutex<Requests>> = Arc::default();
        let all = requests.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let all = all.clone();
                std::thread::spawn(move || serve(stream, number, &all, answers_from));
            }
        });
        Self { peer, requests }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Serves a connection until the client closes it.
fn serve(
    mut socket: TcpStream,
    connection: usize,
    requests: &Mutex<Requests>,
    answers_from: u64,
) -> std::io::Result<()> {
    socket.read_exact(&mut [0; 24])?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let mut started = BTreeSet::new();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        socket.read_exact(&mut vec![0; length as usize])?;
        if head[3] != DATA {
            continue;
        }
        let mut answer = Vec::new();
        if started.insert(stream) {
            answer.extend(frame(HEADERS, END_HEADERS, stream, STATUS_OK));
        }
        answer.extend(frame(DATA, 0, stream, MESSAGE));
        if head[4] & END_STREAM != 0 {
            answer.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS));
        }
        let mut all = requests.lock().unwrap();
        *all.by_connection.entry(connection).or_default() += 1;
        all.streams.insert((connection, stream));
        all.total += 1;
        all.waiting.push((socket.try_clone()?, answer));
        if all.total >= answers_from {
            for (mut to, answer) in all.waiting.drain(..) {
                to.write_all(&answer)?;
            }
        }
    }
}

/// Makes operations of `calls` calls each.
struct Source {
    form: CallForm,
    calls: u32,
    made: BTreeMap<(u32, Tag), u32>,
    /// Operations whose stream has not ended.
    streaming: BTreeSet<(u32, Tag)>,
}

impl CallSource for Source {
    fn operations(&self) -> Vec<String> {
        vec!["test".to_owned()]
    }

    fn methods(&self) -> &'static [&'static str] {
        &["/test/Test"]
    }

    fn begin(
        &mut self,
        slot: CallSlot,
        _: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        message.push(b'm');
        self.made.insert((slot.client, slot.tag), 1);
        let is_stream = self.form == CallForm::ServerStream;
        assert!(!is_stream || self.streaming.insert((slot.client, slot.tag)), "it was not awaited");
        Ok(FirstCall { operation: 0, call: Call { method: 0, form: self.form } })
    }

    fn reply(&mut self, slot: CallSlot, reply: CallReply<'_>, message: &mut Vec<u8>) -> NextStep {
        let answer = match reply {
            CallReply::Answer(Ok(answer)) | CallReply::Message(answer) => answer,
            CallReply::Ended(Ok(())) => {
                self.streaming.remove(&(slot.client, slot.tag));
                return NextStep::End(Ok(Success::default()));
            }
            CallReply::Answer(Err(status)) | CallReply::Ended(Err(status)) => {
                panic!("the server fails no call: {status}")
            }
        };
        assert_eq!(answer, b"m");
        let made = self.made.entry((slot.client, slot.tag)).or_default();
        match self.form {
            CallForm::ServerStream => NextStep::Await,
            form if *made < self.calls => {
                *made += 1;
                message.push(b'm');
                NextStep::Call(Call { method: 0, form })
            }
            _ => NextStep::End(Ok(Success::default())),
        }
    }
}

/// Drives a load of 60 operations of `calls` calls each.
fn drive_load(
    servers: &[&Server],
    (clients, slots): (u32, u32),
    (form, calls): (CallForm, u32),
) -> Measurement {
    let targets = CallTargets {
        peers: servers.iter().map(|server| server.peer.clone()).collect(),
        authorities: servers.iter().map(|_| "test".to_owned()).collect(),
        metadata: Vec::new(),
        connect_within: Duration::from_secs(5),
        slots: Some(slots),
    };
    let once = Drive::once(60, clients, 2, Duration::from_secs(20));
    let drive = Drive { in_flight: slots.div_ceil(clients), ..once };
    let source = &mut |_| -> Box<dyn CallSource> {
        Box::new(Source { form, calls, made: BTreeMap::new(), streaming: BTreeSet::new() })
    };
    let interrupted = AtomicBool::new(false);
    let (measurement, _) =
        drive_calls(&targets, &drive, source, &interrupted, &mut |_| {}).unwrap();
    assert_eq!((measurement.verified(), measurement.error_count()), (60, 0));
    measurement
}

#[test]
fn operations_in_flight_are_dealt_to_connections_as_evenly_as_possible() {
    // The first answers come with the tenth request, so ten are in flight before.
    let server = Server::start(10);
    drive_load(&[&server], (3, 10), (CallForm::Unary, 1));
    let all = server.requests.lock().unwrap();
    assert_eq!((all.by_connection.len(), all.total), (3, 60));
    // With one more in flight the eleventh request would have come before an answer, with one less none would.
    assert_eq!(
        [0, 1, 2, 3].map(|client| ClientSlots { all: 10, clients: 3 }.of_client(client)),
        [4, 3, 3, 3]
    );
}

#[test]
fn operations_go_to_servers_in_turn() {
    let servers = [Server::start(0), Server::start(0), Server::start(0)];
    drive_load(&servers.each_ref(), (2, 5), (CallForm::Unary, 1));
    for server in &servers {
        let all = server.requests.lock().unwrap();
        assert_eq!((all.by_connection.len(), all.total), (2, 20));
    }
}

#[test]
fn an_operation_may_have_several_calls() {
    let server = Server::start(0);
    drive_load(&[&server], (2, 4), (CallForm::Unary, 3));
    assert_eq!(server.requests.lock().unwrap().streams.len(), 180);
}

#[test]
fn streams_of_a_server_are_awaited() {
    let server = Server::start(0);
    drive_load(&[&server], (1, 4), (CallForm::ServerStream, 1));
    assert_eq!(server.requests.lock().unwrap().streams.len(), 60);
}

#[test]
fn a_standing_call_is_kept_by_its_slot() {
    let server = Server::start(0);
    drive_load(&[&server], (2, 5), (CallForm::Standing, 1));
    let all = server.requests.lock().unwrap();
    assert_eq!((all.streams.len(), all.total), (5, 60));
}
