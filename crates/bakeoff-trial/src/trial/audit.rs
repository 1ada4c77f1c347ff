//! Reads acknowledged keys back, and judges which are lost or wrong.
//!
//! An audit is a load like any other. Its operations read the keys that the ledger expects, and the code for a trial's
//! reads judges them.

use std::sync::atomic::AtomicBool;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::record::{AckLocation, Guarantees};
use bakeoff_core::units::count_text;
use bakeoff_systems::System;

use crate::cluster::ReadyCluster;
use bakeoff_fleet::generators::all_generators::Generators;
use bakeoff_fleet::generators::generator::{ReadBackRequest, StageTarget};
use bakeoff_fleet::machines::order::ReadBack;

/// Reads back the acknowledged writes of a trial.
pub(crate) struct Auditor<'a> {
    pub(crate) system: &'static dyn System,
    /// Generators, which own the keys.
    pub(crate) generators: &'a Generators<'a>,
    /// Maximum keys to read back. If there are more, the newest ones and a sample are read.
    pub(crate) keys_max: u64,
    /// Seed of the sample.
    pub(crate) seed: u64,
    pub(crate) interrupted: &'a AtomicBool,
}

impl Auditor<'_> {
    /// Reads acknowledged keys back and judges them. `when` is shown to users: `after the load`.
    pub(crate) fn judge(&self, cluster: &ReadyCluster, when: &str) -> Audit {
        let not_checked = |why: String| Audit::new(when, Verdict::NotChecked(why));
        let held = match self.generators.acknowledged() {
            Ok(held) => held,
            Err(error) => {
                return not_checked(format!("lost the generator that owns the keys: {error}"));
            }
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
                "{} acknowledged keys could not be read back: no node is left",
                count_text(asked)
            ));
        }
        let unsettled = self.system.settle(&nodes).err().map(|why| why.to_string());
        let to = StageTarget { system: self.system, nodes: &nodes, resumed: true, threads: 1 };
        let ask = ReadBackRequest { to, keys_max: self.keys_max, seed: self.seed };
        match self.generators.read_back(&ask, self.interrupted) {
            Ok(read) => without_unread(judged(audit, read, unsettled), cluster),
            Err(error) => unreadable(format!("no key could be read back: {error}")),
        }
    }
}

/// Withdraws a failure for keys that could not be read: they may not be lost.
fn without_unread(mut audit: Audit, cluster: &ReadyCluster) -> Audit {
    if audit.unreadable > 0
        && audit.lost + audit.wrong == 0
        && let Verdict::Failed(why) = &audit.verdict
    {
        audit.verdict = unread(why.clone(), cluster);
    }
    audit
}

/// Returns the verdict on unreadable keys, with the servers that ended.
fn unread(why: String, cluster: &ReadyCluster) -> Verdict {
    let died = cluster.died();
    let because = if died.is_empty() { String::new() } else { format!(": {}", died.join(", ")) };
    Verdict::NotChecked(format!("{why}{because}; whether they are lost is unknown"))
}

/// Judges the keys that were read back. `unsettled` is the reason why other clients may read something else.
fn judged(mut audit: Audit, read: ReadBack, unsettled: Option<String>) -> Audit {
    let ReadBack { asked, claimed, findings, interrupted, errors } = read;
    audit.claimed = Some(claimed);
    audit.read = findings.read;
    audit.repeated = findings.repeated;
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
            "of {} acknowledged keys read back, {} are lost and {} wrong; {first}",
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
        // These reads are right, but other clients may read something else.
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

/// Judges the audit after a kill by the system's guarantees. If a system acknowledges from memory, a loss breaks no
/// guarantee, and keeping the keys exceeds it.
pub(crate) fn after_a_kill(audit: Audit, guarantees: &Guarantees) -> Audit {
    let in_memory = matches!(
        guarantees.acknowledged_in,
        Some(AckLocation::Memory | AckLocation::MajorityMemory)
    );
    let breaks_none = in_memory.then_some("once it is in memory");
    judged_by(audit, guarantees, breaks_none)
}

/// Judges the audit after a power cut by the system's guarantees. Only a system that acknowledges from disks has to keep
/// its keys.
pub(crate) fn after_a_power_cut(audit: Audit, guarantees: &Guarantees) -> Audit {
    let breaks_none = match guarantees.acknowledged_in {
        Some(place) if place.is_on_disk() => None,
        Some(AckLocation::Memory | AckLocation::MajorityMemory) => Some("once it is in memory"),
        Some(_) => Some("once it is in the page cache"),
        None => Some("without a known guarantee"),
    };
    judged_by(audit, guarantees, breaks_none)
}

/// Judges the audit after a bit of one node was flipped. Only a copy on another node can replace what it damaged.
///
/// `others`: nodes that may have such a copy.
pub(crate) fn after_a_flipped_bit(audit: Audit, guarantees: &Guarantees, others: usize) -> Audit {
    let breaks_none = match guarantees.acknowledged_in {
        Some(AckLocation::Memory | AckLocation::MajorityMemory) => Some("once it is in memory"),
        _ if others == 0 => Some("on a single node"),
        _ => None,
    };
    judged_by(audit, guarantees, breaks_none)
}

/// Judges an audit. `breaks_none`: when the system acknowledges a write, if it guarantees nothing of it.
fn judged_by(audit: Audit, guarantees: &Guarantees, breaks_none: Option<&str>) -> Audit {
    let Some(acknowledges) = breaks_none else {
        let verdict = match audit.verdict {
            Verdict::Failed(why) if audit.lost + audit.older > 0 => Verdict::Failed(format!(
                "{why}; the system claims to acknowledge a write {}",
                guarantees.acknowledged
            )),
            verdict => verdict,
        };
        return Audit { verdict, ..audit };
    };
    let gone = audit.lost + audit.older;
    if gone == 0 || audit.wrong > audit.older || audit.unreadable > 0 {
        return Audit { unguaranteed: audit.verdict.passed(), ..audit };
    }
    let verdict = Verdict::NotChecked(format!(
        "{} of {} acknowledged keys are lost or older, which breaks no guarantee: the system acknowledges a write \
         {acknowledges}",
        count_text(gone),
        count_text(audit.read),
    ));
    Audit { verdict, ..audit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_bit_may_take_no_key_that_another_node_has() {
        let found = |lost, wrong, older| Audit {
            read: 9,
            lost,
            wrong,
            older,
            ..Audit::new("after a flipped bit", Verdict::Failed("gone".into()))
        };
        let guarantees =
            Guarantees { acknowledged_in: Some(AckLocation::PageCache), ..Guarantees::default() };
        let verdict = |audit, others| after_a_flipped_bit(audit, &guarantees, others).verdict;
        for audit in [found(1, 0, 0), found(0, 1, 1), found(0, 1, 0)] {
            assert!(verdict(audit, 2).failed(), "another node has it");
        }
        let Verdict::NotChecked(why) = verdict(found(1, 1, 1), 0) else { panic!("no other copy") };
        assert!(why.ends_with("acknowledges a write on a single node"), "{why}");
        assert!(verdict(found(0, 1, 0), 0).failed(), "it was never written");
    }

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
        let Verdict::NotChecked(why) = verdict(found(7, 0, 0), Some(AckLocation::Memory)) else {
            panic!("memory guarantees nothing");
        };
        assert!(why.starts_with("7 of 9 acknowledged keys are lost or older"), "{why}");
        for guaranteed in [None, Some(AckLocation::PageCache), Some(AckLocation::Disk)] {
            assert!(verdict(found(7, 0, 0), guaranteed).failed(), "{guaranteed:?}");
        }
        let kept = Audit { verdict: Verdict::Passed, ..found(0, 0, 0) };
        assert!(after_a_kill(kept.clone(), &guarantees(Some(AckLocation::Memory))).unguaranteed);
        assert!(!after_a_kill(kept, &guarantees(Some(AckLocation::Disk))).unguaranteed);
        let Verdict::Failed(why) = verdict(found(7, 0, 0), Some(AckLocation::Disk)) else {
            panic!("disk is a guarantee");
        };
        assert!(
            why.ends_with("the system claims to acknowledge a write when it is there"),
            "{why}"
        );
        // A lost update counts like a lost key.
        let updates = Audit { older: 2, ..found(0, 2, 0) };
        let judged =
            |guaranteed| after_a_kill(updates.clone(), &guarantees(Some(guaranteed))).verdict;
        assert!(matches!(judged(AckLocation::Memory), Verdict::NotChecked(_)));
        assert!(
            matches!(judged(AckLocation::Disk), Verdict::Failed(why) if why.contains("claims"))
        );
        // Keys that are there must still be right.
        assert!(verdict(found(7, 1, 0), Some(AckLocation::Memory)).failed());
        assert!(verdict(found(7, 0, 1), Some(AckLocation::Memory)).failed());
        assert!(verdict(found(0, 0, 0), Some(AckLocation::Memory)).failed());
    }
}
