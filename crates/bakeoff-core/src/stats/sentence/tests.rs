//! Tests the comparing sentence.

use super::*;
use crate::stats::judge::{Scale, Trials, alone};
use crate::stats::rounds::{self, Preference, Rounds, Yield};
use proptest::collection::vec;
use proptest::prelude::*;

fn did(name: &str, rates: &[f64]) -> Contender {
    Contender { name: name.into(), rates: rates.to_vec(), ..Contender::default() }
}

/// Returns the sentence for contenders whose trials are in the order of their rounds.
fn wording(scene: &Scene<'_>, contenders: &[Contender]) -> String {
    sentence(scene, contenders, &|a, b| compare(&contenders[a], &contenders[b]))
}

/// Returns a closed load of puts.
fn closed() -> Scene<'static> {
    Scene {
        counted: ComparedFigure::PerSecond("puts"),
        place: "create/steady",
        load: "closed load, 64 clients",
        open: false,
        deciding: Vec::new(),
    }
}

/// Compares two contenders whose trials are of the same rounds, in order.
fn compare(a: &Contender, b: &Contender) -> Result<ThroughputJudgement, NotCompared> {
    let rounds: Vec<(f64, f64)> = a.rates.iter().copied().zip(b.rates.iter().copied()).collect();
    let medians = rounds::medians(&rounds).ok_or(NotCompared::TooFew)?;
    let count = rounds.len();
    let answer = alone(&Trials::ByRound(rounds), Scale::Ratio, 0.05).ok_or(NotCompared::TooFew)?;
    Ok(comparing(answer, count, medians))
}

fn comparing(answer: TestResult, rounds: usize, medians: (f64, f64)) -> ThroughputJudgement {
    let (conditions, tail) = (Vec::new(), None);
    let (early, withheld, worst) = (false, None, None);
    ThroughputJudgement { answer, early, rounds, medians, withheld, worst, conditions, tail }
}

#[test]
fn early_stop_names_the_least_ratio() {
    let contenders = [did("etcd", HIGH), did("zookeeper", LOW)];
    let judged = |a: usize, b: usize| {
        let comparing = compare(&contenders[a], &contenders[b])?;
        Ok(ThroughputJudgement { early: true, ..comparing })
    };
    assert_eq!(
        sentence(&closed(), &contenders, &judged),
        "etcd sustained at least 1.58 times zookeeper's puts per second under create/steady (closed load, 64 clients; \
         95 % interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950)"
    );
}

fn check(contenders: &[Contender], expected: &str) {
    assert_eq!(wording(&closed(), contenders), expected);
}

const HIGH: &[f64] = &[5200.0, 5000.0, 5100.0];
const LOW: &[f64] = &[2900.0, 3000.0, 2950.0];

#[test]
fn difference_shows_its_interval_and_no_difference_the_detectable_effect() {
    check(
        &[did("zookeeper", LOW), did("etcd", HIGH)],
        "etcd sustained 1.73 times zookeeper's puts per second under create/steady (closed \
         load, 64 clients; 95 % interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950)",
    );
    check(
        &[did("etcd", HIGH), did("zookeeper", &[5150.0, 5900.0, 5800.0])],
        "no difference shown between zookeeper and etcd in puts per second under create/steady \
         (closed load, 64 clients); \
         only more than 3.11 times would have been detected if all trials scatter as these do (3 trials each; medians 5,800 and \
         5,100)",
    );
    check(
        &[did("etcd", &[2921.0]), did("zookeeper", &[3115.0])],
        "etcd did 2,921 and zookeeper 3,115 puts per second under create/steady (closed \
         load, 64 clients) in 1 trial each: one trial per system, nothing is compared",
    );
    check(
        &[did("etcd", HIGH), did("zookeeper", &[3115.0])],
        "etcd did 5,100 and zookeeper 3,115 puts per second under create/steady (closed \
         load, 64 clients) in 3 and 1 trials: too few to call a difference",
    );
}

#[test]
fn highest_rates_are_compared_in_their_own_words() {
    let check = |contenders: &[Contender], expected: &str| {
        let judged = |a: usize, b: usize| compare(&contenders[a], &contenders[b]);
        let scene = Scene {
            counted: ComparedFigure::HighestRate("p99 < 50ms"),
            place: "pages/limit",
            load: "open load",
            ..closed()
        };
        let wording = sentence(&scene, contenders, &judged);
        assert_eq!(wording, expected);
    };
    check(
        &[did("old", LOW), did("new", HIGH)],
        "new sustained 1.73 times old's highest rate that keeps p99 < 50ms under pages/limit (open \
         load; 95 % interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950)",
    );
    check(
        &[did("old", HIGH), did("new", &[5150.0, 5900.0, 5800.0])],
        "no difference shown between new and old in the highest rate that keeps p99 < 50ms under \
         pages/limit (open load); only more than 3.11 times would have been detected if all trials scatter as these do (3 trials each; medians \
         5,800 and 5,100)",
    );
    check(
        &[did("old", &[2921.0]), did("new", &[3115.0])],
        "old had 2,921/s and new 3,115/s as the highest rate that keeps p99 < 50ms under pages/limit \
         (open load) in 1 trial each: one trial per system, nothing is compared",
    );
    check(
        &[did("old", &[2921.0])],
        "old had 2,921/s as the highest rate that keeps p99 < 50ms under pages/limit (open load) in 1 trial; \
         one system: nothing is compared",
    );
    let out = "new kept its objective under pages/limit at no rate";
    check(
        &[Contender { left_out: Some(out.into()), ..did("new", &[0.0]) }],
        &format!(
            "nothing can be said of the highest rate that keeps p99 < 50ms under pages/limit (open load); {out}"
        ),
    );
}

#[test]
fn best_is_compared_with_each_of_the_others() {
    check(
        &[did("consul", &[1000.0; 3]), did("etcd", HIGH), did("zookeeper", &[5150.0; 3])],
        "zookeeper sustained 5.15 times consul's puts per second under create/steady (closed \
         load, 64 clients; 95 % interval 5.13 to 5.17, 3 trials each; medians 5,150 and 1,000); no difference shown \
         between zookeeper and etcd; a difference of more than 28 % would have been detected if all trials scatter as these do (3 \
         trials each; medians 5,150 and 5,100)",
    );
    check(
        &[did("consul", &[1000.0; 3]), did("etcd", HIGH), did("zookeeper", LOW)],
        "etcd sustained 1.73 times zookeeper's (1.58 to 1.89) and 5.10 times consul's (4.86 to \
         5.35) puts per second under create/steady (closed load, 64 clients; 95 % intervals, 3 trials each; medians \
         5,100, 2,950 and 1,000)",
    );
    check(
        &[did("consul", &[1000.0]), did("etcd", HIGH), did("zookeeper", LOW)],
        "etcd sustained 1.73 times zookeeper's puts per second under create/steady (closed \
         load, 64 clients; 95 % interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950); etcd did 5,100 and \
         consul 1,000 in 3 and 1 trials: too few to call a difference",
    );
}

#[test]
fn rounds_without_a_valid_trial_are_not_counted() {
    let both = [did("etcd", &[5200.0, 5000.0, 5100.0, 5100.0]), did("zookeeper", LOW)];
    check(
        &both,
        "etcd sustained 1.73 times zookeeper's puts per second under create/steady (closed \
         load, 64 clients; 95 % interval 1.58 to 1.89, 3 rounds with valid trials of both; medians 5,100 and 2,950)",
    );
}

#[test]
fn errors_appear_in_the_clause_of_the_claim() {
    let caveats = vec!["5.2 % of etcd's operations failed".to_owned()];
    let etcd = Contender { caveats, ..did("etcd", HIGH) };
    check(
        &[etcd, did("zookeeper", LOW)],
        "etcd sustained 1.73 times zookeeper's puts per second under create/steady (closed load, 64 \
         clients; 95 % interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950), but 5.2 % of \
         etcd's operations failed",
    );
}

/// Returns the sentence for contenders whose pairs have these conditions and verdicts.
fn conditional(
    contenders: &[Contender],
    of: impl Fn(&str, &str) -> (Vec<String>, Option<Tail>),
) -> String {
    sentence(&closed(), contenders, &|a, b| {
        let (a, b) = (&contenders[a], &contenders[b]);
        let (conditions, tail) = of(&a.name, &b.name);
        Ok(ThroughputJudgement { conditions, tail, ..compare(a, b)? })
    })
}

#[test]
fn claim_names_its_conditions() {
    let disk = "it acknowledges writes before they are on disk".to_owned();
    let all = [did("consul", &[1000.0; 3]), did("redis", HIGH), did("etcd", LOW)];
    assert_eq!(
        conditional(&all[1..], |_, _| (vec![disk.clone()], None)),
        "redis sustained 1.73 times etcd's puts per second under create/steady (closed load, 64 \
         clients; 95 % interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950), but it \
         acknowledges writes before they are on disk"
    );
    let unlike = |a: &str, b: &str| match (a, b) {
        (_, "etcd") | ("etcd", _) => (vec![disk.clone(), "it is alone".to_owned()], None),
        _ => (vec![disk.clone()], None),
    };
    let wording = conditional(&all, unlike);
    let expected = "medians 5,100, 2,950 and 1,000), but it acknowledges writes before they are on \
                    disk and it is alone (unlike etcd)";
    assert!(wording.ends_with(expected), "{wording}");
    // A caveat that is also a condition appears once.
    let failed = "0.9 % of redis's operations failed".to_owned();
    let redis = Contender { caveats: vec![failed.clone()], ..did("redis", HIGH) };
    let both = [redis, did("etcd", LOW)];
    let wording = conditional(&both, |_, _| (vec![failed.clone()], None));
    assert_eq!(wording.matches("0.9 %").count(), 1, "{wording}");
    // Without a difference there is no winner to qualify.
    let alike = [did("redis", HIGH), did("etcd", &[5150.0, 5000.0, 5120.0])];
    let wording = conditional(&alike, |_, _| (vec![disk.clone()], None));
    assert!(wording.starts_with("no difference shown") && !wording.contains("but"), "{wording}");
}

#[test]
fn response_times_have_their_own_verdict() {
    let tail = |found: TailFound| {
        let medians = ("20.5 ms".to_owned(), "41.0 ms".to_owned());
        Some(Tail { name: "p99 response time".to_owned(), found, medians })
    };
    let all = [did("etcd", HIGH), did("zookeeper", LOW), did("consul", &[1000.0; 3])];
    let two = |found: &TailFound| {
        let turned = |a: &str| if a == "etcd" { tail(found.clone()) } else { None };
        let wording = conditional(&all[..2], |a, _| (Vec::new(), turned(a)));
        wording.rsplit("; ").next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        two(&TailFound::Lower),
        "etcd's p99 response time was lower (20.5 ms against 41.0 ms)"
    );
    assert_eq!(
        two(&TailFound::Higher),
        "etcd's p99 response time was higher (20.5 ms against 41.0 ms)"
    );
    let none = "etcd's p99 response time showed no difference (20.5 ms and 41.0 ms)";
    assert_eq!(two(&TailFound::NoneShown), none);
    let lag = TailFound::NotClaimed("too little".to_owned());
    assert_eq!(
        two(&lag),
        "etcd's p99 response time is not claimed to differ (20.5 ms and 41.0 ms): too little"
    );
    let wording = conditional(&all, |_, b| match b {
        "zookeeper" => (Vec::new(), tail(TailFound::Lower)),
        _ => (Vec::new(), tail(TailFound::NoneShown)),
    });
    let expected = "; etcd's p99 response time was lower than zookeeper's (20.5 ms against 41.0 ms) \
                    and showed no difference to consul's (20.5 ms and 41.0 ms)";
    assert!(wording.ends_with(expected), "{wording}");
    // An unjudged percentile is not mentioned.
    assert!(!conditional(&all, |_, _| (Vec::new(), None)).contains("p99"));
}

#[test]
fn system_without_a_valid_trial_is_named_but_not_ranked() {
    let why = Some("consul has no valid trial (it was interrupted)".to_owned());
    let consul = Contender { left_out: why, ..did("consul", &[9e9]) };
    check(
        &[did("etcd", &[2921.0]), consul.clone()],
        "etcd did 2,921 puts per second under create/steady (closed load, 64 clients) in 1 trial; \
         consul has no valid trial (it was interrupted)",
    );
    check(
        &[consul],
        "nothing can be said of puts per second under create/steady (closed load, 64 clients); \
         consul has no valid trial (it was interrupted)",
    );
}

#[test]
fn open_load_that_all_kept_up_with_compares_no_throughput() {
    let kept_up = |name, rates| Contender { kept_up: true, ..did(name, rates) };
    let both = [kept_up("etcd", &[1000.0; 3]), kept_up("zookeeper", &[999.0; 3])];
    let deciding = vec!["zookeeper's p99 response time was 2.00 times etcd's".to_owned()];
    let scene = Scene {
        counted: ComparedFigure::PerSecond("operations"),
        place: "mixed/open",
        load: "open load, 1,000/s",
        open: true,
        deciding,
    };
    assert_eq!(
        wording(&scene, &both),
        "etcd and zookeeper kept up with what was offered: 1,000 and 999 operations per second \
         under mixed/open (open load, 1,000/s) in 3 trials each; zookeeper's p99 response time was \
         2.00 times etcd's"
    );
}

/// Generates a round of all contenders: noise, and the fate of the trial, for each.
fn rounds_of(count: usize) -> impl Strategy<Value = Vec<Vec<(f64, u8)>>> {
    vec(vec((-0.05..0.05_f64, 0..12_u8), count), 2..9)
}

/// Returns the pairs whose first system a sentence calls higher.
fn claimed(wording: &str, names: &[String]) -> Vec<(usize, usize)> {
    let mut claims = Vec::new();
    for clause in wording.split("; ").filter(|clause| clause.contains(" sustained ")) {
        let (best, others) = clause.split_once(" sustained ").expect("it was just found");
        let of = |name: &str| names.iter().position(|one| one == name).expect("it has a name");
        let others = names.iter().filter(|name| others.contains(&format!(" times {name}'s")));
        claims.extend(others.map(|other| (of(best), of(other))));
    }
    claims
}

proptest! {
    /// Uses two to four contenders that differ by up to a fifth. Some rounds are lost.
    #[test]
    fn sentence_and_finding_never_disagree(
        levels in vec(0.0..0.2_f64, 2..5),
        seed in rounds_of(4),
    ) {
        let names: Vec<String> = (0..levels.len()).map(|place| format!("s{place}")).collect();
        let yielded = |place: usize, round: &[(f64, u8)]| {
            let (noise, fate) = round[place];
            let figure = 1000.0 * (levels[place] + noise).exp();
            match fate {
                0 => Yield::Dropped,
                1 => Yield::Failed,
                2 => Yield::Unclear(Some(figure / 2.0)),
                3 => Yield::Unclear(None),
                _ => Yield::Valid(figure),
            }
        };
        let pair = |a: usize, b: usize| {
            Rounds(seed.iter().map(|round| (yielded(a, round), yielded(b, round))).collect())
        };
        let judged = |a: usize, b: usize| {
            let of = pair(a, b);
            let trials = Trials::ByRound(of.valid());
            let answer = alone(&trials, Scale::Ratio, 0.05).ok_or(NotCompared::TooFew)?;
            let medians = rounds::medians(&of.valid()).ok_or(NotCompared::TooFew)?;
            let withheld = of.withheld(&answer, Scale::Ratio, Preference::More);
            let worst = of.worst_medians(Preference::More);
            let comparing = comparing(answer, of.valid().len(), medians);
            Ok(ThroughputJudgement { withheld, worst, ..comparing })
        };
        let contenders: Vec<Contender> = names.iter().enumerate().map(|(place, name)| {
            let valid = seed.iter().filter_map(|round| match yielded(place, round) {
                Yield::Valid(figure) => Some(figure),
                _ => None,
            });
            did(name, &valid.collect::<Vec<_>>())
        }).collect();
        let wording = sentence(&closed(), &contenders, &judged);
        let claims = claimed(&wording, &names);
        for &(a, b) in &claims {
            let comparing = judged(a, b).expect("a claim rests on trials");
            prop_assert_eq!(comparing.claim(), Claim::Higher, "{} is not {}", &wording, b);
            prop_assert!(comparing.medians.0 > comparing.medians.1, "{}", &wording);
            prop_assert!(comparing.answer.interval.0 > 1.0);
            let ratio = ratio_text(comparing.medians.0 / comparing.medians.1);
            prop_assert!(wording.contains(&format!("{ratio} times s{b}'s")), "{}", &wording);
        }
        for (a, first) in names.iter().enumerate() {
            for (b, second) in names.iter().enumerate() {
                let no_difference = format!("no difference shown between {first} and {second}");
                let not_better = format!("{first} is not said to be better than {second}");
                if wording.contains(&no_difference) {
                    let claim = judged(a, b).map(|one| one.claim());
                    prop_assert_eq!(claim, Ok(Claim::NoneShown), "{}", &wording);
                }
                if wording.contains(&not_better) {
                    let of = judged(a, b).map(|one| (one.withheld.is_some(), one.answer.finding));
                    prop_assert_eq!(of, Ok((true, Finding::Higher)), "{}", &wording);
                }
            }
        }
        // The best is compared with each of the others, by its finding: omitting a finding would contradict it.
        let takes_part = |at: &usize| !contenders[*at].rates.is_empty();
        let ranked: Vec<usize> = (0..names.len()).filter(takes_part).collect();
        let compared_with = |best: usize, other: usize| {
            let both = (&names[best], &names[other]);
            match judged(best, other).map(|one| (one.claim(), one.answer.finding)) {
                Err(why) => {
                    wording.contains(&why.to_string()) || wording.contains("one trial per system")
                }
                Ok((Claim::Higher, _)) => claims.contains(&(best, other)),
                Ok((Claim::Lower, _)) => claims.contains(&(other, best)),
                Ok((Claim::NoneShown, _)) => {
                    wording.contains(&format!("no difference shown between {} and {}", both.0, both.1))
                }
                Ok((Claim::Withheld(_), finding)) => {
                    let both = if finding == Finding::Higher { both } else { (both.1, both.0) };
                    wording.contains(&format!("{} is not said to be better than {}", both.0, both.1))
                }
            }
        };
        let compared_with_all = |best: &usize| ranked.iter().all(|other| other == best || compared_with(*best, *other));
        prop_assert!(ranked.len() < 2 || ranked.iter().any(compared_with_all), "{}", &wording);
        // The system that others are compared with loses to none, unless every system loses to some other.
        let loses = |a: usize| (0..names.len()).any(|b| b != a
            && judged(a, b).is_ok_and(|one| one.claim() == Claim::Lower));
        if let Some(&(best, _)) = claims.first() {
            prop_assert!(!loses(best) || (0..names.len()).all(loses), "{}", &wording);
        }
    }
}
