//! Tests loads on servers that accept connections late, or only some of them.
//!
//! A server that takes one connection at a time accepts the next one after it has answered the first. Python's
//! `HTTPServer` does so. Its backlog is short, so the kernel leaves most clients without a connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::check::unserved;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::Stop;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use crate::start_barrier::StartBarrier;
use crate::works::http::{Plan, Ready, Request, Url};
use crate::{Connections, Drive};

/// Decides when a server takes the next connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptMode {
    /// After one answer, which closes the connection.
    NextAfterAnswer,
    /// After the client has closed the connection.
    NextAfterClose,
}

/// Starts a server that takes one connection at a time. The kernel keeps two more for it.
fn one_at_a_time(takes: AcceptMode) -> SocketAddr {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&socket, 1).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|count| count > 0) {
                let answer: &[u8] = match takes {
                    AcceptMode::NextAfterAnswer => {
                        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                    }
                    AcceptMode::NextAfterClose => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                };
                if stream.write_all(answer).is_err() || takes == AcceptMode::NextAfterAnswer {
                    break;
                }
            }
        }
    });
    address
}

fn ready(address: SocketAddr) -> Ready {
    let request = Request::get(Url::parse(&format!("http://{address}/")).unwrap());
    Plan::new(vec![request]).ready(true).unwrap()
}

const CLIENTS: u32 = 12;

fn load(stop: Stop, threads: u32) -> Drive {
    Drive {
        stop,
        connections: Connections::Kept,
        ..Drive::once(CLIENTS.into(), CLIENTS, threads, Duration::from_secs(10))
    }
}

fn drive(ready: &Ready, load: &Drive, barrier: Option<&StartBarrier>) -> Measurement {
    let driven = ready.drive_together(load, barrier, &AtomicBool::new(false), &mut |_| {});
    if driven.is_err() {
        barrier.iter().for_each(|barrier| barrier.fail());
    }
    driven.unwrap().measurement
}

#[test]
fn load_begins_with_the_clients_that_a_server_accepts() {
    let ready = ready(one_at_a_time(AcceptMode::NextAfterAnswer));
    // More threads than the server accepts clients: some threads begin without any.
    for threads in [1, 6] {
        let measured = drive(&ready, &load(Stop::Operations(300), threads), None);
        assert_eq!(measured.verified() + measured.error_count(), 300);
        assert!(measured.verified() >= 297, "{:?}", measured.operations);
    }
}

#[test]
fn clients_that_a_server_never_accepts_are_reported() {
    let ready = ready(one_at_a_time(AcceptMode::NextAfterClose));
    let short =
        Drive { timeout: Duration::from_secs(2), ..load(Stop::After(Duration::from_secs(1)), 2) };
    let measured = drive(&ready, &short, None);
    assert!(measured.verified() > 0, "one client is served");
    let why = unserved(&measured).unwrap();
    assert!(why.contains("clients"), "{why}");
    // The kernel may complete a connection for a client that the server does not accept yet.
    let notes: Vec<String> = measured.notes_on_clients().collect();
    let never = notes.iter().any(|note| note.starts_with("Never connected"));
    assert_eq!(never, measured.unconnected_clients > 0, "{notes:?}");
    assert!(!never || measured.error_count() > 0, "their operations were due");
}

#[test]
fn generators_do_not_wait_for_a_server_that_another_one_keeps_busy() {
    let address = one_at_a_time(AcceptMode::NextAfterAnswer);
    let barrier = &StartBarrier::new(2);
    let ready = &ready(address);
    let measured = std::thread::scope(|scope| {
        let generators = [0, 1].map(|index| {
            scope.spawn(move || {
                let share = LoadShare { index, of: 2 };
                let whole = load(Stop::Operations(300), 1);
                let own = Drive { share, own_operations: Some(150), ..whole };
                drive(ready, &own, Some(barrier))
            })
        });
        generators.map(|generator| generator.join().unwrap())
    });
    let verified: u64 = measured.iter().map(Measurement::verified).sum();
    assert!(verified >= 280, "{verified}");
}
