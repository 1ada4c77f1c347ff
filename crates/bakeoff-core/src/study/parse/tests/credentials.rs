//! Tests credentials of running systems, and references to variables and files of the machine.

use std::io;

use crate::study::testing::kinds;
use crate::study::{Diagnostics, Study, Surroundings, TableError, TableFile, parse_within};

/// Simulates a machine with one variable and one file.
struct Desk;

impl Surroundings for Desk {
    fn table(&self, _: &str) -> Result<Option<TableFile>, TableError> {
        Ok(None)
    }

    fn file(&self, path: &str) -> Result<(), io::Error> {
        if path == "there.pem" { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn has_variable(&self, name: &str) -> bool {
        name == "SET"
    }
}

fn study(system: &str) -> Result<Study, Diagnostics> {
    let text = format!(
        "title: Credentials\n\
         systems:\n  kv: {{{system}}}\n\
         workloads: {{write: {{mix: {{put: 1}}, keys: {{count: 10}}}}}}\n\
         loads: {{steady: {{clients: 1, stop: {{after: 1s}}}}}}\n"
    );
    parse_within("my", "my.yaml", &text, &kinds(), &Desk)
}

const ETCD: &str = "kind: etcd, endpoints: [\"https://a:1\"]";
const REDIS: &str = "kind: redis, endpoints: [\"rediss://a:1\"], tls: {ca: there.pem}";
const NATS: &str = "kind: nats, endpoints: [\"tls://a:1\"], tls: {ca: there.pem}";
const VAULT: &str = "kind: vault, endpoints: [\"http://a:1\"]";

#[track_caller]
fn refused(system: &str, wording: &[&str]) {
    let error = study(system).expect_err("it is mistaken").to_string();
    for part in wording {
        assert!(error.contains(part), "{part} in:\n{error}");
    }
}

#[test]
fn credentials_that_fit_the_kind_are_parsed() {
    for system in [
        format!("{ETCD}, credentials: {{user: me, password: $SET}}"),
        format!("{ETCD}, credentials: {{user: me, password-file: there.pem}}"),
        format!("{VAULT}, credentials: {{token: $SET}}"),
        format!("{VAULT}, credentials: {{token-file: there.pem}}"),
        format!("{ETCD}, tls: {{ca: there.pem}}"),
        format!("{REDIS}, credentials: {{user: me, password: $SET}}"),
        format!("{NATS}, credentials: {{user: me, password: $SET}}"),
        format!("{NATS}, credentials: {{token: $SET}}"),
    ] {
        study(&system).unwrap_or_else(|error| panic!("{system}:\n{error}"));
    }
}

#[test]
fn credentials_that_do_not_fit_the_kind_are_rejected() {
    let both = "needs both `user` and `password`";
    refused(&format!("{ETCD}, credentials: {{user: me}}"), &[both, "my.yaml:3"]);
    refused(&format!("{ETCD}, credentials: {{password: $SET}}"), &[both]);
    let token =
        &["clients of kind `etcd` have no `token`", "hint: write `credentials: {user: NAME"];
    refused(&format!("{ETCD}, credentials: {{token: $SET}}"), token);
    let user =
        &["clients of kind `vault` have no `user`", "hint: write `credentials: {token: $NAME}`"];
    refused(&format!("{VAULT}, credentials: {{user: me, password: $SET}}"), user);
    refused(&format!("{VAULT}, credentials: {{}}"), &["says nothing"]);
    let twice = format!("{VAULT}, credentials: {{token: $SET, token-file: there.pem}}");
    refused(&twice, &["has both `token` and `token-file`"]);
    refused(&format!("{REDIS}, credentials: {{token: $SET}}"), &["have no `token`"]);
    refused(&format!("{NATS}, credentials: {{user: me}}"), &[both, "or `{token: $NAME}`"]);
    let either = format!("{NATS}, credentials: {{user: me, password: $SET, token: $SET}}");
    refused(&either, &["has both `token` and `user`", "hint: leave out one of the two"]);
    refused("kind: etcd, credentials: {user: me, password: $SET}", &["no `endpoints`"]);
}

#[test]
fn secret_in_a_study_is_rejected_and_shown_as_stars() {
    let system = format!("{ETCD}, credentials: {{user: me, password: hunter2}}");
    let error = study(&system).unwrap_err().to_string();
    assert!(
        error.contains("`password` holds a secret") && error.contains("password: *******}"),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "{error}");
    let process =
        "kind: process, process: {command: [./a, \"{port}\"], environment: {API_TOKEN: hunter2}}";
    let error = study(process).unwrap_err().to_string();
    assert!(error.contains("looks like a secret") && !error.contains("hunter2"), "{error}");
}

#[test]
fn missing_files_and_variables_are_reported_with_their_place() {
    let unset = &["my.yaml:3:", "`$UNSET` is not set in bakeoff's environment", "export UNSET="];
    refused(&format!("{ETCD}, credentials: {{user: me, password: $UNSET}}"), unset);
    refused(
        "kind: process, process: {command: [./a, \"{port}\"], environment: {LEVEL: $UNSET}}",
        unset,
    );
    let absent = &["my.yaml:3:", "`gone.pem` cannot be read: entity not found"];
    refused(&format!("{ETCD}, credentials: {{user: me, password-file: gone.pem}}"), absent);
    refused(&format!("{ETCD}, tls: {{ca: gone.pem}}"), absent);
    refused(&format!("{ETCD}, tls: {{ca: there.pem, cert: there.pem, key: gone.pem}}"), absent);
}
