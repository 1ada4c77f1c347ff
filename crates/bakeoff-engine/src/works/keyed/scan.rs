//! Judges scans: keys and values in order from a first key.

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::staleness::ReadAge;

use super::KvWork;
use crate::work::{Failure, Success};

impl KvWork {
    /// Judges a scan from key `first`. Each value must belong to its key, keys must ascend, and no key may be missing
    /// if all were written.
    pub(super) fn judge_pairs(
        &self,
        first: u64,
        pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>,
    ) -> Result<Success, Failure> {
        let space = &self.keyed.space;
        let wrong = |what: String| Err(Failure::new(ErrorKind::WrongValue, what));
        let limit = u64::from(self.keyed.scan);
        let expected = limit.min(space.count() - first.min(space.count()));
        let complete = self.reading.lists_are_complete;
        let must_be_complete = complete && !self.reading.may_be_stale;
        let (mut found, mut least) = (0, first);
        for (name, value) in pairs {
            let Some(key) = space.index_of(name).filter(|&key| key >= least) else {
                let name = name.escape_ascii();
                return wrong(format!("`{name}` is out of place in a scan from key {first}"));
            };
            if must_be_complete && key > least {
                return wrong(format!("key {least} is missing in a scan from key {first}"));
            }
            if let Err(corruption) = self.keyed.values.verify(key, value) {
                return wrong(self.find(key, false, &corruption.to_string()));
            }
            (found, least) = (found + 1, key + 1);
        }
        if found > limit || must_be_complete && found < expected {
            return wrong(format!("{found} keys scanned instead of {expected} written ones"));
        }
        let incomplete = found < expected || least - first > found;
        let stale = complete && incomplete;
        Ok(Success {
            seen: if stale { ReadAge::Stale(None) } else { ReadAge::Unjudged },
            hit: None,
        })
    }
}
