//! Whether another run of the same study bears out what a run claims, claim by claim.
//!
//! A claim is a difference that the first run declared, or what its audits found. It is *replicated* where the other run
//! declares the same, *contradicted* where it declares the opposite, or where both intervals have no ratio in common, and
//! otherwise nobody can tell. That no difference was shown is no claim.
//!
//! Both runs are judged as reports judge them, so that each outcome rests on intervals that hold for their whole
//! family. Not here: running the study again (the binary), other differences of two runs (`compare`).

use std::collections::BTreeMap;

use bakeoff_core::check::Verdict;
use bakeoff_core::record::Record;
use bakeoff_core::stats::judge::TestResult;
use bakeoff_core::stats::{interval_text, ratio_text};
use bakeoff_core::units::plural;
use serde_json::{Value, json};

use crate::compare::differences;
use crate::derive::comparison::Comparison;
use crate::derive::durability;
use crate::derive::judgement::{JudgedAs, Judgement};
use crate::model::contest::Contest;

/// Answer of another run to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The same.
    Replicated,
    /// The opposite.
    Contradicted,
    /// Too little.
    CannotTell,
}

impl ClaimOutcome {
    /// The words for it: `replicated`, `contradicted`, `cannot tell`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Replicated => "replicated",
            Self::Contradicted => "contradicted",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// A claim of the first run, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Where: `create/steady`.
    pub place: String,
    /// The claim, as a clause.
    pub claim: String,
    /// Whether the load was run for it.
    pub leading: bool,
    /// The answer to it.
    pub outcome: ClaimOutcome,
    /// The finding of the other run, as a clause.
    pub here: String,
}

/// Two runs of one study, claim by claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reproduction {
    /// The first run's claims: of each place those that its load was run for first.
    pub claims: Vec<Claim>,
    /// In what machines, programs and runs differ, as clauses.
    pub differences: Vec<String>,
}

impl Reproduction {
    /// Asks `here` about each claim of `there`.
    pub fn new(there: &Record, here: &Record) -> Self {
        let (there, here) = (&*durability::lowered(there), &*durability::lowered(here));
        let (theirs, ours) = (Comparison::all(there), Comparison::all(here));
        let mut claims = Vec::new();
        for their in &theirs {
            let place = their.place();
            let our = ours.iter().find(|one| one.place() == place);
            let mut declared: Vec<&Judgement> =
                their.judgements.iter().filter(|one| one.claims()).collect();
            declared.sort_by_key(|one| !one.leading);
            claims.extend(declared.into_iter().map(|one| declared_again(one, our, &place)));
        }
        claims.extend(audited_again(there, here));
        let contests = (Contest::all(there), Contest::all(here));
        let names = ["run there", "run here"];
        Self { claims, differences: differences(names, there, here, &contests.0, &contests.1) }
    }

    /// Returns how many claims came out so.
    pub fn count(&self, outcome: ClaimOutcome) -> usize {
        self.claims.iter().filter(|claim| claim.outcome == outcome).count()
    }

    /// Returns the whole in a sentence.
    pub fn sentence(&self) -> String {
        let all = match self.claims.len() {
            0 => return "The run claims nothing that could be replicated.".to_owned(),
            all => plural(all as u64, "claim"),
        };
        let parts = [
            (ClaimOutcome::Replicated, "replicated"),
            (ClaimOutcome::Contradicted, "contradicted"),
            (ClaimOutcome::CannotTell, "left open"),
        ];
        let parts = parts.map(|(outcome, word)| match self.count(outcome) {
            0 => format!("none was {word}"),
            1 => format!("1 was {word}"),
            count => format!("{count} were {word}"),
        });
        format!("Of {all} {}, {} and {}.", parts[0], parts[1], parts[2])
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let claim = |one: &Claim| {
            json!({
                "place": one.place, "claim": one.claim, "leading": one.leading,
                "outcome": one.outcome.words(), "here": one.here,
            })
        };
        json!({
            "format": 1,
            "sentence": self.sentence(),
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
            "differences": self.differences,
        })
    }

    /// The same for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut place = "";
        for claim in &self.claims {
            if claim.place != place {
                place = &claim.place;
                text += &format!("{place}\n");
            }
            let outcome = claim.outcome.words();
            text +=
                &format!("  {outcome:<12}  {}\n  {:<12}  here: {}\n", claim.claim, "", claim.here);
        }
        text += &format!("\n{}\n", self.sentence());
        if !self.differences.is_empty() {
            text += "\nDifferences between there and here:\n";
            text.extend(self.differences.iter().map(|one| format!("  {one}\n")));
        }
        text.trim_start().to_owned()
    }
}

/// Asks another run about a declared difference.
fn declared_again(claim: &Judgement, our: Option<&Comparison>, place: &str) -> Claim {
    let same =
        |one: &&Judgement| one.is_about_what(claim) && (&one.a, &one.b) == (&claim.a, &claim.b);
    let (outcome, here) = match our.and_then(|our| our.judgements.iter().find(same)) {
        None => (ClaimOutcome::CannotTell, "it was not compared".to_owned()),
        Some(one) => (weighed(claim, one), one.words() + &apart(claim, one)),
    };
    Claim { place: place.to_owned(), claim: claim.words(), leading: claim.leading, outcome, here }
}

fn weighed(there: &Judgement, here: &Judgement) -> ClaimOutcome {
    match (&there.verdict, &here.verdict) {
        (JudgedAs::Higher, JudgedAs::Higher) | (JudgedAs::Lower, JudgedAs::Lower) => {
            ClaimOutcome::Replicated
        }
        (JudgedAs::Higher, JudgedAs::Lower) | (JudgedAs::Lower, JudgedAs::Higher) => {
            ClaimOutcome::Contradicted
        }
        // None is shown here, and none as large as there is possible.
        (_, JudgedAs::NoneShown { .. }) if are_apart(there, here) => ClaimOutcome::Contradicted,
        _ => ClaimOutcome::CannotTell,
    }
}

/// Returns whether the intervals of two answers have no ratio in common.
fn are_apart(there: &Judgement, here: &Judgement) -> bool {
    let apart = |(there, here): (TestResult, TestResult)| {
        there.interval.1 < here.interval.0 || here.interval.1 < there.interval.0
    };
    there.answer.zip(here.answer).is_some_and(apart)
}

/// Says that a difference was replicated in its direction, and not in its size.
fn apart(there: &Judgement, here: &Judgement) -> String {
    match (weighed(there, here), here.answer) {
        (ClaimOutcome::Replicated, Some(answer)) if are_apart(there, here) => {
            let answer = match here.verdict {
                JudgedAs::Lower => answer.turned(),
                _ => answer,
            };
            format!(
                "; its size is another one than there: {} ({})",
                ratio_text(answer.ratio),
                interval_text(answer.interval)
            )
        }
        _ => String::new(),
    }
}

/// Findings of the audits of a system's trials under one workload and load.
#[derive(Debug, Default)]
struct Audits {
    passed: usize,
    failed: usize,
    first: Option<String>,
}

type Key = (String, String);

/// The audits by place and system.
fn audits(record: &Record) -> BTreeMap<Key, Audits> {
    let mut all: BTreeMap<Key, Audits> = BTreeMap::new();
    for trial in &record.trials {
        let place = format!("{}/{}", trial.trial.workload, trial.trial.load);
        let of = all.entry((place, trial.trial.system.clone())).or_default();
        for audit in &trial.audits {
            match &audit.verdict {
                Verdict::Passed => of.passed += 1,
                Verdict::Failed(why) => {
                    of.failed += 1;
                    of.first.get_or_insert_with(|| format!("{}: {why}", audit.when));
                }
                Verdict::NotChecked(_) => {}
            }
        }
    }
    all
}

/// Asks another run about what the audits found.
fn audited_again(there: &Record, here: &Record) -> Vec<Claim> {
    let ours = audits(here);
    let mut claims = Vec::new();
    for (key, their) in audits(there) {
        let nothing = Audits::default();
        let our = ours.get(&key).unwrap_or(&nothing);
        let all = |of: &Audits| plural((of.passed + of.failed) as u64, "audit");
        let found = |of: &Audits| match &of.first {
            Some(first) => format!("{} of {} failed ({first})", of.failed, all(of)),
            None => format!("{} passed", all(of)),
        };
        let outcome = match (&their, our) {
            (Audits { passed: 0, failed: 0, .. }, _) => continue,
            (_, Audits { passed: 0, failed: 0, .. }) => ClaimOutcome::CannotTell,
            (Audits { failed: 0, .. }, Audits { failed: 0, .. }) => ClaimOutcome::Replicated,
            (Audits { failed: 0, .. }, _) => ClaimOutcome::Contradicted,
            (_, Audits { failed: 0, .. }) => ClaimOutcome::CannotTell,
            _ => ClaimOutcome::Replicated,
        };
        claims.push(Claim {
            claim: format!("{}'s writes: {}", key.1, found(&their)),
            here: if our.passed + our.failed == 0 {
                "no audit was made".to_owned()
            } else {
                found(our)
            },
            place: key.0,
            leading: false,
            outcome,
        });
    }
    claims
}
