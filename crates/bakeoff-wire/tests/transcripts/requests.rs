//! Lists the requests that were sent to real servers for the transcripts, in order.
//!
//! Not here: the answers (`../../transcripts`) and their expected decoding (`main.rs`).

use bakeoff_wire::iproto::{self, IteratorType};
use bakeoff_wire::msgpack::Value;
use bakeoff_wire::postgres;
use bakeoff_wire::protobuf::{bytes_len, put_bytes, put_message_header, put_uint};
use bakeoff_wire::zookeeper::{CreateMode, Request};

const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// Returns calls of etcd: method and message.
pub(crate) fn etcd() -> Vec<(&'static str, Vec<u8>)> {
    let put_large = message(&[(1, b"/bakeoff/large"), (2, &[b'x'; 20_000])]);
    let mut put_again = message(&[(1, b"/bakeoff/a"), (2, b"two")]);
    put_uint(&mut put_again, 4, 1); // prev_kv
    let mut compare = Vec::new();
    put_uint(&mut compare, 2, 0); // EQUAL VERSION, both zero
    put_bytes(&mut compare, 3, b"/bakeoff/a");
    put_uint(&mut compare, 4, 2); // version
    let success = message(&[(1, b"/bakeoff/b"), (2, b"by transaction")]);
    let failure = message(&[(1, b"/bakeoff/a")]);
    let mut txn = message(&[(1, &compare)]);
    put_message_header(&mut txn, 2, bytes_len(2, success.len())); // request_put
    put_bytes(&mut txn, 2, &success);
    put_message_header(&mut txn, 3, bytes_len(1, failure.len())); // request_range
    put_bytes(&mut txn, 1, &failure);
    vec![
        (PUT, message(&[(1, b"/bakeoff/a"), (2, b"one")])),
        (PUT, put_again),
        (RANGE, message(&[(1, b"/bakeoff/a")])),
        (RANGE, message(&[(1, b"/bakeoff/missing")])),
        (TXN, txn),
        (RANGE, message(&[(1, b"/bakeoff/"), (2, b"/bakeoff0")])),
        (PUT, put_large),
        (RANGE, message(&[(1, b"/bakeoff/large")])),
        (DELETE_RANGE, message(&[(1, b"/bakeoff/"), (2, b"/bakeoff0")])),
        (STATUS, Vec::new()),
        (PUT, message(&[(2, b"a value without a key")])),
        ("/etcdserverpb.KV/Nothing", Vec::new()),
    ]
}

fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    for (field, value) in fields {
        put_bytes(&mut message, *field, value);
    }
    message
}

/// Returns the requests of one ZooKeeper session; `None` is a ping.
pub(crate) fn zookeeper() -> Vec<Option<Request<'static>>> {
    let create = |path, data, mode| Some(Request::Create { path, data, mode });
    let set = |version| Some(Request::SetData { path: "/bakeoff", data: b"two", version });
    let delete = |path, version| Some(Request::Delete { path, version });
    vec![
        create("/bakeoff", b"one", CreateMode::Persistent),
        create("/bakeoff", b"one", CreateMode::Persistent),
        create("/bakeoff/e", b"", CreateMode::Ephemeral),
        create("/bakeoff/s", b"", CreateMode::PersistentSequential),
        Some(Request::Exists { path: "/bakeoff", watch: false }),
        Some(Request::GetData { path: "/bakeoff" }),
        set(Some(0)),
        set(Some(0)),
        set(None),
        Some(Request::GetChildren { path: "/bakeoff" }),
        None,
        Some(Request::Sync { path: "/" }),
        delete("/bakeoff", None),
        delete("/bakeoff/e", Some(7)),
        delete("/bakeoff/e", Some(0)),
        delete("/bakeoff/s0000000001", None),
        delete("/bakeoff", None),
        Some(Request::GetData { path: "/bakeoff" }),
        Some(Request::Close),
    ]
}

/// Requests to HTTP/1.1 servers, each on its own connection: the transcript's name, and the request without `host`.
pub(crate) const HTTP1: &[(&str, &str)] = &[
    ("nginx-1.22.1-file", "GET /a.txt HTTP/1.1\r\n"),
    ("nginx-1.22.1-head", "HEAD /a.txt HTTP/1.1\r\n"),
    ("nginx-1.22.1-chunked", "GET /b.shtml HTTP/1.1\r\n"),
    ("nginx-1.22.1-large", "GET /big.txt HTTP/1.1\r\n"),
    ("nginx-1.22.1-not-found", "GET /missing HTTP/1.1\r\n"),
    ("nginx-1.22.1-no-content", "GET /none HTTP/1.1\r\n"),
    (
        "nginx-1.22.1-not-modified",
        "GET /a.txt HTTP/1.1\r\nif-modified-since: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
    ),
    ("nginx-1.22.1-until-close", "GET /b.shtml HTTP/1.0\r\n"),
    ("nginx-1.22.1-close", "GET /close HTTP/1.1\r\n"),
    (
        "nginx-1.22.1-continue",
        "POST /echo HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 5\r\n",
    ),
    ("go-net-http-length", "GET /version HTTP/1.1\r\n"),
    ("go-net-http-chunked", "POST /v3/kv/range HTTP/1.1\r\ncontent-length: 14\r\n"),
    ("go-net-http-bad-request", "POST /v3/kv/range HTTP/1.1\r\ncontent-length: 0\r\n"),
];

/// Requests to an HTTP/2 server on one connection: method, path and body.
pub(crate) const HTTP2: &[(&str, &str, &[u8])] = &[
    ("GET", "/a.txt", b""),
    ("HEAD", "/a.txt", b""),
    ("GET", "/b.shtml", b""),
    ("GET", "/big.txt", b""),
    ("GET", "/missing", b""),
    ("GET", "/none", b""),
    ("POST", "/echo", b"hello"),
    ("POST", "/echo", &[b'x'; 40_000]),
    ("GET", "/a.txt", b""),
];

/// Returns a session of PostgreSQL. The fixed nonce makes its proofs reproducible.
pub(crate) fn postgres() -> postgres::Session {
    postgres::Session::new("bench", "pencil", "postgres", "rOprNGfwEbeRWgbNEkqO")
}

/// Queries to PostgreSQL, each sent after the answer to the previous one.
pub(crate) const POSTGRES: &[&str] = &[
    "SELECT 1 AS one, NULL AS nothing, '' AS empty; SELECT generate_series(1, 3)",
    "",
    "SELECT nothing",
    "SELECT 1; SELECT 1 / 0",
    "DO $$ BEGIN RAISE NOTICE 'listen'; END $$",
    "SET application_name = 'bakeoff'",
    "SELECT repeat('x', 20000)",
    "SELECT 1 WHERE false",
];

/// Splits the bytes after each `ReadyForQuery`, where a server waits for a query.
pub(crate) fn postgres_turns(mut reply: &[u8]) -> Vec<&[u8]> {
    let mut turns = Vec::new();
    let mut at = 0;
    while let Some((&[kind, ref length @ ..], _)) = reply[at..].split_first_chunk::<5>() {
        let Some(end) = at.checked_add(1 + u32::from_be_bytes(*length) as usize) else { break };
        if end > reply.len() {
            break;
        }
        at = end;
        if kind == b'Z' {
            turns.push(&reply[..at]);
            reply = &reply[at..];
            at = 0;
        }
    }
    turns.push(reply);
    turns
}

/// Returns a session of Tarantool, before its greeting.
pub(crate) fn iproto() -> iproto::Session {
    iproto::Session::new("bench", "pencil")
}

/// Returns the length of Tarantool's bytes before requests are possible: its greeting and the answer to the proof.
pub(crate) fn iproto_begins(reply: &[u8]) -> usize {
    let length = reply.get(iproto::GREETING_SIZE + 1..).and_then(|rest| rest.first_chunk());
    let answer = length.map_or(usize::MAX, |length| u32::from_be_bytes(*length) as usize);
    reply.len().min(answer.saturating_add(iproto::GREETING_SIZE + 5))
}

const ONE: &[Value<'static>] = &[Value::Unsigned(1)];
const NINE: &[Value<'static>] = &[Value::Unsigned(9)];
const SEVEN_A_NIL: &[Value<'static>] = &[Value::Unsigned(7), Value::Text(b"a"), Value::Nil];
const ONE_A: &[Value<'static>] = &[Value::Unsigned(1), Value::Text(b"a")];
const ONE_B: &[Value<'static>] = &[Value::Unsigned(1), Value::Bytes(b"b")];
const TWO_C: &[Value<'static>] = &[Value::Unsigned(2), Value::Text(b"c")];

/// Returns requests to Tarantool, all sent at once. The first is answered last.
pub(crate) fn iproto_asks() -> Vec<iproto::Request<'static>> {
    use iproto::Request::{Call, Delete, Eval, Insert, Ping, Replace, Select};
    let (space, index) = (512, 0);
    let select = |iterator, limit, key| Select { space, index, iterator, offset: 0, limit, key };
    let eval = |expression| Eval { expression, arguments: &[] };
    vec![
        eval("require('fiber').sleep(0.2) return 'late'"),
        Ping,
        Eval { expression: "return ...", arguments: SEVEN_A_NIL },
        Insert { space, tuple: ONE_A },
        Insert { space, tuple: ONE_B },
        Replace { space, tuple: ONE_B },
        Replace { space, tuple: TWO_C },
        select(IteratorType::Equal, 10, ONE),
        select(IteratorType::GreaterOrEqual, 10, ONE),
        select(IteratorType::GreaterOrEqual, 1, ONE),
        select(IteratorType::Less, 10, ONE),
        Delete { space, index, key: ONE },
        Delete { space, index, key: ONE },
        select(IteratorType::All, 10, &[]),
        Insert { space: 599, tuple: NINE },
        Call { function: "nothing", arguments: &[] },
        eval("error('no')"),
        eval("box.session.push(1) return 2.5, -3, {a = {true, false}}, {}"),
        eval("return string.rep('x', 20000)"),
    ]
}

/// Commands to Redis, all sent at once.
pub(crate) const RESP: &[&[&[u8]]] = &[
    &[b"PING"],
    &[b"SET", b"bakeoff/a", b"one"],
    &[b"GET", b"bakeoff/a"],
    &[b"GET", b"bakeoff/missing"],
    &[b"SET", b"bakeoff/a", b"two"],
    &[b"GET", b"bakeoff/a"],
    &[b"SET", b"bakeoff/large", &[b'x'; 20_000]],
    &[b"GET", b"bakeoff/large"],
    &[b"SET", b"bakeoff/binary", b"\r\n$5\r\n\x00\xff"],
    &[b"GET", b"bakeoff/binary"],
    &[b"SET", b"bakeoff/empty", b""],
    &[b"GET", b"bakeoff/empty"],
    &[b"SCAN", b"0", b"MATCH", b"bakeoff/a*", b"COUNT", b"100"],
    &[b"MGET", b"bakeoff/a", b"bakeoff/missing"],
    &[b"DEL", b"bakeoff/a"],
    &[b"DEL", b"bakeoff/a"],
    &[b"WAIT", b"0", b"100"],
    &[b"INCR", b"bakeoff/empty"],
    &[b"LPUSH", b"bakeoff/list", b"a"],
    &[b"GET", b"bakeoff/list"],
    &[b"NOTHING", b"at", b"all"],
    &[b"SCAN", b"0", b"MATCH", b"nothing*", b"COUNT", b"100"],
    &[b"LRANGE", b"bakeoff/missing", b"0", b"-1"],
    &[b"BLPOP", b"bakeoff/missing", b"0.01"],
    &[b"EVAL", b"return {1,{2,'three',false},{}}", b"0"],
    &[b"INCRBY", b"bakeoff/number", b"-7"],
    &[b"QUIT"],
];

/// Commands to a Redis that requires a user, all sent at once.
pub(crate) const RESP_SIGNED_IN: &[&[&[u8]]] = &[
    &[b"GET", b"bakeoff/a"],
    &[b"AUTH", b"bench", b"pen"],
    &[b"AUTH", b"bench", b"pencil"],
    &[b"SET", b"bakeoff/a", b"one"],
    &[b"GET", b"bakeoff/a"],
    &[b"GET", b"b"],
    &[b"DEL", b"bakeoff/a"],
];

/// Subject, headers and payload of a message to NATS. The reply subject is `inbox.` and its number.
type PublishedMessage = (&'static str, &'static [(&'static str, &'static str)], Vec<u8>);

/// Options with which the NATS client connects.
pub(crate) const NATS_CONNECT: &str = r#"{"verbose":true,"pedantic":false,"headers":true,"no_responders":true,"lang":"bakeoff","version":"1","protocol":1}"#;

/// Returns messages to NATS. They follow `NATS_CONNECT`, a subscription to `inbox.>` under the number 7, one to
/// `a..b`, and a `PING`.
pub(crate) fn nats() -> Vec<PublishedMessage> {
    let bucket = r#"{"name":"KV_bakeoff","subjects":["$KV.bakeoff.>"],"max_msgs_per_subject":1,"discard":"new","allow_rollup_hdrs":true,"deny_delete":true,"allow_direct":true,"storage":"file","num_replicas":1}"#;
    let list = r#"{"stream_name":"KV_bakeoff","config":{"name":"list","deliver_policy":"last_per_subject","ack_policy":"none","filter_subject":"$KV.bakeoff.d.>","headers_only":true,"mem_storage":true}}"#;
    let last = r#"{"last_by_subj":"$KV.bakeoff.d.a"}"#;
    let no_last = r#"{"last_by_subj":"$KV.bakeoff.missing"}"#;
    let get = "$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.d.a";
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("$JS.API.STREAM.INFO.KV_bakeoff", &[], Vec::new()),
        ("$KV.bakeoff.d.a", &[], text("to no bucket")),
        ("$JS.API.STREAM.CREATE.KV_bakeoff", &[], text(bucket)),
        ("$KV.bakeoff.d.a", &[], text("one")),
        ("$KV.bakeoff.d.b", &[], b"\r\nMSG a 1 1\r\n\x00\xff".to_vec()),
        (get, &[], Vec::new()),
        ("$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.d.b", &[], Vec::new()),
        ("$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.missing", &[], Vec::new()),
        ("$JS.API.STREAM.MSG.GET.KV_bakeoff", &[], text(last)),
        ("$JS.API.STREAM.MSG.GET.KV_bakeoff", &[], text(no_last)),
        ("$KV.bakeoff.large", &[], vec![b'x'; 20_000]),
        ("$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.large", &[], Vec::new()),
        ("$KV.bakeoff.d.a", &[("KV-Operation", "DEL")], Vec::new()),
        (get, &[], Vec::new()),
        ("$JS.API.STREAM.MSG.GET.KV_bakeoff", &[], text(last)),
        ("$JS.API.CONSUMER.CREATE.KV_bakeoff.list.$KV.bakeoff.d.>", &[], text(list)),
        ("$JS.API.CONSUMER.MSG.NEXT.KV_bakeoff.list", &[], text(r#"{"batch":2,"no_wait":true}"#)),
        ("$JS.API.CONSUMER.DELETE.KV_bakeoff.list", &[], Vec::new()),
        ("$JS.API.CONSUMER.MSG.NEXT.KV_bakeoff.list", &[], text(r#"{"batch":2,"no_wait":true}"#)),
        ("inbox.echo", &[("A", "1"), ("B", "")], text("to ourselves")),
        ("$JS.API.STREAM.DELETE.KV_bakeoff", &[], Vec::new()),
    ]
}
