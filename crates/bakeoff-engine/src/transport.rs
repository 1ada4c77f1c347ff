//! A connection's bytes, plain or under TLS: connect, flush, read.
//!
//! Plain bytes go to the kernel by `rustix` instead of the standard library: the C library's `send` and
//! `recv` are points where a thread may be cancelled, which they announce and take back at each
//! call, and that costs as much as reading the clock.
//!
//! Not here: what the bytes mean, and when to connect again.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use super::peer::Address;

/// A node as it is asked outside of a load.
#[derive(Debug, Clone)]
pub struct Target {
    /// The node's address.
    pub address: SocketAddr,
    /// The name to verify and whom to trust, when the node is spoken to over TLS.
    pub tls: Option<TlsTarget>,
}

/// How a node is spoken to over TLS.
#[derive(Debug, Clone)]
pub struct TlsTarget {
    /// The name that its certificate must have.
    pub name: ServerName<'static>,
    /// Whom to trust, and which protocols to offer.
    pub config: Arc<ClientConfig>,
    /// When it begins.
    pub begins: TlsBegins,
}

impl TlsTarget {
    /// Speaks TLS from the first byte on.
    pub fn new(name: ServerName<'static>, config: Arc<ClientConfig>) -> Self {
        Self { name, config, begins: TlsBegins::AtOnce }
    }
}

/// When two sides begin to speak TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsBegins {
    /// With the first byte.
    #[default]
    AtOnce,
    /// Once the server has greeted in plain text, as NATS does.
    AfterGreeting,
}

/// A connection, or one on its way.
pub struct Link {
    /// The connection; of a Unix domain socket, too (`peer`).
    pub stream: TcpStream,
    is_tcp: bool,
    tls: Option<Box<ClientConnection>>,
    /// TLS that begins once the server has greeted.
    later: Option<Box<ClientConnection>>,
    /// Bytes that the session wants sent.
    pub out: Vec<u8>,
    sent: usize,
    /// Bytes of it that were handed on since somebody took this count; under TLS before encryption.
    pub handed_on: u64,
    /// How TLS was agreed on, from the moment on at which it was until somebody takes it.
    pub agreed: Option<Agreed>,
    /// Whether TLS is to be agreed on yet.
    to_agree: bool,
}

/// How two sides came to speak TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreed {
    /// By a full handshake.
    Anew,
    /// By taking up the session of an earlier connection.
    Resumed,
}

impl Link {
    /// Begins to connect.
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

    /// Returns whether the connection came about; an error says why it did not.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if !self.is_tcp {
            return Ok(true); // it was at once
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

    /// Has the next bytes written into `spare`, unless the connection has memory already.
    #[inline]
    pub fn borrow_memory(&mut self, spare: &mut Vec<u8>) {
        if self.out.capacity() == 0 {
            self.out = std::mem::take(spare);
        }
    }

    /// Gives the memory back once all is sent: that of the connection that sent last is in the CPU's cache, and
    /// thousands of connections need none of their own.
    #[inline]
    pub fn return_memory(&mut self, spare: &mut Vec<u8>) {
        if self.out.is_empty() && self.out.capacity() > 0 {
            *spare = std::mem::take(&mut self.out);
        }
    }

    /// Returns whether there may be anything to send.
    pub fn wants_flush(&self) -> bool {
        !self.out.is_empty() || self.tls.is_some()
    }

    /// Sends as much as the socket takes now.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
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

    /// Counts what was handed on, to the socket or to TLS, and forgets it.
    fn note_handed_on(&mut self) {
        self.handed_on += self.out.len() as u64;
        self.out.clear();
        self.sent = 0;
    }

    #[inline(never)]
    fn flush_tls(&mut self) -> io::Result<()> {
        while let Some(tls) = &mut self.tls {
            if self.sent < self.out.len() {
                // It may take less: until the socket has taken what TLS holds, it holds no more.
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

    /// Reads what is there: `None` when there is nothing now, 0 when the peer has ended.
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
        loop {
            let Some(tls) = &mut self.tls else { return Ok(None) };
            let result = match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match tls.read_tls(&mut self.stream) {
                        Ok(_) => {
                            let processed = tls.process_new_packets();
                            if let Err(error) = processed {
                                self.flush().ok(); // tell the peer why, if it can be told
                                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                            }
                            if self.to_agree {
                                self.note_agreement();
                            }
                            self.flush().ok(); // what was read counts first; the next flush fails again
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
    }

    /// Returns whether there is nothing to agree on, or TLS was agreed on.
    pub fn is_agreed(&self) -> bool {
        !self.to_agree
    }

    /// Returns whether TLS is to begin once the server has greeted.
    pub fn awaits_greeting(&self) -> bool {
        self.later.is_some()
    }

    /// Begins TLS. Nothing more is sent or read in plain text.
    pub fn begin_tls(&mut self) {
        self.tls = self.later.take();
    }

    fn note_agreement(&mut self) {
        let done = self.tls.as_ref().filter(|tls| !tls.is_handshaking());
        if let Some(kind) = done.and_then(|tls| tls.handshake_kind()) {
            self.to_agree = false;
            self.agreed = Some(match kind {
                HandshakeKind::Resumed => Agreed::Resumed,
                HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => Agreed::Anew,
            });
        }
    }

    /// Returns whether a read that filled less than its buffer has emptied the socket. Under TLS records
    /// may wait inside, so only the socket's own word counts.
    pub fn short_read_is_last(&self) -> bool {
        self.tls.is_none()
    }
}
