//! Holds the ledger against a model that forgets nothing: random histories of a correct register.
//!
//! The register takes each write at one moment: an acknowledged one between its beginning and its
//! end, one of unknown outcome at any time after its beginning or never, one that was not sent
//! never. A read returns what the register held at one moment between its beginning and its end.
//! So no read of it may be accused. Of a read that begins and ends at once the model knows all that
//! it may return, from the moments alone, and the ledger has to agree.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::staleness::Age;

/// State of a write in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    Acknowledged { at: usize },
    Unknown,
    NotSent,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    write: Write,
    began: usize,
    /// Whether the register has taken it.
    taken: bool,
    state: State,
}

struct Read {
    began: ReadBegan,
    /// Value that it will return: a write's number, 0 for the state before any.
    seen: Option<u32>,
}

/// A register, its history as the ledger sees it, and the reads that are under way.
struct Register {
    history: KeyHistory,
    now: usize,
    /// Number of the write that it holds, 0 for nothing.
    holds: u32,
    written: Vec<Written>,
    reads: Vec<Read>,
}

impl Register {
    fn new(unknown_max: u16) -> Self {
        let history = KeyHistory::new(unknown_max).measuring_staleness(4);
        Self { history, now: 0, holds: 0, written: Vec::new(), reads: Vec::new() }
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.now as u64)
    }

    /// One that `is` true of, as `pick` chooses; the newer the more likely.
    fn choose(&self, pick: usize, is: impl Fn(&Written) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.written.len()).filter(|&at| is(&self.written[at])).collect();
        (!all.is_empty()).then(|| all[all.len() - 1 - pick % all.len()])
    }

    fn take(&mut self, at: usize) {
        self.written[at].taken = true;
        self.holds = at as u32 + 1;
    }

    fn step(&mut self, action: u8, pick: usize) {
        self.now += 1;
        match action {
            0..=3 => {
                let write = if action == 3 { Write::Delete } else { Write::Put };
                let sequence = self.history.begin(write);
                let (began, state) = (self.now, State::UnderWay);
                self.written.push(Written { write, began, taken: false, state });
                assert_eq!(sequence as usize, self.written.len());
            }
            4..=7 => {
                let Some(at) = self.choose(pick, |one| one.state == State::UnderWay) else {
                    return;
                };
                let taken = self.written[at].taken;
                let outcome = match action {
                    7 if taken => WriteOutcome::Unknown,
                    7 => [WriteOutcome::Unknown, WriteOutcome::NotSent][pick % 2],
                    _ => WriteOutcome::Acknowledged,
                };
                if outcome == WriteOutcome::Acknowledged && !taken {
                    self.take(at);
                }
                self.written[at].state = match outcome {
                    WriteOutcome::Acknowledged => State::Acknowledged { at: self.now },
                    WriteOutcome::Unknown => State::Unknown,
                    WriteOutcome::NotSent => State::NotSent,
                };
                let time = self.time();
                self.history.end(at as u32 + 1, outcome, || time);
            }
            8 => {
                let may = |one: &Written| {
                    !one.taken && matches!(one.state, State::UnderWay | State::Unknown)
                };
                if let Some(at) = self.choose(pick, may) {
                    self.take(at);
                }
            }
            9 => {
                let began = self.history.begin_read(|| self.time());
                self.reads.push(Read { began, seen: None });
            }
            10 => {
                let holds = self.holds;
                if let Some(read) = self.reads.iter_mut().find(|read| read.seen.is_none()) {
                    read.seen = Some(holds);
                }
            }
            _ => {
                if self.reads.is_empty() {
                    return;
                }
                let read = self.reads.swap_remove(pick % self.reads.len());
                let judged = self.judge(read.seen.unwrap_or(self.holds), &read.began);
                assert_eq!(judged, Ok(()), "a correct register is accused");
            }
        }
    }

    /// Judges a read that found what the register holds after a certain write.
    fn judge(&self, holds: u32, began: &ReadBegan) -> Result<(), Violation> {
        let is_value = holds > 0 && self.written[holds as usize - 1].write == Write::Put;
        match is_value {
            true => self.history.judge_value(holds.into(), began),
            false => self.history.judge_missing(began),
        }
    }

    /// When a write is superseded: at the first acknowledgement of one that began after its end.
    fn superseded_at(&self, sequence: usize) -> Option<usize> {
        let end = match sequence.checked_sub(1).map(|at| self.written[at].state) {
            None => 0,
            Some(State::Acknowledged { at }) => at,
            Some(_) => return None,
        };
        let later = self.written.iter().filter(|other| other.began > end);
        let acknowledged = later.filter_map(|other| match other.state {
            State::Acknowledged { at } => Some(at),
            _ => None,
        });
        acknowledged.min()
    }

    /// A read at this moment may find what is not superseded, and nothing else.
    fn agrees(&self) {
        let began = self.history.begin_read(|| self.time());
        let is_missing = |sequence: usize| {
            sequence == 0
                || self.written[sequence - 1].write == Write::Delete
                    && self.written[sequence - 1].state != State::NotSent
        };
        let may_miss = (0..=self.written.len())
            .any(|one| is_missing(one) && self.superseded_at(one).is_none());
        assert_eq!(self.history.judge_missing(&began).is_ok(), may_miss, "missing");
        for sequence in 1..=self.written.len() {
            let one = self.written[sequence - 1];
            if one.write == Write::Delete || one.state == State::NotSent {
                continue;
            }
            let judged = self.history.judge_value(sequence as u64, &began);
            let superseded_at = self.superseded_at(sequence);
            assert_eq!(judged.is_err(), superseded_at.is_some(), "write {sequence}");
            let Some((found, at)) = judged.err().zip(superseded_at) else { continue };
            let truth = self.time() - Duration::from_millis(at as u64);
            match self.history.stale_by(found, &began).expect("ages are measured").age {
                Age::Exactly(age) => assert_eq!(age, truth, "write {sequence}"),
                Age::AtLeast(age) => assert!(age <= truth, "{age:?} of {truth:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_correct_register_is_accused_and_at_rest_nothing_is_overlooked(
        steps in prop::collection::vec((0u8..12, any::<usize>()), 1..150)
    ) {
        let mut register = Register::new(1000);
        for (action, pick) in steps {
            register.step(action, pick);
            register.agrees();
        }
    }

    #[test]
    fn no_correct_register_is_accused_though_more_is_unknown_than_is_remembered(
        steps in prop::collection::vec((0u8..12, any::<usize>()), 1..300)
    ) {
        let mut register = Register::new(2);
        for (action, pick) in steps {
            register.step(action, pick);
        }
    }
}
