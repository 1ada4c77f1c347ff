//! One request as the agent sees it: a queue of what the coordinator sends, and the way to answer.
//!
//! Not here: the table of open requests (`serve`).

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::client::IncomingFrame;
use super::error::AgentRefusal;
use super::frame::{DATA_MAX, Frame, Kind};
use super::frame_sender::FrameSender;
use super::message::DialLine;

/// The pipe to the coordinator, shared by all requests.
pub(crate) type Outlet = Arc<Mutex<dyn Write + Send>>;

/// Connects a running request to the coordinator that made it.
pub struct Line {
    /// Sends notes and data to the coordinator.
    pub back: ReplySender,
    received: Receiver<IncomingFrame>,
}

/// Sends notes and data of one request to the coordinator.
#[derive(Clone)]
pub struct ReplySender {
    number: u32,
    to: Outlet,
}

impl Line {
    pub(crate) fn new(back: ReplySender, received: Receiver<IncomingFrame>) -> Self {
        Self { back, received }
    }

    /// Waits for the next frame of this request. Returns `None` if the coordinator is gone.
    pub fn next(&self) -> Option<IncomingFrame> {
        self.received.recv().ok()
    }

    /// Waits up to `time` for the next frame of this request. Returns `None` if none arrived.
    ///
    /// # Errors
    /// When the coordinator is gone.
    pub fn next_within(&self, time: Duration) -> Result<Option<IncomingFrame>, AgentRefusal> {
        match self.received.recv_timeout(time) {
            Ok(incoming) => Ok(Some(incoming)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(AgentRefusal::new("the coordinator is gone"))
            }
        }
    }
}

impl ReplySender {
    pub(crate) fn new(number: u32, to: &Outlet) -> Self {
        Self { number, to: Arc::clone(to) }
    }

    pub(crate) fn outlet(&self) -> &Outlet {
        &self.to
    }

    /// Sends a note. Does nothing if the coordinator is gone.
    pub fn tell(&self, note: &impl serde::Serialize) {
        let body = serde_json::to_vec(note).expect("notes are plain values");
        self.send(Kind::Note, body).ok();
    }

    /// Sends plain bytes.
    ///
    /// # Errors
    /// When the coordinator is gone.
    pub fn data(&self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(DATA_MAX).try_for_each(|part| self.send(Kind::Data, part.to_vec()))
    }

    /// Signals that no more bytes follow.
    ///
    /// # Errors
    /// When the coordinator is gone.
    pub fn end(&self) -> io::Result<()> {
        self.send(Kind::End, Vec::new())
    }

    fn send(&self, kind: Kind, body: Vec<u8>) -> io::Result<()> {
        send(&self.to, &Frame { kind, number: self.number, body })
    }
}

impl FrameSender for ReplySender {
    fn data(&self, bytes: &[u8]) -> io::Result<()> {
        ReplySender::data(self, bytes)
    }

    fn tell(&self, note: &DialLine) -> io::Result<()> {
        self.send(Kind::Note, serde_json::to_vec(note)?)
    }

    fn end(&self) -> io::Result<()> {
        ReplySender::end(self)
    }
}

/// Writes a whole frame while holding the lock, so frames of several threads do not mix.
pub(crate) fn send(to: &Outlet, frame: &Frame) -> io::Result<()> {
    frame.write(&mut *to.lock().unwrap_or_else(PoisonError::into_inner))
}
