//! Tests Redis and NATS that bakeoff did not start, with users, tokens and TLS.
//!
//! Not here: other kinds (`own_clusters`).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;

use super::own_clusters::{Server, does_well, free_ports, refused, refused_with, started};
use crate::support::case::{Case, cached, case, with};
use crate::support::certificates::Certificates;
use crate::support::skip::SkippedTests;
use crate::support::wait_for;

const REDIS: Case =
    Case { reads: "default", needs: &["apt-get", "dpkg-deb"], ..case("redis", "", 1) };
const NATS: Case = case("nats", "2.12.4", 1);

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        with("redis_takes_a_user_and_tls", REDIS, skipped, redis_takes_a_user_and_tls),
        with("nats_takes_a_user_a_token_and_tls", NATS, skipped, nats_takes_a_user_and_a_token),
    ]
}

const SECRETS: [(&str, &str); 3] = [
    ("PASS_OF_ME", "pass-of-me"),
    ("PASS_OF_LOW", "pass-of-low"),
    ("OTHER_TOKEN", "a-s3cret-token"),
];

const AS_ME: &str = ", credentials: {user: me, password: $PASS_OF_ME}";
const AS_LOW: &str = ", credentials: {user: low, password: $PASS_OF_LOW}";
const MISTAKEN: &str = ", credentials: {user: me, password: $PASS_OF_LOW}";

fn redis_takes_a_user_and_tls(case: &Case) {
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let [port, ..] = free_ports();
    let (_server, plain) = started(case);
    let speaks_tls = ["tls-cert-file", &cert, "tls-key-file", &key, "tls-ca-cert-file", &ca];
    let with_port = ["tls-auth-clients", "no", "tls-port", &port.to_string()];
    let keys = ["~bakeoff/*", "+info", "+scan", "+get", "+set", "+del", "+unlink"];
    let me = [&["ACL", "SETUSER", "me", "on", ">pass-of-me"], &keys[..]].concat();
    configure(
        &plain,
        &[
            &[&["CONFIG", "SET"], &speaks_tls[..], &with_port].concat(),
            &me,
            &["ACL", "SETUSER", "low", "on", ">pass-of-low", "~bakeoff/*", "+info"],
            &["CONFIG", "SET", "requirepass", "a-s3cret-token"],
        ],
    );
    let plainly = |more: &str| format!("mine: {{kind: redis, endpoints: [\"{plain}\"]{more}}}");
    let by_tls = |more: &str| {
        let endpoints = format!("endpoints: [\"rediss://127.0.0.1:{port}\"]");
        format!("mine: {{kind: redis, {endpoints}, tls: {{ca: \"{ca}\"}}{more}}}")
    };
    does_well(&by_tls(AS_ME), &SECRETS, "user and password");
    let default = plainly(", credentials: {user: default, password: $OTHER_TOKEN}");
    does_well(&default, &SECRETS, "user and password");
    refused(&plainly(""), 4, &["NOAUTH", "hint: it needs a user: add `credentials: {user"]);
    refused_with(&by_tls(MISTAKEN), &SECRETS, 4, &["WRONGPASS", "hint: check `credentials`"]);
    refused_with(&plainly(AS_LOW), &SECRETS, 4, &["NOPERM", "the study's user may not"]);
}

/// Sends commands to a Redis that must answer `OK`.
fn configure(address: &str, commands: &[&[&str]]) {
    let mut socket = TcpStream::connect(address).unwrap();
    for words in commands {
        let strings = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let command = format!("*{}\r\n{}", words.len(), strings.collect::<String>());
        socket.write_all(command.as_bytes()).unwrap();
        let mut answer = [0; 5];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"+OK\r\n", "{words:?}");
    }
}

fn nats_takes_a_user_and_a_token(_: &Case) {
    let certificates = Certificates::new();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| certificates.path(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let [tls, token, _] = free_ports();
    let serve = |port: u16, more: &str| {
        let store = dir.path().join(port.to_string());
        let file = dir.path().join(format!("{port}.conf"));
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n{more}\n",
            store.display()
        );
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(cached("nats"));
        command.arg("-c").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Server(command.spawn().unwrap());
        wait_for("nats", Duration::from_secs(30), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        server
    };
    let users = "authorization { users: [{user: me, password: \"pass-of-me\"}, {user: low, password: \
                 \"pass-of-low\", permissions: {publish: \"nothing\"}}] }";
    let files = format!("tls {{ cert_file: \"{cert}\", key_file: \"{key}\" }}");
    let _with_users = serve(tls, &format!("{users}\n{files}"));
    let _with_token = serve(token, "authorization { token: \"a-s3cret-token\" }");
    let at = |endpoint: &str, more: &str| {
        format!("mine: {{kind: nats, endpoints: [\"{endpoint}\"]{more}}}")
    };
    let by_tls = |more: &str| {
        at(&format!("tls://127.0.0.1:{tls}"), &format!(", tls: {{ca: \"{ca}\"}}{more}"))
    };
    let by_token = |more: &str| at(&format!("nats://127.0.0.1:{token}"), more);
    does_well(&by_tls(AS_ME), &SECRETS, "user and password");
    does_well(&by_token(", credentials: {token: $OTHER_TOKEN}"), &SECRETS, "a token");
    let without = ["Authorization Violation", "hint: it needs a user or a token: add"];
    refused(&by_token(""), 4, &without);
    let mistaken = ["Authorization Violation", "hint: check `credentials`"];
    refused_with(&by_tls(MISTAKEN), &SECRETS, 4, &mistaken);
    let low = ["Permissions Violation", "hint: allow the user to publish to `$JS.API.>`"];
    refused_with(&by_tls(AS_LOW), &SECRETS, 4, &low);
    let plain = at(&format!("nats://127.0.0.1:{tls}"), AS_ME);
    refused_with(
        &plain,
        &SECRETS,
        4,
        &["it demands TLS", "hint: write the endpoint with `tls://`"],
    );
    let not_tls = at(&format!("tls://127.0.0.1:{token}"), &format!(", tls: {{ca: \"{ca}\"}}"));
    refused(&not_tls, 4, &["hint: it does not speak TLS there"]);
}
