//! Removes the namespace of a run when its coordinator is gone: a pod asks the API server for it, by its own account.
//!
//! The account may delete this one namespace and nothing else. The right is tried when the run begins, so that a
//! cluster that does not give it is told of while somebody reads.
//!
//! Not here: the account and its role (`manifests`), when a coordinator is gone (`bakeoff_agent`).

use std::fs;
use std::io;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_agent::AgentRefusal;
use bakeoff_clock as clock;
use bakeoff_engine::asking::BlockingConnection;
use bakeoff_engine::tls::{TlsTexts, Trust};
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::http::tls_target;
use bakeoff_wire::http1::Request;

/// Where Kubernetes puts an account's token and the authority of the API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long one request may take, how long all of them, and the pause between two.
const PATIENCE: Duration = Duration::from_secs(5);
const TRIED_FOR: Duration = Duration::from_secs(40);
const TRIED_FIRST_FOR: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(500);

/// The right to remove a namespace, and the way to the API server.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    namespace: String,
    account: PathBuf,
    server: (String, u16),
}

impl Keeper {
    /// Takes the right to remove a namespace from the pod that this is.
    ///
    /// # Errors
    /// When it may not be removed, or the API server is not reached.
    pub(crate) fn in_pod(namespace: &str) -> Result<Self, AgentRefusal> {
        let word = |name: &str| std::env::var(name).ok();
        let host =
            word("KUBERNETES_SERVICE_HOST").ok_or_else(|| AgentRefusal::new("this is no pod"))?;
        let port = word("KUBERNETES_SERVICE_PORT").and_then(|port| port.parse().ok());
        let keeper = Self {
            namespace: namespace.to_owned(),
            account: ACCOUNT.into(),
            server: (host, port.unwrap_or(443)),
        };
        // A role of a moment ago may not have reached the server that is asked.
        keeper.delete("?dryRun=All", TRIED_FIRST_FOR)?;
        Ok(keeper)
    }

    /// Removes the namespace, and with it the pod that this is.
    ///
    /// # Errors
    /// When it cannot be, in all the time that there is.
    pub(crate) fn remove(&self) -> Result<(), AgentRefusal> {
        self.delete("", TRIED_FOR)
    }

    fn delete(&self, query: &str, within: Duration) -> Result<(), AgentRefusal> {
        let until = clock::now() + within;
        loop {
            let why = match self.ask(query) {
                // Gone already, or on its way.
                Ok((200 | 202 | 404 | 409, _)) => return Ok(()),
                Ok((status, body)) => format!("the API server answered {status}: {body}"),
                Err(error) => format!("the API server is not reached: {error}"),
            };
            if clock::now() >= until {
                return Err(AgentRefusal::new(why));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask(&self, query: &str) -> io::Result<(u16, String)> {
        let (host, port) = (&*self.server.0, self.server.1);
        let token = text(&self.account.join("token"))?;
        let authority = text(&self.account.join("ca.crt"))?;
        let trusted = TlsTexts::trusting(&authority);
        let config = trusted.options().client_config(Trust::Nobody, &[]);
        let config = config.map_err(io::Error::other)?;
        let address = (host, port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("it has no address"))?;
        let tls = Some(tls_target(host, &config).map_err(io::Error::other)?);
        let mut connection = BlockingConnection::connect(&Target { address, tls }, PATIENCE)?;
        let until = clock::now() + PATIENCE;
        let go_on = || match clock::now() < until {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        };
        let request = Request {
            method: "DELETE",
            target: &format!("/api/v1/namespaces/{}{query}", self.namespace),
            headers: &[
                ("host", &address.to_string()),
                ("authorization", &format!("Bearer {}", token.trim())),
                ("accept", "application/json"),
            ],
            body: b"",
            expect_continue: false,
        };
        let reply = connection.ask(&request, &go_on)?;
        Ok((reply.status, String::from_utf8_lossy(&reply.body).chars().take(300).collect()))
    }
}

fn text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
