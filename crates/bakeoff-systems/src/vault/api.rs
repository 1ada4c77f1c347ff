//! Maps operations onto the HTTP API of Vault and OpenBao, and judges the answers.
//!
//! An answer is a success only if it holds the operation's result: a login a token, an issue a certificate and its
//! key. Decrypted and read values are passed on and compared byte for byte.
//!
//! Not here: the preparation (`prepare`), the wire format (`bakeoff_wire::http1`).

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::study::Operation;
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::{Answer, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::load_secrets::{
    APPROLE, DATABASE, DOMAIN, KV, LoadSecrets, PKI, POLICY, ROLE, TRANSIT, USERPASS, user_name,
};
use crate::http_session::{HttpSession, Mapping};
use crate::{Access, KvLoad, coordination, http_status_text};

pub(crate) fn drive(load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
    load.over(|node| HttpSession::new(node, SecretApi::new(node)))
}

/// API requests of a client of a prepared cluster.
#[derive(Clone)]
pub(super) struct SecretApi {
    prepared: Arc<LoadSecrets>,
}

impl SecretApi {
    pub(super) fn new(node: &Access) -> Self {
        Self::with(node.memory.get().expect("a workload is prepared before it is loaded"))
    }

    fn with(prepared: Arc<LoadSecrets>) -> Self {
        Self { prepared }
    }
}

impl Mapping for SecretApi {
    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        let number = request.number;
        // Writing to memory cannot fail.
        let _ = match request.operation {
            Operation::Put => return self.write_key("POST", request, out),
            Operation::Get | Operation::List => return self.write_key("GET", request, out),
            Operation::Delete => return self.write_key("DELETE", request, out),
            Operation::LoginUserpass => {
                write!(out, "POST /v1/auth/{USERPASS}/login/{}", user_name(number))
            }
            Operation::LoginApprole => write!(out, "POST /v1/auth/{APPROLE}/login"),
            Operation::LookupToken => write!(out, "GET /v1/auth/token/lookup-self"),
            Operation::Encrypt => write!(out, "POST /v1/{TRANSIT}/encrypt/encryption"),
            Operation::Decrypt => write!(out, "POST /v1/{TRANSIT}/decrypt/encryption"),
            Operation::Sign => write!(out, "POST /v1/{TRANSIT}/sign/signing"),
            Operation::IssueCertificate => write!(out, "POST /v1/{PKI}/issue/{ROLE}"),
            Operation::SignCertificate => write!(out, "POST /v1/{PKI}/sign/{ROLE}"),
            Operation::IssueCredentials => write!(out, "GET /v1/{DATABASE}/creds/{ROLE}"),
            Operation::ReadPolicy => write!(out, "GET /v1/sys/policies/acl/{POLICY}-{number}"),
            Operation::ReadMount => write!(out, "GET /v1/sys/mounts/{KV}"),
            operation if operation.is_of_leases() => {
                let call = if request.lease.is_empty() { "create" } else { "renew" };
                write!(out, "POST /v1/auth/token/{call}")
            }
            operation => super::super::never_planned(operation),
        };
    }

    fn write_headers(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"X-Vault-Token: ");
        out.extend_from_slice(self.prepared.token.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn write_body(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let prepared = &*self.prepared;
        // Values and names are bakeoff's own and need no escaping.
        let mut wrap = |start: &str, value: &[u8], end: &str| {
            out.extend_from_slice(start.as_bytes());
            out.extend_from_slice(value);
            out.extend_from_slice(end.as_bytes());
        };
        match request.operation {
            Operation::Put if prepared.versioned => {
                wrap("{\"data\":{\"value\":\"", request.value, "\"}}");
            }
            Operation::Put => wrap("{\"value\":\"", request.value, "\"}"),
            Operation::LoginUserpass => {
                wrap("{\"password\":\"", prepared.password.as_bytes(), "\"}");
            }
            Operation::LoginApprole => wrap("", nth(&prepared.approles, request.number), ""),
            Operation::Encrypt => {
                wrap("{\"plaintext\":\"", STANDARD.encode(request.value).as_bytes(), "\"}");
            }
            Operation::Decrypt => wrap("", nth(&prepared.ciphertexts, request.number), ""),
            Operation::Sign => {
                wrap("{\"input\":\"", STANDARD.encode(request.value).as_bytes(), "\"}");
            }
            Operation::IssueCertificate => {
                // Writing to memory cannot fail.
                let _ = write!(out, "{{\"common_name\":\"n{}.{DOMAIN}\"}}", request.number);
            }
            Operation::SignCertificate => {
                wrap(&prepared.request, b"", "");
                let _ = write!(out, ",\"common_name\":\"n{}.{DOMAIN}\"}}", request.number);
            }
            operation if operation.is_of_leases() => {
                let seconds = prepared.lease_seconds;
                // Writing to memory cannot fail.
                let _ = match request.lease {
                    "" => write!(out, "{{\"ttl\":\"{seconds}s\",\"policies\":[\"default\"]}}"),
                    token => write!(out, "{{\"token\":\"{token}\",\"increment\":\"{seconds}s\"}}"),
                };
            }
            _ => return false,
        }
        true
    }

    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        let answer = match (operation, status) {
            (Operation::Put, 200 | 204) | (Operation::Delete, 204) => Answer::Done,
            // `{"errors":[]}` means that nothing is stored there. For a deleted key, version 2 answers like this with
            // data. An answer with error texts is a failure.
            (Operation::Get | Operation::List, 404) if says_no_error(body) => Answer::Missing,
            (Operation::Get, 200) => return self.value(body, on),
            (Operation::List, 200) => return names(body, on),
            (Operation::Decrypt, 200) => return decrypted(body, on),
            (Operation::Put | Operation::Get | Operation::Delete | Operation::List, _) => {
                refused(status, body)
            }
            _ if operation.is_of_leases() => return self.read_lease(status, body, on),
            (_, 200) => match lacks(operation, body) {
                None => Answer::Done,
                Some(what) => Answer::Failed(
                    ErrorKind::Protocol,
                    format!("the answer to `{operation}` has no {what}"),
                ),
            },
            _ => refused(status, body),
        };
        on(answer);
    }
}

/// Returns the body prepared for a number.
fn nth(bodies: &[String], number: u64) -> &[u8] {
    bodies.get(number as usize).map_or(b"", |body| body.as_bytes())
}

impl SecretApi {
    /// Writes method and target of an operation on a key or a directory of keys.
    fn write_key(&self, method: &str, request: &Request<'_>, out: &mut Vec<u8>) {
        let list = request.operation == Operation::List;
        let part = match (self.prepared.versioned, list) {
            (false, _) => "",
            (true, true) => "metadata/",
            (true, false) => "data/",
        };
        let _ = write!(out, "{method} /v1/{KV}/{part}");
        out.extend_from_slice(request.key); // bakeoff's keys need no escaping
        if list {
            out.extend_from_slice(b"?list=true");
        }
    }

    /// Reads the answer to a request for a token, or to its renewal.
    fn read_lease(&self, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        let asked = self.prepared.lease_seconds;
        if status != 200 {
            return on(match says_gone(status, body) {
                true => Answer::LeaseExpired(Duration::from_secs(asked)),
                false => refused(status, body),
            });
        }
        match serde_json::from_slice::<TokenEnvelope<'_>>(body) {
            Ok(TokenEnvelope { auth }) => {
                on(coordination::granted(&auth.client_token, asked, auth.lease_duration));
            }
            Err(error) => on(broken(&error)),
        }
    }

    fn value(&self, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        let value = if self.prepared.versioned {
            serde_json::from_slice::<DataEnvelope<DataEnvelope<Secret<'_>>>>(body)
                .map(|reply| reply.data.data)
        } else {
            serde_json::from_slice::<DataEnvelope<Secret<'_>>>(body).map(|reply| reply.data)
        };
        match value {
            Ok(secret) => on(Answer::Value(secret.value.as_bytes())),
            Err(error) => on(broken(&error)),
        }
    }
}

fn broken<'a>(error: &serde_json::Error) -> Answer<'a> {
    Answer::Failed(ErrorKind::Protocol, error.to_string())
}

/// Converts an unsuccessful answer to a failure. Sealed, standby and uninitialised nodes are recognised by status
/// alone.
fn refused<'a>(status: u16, body: &[u8]) -> Answer<'a> {
    let means = match status {
        429 => " (a standby, or too many requests)",
        472 => " (a recovery secondary that is active)",
        473 => " (a performance standby)",
        501 => " (not initialised)",
        503 => " (sealed, or without a leader)",
        _ => "",
    };
    Answer::Failed(ErrorKind::Status, format!("{}{means}", http_status_text(status, body)))
}

fn names(body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
    match serde_json::from_slice::<DataEnvelope<Names<'_>>>(body) {
        Ok(reply) => {
            on(Answer::Names(&mut reply.data.keys.iter().map(|name| name.as_bytes())));
        }
        Err(error) => on(broken(&error)),
    }
}

fn decrypted(body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
    let text = serde_json::from_slice::<DataEnvelope<Plaintext<'_>>>(body)
        .map_err(|error| error.to_string())
        .and_then(|reply| {
            STANDARD.decode(reply.data.plaintext.as_bytes()).map_err(|error| error.to_string())
        });
    match text {
        Ok(text) => on(Answer::Value(&text)),
        Err(error) => on(Answer::Failed(ErrorKind::Protocol, error)),
    }
}

#[derive(Deserialize)]
struct Errors<'a> {
    #[serde(borrow, default)]
    errors: Vec<Cow<'a, str>>,
}

fn says_no_error(body: &[u8]) -> bool {
    serde_json::from_slice::<Errors<'_>>(body).is_ok_and(|reply| reply.errors.is_empty())
}

/// Returns true for the answer to the renewal of a token that has expired.
fn says_gone(status: u16, body: &[u8]) -> bool {
    let words = ["token not found", "bad token", "lease not found", "invalid lease"];
    matches!(status, 400 | 403)
        && serde_json::from_slice::<Errors<'_>>(body).is_ok_and(|reply| {
            reply.errors.iter().any(|error| words.iter().any(|words| error.contains(words)))
        })
}

/// Answer to the creation or renewal of a token.
#[derive(Deserialize)]
struct TokenEnvelope<'a> {
    #[serde(borrow)]
    auth: LeasedToken<'a>,
}

#[derive(Deserialize)]
struct LeasedToken<'a> {
    #[serde(borrow)]
    client_token: Cow<'a, str>,
    lease_duration: u64,
}

/// Returns the name of a missing field in an operation's answer.
fn lacks(operation: Operation, body: &[u8]) -> Option<&'static str> {
    let Ok(reply) = serde_json::from_slice::<ResponseBody<'_>>(body) else {
        return Some("JSON object");
    };
    let data = reply.data.unwrap_or_default();
    let there = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|text| !text.is_empty());
    let wanted: &[(bool, &'static str)] = match operation {
        Operation::LoginUserpass | Operation::LoginApprole => {
            let token = reply.auth.as_ref().is_some_and(|auth| there(&auth.client_token));
            &[(token, "token")]
        }
        Operation::LookupToken => &[(there(&data.accessor), "accessor of the token")],
        Operation::Encrypt => &[(there(&data.ciphertext), "ciphertext")],
        Operation::Sign => &[(there(&data.signature), "signature")],
        Operation::IssueCertificate => &[
            (there(&data.certificate), "certificate"),
            (there(&data.private_key), "key"),
            (there(&data.serial_number), "serial number"),
        ],
        Operation::SignCertificate => &[
            (there(&data.certificate), "certificate"),
            (there(&data.serial_number), "serial number"),
        ],
        Operation::IssueCredentials => {
            &[(there(&data.username), "user"), (there(&data.password), "password")]
        }
        Operation::ReadPolicy => &[(there(&data.policy), "policy")],
        Operation::ReadMount => &[(there(&data.uuid), "UUID of the mount")],
        _ => &[],
    };
    wanted.iter().find(|(there, _)| !there).map(|&(_, what)| what)
}

#[derive(Deserialize)]
struct DataEnvelope<T> {
    data: T,
}

#[derive(Deserialize)]
struct Secret<'a> {
    #[serde(borrow)]
    value: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Names<'a> {
    #[serde(borrow)]
    keys: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Plaintext<'a> {
    #[serde(borrow)]
    plaintext: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ResponseBody<'a> {
    #[serde(borrow)]
    auth: Option<Auth<'a>>,
    #[serde(borrow)]
    data: Option<Data<'a>>,
}

#[derive(Deserialize)]
struct Auth<'a> {
    #[serde(borrow)]
    client_token: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    accessor: Option<Cow<'a, str>>,
    #[serde(borrow)]
    ciphertext: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    certificate: Option<Cow<'a, str>>,
    #[serde(borrow)]
    private_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    serial_number: Option<Cow<'a, str>>,
    #[serde(borrow)]
    username: Option<Cow<'a, str>>,
    #[serde(borrow)]
    password: Option<Cow<'a, str>>,
    #[serde(borrow)]
    policy: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
}
