//! Names the operations of clients, and their effect on keys.
//!
//! Not here: mixing them (`study`), their requests (each system's session).

use serde::{Deserialize, Serialize};

use crate::named::named;

/// Names an operation: first those of a key-value store, then those of a secret store, then those of a gateway and
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Creates or updates one key.
    Put,
    /// Reads one key.
    Get,
    /// Removes one key.
    Delete,
    /// Lists the names in one directory of keys.
    List,
    /// Exchanges a name and a password for a token.
    LoginUserpass,
    /// Exchanges a role's id and secret for a token.
    LoginApprole,
    /// Reads the properties of the own token.
    LookupToken,
    /// Encrypts a text with a key that stays on the server.
    Encrypt,
    /// Decrypts an encrypted text.
    Decrypt,
    /// Signs a text with a key that stays on the server.
    Sign,
    /// Creates a key pair and a certificate for it.
    IssueCertificate,
    /// Requests a certificate for the client's own key.
    SignCertificate,
    /// Creates a user of a database.
    IssueCredentials,
    /// Reads a policy.
    ReadPolicy,
    /// Reads the settings of a mount.
    ReadMount,
    /// Creates one key that does not exist yet.
    Insert,
    /// Pings the server.
    Ping,
    /// Checks that a session may access a resource, which it may.
    CheckAccess,
    /// Sends the workload's `request` over HTTP.
    Request,
    /// Requests something forbidden; only a refusal is correct.
    Denied,
    /// Reads one key and then writes it. Another client may write in between.
    ReadModifyWrite,
    /// Reads one key and writes it unless it was changed meanwhile; otherwise reads again.
    CompareAndSet,
    /// Reads several keys in order, starting at one.
    Scan,
    /// Creates a lease.
    GrantLease,
    /// Renews the lease of a key, each in turn. Creates it first.
    KeepLease,
    /// Writes the client's own key, and waits for the event at its own watcher.
    Watch,
    /// Acquires the lock of a key, reads and writes the key, and releases the lock.
    Lock,
    /// Reads a group of keys in one transaction.
    Look,
    /// Reads a group of keys and writes all of them in one transaction, unless one was changed meanwhile; otherwise reads
    /// again.
    Move,
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
    Lock = "lock",
    Look = "look",
    Move = "move",
);

impl Operation {
    /// Operations of a key-value store.
    pub const KEY_VALUE: &'static [Operation] =
        &[Self::Put, Self::Get, Self::Delete, Self::List, Self::ReadModifyWrite];

    /// Operations of a key-value store with conditional writes.
    pub const CONDITIONAL: &'static [Operation] = &[
        Self::Put,
        Self::Get,
        Self::Delete,
        Self::List,
        Self::ReadModifyWrite,
        Self::CompareAndSet,
    ];

    /// Operations of a secret store.
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
        Self::GrantLease,
        Self::KeepLease,
    ];

    /// Returns a list and further operations. `N` is the length of both together.
    pub const fn extended<const N: usize>(list: &[Self], further: &[Self]) -> [Self; N] {
        assert!(list.len() + further.len() == N, "the length of both lists");
        let mut all = [Self::Put; N];
        let mut place = 0;
        while place < N {
            all[place] = match place < list.len() {
                true => list[place],
                false => further[place - list.len()],
            };
            place += 1;
        }
        all
    }

    /// Returns true for operations on leases.
    pub fn is_of_leases(self) -> bool {
        matches!(self, Self::GrantLease | Self::KeepLease)
    }

    /// Returns true if it changes what is stored under a key.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Put
                | Self::Insert
                | Self::Delete
                | Self::ReadModifyWrite
                | Self::CompareAndSet
                | Self::Watch
                | Self::Lock
                | Self::Move
        )
    }

    /// Returns true for transactions of a group of keys. All operations of their workload are transactions.
    pub fn is_of_groups(self) -> bool {
        matches!(self, Self::Look | Self::Move)
    }

    /// Returns true if it reads the value of a single key, or those of a single group.
    pub fn reads_one_key(self) -> bool {
        matches!(self, Self::Get | Self::Look) || self.reads_first()
    }

    /// Returns true if it sends the workload's `request`.
    pub fn asks_over_http(self) -> bool {
        matches!(self, Self::Request | Self::Denied)
    }

    /// Returns true if it processes a text that clients send or receive.
    pub fn takes_text(self) -> bool {
        matches!(self, Self::Encrypt | Self::Decrypt | Self::Sign)
    }

    /// Returns true if it reads what is stored under keys.
    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Scan | Self::Look) || self.reads_first()
    }

    /// Returns true if it reads a key before it writes it, with one request each.
    pub fn reads_first(self) -> bool {
        matches!(self, Self::ReadModifyWrite | Self::CompareAndSet | Self::Lock | Self::Move)
    }

    /// Returns true if it writes only what is unchanged since its read.
    pub fn compares(self) -> bool {
        matches!(self, Self::CompareAndSet | Self::Move)
    }

    /// Returns true if it accesses what is stored under keys.
    pub fn is_stored(self) -> bool {
        self.reads() || self.writes()
    }
}
