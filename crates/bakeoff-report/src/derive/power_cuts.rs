//! Words who lost acknowledged writes in power cuts, and who lost none.
//!
//! Not here: single audits (`document::words::audits`), the cuts (`bakeoff_trial`).

use bakeoff_core::check::Audit;
use bakeoff_core::stats::and;
use bakeoff_core::units::plural;

use crate::derive::comparison::Comparison;
use crate::model::changed_keys::ChangedKeys;

/// The power cuts of one system in all trials of a run.
#[derive(Debug, Default)]
struct SystemPowerCuts<'a> {
    system: &'a str,
    cuts: u32,
    /// First cut of a trial after which keys were lost, or no start followed.
    found_in: Option<u32>,
    /// Keys changed after it, of those read back.
    changed: ChangedKeys,
    read: u64,
}

/// Who lost writes, as a sentence without its full stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PowerLosses {
    /// Some systems lost writes.
    Lost(String),
    /// None did.
    Kept(String),
}

/// Words the power cuts of a run; `None` if the power was not cut.
pub(crate) fn losses(run: &[&Comparison]) -> Option<PowerLosses> {
    let mut all: Vec<SystemPowerCuts<'_>> = Vec::new();
    for contender in run.iter().flat_map(|of| &of.contenders) {
        for audit in contender.trials.iter().flat_map(|trial| &trial.verdicts.audits) {
            let Some(made) = audit.power_cuts else { continue };
            let known = all.iter().position(|one| one.system == contender.system);
            let place = known.unwrap_or_else(|| {
                all.push(SystemPowerCuts {
                    system: &contender.system,
                    ..SystemPowerCuts::default()
                });
                all.len() - 1
            });
            all[place].add(audit, made.cuts, made.found_in);
        }
    }
    let (losers, safe): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.found_in.is_some());
    let none = (!safe.is_empty()).then(|| {
        let names: Vec<&str> = safe.iter().map(|one| one.system).collect();
        let least = safe.iter().map(|one| one.cuts).min().unwrap_or(0);
        let most = safe.iter().map(|one| one.cuts).max().unwrap_or(0);
        let cuts = match least == most {
            true => plural(most.into(), "power cut"),
            false => format!("{least} to {most} power cuts"),
        };
        format!("{} lost none in {cuts}", and(&names))
    });
    match (losers.is_empty(), none) {
        (true, None) => None,
        (true, Some(none)) => Some(PowerLosses::Kept(none.replace("lost none", "lost no write"))),
        (false, none) => {
            let lost = losers.iter().map(|one| one.text()).collect::<Vec<_>>().join("; ");
            let none = none.map_or_else(String::new, |none| format!("; {none}"));
            Some(PowerLosses::Lost(lost + &none))
        }
    }
}

impl SystemPowerCuts<'_> {
    fn add(&mut self, audit: &Audit, cuts: u32, found_in: Option<u32>) {
        self.cuts += cuts;
        if let Some(cut) = found_in {
            self.found_in = Some(self.found_in.map_or(cut, |known| known.min(cut)));
            self.changed = self.changed + ChangedKeys::found_by(audit);
            self.read += audit.read;
        }
    }

    fn text(&self) -> String {
        let (system, cut) = (self.system, self.found_in.unwrap_or(self.cuts));
        match self.changed.all() {
            0 => format!("{system} did not start again after power cut {cut}"),
            _ => format!("{system} {} in power cut {cut}", self.changed.words(Some(self.read))),
        }
    }
}
