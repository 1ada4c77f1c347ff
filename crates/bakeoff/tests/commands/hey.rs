//! Tests `bakeoff hey` as a user of hey runs it, against scripted servers.
//!
//! Not here: parsing of options and exact layout of the summary (`bakeoff_compat::hey`), and hey itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::canary::Canary;
use crate::support::{CommandOutput, bakeoff, wait_for};

/// An HTTP server that answers each request by a function of its number and head.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// `answer` gets a request's number and text, and returns the answer. Connections stay open.
    fn start(answer: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Self {
        Self::start_with(None, answer)
    }

    /// Starts the same server over TLS with an untrusted certificate.
    fn start_tls(
        alpn: &[u8],
        answer: impl Fn(usize, &str) -> String + Send + Sync + 'static,
    ) -> Self {
        let own = rcgen::generate_simple_self_signed(["elsewhere.invalid".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let mut config =
            config.with_single_cert(vec![own.cert.der().clone()], key.unwrap()).unwrap();
        config.alpn_protocols = vec![alpn.to_vec()];
        Self::start_with(Some(Arc::new(config)), answer)
    }

    fn start_with(
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(usize, &str) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (seen, opened, answer) = (requests.clone(), connections.clone(), Arc::new(answer));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (seen, opened, answer) = (seen.clone(), opened.clone(), answer.clone());
                let tls = tls.clone();
                thread::spawn(move || match tls {
                    None => serve(socket, &seen, &opened, &*answer),
                    Some(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        let link = rustls::StreamOwned::new(session, socket);
                        serve(link, &seen, &opened, &*answer);
                    }
                });
            }
        });
        Self { address, requests, connections }
    }

    /// Starts a server that answers `hello`.
    fn hello() -> Self {
        Self::start(|_, _| response(200, "hello\n"))
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn first(&self) -> String {
        self.requests.lock().unwrap().first().cloned().expect("a request came")
    }
}

/// Serves a connection. It counts only with its first request, so that a mere probe does not.
fn serve(
    mut socket: impl Read + Write,
    seen: &Mutex<Vec<String>>,
    opened: &AtomicUsize,
    answer: &dyn Fn(usize, &str) -> String,
) {
    let (mut input, mut first) = (Vec::new(), true);
    let mut chunk = [0; 4096];
    loop {
        while let Some(end) = end_of_request(&input) {
            let request = String::from_utf8_lossy(&input[..end]).into_owned();
            input.drain(..end);
            opened.fetch_add(usize::from(first), Ordering::Relaxed);
            first = false;
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.clone());
                seen.len() - 1
            };
            let answered = answer(number, &request);
            if answered.is_empty() || socket.write_all(answered.as_bytes()).is_err() {
                return;
            }
        }
        match socket.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(read) => input.extend_from_slice(&chunk[..read]),
        }
    }
}

fn end_of_request(input: &[u8]) -> Option<usize> {
    let head = input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&input[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let end = head + length.map_or(0, |length| length.trim().parse().unwrap_or(0));
    (input.len() >= end).then_some(end)
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

fn hey(args: &[&str]) -> CommandOutput {
    CommandOutput::run(bakeoff().arg("hey").args(args))
}

/// Returns the figure after a label of the summary.
#[track_caller]
fn figure(stdout: &str, label: &str) -> f64 {
    let line = stdout.lines().find_map(|line| line.strip_prefix(&format!("  {label}:\t")));
    let line = line.unwrap_or_else(|| panic!("there is no `{label}` in:\n{stdout}"));
    line.split(' ').find(|word| !word.is_empty()).unwrap().parse().unwrap()
}

#[track_caller]
fn holds(ran: &CommandOutput, parts: &[&str]) {
    for part in parts {
        assert!(ran.stdout.contains(part), "`{part}` is not in:\n{}", ran.stdout);
    }
}

#[test]
fn run_sends_all_requests_and_prints_the_summary_of_hey() {
    let server = Server::hello();
    // One thread: with two, one may send all before the other gets a CPU.
    let ran = hey(&["-n", "107", "-c=10", "-cpus=1", &server.url()]).ends_with(0);
    assert_eq!(server.count(), 107); // hey would have sent 100
    assert_eq!(server.connections.load(Ordering::Relaxed), 10);
    let parts = ["[200]\t107 responses", "Total data:\t642 bytes", "Size/request:\t6 bytes"];
    holds(&ran, &parts);
    let headings: Vec<&str> = ran.stdout.lines().filter(|line| line.ends_with(':')).collect();
    assert_eq!(
        headings,
        [
            "Summary:",
            "Response time histogram:",
            "Latency distribution:",
            "Details (average, fastest, slowest):",
            "Status code distribution:"
        ]
    );
    let stdout = &ran.stdout;
    let rate = 107.0 / figure(stdout, "Total");
    let off = figure(stdout, "Requests/sec") / rate - 1.0;
    assert!(off.abs() < 0.05, "{stdout}");
    assert!(figure(stdout, "Fastest") <= figure(stdout, "Average"));
    assert!(figure(stdout, "Average") <= figure(stdout, "Slowest"));
    assert_eq!(ran.stderr, "");
}

#[test]
fn request_equals_the_one_of_hey() {
    let server = Server::hello();
    let url = format!("{}a?b=c", server.url());
    let args =
        ["-n", "1", "-c", "1", "-m", "post", "-d", "x=1", "-T", "text/x", "-A", "y", "-a", "u:p"];
    hey(&[&args[..], &["-host", "example.com", "-H", "x-a: b", &url]].concat()).ends_with(0);
    let mut lines: Vec<String> = server.first().lines().map(str::to_owned).collect();
    assert_eq!(lines.remove(0), "POST /a?b=c HTTP/1.1");
    lines.sort();
    assert_eq!(
        lines,
        [
            "",
            "Accept-Encoding: gzip",
            "Accept: y",
            "Authorization: Basic dTpw",
            "Content-Length: 3",
            "Content-Type: text/x",
            "Host: example.com",
            "User-Agent: hey/0.0.1",
            "X-A: b",
            "x=1",
        ]
    );
}

#[test]
fn body_file_must_exist() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    std::fs::write(&file, "from a file").unwrap();
    let server = Server::hello();
    let path = file.to_str().unwrap();
    hey(&["-n", "1", "-c", "1", "-m", "PUT", "-D", path, &server.url()]).ends_with(0);
    assert!(server.first().ends_with("\r\n\r\nfrom a file"), "{}", server.first());
    hey(&["-D", "/nowhere/body", &server.url()]).ends_with(2).complains(&["`/nowhere/body`"]);
}

#[test]
fn failures_count_in_heys_lines_and_successes_go_to_stderr() {
    let server = Server::start(|number, _| match number % 4 {
        0 => response(503, "busy"),
        _ => response(200, "hello\n"),
    });
    let ran = hey(&["-n", "100", "-c", "5", &server.url()]).ends_with(0);
    holds(&ran, &["[200]\t75 responses", "[503]\t25 responses"]);
    assert!(!ran.stdout.contains("Error distribution"), "hey has none: {}", ran.stdout);
    assert_eq!(ran.stderr.matches("warning:").count(), 1, "{}", ran.stderr);
    let ratio = figure(&ran.stdout, "Requests/sec") / successes_per_second(&ran);
    assert!((ratio - 4.0 / 3.0).abs() < 0.05, "{} {}", ran.stdout, ran.stderr);
    ran.complains(&["25 of 100 requests failed (25 status 503"]);
}

/// The rate on standard error.
fn successes_per_second(ran: &CommandOutput) -> f64 {
    let (_, rest) = ran.stderr.split_once("successes alone: ").expect("there are failures");
    rest.split(' ').next().unwrap().parse().expect("it is a rate")
}

#[test]
fn run_with_only_errors_ends_with_1() {
    let server = Server::start(|_, _| response(500, "oops"));
    let ran = hey(&["-n", "50", "-c", "5", &server.url()]).ends_with(1);
    holds(&ran, &["[500]\t50 responses"]);
    assert!(figure(&ran.stdout, "Requests/sec") > 0.0, "as in hey: {}", ran.stdout);
    ran.complains(&[
        "50 of 50 requests failed",
        "successes alone: 0.0000 requests/sec, no latency",
    ]);
}

/// Each fifth answer is a 503 after half a second. hey and wrk print that, and so do we.
#[test]
fn slow_failures_stay_in_the_percentiles_of_hey_and_wrk() {
    let server = Server::start(|number, _| match number % 5 {
        0 => {
            thread::sleep(Duration::from_millis(500));
            response(503, "busy")
        }
        _ => response(200, "hello\n"),
    });
    let ran = hey(&["-n", "100", "-c", "5", &server.url()]).ends_with(0);
    let slowest = figure(&ran.stdout, "Slowest");
    assert!(slowest >= 0.5, "{}", ran.stdout);
    holds(&ran, &["  90% in 0.5", "\n  0.5"]);
    let url = server.url();
    let mut command = bakeoff();
    command.args(["wrk", "-t1", "-c5", "-d3s", "--latency", &url]);
    let ran = CommandOutput::run(&mut command).ends_with(0);
    let line = ran.stdout.lines().find(|line| line.starts_with("     99%"));
    let p99 = line.unwrap_or_default().trim_start_matches("     99%").trim();
    let ms: f64 = p99.trim_end_matches("ms").parse().unwrap_or_default();
    assert!(ms >= 500.0, "{}", ran.stdout);
    ran.complains(&["answers failed (status not 2xx or 3xx)", "successes alone: "]);
}

#[test]
fn reports_a_server_that_ends_during_the_run() {
    let canary = Canary::start("--delay 5ms --die-after 2s");
    let ran = hey(&["-z", "4s", "-c", "4", &canary.url("/health")]).ends_with(1);
    assert!(ran.stderr.contains("nothing succeeded from "), "{}", ran.stderr);
    assert!(ran.stdout.contains("\n  [4]\trefused: no connection for "), "{}", ran.stdout);
}

#[test]
fn counts_agree_with_the_canary() {
    let canary = Canary::start("--error=0.2 --refuse=0.1 --garbage=0.1 --seed=7");
    let url = canary.url("/kv/a");
    let ran = hey(&["-n", "500", "-c", "8", "-m", "PUT", "-d", "value", &url]).ends_with(0);
    let stats = canary.stats();
    let fault = |kind: &str| stats["faults"][kind].as_u64().unwrap();
    let (errors, refused, garbage) = (fault("errors"), fault("refused"), fault("garbage"));
    assert!(errors > 0 && refused > 0 && garbage > 0, "{stats}");
    let failed = errors + refused + garbage;
    assert_eq!(stats["puts"].as_u64(), Some(500 - failed), "{stats}");
    holds(
        &ran,
        &[
            &format!("  [204]\t{} responses\n", 500 - failed),
            &format!("  [500]\t{errors} responses\n"),
            &format!("  [{garbage}]\tprotocol: "),
        ],
    );
    // The first request of a connection sees a reset, a later one an end.
    let of = |kind: &str| {
        let line = ran.stdout.lines().find(|line| line.contains(&format!("]\t{kind}: ")));
        line.and_then(|line| line.trim().strip_prefix('[')?.split(']').next()?.parse::<u64>().ok())
    };
    assert_eq!(of("reset").unwrap_or(0) + of("closed").unwrap_or(0), refused, "{}", ran.stdout);
    ran.complains(&[&format!("{failed} of 500 requests failed")]);
}

#[test]
fn accepts_any_certificate() {
    let server = Server::start_tls(b"http/1.1", |_, _| response(200, "hello\n"));
    let url = format!("https://{}/", server.address);
    let ran = hey(&["-n", "20", "-c", "2", &url]).ends_with(0);
    holds(&ran, &["[200]\t20 responses"]);
}

#[test]
fn h2_option_uses_http2_over_tls() {
    let server = Server::start_tls(b"h2", |_, _| String::new());
    let url = format!("https://{}/", server.address);
    hey(&["-h2", "-n", "1", "-c", "1", &url]).ends_with(4); // the server closes at once
    assert_eq!(server.first(), "PRI * HTTP/2.0\r\n\r\n");

    let plain = Server::hello();
    let ran = hey(&["-h2", "-n", "2", "-c", "1", &plain.url()]).ends_with(0);
    assert!(plain.first().starts_with("GET / HTTP/1.1\r\n"));
    ran.complains(&["-h2", "HTTP/1.1"]);
}

#[test]
fn silent_server_costs_one_timeout() {
    let server = Server::start(|_, _| {
        thread::sleep(Duration::from_secs(60));
        String::new()
    });
    let begun = Instant::now();
    let ran = hey(&["-n", "4", "-c", "4", "-t", "1", &server.url()]).ends_with(1);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    holds(&ran, &["  [4]\ttimeout", "50% in 1.0"]); // timeouts count in the percentiles
}

#[test]
fn reports_a_missing_server_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ran = hey(&[&format!("http://{free}/")]).ends_with(4);
    assert_eq!(ran.stdout, "");
    ran.complains(&["error:", &free.to_string()]);
}

#[test]
fn csv_has_one_line_per_answer() {
    let server = Server::start(|number, _| response(if number % 2 == 0 { 200 } else { 404 }, "x"));
    let ran = hey(&["-n", "30", "-c", "3", "-o", "csv", &server.url()]).ends_with(0);
    let mut lines = ran.stdout.lines();
    assert_eq!(
        lines.next(),
        Some(
            "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
        )
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 30, "{}", ran.stdout);
    for row in &rows {
        assert_eq!(row.len(), 8, "{row:?}");
        let seconds: Vec<f64> = row.iter().map(|cell| cell.parse().unwrap()).collect();
        let parts: f64 = seconds[1..6].iter().sum();
        assert!((parts - seconds[0]).abs() < 0.001, "{row:?}"); // each is rounded
    }
    assert_eq!(rows.iter().filter(|row| row[6] == "404").count(), 15);
    ran.complains(&["15 of 30 requests failed", "404"]);
}

#[test]
fn rate_limit_holds_for_each_worker() {
    let server = Server::hello();
    let ran = hey(&["-n", "20", "-c", "2", "-q", "20", &server.url()]).ends_with(0);
    let total = figure(&ran.stdout, "Total");
    assert!((0.44..2.0).contains(&total), "{total}"); // ten requests each, 50 ms apart
    let median = ran.stdout.lines().find_map(|line| line.strip_prefix("  50% in ")).unwrap();
    let median: f64 = median.strip_suffix(" secs").unwrap().parse().unwrap();
    assert!(median < 0.025, "{median}: waiting for its turn is no response time");
}

#[test]
fn timed_run_lasts_its_time() {
    let server = Server::hello();
    let ran = hey(&["-z", "700ms", "-c", "2", &server.url()]).ends_with(0);
    let total = figure(&ran.stdout, "Total");
    assert!((0.65..0.9).contains(&total), "{total}");
    assert!(server.count() > 10);
}

#[test]
fn redirects_are_followed_on_the_same_server_unless_forbidden() {
    let server = Server::start(|_, request| match request {
        _ if request.starts_with("GET /old ") => redirect("/new"),
        _ if request.starts_with("GET /away ") => redirect("http://elsewhere.invalid/"),
        _ if request.starts_with("GET /loop ") => redirect("/loop"),
        _ => response(200, "hello\n"),
    });
    let at = |path: &str| format!("{}{path}", server.url());
    let ran = hey(&["-n", "10", "-c", "2", &at("old")]).ends_with(0);
    holds(&ran, &["[200]\t10 responses"]);
    assert!(!ran.stdout.contains("[302]"), "{}", ran.stdout);
    assert_eq!(server.count(), 20);

    let ran = hey(&["-n", "10", "-c", "2", "-disable-redirects", &at("old")]).ends_with(0);
    holds(&ran, &["[302]\t10 responses"]);
    assert!(figure(&ran.stdout, "Requests/sec") > 0.0);

    let ran = hey(&["-n", "4", "-c", "2", &at("away")]).ends_with(1);
    ran.complains(&["4 of 4 requests failed (4 status", "elsewhere.invalid"]);
    let ran = hey(&["-n", "4", "-c", "2", &at("loop")]).ends_with(1);
    ran.complains(&["4 of 4 requests failed (4 status"]);
}

#[test]
fn proxy_gets_the_full_url_and_https_is_rejected() {
    let proxy = Server::hello();
    let address = proxy.address.to_string();
    let args = ["-n", "4", "-c", "2", "-x", &address, "http://example.invalid:81/a?b"];
    hey(&args).ends_with(0);
    let request = proxy.first();
    assert!(request.starts_with("GET http://example.invalid:81/a?b HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nHost: example.invalid:81\r\n"), "{request}");
    let args = ["-x", &address, "https://example.invalid/"];
    hey(&args).ends_with(2).complains(&["not supported", "hint:"]);
}

#[test]
fn disable_keepalive_opens_a_connection_per_request() {
    let server = Server::start(|_, request| {
        assert!(request.contains("\r\nConnection: close\r\n"), "{request}");
        response(200, "x")
    });
    hey(&["-n", "20", "-c", "4", "-disable-keepalive", &server.url()]).ends_with(0);
    assert_eq!(server.connections.load(Ordering::Relaxed), 20);
}

#[test]
fn bad_input_ends_with_2() {
    let cases: [(&[&str], &str); 9] = [
        (&[], "no URL"),
        (&["-n", "10", "-c", "20", "http://h/"], "-n cannot be less than -c"),
        (&["-n", "0", "http://h/"], "-n and -c cannot be smaller than 1"),
        (&["-foo", "http://h/"], "unknown flag `-foo`"),
        (&["-H", "foo", "http://h/"], "-H number 1"),
        (&["-z", "3", "http://h/"], "`3`"),
        (&["-o", "json", "http://h/"], "csv"),
        (&["ftp://h/"], "ftp"),
        (&["http://"], "host"),
    ];
    for (args, part) in cases {
        let ran = hey(args).ends_with(2);
        assert_eq!(ran.stdout, "");
        ran.complains(&["error: ", part]);
    }
    hey(&["-foo"]).complains(&["Usage: bakeoff hey"]);
    let ran = hey(&["-h"]).ends_with(0);
    assert!(ran.stdout.starts_with("Usage: bakeoff hey"), "{}", ran.stdout);
}

#[test]
fn words_after_the_url_are_ignored_with_a_warning() {
    let server = Server::hello();
    let ran = hey(&["-n", "4", "-c", "2", &server.url(), "-n", "9"]).ends_with(0);
    assert_eq!(server.count(), 4);
    ran.complains(&["warning:", "URL"]);
}

#[test]
fn interrupted_hey_run_prints_its_figures() {
    let server = Server::hello();
    let mut command = bakeoff();
    command.args(["hey", "-z", "60s", "-c", "2", &server.url()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a hundred requests", Duration::from_secs(20), || server.count() > 100);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = CommandOutput::from_output(child.wait_with_output().unwrap()).ends_with(130);
    assert!(figure(&ran.stdout, "Requests/sec") > 0.0);
    assert!(figure(&ran.stdout, "Total") < 30.0);
    holds(&ran, &["[200]\t"]);
}

#[test]
fn link_named_hey_runs_hey() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("hey");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bakeoff"), &link).unwrap();
    let server = Server::hello();
    let mut command = std::process::Command::new(&link);
    let ran = CommandOutput::run(command.args(["-n", "10", "-c", "2", &server.url()])).ends_with(0);
    holds(&ran, &["[200]\t10 responses"]);
    let ran = CommandOutput::run(&mut std::process::Command::new(&link)).ends_with(2);
    ran.complains(&["no URL"]);
}
