//! Sends blocking HTTP/1.1 requests outside of the load.
//!
//! Set-up, probes and clean-up use it. It shares the load clients' TLS configuration ([`Target`]) and supports
//! methods such as LIST. General HTTP clients lack both.
//!
//! Not here: the measured loop (crate root), protocols other than HTTP, downloads (`bakeoff-install`).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_wire::Busy;
use bakeoff_wire::http1::{Connection, Headers, Limits, Request, Response};
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, SignatureScheme};

use crate::routes;
use crate::transport::{Target, TlsTarget};

/// Interval between cancellation checks.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time that a server has to refuse a client certificate after the handshake.
const REFUSES_WITHIN: Duration = Duration::from_secs(1);

/// Holds a server's answer.
#[derive(Debug)]
pub struct HttpReply {
    /// Final status, never 1xx.
    pub status: u16,
    /// Head, including the status line.
    pub head: Vec<u8>,
    /// Body without its transfer coding.
    pub body: Vec<u8>,
    /// Length of the body in bytes. Bytes beyond [`Limits::kept_body`] are counted and dropped.
    pub length: usize,
}

impl HttpReply {
    /// Returns the value of a header field.
    pub fn header(&self, name: &str) -> Option<String> {
        let value = Headers { head: &self.head }.get(name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Keeps one connection to a server across requests.
pub struct BlockingConnection {
    socket: TcpStream,
    tls: Option<ClientConnection>,
    connection: Connection,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl BlockingConnection {
    /// Connects, waiting up to `within`.
    pub fn connect(target: &Target, within: Duration) -> io::Result<Self> {
        let socket = routes::connect(target.address, within)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        socket.set_write_timeout(Some(LOOK_EVERY))?;
        let tls = target.tls.as_ref().map(client).transpose()?;
        Ok(Self { socket, tls, connection: Connection::new(Limits::default()) })
    }

    /// Limits response bodies to `max_body` bytes. Call it before the first request.
    pub fn with_body_max(mut self, max_body: usize) -> Self {
        self.connection = Connection::new(Limits { max_body, ..Limits::default() });
        self
    }

    /// Returns true if the connection accepts another request.
    pub fn is_usable(&self) -> bool {
        self.connection.is_ready()
    }

    /// Sends a request and waits for its answer. Calls `go_on` every [`LOOK_EVERY`]; an error from it ends the wait.
    pub fn ask(
        &mut self,
        request: &Request<'_>,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<HttpReply> {
        self.exchange(|connection, out| connection.request(request, out), go_on)
    }

    /// Sends a complete message and waits for its answer, as [`Self::ask`] does.
    pub fn ask_raw(
        &mut self,
        message: &[u8],
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<HttpReply> {
        self.exchange(|connection, out| connection.send_raw(false, message, out), go_on)
    }

    fn exchange(
        &mut self,
        write: impl FnOnce(&mut Connection, &mut Vec<u8>) -> Result<(), Busy>,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<HttpReply> {
        let mut out = Vec::new();
        write(&mut self.connection, &mut out).map_err(io::Error::other)?;
        let mut stream: Box<dyn Stream + '_> = match &mut self.tls {
            None => Box::new(&mut self.socket),
            Some(tls) => Box::new(rustls::Stream::new(tls, &mut self.socket)),
        };
        let mut sent = 0;
        while sent < out.len() {
            match stream.write(&out[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if is_pause(&error) => go_on()?,
                Err(error) => return Err(error),
            }
        }
        loop {
            match stream.flush() {
                Ok(()) => break,
                Err(error) if is_pause(&error) => go_on()?,
                Err(error) => return Err(error),
            }
        }
        let mut answer = None;
        let mut take = |response: Response<'_>| {
            answer = Some(HttpReply {
                status: response.status,
                head: response.headers.head.to_vec(),
                body: response.body.to_vec(),
                length: response.length,
            });
        };
        let mut buffer = vec![0; 64 << 10];
        let mut more = Vec::new();
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => {
                    self.connection.closed(&mut take).map_err(io::Error::other)?;
                    break;
                }
                Ok(count) => {
                    let input = &buffer[..count];
                    self.connection
                        .receive(input, &mut more, &mut take)
                        .map_err(io::Error::other)?;
                    if self.connection.is_ready() || self.connection.is_over() {
                        break;
                    }
                    // A server that keeps sending small pieces never causes a read timeout.
                    go_on()?;
                }
                Err(error) if is_pause(&error) => go_on()?,
                Err(error) => return Err(error),
            }
        }
        answer.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }
}

/// Returns true if the error only means that nothing has arrived yet.
fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn client(tls: &TlsTarget) -> io::Result<ClientConnection> {
    ClientConnection::new(tls.config.clone(), tls.name.clone()).map_err(io::Error::other)
}

/// Provides the client's certificate and remembers if the server requested it.
#[derive(Debug)]
struct CertificateRequest {
    own: Arc<dyn ResolvesClientCert>,
    seen: AtomicBool,
}

impl ResolvesClientCert for CertificateRequest {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.seen.store(true, Ordering::Relaxed);
        self.own.resolve(issuers, schemes)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.own.only_raw_public_keys()
    }

    fn has_certs(&self) -> bool {
        self.own.has_certs()
    }
}

/// Runs a TLS handshake on a connection; each read or write may take up to `within`. Returns the TLS session.
///
/// In TLS 1.3 a client finishes before the server checks its certificate (RFC 8446 section 2). A server that
/// requested one therefore gets a second to refuse it.
///
/// # Errors
/// Returns errors of the connection, and [`rustls::Error`] if the handshake fails.
pub fn shake_hands(
    socket: &mut TcpStream,
    tls: &TlsTarget,
    within: Duration,
) -> io::Result<ClientConnection> {
    socket.set_read_timeout(Some(within))?;
    socket.set_write_timeout(Some(within))?;
    let own = Arc::clone(&tls.config.client_auth_cert_resolver);
    let request = Arc::new(CertificateRequest { own, seen: AtomicBool::new(false) });
    let mut config = ClientConfig::clone(&tls.config);
    config.client_auth_cert_resolver = request.clone();
    let mut connection =
        ClientConnection::new(Arc::new(config), tls.name.clone()).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    let is_over = connection.protocol_version() != Some(ProtocolVersion::TLSv1_3);
    if !is_over && request.seen.load(Ordering::Relaxed) {
        wait_for_refusal(socket, &mut connection)?;
        socket.set_read_timeout(Some(within))?;
    }
    Ok(connection)
}

/// Waits for the server's first message after the handshake, which may come in pieces. Most servers send session
/// tickets to clients they accept.
fn wait_for_refusal(socket: &mut TcpStream, connection: &mut ClientConnection) -> io::Result<()> {
    let until = clock::now() + REFUSES_WITHIN;
    loop {
        let state = connection.process_new_packets().map_err(io::Error::other)?;
        let is_taken =
            connection.tls13_tickets_received() > 0 || state.plaintext_bytes_to_read() > 0;
        let left = until.saturating_duration_since(clock::now());
        if is_taken || left.is_zero() {
            return Ok(());
        }
        socket.set_read_timeout(Some(left))?;
        match connection.read_tls(socket) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection};

    use super::*;
    use crate::tls::{Authority, LOOPBACK};

    /// Starts a server that answers these requests on its first connection and then hangs up.
    fn server(answers: &'static [&'static str]) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            for answer in answers {
                let count = socket.read(&mut [0; 4096]).unwrap();
                assert!(count > 0);
                socket.write_all(answer.as_bytes()).unwrap();
            }
            let _ = socket.read(&mut [0; 4096]).unwrap(); // the request without an answer
        });
        Target { address, tls: None }
    }

    const REQUEST: Request<'_> =
        Request { method: "LIST", target: "/", headers: &[], body: b"", expect_continue: false };

    fn ask(line: &mut BlockingConnection) -> io::Result<HttpReply> {
        line.ask(&REQUEST, &|| Ok(()))
    }

    #[test]
    fn connection_is_kept_until_the_server_hangs_up() {
        let target = server(&[
            "HTTP/1.1 307 Elsewhere\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nno",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes",
        ]);
        let mut line = BlockingConnection::connect(&target, Duration::from_secs(5)).unwrap();
        let first = ask(&mut line).unwrap();
        assert_eq!((first.status, first.header("location").as_deref()), (307, Some("/x")));
        assert!(line.is_usable());
        assert_eq!(ask(&mut line).unwrap().body, b"yes");
        assert!(ask(&mut line).is_err(), "nothing came");
    }

    /// Starts a TLS 1.3 server that requires a certificate and sends its refusal in pieces.
    fn server_with_verifier(authority: &Authority) -> Target {
        let identity = authority.server(LOOPBACK).unwrap();
        let certificate = CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_nodelay(true).unwrap();
            let mut server = ServerConnection::new(Arc::new(config)).unwrap();
            let mut has_greeted = false;
            while server.read_tls(&mut socket).unwrap_or(0) > 0 {
                let ended = server.process_new_packets().is_err();
                let mut bytes = Vec::new();
                while server.wants_write() {
                    server.write_tls(&mut bytes).unwrap();
                }
                let pieces = if has_greeted { 3 } else { bytes.len().max(1) };
                has_greeted = has_greeted || !bytes.is_empty();
                for piece in bytes.chunks(pieces) {
                    socket.write_all(piece).unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
                if ended {
                    break;
                }
            }
        });
        let name = "127.0.0.1".try_into().unwrap();
        let config = authority.client_config(&[b"http/1.1"]).unwrap();
        Target { address, tls: Some(TlsTarget::new(name, config)) }
    }

    #[test]
    fn refusal_after_the_handshake_is_found_in_pieces() {
        let target = server_with_verifier(&Authority::new().unwrap());
        let mut socket = TcpStream::connect(target.address).unwrap();
        let shaken = shake_hands(&mut socket, &target.tls.unwrap(), Duration::from_secs(5));
        let refusal = shaken.unwrap_err().to_string();
        assert!(refusal.contains("CertificateRequired"), "{refusal}");
    }

    #[test]
    fn caller_can_cancel_while_no_answer_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target { address: listener.local_addr().unwrap(), tls: None };
        let mut line = BlockingConnection::connect(&target, Duration::from_secs(5)).unwrap();
        let enough = || Err(io::Error::other("enough"));
        let given_up = line.ask_raw(b"GET / HTTP/1.1\r\n\r\n", &enough).unwrap_err();
        assert_eq!(given_up.to_string(), "enough");
    }
}
