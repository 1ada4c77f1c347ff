//! Puts watched keys, and logs each put by the revision of its answer.
//!
//! Not here: the watchers (`event_observer`), other writes (`calls`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bakeoff_engine::work::{Failure, NotIssued, OperationTiming, Success};
use bakeoff_engine::works::grpc::{
    Call, CallReply, CallSlot, CallSource, FirstCall, NextStep, TimingSink,
};
use bakeoff_wire::etcd;

use super::calls::{broken, refused, wrong};
use super::seconds::SecondSink;

/// Times of a put that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct PutTimes {
    pub(super) sent: Instant,
    pub(super) acknowledged: Instant,
}

/// Acknowledged puts of a load.
#[derive(Debug, Default)]
pub(super) struct PutLog {
    /// Times by revision.
    pub(super) times: HashMap<u64, PutTimes>,
    /// Number of puts by key.
    by_key: Vec<u64>,
}

impl PutLog {
    /// Returns the number of puts of a key.
    pub(super) fn count(&self, key: usize) -> u64 {
        self.by_key.get(key).copied().unwrap_or_default()
    }
}

/// Keys that are put and watched in turn, and the puts so far.
#[derive(Debug)]
pub(super) struct WatchedPuts {
    /// Names of the different keys.
    names: Vec<Vec<u8>>,
    /// Key of each turn. Random keys may be equal.
    turns: Vec<usize>,
    pub(super) value: Vec<u8>,
    log: Mutex<PutLog>,
}

impl WatchedPuts {
    /// Puts `value` under these keys in turn.
    pub(super) fn new(keys: Vec<Vec<u8>>, value: Vec<u8>) -> Self {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut places = HashMap::new();
        let place = |name: Vec<u8>| {
            *places.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() - 1
            })
        };
        let turns = keys.into_iter().map(place).collect();
        let log = PutLog { times: HashMap::new(), by_key: vec![0; names.len()] };
        Self { names, turns, value, log: Mutex::new(log) }
    }

    /// Returns the key of a turn; turns begin again after the last key.
    pub(super) fn key(&self, turn: u64) -> usize {
        self.turns[(turn % self.turns.len() as u64) as usize]
    }

    /// Returns the name of a key.
    pub(super) fn name(&self, key: usize) -> &[u8] {
        &self.names[key]
    }

    /// Logs an acknowledged put of a key.
    pub(super) fn acknowledge(&self, key: usize, revision: u64, times: PutTimes) {
        let mut log = self.log();
        log.times.insert(revision, times);
        log.by_key[key] += 1;
    }

    /// Returns the acknowledged puts.
    pub(super) fn log(&self) -> MutexGuard<'_, PutLog> {
        // No code panics while it holds the lock.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes one worker's puts.
pub(super) struct PutCalls {
    puts: Arc<WatchedPuts>,
    /// Key of each put in flight.
    keys: HashMap<CallSlot, usize>,
    /// Key and revision of acknowledged puts whose times have not come, in order.
    acknowledged: VecDeque<(usize, u64)>,
    seconds: Option<SecondSink>,
}

impl PutCalls {
    pub(super) fn new(puts: &Arc<WatchedPuts>, seconds: Option<SecondSink>) -> Self {
        let (keys, acknowledged) = (HashMap::new(), VecDeque::new());
        Self { puts: puts.clone(), keys, acknowledged, seconds }
    }

    fn judge(&mut self, slot: CallSlot, reply: CallReply<'_>) -> Result<Success, Failure> {
        match reply {
            CallReply::Answer(Ok(answer)) => {
                let revision = etcd::read_revision(answer).map_err(|error| broken(&error))?;
                let key = self.keys.get(&slot).copied().unwrap_or_default();
                self.acknowledged.push_back((key, revision));
                Ok(Success::default())
            }
            CallReply::Answer(Err(status)) => Err(refused(&status)),
            CallReply::Message(_) | CallReply::Ended(_) => {
                Err(wrong("a stream in answer to a unary call"))
            }
        }
    }
}

impl CallSource for PutCalls {
    fn operations(&self) -> Vec<String> {
        vec!["put".to_owned()]
    }

    fn methods(&self) -> &'static [&'static str] {
        &[etcd::PUT]
    }

    fn begin(
        &mut self,
        slot: CallSlot,
        ticket: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        let key = self.puts.key(ticket);
        self.keys.insert(slot, key);
        etcd::write_put(self.puts.name(key), &self.puts.value, message);
        Ok(FirstCall { operation: 0, call: Call::unary(0) })
    }

    fn reply(&mut self, slot: CallSlot, reply: CallReply<'_>, _: &mut Vec<u8>) -> NextStep {
        NextStep::End(self.judge(slot, reply))
    }

    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        Some(self)
    }
}

impl TimingSink for PutCalls {
    fn begin(&mut self, start: Instant) {
        if let Some(seconds) = &mut self.seconds {
            seconds.begin(start);
        }
    }

    fn answered(&mut self, operation: usize, moments: &OperationTiming) {
        let &OperationTiming { sent, done, .. } = moments;
        if let Some((key, revision)) = self.acknowledged.pop_front() {
            let times = PutTimes { sent, acknowledged: done };
            self.puts.acknowledge(key, revision, times);
        }
        if let Some(seconds) = &mut self.seconds {
            seconds.answered(operation, moments);
        }
    }

    fn ended(&mut self) {
        if let Some(seconds) = &mut self.seconds {
            seconds.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_of_several_turns_are_one_key() {
        let keys = ["a", "b", "a"].map(|name| name.as_bytes().to_vec());
        let puts = WatchedPuts::new(keys.to_vec(), Vec::new());
        let turns: Vec<&[u8]> = (0..5).map(|turn| puts.name(puts.key(turn))).collect();
        assert_eq!(turns, [b"a", b"b", b"a", b"a", b"b"]);
        let now = bakeoff_clock::now();
        let times = PutTimes { sent: now, acknowledged: now };
        puts.acknowledge(puts.key(0), 7, times);
        puts.acknowledge(puts.key(2), 8, times);
        let log = puts.log();
        assert_eq!((log.count(puts.key(0)), log.count(puts.key(1))), (2, 0));
    }
}
