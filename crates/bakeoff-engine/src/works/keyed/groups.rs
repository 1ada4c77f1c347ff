//! Writes and judges groups of keys, which a `look` or a `move` accesses in one transaction.
//!
//! A key of the workload stands for a group. All values of a group carry the number of the write that wrote them. A
//! transaction that was applied or read in part therefore shows two numbers.
//!
//! Ledger and history treat a group as one key. Each transaction accesses one group, and linearizability is local
//! (Herlihy and Wing, 1990, theorem 1). So transactions are strictly serializable if each group is linearizable.
//!
//! Not here: requests for transactions (each system's session), the steps of a `move` (`two_step`).

use std::io::Write as _;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::workload::Stamp;

use super::{KvWork, PendingOperation};
use crate::work::Failure;

/// Holds one key of a group for a session.
#[derive(Debug, Clone, Default)]
pub struct GroupKey {
    /// Name of the key.
    pub name: Vec<u8>,
    /// Value to write; empty for a read.
    pub value: Vec<u8>,
}

impl KvWork {
    /// Writes the names of an operation's group, which begin with its key, and its values if `sends_value`.
    pub(super) fn write_group(&mut self, pending: &PendingOperation, sends_value: bool) {
        let keys = self.keyed.group.unwrap_or(1);
        self.group.resize_with(keys as usize, GroupKey::default);
        for (place, key) in (0..).zip(&mut self.group) {
            key.name.clear();
            key.name.extend_from_slice(&self.key);
            // A vector takes everything.
            let _ = write!(key.name, "-{place}");
            key.value.clear();
            if sends_value {
                let number = number(pending.key, keys, place);
                self.keyed.values.write_value(number, pending.stamp(), &mut key.value);
            }
        }
    }

    /// Returns the stamp that all values of a group have; `None` if all of its keys are missing.
    pub(super) fn stamp_of_group(
        &self,
        pending: &PendingOperation,
        values: &mut dyn Iterator<Item = Option<&[u8]>>,
    ) -> Result<Option<Stamp>, Failure> {
        let keys = self.keyed.group.unwrap_or(1);
        let mut first = None;
        let mut count = 0;
        for (place, value) in (0..).zip(values) {
            let number = number(pending.key, keys, place);
            let stamp = value.map(|value| self.verify(pending, number, value)).transpose()?;
            match first {
                None => first = Some(stamp),
                Some(first) if first == stamp => {}
                Some(first) => {
                    let (first, stamp) = (written(first), written(stamp));
                    let what = format!(
                        "a transaction is seen in part: key 0 of the group {first}, key {place} {stamp}"
                    );
                    let what = self.find(pending.key, false, &what);
                    return Err(Failure::new(ErrorKind::WrongValue, what));
                }
            }
            count += 1;
        }
        match count == keys {
            true => Ok(first.flatten()),
            false => {
                let what = format!("a transaction of {keys} keys was answered with {count}");
                Err(Failure::new(ErrorKind::Protocol, what))
            }
        }
    }
}

/// Returns the number of a group's key, which its value proves.
fn number(group: u64, keys: u32, place: u32) -> u64 {
    group * u64::from(keys) + u64::from(place)
}

/// Describes what a key of a group holds.
fn written(stamp: Option<Stamp>) -> String {
    stamp.map_or_else(|| "is missing".to_owned(), |stamp| format!("holds write {}", stamp.sequence))
}
