//! Compares the transport of client connections, and of connections between a system's parts.
//!
//! Not here: the other rows of the sheet (`fairness`).

use bakeoff_core::measurement::Handshakes;
use bakeoff_core::record::Encryption;
use bakeoff_core::stats::and;
use bakeoff_core::units::share_text;

use super::{Fact, Row, Side, Weight, alike, by_group, messages, plain, weight_of};

/// Largest difference in handshakes per request that counts as equal.
const HANDSHAKES_ALIKE: f64 = 0.01;
/// Smallest difference in full handshakes per request that may decide.
const HANDSHAKES_DECIDE: f64 = 0.1;

/// Returns the row of client connections.
pub(super) fn row(sides: &[Side<'_>]) -> (Row, Option<String>) {
    let encrypted = |side: &Side<'_>| {
        if !side.is.already_running {
            return side.is.tls_version.is_some().then_some(true);
        }
        let tls = side.asked.endpoints().iter().filter(|endpoint| endpoint.tls).count();
        (tls > 0).then_some(tls == side.asked.endpoints().len())
    };
    let (mut row, _) = plain("transport", sides, Weight::Matters, |side| {
        let version = side.is.tls_version.as_deref().unwrap_or("TLS of unknown version");
        match encrypted(side) {
            None => "plain TCP".to_owned(),
            Some(true) => version.to_owned(),
            Some(false) => format!("{version} to some of its endpoints, plain TCP to others"),
        }
    });
    if !alike(sides.iter().map(encrypted)) {
        row.weight = Weight::Decides;
    }
    let spoken: Vec<String> = by_group(sides, encrypted)
        .into_iter()
        .map(|(tls, names)| match tls {
            None => format!("{names} over plain TCP"),
            Some(true) => format!("{names} over TLS"),
            Some(false) => format!("{names} over TLS in part"),
        })
        .collect();
    let finding = format!("client connections differ: {}", spoken.join(", "));
    (row, Some(finding))
}

/// Returns the row of connections between parts; `None` if no system describes them.
pub(super) fn between(sides: &[Side<'_>]) -> Option<(Row, Option<String>)> {
    sides.iter().find(|side| side.is.between.is_some())?;
    let (mut row, _) = plain("between its parts", sides, Weight::Matters, |side| {
        match (&side.is.between, side.is.parts.is_empty()) {
            (Some(wording), _) => Fact::Known(wording.clone()),
            (None, true) if side.is.already_running => Fact::Unknown,
            (None, true) => Fact::Known("has no parts".to_owned()),
            (None, false) => Fact::Known("not stated".to_owned()),
        }
    });
    // A system without a description is not counted as different.
    let known: Vec<(&str, Encryption)> =
        sides.iter().filter_map(|side| Some((side.name, side.is.encryption_between()?))).collect();
    if alike(known.iter().map(|(_, encryption)| encryption)) {
        return Some((row, None));
    }
    row.weight = Weight::Decides;
    let names = |of: Encryption| {
        let those = known.iter().filter(|(_, encryption)| *encryption == of);
        and(&those.map(|(name, _)| *name).collect::<Vec<_>>())
    };
    let finding = format!(
        "the systems differ in encryption between their parts: those of {} use TLS, those \
         of {} do not",
        names(Encryption::Tls),
        names(Encryption::Plain)
    );
    Some((row, Some(finding)))
}

/// Returns the row of full and resumed TLS handshakes per request; `None` without handshakes.
pub(super) fn handshakes(sides: &[Side<'_>]) -> Option<(Row, Option<String>)> {
    let of = |side: &Side<'_>| {
        let (mut seen, mut requests) = (Handshakes::default(), 0);
        for stage in side.trials.iter().flat_map(|trial| &trial.stages) {
            seen.merge(&stage.measurement.handshakes);
            requests += messages(&stage.measurement);
        }
        let by = |count: u64| count as f64 / requests.max(1) as f64;
        (requests > 0).then(|| (seen, [by(seen.full), by(seen.resumed)]))
    };
    let all: Vec<Option<(Handshakes, [f64; 2])>> = sides.iter().map(of).collect();
    let known = || all.iter().flatten();
    if known().all(|(seen, _)| seen.all() == 0) {
        return None;
    }
    let text = |one: &Option<(Handshakes, [f64; 2])>| match one {
        None => Fact::NotMeasured,
        Some((seen, _)) if seen.all() == 0 => Fact::Known("none".to_owned()),
        Some((_, [full, resumed])) => {
            // A request may need several handshakes if connections end before they are used.
            let share = |of: &f64| share_text(of.min(1.0));
            let (full, resumed) = (share(full), share(resumed));
            Fact::Known(format!("full for {full} of requests, resumed for {resumed}"))
        }
    };
    let spread = |place: usize| {
        let values = || known().map(|(_, by)| by[place]);
        values().fold(0.0, f64::max) - values().fold(f64::INFINITY, f64::min)
    };
    let (full, resumed) = (spread(0), spread(1));
    let as_often = full <= HANDSHAKES_ALIKE && resumed <= HANDSHAKES_ALIKE;
    let cells = match as_often && known().count() == all.len() {
        // Show equal shares as one number.
        true => vec![text(&all[0]); all.len()],
        false => all.iter().map(text).collect(),
    };
    let weight = if full > HANDSHAKES_DECIDE { Weight::Decides } else { Weight::Matters };
    let weight = weight_of(&cells, weight);
    let wording: Vec<String> = sides
        .iter()
        .zip(&all)
        .map(|(side, one)| format!("{} {}", side.name, text(one).text()))
        .collect();
    let finding = format!("the shares of TLS handshakes differ: {}", wording.join("; "));
    let what = "TLS handshakes".to_owned();
    Some((Row { what, cells, weight }, Some(finding)))
}
