//! Findings about churn between a system's parts in most of its trials: new connections, new processes.
//!
//! Not here: the rates in a single trial (`model::churn`).

use std::collections::BTreeMap;

use bakeoff_core::units::trials_text;

use crate::model::churn::{Frequency, FrequentEvent};
use crate::model::contender::Contender;
use crate::model::trial::TrialFigures;

/// Returns frequent events of nodes in more than half of a system's trials.
pub(crate) fn findings(of: &Contender, place: &str) -> Vec<String> {
    let mut all: BTreeMap<&FrequentEvent, Vec<Frequency>> = BTreeMap::new();
    let trials = || of.trials.iter().map(|trial: &TrialFigures| &trial.servers.often);
    for (often, frequency) in trials().flatten() {
        all.entry(often).or_default().push(*frequency);
    }
    let run = of.trials.len();
    let frequent = all.into_iter().filter(|(_, rates)| rates.len() * 2 > run);
    frequent
        .map(|(often, mut rates)| {
            rates.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
            let what = often.text(rates[rates.len() / 2]);
            format!(
                "{what} under {place} in {} of {} ({})",
                rates.len(),
                trials_text(run),
                of.system
            )
        })
        .collect()
}
