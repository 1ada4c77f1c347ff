//! Causes the faults of a sequence, one after another, in one run of the load.
//!
//! Each begins when the one before has ended, all nodes serve again, and the rest is over.
//!
//! Not here: a single fault (`faults`).

use bakeoff_clock as clock;
use bakeoff_core::record::FaultHit;
use bakeoff_core::study::fault::Sequence;
use bakeoff_core::study::{Fault, FaultAction, Study, System};

use super::{InjectionResult, Injector, NotInjected};

/// A fault, with the name of the part that its nodes belong to; `None` for the system's own nodes.
pub(super) struct Step<'a> {
    pub(super) fault: &'a Fault,
    part: Option<&'a str>,
}

/// Returns the faults that happen in an injection: those of a sequence, or the fault itself.
pub(super) fn steps<'a>(study: &'a Study, asked: &'a System, fault: &'a Fault) -> Vec<Step<'a>> {
    let step = |fault: &'a Fault| {
        let part = fault.target.part.as_ref().and_then(|role| asked.parts.get(role));
        Step { fault, part: part.map(|part| part.name.as_str()) }
    };
    if fault.action.steps().is_empty() {
        return vec![step(fault)];
    }
    let named = |name: &'a String| study.faults.iter().find(|one| one.name == *name);
    fault.action.steps().iter().filter_map(named).map(step).collect()
}

impl Injector<'_> {
    /// Causes each fault in turn. Stops at the first that does not happen as planned.
    pub(super) fn run_all(&self, steps: &[Step<'_>]) -> InjectionResult {
        let FaultAction::Sequence(Sequence { rest, .. }) = self.fault.action else {
            let [Step { part, .. }] = steps else { return self.run() };
            return Injector { part: *part, ..*self }.run();
        };
        let mut all = InjectionResult::default();
        let mut at = self.at;
        for Step { fault, part } in steps {
            let mut one = Injector { fault, at, part: *part, ..*self }.run();
            let named = |hit| FaultHit { fault: Some(fault.name.clone()), ..hit };
            all.hits.extend(one.hits.drain(..).map(named));
            if let Some(NotInjected { why, cause }) = one.failed {
                let why = format!("step `{}`: {why}", fault.name);
                all.failed = Some(NotInjected { why, cause });
                break;
            }
            let measures = self.begun.get().copied().unwrap_or_else(clock::now);
            at = clock::now().saturating_duration_since(measures) + rest;
        }
        all
    }
}
