//! The messages of a live page, kept for browsers that come later or read slowly.
//!
//! Each browser's thread reads at its own speed. The run never waits for one, and memory is bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum messages to keep. A browser that lags further behind misses the oldest.
const KEPT_MAX: usize = 20_000;

/// Messages, each a complete server-sent event.
#[derive(Debug, Default)]
pub(super) struct Feed {
    kept: Mutex<FeedState>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct FeedState {
    /// The newest message of each event that later browsers need, by its name.
    opening: Vec<(&'static str, Arc<str>)>,
    messages: VecDeque<Arc<str>>,
    /// Number of the first message in `messages`.
    first: u64,
    closed: bool,
}

/// The outcome of waiting for messages.
pub(super) enum News {
    /// Messages, and the number of the next one.
    Messages(Vec<Arc<str>>, u64),
    /// None came in time.
    Nothing,
    /// All messages were read, and no further one will come.
    Closed,
}

impl Feed {
    fn kept(&self) -> MutexGuard<'_, FeedState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event with its data, which is one line.
    pub(super) fn push(&self, event: &str, data: &serde_json::Value) {
        self.add(&mut self.kept(), framed(event, data));
    }

    /// Adds an event that a later browser receives first. It replaces the one before of the same name.
    pub(super) fn push_opening(&self, event: &'static str, data: &serde_json::Value) {
        let message = framed(event, data);
        let mut kept = self.kept();
        kept.opening.retain(|(name, _)| *name != event);
        kept.opening.push((event, Arc::clone(&message)));
        self.add(&mut kept, message);
    }

    /// Forgets all messages before this event.
    pub(super) fn begin(&self, event: &str, data: &serde_json::Value) {
        let mut kept = self.kept();
        kept.first += kept.messages.len() as u64;
        kept.messages.clear();
        self.add(&mut kept, framed(event, data));
    }

    fn add(&self, kept: &mut FeedState, message: Arc<str>) {
        if kept.messages.len() == KEPT_MAX {
            kept.messages.pop_front();
            kept.first += 1;
        }
        kept.messages.push_back(message);
        self.news.notify_all();
    }

    /// Ends the feed: browsers read what is there, and then their connections close.
    pub(super) fn close(&self) {
        self.kept().closed = true;
        self.news.notify_all();
    }

    /// Returns the messages from number `next` on, or all of them for a browser that has just come. Waits up to
    /// `within` for the first.
    pub(super) fn read(&self, next: Option<u64>, within: Duration) -> News {
        let is_read = |kept: &mut FeedState| {
            let end = kept.first + kept.messages.len() as u64;
            next.is_some_and(|next| next >= end) && !kept.closed
        };
        let waited = self.news.wait_timeout_while(self.kept(), within, is_read);
        let (kept, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return News::Nothing;
        }
        let end = kept.first + kept.messages.len() as u64;
        let seen = next.unwrap_or(0).max(kept.first) - kept.first;
        let opening = kept.opening.iter().map(|(_, message)| message).filter(|_| next.is_none());
        let messages: Vec<Arc<str>> =
            opening.chain(kept.messages.iter().skip(seen as usize)).cloned().collect();
        match messages.is_empty() && next.is_some() {
            true => News::Closed,
            false => News::Messages(messages, end),
        }
    }
}

fn framed(event: &str, data: &serde_json::Value) -> Arc<str> {
    format!("event: {event}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(feed: &Feed, next: Option<u64>) -> (String, Option<u64>) {
        match feed.read(next, Duration::ZERO) {
            News::Messages(messages, end) => (messages.concat(), Some(end)),
            News::Nothing => ("nothing".to_owned(), next),
            News::Closed => ("closed".to_owned(), None),
        }
    }

    #[test]
    fn each_browser_reads_at_its_own_speed() {
        let feed = Feed::default();
        feed.push_opening("run", &json!({"title": "T"}));
        feed.push("second", &json!(1));
        let run = "event: run\ndata: {\"title\":\"T\"}\n\n";
        let (text, early) = read(&feed, None);
        assert_eq!(text, format!("{run}{run}event: second\ndata: 1\n\n"));
        assert_eq!(read(&feed, early), ("nothing".to_owned(), early));
        feed.push("second", &json!(2));
        assert_eq!(read(&feed, early), ("event: second\ndata: 2\n\n".to_owned(), Some(3)));
        // A browser that comes later, or lags behind, starts with the round.
        feed.begin("round", &json!(2));
        let round = "event: round\ndata: 2\n\n".to_owned();
        assert_eq!(read(&feed, None), (format!("{run}{round}"), Some(4)));
        assert_eq!(read(&feed, early), (round, Some(4)));
        feed.close();
        assert_eq!(read(&feed, Some(4)), ("closed".to_owned(), None));
        assert_eq!(read(&feed, None).1, Some(4), "even then the last state can be read");
    }

    #[test]
    fn oldest_messages_go_first() {
        let feed = Feed::default();
        (0..KEPT_MAX + 5).for_each(|number| feed.push("second", &json!(number)));
        let News::Messages(messages, end) = feed.read(Some(0), Duration::ZERO) else {
            panic!("there are messages")
        };
        assert_eq!((messages.len(), end), (KEPT_MAX, KEPT_MAX as u64 + 5));
        assert_eq!(&*messages[0], "event: second\ndata: 5\n\n");
    }
}
