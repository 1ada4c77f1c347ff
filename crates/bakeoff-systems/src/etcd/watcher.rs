//! Matches the events of a client's watcher to its pending puts.
//!
//! Works like etcd's `benchmark watch-latency`, with one watcher, one key, and puts of that key. A put is done once
//! its acknowledgement and its event have arrived, in either order, because they come on different streams. The
//! revision connects them, and the event must hold the key and the value of the put, byte for byte. Events of other
//! revisions belong to other clients.
//!
//! Not here: calls and connections (`session`), the fields of messages (`messages`).

use std::collections::VecDeque;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::work::Tag;
use bakeoff_engine::works::keyed::Answer;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::CallId;

use super::messages::{self, WatchEvent};

/// Most events kept for puts that are not yet acknowledged.
const EARLY_MAX: usize = 1024;

/// A watcher of one key, and the puts that wait for its events.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Call that delivers the events.
    pub(super) call: CallId,
    key: Vec<u8>,
    is_created: bool,
    waiting: Vec<WatchedPut>,
    /// Events that arrived before the acknowledgement of their put.
    early: VecDeque<EarlyEvent>,
}

#[derive(Debug)]
struct WatchedPut {
    tag: Tag,
    value: Vec<u8>,
    stage: Stage,
}

/// Next answer that an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The creation of the watcher; the put is not sent yet.
    Watcher,
    /// The acknowledgement. The event may have arrived.
    Acknowledgement,
    /// The event of this revision.
    Event(u64),
}

#[derive(Debug)]
struct EarlyEvent {
    revision: u64,
    is_put_of_key: bool,
    value: Vec<u8>,
}

/// Reason why no more events come.
#[derive(Debug)]
pub(super) enum WatchEnd {
    /// The server cancelled the watcher, or ended its call.
    Cancelled(String),
    /// The server violated the protocol.
    Broken(ProtocolError),
}

impl WatchEnd {
    /// Returns the answer for operations that wait for the watcher.
    pub(super) fn answer(&self) -> Answer<'static> {
        match self {
            Self::Cancelled(why) => {
                Answer::Failed(ErrorKind::Status, format!("the watch ended: {why}"))
            }
            Self::Broken(error) => Answer::Failed(ErrorKind::Protocol, error.to_string()),
        }
    }
}

impl Watcher {
    /// Returns a watcher that the server has not created yet.
    pub(super) fn new(call: CallId, key: &[u8]) -> Self {
        let (waiting, early) = (Vec::new(), VecDeque::new());
        Self { call, key: key.to_vec(), is_created: false, waiting, early }
    }

    /// Returns true if it watches this key.
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        self.key == key
    }

    /// Returns true if the server has created it, so that new puts have events.
    pub(super) fn is_created(&self) -> bool {
        self.is_created
    }

    /// Returns true if no operation waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds an operation that puts `value`. It is sent at once, or after the watcher is created.
    pub(super) fn add(&mut self, tag: Tag, value: &[u8]) {
        let stage = if self.is_created { Stage::Acknowledgement } else { Stage::Watcher };
        self.waiting.push(WatchedPut { tag, value: value.to_vec(), stage });
    }

    /// Writes the next put that waited for the watcher, or returns `None` if there is none.
    pub(super) fn next_put(&mut self, message: &mut Vec<u8>) -> Option<Tag> {
        if !self.is_created {
            return None;
        }
        let put = self.waiting.iter_mut().find(|put| put.stage == Stage::Watcher)?;
        put.stage = Stage::Acknowledgement;
        messages::write_put(&self.key, &put.value, message);
        Some(put.tag)
    }

    /// Removes an operation. Returns true if it still waited for an event.
    pub(super) fn forget(&mut self, tag: Tag) -> bool {
        let Some(place) = self.waiting.iter().position(|put| put.tag == tag) else { return false };
        let put = self.waiting.swap_remove(place);
        self.drop_early();
        put.stage != Stage::Acknowledgement
    }

    /// Returns the waiting operations.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Tag> {
        self.waiting.iter().map(|put| put.tag)
    }

    /// Records the acknowledgement of a put. The put is done if its event has already arrived.
    pub(super) fn on_acknowledged(
        &mut self,
        tag: Tag,
        revision: u64,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) {
        let Some(place) = self.waiting.iter().position(|put| put.tag == tag) else { return };
        match self.early.iter().position(|early| early.revision == revision) {
            None => self.waiting[place].stage = Stage::Event(revision),
            Some(at) => {
                let put = self.waiting.swap_remove(place);
                if let Some(early) = self.early.remove(at) {
                    on(tag, judge(&put.value, early.is_put_of_key, &early.value));
                }
            }
        }
        self.drop_early();
    }

    /// Processes a message of the watch call, and completes the operations of its events.
    ///
    /// # Errors
    /// When no more events will come.
    pub(super) fn on_message(
        &mut self,
        message: &[u8],
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), WatchEnd> {
        let state = messages::read_watch(message, |_, event| self.on_event(&event, on))
            .map_err(WatchEnd::Broken)?;
        self.is_created |= state.created;
        match state.cancelled {
            Some(why) => Err(WatchEnd::Cancelled(why)),
            None => Ok(()),
        }
    }

    fn on_event(&mut self, event: &WatchEvent<'_>, on: &mut dyn FnMut(Tag, Answer<'_>)) {
        let WatchEvent { revision, value, .. } = *event;
        let is_put_of_key = event.is_put && event.key == self.key;
        let of_revision = Stage::Event(revision);
        if let Some(place) = self.waiting.iter().position(|put| put.stage == of_revision) {
            let put = self.waiting.swap_remove(place);
            on(put.tag, judge(&put.value, is_put_of_key, value));
        } else if self.awaits_acknowledgement() {
            if self.early.len() == EARLY_MAX {
                self.early.pop_front();
            }
            self.early.push_back(EarlyEvent { revision, is_put_of_key, value: value.to_vec() });
        }
    }

    fn awaits_acknowledgement(&self) -> bool {
        self.waiting.iter().any(|put| put.stage == Stage::Acknowledgement)
    }

    fn drop_early(&mut self) {
        if !self.awaits_acknowledgement() {
            self.early.clear();
        }
    }
}

fn judge(put: &[u8], is_put_of_key: bool, value: &[u8]) -> Answer<'static> {
    let what = match (is_put_of_key, put == value) {
        (true, true) => return Answer::Done,
        (false, _) => "the event with the put's revision is not a put of its key".to_owned(),
        (true, false) => format!(
            "the event with the put's revision has another value: {} bytes instead of {}",
            value.len(),
            put.len()
        ),
    };
    Answer::Failed(ErrorKind::WrongValue, what)
}
