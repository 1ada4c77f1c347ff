//! Reads back what was acknowledged, and tells what is gone or wrong.
//!
//! An audit is a load like any other: its operations are reads of the keys that the ledger says
//! must be there, judged by the same code as the reads of a trial.

use std::fmt::Display;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::ledger::audited::{self, AcknowledgedKey};
use bakeoff_core::record::{Acknowledged, Guarantees};
use bakeoff_core::study::ReadConsistency;
use bakeoff_core::units::count_text;
use bakeoff_engine::works::keyed::{Findings, Keyed, Reading, Source};
use bakeoff_engine::{Drive, EngineError};

use crate::cluster::Ready;
use crate::generators::drive::{GeneratorError, Generators};
use crate::generators::order::ReadBackTold;
use crate::systems::{Access, KvLoad, System};

const CLIENTS_MAX: u32 = 32;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads back what a trial's writes were acknowledged to have left.
pub(crate) struct Auditor<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) keyed: &'a Arc<Keyed>,
    /// Most keys to read back. If there are more, the recently acknowledged ones and a sample are read.
    pub(crate) keys_max: u64,
    /// Seeds the sample.
    pub(crate) seed: u64,
    pub(crate) interrupted: &'a AtomicBool,
    /// The generators on other machines that own the keys, where the run has places.
    pub(crate) generators: Option<Generators<'a>>,
}

/// The answers of an audit's reads.
pub(crate) struct ReadBack {
    pub(crate) findings: Findings,
    pub(crate) interrupted: bool,
    /// The first reasons for which keys could not be read.
    pub(crate) errors: Vec<String>,
}

/// Keys that were read back.
struct Read {
    /// How many were asked for.
    asked: u64,
    /// How many of them would show whatever was lost of them, where that was not known before.
    claimed: Option<u64>,
    read_back: ReadBack,
}

impl Auditor<'_> {
    /// Reads acknowledged keys back and judges them. `when` is for people: `after the load`.
    pub(crate) fn judge(&self, cluster: &Ready, when: &str) -> Audit {
        if let Some(generators) = &self.generators {
            return self.judge_shares(generators, cluster, when);
        }
        let ledger = &self.keyed.ledger;
        let keys = ledger.acknowledged();
        let acknowledged = keys.len() as u64 * ledger.stride();
        let keys = self.choose(keys);
        let asked = keys.len() as u64;
        let mut audit = Audit { acknowledged, ..Audit::new(when, Verdict::Passed) };
        if asked == 0 {
            audit.verdict = Verdict::NotChecked("no write was acknowledged".into());
            return audit;
        }
        audit.claimed = Some(ledger.claiming_fully(&keys));
        self.judge_read(audit, asked, cluster, |nodes| {
            let read_back = self.read_back(keys, nodes)?;
            Ok::<_, EngineError>(Read { asked, claimed: None, read_back })
        })
    }

    /// Has acknowledged keys read back at the nodes that can answer, and judges what was found; `asked` is their
    /// number as far as it is known before.
    fn judge_read<E: Display>(
        &self,
        mut audit: Audit,
        asked: u64,
        cluster: &Ready,
        read: impl FnOnce(&[Access]) -> Result<Read, E>,
    ) -> Audit {
        let nodes = cluster.to_read_from();
        if nodes.is_empty() {
            audit.unreadable = asked;
            let why = format!(
                "{} acknowledged keys could not be read back, for no node is left",
                count_text(asked)
            );
            audit.verdict = unread(why, cluster);
            return audit;
        }
        let unsettled = self.system.settle(&nodes).err().map(|why| why.to_string());
        match read(&nodes) {
            Ok(Read { asked, claimed, read_back }) => {
                audit.claimed = claimed.or(audit.claimed);
                unlost(judged(audit, asked, read_back, unsettled), cluster)
            }
            Err(error) => Audit {
                unreadable: asked,
                verdict: unread(format!("nothing could be read back: {error}"), cluster),
                ..audit
            },
        }
    }

    /// Has the owners of keys read them back, and judges what they found.
    fn judge_shares(&self, generators: &Generators<'_>, cluster: &Ready, when: &str) -> Audit {
        let mut audit = Audit::new(when, Verdict::Passed);
        let held = match generators.acknowledged() {
            Ok(held) => held,
            Err(error) => {
                audit.verdict = Verdict::NotChecked(format!("the keys' owner is gone: {error}"));
                return audit;
            }
        };
        audit.acknowledged = held.keys * held.stride;
        let asked = held.keys.min(self.keys_max);
        if asked == 0 {
            audit.verdict = Verdict::NotChecked("no write was acknowledged".into());
            return audit;
        }
        self.judge_read(audit, asked, cluster, |nodes| {
            let to = generators.to(self.system, nodes, true)?;
            let told = generators.read_back(&to, self.keys_max, self.seed, self.interrupted)?;
            let ReadBackTold { asked, claimed, findings, interrupted, errors } = told;
            let read_back = ReadBack { findings, interrupted, errors };
            Ok::<_, GeneratorError>(Read { asked, claimed: Some(claimed), read_back })
        })
    }

    /// Returns the keys to read back: see [`audited::choose`].
    pub(crate) fn choose(&self, keys: Vec<AcknowledgedKey>) -> Vec<u64> {
        audited::choose(keys, self.keys_max, self.seed)
    }

    /// Reads these keys back, each once.
    ///
    /// # Errors
    /// When no client can connect.
    pub(crate) fn read_back(
        &self,
        keys: Vec<u64>,
        nodes: &[Access],
    ) -> Result<ReadBack, EngineError> {
        let drive = Drive::once(keys.len() as u64, CLIENTS_MAX, 1, TIMEOUT);
        let keys: Arc<[u64]> = keys.into();
        let findings = Arc::new(Mutex::new(Findings::default()));
        let (measurement, _) = self.system.drive(KvLoad {
            nodes,
            keyed: self.keyed,
            source: &mut |_| Source::Audit(keys.clone(), findings.clone()),
            reading: Reading {
                reads: ReadConsistency::Linearizable,
                may_be_stale: false,
                lists_are_complete: false,
            },
            drive: &drive,
            together: None,
            interrupted: self.interrupted,
            progress: &mut |_| {},
        })?;
        let errors = measurement.error_examples().map(|(_, example)| example.what.clone());
        Ok(ReadBack {
            findings: std::mem::take(&mut *findings.lock().unwrap_or_else(PoisonError::into_inner)),
            interrupted: measurement.interrupted,
            errors: errors.take(3).collect(),
        })
    }
}

/// Takes back that keys are lost which could not be read: whether they are nobody knows.
fn unlost(mut audit: Audit, cluster: &Ready) -> Audit {
    if audit.unreadable > 0
        && audit.lost + audit.wrong == 0
        && let Verdict::Failed(why) = &audit.verdict
    {
        audit.verdict = unread(why.clone(), cluster);
    }
    audit
}

/// Returns the verdict on keys that could not be read back, with the servers that ended.
fn unread(why: String, cluster: &Ready) -> Verdict {
    let died = cluster.died();
    let because = if died.is_empty() { String::new() } else { format!(": {}", died.join(", ")) };
    Verdict::NotChecked(format!("{why}{because}; that does not say that they are lost"))
}

/// Judges what was read back of `asked` keys; `unsettled` tells why not every client would read the same.
fn judged(mut audit: Audit, asked: u64, read_back: ReadBack, unsettled: Option<String>) -> Audit {
    let ReadBack { findings, interrupted, errors } = read_back;
    audit.read = findings.read;
    audit.lost = findings.lost;
    audit.wrong = findings.wrong;
    audit.older = findings.older;
    audit.unreadable = asked.saturating_sub(findings.read);
    audit.examples = findings.examples;
    audit.examples.extend(unsettled.clone());
    let claimed = audit.claimed.unwrap_or(asked);
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
