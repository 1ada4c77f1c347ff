//! Whether anything passed a gate unchecked: what the protected resource served, held against what
//! Tarantool granted.
//!
//! Both count by themselves and neither is the gate. The protected NGINX counts every request that it
//! takes; what Tarantool granted is known when it has been killed too. A request is granted before it
//! passes, so what was served is read first and what was granted after it: requests that are still
//! under way can make grants look many, never few. Grants that nobody made use of, since a client had
//! left, are no fault.
//!
//! Not here: how each counts (`nginx::status`, `tarantool`).

use bakeoff_core::check::{Audit, Passages, Verdict};

use crate::nginx::status::Status;
use crate::{Access, SystemError, tarantool};

/// When it is counted.
const WHEN: &str = "during the load";

/// Who counts.
pub(super) struct Witnesses {
    /// The protected resource.
    pub(super) protected: Access,
    /// The Tarantools.
    pub(super) rights: Vec<Access>,
}

/// The counts of both since they started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    served: u64,
    granted: u64,
    /// Since when each Tarantool has counted.
    since: Vec<u64>,
}

impl Witnesses {
    /// Counts now; what is returned counts again, and says what passed meanwhile.
    pub(super) fn account(&self) -> Box<dyn FnOnce() -> Audit> {
        let before = self.count();
        let again = Self { protected: self.protected.clone(), rights: self.rights.clone() };
        Box::new(move || {
            let passages = before.and_then(|before| passages(&before, &again.count()?));
            match passages {
                Ok(passages) => passages.audit(WHEN),
                Err(why) => Audit::new(WHEN, Verdict::NotChecked(why.to_string())),
            }
        })
    }

    fn count(&self) -> Result<Counted, SystemError> {
        let status = self.protected.memory.get::<Status>();
        let status = status.ok_or("the protected resource does not count")?;
        let served = status.requests(&self.protected)?;
        let tarantool::Counts { granted, since, .. } = tarantool::granted(&self.rights)?;
        Ok(Counted { served, granted, since })
    }
}

/// Returns the passages between two counts; the second look at the status is a request itself.
fn passages(before: &Counted, after: &Counted) -> Result<Passages, SystemError> {
    if before.since != after.since {
        return Err("a Tarantool was started again and counts anew".into());
    }
    Ok(Passages {
        granted: after.granted.saturating_sub(before.granted),
        passed: after.served.saturating_sub(before.served).saturating_sub(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_not_counted_and_restarts_not_compared() {
        let counted = |served, granted| Counted { served, granted, since: vec![1, 2] };
        let passed = passages(&counted(7, 0), &counted(108, 100));
        assert_eq!(passed.unwrap(), Passages { granted: 100, passed: 100 });
        let none = passages(&counted(7, 3), &counted(8, 3));
        assert_eq!(none.unwrap(), Passages { granted: 0, passed: 0 });
        let anew = Counted { since: vec![1, 3], ..counted(8, 3) };
        assert!(passages(&counted(7, 3), &anew).is_err());
    }
}
