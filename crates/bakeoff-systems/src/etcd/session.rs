//! Maps key-value operations onto calls of etcd's v3 API.

use std::cell::RefCell;
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::{Operation, ReadConsistency};
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, Compare, GroupKey, KvSession, LockStep, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{CallId, CallReply, Client, MethodId};
use bakeoff_wire::http2::Settings;
use smallvec::SmallVec;

use super::super::coordination::{self, lock_name};
use super::super::{Access, ClientToken};
use super::TOKEN_GONE;
use super::lock::{ClientLock, LockRules};
use super::messages;
use super::user::{SignInState, User};
use super::watcher::{WatchEnd, Watcher};

/// One connection to an etcd node. Calls are its streams.
pub(crate) struct EtcdSession {
    client: Client,
    // Every operation reads these fields, so they are adjacent.
    /// Unary calls in flight, at most `in_flight` of the load.
    calls: SmallVec<[(CallId, Tag, CallPurpose); 1]>,
    /// Watcher of this client, once created.
    watcher: Option<Box<Watcher>>,
    /// Operations that failed with a dropped watcher and still have to be reported.
    stranded: Vec<Tag>,
    put: MethodId,
    range: MethodId,
    delete_range: MethodId,
    txn: MethodId,
    lease_grant: MethodId,
    lease_keep_alive: MethodId,
    watch: MethodId,
    acquire: MethodId,
    release: MethodId,
    /// Time to live of leases.
    lease_seconds: u64,
    /// User of this client, if the study names one.
    user: Option<Box<User>>,
    /// Lock of this client.
    lock: Box<ClientLock>,
}

/// Purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallPurpose {
    Operation(Operation),
    /// Second half of a compare-and-set or `move`.
    Replace,
    /// Put whose event the client's watcher should see.
    WatchedPut,
    /// Lease for locks, granted or renewed before the client waits.
    LockLease,
    /// Renewal of that lease meanwhile. No operation waits for it.
    Renewal,
    /// Write that needs the lock.
    FencedPut,
    /// Read of the lock's key at the grant, after such a write was refused.
    KeyAtGrant,
    Unlock,
    /// Unlock of an operation that was given up.
    Ignored,
}

impl CallPurpose {
    /// Returns true for calls of an operation that may hold a lock.
    fn is_of_lock(self) -> bool {
        matches!(
            self,
            Self::Operation(Operation::Lock) | Self::FencedPut | Self::KeyAtGrant | Self::Unlock
        )
    }
}

thread_local! {
    /// Buffer for messages before they are framed. All sessions of a thread share it, so that it stays in the CPU's
    /// cache.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Passes the thread's empty message buffer to `write`.
fn with_message<R>(write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    MESSAGE.with_borrow_mut(|message| {
        message.clear();
        write(message)
    })
}

impl EtcdSession {
    /// Opens a session with at most `in_flight` calls, and allocates memory for each. Its leases live `lease_seconds`.
    pub(super) fn new(node: &Access, in_flight: u32, lease_seconds: u64, rules: LockRules) -> Self {
        // One more stream for the watch, which stays open.
        let max_streams = in_flight.saturating_add(1);
        let settings = Settings { max_streams, ..Settings::default() };
        let tls = node.target.tls.is_some();
        let user = User::new(&node.memory).map(Box::new);
        let token = match &user {
            Some(user) => user.token.clone(),
            None => node.memory.get::<ClientToken>(),
        };
        let metadata = token.as_deref().map(messages::metadata);
        let mut client = Client::with_settings(&node.authority, tls, metadata.as_slice(), settings);
        Self {
            put: client.method(messages::PUT),
            range: client.method(messages::RANGE),
            delete_range: client.method(messages::DELETE_RANGE),
            txn: client.method(messages::TXN),
            lease_grant: client.method(messages::LEASE_GRANT),
            lease_keep_alive: client.method(messages::LEASE_KEEP_ALIVE),
            watch: client.method(messages::WATCH),
            acquire: client.method(messages::LOCK),
            release: client.method(messages::UNLOCK),
            client,
            calls: SmallVec::new(),
            lease_seconds,
            watcher: None,
            stranded: Vec::new(),
            user,
            lock: Box::new(ClientLock::new(rules, lease_seconds)),
        }
    }

    fn call(
        &mut self,
        (method, message): (MethodId, &[u8]),
        (tag, asked): (Tag, CallPurpose),
        out: &mut Vec<u8>,
    ) -> bool {
        let call = self.client.call(method, message, out);
        if let Ok(call) = call {
            self.calls.push((call, tag, asked));
        }
        call.is_ok()
    }

    /// Writes a request into the empty `message` and sends it.
    fn request_with(
        &mut self,
        tag: Tag,
        request: &Request<'_>,
        message: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        let serializable = request.reads == ReadConsistency::Stale;
        let mut asked = CallPurpose::Operation(request.operation);
        let method = match request.operation {
            Operation::Put => {
                messages::write_put(request.key, request.value, message);
                self.put
            }
            Operation::Get => {
                messages::write_get(request.key, serializable, message);
                self.range
            }
            Operation::List => {
                messages::write_list(request.key, serializable, message);
                self.range
            }
            Operation::Delete => {
                messages::write_delete(request.key, message);
                self.delete_range
            }
            Operation::CompareAndSet => match request.compare {
                Compare::Read => {
                    messages::write_get(request.key, serializable, message);
                    self.range
                }
                Compare::Replace(revision) => {
                    let (key, value) = (request.key, request.value);
                    messages::write_replace(key, value, revision, message);
                    asked = CallPurpose::Replace;
                    self.txn
                }
            },
            Operation::Look | Operation::Move => {
                if let Compare::Replace(revision) = request.compare {
                    asked = CallPurpose::Replace;
                    messages::write_replace_all(pairs(request.group), revision, message);
                } else {
                    messages::write_get_all(pairs(request.group), serializable, message);
                }
                self.txn
            }
            Operation::Scan => {
                let (key, limit) = (request.key, request.limit);
                messages::write_scan(key, limit, serializable, message);
                self.range
            }
            Operation::KeepLease if !request.lease.is_empty() => {
                messages::write_keep_alive(request.lease.parse().unwrap_or_default(), message);
                self.lease_keep_alive
            }
            Operation::GrantLease | Operation::KeepLease => {
                messages::write_grant(self.lease_seconds, message);
                self.lease_grant
            }
            Operation::Lock => {
                let (method, purpose) = self.write_lock_request(request, message);
                asked = purpose;
                method
            }
            Operation::Watch => return self.put_watched(tag, request, message, out),
            operation => crate::never_planned(operation),
        };
        self.call((method, message), (tag, asked), out)
    }

    /// Writes the next request of a `lock`. Returns its method and its purpose.
    fn write_lock_request(
        &mut self,
        request: &Request<'_>,
        message: &mut Vec<u8>,
    ) -> (MethodId, CallPurpose) {
        match (request.lock, self.lock.lease) {
            (LockStep::Acquire, None) => {
                self.lock.asks_for_lease();
                messages::write_grant(self.lease_seconds, message);
                (self.lease_grant, CallPurpose::LockLease)
            }
            (LockStep::Acquire, Some(lease)) if self.lock.is_to_renew() => {
                self.lock.asks_for_lease();
                messages::write_keep_alive(lease, message);
                (self.lease_keep_alive, CallPurpose::LockLease)
            }
            (LockStep::Acquire, Some(lease)) => {
                self.lock.key = ClientLock::key_of(request.number, lease);
                messages::write_lock(lock_name(request.number).as_bytes(), lease, message);
                (self.acquire, CallPurpose::Operation(Operation::Lock))
            }
            (LockStep::Write, _) if self.lock.rules.fences => {
                let (key, value) = (request.key, request.value);
                messages::write_put_if_exists(&self.lock.key, key, value, message);
                (self.txn, CallPurpose::FencedPut)
            }
            (LockStep::Write, _) => {
                messages::write_put(request.key, request.value, message);
                (self.put, CallPurpose::Operation(Operation::Put))
            }
            (LockStep::Release, _) => {
                messages::write_unlock(&self.lock.key, message);
                (self.release, CallPurpose::Unlock)
            }
        }
    }

    /// Releases the lock of an operation that is given up.
    fn unlock_abandoned(&mut self, out: &mut Vec<u8>) {
        with_message(|message| {
            messages::write_unlock(&self.lock.key, message);
            self.call((self.release, message), (Tag::MAX, CallPurpose::Ignored), out)
        });
    }

    /// Puts a key that the client watches. Creates the watcher first unless there is one for that key.
    fn put_watched(
        &mut self,
        tag: Tag,
        request: &Request<'_>,
        message: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        if let Some(watcher) = self.watcher.take_if(|watcher| !watcher.is_of(request.key)) {
            if !watcher.is_idle() {
                self.watcher = Some(watcher);
                return false;
            }
            self.client.cancel(watcher.call, out);
        }
        if self.watcher.is_none() {
            messages::write_watch(request.key, message);
            let Ok(call) = self.client.call_streaming(self.watch, message, out) else {
                return false;
            };
            self.watcher = Some(Box::new(Watcher::new(call, request.key)));
            message.clear();
        }
        if self.watcher.as_ref().is_some_and(|watcher| watcher.is_created()) {
            messages::write_put(request.key, request.value, message);
            if !self.call((self.put, message), (tag, CallPurpose::WatchedPut), out) {
                return false;
            }
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.add(tag, request.value);
        }
        true
    }

    /// Drops the watcher and the puts that wait for it. The next operation creates another.
    fn drop_watcher(&mut self, out: &mut Vec<u8>) -> Vec<Tag> {
        let Some(watcher) = self.watcher.take() else { return Vec::new() };
        self.client.cancel(watcher.call, out);
        let waiting: Vec<Tag> = watcher.waiting().collect();
        let Self { client, calls, .. } = self;
        calls.retain(|&mut (call, tag, asked)| {
            let is_dropped = asked == CallPurpose::WatchedPut && waiting.contains(&tag);
            if is_dropped {
                client.cancel(call, out);
            }
            !is_dropped
        });
        waiting
    }

    /// Sends the puts that waited for the watcher.
    fn send_puts(&mut self, out: &mut Vec<u8>, on: &mut dyn FnMut(Tag, Answer<'_>)) {
        while self.watcher.is_some() {
            let sent = with_message(|message| {
                let tag = self.watcher.as_mut()?.next_put(message)?;
                Some((tag, self.call((self.put, message), (tag, CallPurpose::WatchedPut), out)))
            });
            let Some((tag, sent)) = sent else { return };
            if !sent {
                if let Some(watcher) = &mut self.watcher {
                    watcher.forget(tag);
                }
                let what = "the connection accepted no put for the watcher".to_owned();
                on(tag, Answer::Failed(ErrorKind::Reset, what));
            }
        }
    }
}

impl Session for EtcdSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.client.open(out);
        if let Some(user) = self.user.as_deref().filter(|user| user.is(SignInState::SigningIn)) {
            let method = self.client.method(messages::AUTHENTICATE);
            with_message(|message| {
                messages::write_authenticate(&user.login.user, &user.login.password, message);
                // A connection accepts a call before the server has sent anything.
                self.client.call(method, message, out).ok();
            });
        }
    }

    /// A session opens once the server has sent its limit of concurrent calls.
    fn is_open(&self) -> bool {
        let signing_in = self.user.as_deref().is_some_and(|user| !user.is(SignInState::SignedIn));
        self.client.is_settled() && !signing_in
    }

    fn is_ending(&self) -> bool {
        let is_over = self.user.as_deref().is_some_and(|user| user.is(SignInState::Over));
        self.client.going_away().is_some() || is_over
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        self.lock.lease.and_then(|_| self.lock.renews_every())
    }

    /// Renews the lease of a client that waits for a lock.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        let Some(lease) = self.lock.lease else { return };
        if !self.calls.iter().any(|&(_, _, asked)| asked == CallPurpose::Operation(Operation::Lock))
        {
            return;
        }
        self.lock.asks_for_lease();
        with_message(|message| {
            messages::write_keep_alive(lease, message);
            self.call((self.lease_keep_alive, message), (Tag::MAX, CallPurpose::Renewal), out)
        });
    }

    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        if let Some(place) = self.calls.iter().position(|&(_, of, _)| of == tag) {
            let (call, _, asked) = self.calls.swap_remove(place);
            self.client.cancel(call, out);
            if asked == CallPurpose::LockLease {
                self.lock.has_no_answer();
            }
            if asked.is_of_lock() {
                self.unlock_abandoned(out);
            }
        }
        self.stranded.retain(|&of| of != tag);
        // A watcher that misses one event may miss all later ones.
        if self.watcher.as_mut().is_some_and(|watcher| watcher.forget(tag)) {
            let mut stranded = self.drop_watcher(out);
            self.stranded.append(&mut stranded);
        }
        true
    }
}

impl KvSession for EtcdSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        with_message(|message| self.request_with(tag, request, message, out))
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        // Checked at every read, and rarely true.
        if !self.stranded.is_empty() {
            for tag in self.stranded.drain(..) {
                let what = "the watcher was dropped after a missing event".to_owned();
                on(tag, Answer::Failed(ErrorKind::Status, what));
            }
        }
        if let Some(user) = self.user.as_deref_mut().filter(|user| user.is(SignInState::SigningIn))
        {
            return user.receive(&mut self.client, input, out);
        }
        let Self { client, calls, watcher, user, lock, .. } = self;
        let seconds = self.lease_seconds;
        let mut unfenced = SmallVec::<[Tag; 1]>::new();
        let mut watch_end = None;
        let received = client.receive_replies(input, out, &mut |call, reply| {
            let answer = match reply {
                CallReply::Answer(answer) => answer,
                of_watch => {
                    // The old watcher may still get a last message.
                    let watcher = watcher.as_mut().filter(|watcher| watcher.call == call);
                    if let Some(watcher) = watcher.filter(|_| watch_end.is_none()) {
                        watch_end = follow(watcher, of_watch, on).err();
                    }
                    return;
                }
            };
            let Some(place) = calls.iter().position(|&(of, _, _)| of == call) else { return };
            let (_, tag, asked) = calls.swap_remove(place);
            let message = match answer {
                _ if asked == CallPurpose::Ignored => return,
                Ok(message) => message,
                Err(_) if asked == CallPurpose::Renewal => return lock.has_no_answer(),
                Err(_) if asked == CallPurpose::KeyAtGrant => {
                    return on(tag, Answer::NotHeld { at_grant: false });
                }
                Err(status) => {
                    if let (Some(watcher), CallPurpose::WatchedPut) = (watcher.as_mut(), asked) {
                        watcher.forget(tag);
                    }
                    let what = status.to_string();
                    if asked == CallPurpose::LockLease {
                        lock.has_no_answer();
                    }
                    // Nodes check the token before they process a call.
                    let forgotten = user.as_deref_mut().filter(|_| what.contains(TOKEN_GONE));
                    let is_unprocessed = status.is_unprocessed || forgotten.is_some();
                    if let Some(user) = forgotten {
                        user.forget_token();
                    }
                    return on(
                        tag,
                        match is_unprocessed {
                            true => Answer::Unprocessed(what),
                            false if asked == CallPurpose::Operation(Operation::Lock) => {
                                lock.refused(what)
                            }
                            false => Answer::Failed(ErrorKind::Status, what),
                        },
                    );
                }
            };
            if asked == CallPurpose::WatchedPut {
                // The watcher was dropped, so no operation waits for this answer.
                let Some(watcher) = watcher.as_mut() else { return };
                return match messages::read_revision(message) {
                    Ok(revision) => watcher.on_acknowledged(tag, revision, on),
                    Err(error) => {
                        watcher.forget(tag);
                        on(tag, broken(error));
                    }
                };
            }
            match asked {
                CallPurpose::Operation(Operation::Lock) => return on(tag, lock.granted(message)),
                CallPurpose::FencedPut => {
                    return match messages::read_succeeded(message) {
                        Ok(true) => on(tag, Answer::Done),
                        Ok(false) => unfenced.push(tag),
                        Err(error) => on(tag, broken(error)),
                    };
                }
                CallPurpose::KeyAtGrant => {
                    let mut at_grant = true;
                    let read = messages::read_range(message, |_, _| at_grant = false);
                    return on(tag, read.map_or_else(broken, |()| Answer::NotHeld { at_grant }));
                }
                CallPurpose::Unlock => return on(tag, Answer::Done),
                _ => {}
            }
            let is_of_lease = match asked {
                CallPurpose::LockLease | CallPurpose::Renewal => true,
                CallPurpose::Operation(operation) => operation.is_of_leases(),
                _ => false,
            };
            if !is_of_lease {
                return deliver(tag, asked, message, on);
            }
            match (messages::read_lease(message), asked) {
                (Ok(lease), CallPurpose::Renewal) => lock.has_lease(lease),
                (Err(_), CallPurpose::Renewal) => lock.has_no_answer(),
                (Err(error), _) => on(tag, broken(error)),
                (Ok((1.., 0)), CallPurpose::Operation(_)) => {
                    on(tag, Answer::LeaseExpired(Duration::from_secs(seconds)));
                }
                (Ok(lease @ (1.., granted)), CallPurpose::LockLease)
                    if granted == 0 || granted == seconds =>
                {
                    lock.has_lease(lease);
                    on(tag, Answer::Again);
                }
                (Ok((0, _)), _) => {
                    let what = "the lease is invalid".to_owned();
                    on(tag, Answer::Failed(ErrorKind::WrongValue, what));
                }
                (Ok((id, granted)), _) => {
                    on(tag, coordination::granted(&id.to_string(), seconds, granted));
                }
            }
        });
        for tag in unfenced {
            let sent = with_message(|message| {
                let (key, revision) = (&*self.lock.key, self.lock.revision);
                let query =
                    messages::RangeQuery { key, revision, ..messages::RangeQuery::default() };
                messages::write_range(&query, message);
                self.call((self.range, message), (tag, CallPurpose::KeyAtGrant), out)
            });
            if !sent {
                on(tag, Answer::NotHeld { at_grant: false });
            }
        }
        if let Some(end) = watch_end {
            for tag in self.drop_watcher(out) {
                on(tag, end.answer());
            }
        }
        self.send_puts(out, on);
        received
    }
}

/// Processes a reply of a watch call.
fn follow(
    watcher: &mut Watcher,
    reply: CallReply<'_>,
    on: &mut dyn FnMut(Tag, Answer<'_>),
) -> Result<(), WatchEnd> {
    match reply {
        CallReply::Message(message) => watcher.on_message(message, on),
        CallReply::Ended(Err(status)) => Err(WatchEnd::Cancelled(status.to_string())),
        CallReply::Ended(Ok(())) | CallReply::Answer(_) => {
            Err(WatchEnd::Cancelled("the server sends no more events".to_owned()))
        }
    }
}

/// Returns names and values of a group.
fn pairs(group: &[GroupKey]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    group.iter().map(|key| (&*key.name, &*key.value))
}

fn broken<'a>(error: ProtocolError) -> Answer<'a> {
    Answer::Failed(ErrorKind::Protocol, error.to_string())
}

/// Returns an answer with the revision of its header. A write has its own, and a read that of the state that it saw
/// (`mvcc/kvstore_txn.go`).
fn at_revision<'a>(message: &[u8], answer: fn(u64) -> Answer<'a>) -> Answer<'a> {
    messages::read_revision(message).map_or_else(broken, answer)
}

fn deliver(tag: Tag, asked: CallPurpose, message: &[u8], on: &mut dyn FnMut(Tag, Answer<'_>)) {
    let operation = match asked {
        CallPurpose::Operation(operation) => operation,
        CallPurpose::WatchedPut => Operation::Put,
        CallPurpose::Replace => {
            return match messages::read_succeeded(message) {
                Ok(true) => on(tag, at_revision(message, Answer::DoneAt)),
                Ok(false) => on(tag, Answer::Conflict),
                Err(error) => on(tag, broken(error)),
            };
        }
        // Handled where the session's lease and lock are known.
        _ => Operation::Lock,
    };
    match operation {
        Operation::Put => on(tag, Answer::Done),
        Operation::Delete => match messages::read_deleted(message) {
            Ok(0) => on(tag, at_revision(message, Answer::MissingAt)),
            Ok(_) => on(tag, at_revision(message, Answer::DoneAt)),
            Err(error) => on(tag, broken(error)),
        },
        Operation::Get => {
            let mut found = None;
            match messages::read_range(message, |_, value| found = Some(value)) {
                Ok(()) => on(
                    tag,
                    match found {
                        Some(value) => Answer::Value(value),
                        None => at_revision(message, Answer::MissingAt),
                    },
                ),
                Err(error) => on(tag, broken(error)),
            }
        }
        Operation::List => {
            let mut names = Vec::new();
            match messages::read_range(message, |key, _| names.push(key)) {
                Ok(()) => on(tag, Answer::Names(&mut names.into_iter())),
                Err(error) => on(tag, broken(error)),
            }
        }
        Operation::Scan => {
            let mut pairs = Vec::new();
            match messages::read_range(message, |key, value| pairs.push((key, value))) {
                Ok(()) => on(tag, Answer::Pairs(&mut pairs.into_iter())),
                Err(error) => on(tag, broken(error)),
            }
        }
        Operation::Look | Operation::Move => {
            let mut found = Vec::new();
            match messages::read_get_all(message, |pair| found.push(pair)) {
                Ok(()) if found.iter().all(Option::is_none) => {
                    on(tag, at_revision(message, Answer::MissingAt));
                }
                Ok(()) => {
                    let revision =
                        found.iter().flatten().next().map_or(0, |(_, revision)| *revision);
                    let values = found.iter().map(|pair| pair.map(|(value, _)| value));
                    on(tag, Answer::Group(&mut { values }, revision));
                }
                Err(error) => on(tag, broken(error)),
            }
        }
        Operation::CompareAndSet => match messages::read_versioned(message) {
            Ok(Some((value, revision))) => on(tag, Answer::Versioned(value, revision)),
            Ok(None) => on(tag, at_revision(message, Answer::MissingAt)),
            Err(error) => on(tag, broken(error)),
        },
        operation => crate::never_planned(operation),
    }
}
