//! Makes the calls of a load and verifies the answers.
//!
//! A write must be acknowledged with a revision. A range must hold ascending keys within its bounds, as many as it says,
//! and without what the request leaves out. etcd's benchmark counts every answer without an error as a success.
//!
//! Not here: messages (`bakeoff_wire::etcd`), keys (`keys`), figures (`report`).

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::work::{Failure, NotIssued, Success};
use bakeoff_engine::works::grpc::{
    Call, CallForm, CallReply, CallSlot, CallSource, FirstCall, NextStep, Status, TimingSink, code,
};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::etcd::{
    self, Branch, RangeQuery, RangeSummary, TO_THE_LAST_KEY, TxnAnswer, prefix_end,
};

use super::keys::{KeyWriter, random_share};
use super::options::{RangeContent, RangeEnd, RangeOptions, RangeTransfer};
use super::seconds::SecondSink;

/// Keys of a page, as the watch cache of Kubernetes reads them.
const PAGE_KEYS: u64 = 10_000;

const METHODS: &[&str] = &[etcd::PUT, etcd::RANGE, etcd::RANGE_STREAM, etcd::TXN];
const PUT: usize = 0;
const RANGE: usize = 1;
const RANGE_STREAM: usize = 2;
const TXN: usize = 3;

/// Returns the text of a failed call as Go's client prints it: etcd's own words, or the status.
pub(super) fn status_text(status: &Status<'_>) -> String {
    let message = &status.message;
    if message.starts_with("etcdserver: ") {
        return message.clone().into_owned();
    }
    // Go spells the names in camel case, and has one spelling of its own.
    let name = match (status.code, code::name(status.code)) {
        (code::CANCELLED, _) => "Canceled".to_owned(),
        (_, Some(name)) => name.split('_').map(capitalized).collect(),
        (number, None) => format!("Code({number})"),
    };
    format!("rpc error: code = {name} desc = {message}")
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    format!("{first}{}", rest.to_ascii_lowercase())
}

/// Returns the failure of a call that the server refused.
pub(super) fn refused(status: &Status<'_>) -> Failure {
    Failure::new(ErrorKind::Status, status_text(status))
}

pub(super) fn wrong(what: impl Display) -> Failure {
    Failure::new(ErrorKind::WrongValue, format!("wrong answer: {what}"))
}

pub(super) fn broken(error: &ProtocolError) -> Failure {
    Failure::new(ErrorKind::Protocol, error.to_string())
}

/// Writes keys: one by a put, or several by a transaction.
#[derive(Clone)]
pub(super) struct Writes {
    pub(super) keys: KeyWriter,
    pub(super) value: Arc<[u8]>,
    /// Puts of a transaction; `None` for a put without one.
    pub(super) transaction: Option<u64>,
}

impl Writes {
    /// Writes the request of write number `ticket`. `key` is a buffer.
    fn begin(&self, ticket: u64, key: &mut Vec<u8>, message: &mut Vec<u8>) -> Call {
        let Some(puts) = self.transaction else {
            self.keys.write(ticket, key);
            etcd::write_put(key, &self.value, message);
            return Call::unary(PUT);
        };
        for put in 0..puts {
            self.keys.write(ticket.wrapping_mul(puts).wrapping_add(put), key);
            etcd::write_txn_put(Branch::Then, key, &self.value, message);
        }
        Call::unary(TXN)
    }

    fn judge(&self, answer: &[u8]) -> Result<(), Failure> {
        let Some(puts) = self.transaction else {
            return etcd::read_revision(answer).map(drop).map_err(|error| broken(&error));
        };
        let mut done = 0;
        let count = |answer| done += u64::from(answer == TxnAnswer::Put);
        let summary = etcd::read_txn(answer, count).map_err(|error| broken(&error))?;
        match (summary.succeeded, summary.revision) {
            (false, _) => Err(wrong("a transaction without conditions took its other branch")),
            (true, 0) => Err(wrong("a transaction without a revision")),
            (true, _) if done != puts => {
                Err(wrong(format!("{done} puts of {puts} in a transaction")))
            }
            (true, _) => Ok(()),
        }
    }
}

/// Reads a range.
#[derive(Debug, Clone)]
pub(super) struct Reads {
    key: Vec<u8>,
    end: Vec<u8>,
    limit: u64,
    serializable: bool,
    content: RangeContent,
    transfer: RangeTransfer,
    in_transaction: bool,
}

impl Reads {
    /// Reads the range of these options.
    pub(super) fn new(options: &RangeOptions) -> Self {
        let mut key = options.key.clone().into_bytes();
        let end = match &options.end {
            RangeEnd::None => Vec::new(),
            RangeEnd::Prefix => prefix_end(&key),
            RangeEnd::Before(end) => end.clone().into_bytes(),
        };
        if key.is_empty() && !end.is_empty() {
            // etcd takes no empty key. This one is the smallest.
            key.push(0);
        }
        Self {
            key,
            end,
            limit: match options.transfer {
                RangeTransfer::Pages => PAGE_KEYS,
                _ => options.limit,
            },
            serializable: options.serializable,
            content: options.content,
            transfer: options.transfer,
            in_transaction: false,
        }
    }

    /// Reads the range within transactions.
    pub(super) fn in_transactions(self) -> Self {
        Self { in_transaction: true, ..self }
    }

    fn query(&self) -> RangeQuery<'_> {
        RangeQuery {
            key: &self.key,
            end: &self.end,
            limit: self.limit,
            revision: 0,
            serializable: self.serializable,
            keys_only: self.content == RangeContent::Keys,
            count_only: self.content == RangeContent::Count,
        }
    }

    fn begin(&self, message: &mut Vec<u8>) -> Call {
        if self.in_transaction {
            etcd::write_txn_range(Branch::Then, &self.query(), message);
            return Call::unary(TXN);
        }
        etcd::write_range(&self.query(), message);
        match self.transfer {
            RangeTransfer::Stream => Call { method: RANGE_STREAM, form: CallForm::ServerStream },
            RangeTransfer::Whole | RangeTransfer::Pages => Call::unary(RANGE),
        }
    }

    /// Checks the keys of one response, and adds them to the operation's progress.
    fn read(&self, answer: &[u8], progress: &mut Progress) -> Result<RangeSummary, Failure> {
        let mut fault = None;
        let mut last = progress.last_key.as_deref();
        let summary = etcd::read_range_response(answer, |key, value| {
            if fault.is_none() {
                fault = self.fault(last, key, value);
            }
            last = Some(key);
            progress.keys += 1;
        });
        let summary = summary.map_err(|error| broken(&error))?;
        if let Some(fault) = fault {
            return Err(wrong(fault));
        }
        let last = last.map(<[u8]>::to_vec);
        progress.last_key = last;
        Ok(summary)
    }

    /// Describes why a pair does not belong into the answer after key `last`; `None` if it does.
    fn fault(&self, last: Option<&[u8]>, key: &[u8], value: &[u8]) -> Option<&'static str> {
        let is_within = match &*self.end {
            [] => key == self.key,
            TO_THE_LAST_KEY => key >= &*self.key,
            end => key >= &*self.key && key < end,
        };
        match self.content {
            _ if !is_within => Some("a key outside of the range"),
            _ if last.is_some_and(|last| last >= key) => Some("keys that do not ascend"),
            RangeContent::Count => Some("a key although only their number was requested"),
            RangeContent::Keys if !value.is_empty() => {
                Some("a value although only keys were requested")
            }
            RangeContent::Keys | RangeContent::Pairs => None,
        }
    }

    /// Judges a whole answer: its counts must fit its keys.
    fn judge(&self, summary: RangeSummary, keys: u64) -> Result<(), Failure> {
        let RangeSummary { more, count, .. } = summary;
        if self.content == RangeContent::Count {
            return Ok(());
        }
        if self.limit > 0 && keys > self.limit {
            return Err(wrong(format!("{keys} keys, above the limit of {}", self.limit)));
        }
        if more != (keys < count) || keys > count {
            let also = if more { " and more" } else { "" };
            return Err(wrong(format!("{keys} keys{also}, of {count} in the range")));
        }
        Ok(())
    }

    /// Judges the answer to a unary call, and writes the next request if the range has another page.
    fn answered(&self, answer: &[u8], progress: &mut Progress, message: &mut Vec<u8>) -> NextStep {
        let mut range = answer;
        if self.in_transaction {
            let mut found = None;
            let read = etcd::read_txn(answer, |one| {
                if let TxnAnswer::Range(range) = one {
                    found = Some(range);
                }
            });
            match (read, found) {
                (Err(error), _) => return NextStep::End(Err(broken(&error))),
                (Ok(_), None) => {
                    return NextStep::End(Err(wrong("a transaction without its range")));
                }
                (Ok(_), Some(found)) => range = found,
            }
        }
        let before = progress.keys;
        let summary = match self.read(range, progress) {
            Ok(summary) => summary,
            Err(failure) => return NextStep::End(Err(failure)),
        };
        let keys = progress.keys - before;
        if let Err(failure) = self.judge(summary, keys) {
            return NextStep::End(Err(failure));
        }
        if progress.revision == 0 {
            progress.revision = summary.revision;
        }
        match &progress.last_key {
            Some(last) if self.transfer == RangeTransfer::Pages && summary.more && keys > 0 => {
                let next = [last, &[0][..]].concat();
                let revision = progress.revision;
                etcd::write_range(&RangeQuery { key: &next, revision, ..self.query() }, message);
                NextStep::Call(Call::unary(RANGE))
            }
            _ => NextStep::End(Ok(Success::default())),
        }
    }

    /// Adds a message of a stream.
    fn streamed(&self, message: &[u8], progress: &mut Progress) -> NextStep {
        let part = match etcd::read_streamed_range(message) {
            Ok(part) => part,
            Err(error) => return NextStep::End(Err(broken(&error))),
        };
        match self.read(part, progress) {
            Ok(summary) => {
                progress.streamed.count += summary.count;
                progress.streamed.more |= summary.more;
                NextStep::Await
            }
            Err(failure) => NextStep::End(Err(failure)),
        }
    }

    /// Judges a stream that has ended.
    fn stream_ended(&self, progress: &Progress) -> NextStep {
        NextStep::End(self.judge(progress.streamed, progress.keys).map(|()| Success::default()))
    }
}

/// State of one read between its replies.
#[derive(Debug, Default)]
struct Progress {
    last_key: Option<Vec<u8>>,
    keys: u64,
    /// Revision of the first page.
    revision: u64,
    streamed: RangeSummary,
}

/// Decides whether an operation reads or writes.
#[derive(Clone)]
pub(super) enum Mix {
    Writes(Writes),
    Reads(Reads),
    /// Writes and reads, and the share of reads.
    Both {
        writes: Writes,
        reads: Reads,
        read_share: f64,
        seed: u64,
    },
}

/// Index of reads in the operations of [`Mix::Both`].
pub(super) const READ: usize = 0;
const WRITE: usize = 1;

impl Mix {
    /// Returns the operation names as the reports of etcd's benchmark use them.
    pub(super) fn operations(&self, command: &str) -> Vec<String> {
        match self {
            Self::Writes(_) | Self::Reads(_) => vec![command.to_owned()],
            Self::Both { .. } => vec![format!("{command}-read"), format!("{command}-write")],
        }
    }
}

/// Makes the calls of one worker.
pub(super) struct Calls {
    mix: Mix,
    command: &'static str,
    key: Vec<u8>,
    /// Reads in flight with several replies.
    reading: HashMap<CallSlot, Progress>,
    /// Operation of each slot, for mixed loads.
    writes: HashMap<CallSlot, bool>,
    seconds: Option<SecondSink>,
}

impl Calls {
    pub(super) fn new(mix: Mix, command: &'static str, seconds: Option<SecondSink>) -> Self {
        let (reading, writes) = (HashMap::new(), HashMap::new());
        Self { mix, command, key: Vec::new(), reading, writes, seconds }
    }
}

impl CallSource for Calls {
    fn operations(&self) -> Vec<String> {
        self.mix.operations(self.command)
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn begin(
        &mut self,
        slot: CallSlot,
        ticket: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        let Self { mix, key, reading, writes, .. } = self;
        if !matches!(mix, Mix::Writes(_)) {
            // What an earlier operation of the slot left when it timed out.
            reading.remove(&slot);
        }
        Ok(match mix {
            Mix::Writes(all) => FirstCall { operation: 0, call: all.begin(ticket, key, message) },
            Mix::Reads(all) => FirstCall { operation: 0, call: all.begin(message) },
            Mix::Both { writes: all, reads, read_share, seed } => {
                let is_write = random_share(ticket, *seed) >= *read_share;
                writes.insert(slot, is_write);
                match is_write {
                    true => FirstCall { operation: WRITE, call: all.begin(ticket, key, message) },
                    false => FirstCall { operation: READ, call: reads.begin(message) },
                }
            }
        })
    }

    fn reply(&mut self, slot: CallSlot, reply: CallReply<'_>, message: &mut Vec<u8>) -> NextStep {
        let Self { mix, reading, writes, .. } = self;
        let (write, read) = match mix {
            Mix::Writes(all) => (Some(all), None),
            Mix::Reads(all) => (None, Some(all)),
            Mix::Both { writes: all, reads, .. } => match writes.get(&slot) {
                Some(true) => (Some(all), None),
                _ => (None, Some(reads)),
            },
        };
        match (reply, read, write) {
            (CallReply::Answer(Err(status)) | CallReply::Ended(Err(status)), ..) => {
                reading.remove(&slot);
                NextStep::End(Err(refused(&status)))
            }
            (CallReply::Answer(Ok(answer)), _, Some(write)) => {
                NextStep::End(write.judge(answer).map(|()| Success::default()))
            }
            (CallReply::Answer(Ok(answer)), Some(read), _)
                if read.transfer == RangeTransfer::Pages =>
            {
                let next = read.answered(answer, reading.entry(slot).or_default(), message);
                if matches!(next, NextStep::End(_)) {
                    reading.remove(&slot);
                }
                next
            }
            (CallReply::Answer(Ok(answer)), Some(read), _) => {
                read.answered(answer, &mut Progress::default(), message)
            }
            (CallReply::Message(part), Some(read), _) => {
                read.streamed(part, reading.entry(slot).or_default())
            }
            (CallReply::Ended(Ok(())), Some(read), _) => {
                let progress = reading.remove(&slot).unwrap_or_default();
                read.stream_ended(&progress)
            }
            // Writes are unary, so only their calls' answers come.
            _ => NextStep::End(Err(wrong("a stream in answer to a unary call"))),
        }
    }

    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        self.seconds.as_mut().map(|sink| sink as &mut dyn TimingSink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd_benchmark::keys::{KeyOrder, Keys};

    fn options(key: &str, end: RangeEnd) -> RangeOptions {
        RangeOptions {
            key: key.to_owned(),
            end,
            serializable: false,
            limit: 0,
            content: RangeContent::Pairs,
            transfer: RangeTransfer::Whole,
        }
    }

    /// Returns a `RangeResponse` with these pairs.
    fn response(pairs: &[(&str, &str)], more: bool, count: u64) -> Vec<u8> {
        use bakeoff_wire::protobuf::{put_bytes, put_uint};
        let mut out = Vec::new();
        put_bytes(&mut out, 1, b"\x18\x07");
        for (key, value) in pairs {
            let mut pair = Vec::new();
            put_bytes(&mut pair, 1, key.as_bytes());
            put_bytes(&mut pair, 5, value.as_bytes());
            put_bytes(&mut out, 2, &pair);
        }
        put_uint(&mut out, 3, more.into());
        put_uint(&mut out, 4, count);
        out
    }

    #[track_caller]
    fn check(options: &RangeOptions, answer: &[u8], expected: Result<(), &str>) {
        let reads = Reads::new(options);
        let judged = match reads.answered(answer, &mut Progress::default(), &mut Vec::new()) {
            NextStep::End(result) => result.map(drop).map_err(|failure| failure.what),
            _ => panic!("the operation goes on"),
        };
        match expected {
            Ok(()) => assert_eq!(judged, Ok(())),
            Err(reason) => {
                let what = judged.expect_err("a wrong answer was accepted");
                assert!(what.contains(reason), "{what}");
            }
        }
    }

    #[test]
    fn answers_of_a_range_are_verified() {
        let one = options("k", RangeEnd::None);
        check(&one, &response(&[("k", "v")], false, 1), Ok(()));
        check(&one, &response(&[], false, 0), Ok(()));
        check(&one, &response(&[("l", "v")], false, 1), Err("outside of the range"));
        let some = options("b", RangeEnd::Before("d".to_owned()));
        check(&some, &response(&[("b", ""), ("c", "")], false, 2), Ok(()));
        check(&some, &response(&[("c", ""), ("b", "")], false, 2), Err("do not ascend"));
        check(&some, &response(&[("b", ""), ("b", "")], false, 2), Err("do not ascend"));
        check(&some, &response(&[("b", ""), ("d", "")], false, 2), Err("outside of the range"));
        check(&some, &response(&[("b", "")], false, 2), Err("1 keys, of 2"));
        check(&some, &response(&[("b", "")], true, 1), Err("1 keys and more, of 1"));
        let limited = RangeOptions { limit: 1, ..some.clone() };
        check(&limited, &response(&[("b", "")], true, 2), Ok(()));
        check(&limited, &response(&[("b", ""), ("c", "")], true, 3), Err("above the limit of 1"));
        let names = RangeOptions { content: RangeContent::Keys, ..some.clone() };
        check(&names, &response(&[("b", "")], false, 1), Ok(()));
        check(&names, &response(&[("b", "v")], false, 1), Err("only keys were requested"));
        let number = RangeOptions { content: RangeContent::Count, ..some };
        check(&number, &response(&[], false, 5), Ok(()));
        check(&number, &response(&[("b", "")], false, 1), Err("only their number was requested"));
        check(&number, b"\x12\x05", Err("truncated"));
    }

    #[test]
    fn pages_continue_after_the_last_key_at_the_first_revision() {
        let all = RangeOptions { transfer: RangeTransfer::Pages, ..options("", RangeEnd::Prefix) };
        let reads = Reads::new(&all);
        let (mut progress, mut message) = (Progress::default(), Vec::new());
        let first = response(&[("a", ""), ("b", "")], true, 3);
        let next = reads.answered(&first, &mut progress, &mut message);
        assert!(matches!(next, NextStep::Call(Call { method: RANGE, .. })));
        let mut expected = Vec::new();
        let query = RangeQuery { key: b"b\0", revision: 7, ..reads.query() };
        etcd::write_range(&query, &mut expected);
        assert_eq!(message, expected);
        let last = response(&[("c", "")], false, 1);
        let end = reads.answered(&last, &mut progress, &mut message);
        assert!(matches!(end, NextStep::End(Ok(_))));
        let again = response(&[("c", "")], false, 1);
        let end = reads.answered(&again, &mut progress, &mut message);
        assert!(matches!(end, NextStep::End(Err(_))), "a page repeats a key");
    }

    #[test]
    fn a_stream_must_hold_as_many_keys_as_it_says() {
        let part = |pairs: &[(&str, &str)], count| {
            let mut out = Vec::new();
            bakeoff_wire::protobuf::put_bytes(&mut out, 1, &response(pairs, false, count));
            out
        };
        let all = RangeOptions { transfer: RangeTransfer::Stream, ..options("", RangeEnd::Prefix) };
        for (count, is_right) in [(2, true), (3, false)] {
            let mut calls = Calls::new(Mix::Reads(Reads::new(&all)), "range", None);
            let slot = CallSlot { client: 0, tag: 0 };
            let mut reply = |reply| calls.reply(slot, reply, &mut Vec::new());
            let first = part(&[("a", "")], 0);
            assert!(matches!(reply(CallReply::Message(&first)), NextStep::Await));
            let last = part(&[("b", "")], count);
            assert!(matches!(reply(CallReply::Message(&last)), NextStep::Await));
            match reply(CallReply::Ended(Ok(()))) {
                NextStep::End(result) => assert_eq!(result.is_ok(), is_right),
                _ => panic!("the stream has ended"),
            }
        }
    }

    #[test]
    fn a_transaction_must_acknowledge_each_put() {
        let keys = Keys { prefix: String::new(), size: 4, space: 8, order: KeyOrder::Sequential };
        let writes = Writes {
            keys: KeyWriter::new(keys, 0),
            value: Arc::from(&b"v"[..]),
            transaction: Some(2),
        };
        let judge = |message: &[u8]| writes.judge(message).map_err(|failure| failure.what);
        let both = b"\x0a\x02\x18\x07\x10\x01\x1a\x02\x12\0\x1a\x02\x12\0";
        assert_eq!(judge(both), Ok(()));
        assert!(judge(&both[..10]).unwrap_err().contains("1 puts of 2"));
        assert!(judge(b"\x0a\x02\x18\x07").unwrap_err().contains("other branch"));
        assert!(judge(b"\x10\x01").unwrap_err().contains("without a revision"));
        let mut message = Vec::new();
        writes.begin(3, &mut Vec::new(), &mut message);
        let mut expected = Vec::new();
        for key in [b"\x0c\0\0\0", b"\x0e\0\0\0"] {
            etcd::write_txn_put(Branch::Then, key, b"v", &mut expected);
        }
        assert_eq!(message, expected);
    }

    #[test]
    fn failures_are_worded_as_by_gos_client() {
        let status = |code, message: &'static str| {
            status_text(&Status { code, message: message.into(), is_unprocessed: false })
        };
        let too_large = "etcdserver: request is too large";
        assert_eq!(status(3, too_large), too_large);
        let unknown = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
        assert_eq!(status(4, "context deadline exceeded"), unknown);
        assert_eq!(status(1, "x"), "rpc error: code = Canceled desc = x");
        assert_eq!(status(99, "x"), "rpc error: code = Code(99) desc = x");
    }
}
