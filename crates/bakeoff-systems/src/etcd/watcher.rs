//! Matches the events of a client's watcher with the puts that wait for them.
//!
//! As etcd's own `benchmark watch-latency` has it: one watcher, one key, and puts of that key. A put is done when it
//! was acknowledged and its event was seen, in either order: they come on streams of their own. What belongs together
//! is told by the revision, and the event must then hold the key and the value that were put, byte for byte. Events
//! of other revisions are of other clients.
//!
//! Not here: calls and connections (`session`), the fields of messages (`messages`).

use std::collections::VecDeque;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::work::Tag;
use bakeoff_engine::works::keyed::Answer;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::CallId;

use super::messages::{self, WatchEvent};

/// How many events are kept, at most, while the put that they may be of is not acknowledged.
const EARLY_MAX: usize = 1024;

/// A watcher on one key, and the puts that wait for its events.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The call that the events come with.
    pub(super) call: CallId,
    key: Vec<u8>,
    is_created: bool,
    waiting: Vec<WatchedPut>,
    /// Events that came before any put under way was acknowledged with their revision.
    early: VecDeque<Early>,
}

#[derive(Debug)]
struct WatchedPut {
    tag: Tag,
    value: Vec<u8>,
    stage: Stage,
}

/// The next thing that an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The watcher, before it is put.
    Watcher,
    /// The acknowledgement. The event may have come.
    Acknowledgement,
    /// The event of a revision.
    Event(u64),
}

#[derive(Debug)]
struct Early {
    revision: u64,
    is_put_of_key: bool,
    value: Vec<u8>,
}

/// The reason why no more events come.
#[derive(Debug)]
pub(super) enum WatchEnd {
    /// The server cancelled it, or ended its call.
    Cancelled(String),
    /// The server sent what is no answer to a watch.
    Broken(ProtocolError),
}

impl WatchEnd {
    /// The answer to operations that wait for the watcher.
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
    /// Begins to wait for the server to create it.
    pub(super) fn new(call: CallId, key: &[u8]) -> Self {
        let (waiting, early) = (Vec::new(), VecDeque::new());
        Self { call, key: key.to_vec(), is_created: false, waiting, early }
    }

    /// Returns whether it watches this key.
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        self.key == key
    }

    /// Returns whether the server has created it: puts from now on have their events.
    pub(super) fn is_created(&self) -> bool {
        self.is_created
    }

    /// Returns whether no operation waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes an operation that puts `value`: now, where the watcher is created, else once it is.
    pub(super) fn add(&mut self, tag: Tag, value: &[u8]) {
        let stage = if self.is_created { Stage::Acknowledgement } else { Stage::Watcher };
        self.waiting.push(WatchedPut { tag, value: value.to_vec(), stage });
    }

    /// Writes the request of the next put that waited for the watcher; `None` where none does any more.
    pub(super) fn next_put(&mut self, message: &mut Vec<u8>) -> Option<Tag> {
        if !self.is_created {
            return None;
        }
        let put = self.waiting.iter_mut().find(|put| put.stage == Stage::Watcher)?;
        put.stage = Stage::Acknowledgement;
        messages::write_put(&self.key, &put.value, message);
        Some(put.tag)
    }

    /// Forgets an operation; says whether the watcher owed it something.
    pub(super) fn forget(&mut self, tag: Tag) -> bool {
        let Some(place) = self.waiting.iter().position(|put| put.tag == tag) else { return false };
        let put = self.waiting.swap_remove(place);
        self.drop_early();
        put.stage != Stage::Acknowledgement
    }

    /// The operations that wait for it.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Tag> {
        self.waiting.iter().map(|put| put.tag)
    }

    /// A put was acknowledged with a revision: it is done where its event has come already.
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

    /// Takes a message of the watch's call: the operations are done whose events it holds.
    ///
    /// # Errors
    /// When no more events will come.
    pub(super) fn on_message(
        &mut self,
        message: &[u8],
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), WatchEnd> {
        let state = messages::read_watch(message, |event| self.on_event(&event, on))
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
            self.early.push_back(Early { revision, is_put_of_key, value: value.to_vec() });
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
        (false, _) => "the event of the put's revision is no put of its key".to_owned(),
        (true, false) => format!(
            "the event of the put's revision has another value, of {} bytes where {} were put",
            value.len(),
            put.len()
        ),
    };
    Answer::Failed(ErrorKind::WrongValue, what)
}
