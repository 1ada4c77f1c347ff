//! Judges scans: keys and values from one key on.
//!
//! Not here: lists of names (`mod`).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::staleness::Seen;

use super::KvWork;
use crate::work::{Failure, Success};

impl KvWork {
    /// Judges what a scan from key `first` on found: each value proves its key, keys ascend, and where none can be
    /// missing none is.
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
                return wrong(format!(
                    "`{name}` does not belong where it stands in a scan from key {first} on"
                ));
            };
            if must_be_complete && key > least {
                return wrong(format!("key {least} is missing in a scan from key {first} on"));
            }
            if let Err(corruption) = self.keyed.values.verify(key, value) {
                return wrong(self.find(key, false, &corruption.to_string()));
            }
            (found, least) = (found + 1, key + 1);
        }
        if found > limit || must_be_complete && found < expected {
            return wrong(format!("{found} keys were scanned where {expected} were written"));
        }
        let incomplete = found < expected || least - first > found;
        let stale = complete && incomplete;
        Ok(Success { seen: if stale { Seen::Stale(None) } else { Seen::Unjudged }, hit: None })
    }
}
