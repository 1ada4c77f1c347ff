//! The baseline of a load over HTTP/1.1, for `cargo xtask peers http`: the least CPU time that a request can
//! cost on this machine. `http_baseline ADDRESS CONNECTIONS SECONDS [PATH]`.
//!
//! A bare epoll loop that sends one fixed request and receives one response of a fixed length, on a
//! fixed number of connections, and does nothing else: it parses nothing, times nothing, checks
//! nothing, and no connection is ever replaced. What bakeoff costs above this is the price of
//! reading responses, timing them and keeping a schedule. It is a bound and no tool: one odd response
//! length and it stands still.
//!
//! The length is learned once, from the first response. Readiness is edge-triggered, as a
//! level-triggered socket is looked at once more by each wait. The end is a timer in the same epoll,
//! so that no clock is read on the way.

// A program of its own, whose output is its result and which times itself from outside its loop.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

const TIMER: u64 = u64::MAX;
const EVENTS: usize = 256;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [address, connections, seconds] => run(address, connections, seconds, "/"),
        [address, connections, seconds, path] => run(address, connections, seconds, path),
        _ => Err("http_baseline ADDRESS CONNECTIONS SECONDS [PATH]".into()),
    };
    match done {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    address: &str,
    connections: &str,
    seconds: &str,
    path: &str,
) -> Result<String, Box<dyn Error>> {
    let address: SocketAddr = address.parse()?;
    let connections: usize = connections.parse()?;
    let duration = Duration::from_secs_f64(seconds.parse()?);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let length = response_length(address, &request)?;

    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
    let mut sockets = Vec::with_capacity(connections);
    for index in 0..connections {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(index as u64), wanted)?;
        sockets.push(socket);
    }

    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let end = Timespec::try_from(duration)?;
    let once = Itimerspec { it_interval: never, it_value: end };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    let began = Instant::now();
    let mut missing = vec![length; connections];
    let mut buffer = vec![0; length + 1];
    for socket in &sockets {
        send_whole(socket, &request)?;
    }
    let mut events = Vec::with_capacity(EVENTS);
    let mut responses: u64 = 0;
    'measured: loop {
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let index = event.data.u64();
            if index == TIMER {
                break 'measured;
            }
            let (socket, missing) = (&sockets[index as usize], &mut missing[index as usize]);
            // One receive: if the rest of a response is still to come, so is another edge.
            let (received, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
            if received == 0 || received > *missing {
                return Err(format!("{received} bytes came where {missing} were missing").into());
            }
            *missing -= received;
            if *missing == 0 {
                *missing = length;
                responses += 1;
                send_whole(socket, &request)?;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = responses as f64 / seconds;
    Ok(format!(
        "{{\"requests\":{responses},\"seconds\":{seconds:.6},\"requests_per_second\":{rate:.1}}}"
    ))
}

fn send_whole(socket: &TcpStream, request: &[u8]) -> Result<(), Box<dyn Error>> {
    let sent = send(socket, request, SendFlags::NOSIGNAL)?;
    if sent == request.len() { Ok(()) } else { Err("a request did not fit a socket".into()) }
}

/// Head and body of the response to `request`, in bytes.
fn response_length(address: SocketAddr, request: &[u8]) -> Result<usize, Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.write_all(request)?;
    let mut response = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let received = socket.read(&mut piece)?;
        if received == 0 {
            return Err("the connection was closed before a response ended".into());
        }
        response.extend_from_slice(&piece[..received]);
        let text = String::from_utf8_lossy(&response);
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let body = text[..head].lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let body: usize = body.ok_or("the response has no Content-Length")?;
        return Ok(head + 4 + body);
    }
}
