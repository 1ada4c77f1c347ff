//! Names locks, and judges the times of granted leases.
//!
//! Not here: which lease an operation renews, and whether one ended early (`bakeoff_engine::works::keyed`).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::works::keyed::Answer;

/// Directory of all locks, below bakeoff's own prefix.
pub(crate) const LOCKS: &str = "locks";

/// Returns the name of the lock of a key, given the key's number.
pub(crate) fn lock_name(number: u64) -> String {
    format!("{KEY_PREFIX}{LOCKS}/{number}")
}

/// Returns a word that names one client or lease: 128 random bits.
pub(crate) fn random_word() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Returns the answer of a system that granted or renewed a lease for `granted` seconds.
pub(crate) fn granted(name: &str, asked: u64, granted: u64) -> Answer<'_> {
    match granted == asked {
        true => Answer::Granted(name),
        false => {
            let what = format!("a lease was granted for {granted} s in place of {asked} s");
            Answer::Failed(ErrorKind::Status, what)
        }
    }
}
