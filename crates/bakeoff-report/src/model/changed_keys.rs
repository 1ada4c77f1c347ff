//! Keys that an audit found changed: lost, older or wrong, each with its own word in every table and sentence.
//!
//! An older value is a lost update or a stale answer, and an audit cannot tell which. So it is not called a loss.
//!
//! Not here: audits (`bakeoff_core::check`), their verdicts.

use std::ops::Add;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::stats::and;
use bakeoff_core::units::{count_text, plural};

/// Keys with acknowledged writes that did not keep them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChangedKeys {
    /// Keys that are missing.
    pub(crate) lost: u64,
    /// Keys with an older value than was acknowledged.
    pub(crate) older: u64,
    /// Keys with a value that was not written to them.
    pub(crate) wrong: u64,
}

impl ChangedKeys {
    /// Counts those of an audit.
    pub(crate) fn found_by(audit: &Audit) -> Self {
        let wrong = audit.wrong.saturating_sub(audit.older);
        Self { lost: audit.lost, older: audit.older, wrong }
    }

    /// Counts those of an audit; `None` if it read too little to tell.
    pub(crate) fn told_by(audit: &Audit) -> Option<Self> {
        let found = Self::found_by(audit);
        let is_unchecked = matches!(audit.verdict, Verdict::NotChecked(_));
        (!is_unchecked || found.all() > 0).then_some(found)
    }

    /// Returns the number of all.
    pub(crate) fn all(self) -> u64 {
        self.lost + self.older + self.wrong
    }

    /// Words who did it: `lost 2 of 9 acknowledged keys and returned older values for 3`. `read` is the number of keys
    /// read back, if it is to be named. Empty without changed keys.
    pub(crate) fn words(self, read: Option<u64>) -> String {
        let kinds = [
            ("lost", self.lost),
            ("returned older values for", self.older),
            ("returned wrong values for", self.wrong),
        ];
        let found = kinds.into_iter().filter(|(_, count)| *count > 0).enumerate();
        let words = found.map(|(place, (verb, count))| match (place, read) {
            (0, Some(read)) => {
                let read = plural(read, "acknowledged key");
                format!("{verb} {} of {read}", count_text(count))
            }
            (0, None) => format!("{verb} {}", plural(count, "acknowledged key")),
            _ => format!("{verb} {}", count_text(count)),
        });
        and(&words.collect::<Vec<_>>())
    }
}

impl Add for ChangedKeys {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            lost: self.lost + other.lost,
            older: self.older + other.older,
            wrong: self.wrong + other.wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_word() {
        let audit = Audit { lost: 2, wrong: 4, older: 3, ..Audit::new("later", Verdict::Passed) };
        let found = ChangedKeys::found_by(&audit);
        assert_eq!(found, ChangedKeys { lost: 2, older: 3, wrong: 1 });
        let all = "lost 2 of 9 acknowledged keys, returned older values for 3 and returned wrong values for 1";
        assert_eq!(found.words(Some(9)), all);
        let older = ChangedKeys { older: 1, ..ChangedKeys::default() };
        assert_eq!(older.words(None), "returned older values for 1 acknowledged key");
        assert_eq!(ChangedKeys::default().words(None), "");
    }

    #[test]
    fn audit_that_read_nothing_tells_nothing() {
        let audit = |lost| Audit { lost, ..Audit::new("later", Verdict::NotChecked("so".into())) };
        assert_eq!(ChangedKeys::told_by(&audit(0)), None);
        assert_eq!(ChangedKeys::told_by(&audit(1)).map(|found| found.lost), Some(1));
    }
}
