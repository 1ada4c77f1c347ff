//! Holds names and secrets of a prepared secret store, for the operations of a load.
//!
//! Not here: the preparation (`prepare`), the operations (`api`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Memory;

/// Prefix of every mount and policy that bakeoff creates.
pub(super) const PREFIX: &str = "bakeoff-";
/// Description of every mount that bakeoff creates. Only mounts with it are ever removed.
pub(super) const MADE_BY: &str = "made by bakeoff, and removed by it";
pub(super) const KV: &str = "bakeoff-kv";
pub(super) const USERPASS: &str = "bakeoff-userpass";
pub(super) const APPROLE: &str = "bakeoff-approle";
pub(super) const LEASES: &str = "bakeoff-leases";
pub(super) const TRANSIT: &str = "bakeoff-transit";
pub(super) const PKI: &str = "bakeoff-pki";
pub(super) const PKI_ROOT: &str = "bakeoff-pki-root";
pub(super) const PKI_CLIENT: &str = "bakeoff-pki-client";
pub(super) const DATABASE: &str = "bakeoff-database";
pub(super) const POLICY: &str = "bakeoff-policy";
/// Name of bakeoff's role or key at a mount.
pub(super) const ROLE: &str = "bakeoff";
/// Domain of certificates. RFC 6761 reserves `.test` for tests.
pub(super) const DOMAIN: &str = "bakeoff.test";

/// Secrets and settings for the sessions of a load. Has no `Debug`, so that nothing prints them.
#[derive(Serialize, Deserialize)]
pub(crate) struct LoadSecrets {
    pub(super) token: String,
    /// True for the key-value engine with versions.
    pub(super) versioned: bool,
    /// Password of all users.
    pub(super) password: String,
    /// Request body of each role's login.
    pub(super) approles: Vec<String>,
    /// Request body of each text's decryption.
    pub(super) ciphertexts: Vec<String>,
    /// Start of the body of a certificate request; the name completes it.
    pub(super) request: String,
    /// Time to live of tokens that clients create and renew.
    pub(super) lease_seconds: u64,
}

pub(super) fn user_name(number: u64) -> String {
    format!("user-{number}")
}

/// Returns the values that sessions on other machines need.
pub(crate) fn give(memory: &Memory) -> Option<Value> {
    serde_json::to_value(&*memory.get::<LoadSecrets>()?).ok()
}

/// Stores those values.
pub(crate) fn take(given: Value, memory: &Memory) -> Option<()> {
    memory.keep(serde_json::from_value::<LoadSecrets>(given).ok()?);
    Some(())
}
