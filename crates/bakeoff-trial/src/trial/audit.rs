//! Reads back what was acknowledged, and tells what is gone or wrong.
//!
//! An audit is a load like any other: its operations are reads of the keys that the ledger says
//! must be there, judged by the same code as the reads of a trial.

use std::sync::atomic::AtomicBool;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::record::{Acknowledged, Guarantees};
use bakeoff_core::units::count_text;
use bakeoff_systems::System;

use crate::cluster::ReadyCluster;
use bakeoff_fleet::generators::all::Generators;
use bakeoff_fleet::generators::generator::{Loaded, ReadBackAsk};
use bakeoff_fleet::machines::order::ReadBack;

/// Reads back what a trial's writes were acknowledged to have left.
pub(crate) struct Auditor<'a> {
    pub(crate) system: &'static dyn System,
    /// The owners of the keys.
    pub(crate) generators: &'a Generators<'a>,
    /// Most keys to read back. If there are more, the recently acknowledged ones and a sample are read.
    pub(crate) keys_max: u64,
    /// Seeds the sample.
    pub(crate) seed: u64,
    pub(crate) interrupted: &'a AtomicBool,
}

impl Auditor<'_> {
    /// Reads acknowledged keys back and judges them. `when` is for people: `after the load`.
    pub(crate) fn judge(&self, cluster: &ReadyCluster, when: &str) -> Audit {
        let not_checked = |why: String| Audit::new(when, Verdict::NotChecked(why));
        let held = match self.generators.acknowledged() {
            Ok(held) => held,
            Err(error) => return not_checked(format!("the keys' owner is gone: {error}")),
        };
        let acknowledged = held.keys * held.stride;
        let asked = held.keys.min(self.keys_max);
        if asked == 0 {
            return Audit { acknowledged, ..not_checked("no write was acknowledged".into()) };
        }
        let audit = Audit { acknowledged, ..Audit::new(when, Verdict::Passed) };
        let unreadable = |why: String| Audit {
            unreadable: asked,
            verdict: unread(why, cluster),
            ..audit.clone()
        };
        let nodes = cluster.to_read_from();
        if nodes.is_empty() {
            return unreadable(format!(
                "{} acknowledged keys could not be read back, for no node is left",
                count_text(asked)
            ));
        }
        let unsettled = self.system.settle(&nodes).err().map(|why| why.to_string());
        let to = Loaded { system: self.system, nodes: &nodes, resumed: true, threads: 1 };
        let ask = ReadBackAsk { to, keys_max: self.keys_max, seed: self.seed };
        match self.generators.read_back(&ask, self.interrupted) {
            Ok(read) => unlost(judged(audit, read, unsettled), cluster),
            Err(error) => unreadable(format!("nothing could be read back: {error}")),
        }
    }
}

/// Takes back that keys are lost which could not be read: whether they are nobody knows.
fn unlost(mut audit: Audit, cluster: &ReadyCluster) -> Audit {
    if audit.unreadable > 0
        && audit.lost + audit.wrong == 0
        && let Verdict::Failed(why) = &audit.verdict
    {
        audit.verdict = unread(why.clone(), cluster);
    }
    audit
}

/// Returns the verdict on keys that could not be read back, with the servers that ended.
fn unread(why: String, cluster: &ReadyCluster) -> Verdict {
    let died = cluster.died();
    let because = if died.is_empty() { String::new() } else { format!(": {}", died.join(", ")) };
    Verdict::NotChecked(format!("{why}{because}; that does not say that they are lost"))
}

/// Judges what was read back; `unsettled` is the reason for which not every client would read the same.
fn judged(mut audit: Audit, read: ReadBack, unsettled: Option<String>) -> Audit {
    let ReadBack { asked, claimed, findings, interrupted, errors } = read;
    audit.claimed = Some(claimed);
    audit.read = findings.read;
    audit.lost = findings.lost;
    audit.wrong = findings.wrong;
    audit.older = findings.older;
    audit.unreadable = asked.saturating_sub(findings.read);
    audit.examples = findings.examples;
    audit.examples.extend(unsettled.clone());
    audit.verdict = if interrupted {
        Verdict::NotChecked("interrupted".into())
    } else if audit.lost + audit.wrong > 0 {
        let first = audit.examples.first().cloned().unwrap_or_default();
        Verdict::Failed(format!(
            "of {} acknowledged keys read back {} are lost and {} wrong; {first}",
            count_text(asked),
            count_text(audit.lost),
            count_text(audit.wrong),
        ))
    } else if audit.unreadable > 0 {
        let first = errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        audit.examples.extend(errors);
        Verdict::Failed(format!(
            "{} of {} acknowledged keys could not be read back{first}",
            count_text(audit.unreadable),
            count_text(asked),
        ))
    } else if let Some(why) = unsettled {
        // What was read here is right, and is not what every client would read.
        Verdict::Failed(why)
    } else if claimed * 2 < asked {
        Verdict::NotChecked(format!(
            "all is as it may be, but of only {} of {} acknowledged keys would every loss have been \
             noticed: the others had deletes of unknown outcome, or more writes of unknown outcome \
             than are remembered",
            count_text(claimed),
            count_text(asked),
        ))
    } else {
        audit.verdict
    };
    audit
}

/// Judges the audit after a kill, of a system with these guarantees. Where a write is acknowledged once it is in
/// memory, what a kill takes is no broken guarantee, and what it leaves is more than was guaranteed.
pub(crate) fn after_a_kill(audit: Audit, guarantees: &Guarantees) -> Audit {
    let guaranteed = guarantees.acknowledged_in;
    let in_memory = matches!(guaranteed, Some(Acknowledged::Memory | Acknowledged::MajorityMemory));
    if !in_memory {
        let verdict = match audit.verdict {
            Verdict::Failed(why) if audit.lost + audit.older > 0 => Verdict::Failed(format!(
                "{why}; a write is said to be acknowledged {}",
                guarantees.acknowledged
            )),
            verdict => verdict,
        };
        return Audit { verdict, ..audit };
    }
    let gone = audit.lost + audit.older;
    if gone == 0 || audit.wrong > audit.older || audit.unreadable > 0 {
        return Audit { unguaranteed: audit.verdict.passed(), ..audit };
    }
    let verdict = Verdict::NotChecked(format!(
        "{} of {} acknowledged keys are gone or older, which breaks no guarantee: a write is acknowledged \
         once it is in memory",
        count_text(gone),
        count_text(audit.read),
    ));
    Audit { verdict, ..audit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_from_memory_breaks_no_guarantee() {
        let found = |lost, wrong, unreadable| Audit {
            read: 9,
            lost,
            wrong,
            unreadable,
            ..Audit::new("after a kill", Verdict::Failed("gone".into()))
        };
        let guarantees = |acknowledged_in| Guarantees {
            replication: String::new(),
            acknowledged: "when it is there".into(),
            reads: String::new(),
            acknowledged_in,
            ..Guarantees::default()
        };
        let verdict = |found, guaranteed| after_a_kill(found, &guarantees(guaranteed)).verdict;
        let Verdict::NotChecked(why) = verdict(found(7, 0, 0), Some(Acknowledged::Memory)) else {
            panic!("it was memory alone");
        };
        assert!(why.starts_with("7 of 9 acknowledged keys are gone or older"), "{why}");
        for guaranteed in [None, Some(Acknowledged::PageCache), Some(Acknowledged::Disk)] {
            assert!(verdict(found(7, 0, 0), guaranteed).failed(), "{guaranteed:?}");
        }
        let kept = Audit { verdict: Verdict::Passed, ..found(0, 0, 0) };
        assert!(after_a_kill(kept.clone(), &guarantees(Some(Acknowledged::Memory))).unguaranteed);
        assert!(!after_a_kill(kept, &guarantees(Some(Acknowledged::Disk))).unguaranteed);
        let Verdict::Failed(why) = verdict(found(7, 0, 0), Some(Acknowledged::Disk)) else {
            panic!("it was promised");
        };
        assert!(why.ends_with("a write is said to be acknowledged when it is there"), "{why}");
        // An update that is gone is no other thing than a key that is gone.
        let updates = Audit { older: 2, ..found(0, 2, 0) };
        let judged =
            |guaranteed| after_a_kill(updates.clone(), &guarantees(Some(guaranteed))).verdict;
        assert!(matches!(judged(Acknowledged::Memory), Verdict::NotChecked(_)));
        assert!(matches!(judged(Acknowledged::Disk), Verdict::Failed(why) if why.contains("said")));
        // What is there has to be right all the same.
        assert!(verdict(found(7, 1, 0), Some(Acknowledged::Memory)).failed());
        assert!(verdict(found(7, 0, 1), Some(Acknowledged::Memory)).failed());
        assert!(verdict(found(0, 0, 0), Some(Acknowledged::Memory)).failed());
    }
}
