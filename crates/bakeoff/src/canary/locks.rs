//! Grants locks: one holder each, with a number that rises, for a limited time.
//!
//! Locks live in memory. A restart forgets them, and with them all connections of their holders.
//!
//! Not here: requests (`service`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::faults::{Dice, Faults, Tally};

/// All locks.
#[derive(Default)]
pub(super) struct Locks {
    held: BTreeMap<Box<[u8]>, Grant>,
    /// Number of the last grant of any lock.
    token: u64,
}

/// Grant of a lock.
struct Grant {
    /// Word that names the holder.
    holder: Box<[u8]>,
    until: Instant,
}

impl Locks {
    /// Grants a lock. `client` is a word and a number of seconds: `a1 60`. Returns the number of the grant; `None` if
    /// another client holds the lock.
    pub(super) fn acquire(
        &mut self,
        name: &[u8],
        client: &[u8],
        now: Instant,
        (faults, dice, tally): (&Faults, &mut Dice, &mut Tally),
    ) -> Option<u64> {
        let (holder, lasts) = parts(client)?;
        let is_held = self.held.get(name).is_some_and(|grant| grant.until > now);
        if is_held {
            if !dice.falls(faults.grant_twice) {
                return None;
            }
            tally.granted_twice += 1;
        }
        match dice.falls(faults.same_token) {
            true => tally.tokens_repeated += 1,
            false => self.token += 1,
        }
        self.held.insert(name.into(), Grant { holder: holder.into(), until: now + lasts });
        Some(self.token.max(1))
    }

    /// Releases a lock. Returns false if the client does not hold it.
    pub(super) fn release(&mut self, name: &[u8], client: &[u8], now: Instant) -> bool {
        let Some((holder, _)) = parts(client) else { return false };
        let is_held =
            self.held.get(name).is_some_and(|grant| grant.until > now && *grant.holder == *holder);
        if is_held {
            self.held.remove(name);
        }
        is_held
    }
}

/// Returns a client's word, and the time for which it wants a lock.
fn parts(client: &[u8]) -> Option<(&[u8], Duration)> {
    let (word, seconds) = std::str::from_utf8(client).ok()?.split_once(' ')?;
    Some((word.as_bytes(), Duration::from_secs(seconds.parse::<u32>().ok()?.into())))
}
