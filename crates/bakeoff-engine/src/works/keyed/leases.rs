//! Tells a lease that was renewed too late from one that the system dropped too early.
//!
//! A renewal reaches the system after it was sent, so the lease lasts at least its time from there on.
//!
//! Not here: requests for leases (each system's session).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::units::figure_text;

use crate::work::Failure;

/// Last successful renewal of each client's lease, by the time at which it was sent.
#[derive(Default)]
pub(super) struct Leases {
    renewed: HashMap<u32, Instant>,
}

impl Leases {
    /// Notes a successful renewal.
    pub(super) fn renewed(&mut self, client: u32, sent: Option<Instant>) {
        self.renewed.extend(sent.map(|sent| (client, sent)));
    }

    /// Returns the failure of a client whose lease is gone. It is the system's if the lease had time left.
    pub(super) fn expired(&mut self, client: u32, now: Instant, lasts: Duration) -> Failure {
        let since = self.renewed.remove(&client).map(|sent| now.saturating_duration_since(sent));
        let text = |time: Duration| figure_text(time.as_secs_f64());
        match since {
            Some(since) if since >= lasts => Failure::new(
                ErrorKind::LeaseExpired,
                format!("no renewal for {} s of a lease of {} s", text(since), text(lasts)),
            ),
            since => {
                let after = since.map_or("at once".to_owned(), |since| {
                    format!("within {} s of its renewal", text(since))
                });
                let what = format!("a lease of {} s was gone {after}", text(lasts));
                Failure::new(ErrorKind::WrongValue, what)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_that_had_time_left_is_a_wrong_answer() {
        let begin = bakeoff_clock::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let lasts = Duration::from_secs(60);
        let mut leases = Leases::default();
        let gone = |leases: &mut Leases, client, seconds| {
            let failure = leases.expired(client, after(seconds), lasts);
            (failure.kind, failure.what)
        };
        leases.renewed(1, Some(begin));
        let late = "no renewal for 68.0 s of a lease of 60.0 s".to_owned();
        assert_eq!(gone(&mut leases, 1, 68), (ErrorKind::LeaseExpired, late));
        leases.renewed(1, Some(after(68)));
        leases.renewed(2, Some(begin));
        let early = "a lease of 60.0 s was gone within 12.0 s of its renewal".to_owned();
        assert_eq!(gone(&mut leases, 1, 80), (ErrorKind::WrongValue, early));
        let new = "a lease of 60.0 s was gone at once".to_owned();
        assert_eq!(gone(&mut leases, 1, 900), (ErrorKind::WrongValue, new));
        assert_eq!(gone(&mut leases, 2, 61).0, ErrorKind::LeaseExpired);
    }
}
