//! Fetches a file over HTTP, with limits on its time and size.
//!
//! A closed network must cost seconds, not minutes, because the next source may need no network. The transfer runs on
//! its own thread, so the user can interrupt it even if the server sends nothing.
//!
//! Not here: checking the bytes (`archive`).

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::error::SourceError;
use super::refusal::short;
use super::tool::Watcher;

/// Limits on the time and size of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connect: Duration,
    /// From the request to the response's head, and between two pieces of its body.
    pub(super) silence: Duration,
    pub(super) total: Duration,
    pub(super) size_bytes: u64,
}

impl Limits {
    /// Limits for an archive.
    pub(super) const ARCHIVE: Limits = Limits {
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(20),
        total: Duration::from_secs(1200),
        size_bytes: 512 << 20,
    };
    /// Limits for a file of checksums, or a page of the package index.
    pub(super) const CHECKSUMS: Limits =
        Limits { total: Duration::from_secs(60), size_bytes: 1 << 20, ..Limits::ARCHIVE };
}

const POLL: Duration = Duration::from_millis(100);
const SAY_EVERY: Duration = Duration::from_secs(15);

/// Downloads `url` into `sink` and returns the size in bytes. `direct`: uses no proxy.
pub(super) fn download(
    url: &str,
    direct: bool,
    limits: Limits,
    sink: &mut dyn Write,
    watcher: &mut Watcher<'_>,
) -> Result<u64, SourceError> {
    let failed = |why: &str| SourceError::failed(format!("GET {url}: {why}"));
    // The channel is small, so the transfer soon stops if the receiver is gone.
    let (send, pieces) = sync_channel::<Result<Vec<u8>, TransferError>>(4);
    let address = url.to_owned();
    let transfer = move || {
        let outcome = transfer(&address, direct, limits, &mut |piece| send.send(Ok(piece)).is_ok());
        // An empty piece marks the end. Without it, a crash of the thread would look like the end.
        let _ = send.send(outcome.map(|()| Vec::new()));
    };
    let spawned = thread::Builder::new().name("download".to_owned()).spawn(transfer);
    spawned.map_err(|e| failed(&format!("cannot start a thread: {e}")))?;
    let (mut received, mut waited, mut silent, mut reported_at) =
        (0_u64, Duration::ZERO, Duration::ZERO, Duration::ZERO);
    loop {
        if watcher.stopped() {
            return Err(SourceError::Interrupted);
        }
        match pieces.recv_timeout(POLL) {
            Ok(Ok(piece)) if piece.is_empty() => return Ok(received),
            Ok(Ok(piece)) => {
                silent = Duration::ZERO;
                received += piece.len() as u64;
                if received > limits.size_bytes {
                    return Err(failed(&format!(
                        "it exceeds the limit of {} bytes",
                        limits.size_bytes
                    )));
                }
                sink.write_all(&piece)
                    .map_err(|e| failed(&format!("cannot write the file: {e}")))?;
            }
            Ok(Err(error)) => return Err(failed(&error.to_string())),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("the transfer ended unexpectedly"));
            }
            Err(RecvTimeoutError::Timeout) => {
                waited += POLL;
                silent += POLL;
                // Resolving and connecting have their own limits, and end first.
                if silent > limits.silence + limits.connect {
                    return Err(failed(&format!("no data for {}", short(silent))));
                }
                if waited - reported_at >= SAY_EVERY {
                    reported_at = waited;
                    watcher.goes_on(&format!("downloading: {} MiB so far", received >> 20));
                }
            }
        }
    }
}

/// Reason why a transfer failed.
#[derive(Debug, thiserror::Error)]
enum TransferError {
    /// No connection, no response, or a status that is not success.
    #[error(fmt = refused)]
    Refused(#[source] ureq::Error),
    #[error("its {announced} bytes exceed the limit of {allowed} bytes")]
    TooLarge { announced: u64, allowed: u64 },
    #[error("broke off after {received} bytes: {error}")]
    BrokeOff {
        received: u64,
        #[source]
        error: io::Error,
    },
    #[error("ended after {received} of {announced} bytes")]
    Short { received: u64, announced: u64 },
}

fn refused(error: &ureq::Error, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        ureq::Error::StatusCode(status) => write!(to, "returned {status}"),
        error => write!(to, "{error}"),
    }
}

/// Returns the machine's certificate authorities, as curl and pip use. A machine without any, such as a minimal Debian,
/// gets those built into bakeoff.
fn authorities() -> RootCerts {
    let found = rustls_native_certs::load_native_certs().certs;
    let machine: Vec<_> = found.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    match machine.is_empty() {
        true => RootCerts::WebPki,
        false => RootCerts::new_with_certs(&machine),
    }
}

/// Runs the transfer until it ends or `take` returns false.
fn transfer(
    url: &str,
    direct: bool,
    limits: Limits,
    take: &mut dyn FnMut(Vec<u8>) -> bool,
) -> Result<(), TransferError> {
    let mut config = ureq::Agent::config_builder()
        .timeout_resolve(Some(limits.connect))
        .timeout_connect(Some(limits.connect))
        .timeout_recv_response(Some(limits.silence))
        .timeout_per_read(Some(limits.silence))
        .timeout_global(Some(limits.total))
        .max_redirects(5)
        .tls_config(TlsConfig::builder().root_certs(authorities()).build())
        // A redirect must not lead from an authenticated host to an unauthenticated one.
        .https_only(url.starts_with("https://"))
        .user_agent(concat!("bakeoff/", env!("CARGO_PKG_VERSION")));
    if direct {
        config = config.proxy(None);
    }
    let agent: ureq::Agent = config.build().into();
    let response = agent.get(url).call().map_err(TransferError::Refused)?;
    let announced = response.body().content_length();
    if let Some(size) = announced.filter(|size| *size > limits.size_bytes) {
        return Err(TransferError::TooLarge { announced: size, allowed: limits.size_bytes });
    }
    let mut body = response.into_body().into_reader();
    let mut received = 0_u64;
    loop {
        let mut piece = vec![0; 1 << 16];
        let n =
            body.read(&mut piece).map_err(|error| TransferError::BrokeOff { received, error })?;
        if n == 0 {
            break;
        }
        received += n as u64;
        piece.truncate(n);
        if !take(piece) {
            return Ok(());
        }
    }
    match announced {
        Some(size) if size != received => Err(TransferError::Short { received, announced: size }),
        _ => Ok(()),
    }
}
