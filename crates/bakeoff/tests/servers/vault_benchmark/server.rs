//! Runs the Vaults of these tests, and sends them requests in plain text.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::{READY_WITHIN, TOKEN};
use crate::support::{array, text, wait_for};

/// A server with plain text access that shares no code with the tested engine.
pub(super) struct Plain {
    pub(super) address: SocketAddr,
    pub(super) token: String,
}

impl Plain {
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn try_ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut socket = TcpStream::connect_timeout(&self.address, Duration::from_secs(2)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (token, length) = (&self.token, body.len());
        let head = format!("X-Vault-Token: {token}\r\nContent-Length: {length}");
        write!(socket, "{method} /v1/{path} HTTP/1.0\r\n{head}\r\n\r\n{body}").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub(super) fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.try_ask(method, path, body).expect("the server answers");
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Returns the objects that a load can leave behind: mounts, auth methods, policies.
    pub(super) fn belongings(&self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["sys/mounts", "sys/auth"] {
            let answer = self.ask("GET", table, &Value::Null);
            let paths = answer["data"].as_object().unwrap().keys();
            all.extend(paths.map(|path| format!("{table}/{path}")));
        }
        let policies = self.ask("LIST", "sys/policies/acl", &Value::Null);
        all.extend(array(&policies["data"]["keys"]).iter().map(|name| text(name).to_owned()));
        all.sort();
        all
    }
}

/// A server process, killed when dropped.
pub(super) struct Process {
    child: Child,
    dir: tempfile::TempDir,
}

impl Process {
    pub(super) fn start(program: &Path, dir: tempfile::TempDir, arguments: &[String]) -> Self {
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let errors = log.try_clone().unwrap();
        let mut command = Command::new(program);
        command.arg("server").args(arguments).env("HOME", dir.path());
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().unwrap();
        Self { child, dir }
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

pub(super) fn plain(port: u16, token: &str) -> Plain {
    Plain { address: ([127, 0, 0, 1], port).into(), token: token.to_owned() }
}

/// Starts an unsealed server with in-memory storage.
pub(super) fn dev(program: &Path) -> (Process, Plain) {
    let [port] = free_ports();
    let arguments = [
        "-dev".to_owned(),
        "-dev-no-store-token".to_owned(),
        format!("-dev-root-token-id={TOKEN}"),
        format!("-dev-listen-address=127.0.0.1:{port}"),
    ];
    let process = Process::start(program, tempfile::tempdir().unwrap(), &arguments);
    let server = plain(port, TOKEN);
    wait_for("a server", READY_WITHIN, || {
        let own = server.try_ask("GET", "auth/token/lookup-self", &Value::Null);
        own.is_some_and(|(status, _)| status == 200)
    });
    (process, server)
}

/// The shared server of tests that leave it unchanged.
static SHARED: Mutex<Option<Process>> = Mutex::new(None);
static SHARED_AT: OnceLock<Plain> = OnceLock::new();

pub(super) fn shared(program: &Path) -> &'static Plain {
    SHARED_AT.get_or_init(|| {
        let (process, server) = dev(program);
        *SHARED.lock().unwrap() = Some(process);
        server
    })
}

/// Stops the shared server.
pub(crate) fn stop_shared() {
    drop(SHARED.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Initialises a server, and returns its root token and unseal key.
pub(super) fn initialise(server: &Plain) -> (String, String) {
    let body = json!({ "secret_shares": 1, "secret_threshold": 1 });
    let printed = server.ask("PUT", "sys/init", &body);
    (text(&printed["root_token"]).to_owned(), text(&printed["keys_base64"][0]).to_owned())
}

/// Starts three unsealed nodes with Raft storage; the first is the leader.
pub(super) fn three(program: &Path) -> Vec<(Process, Plain)> {
    let ports: [u16; 6] = free_ports();
    let address = |port: u16| format!("http://127.0.0.1:{port}");
    let retry: Vec<Value> =
        ports[..3].iter().map(|port| json!({ "leader_api_addr": address(*port) })).collect();
    let mut nodes: Vec<(Process, Plain)> = (0..3)
        .map(|number| {
            let (port, cluster) = (ports[number], ports[number + 3]);
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("data");
            std::fs::create_dir(&data).unwrap();
            let mut raft = json!({
                "path": data,
                "node_id": format!("n{number}"),
                "performance_multiplier": "1",
            });
            if number > 0 {
                raft["retry_join"] = json!(retry[..1]);
            }
            let listener = json!({
                "address": format!("127.0.0.1:{port}"),
                "cluster_address": format!("127.0.0.1:{cluster}"),
                "tls_disable": true,
            });
            let config = json!({
                "storage": { "raft": raft },
                "listener": { "tcp": listener },
                "disable_mlock": true,
                "api_addr": address(port),
                "cluster_addr": format!("https://127.0.0.1:{cluster}"),
            });
            let file = dir.path().join("server.json");
            std::fs::write(&file, config.to_string()).unwrap();
            let arguments = [format!("-config={}", file.display())];
            (Process::start(program, dir, &arguments), plain(port, ""))
        })
        .collect();
    let asked = |node: &Plain, path: &str| {
        node.try_ask("GET", path, &Value::Null).map_or(Value::Null, |(_, answer)| answer)
    };
    wait_for("three servers", READY_WITHIN, || {
        nodes.iter().all(|(_, node)| asked(node, "sys/seal-status")["sealed"] == true)
    });
    let (token, key) = initialise(&nodes[0].1);
    for (_, node) in &mut nodes {
        node.token.clone_from(&token);
    }
    for (_, node) in &nodes {
        wait_for("an open node", READY_WITHIN, || {
            node.try_ask("PUT", "sys/unseal", &json!({ "key": key }));
            asked(node, "sys/seal-status")["sealed"] == false
        });
    }
    wait_for("three votes", READY_WITHIN, || {
        let answer = asked(&nodes[0].1, "sys/storage/raft/configuration");
        let servers = array(&answer["data"]["config"]["servers"]);
        servers.len() == 3 && servers.iter().all(|server| server["voter"] == true)
    });
    wait_for("standbys that know their leader", READY_WITHIN, || {
        nodes.iter().all(|(_, node)| {
            node.try_ask("GET", "auth/token/lookup-self", &Value::Null)
                .is_some_and(|(status, _)| status == 200)
        })
    });
    nodes
}
