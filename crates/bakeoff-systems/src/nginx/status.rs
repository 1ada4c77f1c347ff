//! Reads an NGINX's `stub_status` from its status port.

use std::net::SocketAddr;

use bakeoff_engine::transport::Target;

use crate::http_session::ask;
use crate::{Access, SystemError};

/// Address of an NGINX's status server.
pub(crate) struct Status(pub(crate) Target);

impl Status {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self(Target { address, tls: None })
    }

    /// Returns the number of requests since the start, status requests included. Fails on an unexpected answer.
    pub(crate) fn requests(&self, node: &Access) -> Result<u64, SystemError> {
        let reply = self.ask(node, "/status")?;
        requests_in(&reply)
            .ok_or_else(|| format!("`{}`: its status is `{}`", node.name, reply.trim()).into())
    }

    /// Returns the answer at a path of the status server. Fails with the answer's body unless it is a success.
    pub(crate) fn ask(&self, node: &Access, path: &str) -> Result<String, SystemError> {
        let (status, body) = self.answer(node, path)?;
        match status {
            200 => Ok(body),
            status => {
                Err(format!("`{}` answered {path} with {status}: {}", node.name, body.trim())
                    .into())
            }
        }
    }

    /// Returns status and body of the answer at a path of the status server.
    pub(crate) fn answer(&self, node: &Access, path: &str) -> Result<(u16, String), SystemError> {
        let access = Access {
            authority: self.0.address.to_string(),
            target: self.0.clone(),
            ..node.clone()
        };
        ask(&access, "GET", path)
    }
}

/// Returns the third number of the line below `server accepts handled requests`.
fn requests_in(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    lines.find(|line| line.trim() == "server accepts handled requests")?;
    lines.next()?.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_third_number() {
        let status = "Active connections: 2 \nserver accepts handled requests\n 5 4 17 \nReading: 0 \
                      Writing: 1 Waiting: 1 \n";
        assert_eq!(requests_in(status), Some(17));
        for broken in ["", "server accepts handled requests\n", "<html>\n5 4 17\n"] {
            assert_eq!(requests_in(broken), None, "{broken}");
        }
    }

    #[test]
    fn no_status_panics() {
        let status: &[u8] = b"Active connections: 2 \nserver accepts handled requests\n 5 4 17 \n";
        bakeoff_fuzz::run("nginx", &[status], &["\n", "requests", " "], |input| {
            requests_in(&String::from_utf8_lossy(input));
        });
    }
}
