//! Defines the types of tests: the objects each makes on the server, and the request it repeats.
//!
//! A type reads its options together with the file, so that all faults are reported before anything is made. Set-up
//! makes the objects and returns a template of the requests. The ledger records the objects and removes them, so types
//! have no clean-up code.
//!
//! Not here: reading options (`fields`), the load (`load`).

mod cubbyhole;
mod databases;
mod directories;
mod kv;
mod logins;
mod pki;
#[cfg(test)]
mod recorded;
mod services;
mod ssh;
mod sys;
mod totp;
mod transit;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use self::kv::Version;
use super::cleanup::{CreatedObject, Ledger};
use super::client::{Client, Reply};
use super::fields::Fields;
use super::request::{Piece, Template, uuid};
use super::trouble::{Kind, Trouble};

/// Test of a file, with its options.
pub(super) trait TestType {
    /// Makes the objects that the requests need.
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble>;

    /// Returns the client's TLS identity if the test generated one.
    fn identity(&self) -> Option<&Identity> {
        None
    }
}

/// A certificate and its key, in PEM. Never print it.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// An action on numbered objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    List,
    Write,
}

impl Action {
    /// Returns the request for one of `count` objects in a folder, or for their list. `name` precedes each object's
    /// number.
    fn template(self, folder: &str, name: &str, count: u64, body: String) -> Template {
        let fixed = |method| Template::fixed(method, folder.to_owned(), String::new());
        let path = vec![Piece::Text(format!("{folder}/{name}-")), Piece::Number(count)];
        match self {
            Self::Read => Template { path, ..fixed("GET") },
            Self::List => fixed("LIST"),
            Self::Write => Template { path, body: vec![Piece::Text(body)], ..fixed("POST") },
        }
    }
}

/// Name of a type in files, and the function that reads its options.
type Entry = (&'static str, fn(&Fields) -> Box<dyn TestType>);

/// Types other than the rows of `services`.
const TYPES: &[Entry] = &[
    ("acl_policy_list", |fields| sys::policies(fields, Action::List)),
    ("acl_policy_read", |fields| sys::policies(fields, Action::Read)),
    ("acl_policy_write", |fields| sys::policies(fields, Action::Write)),
    ("cert_auth", logins::cert),
    ("cubbyhole_read", |fields| cubbyhole::cubbyhole(fields, Action::Read)),
    ("cubbyhole_write", |fields| cubbyhole::cubbyhole(fields, Action::Write)),
    ("ha_status", |_| sys::status("ha-status")),
    // By default a standby answers 429, a failure. With these parameters every node that can serve answers 200.
    ("health", |_| sys::status_in_root("health?standbyok=true&perfstandbyok=true")),
    ("jwt_auth", logins::jwt),
    ("kvv1_list", |fields| kv::kv(fields, Version::One, Action::List)),
    ("kvv1_read", |fields| kv::kv(fields, Version::One, Action::Read)),
    ("kvv1_write", |fields| kv::kv(fields, Version::One, Action::Write)),
    ("kvv2_list", |fields| kv::kv(fields, Version::Two, Action::List)),
    ("kvv2_read", |fields| kv::kv(fields, Version::Two, Action::Read)),
    ("kvv2_write", |fields| kv::kv(fields, Version::Two, Action::Write)),
    ("leader", |_| sys::status_in_root("leader")),
    ("metrics", |_| sys::status_in_root("metrics")),
    ("mount", sys::mount),
    ("namespace", sys::namespace),
    ("pki_issue", pki::issue),
    ("pki_sign", pki::sign),
    ("seal_status", |_| sys::status("seal-status")),
];

/// Types of vault-benchmark that bakeoff lacks. They need other services, or paid features of Vault.
pub(super) const ELSEWHERE: &[&str] = &[
    "associations_read",
    "associations_write",
    "aws_auth",
    "azure_auth",
    "azure_secret",
    "events",
    "gcp_auth",
    "gcp_impersonation_secret",
    "gcp_secret",
    "gcpkms_decrypt",
    "gcpkms_encrypt",
    "gcpkms_reencrypt",
    "gcpkms_sign",
    "gcpkms_verify",
    "identity",
    "kube_auth",
    "kubernetes_secret",
    "mongodb_atlas_secret",
    "okta_auth",
    "oracle_secret",
    "radius_auth",
    "redis_elasticache_secret",
    "snowflake_dynamic_secret",
    "snowflake_static_secret",
    "terraform_secret",
    "transform_tokenization",
];

/// Reads the options of a test of this type; `None` for an unknown type.
pub(super) fn build(kind: &str, config: &Fields) -> Option<Box<dyn TestType>> {
    let found = TYPES.iter().find(|(name, _)| *name == kind);
    found.map(|(_, build)| build(config)).or_else(|| services::build(kind, config))
}

/// Returns the names of all types, sorted.
pub(super) fn names() -> Vec<&'static str> {
    let own = TYPES.iter().map(|(name, _)| *name);
    let mut names: Vec<&str> = own.chain(services::names()).collect();
    names.sort_unstable();
    names
}

/// Context of a test's set-up.
pub(super) struct Stage<'a> {
    pub(super) client: &'a mut Client,
    pub(super) ledger: &'a mut Ledger,
    /// Name or prefix of the mount.
    pub(super) name: String,
    /// Reports progress, one line per call.
    pub(super) progress: &'a mut dyn FnMut(String),
}

impl Stage<'_> {
    /// Mounts a secrets engine. `options` are added to the request.
    pub(super) fn mount(&mut self, path: &str, kind: &str, options: Value) -> Result<(), Trouble> {
        self.enable("mounts", path, kind, options)
    }

    /// Mounts an authentication method.
    pub(super) fn enable_auth(
        &mut self,
        path: &str,
        kind: &str,
        options: Value,
    ) -> Result<(), Trouble> {
        self.enable("auth", path, kind, options)
    }

    fn enable(
        &mut self,
        table: &str,
        path: &str,
        kind: &str,
        options: Value,
    ) -> Result<(), Trouble> {
        (self.progress)(format!("mounting {kind} at {path}"));
        let full = format!("sys/{table}/{path}");
        let mut body = json!({ "type": kind, "config": {} });
        merge(&mut body, options);
        let made = CreatedObject::At(full.clone());
        self.ledger.note(made.clone());
        match self.client.post(&full, &body) {
            Ok(_) => Ok(()),
            // A repeated request finds the path in use if the lost leader had obeyed the first one.
            Err(trouble) if trouble.kind == Kind::InUse && trouble.repeated => Ok(()),
            Err(trouble) => {
                if trouble.kind.is_refusal() && !trouble.repeated {
                    self.ledger.forget(&made);
                }
                let mut trouble = trouble.while_doing(&format!("cannot mount `{kind}`"));
                if trouble.what.contains("plugin not found in the catalog") {
                    trouble.hint = Some(
                        "this server has no such engine: `vault plugin list`, `bao plugin list` \
                         show what it has; Vault and OpenBao differ",
                    );
                }
                Err(trouble)
            }
        }
    }

    /// Writes a body to a path, which follows `/v1/`.
    pub(super) fn write(&mut self, path: &str, body: Map<String, Value>) -> Result<Reply, Trouble> {
        (self.progress)(format!("writing {path}"));
        self.client.write(path, &Value::Object(body))
    }

    /// Waits for work that the server continues after its answer.
    pub(super) fn wait(&self, time: Duration) -> Result<(), Trouble> {
        self.client.wait(time)
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

pub(super) fn body_of(fields: Map<String, Value>) -> String {
    Value::Object(fields).to_string()
}

/// Returns a name that is not in use.
pub(super) fn fresh_name() -> String {
    uuid([rand::random(), rand::random()])
}

/// Returns `length` random bytes in Base64.
fn random_base64(length: usize) -> String {
    let bytes: Vec<u8> = (0..length).map(|_| rand::random()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests_of_types {
    use super::*;

    #[test]
    fn types_are_sorted_and_unique() {
        let names = names();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn unsupported_types_are_not_registered() {
        let both: Vec<_> = ELSEWHERE.iter().filter(|name| names().contains(name)).collect();
        assert!(both.is_empty(), "{both:?}");
    }

    #[test]
    fn fresh_names_differ() {
        assert_ne!(fresh_name(), fresh_name());
        assert_eq!(STANDARD.decode(random_base64(7)).unwrap().len(), 7);
    }
}
