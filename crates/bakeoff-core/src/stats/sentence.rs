//! The sentence that compares the systems of one workload and load.
//!
//! Not here: whether they differ (`judge`), which figures there are (`report`).

use super::judge::{Answer, Finding};
use super::{and, interval_text, middle, ratio_text, would_have_seen_text};
use crate::units::figure_text;

/// One system under one workload and load, as the sentence sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// Mean throughput of each valid trial, per second.
    pub rates: Vec<f64>,
    /// Median over its valid trials of the 99th percentile of response time, as text.
    pub p99: Option<String>,
    /// What must be said wherever it is said to be better: errors, failed audits.
    pub caveats: Vec<String>,
    /// Why it takes no part, as a clause: `consul has no valid trial (…)`.
    pub left_out: Option<String>,
    /// Whether all that was offered in an open load was done in time, in every valid trial.
    pub kept_up: bool,
}

/// What was judged of the throughput of two of the systems.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparing {
    /// The first by the second.
    pub answer: Answer,
    /// Rounds that it was made from.
    pub rounds: usize,
}

/// The sentence about one workload and load.
///
/// `operations` is what is counted (`puts`), `place` where (`create/steady`), `open` whether the
/// load was open. `judged` tells of two contenders, by their places, how their throughput compares;
/// `None` means too few trials. Contenders that are `left_out` are named with their reason and never
/// ranked. The rest is ranked by median, and the best is compared with each of the others. In an
/// open load that all kept up with, throughput is what was offered and shows no difference, so none
/// is looked for. Caveats stand in the same sentence.
pub fn sentence(
    operations: &str,
    place: &str,
    open: bool,
    contenders: &[Contender],
    judged: &dyn Fn(usize, usize) -> Option<Comparing>,
) -> String {
    let what = What {
        figure: format!("{operations} per second under {place}"),
        verb: "did",
        unit: "",
        as_the: "",
    };
    said(&what, open, contenders, judged)
}

/// The sentence about the highest rates that keep an objective (`p99 < 50ms`): `rates` of contenders
/// are those.
pub fn sentence_of_rates(
    objective: &str,
    place: &str,
    contenders: &[Contender],
    judged: &dyn Fn(usize, usize) -> Option<Comparing>,
) -> String {
    let what = What {
        figure: format!("highest rate that keeps {objective} under {place}"),
        verb: "had",
        unit: "/s",
        as_the: "as the ",
    };
    said(&what, false, contenders, judged)
}

/// What is compared, in words.
struct What {
    /// `puts per second under create/steady`.
    figure: String,
    /// `did`.
    verb: &'static str,
    /// Behind each number.
    unit: &'static str,
    /// Between the numbers and what they are of.
    as_the: &'static str,
}

fn said(
    what: &What,
    open: bool,
    contenders: &[Contender],
    judged: &dyn Fn(usize, usize) -> Option<Comparing>,
) -> String {
    let takes_part =
        |(_, one): &(usize, &Contender)| one.left_out.is_none() && !one.rates.is_empty();
    let ranked: Vec<(usize, &Contender)> =
        contenders.iter().enumerate().filter(takes_part).collect();
    let all: Vec<&Contender> = ranked.iter().map(|(_, one)| *one).collect();
    let mut clauses = match all.as_slice() {
        [] => vec![format!("nothing can be said of {}{}", what.the(), what.figure)],
        [_] => vec![did(&all, what, true)],
        all if open && all.iter().all(|one| one.kept_up) => vec![kept_up(all, &what.figure)],
        _ => compared(ranked, what, judged),
    };
    let p99: Vec<String> =
        all.iter().filter_map(|one| Some(format!("{} {}", one.name, one.p99.as_ref()?))).collect();
    if !p99.is_empty() {
        clauses.push(format!("p99 response time: {}", p99.join(", ")));
    }
    let caveats: Vec<&str> =
        all.iter().flat_map(|one| one.caveats.iter().map(String::as_str)).collect();
    if !caveats.is_empty() {
        // Right behind the claim that it qualifies.
        clauses.insert(1, format!("but {}", and(&caveats)));
    }
    clauses.extend(contenders.iter().filter_map(|one| one.left_out.clone()));
    clauses.join("; ")
}

impl What {
    fn the(&self) -> &'static str {
        self.as_the.strip_prefix("as ").unwrap_or_default()
    }
}

fn kept_up(all: &[&Contender], what: &str) -> String {
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let rates: Vec<String> = all.iter().map(|one| median(one)).collect();
    format!(
        "{} kept up with what was offered: {} {what} {}",
        and(&names),
        and(&rates),
        in_trials(all)
    )
}

/// The clauses that compare the best with each other.
fn compared(
    mut ranked: Vec<(usize, &Contender)>,
    what: &What,
    judged: &dyn Fn(usize, usize) -> Option<Comparing>,
) -> Vec<String> {
    let in_order: Vec<&Contender> = ranked.iter().map(|(_, one)| *one).collect();
    ranked.sort_by(|(_, a), (_, b)| middle_of(&b.rates).total_cmp(&middle_of(&a.rates)));
    let (best_place, best) = ranked[0];
    let others: Vec<(&Contender, Option<Comparing>)> =
        ranked[1..].iter().map(|&(place, other)| (other, judged(best_place, place))).collect();
    if others.iter().all(|(_, comparing)| comparing.is_none()) {
        return vec![format!("{}: too few to call a difference", did(&in_order, what, true))];
    }
    let higher = |comparing: &Comparing| comparing.answer.finding == Finding::Higher;
    let apart: Vec<(&Contender, Comparing)> = others
        .iter()
        .filter_map(|(other, comparing)| Some((*other, (*comparing).filter(higher)?)))
        .collect();
    let mut clauses: Vec<String> = sustained(best, &apart, what).into_iter().collect();
    for (other, comparing) in others {
        let is_first = clauses.is_empty();
        clauses.push(match comparing {
            None => {
                format!("{}: too few to call a difference", did(&[best, other], what, is_first))
            }
            Some(comparing) if higher(&comparing) => continue,
            Some(comparing) => {
                let under = format!(" in {}{}", what.the(), what.figure);
                no_difference(best, other, if is_first { &under } else { "" }, comparing)
            }
        });
    }
    clauses
}

/// `etcd sustained 1.74 times zookeeper's puts per second under create/steady (95 % interval 1.61 to
/// 1.88, 7 trials each; medians 5,100 and 2,930)`.
fn sustained(best: &Contender, apart: &[(&Contender, Comparing)], what: &What) -> Option<String> {
    let rounds = apart.iter().map(|(_, comparing)| comparing.rounds).min()?;
    let mut all = vec![best];
    all.extend(apart.iter().map(|(other, _)| *other));
    let medians: Vec<String> = all.iter().map(|one| median(one)).collect();
    let trials = rounds_text(&all, rounds);
    let interval = |comparing: &Comparing| interval_text(comparing.answer.interval);
    let (times, intervals) = match apart {
        [(other, comparing)] => (
            format!("{} times {}'s", ratio_text(comparing.answer.ratio), other.name),
            format!("95 % interval {}", interval(comparing)),
        ),
        several => {
            let times = several.iter().map(|(other, comparing)| {
                let ratio = ratio_text(comparing.answer.ratio);
                format!("{ratio} times {}'s ({})", other.name, interval(comparing))
            });
            (and(&times.collect::<Vec<_>>()), "95 % intervals".to_owned())
        }
    };
    let medians = and(&medians);
    Some(format!(
        "{} sustained {times} {} ({intervals}, {trials}; medians {medians})",
        best.name, what.figure
    ))
}

/// `no difference shown between etcd and zookeeper in puts per second under create/steady; a
/// difference of more than 6.0 % would have been seen (5 trials each; medians 5,100 and 5,080)`.
fn no_difference(best: &Contender, other: &Contender, under: &str, of: Comparing) -> String {
    let seen = match of.answer.finding {
        Finding::NoneShown { would_have_seen } => would_have_seen_text(would_have_seen),
        Finding::Higher | Finding::Lower => String::new(),
    };
    format!(
        "no difference shown between {} and {}{under}; {seen} ({}; medians {} and {})",
        best.name,
        other.name,
        rounds_text(&[best, other], of.rounds),
        median(best),
        median(other)
    )
}

/// `5 trials each`, or how many rounds hold a valid trial of both where others do not.
fn rounds_text(all: &[&Contender], rounds: usize) -> String {
    if all.iter().all(|one| one.rates.len() == rounds) {
        format!("{rounds} trials each")
    } else {
        format!("{rounds} rounds with valid trials of both")
    }
}

/// `etcd did 2,921 and zookeeper 3,115 puts per second under create/best in 1 trial each`; `whole`:
/// what it is that they did was not said before.
fn did(all: &[&Contender], what: &What, whole: bool) -> String {
    let each: Vec<String> = (0..)
        .zip(all)
        .map(|(place, one)| {
            let did = if place == 0 { format!(" {}", what.verb) } else { String::new() };
            format!("{}{did} {}{}", one.name, median(one), what.unit)
        })
        .collect();
    let figure = if whole { format!(" {}{}", what.as_the, what.figure) } else { String::new() };
    format!("{}{figure} {}", and(&each), in_trials(all))
}

/// `in 1 trial each`; `in 3 and 1 trials`.
fn in_trials(all: &[&Contender]) -> String {
    let counts: Vec<usize> = all.iter().map(|one| one.rates.len()).collect();
    let plural = |count: usize| if count == 1 { "trial" } else { "trials" };
    match counts.as_slice() {
        [only] => format!("in {only} {}", plural(*only)),
        [first, others @ ..] if others.iter().all(|count| count == first) => {
            format!("in {first} {} each", plural(*first))
        }
        _ => {
            let texts: Vec<String> = counts.iter().map(usize::to_string).collect();
            format!("in {} trials", and(&texts))
        }
    }
}

fn median(of: &Contender) -> String {
    figure_text(middle_of(&of.rates))
}

/// The median of at least one number.
fn middle_of(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::judge::{Correction, Question, Scale, Trials, judge};

    fn did(name: &str, rates: &[f64]) -> Contender {
        Contender { name: name.into(), rates: rates.to_vec(), ..Contender::default() }
    }

    /// The sentence of contenders whose trials are of rounds in this order.
    fn said(operations: &str, place: &str, open: bool, contenders: &[Contender]) -> String {
        sentence(operations, place, open, contenders, &|a, b| {
            let rates =
                contenders[a].rates.iter().copied().zip(contenders[b].rates.iter().copied());
            let rounds: Vec<(f64, f64)> = rates.collect();
            let count = rounds.len();
            let question =
                Question { trials: Trials::ByRound(rounds), leading: true, scale: Scale::Ratio };
            Some(Comparing { answer: judge(&[question], Correction::Steps)[0]?, rounds: count })
        })
    }

    fn check(contenders: &[Contender], expected: &str) {
        assert_eq!(said("puts", "create/steady", false, contenders), expected);
    }

    const HIGH: &[f64] = &[5200.0, 5000.0, 5100.0];
    const LOW: &[f64] = &[2900.0, 3000.0, 2950.0];

    #[test]
    fn a_difference_is_said_with_its_interval_and_none_with_what_would_have_been_seen() {
        check(
            &[did("zookeeper", LOW), did("etcd", HIGH)],
            "etcd sustained 1.73 times zookeeper's puts per second under create/steady (95 % \
             interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950)",
        );
        check(
            &[did("etcd", HIGH), did("zookeeper", &[5150.0, 5900.0, 5800.0])],
            "no difference shown between zookeeper and etcd in puts per second under create/steady; \
             a difference of more than 43 % would have been seen (3 trials each; medians 5,800 and \
             5,100)",
        );
        check(
            &[did("etcd", &[2921.0]), did("zookeeper", &[3115.0])],
            "etcd did 2,921 and zookeeper 3,115 puts per second under create/steady in 1 trial \
             each: too few to call a difference",
        );
        check(
            &[did("etcd", HIGH), did("zookeeper", &[3115.0])],
            "etcd did 5,100 and zookeeper 3,115 puts per second under create/steady in 3 and 1 \
             trials: too few to call a difference",
        );
    }

    #[test]
    fn highest_rates_are_compared_in_words_of_their_own() {
        let check = |contenders: &[Contender], expected: &str| {
            let judged = |a: usize, b: usize| {
                let rates = contenders[a].rates.iter().copied();
                let rounds: Vec<(f64, f64)> =
                    rates.zip(contenders[b].rates.iter().copied()).collect();
                let count = rounds.len();
                let trials = Trials::ByRound(rounds);
                let question = Question { trials, leading: true, scale: Scale::Ratio };
                Some(Comparing { answer: judge(&[question], Correction::Steps)[0]?, rounds: count })
            };
            let said = sentence_of_rates("p99 < 50ms", "pages/limit", contenders, &judged);
            assert_eq!(said, expected);
        };
        check(
            &[did("old", LOW), did("new", HIGH)],
            "new sustained 1.73 times old's highest rate that keeps p99 < 50ms under pages/limit (95 % \
             interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950)",
        );
        check(
            &[did("old", HIGH), did("new", &[5150.0, 5900.0, 5800.0])],
            "no difference shown between new and old in the highest rate that keeps p99 < 50ms under \
             pages/limit; a difference of more than 43 % would have been seen (3 trials each; medians \
             5,800 and 5,100)",
        );
        check(
            &[did("old", &[2921.0]), did("new", &[3115.0])],
            "old had 2,921/s and new 3,115/s as the highest rate that keeps p99 < 50ms under pages/limit \
             in 1 trial each: too few to call a difference",
        );
        check(
            &[did("old", &[2921.0])],
            "old had 2,921/s as the highest rate that keeps p99 < 50ms under pages/limit in 1 trial",
        );
        let out = "new kept its objective under pages/limit at no rate";
        check(
            &[Contender { left_out: Some(out.into()), ..did("new", &[0.0]) }],
            &format!(
                "nothing can be said of the highest rate that keeps p99 < 50ms under pages/limit; {out}"
            ),
        );
    }

    #[test]
    fn the_best_is_compared_with_each_of_the_others() {
        check(
            &[did("consul", &[1000.0; 3]), did("etcd", HIGH), did("zookeeper", &[5150.0; 3])],
            "zookeeper sustained 5.15 times consul's puts per second under create/steady (95 % \
             interval 5.13 to 5.17, 3 trials each; medians 5,150 and 1,000); no difference shown \
             between zookeeper and etcd; a difference of more than 7.9 % would have been seen (3 \
             trials each; medians 5,150 and 5,100)",
        );
        check(
            &[did("consul", &[1000.0; 3]), did("etcd", HIGH), did("zookeeper", LOW)],
            "etcd sustained 1.73 times zookeeper's (1.58 to 1.89) and 5.10 times consul's (4.86 to \
             5.35) puts per second under create/steady (95 % intervals, 3 trials each; medians \
             5,100, 2,950 and 1,000)",
        );
        check(
            &[did("consul", &[1000.0]), did("etcd", HIGH), did("zookeeper", LOW)],
            "etcd sustained 1.73 times zookeeper's puts per second under create/steady (95 % \
             interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950); etcd did 5,100 and \
             consul 1,000 in 3 and 1 trials: too few to call a difference",
        );
    }

    #[test]
    fn rounds_in_which_one_had_no_valid_trial_are_not_counted() {
        let both = [did("etcd", &[5200.0, 5000.0, 5100.0, 5100.0]), did("zookeeper", LOW)];
        check(
            &both,
            "etcd sustained 1.73 times zookeeper's puts per second under create/steady (95 % \
             interval 1.58 to 1.89, 3 rounds with valid trials of both; medians 5,100 and 2,950)",
        );
    }

    #[test]
    fn errors_are_said_in_the_sentence_that_calls_a_system_better() {
        let caveats = vec!["5.2 % of etcd's operations failed".to_owned()];
        let etcd = Contender { caveats, p99: Some("12.0 ms".into()), ..did("etcd", HIGH) };
        check(
            &[etcd, did("zookeeper", LOW)],
            "etcd sustained 1.73 times zookeeper's puts per second under create/steady (95 % \
             interval 1.58 to 1.89, 3 trials each; medians 5,100 and 2,950); but 5.2 % of etcd's \
             operations failed; p99 response time: etcd 12.0 ms",
        );
    }

    #[test]
    fn a_system_without_a_valid_trial_is_named_and_not_ranked() {
        let why = Some("consul has no valid trial (it was interrupted)".to_owned());
        let consul = Contender { left_out: why, ..did("consul", &[9e9]) };
        check(
            &[did("etcd", &[2921.0]), consul.clone()],
            "etcd did 2,921 puts per second under create/steady in 1 trial; consul has no valid \
             trial (it was interrupted)",
        );
        check(
            &[consul],
            "nothing can be said of puts per second under create/steady; consul has no valid trial \
             (it was interrupted)",
        );
    }

    #[test]
    fn an_open_load_that_all_kept_up_with_shows_no_difference_in_throughput() {
        let kept_up = |name, rates| Contender { kept_up: true, ..did(name, rates) };
        let both = [kept_up("etcd", &[1000.0; 3]), kept_up("zookeeper", &[999.0; 3])];
        assert_eq!(
            said("operations", "mixed/open", true, &both),
            "etcd and zookeeper kept up with what was offered: 1,000 and 999 operations per second \
             under mixed/open in 3 trials each"
        );
    }
}
