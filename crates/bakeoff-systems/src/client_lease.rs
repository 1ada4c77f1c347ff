//! Holds the lease that the client of a connection keeps alive, for systems whose leases have names.
//!
//! Not here: whether a lease had time left when it was gone (`bakeoff_engine::works::keyed`).

use std::cell::RefCell;
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_engine::works::keyed::Answer;

/// Lease of a connection's client.
#[derive(Clone)]
pub(crate) struct ClientLease {
    /// Time to live.
    pub(crate) seconds: u64,
    /// Its name, once it is granted.
    id: RefCell<Option<String>>,
}

impl ClientLease {
    pub(crate) fn new(seconds: u64) -> Self {
        Self { seconds, id: RefCell::default() }
    }

    /// Returns the lease that an operation renews; `None` if it has to be granted first.
    pub(crate) fn renewed_by(&self, operation: Operation) -> Option<String> {
        self.id.borrow().clone().filter(|_| operation == Operation::KeepLease)
    }

    /// Notes a granted lease, and returns the answer to its operation. `seconds`: the granted time, if the system says
    /// it.
    pub(crate) fn granted(
        &self,
        operation: Operation,
        id: &str,
        seconds: Option<u64>,
    ) -> Answer<'static> {
        if let Some(granted) = seconds.filter(|&granted| granted != self.seconds) {
            let what = format!("the system granted {granted} s in place of {} s", self.seconds);
            return Answer::Failed(ErrorKind::Status, what);
        }
        if operation == Operation::KeepLease {
            self.id.replace(Some(id.to_owned()));
        }
        Answer::Done
    }

    /// Forgets the lease, which is gone, and returns the answer to its operation.
    pub(crate) fn gone(&self) -> Answer<'static> {
        match self.id.take() {
            Some(_) => Answer::LeaseExpired(Duration::from_secs(self.seconds)),
            None => Answer::Failed(ErrorKind::Status, "there is no lease".to_owned()),
        }
    }
}
