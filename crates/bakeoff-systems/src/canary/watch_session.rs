//! Watches keys of a canary over one connection.
//!
//! Not here: the bytes of a frame (`bakeoff_wire::canary`), the server (crate `bakeoff`).

use std::time::Duration;

use bakeoff_core::watch::WatchStart;
use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::canary::{self, Frame, FrameKind};

use super::super::Access;

/// Interval between signs of life of an idle connection.
const PING_EVERY: Duration = Duration::from_secs(3);

/// Place before that of the first write.
const FIRST_PLACE: u64 = 1;

/// One connection of watchers.
pub(super) struct CanaryWatchSession {
    frames: canary::Session,
    /// Host and port of the node.
    authority: String,
}

impl CanaryWatchSession {
    pub(super) fn new(node: &Access) -> Self {
        Self { frames: canary::Session::default(), authority: node.authority.clone() }
    }
}

impl Session for CanaryWatchSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.frames.open(&self.authority, out);
    }

    fn is_open(&self) -> bool {
        self.frames.is_open()
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(PING_EVERY)
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        Frame::bare(FrameKind::Ping, 0, 0).write(out);
    }
}

impl WatchSession for CanaryWatchSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        let WatcherRequest { watcher, name, is_prefix, after, from, .. } = *request;
        let place = if after == 0 && from == WatchStart::Oldest { FIRST_PLACE } else { after };
        let kind = if is_prefix { FrameKind::WatchPrefix } else { FrameKind::WatchKey };
        Frame { kind, watcher, place, name, value: &[] }.write(out);
    }

    fn ask_progress(&mut self, out: &mut Vec<u8>) {
        Frame::bare(FrameKind::AskProgress, 0, 0).write(out);
    }

    fn receive(
        &mut self,
        input: &[u8],
        _: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        self.frames.receive(input, &mut |frame| news(&frame, on))
    }
}

/// Passes on the news of a frame.
fn news(frame: &Frame<'_>, on: &mut dyn FnMut(WatchNews<'_>)) -> Result<(), ProtocolError> {
    let Frame { kind, watcher, place, name, value } = *frame;
    let event = |value| WatchNews::Event { watcher, place: Some(place), key: name, value };
    match kind {
        FrameKind::Put => on(event(Some(value))),
        FrameKind::Delete => on(event(None)),
        FrameKind::Created => on(WatchNews::Created { watcher, place: Some(place) }),
        FrameKind::Progress => on(WatchNews::Progress { watcher: Some(watcher), place }),
        FrameKind::Gone => on(WatchNews::Gone { watcher, place }),
        FrameKind::Pong => {}
        FrameKind::WatchKey | FrameKind::WatchPrefix | FrameKind::AskProgress | FrameKind::Ping => {
            return Err(ProtocolError::new("the server sent a frame of a client"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bakeoff_engine::transport::Target;

    use super::*;
    use crate::Memory;

    fn session() -> CanaryWatchSession {
        CanaryWatchSession::new(&Access {
            name: "canary-1".into(),
            authority: "127.0.0.1:80".into(),
            target: Target { address: ([127, 0, 0, 1], 80).into(), tls: None },
            memory: Memory::default(),
        })
    }

    /// Returns the bytes of a server that accepts watches and then sends these frames.
    fn server(frames: &[Frame<'_>]) -> Vec<u8> {
        let mut bytes = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec();
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        bytes
    }

    /// Returns the news of a session that receives these pieces.
    fn news_of(pieces: &[&[u8]]) -> Result<Vec<String>, String> {
        let (mut session, mut seen, mut out) = (session(), Vec::new(), Vec::new());
        for piece in pieces {
            let mut on = |news: WatchNews<'_>| seen.push(format!("{news:?}"));
            session.receive(piece, &mut out, &mut on).map_err(|error| error.what)?;
        }
        assert!(out.is_empty(), "it answers nothing by itself");
        Ok(seen)
    }

    #[test]
    fn frames_become_news_however_they_are_cut() {
        let put = Frame {
            kind: FrameKind::Put,
            watcher: 3,
            place: 41,
            name: b"bakeoff/1",
            value: b"one",
        };
        let bytes = server(&[
            Frame::bare(FrameKind::Created, 3, 40),
            put,
            Frame { kind: FrameKind::Delete, value: &[], place: 42, ..put },
            Frame::bare(FrameKind::Pong, 0, 0),
            Frame::bare(FrameKind::Progress, 3, 44),
            Frame::bare(FrameKind::Gone, 4, 90),
        ]);
        let whole = news_of(&[&bytes]).unwrap();
        let key = format!("{:?}", b"bakeoff/1");
        assert_eq!(
            whole,
            [
                "Created { watcher: 3, place: Some(40) }".to_owned(),
                format!(
                    "Event {{ watcher: 3, place: Some(41), key: {key}, value: Some({:?}) }}",
                    b"one"
                ),
                format!("Event {{ watcher: 3, place: Some(42), key: {key}, value: None }}"),
                "Progress { watcher: Some(3), place: 44 }".to_owned(),
                "Gone { watcher: 4, place: 90 }".to_owned(),
            ]
        );
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(news_of(&[first, second]).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn requests_are_frames_with_the_place_to_start_after() {
        let (mut session, mut out) = (session(), Vec::new());
        session.open(&mut out);
        assert!(out.starts_with(b"GET /watch HTTP/1.1\r\n"));
        let request = WatcherRequest {
            watcher: 9,
            name: b"bakeoff/",
            is_prefix: true,
            after: 77,
            from: WatchStart::Oldest,
            previous: false,
        };
        out.clear();
        session.watch(&request, &mut out);
        session.watch(&WatcherRequest { is_prefix: false, after: 0, ..request }, &mut out);
        let from = WatchStart::Now;
        session.watch(&WatcherRequest { is_prefix: false, after: 0, from, ..request }, &mut out);
        session.ask_progress(&mut out);
        session.keep_alive(&mut out);
        let mut rest = &out[..];
        let mut sent = Vec::new();
        while let Some((frame, length)) = canary::read(rest).unwrap() {
            sent.push((frame.kind, frame.watcher, frame.place, frame.name));
            rest = &rest[length..];
        }
        assert_eq!(
            sent,
            [
                (FrameKind::WatchPrefix, 9, 77, &b"bakeoff/"[..]),
                (FrameKind::WatchKey, 9, 1, b"bakeoff/"),
                (FrameKind::WatchKey, 9, 0, b"bakeoff/"),
                (FrameKind::AskProgress, 0, 0, b""),
                (FrameKind::Ping, 0, 0, b""),
            ]
        );
    }

    #[test]
    fn malformed_input_is_an_error() {
        let with = |bytes: &[u8]| news_of(&[&server(&[]), bytes]).unwrap_err();
        assert_eq!(with(b"\xff"), "canary: unknown frame 0xff");
        let mut own = Vec::new();
        Frame::bare(FrameKind::Ping, 0, 0).write(&mut own);
        assert_eq!(with(&own), "canary: the server sent a frame of a client");
        let refused = news_of(&[b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]);
        assert!(refused.unwrap_err().contains("answered `HTTP/1.1 404 Not Found` and not 101"));
    }
}
