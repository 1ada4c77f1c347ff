//! Operations that clients do: their names, and what each does to keys.
//!
//! Not here: how a workload mixes them (`study`), their requests (each system's session).

use serde::{Deserialize, Serialize};

use crate::named::named;

/// An operation: those of a key-value store first, then those of a secret store, then those of a
/// gateway and what it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Create or update one key.
    Put,
    /// Read one key.
    Get,
    /// Remove one key.
    Delete,
    /// The names in one directory of keys.
    List,
    /// Exchange a name and a password for a token.
    LoginUserpass,
    /// Exchange a role's id and secret for a token.
    LoginApprole,
    /// Ask what one's own token is worth.
    LookupToken,
    /// Have a text encrypted by a key that stays with the server.
    Encrypt,
    /// Have it decrypted again.
    Decrypt,
    /// Have a text signed by a key that stays with the server.
    Sign,
    /// Have a key pair made and certified.
    IssueCertificate,
    /// Have a key of one's own certified.
    SignCertificate,
    /// Have a user of a database made.
    IssueCredentials,
    /// Read a policy.
    ReadPolicy,
    /// Read the settings of a mount.
    ReadMount,
    /// Create one key that is not there yet.
    Insert,
    /// Ask for a sign of life.
    Ping,
    /// Ask whether a session may have a resource, which it may.
    CheckAccess,
    /// Ask for what the workload's `request` says, over HTTP.
    Request,
    /// Ask for what one may not have; a refusal alone is right.
    Denied,
    /// Read one key, and then write it. Another client may write in between.
    ReadModifyWrite,
    /// Read one key, and write it unless somebody else has by then; else read again.
    CompareAndSet,
    /// Read several keys in their order, from one on.
    Scan,
    /// Have a lease granted.
    GrantLease,
    /// Keep the client's own lease alive.
    KeepLease,
    /// Write the client's own key, and wait for the event at its own watcher.
    Watch,
}

named!(Operation:
    Put = "put",
    Get = "get",
    Delete = "delete",
    List = "list",
    LoginUserpass = "login-userpass",
    LoginApprole = "login-approle",
    LookupToken = "lookup-token",
    Encrypt = "encrypt",
    Decrypt = "decrypt",
    Sign = "sign",
    IssueCertificate = "issue-certificate",
    SignCertificate = "sign-certificate",
    IssueCredentials = "issue-credentials",
    ReadPolicy = "read-policy",
    ReadMount = "read-mount",
    Insert = "insert",
    Ping = "ping",
    CheckAccess = "check-access",
    Request = "request",
    Denied = "denied",
    ReadModifyWrite = "read-modify-write",
    CompareAndSet = "compare-and-set",
    Scan = "scan",
    GrantLease = "grant-lease",
    KeepLease = "keep-lease",
    Watch = "watch",
);

impl Operation {
    /// Those of a key-value store.
    pub const KEY_VALUE: &'static [Operation] =
        &[Self::Put, Self::Get, Self::Delete, Self::List, Self::ReadModifyWrite];

    /// Those of a key-value store that can also write on a condition.
    pub const CONDITIONAL: &'static [Operation] = &[
        Self::Put,
        Self::Get,
        Self::Delete,
        Self::List,
        Self::ReadModifyWrite,
        Self::CompareAndSet,
    ];

    /// Those of a secret store.
    pub const SECRETS: &'static [Operation] = &[
        Self::Put,
        Self::Get,
        Self::Delete,
        Self::List,
        Self::LoginUserpass,
        Self::LoginApprole,
        Self::LookupToken,
        Self::Encrypt,
        Self::Decrypt,
        Self::Sign,
        Self::IssueCertificate,
        Self::SignCertificate,
        Self::IssueCredentials,
        Self::ReadPolicy,
        Self::ReadMount,
        Self::ReadModifyWrite,
    ];

    /// Returns whether it changes what is stored under a key.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Put
                | Self::Insert
                | Self::Delete
                | Self::ReadModifyWrite
                | Self::CompareAndSet
                | Self::Watch
        )
    }

    /// Returns whether it asks for the workload's `request`.
    pub fn asks_over_http(self) -> bool {
        matches!(self, Self::Request | Self::Denied)
    }

    /// Returns whether it works on a text that its clients send or are sent.
    pub fn takes_text(self) -> bool {
        matches!(self, Self::Encrypt | Self::Decrypt | Self::Sign)
    }

    /// Returns whether it reads what is stored under keys.
    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Scan) || self.reads_first()
    }

    /// Returns whether it reads a key before it writes it, with a request each.
    pub fn reads_first(self) -> bool {
        matches!(self, Self::ReadModifyWrite | Self::CompareAndSet)
    }

    /// Returns whether it is about what is stored under keys.
    pub fn is_stored(self) -> bool {
        self.reads() || self.writes()
    }
}
