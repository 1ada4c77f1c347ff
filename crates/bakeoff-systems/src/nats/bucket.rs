//! Defines the bucket of the keys: its subjects, and the JSON of JetStream's API.
//!
//! A bucket is a stream that keeps the last messages of each subject, by default one, as NATS' own clients create it. The subject of a
//! key is `$KV.bakeoff.KEY`, with dots instead of slashes, so that a directory is a wildcard. The last message of a
//! deleted key has a header that marks the deletion.
//!
//! Source: ADR-8 of <https://github.com/nats-io/nats-architecture-and-design>, and
//! <https://docs.nats.io/reference/reference-protocols/nats_api_reference>.
//!
//! Not here: sending the requests (`session`, and `ask` in `mod.rs`).

use std::borrow::Cow;
use std::time::Duration;

use bakeoff_core::watch::WatchStart;
use bakeoff_core::workload::KEY_PREFIX;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Name of the stream under the bucket.
macro_rules! stream {
    () => {
        "KV_bakeoff"
    };
}

/// Prefix of the keys' subjects.
const KEYS: &str = "$KV.bakeoff.";

pub(super) const STREAM_INFO: &str = concat!("$JS.API.STREAM.INFO.", stream!());
pub(super) const STREAM_CREATE: &str = concat!("$JS.API.STREAM.CREATE.", stream!());
pub(super) const STREAM_DELETE: &str = concat!("$JS.API.STREAM.DELETE.", stream!());
/// Subject of a read that the stream's leader answers, with JSON.
pub(super) const LAST_OF_LEADER: &str = concat!("$JS.API.STREAM.MSG.GET.", stream!());
/// Prefix of a read that any replica answers, with the message itself. The key's subject follows.
pub(super) const LAST_OF_ANY: &str = concat!("$JS.API.DIRECT.GET.", stream!(), ".");
/// Prefix of a request to create a consumer. Its name and filter follow.
pub(super) const CONSUMER_CREATE: &str = concat!("$JS.API.CONSUMER.CREATE.", stream!(), ".");
/// Prefix of a request for messages. The consumer's name follows.
pub(super) const CONSUMER_NEXT: &str = concat!("$JS.API.CONSUMER.MSG.NEXT.", stream!(), ".");
/// Prefix of a request to delete a consumer. Its name follows.
pub(super) const CONSUMER_DELETE: &str = concat!("$JS.API.CONSUMER.DELETE.", stream!(), ".");

/// Header that distinguishes a deleted key from one with an empty value.
pub(super) const OPERATION: &str = "KV-Operation";
/// Value of [`OPERATION`] for a deleted key.
pub(super) const DELETED: &str = "DEL";

/// Header of a message in place of one that has expired.
pub(super) const MARKER: &str = "Nats-Marker-Reason";

/// Error code for a missing stream.
pub(super) const NO_STREAM: u32 = 10059;
/// Error code for a missing message.
const NO_MESSAGE: u32 = 10037;

/// Idle time after which the server deletes a list's consumer, in nanoseconds: 30 s.
const CONSUMER_IDLE: u64 = 30_000_000_000;
/// Time without its receiver after which the server deletes a watcher's consumer, in nanoseconds: 5 min, as in NATS'
/// own clients.
const WATCHER_IDLE: u64 = 300_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bucket {
    pub(super) replicas: u32,
    /// True if every replica answers reads; false if only the leader does.
    pub(super) direct: bool,
    /// Number of values that it keeps of each key.
    pub(super) history: u32,
}

impl Bucket {
    /// Returns the stream's configuration.
    pub(super) fn config(self) -> Value {
        json!({
            "name": stream!(),
            "subjects": [format!("{KEYS}>")],
            "max_msgs_per_subject": self.history,
            "discard": "new",
            "allow_rollup_hdrs": true,
            "deny_delete": true,
            "allow_direct": self.direct,
            "storage": "file",
            "num_replicas": self.replicas,
        })
    }
}

/// Writes the subject of a key. For a directory, which ends in `/`, writes the wildcard for all keys below it.
pub(super) fn write_subject(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(KEYS.as_bytes());
    let key = key.strip_prefix(KEY_PREFIX.as_bytes()).unwrap_or(key);
    out.extend(key.iter().map(|&byte| if byte == b'/' { b'.' } else { byte }));
    if key.is_empty() || key.ends_with(b"/") {
        out.push(b'>');
    }
}

/// Returns the last part of a subject's key.
pub(super) fn name(subject: &[u8]) -> &[u8] {
    subject.rsplit(|&byte| byte == b'.').next().unwrap_or_default()
}

/// Returns the request for a key's last message from the leader.
pub(super) fn last_of(subject: &[u8]) -> Vec<u8> {
    json!({"last_by_subj": String::from_utf8_lossy(subject)}).to_string().into_bytes()
}

/// Returns the request for a consumer of each subject's last message, without the payload.
pub(super) fn consumer(name: &str, filter: &[u8]) -> Vec<u8> {
    json!({
        "stream_name": stream!(),
        "config": {
            "name": name,
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "replay_policy": "instant",
            "filter_subject": String::from_utf8_lossy(filter),
            "headers_only": true,
            "mem_storage": true,
            "num_replicas": 1,
            "inactive_threshold": CONSUMER_IDLE,
        },
    })
    .to_string()
    .into_bytes()
}

/// Returns the request for a watcher's consumer, which sends messages to `inbox` on its own: those from the stream's
/// sequence `start` on, or those that `from` selects. NATS' own clients call it an ordered consumer.
pub(super) fn watcher(
    name: &str,
    filter: &[u8],
    inbox: &str,
    start: Option<u64>,
    from: WatchStart,
) -> Vec<u8> {
    let policy = match (start, from) {
        (Some(_), _) => "by_start_sequence",
        (None, WatchStart::Oldest) => "all",
        (None, WatchStart::Now) => "new",
    };
    let mut config = json!({
        "name": name,
        "deliver_policy": policy,
        "deliver_subject": inbox,
        "ack_policy": "none",
        "max_deliver": 1,
        "replay_policy": "instant",
        "filter_subject": String::from_utf8_lossy(filter),
        "flow_control": true,
        "idle_heartbeat": HEARTBEAT_EVERY.as_nanos() as u64,
        "mem_storage": true,
        "num_replicas": 1,
        "inactive_threshold": WATCHER_IDLE,
    });
    if let Some(start) = start {
        config["opt_start_seq"] = start.into();
    }
    json!({"stream_name": stream!(), "config": config}).to_string().into_bytes()
}

/// Interval between the heartbeats of a watcher's idle consumer. NATS' own clients choose 5 s.
pub(super) const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);

/// Longest silence of a list's consumer before the request is repeated, and the wait in that request.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Returns the body of a JetStream pull for up to `count` messages, without waiting for new ones.
pub(super) fn next(count: u64) -> Vec<u8> {
    format!(r#"{{"batch":{count},"no_wait":true}}"#).into_bytes()
}

/// Returns the body of a pull for a silent consumer. The server waits up to [`SILENCE_MAX`] and reports the timeout.
pub(super) fn next_within(count: u64) -> Vec<u8> {
    let expires = SILENCE_MAX.as_nanos();
    format!(r#"{{"batch":{count},"no_wait":true,"expires":{expires}}}"#).into_bytes()
}

/// Content of the acknowledgement subject of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeliveredMessage<'a> {
    pub(super) consumer: &'a str,
    /// Number of the message in the stream.
    pub(super) stream_sequence: u64,
    /// Number of the delivery, from 1.
    pub(super) consumer_sequence: u64,
    /// Number of messages that the consumer still has to deliver.
    pub(super) pending: u64,
}

/// Reads the acknowledgement subject of a delivered message:
/// `$JS.ACK.STREAM.CONSUMER.DELIVERIES.STREAMSEQ.CONSUMERSEQ.TIME.PENDING`. Newer servers add domain and account
/// before the stream, and a random last part.
pub(super) fn delivered(reply: &[u8]) -> Option<DeliveredMessage<'_>> {
    let text = std::str::from_utf8(reply).ok()?.strip_prefix("$JS.ACK.")?;
    let before_consumer = if text.split('.').count() == 7 { 1 } else { 3 };
    let mut parts = text.split('.').skip(before_consumer);
    let consumer = parts.next()?;
    let mut numbers = parts.map(|part| part.parse::<u64>().ok());
    let _deliveries = numbers.next()??;
    let (stream_sequence, consumer_sequence) = (numbers.next()??, numbers.next()??);
    let _time = numbers.next()??;
    Some(DeliveredMessage {
        consumer,
        stream_sequence,
        consumer_sequence,
        pending: numbers.next()??,
    })
}

/// Fields of an answer of JetStream's API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiAnswer<'a> {
    #[serde(borrow)]
    pub(super) error: Option<ApiError<'a>>,
    /// Sequence number of a stored message.
    pub(super) seq: Option<u64>,
    /// Number of messages that a consumer still has to deliver.
    pub(super) num_pending: Option<u64>,
    /// Last message that a consumer has delivered or skipped.
    pub(super) delivered: Option<Sequences>,
    #[serde(borrow)]
    pub(super) message: Option<StoredMessage<'a>>,
}

/// Position of a consumer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sequences {
    /// Number of a message in the stream.
    pub(super) stream_seq: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiError<'a> {
    pub(super) code: u32,
    pub(super) err_code: u32,
    #[serde(borrow)]
    pub(super) description: Cow<'a, str>,
}

impl ApiError<'_> {
    pub(super) fn is_no_message(&self) -> bool {
        self.err_code == NO_MESSAGE
    }

    pub(super) fn text(&self) -> String {
        format!("{}: {} ({})", self.code, self.description, self.err_code)
    }
}

/// A message returned by JetStream's API. Headers and payload are in base64.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StoredMessage<'a> {
    #[serde(borrow)]
    pub(super) data: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) hdrs: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_subject_and_a_directory_a_wildcard() {
        let subject = |key: &str| {
            let mut out = Vec::new();
            write_subject(key.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(subject("bakeoff/0007kk"), "$KV.bakeoff.0007kk");
        assert_eq!(subject("bakeoff/d0001/0007kk"), "$KV.bakeoff.d0001.0007kk");
        assert_eq!(subject("bakeoff/d0001/"), "$KV.bakeoff.d0001.>");
        assert_eq!(subject("bakeoff/"), "$KV.bakeoff.>");
        assert_eq!(name(b"$KV.bakeoff.d0001.0007kk"), b"0007kk");
    }

    #[test]
    fn delivered_message_names_its_consumer_and_its_numbers() {
        let expected = DeliveredMessage {
            consumer: "list",
            stream_sequence: 2,
            consumer_sequence: 3,
            pending: 17,
        };
        let old = b"$JS.ACK.KV_bakeoff.list.1.2.3.1795409558148473515.17";
        assert_eq!(delivered(old), Some(expected));
        let new = b"$JS.ACK.hub.ACCOUNT.KV_bakeoff.list.1.2.3.1795409558148473515.17.x7";
        assert_eq!(delivered(new), Some(expected));
        assert_eq!(delivered(b"inbox.1"), None);
        assert_eq!(delivered(b"$JS.ACK.KV_bakeoff.list.1.2.3.1795409558148473515.x"), None);
        assert_eq!(delivered(b"$JS.ACK.KV_bakeoff.list.1.2.3"), None);
    }

    #[test]
    fn reads_errors_and_messages_of_a_real_server() {
        let answer = r#"{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        let error = serde_json::from_str::<ApiAnswer<'_>>(answer).unwrap().error.unwrap();
        assert!(error.is_no_message());
        assert_eq!(error.text(), "404: no message found (10037)");
        let answer = r#"{"message":{"subject":"$KV.bakeoff.d.a","seq":1,"data":"b25l","time":"2026-11-23T04:52:37.828487179Z"}}"#;
        let message = serde_json::from_str::<ApiAnswer<'_>>(answer).unwrap().message.unwrap();
        assert_eq!((&*message.data, &*message.hdrs), ("b25l", ""));
    }
}
