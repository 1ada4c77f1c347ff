//! Runs an NGINX that answers everything with six bytes, and reads its counters.
//!
//! It has one worker on one CPU, keeps connections open for ever, logs nothing, and keeps its files in a temporary
//! folder. It serves HTTP/1.1 plain and over TLS, and HTTP/2 without TLS, each on a separate port, so that no tool
//! negotiates a protocol. TLS is 1.3 with one cipher for all. Otherwise Go's programs would choose a cheaper one than
//! wrk's OpenSSL.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::fetch::Program;
use super::super::{free_port, get, make_dir, measure};
use crate::Failure;

const READY_WITHIN: Duration = Duration::from_secs(10);
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
const BODY: &str = "hello.";

/// A running NGINX, stopped when dropped.
pub(crate) struct Nginx {
    child: Child,
    worker: u32,
    pub(crate) plain: SocketAddr,
    pub(super) tls: SocketAddr,
    pub(super) http2: SocketAddr,
    status: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Nginx {
    /// Starts NGINX on the CPU that this thread is pinned to, for up to `connections` at once. `before` is a prefix
    /// for its command.
    pub(crate) fn start(
        program: &Program,
        before: &[&str],
        connections: u64,
    ) -> Result<Self, Failure> {
        let dir = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let at = dir.path();
        make_dir(&at.join("temp"))?;
        certificate(at)?;
        let [plain, tls, http2, status] = [free_port()?, free_port()?, free_port()?, free_port()?];
        let config = at.join("nginx.conf");
        let text = config_text(&at.display().to_string(), connections, [plain, tls, http2, status]);
        fs::write(&config, text).map_err(|error| format!("cannot write a file: {error}"))?;
        let log = at.join("nginx.log");
        let file =
            fs::File::create(&log).map_err(|error| format!("cannot write a log: {error}"))?;
        let mut words = before.iter().copied().map(std::ffi::OsStr::new).collect::<Vec<_>>();
        words.push(program.path().as_os_str());
        let mut command = program.prepare(Command::new(words[0]));
        command.args(&words[1..]).arg("-p").arg(at).arg("-c").arg(&config);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|error| format!("cannot run NGINX: {error}"))?;
        let mut nginx = Self { child, worker: 0, plain, tls, http2, status, _dir: dir };
        let until = Instant::now() + READY_WITHIN;
        loop {
            match nginx.requests().and_then(|_| nginx.find_worker()) {
                Ok(worker) => {
                    nginx.worker = worker;
                    return Ok(nginx);
                }
                Err(error) if Instant::now() > until => {
                    let output = fs::read_to_string(&log).unwrap_or_default();
                    return Err(format!("NGINX is not ready: {error}\n  log: {}", output.trim()));
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Returns NGINX's count of requests, including this one.
    pub(super) fn requests(&self) -> Result<u64, Failure> {
        requests(&get(self.status, "/")?)
            .ok_or_else(|| "NGINX reports no number of requests".into())
    }

    /// Returns the CPU time of the worker since its start.
    pub(super) fn cpu(&self) -> Duration {
        measure::cpu_of(self.worker).map_or(Duration::ZERO, |(user, system)| user + system)
    }

    fn find_worker(&self) -> Result<u32, Failure> {
        let master = self.child.id();
        let children = format!("/proc/{master}/task/{master}/children");
        let children = fs::read_to_string(&children).unwrap_or_default();
        let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        first.ok_or_else(|| "it has no worker".into())
    }
}

impl Drop for Nginx {
    /// Stops the master with a signal first: killing it would leave its worker.
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        let until = Instant::now() + STOPPED_WITHIN;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the third number of the line below `server accepts handled requests`.
fn requests(answer: &str) -> Option<u64> {
    let mut lines = answer.lines();
    lines.find(|line| line.starts_with("server accepts handled requests"))?;
    lines.next()?.split_whitespace().nth(2)?.parse().ok()
}

fn config_text(dir: &str, connections: u64, listen: [SocketAddr; 4]) -> String {
    let [plain, tls, http2, status] = listen;
    // NGINX closes idle connections when less than a sixteenth of the slots is free.
    let slots = connections + connections / 8 + 64;
    // Each connection needs a file, and so do listeners and logs.
    let files = slots + 64;
    let answer = format!("location / {{ default_type text/plain; return 200 \"{BODY}\"; }}");
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("  {what}_temp_path {dir}/temp/{what};\n"))
        .concat();
    format!(
        "daemon off;\nworker_processes 1;\nworker_rlimit_nofile {files};\npid {dir}/nginx.pid;\n\
         error_log stderr error;\nevents {{ worker_connections {slots}; multi_accept on; use epoll; }}\nhttp {{\n  \
         access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n{paths}  \
         ssl_certificate {dir}/cert.pem;\n  ssl_certificate_key {dir}/key.pem;\n  \
         ssl_protocols TLSv1.3;\n  ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;\n  \
         server {{ listen {plain} backlog=16384; {answer} }}\n  \
         server {{ listen {tls} ssl backlog=16384; {answer} }}\n  \
         server {{ listen {http2} http2 backlog=16384; {answer} }}\n  \
         server {{ listen {status}; location / {{ stub_status; }} }}\n}}\n"
    )
}

/// Writes a certificate for loopback. Clients do not verify it.
fn certificate(dir: &Path) -> Result<(), Failure> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| format!("cannot make a certificate: {error}"))?;
    let write = |name: &str, text: String| {
        fs::write(dir.join(name), text).map_err(|error| format!("cannot write `{name}`: {error}"))
    };
    write("cert.pem", made.cert.pem())?;
    write("key.pem", made.signing_key.serialize_pem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_third_number_of_nginxs_status() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 97\r\n\r\nActive connections: 1 \n\
            server accepts handled requests\n 12 13 4567 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(requests(answer), Some(4567));
        assert_eq!(requests("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }
}
