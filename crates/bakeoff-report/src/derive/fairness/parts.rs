//! Compares the parts of systems besides their own nodes.
//!
//! Not here: the other rows of the sheet (`fairness`).

use std::collections::BTreeSet;

use bakeoff_core::record::PartRecord;
use bakeoff_core::units::plural;

use super::{Fact, Row, Side, Weight, plain};

/// Returns a row for each role that any of the systems has a part for.
pub(super) fn rows(sides: &[Side<'_>]) -> Vec<(Row, Option<String>)> {
    let parts = sides.iter().flat_map(|side| &side.is.parts);
    let roles: BTreeSet<&str> = parts.map(|part| part.role.as_str()).collect();
    let row = |role: &str| plain(role, sides, Weight::Matters, |side| cell(side, role));
    roles.into_iter().map(row).collect()
}

fn cell(side: &Side<'_>, role: &str) -> Fact {
    match side.is.parts.iter().find(|part| part.role == role) {
        None if side.is.already_running => Fact::Unknown,
        None => Fact::Known("none".to_owned()),
        Some(PartRecord { part, .. }) => {
            let version = part.version.as_deref().unwrap_or("of unknown version");
            let nodes = plural(u64::from(part.nodes), "node");
            let settings =
                part.settings.iter().map(|set| format!(", {} = {}", set.name, set.value));
            let settings = settings.collect::<String>();
            Fact::Known(format!("{} {version}, {nodes}{settings}", part.kind))
        }
    }
}
