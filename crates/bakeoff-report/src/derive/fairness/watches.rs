//! Compares the watchers of systems: their connections, and the guarantees that systems promise.
//!
//! Not here: what watchers observed (`document::watches`).

use bakeoff_core::stats::and;
use bakeoff_core::units::{count_text, plural};
use bakeoff_core::watch::{GuaranteeState, WatchFigures};

use super::{Fact, Row, Side, Weight, plain};

/// Returns the rows; empty without watchers.
pub(super) fn rows(sides: &[Side<'_>]) -> Vec<(Row, Option<String>)> {
    if sides.iter().all(|side| figures(side).is_none()) {
        return Vec::new();
    }
    let connections = |of: &WatchFigures| {
        let connections = plural(of.connections.into(), "connection");
        format!("{} on {connections}", count_text(of.watchers.into()))
    };
    vec![
        plain("watchers and their connections", sides, Weight::Matters, |side| {
            fact(side, connections)
        }),
        plain("guarantees of watches", sides, Weight::Matters, |side| fact(side, guarantees)),
    ]
}

fn fact(side: &Side<'_>, text: impl Fn(&WatchFigures) -> String) -> Fact {
    figures(side).map_or(Fact::DoesNotRun, |figures| Fact::Known(text(figures)))
}

/// Returns the first figures of a system's watchers.
fn figures<'a>(side: &Side<'a>) -> Option<&'a WatchFigures> {
    let mut stages = side.trials.iter().flat_map(|trial| &trial.stages);
    stages.find_map(|stage| stage.measurement.watch.as_deref())
}

/// Names the promised guarantees.
fn guarantees(of: &WatchFigures) -> String {
    let is_promised = |state: GuaranteeState| !matches!(state, GuaranteeState::NotPromised(_));
    let promised = of.guarantees.iter().filter(|one| is_promised(one.state));
    let names: Vec<&str> = promised.map(|one| one.guarantee.name()).collect();
    if names.is_empty() { "none".to_owned() } else { and(&names) }
}
