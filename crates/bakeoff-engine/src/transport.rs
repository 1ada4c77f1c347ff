//! Moves a connection's bytes, plain or under TLS: connect, flush, read.
//!
//! Plain bytes go to the kernel by `rustix`, not the standard library. The C library's `send` and `recv` are thread
//! cancellation points. Entering and leaving those costs as much per call as reading the clock.
//!
//! Not here: the meaning of the bytes, reconnecting.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use super::address::Address;

/// Maximum reads in a row that yield no content, about 1 MiB of TLS records.
const BARREN_READS_MAX: usize = 256;

/// Addresses a node for requests outside of a load.
#[derive(Debug, Clone)]
pub struct Target {
    /// Socket address of the node.
    pub address: SocketAddr,
    /// Name to verify and trusted authorities, for TLS.
    pub tls: Option<TlsTarget>,
}

/// Configures TLS to a node.
#[derive(Debug, Clone)]
pub struct TlsTarget {
    /// Name that the certificate must have.
    pub name: ServerName<'static>,
    /// Trusted authorities and offered protocols.
    pub config: Arc<ClientConfig>,
    /// Point of the connection at which TLS begins.
    pub begins: TlsBegins,
}

impl TlsTarget {
    /// Configures TLS from the first byte.
    pub fn new(name: ServerName<'static>, config: Arc<ClientConfig>) -> Self {
        Self { name, config, begins: TlsBegins::AtOnce }
    }
}

/// Selects the point of a connection at which TLS begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsBegins {
    /// With the first byte.
    #[default]
    AtOnce,
    /// After the server's plain-text greeting, as in NATS.
    AfterGreeting,
}

/// Holds one connection, possibly still connecting.
pub struct Link {
    /// TCP connection, or one over a Unix domain socket (`peer`).
    pub stream: TcpStream,
    is_tcp: bool,
    tls: Option<Box<ClientConnection>>,
    /// TLS that begins after the server's greeting.
    later: Option<Box<ClientConnection>>,
    /// Bytes that the session wants to send.
    pub out: Vec<u8>,
    sent: usize,
    /// Bytes passed on since this count was last taken; under TLS before encryption.
    pub handed_on: u64,
    /// Kind of TLS handshake, from its completion until the value is taken.
    pub agreed: Option<Handshake>,
    to_agree: bool,
}

/// Distinguishes full and resumed TLS handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Full handshake.
    Anew,
    /// Resumed session of an earlier connection.
    Resumed,
}

impl Link {
    /// Starts to connect.
    pub fn connect(address: &Address, tls: Option<&TlsTarget>) -> io::Result<Self> {
        let to_agree = tls.is_some();
        let (mut at_once, mut later) = (None, None);
        if let Some(TlsTarget { name, config, begins }) = tls {
            let session = ClientConnection::new(config.clone(), name.clone());
            let place = if *begins == TlsBegins::AtOnce { &mut at_once } else { &mut later };
            *place = Some(Box::new(session.map_err(io::Error::other)?));
        }
        Ok(Self {
            stream: address.begin_to_connect()?,
            is_tcp: !matches!(address, Address::Unix(_)),
            tls: at_once,
            later,
            out: Vec::new(),
            sent: 0,
            handed_on: 0,
            agreed: None,
            to_agree,
        })
    }

    /// Returns true if the connection is established. The error says why it failed.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if !self.is_tcp {
            return Ok(true); // Unix sockets connect at once
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.stream.set_nodelay(true)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lends `spare` to the connection, unless it already has memory.
    #[inline]
    pub fn borrow_memory(&mut self, spare: &mut Vec<u8>) {
        if self.out.capacity() == 0 {
            self.out = std::mem::take(spare);
        }
    }

    /// Returns the memory once everything is sent. The memory of the last sender is in the CPU's cache, and thousands
    /// of connections need none of their own.
    #[inline]
    pub fn return_memory(&mut self, spare: &mut Vec<u8>) {
        if self.out.is_empty() && self.out.capacity() > 0 {
            *spare = std::mem::take(&mut self.out);
        }
    }

    /// Returns true if there may be bytes to send.
    pub fn wants_flush(&self) -> bool {
        !self.out.is_empty() || self.tls.is_some()
    }

    /// Sends as much as the socket accepts now.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        debug_assert!(self.sent <= self.out.len(), "{} of {} bytes", self.sent, self.out.len());
        if self.tls.is_some() {
            return self.flush_tls();
        }
        while self.sent < self.out.len() {
            match send(&self.stream, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.note_handed_on();
        Ok(())
    }

    /// Counts the bytes passed to the socket or to TLS, and clears them.
    fn note_handed_on(&mut self) {
        self.handed_on += self.out.len() as u64;
        self.out.clear();
        self.sent = 0;
    }

    #[inline(never)]
    fn flush_tls(&mut self) -> io::Result<()> {
        while let Some(tls) = &mut self.tls {
            if self.sent < self.out.len() {
                // It may accept less: its buffer is limited until the socket drains it.
                self.sent += tls.writer().write(&self.out[self.sent..])?;
            }
            if !tls.wants_write() {
                break;
            }
            match tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.out.len() {
            self.note_handed_on();
        }
        Ok(())
    }

    /// Reads available bytes: `None` if there are none now, 0 after the peer has closed.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.tls.is_some() {
            return self.read_tls(buffer);
        }
        loop {
            return match recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => Ok(Some(count)),
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    #[inline(never)]
    fn read_tls(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..BARREN_READS_MAX {
            let Some(tls) = &mut self.tls else { return Ok(None) };
            let result = match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match tls.read_tls(&mut self.stream) {
                        Ok(_) => {
                            let processed = tls.process_new_packets();
                            if let Err(error) = processed {
                                self.flush().ok(); // send the alert if possible
                                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                            }
                            if self.to_agree {
                                self.note_agreement();
                            }
                            self.flush().ok(); // bytes already read count first; the next flush fails again
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                result => result,
            };
            return match result {
                Ok(count) => Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the server sends TLS records without content",
        ))
    }

    /// Returns true for plain TCP, and for TLS once the handshake is complete.
    pub fn is_agreed(&self) -> bool {
        !self.to_agree
    }

    /// Returns true if TLS begins after the server's greeting, which has not come yet.
    pub fn awaits_greeting(&self) -> bool {
        self.later.is_some()
    }

    /// Starts TLS. Nothing more is sent or read in plain text.
    pub fn begin_tls(&mut self) {
        self.tls = self.later.take();
    }

    fn note_agreement(&mut self) {
        let done = self.tls.as_ref().filter(|tls| !tls.is_handshaking());
        if let Some(kind) = done.and_then(|tls| tls.handshake_kind()) {
            self.to_agree = false;
            self.agreed = Some(match kind {
                HandshakeKind::Resumed => Handshake::Resumed,
                HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => Handshake::Anew,
            });
        }
    }

    /// Returns true if a read that filled less than its buffer has emptied the socket. Under TLS, records may wait
    /// inside, so only the socket's `WouldBlock` counts.
    pub fn short_read_is_last(&self) -> bool {
        self.tls.is_none()
    }
}
