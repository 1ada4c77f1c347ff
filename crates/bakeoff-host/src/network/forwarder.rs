//! Forwards the packets of delayed paths, which the kernel hands over through a TUN device.
//!
//! A routing rule sends the packets of a delayed path to the device. Their thread holds them back and writes them to the
//! device again. What comes from the device is routed as usual.
//!
//! Not here: drawing delays (`delay`), the rules (`links`).

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tun::AbstractDevice as _;

use super::CutPath;
use super::delay::{DelayClock, DelayLine, PathDelay};

/// Name of the device.
pub(super) const DEVICE: &str = "delay";
/// Length of a packet, at most: that of an Ethernet link.
const PACKET_MAX: u16 = 1500;

type Lines = Mutex<HashMap<CutPath, DelayLine<Vec<u8>>>>;

/// The device, and the paths whose packets it delays.
pub(super) struct Forwarder {
    device: Arc<tun::Device>,
    lines: Arc<Lines>,
}

impl Forwarder {
    /// Opens the device in the current thread's namespace, and starts to read it.
    ///
    /// # Errors
    /// If the kernel refuses, or `/dev/net/tun` is missing.
    pub(super) fn open() -> io::Result<Self> {
        let mut settings = tun::configure();
        settings.tun_name(DEVICE).mtu(PACKET_MAX).up();
        let device = Arc::new(tun::create(&settings).map_err(io::Error::other)?);
        let forwarder = Self { device, lines: Arc::default() };
        let (device, lines) = (Arc::clone(&forwarder.device), Arc::clone(&forwarder.lines));
        std::thread::Builder::new().spawn(move || {
            let mut packet = [0; PACKET_MAX as usize];
            while let Ok(length) = device.recv(&mut packet) {
                let packet = &packet[..length];
                let Some(path) = path_of(packet) else { continue };
                if let Some(line) = locked(&lines).get_mut(&path) {
                    line.push(packet.to_vec());
                }
            }
        })?;
        Ok(forwarder)
    }

    /// Returns the index of the device.
    ///
    /// # Errors
    /// If the kernel does not tell it.
    pub(super) fn index(&self) -> io::Result<u32> {
        let index = self.device.tun_index().map_err(io::Error::other)?;
        u32::try_from(index).map_err(io::Error::other)
    }

    /// Delays the packets of a path.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(super) fn delay(&self, path: CutPath, delay: PathDelay, seed: u64) -> io::Result<()> {
        let device = Arc::clone(&self.device);
        let line = DelayLine::start(DelayClock::new(delay, seed), move |packet: Vec<u8>| {
            // A packet that the kernel does not take is lost, as on a link.
            let _ = device.send(&packet);
        })?;
        locked(&self.lines).insert(path, line);
        Ok(())
    }

    /// Delays no path. Packets that wait still arrive.
    pub(super) fn clear(&self) {
        locked(&self.lines).clear();
    }
}

fn locked(lines: &Lines) -> MutexGuard<'_, HashMap<CutPath, DelayLine<Vec<u8>>>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the sender and the receiver of an IPv4 packet (RFC 791, section 3.1).
fn path_of(packet: &[u8]) -> Option<CutPath> {
    let address = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(bytes))
    };
    let is_ipv4 = packet.first()? >> 4 == 4;
    is_ipv4.then_some((address(12)?, address(16)?))
}
