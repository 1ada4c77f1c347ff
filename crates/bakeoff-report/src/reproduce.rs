//! Compares two runs of the same study: does the second one confirm the claims of the first?
//!
//! A claim is a difference that the first run declared, or what its audits found. It is *replicated* if the other run
//! declares the same. It is *contradicted* if the other run declares the opposite, or if the two intervals do not
//! overlap. Otherwise the answer is *cannot tell*. "No difference shown" is not a claim.
//!
//! Both runs are judged as reports judge them, so each outcome rests on intervals that hold for their whole family.
//!
//! Not here: repeating the run (the binary), other differences between two runs (`compare`).

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

/// Outcome of a claim in another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The other run declares the same.
    Replicated,
    /// The other run contradicts it.
    Contradicted,
    /// The other run shows too little to decide.
    CannotTell,
}

impl ClaimOutcome {
    /// Returns the outcome's text: `replicated`, `contradicted`, `cannot tell`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Replicated => "replicated",
            Self::Contradicted => "contradicted",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// A claim of the first run and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Workload and load: `create/steady`.
    pub place: String,
    /// The claim, as a clause.
    pub claim: String,
    /// True if the load was run for this figure.
    pub leading: bool,
    /// Outcome in the other run.
    pub outcome: ClaimOutcome,
    /// Finding of the other run, as a clause.
    pub here: String,
}

/// Two runs of one study, claim by claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reproduction {
    /// Claims of the first run. In each workload and load, leading claims come first.
    pub claims: Vec<Claim>,
    /// Differences in machines, programs and runs, as clauses.
    pub differences: Vec<String>,
}

impl Reproduction {
    /// Compares the claims of `there` with the findings of `here`.
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

    /// Returns the number of claims with this outcome.
    pub fn count(&self, outcome: ClaimOutcome) -> usize {
        self.claims.iter().filter(|claim| claim.outcome == outcome).count()
    }

    /// Returns the overall result as a sentence.
    pub fn sentence(&self) -> String {
        let all = match self.claims.len() {
            0 => return "The run makes no claim that could be replicated.".to_owned(),
            all => plural(all as u64, "claim"),
        };
        let parts = [
            (ClaimOutcome::Replicated, "replicated"),
            (ClaimOutcome::Contradicted, "contradicted"),
            (ClaimOutcome::CannotTell, "undecided"),
        ];
        let parts = parts.map(|(outcome, word)| match self.count(outcome) {
            1 => format!("1 was {word}"),
            count => format!("{count} were {word}"),
        });
        format!("Of {all}, {}, {} and {}.", parts[0], parts[1], parts[2])
    }

    /// Returns the result as JSON.
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

    /// Returns the result as text for a terminal.
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
            text += "\nDifferences between the two runs:\n";
            text.extend(self.differences.iter().map(|one| format!("  {one}\n")));
        }
        text.trim_start().to_owned()
    }
}

/// Looks for a declared difference in another run.
fn declared_again(claim: &Judgement, our: Option<&Comparison>, place: &str) -> Claim {
    let same =
        |one: &&Judgement| one.is_about_what(claim) && (&one.a, &one.b) == (&claim.a, &claim.b);
    let (outcome, here) = match our.and_then(|our| our.judgements.iter().find(same)) {
        None => (ClaimOutcome::CannotTell, "not compared".to_owned()),
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
        // This run shows no difference, and its interval excludes one as large as in the other run.
        (_, JudgedAs::NoneShown { .. }) if are_apart(there, here) => ClaimOutcome::Contradicted,
        _ => ClaimOutcome::CannotTell,
    }
}

/// Returns true if the intervals of two results do not overlap.
fn are_apart(there: &Judgement, here: &Judgement) -> bool {
    let apart = |(there, here): (TestResult, TestResult)| {
        there.interval.1 < here.interval.0 || here.interval.1 < there.interval.0
    };
    there.answer.zip(here.answer).is_some_and(apart)
}

/// Describes a difference that has the same direction but another size.
fn apart(there: &Judgement, here: &Judgement) -> String {
    match (weighed(there, here), here.answer) {
        (ClaimOutcome::Replicated, Some(answer)) if are_apart(there, here) => {
            let answer = match here.verdict {
                JudgedAs::Lower => answer.turned(),
                _ => answer,
            };
            format!(
                "; its size differs from the first run's: {} ({})",
                ratio_text(answer.ratio),
                interval_text(answer.interval)
            )
        }
        _ => String::new(),
    }
}

/// Audit results of a system's trials under one workload and load.
#[derive(Debug, Default)]
struct Audits {
    passed: usize,
    failed: usize,
    first: Option<String>,
}

type Key = (String, String);

/// Groups audit results by place and system.
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

/// Compares the audit results of two runs.
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
                "no audit took place".to_owned()
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
