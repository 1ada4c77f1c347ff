//! Declares kinds of systems, as far as the study parser needs them.
//!
//! The binary's registry declares the kinds. An operation that a kind lacks is reported with its place before
//! anything is started.
//!
//! Not here: the systems of a study (`system`).

use std::ops::RangeInclusive;

use super::{Kill, MaintenanceOffer, Operation, ReadConsistency, System};
use crate::watch::Watches;

/// Option that names the product, for a kind with several products.
pub const PRODUCT: &str = "product";

/// Declares a kind of system, as far as `parse` needs it. A request for a missing ability is reported with its place
/// before anything is started.
///
/// Each field is one declaration; `..` leaves others at their default.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Name, such as `etcd`.
    pub name: &'static str,
    /// Operations; empty for a kind that is only a part of other systems.
    pub operations: &'static [Operation],
    /// Parameters of its operations, which workloads set in `with`.
    pub parameters: &'static [KindOption],
    /// Maintenance that it offers while it serves.
    pub maintenance: &'static [MaintenanceOffer],
    /// How it notifies watchers; `None` if it has no watches.
    pub watches: Option<Watches>,
    /// Returns how a system notifies watchers if its configuration changes that; `None` for [`Self::watches`].
    pub other_watches: fn(&System) -> Option<Watches>,
    /// Roles of possible parts.
    pub roles: &'static [Role],
    /// Service that it only emulates. A system with such a part must say so in its name.
    pub emulates: Option<&'static str>,
    /// Checks that a parsed system of this kind can run. The error holds the problem and the fix.
    pub sound: fn(&System) -> Result<(), (String, String)>,
    /// Returns the unknown words in braces of its `process`.
    pub misspelt: fn(&System) -> Vec<UnknownPlaceholder>,
    /// Returns why a system with this configuration cannot do an operation of its kind; `None` if it can.
    pub lacks: fn(&System, Operation) -> Option<String>,
    /// Consistencies of its reads.
    pub reads: &'static [ReadConsistency],
    /// Options: name, form of the value, and effect.
    pub options: &'static [KindOption],
    /// Maximum number of nodes to start.
    pub nodes_max: u32,
    /// Maximum bytes of a key, if the system has a limit.
    pub key_size_max: u64,
    /// Maximum bytes of a value, if the system has a limit.
    pub value_size_max: u64,
    /// Default time of the kill before the audit.
    pub kill: Kill,
    /// Credentials that clients of a running system may use.
    pub credentials: CredentialForm,
    /// Maximum operations in flight per session.
    pub in_flight_max: u32,
    /// True if an operation can have its own connection, as with `keep-alive: off`.
    pub connection_each: bool,
    /// True if the system is defined by its `process`, which is then required, and otherwise forbidden.
    pub is_process: bool,
}

impl Kind {
    /// Creates a kind with defaults: a part, of one node, without options.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            operations: &[],
            parameters: &[],
            maintenance: &[],
            watches: None,
            other_watches: |_| None,
            roles: &[],
            emulates: None,
            sound: |_| Ok(()),
            misspelt: |_| Vec::new(),
            lacks: |_, _| None,
            reads: &[],
            options: &[],
            nodes_max: 1,
            key_size_max: u64::MAX,
            value_size_max: u64::MAX,
            kill: Kill::AtRest,
            credentials: CredentialForm::None,
            in_flight_max: 1,
            connection_each: true,
            is_process: false,
        }
    }

    /// Returns how a system of this kind notifies watchers; `None` if it has no watches.
    pub fn watches_of(&self, system: Option<&System>) -> Option<Watches> {
        system.and_then(self.other_watches).or(self.watches)
    }

    /// Returns true if its clients send the workload's `request` instead of operations of the kind.
    pub fn takes_requests(&self) -> bool {
        self.operations.contains(&Operation::Request)
    }

    /// Returns true if it stores keys but cannot list them. bakeoff then removes its keys by name, and cannot find
    /// those of earlier runs.
    pub fn cannot_list(&self) -> bool {
        self.operations.contains(&Operation::Put) && !self.operations.contains(&Operation::List)
    }

    /// Returns true if the option [`PRODUCT`] can name this product.
    pub fn has_product(&self, product: &str) -> bool {
        let mut options = self.options.iter().filter(|option| option.name == PRODUCT);
        options.any(
            |option| matches!(option.form, OptionForm::Word(words) if words.contains(&product)),
        )
    }

    /// Returns true if it is only a part of other systems.
    pub fn is_part(&self) -> bool {
        self.operations.is_empty()
    }
}

/// Describes an unknown word in braces in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlaceholder {
    /// Text that contains it.
    pub within: ProcessText,
    /// Word with its braces.
    pub word: String,
    /// Problem in words.
    pub what: String,
    /// Suggested fix.
    pub hint: String,
}

/// Locates a text in a study's `process`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessText {
    /// Argument of the command, by index from 0.
    Command(usize),
    /// Value of this environment variable.
    Environment(String),
    /// File at this path.
    File(String),
}

/// Selects the credentials that clients of a kind of system can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialForm {
    /// No credentials.
    None,
    /// User name and password.
    Password,
    /// Token.
    Token,
    /// Either a user name and password or a token.
    PasswordOrToken,
}

/// Declares a role of a part in a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Name, such as `storage`.
    pub name: &'static str,
    /// Kinds that can play it.
    pub kinds: &'static [&'static str],
    /// Tier, which decides the order of starting.
    pub tier: Tier,
    /// Effect in one line.
    pub meaning: &'static str,
}

/// Selects the tier of a part, seen from the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Backend: the system needs it, so it starts first.
    Backend,
    /// Frontend: starts last. Clients of a load with `targets: all` connect to it.
    Frontend,
}

/// Declares one option of a kind of system.
#[derive(Debug, Clone, PartialEq)]
pub struct KindOption {
    /// Name, such as `heap`.
    pub name: &'static str,
    /// Form of its value.
    pub form: OptionForm,
    /// Effect in one line.
    pub meaning: &'static str,
}

/// Name of the parameter of a workload with the number of leases that exist before the load.
pub const LEASES: &str = "leases";

/// Parameter of a workload with the time to live of the leases that its clients grant and keep.
pub const LEASE_TTL: KindOption = KindOption {
    name: "lease-ttl",
    form: OptionForm::Number,
    meaning: "time to live of the leases of `grant-lease`, `keep-lease` and `lock`, in seconds; 60 by default",
};

/// Parameter of a workload with what the write of a `lock` depends on.
pub const GUARD: KindOption = KindOption {
    name: "guard",
    form: OptionForm::Word(&[FENCED, "unfenced"]),
    meaning: "`fenced`: the write of a `lock` happens only if the client still holds the lock; by default",
};

/// Default of [`GUARD`].
pub const FENCED: &str = "fenced";

/// Parameter of a workload with whether clients that wait for a lock renew their leases.
pub const RENEWALS: KindOption = KindOption {
    name: "renewals",
    form: OptionForm::Word(&["on", "off"]),
    meaning: "whether the client of a `lock` renews its lease; on by default",
};

/// Parameter of a workload with the number of keys of each transaction.
pub const GROUP: KindOption = KindOption {
    name: "group",
    form: OptionForm::Number,
    meaning: "number of keys that each `look` and `move` accesses, from 2 to 64; 4 by default",
};

/// Default of [`GROUP`].
pub const GROUP_DEFAULT: u32 = 4;

/// Numbers of keys of a transaction. Consul accepts 64 operations in one, etcd 128.
pub const GROUP_SIZES: RangeInclusive<u32> = 2..=64;

/// Selects the form of an option's value.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionForm {
    /// One of these words.
    Word(&'static [&'static str]),
    /// Whole number.
    Number,
    /// Size: `1GiB`.
    Size,
    /// Duration: `500ms`.
    Duration,
    /// Share: `1%` or `0.01`.
    Share,
    /// Any text.
    Text,
}
