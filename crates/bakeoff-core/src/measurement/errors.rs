//! Errors of a load: their kinds, counts, texts and examples.
//!
//! Not here: which errors make a result invalid (`crate::check`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::fingerprint::fingerprint_of_answer;
use crate::{secrets, units};

/// Kind of an operation's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// No connection could be had for as long as the operation's timeout.
    Refused,
    /// The connection broke while the operation was under way.
    Reset,
    /// The server closed a kept connection before any byte of the answer came, and the operation is none that may be
    /// sent twice.
    Closed,
    /// No answer came in time.
    Timeout,
    /// The answer broke the protocol's rules.
    Protocol,
    /// The system answered that it could not, or would not.
    Status,
    /// The answer was not what was written.
    WrongValue,
    /// The answer was older than what the system had guaranteed.
    StaleValue,
    /// It was due, and the load ended before anybody was free to send it.
    #[serde(rename = "unsent", alias = "dropped")]
    Dropped,
}

impl ErrorKind {
    /// Every kind, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::Timeout,
        Self::Protocol,
        Self::Status,
        Self::WrongValue,
        Self::StaleValue,
        Self::Dropped,
    ];

    /// Returns whether errors of this kind differ in what was seen of them, so that it is counted.
    pub fn is_told_by_its_text(self) -> bool {
        !matches!(self, Self::Refused | Self::Timeout | Self::Dropped)
    }

    /// Returns whether the operation got a complete answer, which counted as a failure.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Status | Self::WrongValue | Self::StaleValue)
    }

    /// Returns its name in tables and sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            _ => self.key(),
        }
    }

    /// Returns its name in the keys and values of JSON, which stays as it was first written.
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
            Self::Dropped => "unsent",
        }
    }
}

/// Most examples of each kind of error that are kept.
pub const EXAMPLES_MAX: usize = 3;

/// Most texts of each kind of error that are told apart; errors with further texts are only counted.
pub const TEXTS_MAX: usize = 16;

/// Errors of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Number of errors.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<Example>,
    /// Fingerprints of their texts with counts; at most [`TEXTS_MAX`], the most frequent first. Empty for kinds
    /// whose name says all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<ErrorText>,
}

/// Errors that said the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// Fingerprint of their text: `503: no leader`.
    pub text: String,
    /// Number of errors.
    pub count: u64,
}

impl Errors {
    /// Counts what an error said.
    pub(super) fn count_text(&mut self, what: &str) {
        // Most say the same each time, and then the text itself is what it says.
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

    /// Adds all of `other`: counts exactly, texts as far as there is room for them.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.examples.extend(other.examples.iter().cloned());
        self.examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        self.examples.truncate(EXAMPLES_MAX);
        other.texts.iter().for_each(|one| self.add_text(&one.text, one.count));
        self.texts.sort_by(|a, b| b.count.cmp(&a.count).then(a.text.cmp(&b.text)));
    }
}

/// One error, as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// When, in seconds since measuring began.
    pub at_seconds: f64,
    /// Which node was asked, as `127.0.0.1:2379`.
    pub node: String,
    /// Its text.
    pub what: String,
}

impl Example {
    /// Cuts what a server said to what is kept of it, and masks secrets in it.
    pub fn cut(&mut self) {
        if self.what.len() > units::SERVER_TEXT_MAX {
            self.what = units::server_text(&self.what);
        } else if let Cow::Owned(masked) = secrets::masked(&self.what) {
            self.what = masked;
        }
    }
}
