//! Texts about audits: what was read back after a load, and what was missing.
//!
//! Not here: other checks (`words`), the audits themselves (`bakeoff_core::check`).

use bakeoff_core::check::{Audit, AuditSubject, Verdict};
use bakeoff_core::stats::and;
use bakeoff_core::units::{count_text, trials_text};

use crate::derive::comparison::Comparison;
use crate::document::line::AuditLine;
use crate::model::trial::TrialFigures;

/// Passed audits with the same result in some trials. Counts are the smallest and largest of single trials; for
/// passages they are sums.
#[derive(PartialEq)]
struct PassedAudits {
    of: AuditSubject,
    read: (u64, u64),
    acknowledged: (u64, u64),
    /// Keys whose first read failed.
    repeated: (u64, u64),
    /// Keys read back that would have shown any loss; `None` if not counted.
    claimed: Option<(u64, u64)>,
    /// Clients that wrote during the kill, and writes acknowledged until then. `None` if the nodes were killed at rest
    /// in any of the trials, or not at all.
    under_load: Option<[(u64, u64); 2]>,
    /// Reason why they were killed at rest in any of the trials, instead of under load.
    at_rest: Option<String>,
    /// Power cuts, writes acknowledged before them, and bytes and names that they dropped; `None` if the power was not
    /// cut in any of the trials.
    power_cuts: Option<[(u64, u64); 4]>,
    /// Bits that were flipped before, and what became of their nodes.
    flipped: Vec<String>,
    /// True if no guarantee covers the result.
    unguaranteed: bool,
    trials: usize,
}

impl PassedAudits {
    fn sum(passed: &[&Audit]) -> Self {
        let of = passed[0].of;
        let bounds = |count: fn(&Audit) -> u64| match of {
            AuditSubject::Writes => {
                let counts = || passed.iter().map(|audit| count(audit));
                (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
            }
            AuditSubject::Passages => {
                let sum = passed.iter().map(|audit| count(audit)).sum();
                (sum, sum)
            }
        };
        let counted = passed.iter().all(|audit| audit.claimed.is_some());
        Self {
            of,
            read: bounds(|audit| audit.read),
            acknowledged: bounds(|audit| audit.acknowledged),
            repeated: bounds(|audit| audit.repeated),
            claimed: counted.then(|| bounds(|audit| audit.claimed.unwrap_or(0))),
            under_load: passed.iter().all(|audit| audit.under_load.is_some()).then(|| {
                [
                    bounds(|audit| audit.under_load.map_or(0, |killed| killed.clients.into())),
                    bounds(|audit| audit.under_load.map_or(0, |killed| killed.acknowledged)),
                ]
            }),
            at_rest: passed.iter().find_map(|audit| audit.at_rest_because.clone()),
            power_cuts: passed.iter().all(|audit| audit.power_cuts.is_some()).then(|| {
                [
                    bounds(|audit| audit.power_cuts.map_or(0, |made| made.cuts.into())),
                    bounds(|audit| audit.power_cuts.map_or(0, |made| made.acknowledged)),
                    bounds(|audit| audit.power_cuts.map_or(0, |made| made.dropped_bytes)),
                    bounds(|audit| audit.power_cuts.map_or(0, |made| made.dropped_names)),
                ]
            }),
            flipped: passed
                .iter()
                .filter_map(|audit| Some(audit.flipped.as_ref()?.text()))
                .collect(),
            unguaranteed: passed.iter().any(|audit| audit.unguaranteed),
            trials: passed.len(),
        }
    }

    /// Returns `9 of 10 acknowledged keys read back after the load (1 trial)`.
    fn words(&self, when: &str) -> String {
        let range = |(least, most): (u64, u64)| match least == most {
            true => count_text(least),
            false => format!("{} to {}", count_text(least), count_text(most)),
        };
        let (read, all, trials) =
            (range(self.read), range(self.acknowledged), trials_text(self.trials));
        let keys = match (self.read == self.acknowledged, self.read.0 == self.read.1) {
            (true, false) => format!("all of {all}"),
            (true, true) => format!("{read} of {all}"),
            (false, _) => format!("a sample of {read} of {all}"),
        };
        let each = if self.trials > 1 { "in each of " } else { "" };
        let claimed = self
            .claimed
            .filter(|&claimed| claimed < self.read)
            .map_or_else(String::new, |claimed| {
                format!(", {} of them able to show a loss", range(claimed))
            });
        let repeated = match self.repeated {
            (0, 0) => String::new(),
            counts => format!(", {} of them only by a further read", range(counts)),
        };
        let killed = self.under_load.map_or_else(String::new, |[clients, acknowledged]| {
            format!(
                ", killed while {} clients wrote ({} writes acknowledged in that time)",
                range(clients),
                range(acknowledged),
            )
        });
        let at_rest = self.at_rest.as_ref().map_or_else(String::new, |why| {
            let some = if self.trials > 1 { " in some" } else { "" };
            format!(", killed at rest{some}: {why}")
        });
        let cut = self.power_cuts.map_or_else(String::new, |[cuts, acknowledged, bytes, names]| {
            let times = if cuts == (1, 1) { "cut" } else { "cuts" };
            format!(
                ", {} {times} under load ({} writes acknowledged, {} unsynced bytes and {} names dropped)",
                range(cuts),
                range(acknowledged),
                range(bytes),
                range(names),
            )
        });
        let flipped: String = self.flipped.iter().map(|one| format!("; {one}")).collect();
        let unguaranteed =
            if self.unguaranteed { "; passed, though nothing guarantees it" } else { "" };
        match self.of {
            AuditSubject::Writes => format!(
                "{keys} acknowledged keys read back {when} \
                 ({each}{trials}){repeated}{killed}{at_rest}{cut}{claimed}{flipped}{unguaranteed}"
            ),
            AuditSubject::Passages => format!(
                "no request passed unchecked {when}: {read} passed, {all} were granted ({trials})"
            ),
        }
    }
}

/// Returns the audit results of each system and moment.
pub(crate) fn audits(of: &Comparison) -> Vec<AuditLine> {
    let mut lines = Vec::new();
    for contender in &of.contenders {
        let name = &contender.system;
        let mut moments: Vec<&str> = Vec::new();
        for audit in contender.trials.iter().flat_map(|trial| &trial.verdicts.audits) {
            if !moments.contains(&audit.when.as_str()) {
                moments.push(&audit.when);
            }
        }
        // Results are mostly equal at each moment; then one line covers them.
        let mut held: Vec<(PassedAudits, Vec<&str>)> = Vec::new();
        let mut failed = Vec::new();
        for when in moments {
            let here = |audit: &&Audit| audit.when == when;
            let audits = || {
                contender.trials.iter().flat_map(move |trial| {
                    trial
                        .verdicts
                        .audits
                        .iter()
                        .filter(here)
                        .map(move |audit| (trial.number, audit))
                })
            };
            let passed: Vec<&Audit> =
                audits().map(|(_, audit)| audit).filter(|audit| audit.verdict.passed()).collect();
            if !passed.is_empty() {
                let found = PassedAudits::sum(&passed);
                match held.iter_mut().find(|(same, _)| *same == found) {
                    Some((_, moments)) => moments.push(when),
                    None => held.push((found, vec![when])),
                }
            }
            for (number, audit) in audits() {
                if let Verdict::Failed(why) = &audit.verdict {
                    let text = format!("{name}: FAILED {when} (trial {number:02}): {why}");
                    failed.push(AuditLine { text, failed: true });
                }
            }
        }
        let line = |text| AuditLine { text, failed: false };
        lines.extend(
            held.into_iter()
                .map(|(held, moments)| line(format!("{name}: {}", held.words(&and(&moments))))),
        );
        lines.extend(failed);
        let missing = |trial: &&TrialFigures| {
            trial.verdicts.audits.is_empty() && !trial.measured.figures.is_empty()
        };
        let without = contender.trials.iter().filter(missing).count();
        if without > 0 && of.writes() {
            let of = trials_text(without);
            lines.push(line(format!("{name}: not checked: no audit took place in {of}")));
        }
    }
    lines
}
