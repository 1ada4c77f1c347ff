//! Tests the addresses of a load's connections: Unix sockets, names with several addresses, names that change.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::load::{load, result};
use crate::support::{
    Bench, CommandOutput, array, bakeoff, can_unshare, skipped, text, unshared, wait_for,
};

/// Answers requests on a connection until it ends, and stores each request's head.
fn answer(mut connection: impl Read + Write, heads: &Mutex<Vec<String>>) {
    let mut request = [0; 4096];
    while let Ok(count @ 1..) = connection.read(&mut request) {
        heads.lock().unwrap().push(String::from_utf8_lossy(&request[..count]).into_owned());
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        if connection.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn unix_socket_load_keeps_the_url() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let seen = seen.clone();
            std::thread::spawn(move || answer(connection, &seen));
        }
    });
    let path = path.to_str().unwrap();
    // The name needs no address.
    let url = "http://app.invalid/items?page=1";
    for more in [&[][..], &["--no-keepalive"]] {
        let arguments = [&[url, "--unix-socket", path, "-n", "300", "-c", "30"][..], more].concat();
        let (result, _) = result(&arguments);
        assert_eq!((&result["verified"], &result["errors"]), (&json!(300), &json!({})), "{more:?}");
        let address = format!("unix:{path}");
        let used = json!([{"address": address, "name": null, "since_seconds": null}]);
        assert_eq!(result["addresses"], used);
        assert_eq!(result["settings"]["unix_socket"], path);
    }
    let heads = std::mem::take(&mut *heads.lock().unwrap());
    let asked = "GET /items?page=1 HTTP/1.1\r\nHost: app.invalid\r\n";
    assert_eq!(heads.iter().filter(|head| head.starts_with(asked)).count(), 600, "{:?}", heads[0]);

    let out = dir.path().to_str().unwrap();
    let ran = load(&[url, "--unix-socket", path, "-n", "100", "--out", out]).ends_with(0);
    assert!(ran.stdout.contains(&format!("over the Unix socket {path}")), "{}", ran.stdout);

    let missing = load(&[url, "--unix-socket", "/nowhere.sock", "-n", "1"]).ends_with(4);
    assert!(missing.stderr.contains("unix:/nowhere.sock: No such file"), "{}", missing.stderr);
    let both = [url, "--unix-socket", path, "--connect-to", "::127.0.0.1:1"];
    assert_eq!(load(&both).code, Some(2));
}

#[test]
fn full_unix_socket_queue_is_not_a_failure() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // At most two connections may wait to be accepted.
    rustix::net::listen(&listener, 1).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::sleep(Duration::from_millis(2));
            std::thread::spawn(move || answer(connection, &Mutex::default()));
        }
    });
    let path = path.to_str().unwrap();
    let (result, _) =
        result(&["http://app/", "--unix-socket", path, "-n", "200", "-c", "20", "--no-keepalive"]);
    assert_eq!((&result["verified"], &result["errors"]), (&json!(200), &json!({})));
}

/// A server at an address, until it is stopped.
struct Server {
    address: SocketAddr,
    gone: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            gone: Arc::default(),
            answered: Arc::default(),
            open: Arc::default(),
        };
        let (gone, answered) = (server.gone.clone(), server.answered.clone());
        let open = server.open.clone();
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                if gone.load(Ordering::Relaxed) {
                    return;
                }
                open.lock().unwrap().push(connection.try_clone().unwrap());
                let answered = answered.clone();
                std::thread::spawn(move || {
                    while let Ok(1..) = connection.read(&mut [0; 4096]) {
                        std::thread::sleep(Duration::from_millis(2));
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
                        if connection.write_all(answer).is_err() {
                            return;
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        server
    }

    /// Closes the listener and all connections.
    fn go(&self) {
        self.gone.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        for connection in self.open.lock().unwrap().drain(..) {
            drop(connection.shutdown(std::net::Shutdown::Both));
        }
    }
}

/// Returns bakeoff with this hosts file. `None` if this machine lacks the namespaces for it.
fn with_hosts(hosts: &Path) -> Option<Command> {
    let inside = |command: &Command| {
        let script = "mount --bind \"$HOSTS\" /etc/hosts && exec \"$@\"";
        let mut inside = unshared(&["--mount"], script, command);
        inside.env("HOSTS", hosts);
        inside
    };
    match can_unshare(&mut inside(&Command::new("true"))) {
        Ok(()) => Some(inside(&bakeoff())),
        Err(why) => {
            skipped(&why);
            None
        }
    }
}

/// Writes a name with these addresses.
fn list(hosts: &Path, addresses: &[&str]) {
    let lines = addresses.iter().map(|address| format!("{address} api.test\n"));
    std::fs::write(hosts, lines.collect::<String>()).unwrap();
}

#[test]
fn clients_follow_a_changed_name_during_the_load() {
    let dir = TempDir::new().unwrap();
    let hosts = dir.path().join("hosts");
    list(&hosts, &["127.0.0.1"]);
    let Some(mut command) = with_hosts(&hosts) else { return };
    let first = Server::start("127.0.0.1:0");
    let port = first.address.port();
    let second = Server::start(&format!("127.0.0.2:{port}"));
    command.args(["load", &format!("http://api.test:{port}/"), "-c", "4", "--for", "5s"]);
    command.args(["--warmup", "0s", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = command.spawn().unwrap();
    let answers = |server: &Server| server.answered.load(Ordering::Relaxed);
    wait_for("the load", Duration::from_secs(20), || answers(&first) > 20);
    first.go();
    // The name changes some time after its server is gone.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(answers(&second), 0);
    list(&hosts, &["127.0.0.9", "127.0.0.2"]);
    let ran = CommandOutput::from_output(begun.wait_with_output().unwrap());
    let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert!(answers(&second) > 100, "{ran:?}");
    let [before, after] = array(&result["addresses"]) else { panic!("{result:#}") };
    let name = format!("api.test:{port}");
    let at = |host: &str| format!("{host}:{port}");
    assert_eq!((text(&before["address"]), text(&before["name"])), (&*at("127.0.0.1"), &*name));
    assert_eq!((text(&after["address"]), text(&after["name"])), (&*at("127.0.0.2"), &*name));
    let since = after["since_seconds"].as_f64().unwrap();
    assert!((0.2..4.0).contains(&since), "{since} s");
}

#[test]
fn study_loads_all_addresses_of_a_name() {
    let dir = TempDir::new().unwrap();
    let hosts = dir.path().join("hosts");
    // Nothing listens at the second one.
    list(&hosts, &["127.0.0.1", "127.0.0.9", "127.0.0.2"]);
    let Some(mut command) = with_hosts(&hosts) else { return };
    let first = Server::start("127.0.0.1:0");
    let port = first.address.port();
    let second = Server::start(&format!("127.0.0.2:{port}"));
    let bench = Bench::new(&format!(
        "title: Mine\nsystems: {{mine: {{kind: http, endpoints: [\"http://api.test:{port}\"]}}}}\n\
         workloads: {{work: {{mix: {{request: 1}}, request: {{path: /}}}}}}\n\
         loads: {{load: {{clients: 4, warmup: 0s, stop: {{after: 1s}}}}}}\ntrials: 1\n"
    ));
    command.args(bench.command().get_args());
    CommandOutput::run(&mut command).ends_with(0);
    let record = bench.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    let names = [1, 2].map(|host| format!("api.test:{port} (127.0.0.{host})"));
    assert_eq!(trial["targets"], json!(names));
    let count = |server: &Server| server.answered.load(Ordering::Relaxed);
    assert!(count(&first) > 50 && count(&second) > 50, "{} {}", count(&first), count(&second));
}
