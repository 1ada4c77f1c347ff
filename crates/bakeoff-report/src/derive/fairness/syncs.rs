//! The row of observed syncs, for systems that claim disk durability.
//!
//! Not here: the claim and its lowering (`fairness`), the warning (`derive::durability`).

use bakeoff_core::check::Verdict;
use bakeoff_core::record::{AckLocation, Durability};

use super::{Fact, Row, Side, Weight, weight_of};
use crate::derive::durability::observed;

/// Returns the row; `None` for a run without observations, such as an older one.
///
/// A cell shows the system's worst trial. Counts differ between systems anyway, so a cell shows a count only if it is
/// too low.
pub(super) fn row(sides: &[Side<'_>]) -> Option<Row> {
    let worst = |side: &Side<'_>| observed(side.trials.iter().copied()).max_by_key(rank).cloned();
    let worst: Vec<Option<Durability>> = sides.iter().map(worst).collect();
    let cells: Vec<Fact> = sides.iter().zip(&worst).map(|(side, seen)| cell(side, seen)).collect();
    let weight = match worst.iter().flatten().map(|seen| rank(&seen)).max()? {
        2 => Weight::Decides,
        1 => Weight::Unknown,
        _ => weight_of(&cells, Weight::Matters),
    };
    Some(Row { what: "syncs observed".to_owned(), cells, weight })
}

/// Ranks verdicts: 0 passed, 1 not checked, 2 failed.
fn rank(seen: &&Durability) -> u8 {
    match seen.verdict {
        Verdict::Passed => 0,
        Verdict::NotChecked(_) => 1,
        Verdict::Failed(_) => 2,
    }
}

fn cell(side: &Side<'_>, seen: &Option<Durability>) -> Fact {
    let by_a_majority = side.is.guarantees.acknowledged_in == Some(AckLocation::MajorityDisks);
    let text = match seen.as_ref().map(|seen| &seen.verdict) {
        None => "not counted: no disk durability claimed".to_owned(),
        Some(Verdict::Passed) if by_a_majority => "by a majority for each write".to_owned(),
        Some(Verdict::Passed) => "for each write".to_owned(),
        Some(Verdict::Failed(why)) => why.clone(),
        Some(Verdict::NotChecked(why)) => format!("not checked: {why}"),
    };
    Fact::Known(text)
}
