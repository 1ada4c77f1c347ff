//! Tests `bakeoff load` over TLS: trusted and client certificates.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::load::{load, result};
use crate::support::certificates::Certificates;

#[test]
fn untrusted_certificate_is_reported_at_once() {
    let certificates = Certificates::new();
    let (address, ca) = (certificates.server(), certificates.path("ca.pem"));
    let url = format!("https://{address}/");
    let asked = |flags: &[&str]| load(&[&[url.as_str(), "-n", "20", "-c", "2"], flags].concat());
    let hint = "hint: `--ca FILE` trusts an authority or a single certificate, `--insecure` any";
    asked(&[]).ends_with(4).complains(&["no trusted authority signed its certificate", hint]);
    for trust in [&["--ca", ca.to_str().unwrap()][..], &["--insecure"]] {
        let (result, _) = result(&[&[url.as_str(), "-n", "20", "-c", "2"], trust].concat());
        assert_eq!(result["statuses"], json!({"200": 20}), "{trust:?}");
    }
    asked(&["--ca", "/nowhere"]).ends_with(2).complains(&["`/nowhere` cannot be used"]);
}

#[test]
fn server_that_demands_a_certificate_needs_one() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let shown = Arc::new(AtomicU64::new(0));
    certificates.serve(listener, Some(Arc::clone(&shown)));
    let ca = certificates.path("ca.pem").display().to_string();
    let words = [&url, "-n", "20", "-c", "2", "--ca", &ca];
    let with = |of: &Certificates| {
        let [cert, key] = ["server.pem", "server.key"].map(|name| of.path(name));
        let own = ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
        load(&[&words[..], &own, &["--json"]].concat())
    };
    let ran = with(&certificates).ends_with(0);
    let loaded: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(loaded["statuses"], json!({"200": 20}), "{loaded:#}");
    assert_eq!(shown.load(Ordering::Relaxed), 3, "two clients and the look before");
    let hint = "hint: send one: `--cert FILE` and `--key FILE`";
    load(&words).ends_with(4).complains(&["could not agree on TLS", hint]);
    with(&others).ends_with(4).complains(&["could not agree on TLS"]);
    assert_eq!(shown.load(Ordering::Relaxed), 3);
}
