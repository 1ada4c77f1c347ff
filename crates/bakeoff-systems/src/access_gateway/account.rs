//! Checks that no request passed a gateway unchecked: compares the requests that the protected resource served with those
//! that Tarantool granted.
//!
//! Both sides count independently of the gateway. The protected NGINX counts every request it accepts. Tarantool's count
//! is also known if it was killed. A grant precedes the request, so the served count is read first and the granted
//! count after it. Requests in flight can then only raise the grants. Unused grants are no fault: their client had
//! left.
//!
//! Not here: how each side counts (`nginx::status`, `tarantool`).

use bakeoff_core::check::{Audit, Passages, Verdict};

use crate::nginx::status::Status;
use crate::{Access, SystemError, tarantool};

/// Time of the check, in reports.
const WHEN: &str = "during the load";

/// The two sides that count.
pub(super) struct Witnesses {
    /// Protected resource.
    pub(super) protected: Access,
    /// Tarantool nodes.
    pub(super) rights: Vec<Access>,
}

/// Counts of both sides since they started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PassageCounts {
    served: u64,
    granted: u64,
    /// Start time of each Tarantool's count.
    since: Vec<u64>,
}

impl Witnesses {
    /// Counts now. The returned function counts again and audits the difference.
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

    fn count(&self) -> Result<PassageCounts, SystemError> {
        let status = self.protected.memory.get::<Status>();
        let status = status.ok_or("the protected resource does not count")?;
        let served = status.requests(&self.protected)?;
        let tarantool::Counts { granted, since, .. } = tarantool::granted(&self.rights)?;
        Ok(PassageCounts { served, granted, since })
    }
}

/// Returns the requests between two counts. Reading the status the second time is a request too.
fn passages(before: &PassageCounts, after: &PassageCounts) -> Result<Passages, SystemError> {
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
        let counted = |served, granted| PassageCounts { served, granted, since: vec![1, 2] };
        let passed = passages(&counted(7, 0), &counted(108, 100));
        assert_eq!(passed.unwrap(), Passages { granted: 100, passed: 100 });
        let none = passages(&counted(7, 3), &counted(8, 3));
        assert_eq!(none.unwrap(), Passages { granted: 0, passed: 0 });
        let anew = PassageCounts { since: vec![1, 3], ..counted(8, 3) };
        assert!(passages(&counted(7, 3), &anew).is_err());
    }
}
