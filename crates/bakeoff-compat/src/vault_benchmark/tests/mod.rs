//! The types of tests: what each makes on the server, and what it asks for again and again.
//!
//! A type reads its options when the file is read, so that all mistakes are told before anything is
//! made. Setting up makes what the test needs and yields a template of its requests. What was made
//! goes into the ledger, and the ledger takes it away again: types have no clean-up of their own.
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
use super::cleanup::{Ledger, Made};
use super::client::{Client, Reply};
use super::fields::Fields;
use super::request::{Piece, Template, uuid};
use super::trouble::{Kind, Trouble};

/// A test of a file, with its options.
pub(super) trait TestType {
    /// Makes what the requests need.
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble>;

    /// Returns who the clients say they are over TLS, if the test made that up.
    fn identity(&self) -> Option<&Identity> {
        None
    }
}

/// A certificate and its key, in PEM. Never to be printed.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Actions on numbered things.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    List,
    Write,
}

impl Action {
    /// Returns the requests for one of `count` things in a folder, or for the list of them. `name` is what
    /// each is called before its number.
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

/// A type: its name in files, and how its options are read.
type Entry = (&'static str, fn(&Fields) -> Box<dyn TestType>);

/// Every type that is not a row of `services`.
const TYPES: &[Entry] = &[
    ("acl_policy_list", |fields| sys::policies(fields, Action::List)),
    ("acl_policy_read", |fields| sys::policies(fields, Action::Read)),
    ("acl_policy_write", |fields| sys::policies(fields, Action::Write)),
    ("cert_auth", logins::cert),
    ("cubbyhole_read", |fields| cubbyhole::cubbyhole(fields, Action::Read)),
    ("cubbyhole_write", |fields| cubbyhole::cubbyhole(fields, Action::Write)),
    ("ha_status", |_| sys::status("ha-status")),
    // A standby's 429 would be a failure; asked so, each node that can serve says 200.
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

/// The originals' types that are not here: they need services of others, or parts of Vault that are
/// sold.
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

/// Reads the options of a test of this type; `None` for a type that there is not.
pub(super) fn build(kind: &str, config: &Fields) -> Option<Box<dyn TestType>> {
    let found = TYPES.iter().find(|(name, _)| *name == kind);
    found.map(|(_, build)| build(config)).or_else(|| services::build(kind, config))
}

/// The names of all types, in order.
pub(super) fn names() -> Vec<&'static str> {
    let own = TYPES.iter().map(|(name, _)| *name);
    let mut names: Vec<&str> = own.chain(services::names()).collect();
    names.sort_unstable();
    names
}

/// Where a test is set up.
pub(super) struct Stage<'a> {
    pub(super) client: &'a mut Client,
    pub(super) ledger: &'a mut Ledger,
    /// The name that what is mounted gets, or begins with.
    pub(super) name: String,
    /// Reports progress, a line at a time.
    pub(super) told: &'a mut dyn FnMut(String),
}

impl Stage<'_> {
    /// Mounts a secrets engine: `options` go into the request as they are.
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
        (self.told)(format!("mounting {kind} at {path}"));
        let full = format!("sys/{table}/{path}");
        let mut body = json!({ "type": kind, "config": {} });
        merge(&mut body, options);
        let made = Made::At(full.clone());
        self.ledger.note(made.clone());
        match self.client.post(&full, &body) {
            Ok(_) => Ok(()),
            // Asked for again after the leader was lost, which had obeyed.
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

    /// Writes a body to a path after `/v1/`.
    pub(super) fn write(&mut self, path: &str, body: Map<String, Value>) -> Result<Reply, Trouble> {
        (self.told)(format!("writing {path}"));
        self.client.write(path, &Value::Object(body))
    }

    /// Waits for what a server does after it has answered.
    pub(super) fn wait(&self, time: Duration) -> Result<(), Trouble> {
        self.client.wait(time)
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

/// A body as it is sent.
pub(super) fn body_of(fields: Map<String, Value>) -> String {
    Value::Object(fields).to_string()
}

/// A name that nothing has yet.
pub(super) fn fresh_name() -> String {
    uuid([rand::random(), rand::random()])
}

/// So many random bytes, in Base64.
fn random_base64(length: usize) -> String {
    let bytes: Vec<u8> = (0..length).map(|_| rand::random()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests_of_types {
    use super::*;

    #[test]
    fn types_stand_in_order_and_once() {
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
    fn a_fresh_name_is_fresh() {
        assert_ne!(fresh_name(), fresh_name());
        assert_eq!(STANDARD.decode(random_base64(7)).unwrap().len(), 7);
    }
}
