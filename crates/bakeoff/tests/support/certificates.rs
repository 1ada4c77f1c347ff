//! Creates certificates for test servers, and runs a server that uses them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A certificate authority and a server's certificate, as PEM files.
pub(crate) struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    /// Creates certificates for 127.0.0.1.
    pub(crate) fn new() -> Self {
        Self::for_address("127.0.0.1")
    }

    pub(crate) fn for_address(address: &str) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
        let dir = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            let certificate = params.self_signed(&key).unwrap();
            (certificate.pem(), Issuer::new(params, key))
        };
        let (ca, issuer) = authority("a test's authority");
        let (other, _) = authority("another authority");
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![address.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let files = [
            ("ca.pem", ca),
            ("other.pem", other),
            ("server.pem", certificate.pem()),
            ("server.key", key.serialize_pem()),
        ];
        for (name, pem) in files {
            std::fs::write(dir.path().join(name), pem).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a server that answers each request with `hello` over TLS.
    pub(crate) fn server(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        self.serve(listener, None);
        address
    }

    /// Starts the same server on a listener. With `clients` it accepts only clients with a certificate of the
    /// authority, and counts them; `None` accepts all.
    pub(crate) fn serve(&self, listener: TcpListener, clients: Option<Arc<AtomicU64>>) {
        let chain = || {
            let read = CertificateDer::pem_file_iter(self.path("server.pem")).unwrap();
            read.map(Result::unwrap).collect()
        };
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match &clients {
            None => builder.with_no_client_auth(),
            Some(_) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let config = Arc::new(builder.with_single_cert(chain(), key).unwrap());
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, clients) = (config.clone(), clients.clone());
                std::thread::spawn(move || {
                    let mut stream =
                        StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
                    let shown = stream.conn.complete_io(&mut stream.sock).is_ok()
                        && stream.conn.peer_certificates().is_some();
                    clients.iter().for_each(|clients| {
                        clients.fetch_add(u64::from(shown), Ordering::Relaxed);
                    });
                    accept(stream);
                });
            }
        });
    }
}

/// Answers requests without bodies until the client disconnects.
fn accept(mut stream: StreamOwned<ServerConnection, TcpStream>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
        if received.ends_with(b"\r\n\r\n") {
            received.clear();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}
