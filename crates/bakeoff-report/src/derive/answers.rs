//! Whether a run has answered its questions.
//!
//! Not here: when a question is answered (`comparison`, `outages`).

use bakeoff_core::record::Record;

use super::comparison::Comparison;
use super::durability;

/// Returns true if an adaptive run that ends with this record needs no further round.
pub fn is_answered(record: &Record) -> bool {
    let all = Comparison::all(&durability::lowered(record));
    let mut compared = all.iter().filter(|one| one.contenders.len() > 1).peekable();
    compared.peek().is_some() && compared.all(Comparison::is_answered)
}
