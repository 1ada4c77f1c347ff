//! Names and secrets of what was prepared in a secret store, as the operations of a load need them.
//!
//! Not here: making it (`prepare`), using it (`api`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Memory;

/// The beginning of the name of every mount and policy of ours.
pub(super) const PREFIX: &str = "bakeoff-";
/// The description of every mount of ours: only what has it is ever removed.
pub(super) const MADE_BY: &str = "made by bakeoff, and removed by it";
pub(super) const KV: &str = "bakeoff-kv";
pub(super) const USERPASS: &str = "bakeoff-userpass";
pub(super) const APPROLE: &str = "bakeoff-approle";
pub(super) const TRANSIT: &str = "bakeoff-transit";
pub(super) const PKI: &str = "bakeoff-pki";
pub(super) const PKI_ROOT: &str = "bakeoff-pki-root";
pub(super) const PKI_CLIENT: &str = "bakeoff-pki-client";
pub(super) const DATABASE: &str = "bakeoff-database";
pub(super) const POLICY: &str = "bakeoff-policy";
/// The role or key of ours at a mount.
pub(super) const ROLE: &str = "bakeoff";
/// The domain of certificates (RFC 6761 keeps `.test` for this).
pub(super) const DOMAIN: &str = "bakeoff.test";

/// The secrets and choices that sessions of a load need. It has no `Debug`, so that nothing prints it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Prepared {
    pub(super) token: String,
    /// Whether the key-value engine is the one with versions.
    pub(super) versioned: bool,
    /// The password of all users.
    pub(super) password: String,
    /// Body of each role's login.
    pub(super) approles: Vec<String>,
    /// Body of each text's decryption.
    pub(super) ciphertexts: Vec<String>,
    /// Body of a request to certify one's own key; without its end, the name.
    pub(super) request: String,
}

/// Returns the name of a user.
pub(super) fn user_name(number: u64) -> String {
    format!("user-{number}")
}

/// Returns what sessions need, for those on other machines.
pub(crate) fn give(memory: &Memory) -> Option<Value> {
    serde_json::to_value(&*memory.get::<Prepared>()?).ok()
}

/// Keeps it there.
pub(crate) fn take(given: Value, memory: &Memory) -> Option<()> {
    memory.keep(serde_json::from_value::<Prepared>(given).ok()?);
    Some(())
}
