//! Kinds of systems, as far as reading a study needs to know them.
//!
//! The binary's registry declares them. An operation that a kind lacks is refused with its place,
//! before anything is started.
//!
//! Not here: the systems of a study (`system`).

use super::{Kill, Operation, ReadConsistency, System};

/// The option that names the product, of a kind that several products are of.
pub const PRODUCT: &str = "product";

/// Declaration of a kind of system, as far as `parse` must know it: asking a system for what its kind lacks is
/// refused with its place, before anything is started.
///
/// Each field is one declaration, which `..` leaves at its default.
#[derive(Debug, Clone)]
pub struct Kind {
    /// `etcd`.
    pub name: &'static str,
    /// Its operations; none, for what is only ever a part of other systems.
    pub operations: &'static [Operation],
    /// Parameters of its operations, which workloads set in their `with`.
    pub parameters: &'static [KindOption],
    /// The parts that it may have.
    pub roles: &'static [Role],
    /// Service that it only emulates; a system with such a part must say so in its name.
    pub emulates: Option<&'static str>,
    /// Whether a system of this kind, otherwise well read, can be run; what is wrong with it, and
    /// what to write instead.
    pub sound: fn(&System) -> Result<(), (String, String)>,
    /// Returns the words in braces of its `process` that stand for nothing.
    pub misspelt: fn(&System) -> Vec<Misspelt>,
    /// Returns why a system of this kind, as it is set up, cannot do an operation of its kind.
    pub lacks: fn(&System, Operation) -> Option<String>,
    /// Consistencies of its reads.
    pub reads: &'static [ReadConsistency],
    /// Its options: name, how a value is to look, what it means.
    pub options: &'static [KindOption],
    /// The most nodes that can be started.
    pub nodes_max: u32,
    /// Most bytes in a key, where the system has a limit of its own.
    pub key_size_max: u64,
    /// Most bytes in a value, where the system has a limit of its own.
    pub value_size_max: u64,
    /// When its nodes are killed for the audit after a kill, where a study does not say.
    pub kill: Kill,
    /// Who its clients may say that they are, to one that runs already.
    pub credentials: CredentialForm,
    /// Most operations under way on one session.
    pub in_flight_max: u32,
    /// Whether an operation can have a connection of its own, as with `keep-alive: off`.
    pub connection_each: bool,
    /// Whether it is whatever its `process` says, which must then be given, and must not otherwise.
    pub is_process: bool,
}

impl Kind {
    /// A kind of which nothing is known but its name: a part, of one node, with no options.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            operations: &[],
            parameters: &[],
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

    /// Returns whether its clients ask it for what a workload's `request` says, rather than for operations of
    /// its own.
    pub fn takes_requests(&self) -> bool {
        self.operations.contains(&Operation::Request)
    }

    /// Returns true if it stores keys and cannot list them. bakeoff then removes its keys by their names, and cannot
    /// find those of earlier runs.
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

    /// Returns whether it is only ever a part of other systems.
    pub fn is_part(&self) -> bool {
        self.operations.is_empty()
    }
}

/// A word in braces of a command that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misspelt {
    /// The text that holds it.
    pub within: ProcessText,
    /// The word with its braces.
    pub word: String,
    /// The fault.
    pub what: String,
    /// The text to write instead.
    pub hint: String,
}

/// A text of a study's `process`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessText {
    /// The word of the command with this number, from 0.
    Command(usize),
    /// The value of this environment variable.
    Environment(String),
    /// The file at this path.
    File(String),
}

/// How clients of a kind of system prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialForm {
    /// They cannot.
    None,
    /// A user's name and password.
    Password,
    /// A token.
    Token,
    /// Either of the two.
    PasswordOrToken,
}

/// A role that a part can play in a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `storage`.
    pub name: &'static str,
    /// The kinds that can play it.
    pub kinds: &'static [&'static str],
    /// Its tier.
    pub tier: Tier,
    /// Its effect, in a line.
    pub meaning: &'static str,
}

/// Tier of a part, seen from the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Backend: the system needs it, so it is started first.
    Backend,
    /// Frontend: started last. Clients of a load with `targets: all` connect to it.
    Frontend,
}

/// One option of a kind of system.
#[derive(Debug, Clone, PartialEq)]
pub struct KindOption {
    /// `heap`.
    pub name: &'static str,
    /// Form of its value.
    pub form: OptionForm,
    /// Its effect, in a line.
    pub meaning: &'static str,
}

/// Form of an option's value.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionForm {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number.
    Number,
    /// A size: `1GiB`.
    Size,
    /// A duration: `500ms`.
    Duration,
    /// A share: `1%` or `0.01`.
    Share,
    /// Any text.
    Text,
}
