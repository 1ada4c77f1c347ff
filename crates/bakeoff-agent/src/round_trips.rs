//! Measures round trips and bandwidth between two machines: the minimum under every latency that crosses the network.
//!
//! One end echoes bytes and the other times them, on one connection and with one clock. A measurement takes about a
//! quarter of a second.
//!
//! Not here: the choice of machines (the binary's `machines`).

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use serde_json::Value;

use super::client::IncomingFrame;
use super::error::AgentRefusal;
use super::line::Line;
use super::message::TripTimes;

/// Size of a timed message, in bytes.
const MESSAGE: usize = 64;
const TRIPS: usize = 400;
/// Block size for the bandwidth, in bytes.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 32;
/// Time limit of each of the two measurements.
const MEASURE: Duration = Duration::from_millis(125);
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between checks for a connection and for the end of the request.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Echoes connections until the coordinator ends the request.
pub(crate) fn echo(address: IpAddr, line: &Line) -> Result<Value, AgentRefusal> {
    let refused = |error: std::io::Error| AgentRefusal::new(format!("{address}: {error}"));
    let listener = TcpListener::bind((address, 0)).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    line.back.tell(&listener.local_addr().map_err(refused)?);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        loop {
            if let Ok((stream, _)) = listener.accept() {
                let over = &over;
                scope.spawn(move || answer(stream, over));
            }
            match line.next_within(LOOK_EVERY) {
                Ok(None) => {}
                Ok(Some(IncomingFrame::Note(_) | IncomingFrame::Data(_))) => {}
                Ok(Some(_)) | Err(_) => break,
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    Ok(Value::Null)
}

fn answer(mut stream: TcpStream, over: &AtomicBool) {
    let ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    if ready.and_then(|()| stream.set_read_timeout(Some(PATIENCE))).is_err() {
        return;
    }
    let mut bytes = vec![0; 64 << 10];
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(read @ 1..) if stream.write_all(&bytes[..read]).is_ok() => {}
            _ => return,
        }
    }
}

/// Times messages and blocks against an echo.
pub(crate) fn measure(address: SocketAddr) -> Result<TripTimes, AgentRefusal> {
    let refused = |error: std::io::Error| AgentRefusal::new(format!("{address}: {error}"));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
    let mut message = [7; MESSAGE];
    let mut trips = Vec::with_capacity(TRIPS);
    let began = clock::now();
    while trips.len() < TRIPS && began.elapsed() < MEASURE {
        let sent = clock::now();
        stream
            .write_all(&message)
            .and_then(|()| stream.read_exact(&mut message))
            .map_err(refused)?;
        trips.push((clock::now() - sent).as_secs_f64() * 1e6);
    }
    trips.sort_by(f64::total_cmp);
    let median_us = trips.get(trips.len() / 2).copied().unwrap_or_default();
    let shortest_us = trips.first().copied().unwrap_or_default();
    let mut block = vec![7; BLOCK];
    let (began, mut moved) = (clock::now(), 0);
    // A part is half as large as the socket buffers hold, so neither end blocks on the other.
    for _ in 0..BLOCKS {
        for part in block.chunks_mut(64 << 10) {
            stream.write_all(part).and_then(|()| stream.read_exact(part)).map_err(refused)?;
            moved += part.len();
        }
        if began.elapsed() > MEASURE {
            break;
        }
    }
    let bytes_per_second = moved as f64 / began.elapsed().as_secs_f64().max(1e-9);
    Ok(TripTimes { median_us, shortest_us, bytes_per_second })
}
