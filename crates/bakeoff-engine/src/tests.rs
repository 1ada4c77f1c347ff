//! Tests open loads against several servers. One of them hangs or goes away.
//!
//! The bounds hold on machines of any speed: operations due at a hanging server cannot be answered before it resumes.

mod accepting;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::schedule::{RateProfile, Spacing};
use bakeoff_core::study::Stop;

use super::{Connections, Drive, Seconds};
use crate::works::http::{ExpectBody, Plan, Request, Url};

/// Answers every request, unless it hangs or is gone.
struct Server {
    address: SocketAddr,
    hangs: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            hangs: Arc::default(),
            gone: Arc::default(),
            open: Arc::default(),
        };
        let (hangs, gone, open) = (server.hangs.clone(), server.gone.clone(), server.open.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if gone.load(Ordering::Relaxed) {
                    return; // and stops listening
                }
                let stream = stream.unwrap();
                open.lock().unwrap().push(stream.try_clone().unwrap());
                let hangs = hangs.clone();
                std::thread::spawn(move || answer(stream, &hangs));
            }
        });
        server
    }

    /// Closes all connections and refuses new ones.
    fn go(&self) {
        self.gone.store(true, Ordering::Relaxed);
        TcpStream::connect(self.address).ok(); // wakes the accept loop one last time
        while TcpStream::connect(self.address).is_ok() {}
        for stream in self.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hangs.store(false, Ordering::Relaxed);
        self.go();
    }
}

fn answer(mut stream: TcpStream, hangs: &AtomicBool) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|count| count > 0) {
        while hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

const RATE: f64 = 900.0;
const LASTS: Duration = Duration::from_secs(3);

fn open_load(threads: u32, spacing: Spacing) -> Drive {
    Drive {
        clients: 60,
        arrivals: Some((RateProfile::Constant { rate: RATE }, spacing)),
        stop: Stop::After(LASTS),
        connections: Connections::Kept,
        seconds: Seconds::Told,
        seed: 1,
        ..Drive::once(60, 60, threads, Duration::from_secs(10))
    }
}

fn plan(requests: Vec<Request>) -> Plan {
    Plan::new(requests)
}

/// Measures a load on three servers, while `happens` affects the third.
fn drive(load: &Drive, happens: impl FnOnce(&Server) + Send) -> Measurement {
    let servers = [Server::start(), Server::start(), Server::start()];
    let requests = servers
        .iter()
        .map(|server| Request::get(Url::parse(&format!("http://{}/", server.address)).unwrap()));
    let ready = plan(requests.collect()).ready(true).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| happens(&servers[2]));
        ready.drive(load, &AtomicBool::new(false), &mut |_| {}).unwrap().measurement
    })
}

const HANGS: Duration = Duration::from_millis(1500);

/// Returns the number of operations that took at least `least` or failed.
fn felt(measured: &Measurement, least: Duration) -> u64 {
    let total = measured.total();
    let all = total.answered_and_unanswered();
    let slow = all.recorded().filter(|(latency, _)| *latency >= least);
    slow.map(|(_, count)| count).sum::<u64>() + total.unanswered.count() + total.failed.count()
}

fn hang(server: &Server) {
    std::thread::sleep(Duration::from_millis(700));
    server.hangs.store(true, Ordering::Relaxed);
    std::thread::sleep(HANGS);
    server.hangs.store(false, Ordering::Relaxed);
}

#[test]
fn hanging_node_delays_all_its_due_operations_for_any_number_of_threads() {
    let loads = [1, 2, 3, 8].map(|threads| (threads, Spacing::Constant));
    std::thread::scope(|scope| {
        for (threads, spacing) in loads.into_iter().chain([(2, Spacing::Poisson)]) {
            scope.spawn(move || {
                let measured = drive(&open_load(threads, spacing), hang);
                let least = Duration::from_millis(100);
                let seen = felt(&measured, least);
                // A third of the operations due while it hangs; the last of them wait for less than `least`.
                let due = RATE / 3.0 * (HANGS - least).as_secs_f64();
                let context = format!("{seen} of {due} with {threads} threads, {spacing:?}");
                // Four standard deviations of Poisson arrivals.
                let chance = if spacing == Spacing::Poisson { 4.0 * due.sqrt() } else { 5.0 };
                assert!(seen as f64 >= due - chance, "{context}");
            });
        }
    });
}

#[test]
fn operations_hanging_since_the_warm_up_count_in_a_closed_load() {
    let closed = Drive {
        warmup: Duration::from_millis(300),
        stop: Stop::After(Duration::from_secs(1)),
        arrivals: None,
        clients: 6,
        ..Drive::once(6, 6, 2, Duration::from_secs(3))
    };
    let measured = drive(&closed, |server| {
        server.hangs.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(5));
        server.hangs.store(false, Ordering::Relaxed);
    });
    // Each client sends to all three servers in turn, and waits for the hanging one.
    assert_eq!(measured.errors_of(ErrorKind::Timeout), 6);
    assert_eq!((measured.unserved_clients, measured.clients_with_work), (6, 6));
    assert_eq!((measured.targets[2].verified, measured.targets[2].errors), (0, 6));
    let longest = measured.total().unanswered.max();
    assert!(longest.is_some_and(|waited| waited >= Duration::from_secs(3)), "{longest:?}");
    let why = bakeoff_core::check::unserved(&measured).unwrap();
    assert!(why.starts_with("6 of 6 clients had only failures"), "{why}");
}

/// Starts a server that takes `takes` for each answer.
fn slow(takes: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    std::thread::sleep(takes);
                    if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Returns how many requests a fast server and a slow one got from this closed load, with these weights.
fn asked(load: &Drive, weights: [u32; 2]) -> [u64; 2] {
    let servers = [slow(Duration::ZERO), slow(Duration::from_millis(5))];
    let request = |(address, weight): (SocketAddr, u32)| {
        let url = Url::parse(&format!("http://{address}/")).unwrap();
        Request { weight, ..Request::get(url) }
    };
    let requests: Vec<Request> = servers.into_iter().zip(weights).map(request).collect();
    let names = [0, 1].map(|place| requests[place].name.clone());
    let ready = plan(requests).ready(load.connections == Connections::Kept).unwrap();
    let measured = ready.drive(load, &AtomicBool::new(false), &mut |_| {}).unwrap().measurement;
    assert_eq!((measured.error_count(), measured.unserved_clients), (0, 0));
    assert_eq!(measured.clients_with_work, u64::from(load.clients), "each counts once");
    names.map(|name| measured.operations[&name].verified)
}

#[test]
fn weights_apply_per_request_however_slow_a_server_is() {
    let counted = |count| Drive {
        clients: 7,
        stop: Stop::Operations(count),
        ..Drive::once(count, 7, 2, Duration::from_secs(10))
    };
    assert_eq!(asked(&counted(400), [3, 1]), [300, 100]);
    assert_eq!(asked(&counted(300), [1, 2]), [100, 200]);
    let each = Drive { connections: Connections::OneEach, ..counted(200) };
    assert_eq!(asked(&each, [3, 1]), [150, 50]);
    let timed = Drive {
        warmup: Duration::from_millis(100),
        stop: Stop::After(Duration::from_millis(700)),
        ..counted(1)
    };
    let [quick, slow] = asked(&timed, [1, 2]);
    // Operations are cut off at both ends of the window: at most one per client and end.
    assert!(slow > 50 && (2 * quick).abs_diff(slow) <= 4 * 7, "{quick} and {slow}");
}

#[test]
fn server_that_refuses_keeps_its_share_of_a_closed_load() {
    // It accepts the first connection, but refuses those of the load. No other test uses a port of its address.
    let gone = TcpListener::bind("127.84.1.9:0").unwrap();
    let addresses = [slow(Duration::from_millis(1)), gone.local_addr().unwrap()];
    let requests =
        addresses.map(|address| Request::get(Url::parse(&format!("http://{address}/")).unwrap()));
    let name = requests[0].name.clone();
    let ready = plan(requests.to_vec()).ready(false).unwrap();
    drop(gone);
    let load = Drive {
        clients: 4,
        stop: Stop::Operations(40),
        connections: Connections::OneEach,
        ..Drive::once(40, 4, 2, Duration::from_secs(2))
    };
    let measured = ready.drive(&load, &AtomicBool::new(false), &mut |_| {}).unwrap().measurement;
    assert_eq!(measured.operations[&name].verified, 20);
    assert_eq!(measured.errors_of(ErrorKind::Refused), 20);
    // The third of three servers with kept connections.
    let kept = Drive {
        clients: 6,
        stop: Stop::After(Duration::from_secs(2)),
        ..Drive::once(6, 6, 2, Duration::from_secs(5))
    };
    let measured = drive(&kept, |server| {
        std::thread::sleep(Duration::from_millis(300));
        server.go();
    });
    let asked = |place: usize| measured.targets[place].verified + measured.targets[place].errors;
    let context = format!("{:?}", [0, 1, 2].map(asked));
    assert!(measured.targets[2].errors >= 6 && measured.targets[0].errors == 0, "{context}");
    assert!(asked(0).abs_diff(asked(2)) <= 6 && asked(1).abs_diff(asked(2)) <= 6, "{context}");
}

#[test]
fn node_that_goes_away_causes_its_share_of_refusals() {
    let timeout = Duration::from_millis(300);
    let load = |threads| Drive { timeout, ..open_load(threads, Spacing::Constant) };
    std::thread::scope(|scope| {
        for threads in [1, 3] {
            scope.spawn(move || {
                let measured = drive(&load(threads), |server| {
                    std::thread::sleep(Duration::from_millis(700));
                    server.go();
                });
                let failed = measured.errors_of(ErrorKind::Refused)
                    + measured.errors_of(ErrorKind::Dropped)
                    + measured.errors_of(ErrorKind::Reset);
                let context = format!("{failed} with {threads} threads");
                // A third of the operations due in the remaining 2.3 s, unless the load began late.
                assert!(failed >= 500, "{context}");
                assert!(measured.errors_of(ErrorKind::Refused) >= 400, "{context}");
                let [first, second, third] = &measured.targets[..] else { panic!("three nodes") };
                assert!(first.errors + second.errors < third.errors / 10, "{context}");
            });
        }
    });
}

#[test]
fn poisson_load_with_a_count_ends_with_its_last_due_operation() {
    let count = 600;
    let load =
        |threads| Drive { stop: Stop::Operations(count), ..open_load(threads, Spacing::Poisson) };
    for threads in [1, 8] {
        let measured = drive(&load(threads), |_| {});
        assert_eq!(measured.verified() + measured.error_count(), count, "{threads} threads");
        // Other tests may delay the clients, and the sample ends with the first delay.
        let sent = &measured.sent;
        assert!(sent.is_sorted() && sent.len() as u64 <= count, "{sent:?}");
    }
}

#[test]
fn send_times_are_sampled_only_for_poisson_loads() {
    let [poisson, constant] = std::thread::scope(|scope| {
        [Spacing::Poisson, Spacing::Constant]
            .map(|spacing| scope.spawn(move || drive(&open_load(2, spacing), |_| {})))
            .map(|driving| driving.join().unwrap())
    });
    assert!(!poisson.sent.is_empty());
    assert_eq!(constant.sent, [0; 0]);
}

#[test]
fn endless_answers_do_not_fill_the_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let asked = stream.read(&mut request).is_ok();
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 900000000\r\n\r\n";
                let mut sent = asked && stream.write_all(head).is_ok();
                while sent {
                    sent = stream.write_all(&[b'x'; 1 << 16]).is_ok();
                }
            });
        }
    });
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    let load = Drive {
        clients: 8,
        stop: Stop::Operations(16),
        connections: Connections::Kept,
        ..Drive::once(16, 8, 2, Duration::from_secs(20))
    };
    let mut request = Request::get(url);
    // Bodies that are not checked are dropped on arrival, so the timeout ends the load.
    let short = Drive { timeout: Duration::from_millis(300), ..load.clone() };
    let ready = plan(vec![request.clone()]).ready(true).unwrap();
    let measured = ready.drive(&short, &AtomicBool::new(false), &mut |_| {}).unwrap().measurement;
    assert_eq!((measured.verified(), measured.errors_of(ErrorKind::Timeout)), (0, 16));
    // Searching the bodies for a text requires holding them.
    request.expect.body = Some(ExpectBody::Contains(b"y".to_vec()));
    let ready = plan(vec![request]).ready(true).unwrap();
    let error = ready.drive(&load, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(error.what().starts_with("answers that are verified as a whole"), "{error}");
    assert_eq!(error.exit_code(), 5);
}

#[test]
fn endless_answer_leaves_other_connections_their_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endless = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let asked = stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0);
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                let mut sent = asked && stream.write_all(head).is_ok();
                // Reading chunks of one byte takes longer than sending them, so there are always more to read.
                let chunks = b"1\r\nx\r\n".repeat(100_000);
                while sent {
                    sent = stream.write_all(&chunks).is_ok();
                }
            });
        }
    });
    let addresses = [slow(Duration::ZERO), endless];
    let request = |address| Request::get(Url::parse(&format!("http://{address}/")).unwrap());
    let ready = plan(addresses.map(request).to_vec()).ready(true).unwrap();
    let load = Drive {
        arrivals: Some((RateProfile::Constant { rate: 100.0 }, Spacing::Constant)),
        stop: Stop::After(Duration::from_secs(2)),
        ..Drive::once(8, 8, 1, Duration::from_millis(500))
    };
    let measured = ready.drive(&load, &AtomicBool::new(false), &mut |_| {}).unwrap().measurement;
    let [honest, hostile] = &measured.targets[..] else { panic!("two nodes") };
    assert!(honest.verified >= 30, "{honest:?}");
    assert!(hostile.verified == 0 && hostile.errors > 0, "{hostile:?}");
}

#[test]
fn answer_that_comes_in_two_reads_has_one_receive_lag() {
    const COUNT: u64 = 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    std::thread::spawn(move || {
        // The first connection is the check for a running server, the second the client's.
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|count| count > 0) {
                stream.set_nodelay(true).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n").unwrap();
                std::thread::sleep(Duration::from_millis(3));
                stream.write_all(b"x").unwrap();
            }
        }
    });
    let ready = plan(vec![Request::get(url)]).ready(true).unwrap();
    let load = Drive::once(COUNT, 1, 1, Duration::from_secs(10));
    let measured = ready.drive(&load, &AtomicBool::new(false), &mut |_| {}).unwrap().measurement;
    assert_eq!((measured.total().verified, measured.receive_lag.count()), (COUNT, COUNT));
}
