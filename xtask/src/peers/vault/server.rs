//! Runs a Vault or OpenBao that keeps everything in memory and starts unsealed (`-dev`).
//!
//! Not here: the requests (`super`, `traffic`).

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::peers::free_port;

/// Root token of the temporary server.
pub(super) const TOKEN: &str = "root";
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Variables that would point a program to another server.
const VARIABLES: [&str; 7] =
    ["ADDR", "TOKEN", "NAMESPACE", "CACERT", "CLIENT_CERT", "CLIENT_KEY", "SKIP_VERIFY"];

/// Removes variables from a command that would point it to another server.
pub(super) fn without_variables(command: &mut Command) {
    for prefix in ["VAULT", "BAO"] {
        for name in VARIABLES {
            command.env_remove(format!("{prefix}_{name}"));
        }
    }
}

/// A running server, stopped when dropped.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server without an audit device.
    pub(super) fn start(program: &Path) -> Result<Self, Failure> {
        Self::start_with(program, "")
    }

    /// Starts a server that writes every request unmasked to [`Self::audit_log`].
    pub(super) fn start_audited(program: &Path) -> Result<Self, Failure> {
        // OpenBao accepts audit devices only in its configuration, Vault only through its API.
        let version = Command::new(program).arg("version").output();
        let version = version.map_err(|error| format!("cannot run the server: {error}"))?;
        let of_openbao = version.stdout.starts_with(b"OpenBao");
        let device = "audit \"file\" \"raw\" {\n  options {\n    file_path = \"AUDIT\"\n    log_raw = \
                      \"true\"\n  }\n}\n";
        let server = Self::start_with(program, if of_openbao { device } else { "" })?;
        if !of_openbao {
            let path = server.audit_log();
            let body = serde_json::json!({
                "type": "file",
                "options": { "file_path": path, "log_raw": "true" },
            });
            let answer = server.ask("PUT", "sys/audit/raw", &body.to_string())?;
            if !answer.starts_with("HTTP/1.1 204") && !answer.starts_with("HTTP/1.0 204") {
                return Err(format!("the audit device was refused: {answer}"));
            }
        }
        Ok(server)
    }

    fn start_with(program: &Path, more: &str) -> Result<Self, Failure> {
        let cannot =
            |what: &str, error: std::io::Error| format!("cannot {what} for the server: {error}");
        let folder = tempfile::tempdir().map_err(|error| cannot("make a folder", error))?;
        let address = free_port()?;
        let log = folder.path().join("server.log");
        let config = folder.path().join("server.hcl");
        let audit = folder.path().join("audit.log");
        let text =
            "telemetry {\n  prometheus_retention_time = \"1h\"\n  disable_hostname = true\n}\n";
        let text = format!("{text}{}", more.replace("AUDIT", &audit.to_string_lossy()));
        fs::write(&config, text).map_err(|error| cannot("write a configuration", error))?;
        let file = fs::File::create(&log).map_err(|error| cannot("write a log", error))?;
        let errors = file.try_clone().map_err(|error| cannot("write a log", error))?;
        let mut command = Command::new(program);
        without_variables(&mut command);
        let child = command
            .args(["server", "-dev", "-dev-no-store-token"])
            .arg(format!("-dev-root-token-id={TOKEN}"))
            .arg(format!("-dev-listen-address={address}"))
            .arg(format!("-config={}", config.display()))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| cannot("run a program", error))?;
        let mut server = Self { child, address, folder };
        let until = Instant::now() + READY_WITHIN;
        // The server creates the token last.
        let ready = |server: &Self| {
            let asked = server.ask("GET", "auth/token/lookup-self", "");
            asked.is_ok_and(|answer| answer.contains(" 200 "))
        };
        while !ready(&server) {
            let ended = server.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || Instant::now() > until {
                let printed = fs::read_to_string(&log).unwrap_or_default();
                let last = printed.lines().last().unwrap_or_default();
                return Err(format!("the server did not start; log: {last}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Returns the URL: `http://127.0.0.1:8200`.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// Returns the server's own count of handled requests.
    pub(super) fn handled(&self) -> Result<u64, Failure> {
        let metrics = self.ask("GET", "sys/metrics?format=prometheus", "")?;
        let counts = metrics.lines().filter_map(|line| {
            let rest = line.strip_prefix("vault_core_handle_request_count")?;
            rest.rsplit(' ').next()?.parse::<f64>().ok()
        });
        let counts: Vec<f64> = counts.collect();
        if counts.is_empty() {
            return Err("the server reports no number of requests".into());
        }
        Ok(counts.iter().sum::<f64>() as u64)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String, Failure> {
        let asked = || {
            let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(2))?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            let length = body.len();
            write!(
                stream,
                "{method} /v1/{path} HTTP/1.0\r\nX-Vault-Token: {TOKEN}\r\nContent-Length: {length}\r\n\r\n{body}"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        asked().map_err(|error: std::io::Error| format!("{method} {path}: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
