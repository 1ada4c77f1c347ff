//! Sends changes to the watchers of one connection, honestly or with faults. Has no sockets.
//!
//! A watcher is a place in the history, up to which it was served. So a client that reads slowly costs no memory: it
//! lags behind, and the history may lose what it has not received. The server then reports that.
//!
//! Changes are sent by place, and each of them to all watchers. So no watcher waits for another.
//!
//! Not here: the bytes of a frame (`bakeoff_wire::canary`), the history, the choice of faults (`faults`).

use std::time::{Duration, Instant};

use bakeoff_wire::canary::{Frame, FrameKind};

use super::faults::{Dice, Fate, Faults, Kind, Tally};
use super::history::{Change, History};

/// Maximum bytes of unread events of a connection. Beyond that its watchers lag behind.
const UNREAD_MAX: usize = 1 << 20;
/// Maximum watchers of a connection.
const WATCHERS_MAX: usize = 1 << 17;
/// Longest time for which a swapped event waits for the next one.
const SWAP_WITHIN: Duration = Duration::from_millis(100);
/// Number of writes by which an early report of progress runs ahead.
const AHEAD: u64 = 100;
/// Value and end of the key of events that no write explains.
const NEVER_WRITTEN: &[u8] = b"never-written";

/// All watchers of a connection.
#[derive(Debug)]
pub(super) struct WatchStream {
    watchers: Vec<Watcher>,
    /// Place up to which every watcher was served.
    served: u64,
}

#[derive(Debug)]
struct Watcher {
    /// Number, as its client names it.
    number: u32,
    /// Key or prefix.
    name: Box<[u8]>,
    is_prefix: bool,
    /// Place up to which it was served.
    served: u64,
    /// Event that follows the next one.
    held: Option<HeldEvent>,
    /// True if it misses its next event.
    skips: bool,
}

#[derive(Debug)]
struct HeldEvent {
    place: u64,
    frame: Vec<u8>,
    /// Time at which it is sent without a next one.
    until: Instant,
}

/// Describes what remains to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemainingEvents {
    Nothing,
    /// Events that are due then.
    DueAt(Instant),
    /// Events that do not fit, because the client has not read enough.
    NoRoom,
}

/// Draws and counts the faults of events.
pub(super) struct EventFaults<'a> {
    pub(super) faults: &'a Faults,
    pub(super) dice: &'a mut Dice,
    pub(super) tally: &'a mut Tally,
}

impl EventFaults<'_> {
    /// Returns true if a gap in the history is not reported.
    fn hides_gap(&mut self) -> bool {
        let hides = self.dice.falls(self.faults.stale_after_compaction);
        self.tally.gaps_hidden += u64::from(hides);
        hides
    }
}

impl WatchStream {
    /// Begins without watchers, after the newest change.
    pub(super) fn new(history: &History) -> Self {
        Self { watchers: Vec::new(), served: history.newest() }
    }

    /// Executes a client's frame and appends the answer. Returns false if the frame breaks the protocol.
    pub(super) fn execute(
        &mut self,
        frame: &Frame<'_>,
        history: &History,
        faults: &mut EventFaults<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match frame.kind {
            FrameKind::WatchKey | FrameKind::WatchPrefix => {
                if self.watchers.len() >= WATCHERS_MAX {
                    return false;
                }
                self.create(frame, history, faults, out);
            }
            FrameKind::AskProgress => self.report_progress(faults, out),
            FrameKind::Ping => Frame::bare(FrameKind::Pong, 0, 0).write(out),
            _ => return false,
        }
        true
    }

    fn create(
        &mut self,
        frame: &Frame<'_>,
        history: &History,
        faults: &mut EventFaults<'_>,
        out: &mut Vec<u8>,
    ) {
        let Frame { kind, watcher: number, place, name, .. } = *frame;
        let resumes = place > 0;
        let mut served = if resumes { place } else { history.newest() };
        if served.saturating_add(1) < history.first() {
            if !faults.hides_gap() {
                return Frame::bare(FrameKind::Gone, number, history.first()).write(out);
            }
            served = history.first() - 1;
        }
        Frame::bare(FrameKind::Created, number, served).write(out);
        self.served = self.served.min(served);
        self.watchers.push(Watcher {
            number,
            name: name.into(),
            is_prefix: kind == FrameKind::WatchPrefix,
            served,
            held: None,
            skips: resumes && faults.dice.falls(faults.faults.skip_on_resume),
        });
    }

    fn report_progress(&self, faults: &mut EventFaults<'_>, out: &mut Vec<u8>) {
        for watcher in &self.watchers {
            let place = match &watcher.held {
                _ if faults.dice.falls(faults.faults.early_bookmark) => {
                    faults.tally.bookmarks_early += 1;
                    watcher.served.saturating_add(AHEAD)
                }
                Some(held) => held.place - 1,
                None => watcher.served,
            };
            Frame::bare(FrameKind::Progress, watcher.number, place).write(out);
        }
    }

    /// Appends the events that are due, as far as there is room.
    pub(super) fn send(
        &mut self,
        history: &History,
        faults: &mut EventFaults<'_>,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> RemainingEvents {
        self.report_gaps(history, faults, out);
        let late = faults.faults.late_event;
        while let Some(change) = history.get(self.served + 1) {
            let (place, due) = (self.served + 1, change.at + late);
            if !late.is_zero() && due > now {
                return RemainingEvents::DueAt(due);
            }
            for watcher in self.watchers.iter_mut().filter(|watcher| watcher.served < place) {
                if out.len() >= UNREAD_MAX {
                    return RemainingEvents::NoRoom;
                }
                watcher.served = place;
                watcher.send(place, change, faults, now, out);
            }
            self.served = place;
        }
        if faults.faults.swap_events > 0.0 {
            self.release(now, out)
        } else {
            RemainingEvents::Nothing
        }
    }

    /// Ends the watchers that have missed changes, and reports that.
    fn report_gaps(&mut self, history: &History, faults: &mut EventFaults<'_>, out: &mut Vec<u8>) {
        let first = history.first();
        if self.served + 1 >= first {
            return;
        }
        self.served = first - 1;
        self.watchers.retain_mut(|watcher| {
            if watcher.served.saturating_add(1) >= first {
                return true;
            }
            let is_hidden = faults.hides_gap();
            if is_hidden {
                watcher.served = first - 1;
            } else {
                Frame::bare(FrameKind::Gone, watcher.number, first).write(out);
            }
            is_hidden
        });
    }

    /// Appends the events that have waited long enough for a next one.
    fn release(&mut self, now: Instant, out: &mut Vec<u8>) -> RemainingEvents {
        let mut next: Option<Instant> = None;
        for watcher in &mut self.watchers {
            if let Some(held) = watcher.held.take_if(|held| held.until <= now) {
                out.extend(held.frame);
            }
            if let Some(held) = &watcher.held {
                next = Some(next.map_or(held.until, |next| next.min(held.until)));
            }
        }
        next.map_or(RemainingEvents::Nothing, RemainingEvents::DueAt)
    }
}

impl Watcher {
    fn observes(&self, key: &[u8]) -> bool {
        if self.is_prefix { key.starts_with(&self.name) } else { *key == *self.name }
    }

    /// Appends the event of a change if it observes the key.
    fn send(
        &mut self,
        place: u64,
        change: &Change,
        faults: &mut EventFaults<'_>,
        now: Instant,
        out: &mut Vec<u8>,
    ) {
        if !self.observes(&change.key) {
            return;
        }
        let tally = &mut *faults.tally;
        if std::mem::take(&mut self.skips) {
            tally.resumes_skipped += 1;
            return;
        }
        let kind = if change.value.is_some() { FrameKind::Put } else { FrameKind::Delete };
        let value = change.value.as_deref().unwrap_or_default();
        let event = Frame { kind, watcher: self.number, place, name: &change.key, value };
        match faults.dice.fate(Kind::Event) {
            Fate::LoseEvent => {
                tally.events_lost += 1;
                return;
            }
            Fate::SwapEvents if self.held.is_none() => {
                let mut frame = Vec::new();
                event.write(&mut frame);
                self.held = Some(HeldEvent { place, frame, until: now + SWAP_WITHIN });
                return;
            }
            Fate::RepeatEvent => {
                tally.events_repeated += 1;
                event.write(out);
                event.write(out);
            }
            Fate::ForeignEvent => {
                event.write(out);
                self.write_foreign(&event, tally.events_foreign.is_multiple_of(2), out);
                tally.events_foreign += 1;
            }
            _ => event.write(out),
        }
        if let Some(held) = self.held.take() {
            tally.events_swapped += 1;
            out.extend(held.frame);
        }
    }

    /// Appends an event that no write explains, next to an honest one.
    fn write_foreign(&self, event: &Frame<'_>, is_value: bool, out: &mut Vec<u8>) {
        let event = Frame { kind: FrameKind::Put, ..*event };
        if is_value {
            Frame { value: NEVER_WRITTEN, ..event }.write(out);
        } else {
            let name = [&self.name, NEVER_WRITTEN].concat();
            Frame { name: &name, ..event }.write(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bakeoff_clock as clock;
    use bakeoff_wire::canary;

    use super::*;

    /// A connection of watchers and the history that it observes.
    struct Desk {
        history: History,
        stream: WatchStream,
        faults: Faults,
        dice: Dice,
        tally: Tally,
        now: Instant,
        out: Vec<u8>,
    }

    impl Desk {
        fn new(faults: Faults) -> Self {
            Self::with_history(faults, 1 << 20)
        }

        fn with_history(faults: Faults, size_max: usize) -> Self {
            let history = History::after(1, size_max);
            Self {
                stream: WatchStream::new(&history),
                history,
                dice: Dice::new(&faults),
                faults,
                tally: Tally::default(),
                now: clock::now(),
                out: Vec::new(),
            }
        }

        /// Writes keys. The value is the key's place.
        fn write(&mut self, keys: &[&str]) {
            for key in keys {
                let value = (self.history.newest() + 1).to_string();
                self.history.push(key.as_bytes(), Some(Arc::from(value.as_bytes())), self.now);
            }
        }

        fn execute(&mut self, frame: &Frame<'_>) {
            let Self { history, stream, faults, dice, tally, out, .. } = self;
            let mut faults = EventFaults { faults, dice, tally };
            assert!(stream.execute(frame, history, &mut faults, out));
        }

        fn watch(&mut self, kind: FrameKind, watcher: u32, name: &str, after: u64) {
            let (name, value) = (name.as_bytes(), &[][..]);
            self.execute(&Frame { kind, watcher, place: after, name, value });
        }

        fn send(&mut self) -> RemainingEvents {
            let Self { history, stream, faults, dice, tally, now, out } = self;
            stream.send(history, &mut EventFaults { faults, dice, tally }, *now, out)
        }

        /// Sends what is due. Returns all frames since the last call.
        fn frames(&mut self) -> Vec<String> {
            self.send();
            let (mut frames, mut rest) = (Vec::new(), &self.out[..]);
            while let Some((frame, length)) = canary::read(rest).unwrap() {
                let Frame { kind, watcher, place, name, value } = frame;
                let (name, value) = (name.escape_ascii(), value.escape_ascii());
                frames.push(format!("{kind:?} {watcher} {place} {name} {value}").trim().to_owned());
                rest = &rest[length..];
            }
            assert!(rest.is_empty());
            self.out.clear();
            frames
        }
    }

    fn all(share: impl FnOnce(&mut Faults)) -> Faults {
        let mut faults = Faults::default();
        share(&mut faults);
        faults
    }

    #[test]
    fn watchers_receive_the_changes_of_their_keys_in_order() {
        let mut desk = Desk::new(Faults::default());
        desk.write(&["a/1"]);
        desk.watch(FrameKind::WatchPrefix, 7, "a/", 0);
        desk.watch(FrameKind::WatchKey, 8, "a/1", 0);
        assert_eq!(desk.frames(), ["Created 7 2", "Created 8 2"]);
        desk.write(&["a/1", "a/10", "b"]);
        desk.history.push(b"a/1", None, desk.now);
        let expected = [
            "Put 7 3 a/1 3",
            "Put 8 3 a/1 3",
            "Put 7 4 a/10 4",
            "Delete 7 6 a/1",
            "Delete 8 6 a/1",
        ];
        assert_eq!(desk.frames(), expected);
        desk.execute(&Frame::bare(FrameKind::AskProgress, 0, 0));
        assert_eq!(desk.frames(), ["Progress 7 6", "Progress 8 6"]);
        desk.execute(&Frame::bare(FrameKind::Ping, 0, 0));
        assert_eq!(desk.frames(), ["Pong 0 0"]);
    }

    #[test]
    fn watcher_resumes_after_its_place() {
        let mut desk = Desk::new(Faults::default());
        desk.write(&["a", "a", "a"]);
        desk.watch(FrameKind::WatchKey, 0, "a", 3);
        desk.watch(FrameKind::WatchKey, 1, "a", 4);
        desk.watch(FrameKind::WatchKey, 2, "a", 90);
        assert_eq!(desk.frames(), ["Created 0 3", "Created 1 4", "Created 2 90", "Put 0 4 a 4"]);
        desk.write(&["a"]);
        assert_eq!(desk.frames(), ["Put 0 5 a 5", "Put 1 5 a 5"]);
    }

    #[test]
    fn lost_history_is_reported_to_whoever_needs_it() {
        // Room for two changes.
        let mut desk = Desk::with_history(Faults::default(), 200);
        desk.watch(FrameKind::WatchKey, 0, "a", 0);
        desk.write(&["a", "a", "a", "a"]);
        assert_eq!(desk.frames(), ["Created 0 1", "Gone 0 4"]);
        desk.watch(FrameKind::WatchKey, 0, "a", 2);
        desk.watch(FrameKind::WatchKey, 0, "a", 3);
        let expected = ["Gone 0 4", "Created 0 3", "Put 0 4 a 4", "Put 0 5 a 5"];
        assert_eq!(desk.frames(), expected);
    }

    #[test]
    fn slow_client_lags_behind_without_memory() {
        let mut desk = Desk::with_history(Faults::default(), 1 << 30);
        for watcher in 0..3 {
            desk.watch(FrameKind::WatchPrefix, watcher, "", 0);
        }
        let large: Arc<[u8]> = Arc::from(vec![0; 300 << 10]);
        for _ in 0..5 {
            desk.history.push(b"a", Some(Arc::clone(&large)), desk.now);
        }
        let mut sent = Vec::new();
        for _ in 0..3 {
            assert_eq!(desk.send(), RemainingEvents::NoRoom);
            assert!(desk.out.len() < 2 * UNREAD_MAX);
            sent.append(&mut desk.out);
        }
        assert_eq!(desk.send(), RemainingEvents::Nothing);
        sent.append(&mut desk.out);
        desk.out = sent;
        let places = desk.frames().into_iter().filter(|frame| frame.starts_with("Put"));
        let places: Vec<_> = places.map(|frame| frame[4..7].to_owned()).collect();
        let expected = (2..7).flat_map(|place| (0..3).map(move |one| format!("{one} {place}")));
        assert_eq!(places, expected.collect::<Vec<_>>(), "no watcher is served before another");
    }

    #[test]
    fn late_events_wait() {
        let late_event = Duration::from_millis(50);
        let mut desk = Desk::new(Faults { late_event, ..Faults::default() });
        desk.watch(FrameKind::WatchKey, 0, "a", 0);
        desk.write(&["a"]);
        assert_eq!(desk.send(), RemainingEvents::DueAt(desk.now + late_event));
        desk.execute(&Frame::bare(FrameKind::AskProgress, 0, 0));
        assert_eq!(desk.frames(), ["Created 0 1", "Progress 0 1"], "progress is honest");
        desk.now += late_event;
        assert_eq!(desk.frames(), ["Put 0 2 a 2"]);
    }

    #[test]
    fn each_fault_of_events_is_injected_and_counted() {
        let frames_with = |faults: Faults| {
            let mut desk = Desk::new(faults);
            desk.watch(FrameKind::WatchKey, 0, "a", 0);
            desk.write(&["a", "a"]);
            let frames = desk.frames();
            (frames[1..].to_vec(), desk.tally)
        };
        let (frames, tally) = frames_with(all(|faults| faults.lose_event = 1.0));
        assert_eq!((frames.len(), tally.events_lost), (0, 2));
        let (frames, tally) = frames_with(all(|faults| faults.repeat_event = 1.0));
        assert_eq!(frames, ["Put 0 2 a 2", "Put 0 2 a 2", "Put 0 3 a 3", "Put 0 3 a 3"]);
        assert_eq!(tally.events_repeated, 2);
        let (frames, tally) = frames_with(all(|faults| faults.swap_events = 1.0));
        assert_eq!(
            (&*frames, tally.events_swapped),
            (&["Put 0 3 a 3", "Put 0 2 a 2"].map(String::from)[..], 1)
        );
        let (frames, tally) = frames_with(all(|faults| faults.foreign_event = 1.0));
        let expected =
            ["Put 0 2 a 2", "Put 0 2 a never-written", "Put 0 3 a 3", "Put 0 3 anever-written 3"];
        assert_eq!((&*frames, tally.events_foreign), (&expected.map(String::from)[..], 2));
    }

    #[test]
    fn held_event_is_sent_without_a_next_one_and_progress_waits_for_it() {
        let mut desk = Desk::new(all(|faults| faults.swap_events = 1.0));
        desk.watch(FrameKind::WatchKey, 0, "a", 0);
        desk.write(&["a", "b"]);
        assert_eq!(desk.send(), RemainingEvents::DueAt(desk.now + SWAP_WITHIN));
        desk.execute(&Frame::bare(FrameKind::AskProgress, 0, 0));
        assert_eq!(desk.frames(), ["Created 0 1", "Progress 0 1"]);
        desk.now += SWAP_WITHIN;
        assert_eq!(desk.frames(), ["Put 0 2 a 2"]);
        assert_eq!(desk.tally.events_swapped, 0);
    }

    #[test]
    fn faults_of_resumes_and_progress_are_injected_and_counted() {
        let mut desk = Desk::new(all(|faults| faults.skip_on_resume = 1.0));
        desk.write(&["a", "a", "a"]);
        desk.watch(FrameKind::WatchKey, 0, "a", 2);
        desk.watch(FrameKind::WatchKey, 1, "a", 0);
        desk.write(&["a"]);
        let expected = ["Created 0 2", "Created 1 4", "Put 0 4 a 4", "Put 0 5 a 5", "Put 1 5 a 5"];
        assert_eq!(
            (desk.frames(), desk.tally.resumes_skipped),
            (expected.map(String::from).into(), 1)
        );

        let mut desk = Desk::new(all(|faults| faults.early_bookmark = 1.0));
        desk.watch(FrameKind::WatchKey, 0, "a", 0);
        desk.execute(&Frame::bare(FrameKind::AskProgress, 0, 0));
        assert_eq!(desk.frames(), ["Created 0 1", "Progress 0 101"]);
        assert_eq!(desk.tally.bookmarks_early, 1);

        let mut desk = Desk::with_history(all(|faults| faults.stale_after_compaction = 1.0), 200);
        desk.watch(FrameKind::WatchKey, 0, "a", 0);
        desk.write(&["a", "a", "a", "a"]);
        assert_eq!(desk.frames(), ["Created 0 1", "Put 0 4 a 4", "Put 0 5 a 5"]);
        desk.watch(FrameKind::WatchKey, 1, "a", 2);
        assert_eq!(desk.frames(), ["Created 1 3", "Put 1 4 a 4", "Put 1 5 a 5"]);
        assert_eq!(desk.tally.gaps_hidden, 2);
    }

    #[test]
    fn frames_of_a_server_are_refused() {
        let mut desk = Desk::new(Faults::default());
        let Desk { history, stream, faults, dice, tally, out, .. } = &mut desk;
        let mut faults = EventFaults { faults, dice, tally };
        let created = Frame::bare(FrameKind::Created, 0, 0);
        assert!(!stream.execute(&created, history, &mut faults, out));
    }
}
