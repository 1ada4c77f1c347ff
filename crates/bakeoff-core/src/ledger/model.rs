//! Compares the ledger with a model that forgets nothing, on random histories of a correct register.
//!
//! The register applies each write at one moment. An acknowledged write is applied between its start and its end, one
//! of unknown outcome at any time after its start or never, and an unsent one never. A read returns the register's
//! value at one moment between its start and its end, so no read may be accused. For a read that starts and ends at
//! once, the model knows all allowed results, and the ledger must agree.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::staleness::Age;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    Acknowledged { at: usize },
    Unknown,
    NotSent,
}

#[derive(Debug, Clone, Copy)]
struct ModelWrite {
    write: Write,
    began: usize,
    /// True if the register has applied it.
    taken: bool,
    state: State,
}

struct ModelRead {
    began: ReadBegan,
    /// Value that it will return: a write's number, 0 for the initial state.
    seen: Option<u32>,
}

/// Holds a register, the ledger's history of it, and the reads in flight.
struct Register {
    history: KeyHistory,
    now: usize,
    /// Number of the current write, 0 for none.
    holds: u32,
    written: Vec<ModelWrite>,
    reads: Vec<ModelRead>,
}

impl Register {
    fn new(unknown_max: u16) -> Self {
        let history = KeyHistory::new(unknown_max).measuring_staleness(4);
        Self { history, now: 0, holds: 0, written: Vec::new(), reads: Vec::new() }
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.now as u64)
    }

    /// Returns a write for which `is` holds, selected by `pick`, preferring newer ones.
    fn choose(&self, pick: usize, is: impl Fn(&ModelWrite) -> bool) -> Option<usize> {
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
                self.written.push(ModelWrite { write, began, taken: false, state });
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
                    WriteOutcome::NotSent | WriteOutcome::Refused => State::NotSent,
                };
                let time = self.time();
                self.history.end(at as u32 + 1, outcome, || time);
            }
            8 => {
                let may = |one: &ModelWrite| {
                    !one.taken && matches!(one.state, State::UnderWay | State::Unknown)
                };
                if let Some(at) = self.choose(pick, may) {
                    self.take(at);
                }
            }
            9 => {
                let began = self.history.begin_read(|| self.time());
                self.reads.push(ModelRead { began, seen: None });
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

    /// Judges a read that found the register's value after write `holds`.
    fn judge(&self, holds: u32, began: &ReadBegan) -> Result<(), Violation> {
        let is_value = holds > 0 && self.written[holds as usize - 1].write == Write::Put;
        match is_value {
            true => self.history.judge_value(holds.into(), began),
            false => self.history.judge_missing(began),
        }
    }

    /// Returns when a write is superseded: at the first acknowledgement of a write that began after its end.
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

    /// Checks that a read at this moment may find exactly what is not superseded.
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
    fn correct_register_is_never_accused_and_no_loss_at_rest_is_missed(
        steps in prop::collection::vec((0u8..12, any::<usize>()), 1..150)
    ) {
        let mut register = Register::new(1000);
        for (action, pick) in steps {
            register.step(action, pick);
            register.agrees();
        }
    }

    #[test]
    fn correct_register_is_never_accused_with_too_many_unknown_writes(
        steps in prop::collection::vec((0u8..12, any::<usize>()), 1..300)
    ) {
        let mut register = Register::new(2);
        for (action, pick) in steps {
            register.step(action, pick);
        }
    }
}
