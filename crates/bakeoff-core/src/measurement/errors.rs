//! Counts the errors of a load, by kind and text, with examples.
//!
//! Not here: the errors that make a result invalid (`crate::check`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::fingerprint::fingerprint_of_answer;
use crate::{secrets, units};

/// Classifies an operation's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The operation got no connection within its timeout.
    Refused,
    /// The connection broke while the operation was in flight.
    Reset,
    /// The server closed a kept connection before any byte of the answer, and the operation cannot be sent twice.
    Closed,
    /// The answer did not arrive in time.
    Timeout,
    /// The answer violated the protocol.
    Protocol,
    /// The system answered with an error or a refusal.
    Status,
    /// The answer differs from the written value.
    WrongValue,
    /// The answer is older than the system guarantees.
    StaleValue,
    /// The client's lease had expired, because no renewal had reached the system for longer than the lease lasts.
    LeaseExpired,
    /// The operation was due, but the load ended before a client was free to send it.
    Dropped,
}

impl ErrorKind {
    /// All kinds, in the order of tables.
    pub const ALL: [Self; 10] = [
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::Timeout,
        Self::Protocol,
        Self::Status,
        Self::WrongValue,
        Self::StaleValue,
        Self::LeaseExpired,
        Self::Dropped,
    ];

    /// Returns true if errors of this kind vary in their text, which is then counted.
    pub fn varies_in_its_text(self) -> bool {
        !matches!(self, Self::Refused | Self::Timeout | Self::LeaseExpired | Self::Dropped)
    }

    /// Returns true if the operation got a complete answer, which counted as a failure.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Status | Self::WrongValue | Self::StaleValue | Self::LeaseExpired)
    }

    /// Returns true if the operation had no effect, as far as its client can know: it got no connection, an error as
    /// the answer, or was never sent.
    pub fn is_failed_at_once(self) -> bool {
        matches!(self, Self::Refused | Self::Status | Self::LeaseExpired | Self::Dropped)
    }

    /// Returns true if the operation got no answer, and may have had its effect.
    pub fn has_unknown_outcome(self) -> bool {
        matches!(self, Self::Reset | Self::Closed | Self::Timeout | Self::Protocol)
    }

    /// Returns its name in tables and sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            _ => self.key(),
        }
    }

    /// Returns its name in JSON keys and values, which never changes.
    pub fn key(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Status => "status",
            Self::WrongValue => "wrong value",
            Self::StaleValue => "stale value",
            Self::LeaseExpired => "lease expired",
            Self::Dropped => "dropped",
        }
    }
}

/// Maximum number of kept examples per kind of error.
pub const EXAMPLES_MAX: usize = 3;

/// Maximum number of distinct texts per kind of error. Errors with further texts are only counted.
pub const TEXTS_MAX: usize = 16;

/// Holds the errors of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Errors {
    /// Number of errors.
    pub count: u64,
    /// First few errors.
    pub examples: Vec<Example>,
    /// Fingerprints of the texts with counts; at most 16 ([`TEXTS_MAX`]), the most
    /// frequent first. Empty for kinds whose
    /// name says all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<ErrorText>,
}

/// Counts errors with the same text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorText {
    /// Fingerprint of the text, such as `503: no leader`.
    pub text: String,
    /// Number of errors.
    pub count: u64,
}

impl Errors {
    /// Counts an error's text.
    pub(super) fn count_text(&mut self, what: &str) {
        // Usually a text repeats, and its fingerprint is the text itself.
        if let Some(same) = self.texts.iter_mut().find(|one| one.text == what) {
            same.count += 1;
            return;
        }
        self.add_text(&fingerprint_of_answer(what), 1);
    }

    fn add_text(&mut self, text: &str, count: u64) {
        let room = self.texts.len() < TEXTS_MAX;
        match self.texts.iter_mut().find(|one| one.text == text) {
            Some(same) => same.count += count,
            None if room => {
                self.texts.push(ErrorText { text: text.to_owned(), count });
            }
            None => {}
        }
    }

    /// Adds all of `other`: counts exactly, texts as far as there is room.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.examples.extend(other.examples.iter().cloned());
        self.examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        self.examples.truncate(EXAMPLES_MAX);
        other.texts.iter().for_each(|one| self.add_text(&one.text, one.count));
        self.texts.sort_by(|a, b| b.count.cmp(&a.count).then(a.text.cmp(&b.text)));
    }
}

/// Describes one observed error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Example {
    /// Time in seconds since measuring began.
    pub at_seconds: f64,
    /// Address of the node, such as `127.0.0.1:2379`.
    pub node: String,
    /// Text of the error.
    pub what: String,
}

impl Example {
    /// Cuts a server's text to its maximum length, and masks secrets in it.
    pub fn cut(&mut self) {
        if self.what.len() > units::SERVER_TEXT_MAX {
            self.what = units::server_text(&self.what);
        } else if let Cow::Owned(masked) = secrets::masked(&self.what) {
            self.what = masked;
        }
    }
}
