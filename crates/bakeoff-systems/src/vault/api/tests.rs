//! Tests how the API's answers are judged.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::study::{ReadConsistency, Workload};
use bakeoff_core::workload::Stamp;
use bakeoff_engine::Drive;
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::keyed::{KeyedState, Reading, Request, Source, StalenessTracking};

use super::*;
use crate::{Memory, kinds};

fn api(versioned: bool) -> SecretApi {
    SecretApi::with(Arc::new(LoadSecrets {
        token: "a-token".into(),
        versioned,
        password: "a-password".into(),
        approles: vec!["{\"role_id\":\"r0\"}".into(), "{\"role_id\":\"r1\"}".into()],
        ciphertexts: vec!["{\"ciphertext\":\"c0\"}".into()],
        request: "{\"csr\":\"a-csr\"".into(),
        lease_seconds: 10,
    }))
}

/// Returns the judgement of an answer as text.
fn answer(versioned: bool, operation: Operation, status: u16, body: &str) -> String {
    let mut seen = String::new();
    api(versioned).read(operation, status, body.as_bytes(), &mut |answer| {
        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        seen = match answer {
            Answer::Done => "done".to_owned(),
            Answer::Value(value) => format!("value {}", utf8(value)),
            Answer::Missing => "missing".to_owned(),
            Answer::Names(names) => {
                format!("names {}", names.map(utf8).collect::<Vec<_>>().join(" "))
            }
            Answer::Failed(kind, what) => format!("{}: {what}", kind.name()),
            _ => "another".to_owned(),
        };
    });
    seen
}

#[track_caller]
fn check(operation: Operation, status: u16, body: &str, expected: &str) {
    assert_eq!(answer(false, operation, status, body), expected, "{operation} {status} {body}");
}

#[track_caller]
fn fails(operation: Operation, status: u16, body: &str, parts: &[&str]) {
    for versioned in [false, true] {
        let seen = answer(versioned, operation, status, body);
        for part in parts {
            assert!(seen.contains(part), "no `{part}` in `{seen}` for {operation} {status} {body}");
        }
    }
}

#[test]
fn token_is_created_then_renewed_until_it_is_gone() {
    let api = api(true);
    let asked = |lease| {
        let request = crate::replay::request(Operation::KeepLease, b"k", b"");
        let request = Request { lease, ..request };
        let (mut target, mut body) = (Vec::new(), Vec::new());
        api.write_target(&request, &mut target);
        assert!(api.write_body(&request, &mut body));
        format!("{} {}", String::from_utf8(target).unwrap(), String::from_utf8(body).unwrap())
    };
    let answered = |status, body: &str| {
        let mut seen = None;
        api.read(Operation::KeepLease, status, body.as_bytes(), &mut |answer| {
            seen = Some(match answer {
                Answer::Granted(name) => format!("granted {name}"),
                Answer::LeaseExpired(lasts) => format!("gone, of {lasts:?}"),
                Answer::Failed(_, what) => what,
                _ => "another".to_owned(),
            });
        });
        seen.unwrap()
    };
    let create = "POST /v1/auth/token/create {\"ttl\":\"10s\",\"policies\":[\"default\"]}";
    assert_eq!(asked(""), create);
    let granted =
        |seconds| format!("{{\"auth\":{{\"client_token\":\"t1\",\"lease_duration\":{seconds}}}}}");
    assert_eq!(answered(200, &granted(5)), "a lease was granted for 5 s in place of 10 s");
    assert_eq!(answered(200, &granted(10)), "granted t1");
    assert_eq!(asked("t1"), "POST /v1/auth/token/renew {\"token\":\"t1\",\"increment\":\"10s\"}");
    assert!(answered(503, "").starts_with("503"), "no leader is no lost lease");
    assert_eq!(answered(403, "{\"errors\":[\"bad token\"]}"), "gone, of 10s");
}

#[test]
fn operations_map_to_their_requests() {
    let request = |versioned: bool, operation: Operation, key: &str, value: &str| {
        let (mut target, mut body) = (Vec::new(), Vec::new());
        let (key, value) = (key.as_bytes(), value.as_bytes());
        let request = Request { number: 1, value, ..Request::new(operation, key) };
        let api = api(versioned);
        api.write_target(&request, &mut target);
        let has_body = api.write_body(&request, &mut body);
        assert_eq!(has_body, !body.is_empty(), "{operation}");
        format!("{} {}", String::from_utf8(target).unwrap(), String::from_utf8(body).unwrap())
    };
    use Operation::{
        Delete, Encrypt, Get, IssueCertificate, IssueCredentials, List, LoginApprole,
        LoginUserpass, LookupToken, Put, ReadMount, ReadPolicy, Sign, SignCertificate,
    };
    for (versioned, operation, expected) in [
        (false, Put, "POST /v1/bakeoff-kv/k {\"value\":\"v\"}"),
        (true, Put, "POST /v1/bakeoff-kv/data/k {\"data\":{\"value\":\"v\"}}"),
        (false, Get, "GET /v1/bakeoff-kv/k "),
        (true, Get, "GET /v1/bakeoff-kv/data/k "),
        (false, Delete, "DELETE /v1/bakeoff-kv/k "),
        (true, Delete, "DELETE /v1/bakeoff-kv/data/k "),
        (false, List, "GET /v1/bakeoff-kv/k?list=true "),
        (true, List, "GET /v1/bakeoff-kv/metadata/k?list=true "),
        (
            true,
            LoginUserpass,
            "POST /v1/auth/bakeoff-userpass/login/user-1 {\"password\":\"a-password\"}",
        ),
        (true, LoginApprole, "POST /v1/auth/bakeoff-approle/login {\"role_id\":\"r1\"}"),
        (true, LookupToken, "GET /v1/auth/token/lookup-self "),
        (true, Encrypt, "POST /v1/bakeoff-transit/encrypt/encryption {\"plaintext\":\"dg==\"}"),
        (true, Sign, "POST /v1/bakeoff-transit/sign/signing {\"input\":\"dg==\"}"),
        (
            true,
            IssueCertificate,
            "POST /v1/bakeoff-pki/issue/bakeoff {\"common_name\":\"n1.bakeoff.test\"}",
        ),
        (
            true,
            SignCertificate,
            "POST /v1/bakeoff-pki/sign/bakeoff {\"csr\":\"a-csr\",\"common_name\":\"n1.bakeoff.test\"}",
        ),
        (true, IssueCredentials, "GET /v1/bakeoff-database/creds/bakeoff "),
        (true, ReadPolicy, "GET /v1/sys/policies/acl/bakeoff-policy-1 "),
        (true, ReadMount, "GET /v1/sys/mounts/bakeoff-kv "),
    ] {
        assert_eq!(request(versioned, operation, "k", "v"), expected);
    }
    let mut head = Vec::new();
    api(true).write_headers(&mut head);
    assert_eq!(head, b"X-Vault-Token: a-token\r\n");
}

#[test]
fn distinguishes_stored_keys_from_absent_ones() {
    use Operation::{Delete, Get, List, Put};
    check(Put, 204, "", "done");
    check(Put, 200, "{}", "done");
    check(Delete, 204, "", "done");
    check(Get, 200, "{\"data\":{\"value\":\"a \\u0062\"}}", "value a b");
    check(List, 200, "{\"data\":{\"keys\":[\"a\",\"b/\"]}}", "names a b/");
    assert_eq!(
        answer(true, Get, 200, "{\"data\":{\"data\":{\"value\":\"v\"},\"metadata\":{}}}"),
        "value v"
    );
    for operation in [Get, List] {
        check(operation, 404, "{\"errors\":[]}", "missing");
        // A missing mount is not a missing key.
        fails(operation, 404, "{\"errors\":[\"no handler for route\"]}", &["status", "no handler"]);
        fails(operation, 404, "<html>not found</html>", &["status", "404"]);
    }
    // Version 2 answers for a deleted key with status 404 and data.
    let deleted =
        "{\"data\":{\"data\":null,\"metadata\":{\"deletion_time\":\"2026-01-01T00:00:00Z\"}}}";
    assert_eq!(answer(true, Get, 404, deleted), "missing");
}

#[test]
fn unexpected_answer_is_an_error() {
    use Operation::{Decrypt, Delete, Get, List, Put};
    fails(Put, 404, "{\"errors\":[]}", &["status: 404"]);
    fails(Delete, 404, "{\"errors\":[]}", &["status: 404"]);
    fails(Delete, 200, "{}", &["status: 200"]);
    fails(Get, 200, "{\"data\":{}}", &["protocol", "missing field"]);
    fails(Get, 200, "", &["protocol", "EOF"]);
    fails(Get, 204, "", &["status: 204"]);
    fails(List, 200, "{\"data\":{\"names\":[]}}", &["protocol", "keys"]);
    fails(Decrypt, 200, "{\"data\":{\"plaintext\":\"%\"}}", &["protocol"]);
    fails(Decrypt, 200, "{\"data\":{\"ciphertext\":\"x\"}}", &["protocol", "plaintext"]);
    check(Decrypt, 200, "{\"data\":{\"plaintext\":\"dg==\"}}", "value v");
}

#[test]
fn known_status_is_explained() {
    for (status, meaning) in [
        (429, "a standby, or too many requests"),
        (472, "a recovery secondary"),
        (473, "a performance standby"),
        (501, "not initialised"),
        (503, "sealed, or without a leader"),
    ] {
        for operation in [Operation::Get, Operation::Put, Operation::Sign, Operation::Decrypt] {
            let text = status.to_string();
            fails(operation, status, "{\"errors\":[]}", &["status: ", &text, meaning]);
        }
    }
    fails(
        Operation::Get,
        403,
        "{\"errors\":[\"permission denied\"]}",
        &["403: ", "permission denied"],
    );
}

#[test]
fn incomplete_answer_is_an_error() {
    let issued = "{\"data\":{\"certificate\":\"c\",\"private_key\":\"k\",\"serial_number\":\"s\"}}";
    for (operation, composite, broken, lacks) in [
        (
            Operation::LoginUserpass,
            "{\"auth\":{\"client_token\":\"t\"}}",
            "{\"auth\":null}",
            "token",
        ),
        (
            Operation::LoginApprole,
            "{\"auth\":{\"client_token\":\"t\"}}",
            "{\"auth\":{\"client_token\":\"\"}}",
            "token",
        ),
        (Operation::LookupToken, "{\"data\":{\"accessor\":\"a\"}}", "{\"data\":{}}", "accessor"),
        (
            Operation::Encrypt,
            "{\"data\":{\"ciphertext\":\"c\"}}",
            "{\"data\":{\"plaintext\":\"c\"}}",
            "ciphertext",
        ),
        (Operation::Sign, "{\"data\":{\"signature\":\"s\"}}", "{\"data\":null}", "signature"),
        (
            Operation::IssueCertificate,
            issued,
            "{\"data\":{\"private_key\":\"k\",\"serial_number\":\"s\"}}",
            "certificate",
        ),
        (
            Operation::IssueCertificate,
            issued,
            "{\"data\":{\"certificate\":\"c\",\"serial_number\":\"s\"}}",
            "key",
        ),
        (
            Operation::IssueCertificate,
            issued,
            "{\"data\":{\"certificate\":\"c\",\"private_key\":\"k\"}}",
            "serial number",
        ),
        (Operation::SignCertificate, issued, "{\"data\":{\"serial_number\":\"s\"}}", "certificate"),
        (
            Operation::IssueCredentials,
            "{\"data\":{\"username\":\"u\",\"password\":\"p\"}}",
            "{\"data\":{\"username\":\"u\"}}",
            "password",
        ),
        (Operation::ReadPolicy, "{\"data\":{\"policy\":\"p\"}}", "{\"policy\":\"p\"}", "policy"),
        (Operation::ReadMount, "{\"data\":{\"uuid\":\"u\"}}", "{}", "UUID"),
    ] {
        check(operation, 200, composite, "done");
        fails(operation, 200, broken, &["protocol", operation.name(), "has no", lacks]);
        fails(operation, 200, "certainly", &["protocol", "JSON object"]);
        fails(operation, 204, "", &["status: 204"]);
    }
}

/// Returns a workload from a study's text.
fn workload(text: &str) -> Workload {
    let study = format!(
        "title: t\nsystems: {{v: {{kind: vault}}}}\nworkloads: {{w: {{{text}}}}}\n\
         loads: {{l: {{clients: 1, stop: {{operations: 1}}}}}}\n"
    );
    bakeoff_core::study::parse("t", "t.yaml", &study, &kinds()).unwrap().workloads.remove(0)
}

#[test]
fn wrong_decrypted_text_is_a_wrong_value() {
    let workload = workload("mix: {decrypt: 1}, keys: {count: 1, order: same}");
    let keyed = Arc::new(KeyedState::new(&workload, 7, StalenessTracking::NotMeasured));
    let mut text = Vec::new();
    keyed.values.write_value(0, Stamp { writer: 0, sequence: 1 }, &mut text);
    let mut altered = text.clone();
    *altered.last_mut().unwrap() ^= 1;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for text in [text, altered] {
            let mut request = Vec::new();
            while !request.ends_with(b"\"c0\"}") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let body = format!("{{\"data\":{{\"plaintext\":\"{}\"}}}}", STANDARD.encode(text));
            let length = body.len();
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        }
        (listener, socket) // kept open until the end
    });
    let memory = Memory::default();
    memory.keep(LoadSecrets {
        token: "t".into(),
        versioned: true,
        password: String::new(),
        approles: Vec::new(),
        ciphertexts: vec!["{\"ciphertext\":\"c0\"}".into()],
        request: String::new(),
        lease_seconds: 60,
    });
    let node = Access {
        name: "v".into(),
        authority: address.to_string(),
        target: Target { address, tls: None },
        memory,
    };
    let load = KvLoad {
        nodes: &[node],
        keyed: &keyed,
        source: &mut |_| Source::mix(&workload, 7, 7),
        reading: Reading {
            reads: ReadConsistency::Default,
            may_be_stale: false,
            lists_are_complete: false,
        },
        drive: &Drive::once(2, 1, 1, Duration::from_secs(10)),
        barrier: None,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_| {},
    };
    let (measurement, _) = drive(load).unwrap();
    let _open = server.join().unwrap();
    let errors: Vec<_> = measurement.error_examples().map(|(kind, _)| kind).collect();
    assert_eq!(errors, [ErrorKind::WrongValue]);
}

#[test]
fn no_answer_panics_or_takes_much_memory() {
    let corpus: [&[u8]; 4] = [
        br#"{"data":{"keys":["a","b/"]}}"#,
        br#"{"data":{"plaintext":"aGVsbG8="}}"#,
        br#"{"auth":{"client_token":"t"},"data":{"accessor":"a","ciphertext":"c","serial_number":"1"}}"#,
        br#"{"errors":["permission denied"]}"#,
    ];
    let pieces = ["null", "[]", "{", "\\ud800", "\\u0000", "\"data\":", "====", "\u{202e}"];
    bakeoff_fuzz::run("vault", &corpus, &pieces, |input| {
        let on = &mut |answer: Answer<'_>| {
            if let Answer::Failed(_, what) = answer {
                assert!(what.len() < 1000, "{what}");
            }
        };
        names(input, on);
        decrypted(input, on);
        on(refused(503, input));
        says_no_error(input);
        for operation in [Operation::LoginUserpass, Operation::IssueCertificate, Operation::Sign] {
            lacks(operation, input);
        }
    });
}
