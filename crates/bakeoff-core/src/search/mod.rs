//! Which rate to try next, in search of the highest that keeps an objective.
//!
//! It doubles until a rate breaks the objective (or halves until one keeps it), bisects the gap down
//! to 5 %, and tries the winner again for longer: a search picks the luckiest of its tries, so a
//! single success is no evidence. A winner that fails its second try makes the next lower rate the
//! candidate.
//!
//! A try that says nothing of the server, for the generator was in the way, is made once more: the
//! machine may have been busy for a moment.
//!
//! Not here: trying a rate (the binary), what keeping means (`tried`).

mod tried;

pub use tried::{Tried, invalid_because};

use serde::{Deserialize, Serialize};

/// How many times as long as a try a confirmation is measured.
pub const CONFIRM_TIMES: u32 = 2;

/// How far the lowest broken rate may lie above the highest kept one at the end.
const GAP: f64 = 1.05;
/// Doublings or halvings at most: from 1,000/s to a billion, or to one in a quarter of an hour.
const DOUBLINGS_MAX: u32 = 20;
/// How many candidates are tried again before it gives up.
const CONFIRMATIONS_MAX: u32 = 4;

/// What to try next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// This rate.
    Try(f64),
    /// This rate again, for longer.
    Confirm(f64),
    /// Nothing: it is over.
    Done(Found),
}

/// What the search came to. Rates are operations per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "found", content = "rate")]
pub enum Found {
    /// The highest rate that kept the objective, twice.
    Rate(f64),
    /// Every rate kept it, up to this.
    NoLimit(f64),
    /// No rate kept it, down to this.
    Nothing(f64),
    /// Rates kept it once and not again, the last of them this.
    Unsteady(f64),
}

/// The state of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// The rate to try, or to confirm.
    rate: f64,
    kept: Option<f64>,
    broken: Option<f64>,
    doublings: u32,
    confirmations: u32,
    confirming: bool,
    /// Whether the last try said nothing, and is to be made again.
    again: bool,
    /// No lower rate is tried.
    least: f64,
    done: Option<Found>,
}

impl Search {
    /// Begins at a rate above zero.
    pub fn new(first: f64) -> Self {
        Self {
            rate: first,
            kept: None,
            broken: None,
            doublings: 0,
            confirmations: 0,
            confirming: false,
            again: false,
            least: 0.0,
            done: None,
        }
    }

    /// The same, which gives up rather than to try a lower rate than this: one at which next to nothing
    /// would fall due in a try.
    pub fn not_below(self, least: f64) -> Self {
        Self { least, ..self }
    }

    /// What to do now.
    pub fn next(&self) -> Next {
        match (self.done, self.confirming) {
            (Some(found), _) => Next::Done(found),
            (None, true) => Next::Confirm(self.rate),
            (None, false) => Next::Try(self.rate),
        }
    }

    /// Notes what the try came to that [`Self::next`] asked for.
    pub fn take(&mut self, tried: &Tried) {
        self.again = !self.again && tried.void;
        if !self.again {
            self.note(tried.kept());
        }
    }

    /// Notes whether the rate that [`Self::next`] gave kept the objective.
    fn note(&mut self, kept: bool) {
        match (self.confirming, kept) {
            (true, true) => self.done = Some(Found::Rate(self.rate)),
            (true, false) => {
                self.confirmations += 1;
                if self.confirmations == CONFIRMATIONS_MAX {
                    self.done = Some(Found::Unsteady(self.rate));
                }
                self.rate = round(self.rate / GAP);
            }
            (false, true) => {
                self.kept = Some(self.rate);
                self.go_on();
            }
            (false, false) => {
                self.broken = Some(self.rate);
                self.go_on();
            }
        }
    }

    fn go_on(&mut self) {
        match (self.kept, self.broken) {
            (Some(kept), Some(broken)) => {
                // A geometric middle: what is small is searched as finely as what is large.
                let middle = round((kept * broken).sqrt());
                if broken <= kept * GAP || middle <= kept || middle >= broken {
                    self.rate = kept;
                    self.confirming = true;
                } else {
                    self.rate = middle;
                }
            }
            (Some(kept), None) if self.doublings == DOUBLINGS_MAX => {
                self.done = Some(Found::NoLimit(kept));
            }
            (None, Some(broken))
                if self.doublings == DOUBLINGS_MAX || broken / 2.0 < self.least =>
            {
                self.done = Some(Found::Nothing(broken));
            }
            (Some(kept), None) => {
                self.rate = kept * 2.0;
                self.doublings += 1;
            }
            (None, Some(broken)) => {
                self.rate = broken / 2.0;
                self.doublings += 1;
            }
            (None, None) => {}
        }
    }
}

/// Three significant digits: a rate that somebody may want to type again.
fn round(rate: f64) -> f64 {
    let digits = rate.log10().floor() as i32 - 2;
    // By a whole power of ten either way, so that 35.3 is 35.3.
    let scale = 10f64.powi(digits.abs());
    if digits < 0 { (rate * scale).round() / scale } else { (rate / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches a server that keeps the objective up to a rate; gives what was found and the tries.
    fn search(first: f64, mut keeps: impl FnMut(Next) -> bool) -> (Found, Vec<Next>) {
        let mut search = Search::new(first);
        let mut tries = Vec::new();
        loop {
            match search.next() {
                Next::Done(found) => return (found, tries),
                next => {
                    tries.push(next);
                    search.note(keeps(next));
                }
            }
            assert!(tries.len() < 100, "{tries:?}");
        }
    }

    fn up_to(limit: f64) -> impl FnMut(Next) -> bool {
        move |next| matches!(next, Next::Try(rate) | Next::Confirm(rate) if rate <= limit)
    }

    #[test]
    fn it_doubles_bisects_and_confirms() {
        let (found, tries) = search(1000.0, up_to(5500.0));
        let expected = [1000.0, 2000.0, 4000.0, 8000.0, 5660.0, 4760.0, 5190.0, 5420.0];
        let mut expected: Vec<Next> = expected.map(Next::Try).to_vec();
        expected.push(Next::Confirm(5420.0));
        assert_eq!((found, tries), (Found::Rate(5420.0), expected));
    }

    #[test]
    fn a_server_slower_than_the_first_rate_is_found_from_above() {
        let (found, tries) = search(1000.0, up_to(30.0));
        assert_eq!(tries[1], Next::Try(500.0));
        assert!(matches!(found, Found::Rate(rate) if rate > 28.0 && rate <= 30.0), "{found:?}");
    }

    #[test]
    fn a_winner_that_fails_again_gives_way_to_a_lower_rate() {
        let mut keeps = up_to(5500.0);
        let (found, tries) = search(1000.0, |next| match next {
            Next::Confirm(rate) => rate <= 5200.0,
            next => keeps(next),
        });
        assert_eq!(found, Found::Rate(5160.0));
        assert_eq!(tries.last(), Some(&Next::Confirm(5160.0)));
    }

    #[test]
    fn it_does_not_go_below_what_a_try_could_show() {
        let mut search = Search::new(100.0).not_below(20.0);
        for rate in [100.0, 50.0, 25.0] {
            assert_eq!(search.next(), Next::Try(rate));
            search.note(false);
        }
        assert_eq!(search.next(), Next::Done(Found::Nothing(25.0)));
    }

    #[test]
    fn a_try_that_says_nothing_is_made_once_more() {
        let mut search = Search::new(100.0);
        let broken = |void| Tried {
            rate: 100.0,
            confirming: false,
            broken_by: vec!["p99 is 9 ms".into()],
            void,
        };
        search.take(&broken(true));
        assert_eq!(search.next(), Next::Try(100.0));
        search.take(&broken(true));
        assert_eq!(search.next(), Next::Try(50.0), "twice is enough");
        search.take(&broken(false));
        assert_eq!(search.next(), Next::Try(25.0));
        search.take(&Tried { broken_by: Vec::new(), ..broken(false) });
        assert_eq!(search.next(), Next::Try(35.4));
    }

    #[test]
    fn what_was_found_is_kept_in_records_by_name() {
        let check = |found: Found, text: &str| {
            assert_eq!(serde_json::to_string(&found).unwrap(), text);
            assert_eq!(serde_json::from_str::<Found>(text).unwrap(), found);
        };
        check(Found::Rate(5420.0), r#"{"found":"rate","rate":5420.0}"#);
        check(Found::Nothing(12.5), r#"{"found":"nothing","rate":12.5}"#);
    }

    #[test]
    fn it_gives_up_where_there_is_nothing_to_find() {
        assert!(matches!(search(1000.0, |_| true).0, Found::NoLimit(rate) if rate > 1e9));
        assert!(matches!(search(1000.0, |_| false).0, Found::Nothing(rate) if rate < 0.001));
        let unsteady = search(1000.0, |next| matches!(next, Next::Try(rate) if rate < 3000.0));
        assert!(matches!(unsteady.0, Found::Unsteady(_)), "{unsteady:?}");
    }

    proptest! {
        #[test]
        fn what_is_found_is_kept_and_within_five_percent(first in 1.0f64..1e5, limit in 1.0f64..1e6) {
            let (found, tries) = search(first, up_to(limit));
            let Found::Rate(rate) = found else { panic!("{found:?}") };
            prop_assert!(rate <= limit && rate * 1.06 > limit, "{} of {}", rate, limit);
            prop_assert!(tries.len() <= 30, "{:?}", tries);
        }

        #[test]
        fn no_order_of_answers_makes_it_go_on_for_ever(answers in prop::collection::vec(any::<bool>(), 100)) {
            let mut answers = answers.into_iter();
            search(1000.0, |_| answers.next().unwrap());
        }
    }
}
