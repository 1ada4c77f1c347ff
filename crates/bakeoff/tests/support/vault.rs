//! Runs a Vault that bakeoff did not start.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::case::cached;
use super::{array, text, wait_for};

/// A server with in-memory storage, neither initialised nor unsealed.
pub(crate) struct Vault {
    process: Child,
    pub(crate) port: u16,
    /// Port of TLS, if it uses TLS.
    pub(crate) tls_port: u16,
    _dir: tempfile::TempDir,
}

impl Vault {
    /// Starts the Vault that `bakeoff install` cached.
    pub(crate) fn start(certificate: Option<(&Path, &Path)>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, tls_port, cluster] = held.map(|listener| listener.local_addr().unwrap().port());
        let at = |port: u16| format!("127.0.0.1:{port}");
        let plain =
            json!({"address": at(port), "cluster_address": at(cluster), "tls_disable": true});
        let mut listeners = vec![json!({ "tcp": plain })];
        if let Some((cert, key)) = certificate {
            let tls = json!({"address": at(tls_port), "tls_cert_file": cert, "tls_key_file": key});
            listeners.push(json!({ "tcp": tls }));
        }
        let config = json!({
            "storage": {"inmem": {}},
            "listener": listeners,
            "api_addr": format!("http://{}", at(port)),
            "disable_mlock": true,
        });
        let file = dir.path().join("config.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new(cached("vault"));
        command.arg("server").arg("-config").arg(&file).stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut vault = Self { process, port, tls_port, _dir: dir };
        wait_for("Vault", Duration::from_secs(30), || {
            assert!(vault.process.try_wait().unwrap().is_none(), "Vault ended by itself");
            ask(vault.port, "GET", "sys/seal-status", None, None).is_some()
        });
        vault
    }

    /// Returns the root token and the unseal key.
    pub(crate) fn initialise(&self) -> (String, String) {
        let body = json!({"secret_shares": 1, "secret_threshold": 1});
        let (_, output) = self.ask("PUT", "sys/init", None, Some(&body));
        (text(&output["root_token"]).to_owned(), text(&array(&output["keys_base64"])[0]).to_owned())
    }

    pub(crate) fn unseal(&self, key: &str) {
        let (status, output) = self.ask("PUT", "sys/unseal", None, Some(&json!({ "key": key })));
        assert_eq!((status, &output["sealed"]), (200, &json!(false)), "{output}");
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> (u16, Value) {
        ask(self.port, method, path, token, body).expect("Vault answers")
    }

    /// Returns the mounts and the policies.
    pub(crate) fn made(&self, token: &str) -> Vec<String> {
        let mut made = Vec::new();
        for path in ["sys/mounts", "sys/auth"] {
            let (_, output) = self.ask("GET", path, Some(token), None);
            made.extend(output["data"].as_object().unwrap().keys().cloned());
        }
        let (_, output) = self.ask("LIST", "sys/policies/acl", Some(token), None);
        made.extend(array(&output["data"]["keys"]).iter().map(|name| text(name).to_owned()));
        made
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a minimal request that shares no code with the tested engine.
pub(crate) fn ask(
    port: u16,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> Option<(u16, Value)> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let token = token.map(|token| format!("X-Vault-Token: {token}\r\n")).unwrap_or_default();
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let head = format!("{method} /v1/{path} HTTP/1.0\r\n{token}Content-Length: {length}\r\n\r\n");
    socket.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}
