//! Maps key-value operations and checks onto IPROTO requests.
//!
//! A key is a tuple of name and value in the space `kv`. The answer to a `replace` or an `insert` holds the stored
//! tuple, so a value travels both ways. `list` calls a function that returns only names: a `select` would return the
//! values too.

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::iproto::{self, Event, IteratorType, Limits, SyncId};
use bakeoff_wire::msgpack::{Array, Value};

use super::{Credentials, KV_SPACE, PRIMARY, session_name, stranger_name};
use crate::Access;

/// Most requests in flight: those of a client, and as many abandoned ones that may still be answered.
const IN_FLIGHT_MAX: usize = 2000;
/// Resource of all checks.
const RESOURCE: &[u8] = b"/";

/// One connection to a node.
pub(super) struct TarantoolSession {
    session: iproto::Session,
    /// True once the server has accepted the login.
    open: bool,
    /// Operations in flight, by their place in the session.
    under_way: Vec<Option<(SyncId, Tag, Operation)>>,
}

impl TarantoolSession {
    pub(super) fn new(node: &Access) -> Self {
        let credentials = node.memory.get::<Credentials>();
        let user = credentials.as_deref();
        let user = user.map(|Credentials { user, password }| (user.as_str(), password.as_str()));
        let limits = Limits { max_in_flight: IN_FLIGHT_MAX, ..Limits::default() };
        let session = iproto::Session::with_limits(user, limits);
        Self { session, open: false, under_way: Vec::new() }
    }
}

impl Session for TarantoolSession {
    /// Sends nothing: the server speaks first.
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.open
    }

    fn abandon(&mut self, tag: Tag, _: &mut Vec<u8>) -> bool {
        let mut places = self.under_way.iter_mut();
        let place = places.find(|place| matches!(place, Some((_, of, _)) if *of == tag));
        if let Some((sync, ..)) = place.and_then(Option::take) {
            self.session.give_up(sync);
        }
        true
    }
}

impl KvSession for TarantoolSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        use iproto::Request as Ask;
        let (space, index) = (KV_SPACE, PRIMARY);
        let key = &[Value::Text(request.key)];
        let tuple = &[Value::Text(request.key), Value::Bytes(request.value)];
        let check = |session: String, out: &mut Vec<u8>, to: &mut iproto::Session| {
            let arguments = &[Value::Text(session.as_bytes()), Value::Text(RESOURCE)];
            to.request(Ask::Call { function: "check_access", arguments }, out)
        };
        let session = &mut self.session;
        let sent = match request.operation {
            Operation::Put => session.request(Ask::Replace { space, tuple }, out),
            Operation::Insert => session.request(Ask::Insert { space, tuple }, out),
            Operation::Delete => session.request(Ask::Delete { space, index, key }, out),
            Operation::Get => {
                let iterator = IteratorType::Equal;
                let one = Ask::Select { space, index, iterator, offset: 0, limit: 1, key };
                session.request(one, out)
            }
            Operation::List => {
                session.request(Ask::Call { function: "bakeoff.names", arguments: key }, out)
            }
            Operation::Ping => session.request(Ask::Ping, out),
            Operation::CheckAccess => check(session_name(request.number), out, session),
            Operation::Denied => check(stranger_name(request.number), out, session),
            operation => crate::never_planned(operation),
        };
        let Ok(sync) = sent else { return false };
        if self.under_way.len() <= sync.place() {
            self.under_way.resize(sync.place() + 1, None);
        }
        self.under_way[sync.place()] = Some((sync, tag, request.operation));
        true
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { session, open, under_way } = self;
        let mut refused = None;
        session.receive(input, out, &mut |event| match event {
            Event::Ready { .. } => *open = true,
            Event::Refused(error) => refused = Some(error),
            Event::Answer { sync, result } => {
                let place = under_way.get_mut(sync.place()).and_then(Option::take);
                let Some((_, tag, operation)) = place else { return };
                match result {
                    Ok(data) => deliver(operation, data, &mut |answer| on(tag, answer)),
                    Err(error) => on(tag, Answer::Failed(ErrorKind::Status, error.to_string())),
                }
            }
        })?;
        match refused {
            None => Ok(()),
            Some(error) => Err(ProtocolError::new(format!("tarantool refused the login: {error}"))),
        }
    }
}

/// Converts the data of a response to an answer.
fn deliver(operation: Operation, mut data: Array<'_>, on: &mut dyn FnMut(Answer<'_>)) {
    let wrong = |what: &str| Answer::Failed(ErrorKind::WrongValue, what.to_owned());
    let unreadable = || {
        let what = format!("the answer is not one to a `{}`", operation.name());
        Answer::Failed(ErrorKind::Protocol, what)
    };
    let is_missing = data.len() == 0;
    let first = data.next();
    let answer = match (operation, first) {
        (Operation::Ping, None) => Answer::Done,
        (Operation::Put | Operation::Insert, Some(Value::Array(_))) => Answer::Done,
        (Operation::Delete, Some(Value::Array(_))) => Answer::Done,
        (Operation::Delete | Operation::Get, None) if is_missing => Answer::Missing,
        (Operation::Get, Some(Value::Array(mut tuple))) => {
            match tuple.nth(1).and_then(|value| value.bytes()) {
                Some(value) => Answer::Value(value),
                None => unreadable(),
            }
        }
        (Operation::List, Some(Value::Array(names))) => {
            // A value that is not a text is not a key of bakeoff.
            let mut names = names.map(|name| name.bytes().unwrap_or_default());
            return on(Answer::Names(&mut names));
        }
        (Operation::CheckAccess, Some(Value::Bool(true)))
        | (Operation::Denied, Some(Value::Bool(false))) => Answer::Done,
        (Operation::CheckAccess, Some(Value::Bool(false))) => {
            wrong("it refused a session that has access")
        }
        (Operation::Denied, Some(Value::Bool(true))) => {
            wrong("it admitted a session without access")
        }
        _ => unreadable(),
    };
    on(answer);
}

#[cfg(test)]
mod tests {
    use bakeoff_wire::msgpack;

    use super::*;
    use crate::Memory;
    use crate::replay;
    use bakeoff_engine::transport::Target;

    /// Returns an open session of the guest, who needs no password.
    fn open() -> TarantoolSession {
        let node = Access {
            name: "tarantool-1".into(),
            authority: "127.0.0.1:3301".into(),
            target: Target { address: ([127, 0, 0, 1], 3301).into(), tls: None },
            memory: Memory::default(),
        };
        let mut session = TarantoolSession::new(&node);
        assert!(!session.is_open());
        let greeting = format!("{:<63}\n{:<63}\n", "Tarantool 2.6.0 (Binary) x", "");
        on_bytes(&mut session, greeting.as_bytes()).unwrap();
        assert!(session.is_open());
        session
    }

    fn on_bytes(
        session: &mut TarantoolSession,
        input: &[u8],
    ) -> Result<Vec<String>, ProtocolError> {
        let mut seen = Vec::new();
        session.receive(input, &mut Vec::new(), &mut |tag, answer| {
            seen.push(match answer {
                Answer::Done => format!("{tag} done"),
                Answer::Missing => format!("{tag} missing"),
                Answer::Value(value) => format!("{tag} `{}`", value.escape_ascii()),
                Answer::Names(names) => {
                    let names: Vec<_> = names.map(|name| name.escape_ascii().to_string()).collect();
                    format!("{tag} {}", names.join(" "))
                }
                Answer::Failed(kind, what) => format!("{tag} {kind:?}: {what}"),
                _ => format!("{tag} another"),
            });
        })?;
        Ok(seen)
    }

    fn ask(session: &mut TarantoolSession, tag: Tag, operation: Operation) -> bool {
        let request = replay::request(operation, b"k", b"v");
        session.request(tag, &request, &mut Vec::new())
    }

    /// Returns the answer to request number `serial` at `place`: its type, and the single entry of its body.
    fn answer(serial: u64, place: u64, kind: u64, key: u64, value: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        msgpack::put_map(2, &mut packet);
        for (key, value) in [(0, kind), (1, serial << 32 | place)] {
            msgpack::put_unsigned(key, &mut packet);
            msgpack::put_unsigned(value, &mut packet);
        }
        msgpack::put_map(1, &mut packet);
        msgpack::put_unsigned(key, &mut packet);
        packet.extend_from_slice(value);
        let mut out = Vec::new();
        msgpack::put_unsigned(packet.len() as u64, &mut out);
        out.extend(packet);
        out
    }

    /// Checks how an answer's data is read for an operation.
    fn check(operation: Operation, data: &[u8], expected: &str) {
        let mut session = open();
        assert!(ask(&mut session, 3, operation));
        let seen = on_bytes(&mut session, &answer(1, 0, 0, 0x30, data)).unwrap();
        assert_eq!(seen, [format!("3 {expected}")], "{operation}");
    }

    #[test]
    fn each_operation_accepts_only_its_own_answer() {
        use Operation::{CheckAccess, Delete, Denied, Get, Insert, List, Ping, Put};
        let (nothing, tuple): (&[u8], &[u8]) = (b"\x90", b"\x91\x92\xa1k\xc4\x01v");
        let not_one =
            |operation: &str| format!("Protocol: the answer is not one to a `{operation}`");
        check(Put, tuple, "done");
        check(Put, nothing, &not_one("put"));
        check(Insert, tuple, "done");
        check(Insert, nothing, &not_one("insert"));
        check(Get, tuple, "`v`");
        check(Get, nothing, "missing");
        check(Get, b"\x91\x91\xa1k", &not_one("get"));
        check(Get, b"\x91\xc0", &not_one("get"));
        check(Delete, tuple, "done");
        check(Delete, nothing, "missing");
        check(List, b"\x91\x92\xa1a\xa1b", "a b");
        check(List, b"\x91\x90", "");
        check(List, nothing, &not_one("list"));
        check(Ping, nothing, "done");
        check(Ping, tuple, &not_one("ping"));
        check(CheckAccess, b"\x91\xc3", "done");
        check(CheckAccess, b"\x91\xc2", "WrongValue: it refused a session that has access");
        check(Denied, b"\x91\xc2", "done");
        check(Denied, b"\x91\xc3", "WrongValue: it admitted a session without access");
        for neither in [&b"\x91\xc0"[..], b"\x91\x01", nothing] {
            check(CheckAccess, neither, &not_one("check-access"));
            check(Denied, neither, &not_one("denied"));
        }
    }

    #[test]
    fn answers_find_their_operations_in_any_order() {
        let mut session = open();
        assert!(ask(&mut session, 0, Operation::Get) && ask(&mut session, 1, Operation::Ping));
        let second = answer(2, 1, 0, 0x30, b"\x90");
        let first = answer(1, 0, 0x8003, 0x31, b"\xa2no");
        let seen = on_bytes(&mut session, &[second, first].concat()).unwrap();
        assert_eq!(seen, ["1 done", "0 Status: no (ER_TUPLE_FOUND, 3)"]);
    }

    #[test]
    fn late_answer_is_not_taken_for_a_later_one_with_its_tag() {
        let mut session = open();
        ask(&mut session, 0, Operation::Get);
        assert!(session.abandon(0, &mut Vec::new()), "the connection can still be used");
        ask(&mut session, 0, Operation::Ping);
        let late = answer(1, 0, 0, 0x30, b"\x90");
        assert_eq!(on_bytes(&mut session, &late).unwrap(), [""; 0]);
        let right = answer(2, 1, 0, 0x30, b"\x90");
        assert_eq!(on_bytes(&mut session, &right).unwrap(), ["0 done"]);
    }

    #[test]
    fn refused_login_has_no_session() {
        let mut session = open();
        session.session = iproto::Session::new("bakeoff", "guessed");
        let greeting = format!("{:<63}\n{:<63}\n", "Tarantool 2.6.0 (Binary) x", "A".repeat(44));
        on_bytes(&mut session, greeting.as_bytes()).unwrap();
        let error = on_bytes(&mut session, &answer(1, 0, 0x802f, 0x31, b"\xa2no")).unwrap_err();
        assert_eq!(error.what, "tarantool refused the login: no (ER_PASSWORD_MISMATCH, 47)");
    }
}
