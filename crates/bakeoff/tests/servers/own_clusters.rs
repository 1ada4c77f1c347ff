//! Tests clusters that bakeoff did not start: loaded, left unchanged, and rejected with a helpful reason.
//!
//! The servers have credentials and certificates that bakeoff would not set up.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::contract::{ETCD_ALONE, all_is_well, bench, run};
use crate::support::case::{Case, cached, case, with};
use crate::support::certificates::Certificates;
use crate::support::skip::SkippedTests;
use crate::support::{AUDITS, Bench, CommandOutput, array, audit, bakeoff, text, wait_for};

const CONSUL: Case = Case { needs: &["go"], ..case("consul", "", 1) };
const ZOOKEEPER: Case = case("zookeeper", "3.9", 1);

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Case);
    let all: [(&str, Case, Test); 10] = [
        (
            "a_system_that_runs_already_is_loaded_and_left_as_it_was",
            ETCD_ALONE,
            endpoints_are_left_alone,
        ),
        ("an_interrupted_load_leaves_no_key_behind", ETCD_ALONE, an_interrupted_load_leaves_no_key),
        ("leases_are_granted_before_a_load_and_revoked_after_it", ETCD_ALONE, leases_are_revoked),
        ("metrics_of_a_system_that_runs_already_are_read", ETCD_ALONE, metrics_are_read),
        ("a_system_behind_tls_is_verified", ETCD_ALONE, tls_is_verified),
        ("final_answers_end_a_run_at_once", ETCD_ALONE, final_answers_are_final),
        ("users_of_etcd_sign_in", ETCD_ALONE, users_of_etcd_sign_in),
        ("consul_takes_a_token", CONSUL, consul_takes_a_token),
        ("zookeeper_takes_a_user", ZOOKEEPER, zookeeper_takes_a_user),
        ("a_node_that_the_user_made_is_used_and_kept", ZOOKEEPER, zookeeper_keeps_a_node),
    ];
    all.into_iter().map(|(name, case, test)| with(name, case, skipped, test)).collect()
}

/// A process that is killed when dropped.
pub(super) struct Server(pub(super) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const CRASH: &str = AUDITS[1];
const SMALL: &str = "all: {mix: {put: 40, get: 40, delete: 10, list: 10}, keys: {count: 200, per-directory: 50}, reads: default}";
const SHORT: &str = "counted: {clients: 4, stop: {operations: 600}}";

/// An etcd that bakeoff did not start.
pub(super) struct Etcd {
    process: Child,
    pub(super) port: u16,
    /// Port of TLS, if it uses TLS.
    pub(super) tls_port: u16,
    _dir: tempfile::TempDir,
}

impl Etcd {
    /// Starts the etcd that `bakeoff install` cached, with these options and files for TLS.
    pub(super) fn start(tls: &[(&str, PathBuf)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [port, tls_port, peer] = free_ports();
        let plain = format!("http://127.0.0.1:{port}");
        let mut client = plain.clone();
        let mut command = Command::new(cached("etcd"));
        if !tls.is_empty() {
            client = format!("{plain},https://127.0.0.1:{tls_port}");
        }
        for (flag, path) in tls {
            command.arg(flag).args((!path.as_os_str().is_empty()).then_some(path));
        }
        let peer = format!("http://127.0.0.1:{peer}");
        command
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--name", "n", "--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster"])
            .arg(format!("n={peer}"));
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut etcd = Self { process, port, tls_port, _dir: dir };
        crate::support::wait_for("etcd", Duration::from_secs(30), || {
            assert!(etcd.process.try_wait().unwrap().is_none(), "etcd ended by itself");
            etcd.try_ask("/v3/kv/range", &json!({"key": STANDARD.encode("a")})).is_some()
        });
        etcd
    }

    /// Adds the users `root` (password `of-the-root`) and `low` (`of-the-low`), and demands one of all clients.
    pub(super) fn enable_users(&self) {
        for (path, body) in [
            ("/v3/auth/user/add", json!({"name": "root", "password": "of-the-root"})),
            ("/v3/auth/role/add", json!({"name": "root"})),
            ("/v3/auth/user/grant", json!({"user": "root", "role": "root"})),
            ("/v3/auth/user/add", json!({"name": "low", "password": "of-the-low"})),
            ("/v3/auth/enable", json!({})),
        ] {
            self.try_ask(path, &body).expect(path);
        }
    }

    fn put(&self, key: &str) {
        let value = json!({"key": STANDARD.encode(key), "value": STANDARD.encode("mine")});
        self.try_ask("/v3/kv/put", &value).expect("etcd takes a key");
    }

    /// Returns all keys, sorted.
    fn keys(&self) -> Vec<String> {
        let all = STANDARD.encode([0]);
        let body = json!({"key": all, "range_end": all, "keys_only": true});
        let answer = self.try_ask("/v3/kv/range", &body).expect("etcd answers");
        let decode = |kv: &Value| STANDARD.decode(text(&kv["key"])).unwrap();
        let keys = array(&answer["kvs"]).iter().map(decode);
        keys.map(|key| String::from_utf8(key).unwrap()).collect()
    }

    /// Uses its JSON gateway, so that the test shares no code with the tested engine.
    pub(super) fn try_ask(&self, path: &str, body: &Value) -> Option<Value> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let body = body.to_string();
        write!(socket, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            .ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.split(' ').nth(1).filter(|status| *status == "200")?;
        serde_json::from_str(body).ok()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(super) fn free_ports() -> [u16; 3] {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

fn endpoints_are_left_alone(_: &Case) {
    let mut etcd = Etcd::start(&[]);
    etcd.put("bakeoff/left/by/a/run/that/was/killed");
    etcd.put("bakeoff-is-no-prefix-of-this");
    etcd.put("mine");
    let system =
        format!("staging: {{kind: etcd, endpoints: [\"http://127.0.0.1:{}\"]}}", etcd.port);
    let run = run(&system, &[SMALL], &[SHORT]);
    all_is_well(&run, 600.0);
    assert!(etcd.process.try_wait().unwrap().is_none(), "it still runs");
    assert_eq!(etcd.keys(), ["bakeoff-is-no-prefix-of-this", "mine"], "all others are gone");
    let trial = run.trial();
    assert_eq!(audit(trial, AUDITS[0]), "passed");
    assert_eq!(
        audit(trial, CRASH),
        "not-checked",
        "bakeoff never kills a server that it did not start"
    );
    let record = run.record();
    let system = &record[0]["systems"][0];
    assert_eq!(system["already_running"], true);
    assert!(text(&system["version"]).starts_with("3."), "{system}");
    let watched: Vec<&str> = array(&record[1]["usage"]).iter().map(|u| text(&u["name"])).collect();
    assert_eq!(watched, ["generator"], "no server was started");
}

fn metrics_are_read(_: &Case) {
    let certificates = Certificates::new();
    let etcd = Etcd::start(&identity(&certificates));
    let (plain, tls) = (etcd.port, etcd.tls_port);
    let by_process = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap();
        let pages: u64 = stat.split(' ').nth(1).unwrap().parse().unwrap();
        (pages * rustix::param::page_size() as u64) as f64
    };
    let ca = certificates.path("ca.pem").display().to_string();
    for (url, fields) in [
        (format!("http://127.0.0.1:{plain}/metrics"), String::new()),
        (format!("https://127.0.0.1:{tls}/metrics"), format!(", tls: {{ca: {ca}}}")),
    ] {
        let system = format!(
            "staging: {{kind: etcd, endpoints: [\"http://127.0.0.1:{plain}\"], metrics: [\"{url}\"]{fields}}}"
        );
        let timed = "timed: {clients: 4, warmup: 0s, stop: {after: 2s}}";
        let run = run(&system, &[SMALL], &[timed]);
        let memory = run.figure("server_memory_max_sum_of_nodes_bytes");
        let seen = by_process(etcd.process.id());
        assert!(
            (0.5..2.0).contains(&(memory / seen)),
            "{memory} by its metrics, {seen} by the kernel"
        );
        let cpu = run.figure("server_cpu_mean_sum_of_nodes_percent");
        assert!(cpu > 2.0 && cpu < 6400.0, "{cpu} % of a core under load");
        let usage = &run.record()[1]["usage"][1];
        assert_eq!(text(&usage["name"]), format!("127.0.0.1:{plain}"), "it is called as its node");
        assert_eq!(usage["metrics_of"], "process");
    }
}

fn an_interrupted_load_leaves_no_key(_: &Case) {
    let etcd = Etcd::start(&[]);
    etcd.put("mine");
    let system =
        format!("staging: {{kind: etcd, endpoints: [\"http://127.0.0.1:{}\"]}}", etcd.port);
    let bench = bench(&system, &[SMALL], &["long: {clients: 4, warmup: 0s, stop: {after: 60s}}"]);
    let quiet = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut bakeoff = quiet.unwrap();
    crate::support::wait_for("keys of ours", Duration::from_secs(30), || etcd.keys().len() > 100);
    let pid = rustix::process::Pid::from_child(&bakeoff);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(bakeoff.wait().unwrap().code(), Some(130));
    assert_eq!(etcd.keys(), ["mine"]);
}

fn leases_are_revoked(_: &Case) {
    let etcd = Etcd::start(&[]);
    let leases = || {
        let answer = etcd.try_ask("/v3/lease/leases", &json!({})).expect("etcd answers");
        answer["leases"].as_array().map_or(0, Vec::len)
    };
    etcd.try_ask("/v3/lease/grant", &json!({"TTL": 600, "ID": 77})).expect("etcd answers");
    let system =
        format!("staging: {{kind: etcd, endpoints: [\"http://127.0.0.1:{}\"]}}", etcd.port);
    let workload = "w: {mix: {put: 1}, keys: {count: 100}, with: {leases: 3000}}";
    let bench =
        bench(&system, &[workload], &["long: {clients: 4, warmup: 0s, stop: {after: 60s}}"]);
    let quiet = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut bakeoff = quiet.unwrap();
    crate::support::wait_for("all leases", Duration::from_secs(30), || leases() == 3001);
    crate::support::wait_for("the load", Duration::from_secs(30), || etcd.keys().len() > 50);
    assert_eq!(leases(), 3001);
    let pid = rustix::process::Pid::from_child(&bakeoff);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(bakeoff.wait().unwrap().code(), Some(130));
    assert_eq!(leases(), 1, "only the foreign one stays");
}

fn tls_is_verified(_: &Case) {
    let certificates = Certificates::new();
    let etcd = Etcd::start(&identity(&certificates));
    let system = |tls: &str| {
        let port = etcd.tls_port;
        format!("staging: {{kind: etcd, endpoints: [\"https://127.0.0.1:{port}\"]{tls}}}")
    };
    let trusting = |ca: &str| {
        let path = certificates.path(ca);
        system(&format!(", tls: {{ca: \"{}\"}}", path.display()))
    };

    let good = run(&trusting("ca.pem"), &[SMALL], &[SHORT]);
    all_is_well(&good, 600.0);
    assert_eq!(etcd.keys(), [] as [&str; 0], "bakeoff's own keys are gone");
    let rows = array(&good.report["fairness"]["rows"]);
    let row = rows.iter().find(|row| row["what"] == "transport").unwrap();
    assert_eq!(row["cells"][0], "TLS 1.3");

    let insecure = run(&system(", tls: {insecure: true}"), &[SMALL], &[SHORT]);
    all_is_well(&insecure, 600.0);

    // It sends nothing to an untrusted server, and no run begins.
    refused(&trusting("other.pem"), 4, &["error: ", "certificate", "127.0.0.1", "hint: "]);
    refused(
        &system(""),
        2,
        &["an endpoint over TLS needs to know whom to trust", "hint: give `tls: {ca"],
    );
    refused(&trusting("server.key"), 2, &["server.key` cannot be used for TLS"]);
    let absent =
        ["study.yaml:3:", "absent.pem` cannot be read: No such file", "hint: write its path"];
    refused(&trusting("absent.pem"), 2, &absent);
}

/// Returns etcd's options for TLS.
pub(super) fn identity(certificates: &Certificates) -> Vec<(&'static str, PathBuf)> {
    vec![
        ("--cert-file", certificates.path("server.pem")),
        ("--key-file", certificates.path("server.key")),
    ]
}

pub(super) fn study(system: &str) -> String {
    format!("title: t\nsystems:\n  {system}\nworkloads:\n  {SMALL}\nloads:\n  {SHORT}\ntrials: 1\n")
}

/// Runs a study of one system that is rejected, without showing these secrets.
#[track_caller]
pub(super) fn refused(system: &str, code: i32, parts: &[&str]) {
    refused_with(system, &[], code, parts);
}

#[track_caller]
pub(super) fn refused_with(system: &str, environment: &[(&str, &str)], code: i32, parts: &[&str]) {
    let bench = Bench::new(&study(system));
    let began = Instant::now();
    let ran = CommandOutput::run(bench.command().envs(environment.iter().copied()));
    assert!(began.elapsed() < Duration::from_secs(9), "nothing was waited for: {}", ran.stderr);
    let ran = ran.ends_with(code).complains(parts);
    for (_, secret) in environment {
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("docs.rs"), "{}", ran.stderr);
}

/// Runs a study of one system that succeeds, and finds none of these secrets in its files.
#[track_caller]
pub(super) fn does_well(system: &str, environment: &[(&str, &str)], authentication: &str) {
    let bench = Bench::new(&study(system));
    let ran = CommandOutput::run(bench.command().envs(environment.iter().copied())).ends_with(0);
    let folder = bench.has_trials(1);
    let record = crate::support::record(&folder);
    assert_eq!(record[0]["systems"][0]["authentication"], authentication);
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    assert_eq!(audit(trial, AUDITS[0]), "passed", "{trial}");
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let contents = std::fs::read(&path).unwrap_or_default();
        let contents = String::from_utf8_lossy(&contents);
        for (_, secret) in environment {
            assert!(!contents.contains(secret), "{}", path.display());
            assert!(!ran.stderr.contains(secret) && !ran.stdout.contains(secret));
        }
    }
}

fn final_answers_are_final(_: &Case) {
    let certificates = Certificates::new();
    let mut flags = identity(&certificates);
    flags.push(("--trusted-ca-file", certificates.path("ca.pem")));
    flags.push(("--client-cert-auth=true", PathBuf::new()));
    let etcd = Etcd::start(&flags);
    let (plain, tls) = (etcd.port, etcd.tls_port);
    let path = |name: &str| certificates.path(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let at = |scheme: &str, port: u16, tls: &str| {
        format!("mine: {{kind: etcd, endpoints: [\"{scheme}://127.0.0.1:{port}\"]{tls}}}")
    };
    let own = format!(", tls: {{ca: {ca}, cert: {cert}, key: {key}}}");
    let good = run(&at("https", tls, &own), &[SMALL], &[SHORT]);
    all_is_well(&good, 600.0);
    refused(
        &at("https", tls, &format!(", tls: {{ca: {ca}}}")),
        4,
        &[
            "the server refused the handshake: ",
            "hint: send one: `cert` and `key` in the study's `tls`",
        ],
    );
    refused(
        &at("http", tls, ""),
        4,
        &["hint: it speaks TLS there: write the endpoint with `https://`"],
    );
    refused(&at("https", plain, &own), 4, &["write the endpoint with `http://`"]);
    let named = format!("mine: {{kind: etcd, endpoints: [\"https://localhost:{tls}\"]{own}}}");
    refused(&named, 4, &["hint: use an endpoint with one of its names"]);
    let swapped = format!(", tls: {{ca: {ca}, cert: {cert}, key: {cert}}}");
    refused(&at("https", tls, &swapped), 2, &["server.pem` cannot be used for TLS"]);
    // Other products at the port.
    for kind in ["consul", "zookeeper"] {
        let other = format!("mine: {{kind: {kind}, endpoints: [\"http://127.0.0.1:{plain}\"]}}");
        refused(&other, 4, &["error: system `mine` cannot be loaded: `127.0.0.1:", "hint: "]);
    }
}

fn users_of_etcd_sign_in(_: &Case) {
    let etcd = Etcd::start(&[]);
    etcd.enable_users();
    let secrets = [("PASSWORD_OF_ROOT", "of-the-root"), ("PASSWORD_OF_LOW", "of-the-low")];
    let as_user = |credentials: &str| {
        let port = etcd.port;
        format!("mine: {{kind: etcd, endpoints: [\"http://127.0.0.1:{port}\"]{credentials}}}")
    };
    let root = as_user(", credentials: {user: root, password: $PASSWORD_OF_ROOT}");
    does_well(&root, &secrets, "user and password");
    refused(
        &as_user(""),
        4,
        &["user name is empty", "hint: it needs a user: add `credentials: {user"],
    );
    let wrong = as_user(", credentials: {user: root, password: $PASSWORD_OF_LOW}");
    refused_with(
        &wrong,
        &secrets,
        4,
        &["invalid user ID or password", "hint: check `credentials`"],
    );
    let low = as_user(", credentials: {user: low, password: $PASSWORD_OF_LOW}");
    refused_with(
        &low,
        &secrets,
        4,
        &["permission denied", "hint: allow the user in the study's `credentials`"],
    );
    let unset =
        ["study.yaml:3:", "`$PASSWORD_OF_ROOT` is not set", "hint: run `export PASSWORD_OF_ROOT="];
    refused(&root, 2, &unset);
}

fn consul_takes_a_token(_: &Case) {
    const TOKEN: &str = "3f1bdcea-4b5c-4e0e-9d5a-0f2a6f1c7e11";
    let [http, serf, server] = free_ports();
    let dir = tempfile::tempdir().unwrap();
    let acl = format!(
        "acl {{ enabled = true default_policy = \"deny\" tokens {{ initial_management = \"{TOKEN}\" }} }}"
    );
    let mut command = Command::new(cached("consul"));
    let limits = "limits { http_max_conns_per_client = 20 }";
    command.args(["agent", "-dev", "-bind", "127.0.0.1", "-hcl", &acl, "-hcl", limits]);
    command.arg("-disable-host-node-id");
    for (flag, port) in [("-http-port", http), ("-serf-lan-port", serf), ("-server-port", server)] {
        command.args([flag, &port.to_string()]);
    }
    for flag in ["-grpc-port", "-grpc-tls-port", "-dns-port", "-serf-wan-port"] {
        command.args([flag, "-1"]);
    }
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let _server = Server(command.stdout(log).stderr(Stdio::null()).spawn().unwrap());
    let leads = || {
        let mut socket = TcpStream::connect(("127.0.0.1", http)).ok()?;
        write!(socket, "GET /v1/status/leader HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        answer.contains("127.0.0.1:").then_some(())
    };
    wait_for("consul", Duration::from_secs(30), || leads().is_some());
    let mine = |credentials: &str| {
        format!("mine: {{kind: consul, endpoints: [\"http://127.0.0.1:{http}\"]{credentials}}}")
    };
    let secrets = [("TOKEN_OF_CONSUL", TOKEN)];
    does_well(
        &mine(", credentials: {token: $TOKEN_OF_CONSUL}"),
        &secrets,
        "a token with each request",
    );
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let by_file = mine(&format!(", credentials: {{token-file: {}}}", file.display()));
    does_well(&by_file, &[], "a token with each request");
    refused(&mine(""), 4, &["Permission denied", "hint: its ACLs need a token"]);
    let other = [("TOKEN_OF_CONSUL", "another-one")];
    let strange = mine(", credentials: {token: $TOKEN_OF_CONSUL}");
    refused_with(&strange, &other, 4, &["answered 403", "hint: its ACLs refuse the token"]);
    let many = bench(&strange, &[SMALL], &["many: {clients: 30, stop: {operations: 300}}"]);
    CommandOutput::run(many.command().envs(secrets)).ends_with(4).complains(&[
        "accepts 20 connections from one address (`limits.http_max_conns_per_client`), but load `many` has 30 clients",
        "hint: use fewer `clients`, or raise `limits.http_max_conns_per_client`",
    ]);
}

/// Starts a system with `bakeoff start`, and returns the address of its first node.
pub(super) fn started(case: &Case) -> (Server, String) {
    let bench = Bench::new(&study(&case.in_study()));
    let mut command = bakeoff();
    command.arg("start").arg(bench.study()).args(["--json", "--for", "60s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let json: Value = serde_json::from_str(&line).expect("one line of JSON");
    (Server(child), text(&json["clients"][0]["address"]).to_owned())
}

fn zookeeper_takes_a_user(case: &Case) {
    let (_server, address) = started(case);
    // "digest:me:" and the SHA-1 of "me:pass-of-me".
    close_to_others(&address, "me:17JbYaGUtOEL0LEzzD/h6moTwg0=");
    let mine = |credentials: &str| {
        format!("mine: {{kind: zookeeper, endpoints: [\"{address}\"]{credentials}}}")
    };
    let secrets = [("PASS_OF_ME", "pass-of-me")];
    let own = mine(", credentials: {user: me, password: $PASS_OF_ME}");
    does_well(&own, &secrets, "user and password");
    refused(
        &mine(""),
        4,
        &["NoAuth", "hint: the ACL of `/` needs a user: add `credentials: {user"],
    );
    let other = [("PASS_OF_ME", "another-one")];
    refused_with(&own, &other, 4, &["NoAuth", "hint: the ACL of `/` refuses the user"]);
}

/// A user without rights on `/` stores keys below a node open to all, which stays unchanged.
fn zookeeper_keeps_a_node(case: &Case) {
    let (_server, address) = started(case);
    let mut ask = zookeeper_client(&address);
    // `start` created the node; other content makes it the user's.
    let path = jute("/bakeoff");
    let set = ask([ints(&[1, 5]), path.clone(), jute("mine"), ints(&[-1])].concat());
    assert_eq!(set[12..16], [0; 4], "it has that content");
    close_to_others(&address, "me:17JbYaGUtOEL0LEzzD/h6moTwg0=");
    let mine = format!("mine: {{kind: zookeeper, endpoints: [\"{address}\"]}}");
    let bench = Bench::new(&study(&mine));
    CommandOutput::run(&mut bench.command()).ends_with(0);
    let content = ask([ints(&[2, 4]), path.clone(), vec![0]].concat());
    assert_eq!(content[12..24], [ints(&[0, 4]), b"mine".to_vec()].concat());
    let children = ask([ints(&[3, 8]), path, vec![0]].concat());
    assert_eq!(children[12..], ints(&[0, 0]), "none is left below it");
}

/// Encodes a string as in `zookeeper.jute`.
fn jute(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn ints(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Opens a ZooKeeper session (`ConnectRequest`). Returns a function that sends a packet and receives the answer.
fn zookeeper_client(address: &str) -> impl FnMut(Vec<u8>) -> Vec<u8> + use<> {
    let mut socket = TcpStream::connect(address).unwrap();
    let mut ask = move |packet: Vec<u8>| {
        socket.write_all(&(packet.len() as u32).to_be_bytes()).unwrap();
        socket.write_all(&packet).unwrap();
        let mut length = [0; 4];
        socket.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut answer).unwrap();
        answer
    };
    let connect = [&[0; 12][..], &30_000_u32.to_be_bytes(), &[0; 8], &jute(&"\0".repeat(16))];
    ask(connect.concat());
    ask
}

/// Restricts the root node of a ZooKeeper to one user (`SetACLRequest`, 7).
fn close_to_others(address: &str, digest: &str) {
    let mut ask = zookeeper_client(address);
    let (scheme, id) = (jute("digest"), jute(digest));
    let set = [ints(&[1, 7]), jute("/"), ints(&[1, 31]), scheme, id, ints(&[-1])];
    let answer = ask(set.concat());
    assert_eq!(answer[12..16], [0; 4], "the ACL is set");
}
