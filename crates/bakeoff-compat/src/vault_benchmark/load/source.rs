//! Produces the tests' requests, for HTTP/1.1 or HTTP/2.
//!
//! Not here: the choice of the next test and the check of answers ([`Plan`]), sockets and time (`bakeoff_engine`).

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bakeoff_engine::work::{Failure, IdleClose, NotIssued, OperationTiming};
use bakeoff_engine::works::http::{
    Batch, Body, HeaderList, JudgeResponses, MakeRequests, OwnFields, Source, Stream, TimingSink,
};

use super::counts::{Counts, TestCounts};
use super::{Plan, Server};
use crate::vault_benchmark::request::{MessageOne, Pieces, USER_AGENT};

/// Requests of the tests, with their constant parts rendered.
pub(super) struct Templates {
    /// HTTP/1.1 messages.
    messages: Vec<MessageOne>,
    /// Path and body of each test, for HTTP/2.
    pieces: Vec<(Pieces, Pieces)>,
    /// Headers that the HTTP/2 requests of each test share.
    header_lists: Vec<HeaderList>,
}

impl Templates {
    pub(super) fn new(plan: &Plan, server: &Server, keep_alive: bool) -> Self {
        let templates = || plan.tests.iter().map(|test| &test.template);
        let list = |template: &super::Template| {
            let text = str::to_owned;
            let mut list = vec![
                (text(":method"), text(template.method)),
                (text(":scheme"), text("https")),
                (text(":authority"), server.authority.clone()),
                (text("user-agent"), text(USER_AGENT)),
            ];
            let own = template.headers.iter();
            list.extend(own.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
            list
        };
        Self {
            messages: templates()
                .map(|template| MessageOne::new(template, &server.authority, keep_alive))
                .collect(),
            pieces: templates()
                .map(|template| (Pieces::new(&template.path), Pieces::new(&template.body)))
                .collect(),
            header_lists: templates().map(list).collect(),
        }
    }
}

/// Source of one worker thread's requests.
pub(super) struct TestSource {
    plan: Arc<Plan>,
    templates: Arc<Templates>,
    counts: Counts,
    path: Vec<u8>,
    body: Vec<u8>,
}

impl TestSource {
    pub(super) fn new(
        plan: &Arc<Plan>,
        templates: &Arc<Templates>,
        counts: &Arc<Mutex<Vec<TestCounts>>>,
    ) -> Self {
        Self {
            plan: plan.clone(),
            templates: templates.clone(),
            counts: Counts::new(plan.tests.len(), counts),
            path: Vec::new(),
            body: Vec::new(),
        }
    }
}

impl TestSource {
    fn idle_close(&self, test: usize) -> IdleClose {
        IdleClose::of_method(self.plan.tests[test].template.method)
    }
}

impl MakeRequests for TestSource {
    #[inline]
    fn request(
        &mut self,
        _: u32,
        _: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued> {
        let (test, draw) = self.plan.draw(ticket);
        let body = self.templates.messages[test].write(&draw, out);
        self.counts.sent(test, body);
        let idle_close = self.idle_close(test);
        Ok(Batch { operation: test, responses: 1, is_head: false, idle_close })
    }

    fn header_lists(&self, _: usize) -> Vec<Option<HeaderList>> {
        self.templates.header_lists.iter().cloned().map(Some).collect()
    }

    #[inline]
    fn stream(&mut self, _: u32, _: usize, ticket: u64) -> Result<Stream<'_>, NotIssued> {
        let (test, draw) = self.plan.draw(ticket);
        let (path, body) = &self.templates.pieces[test];
        self.path.clear();
        path.write(&draw, &mut self.path);
        self.body.clear();
        body.write(&draw, &mut self.body);
        self.counts.sent(test, self.body.len());
        let idle_close = self.idle_close(test);
        let (path, body) = (Some(&self.path[..]), &self.body[..]);
        Ok(Stream { operation: test, path, fields: OwnFields::default(), body, idle_close })
    }

    fn skip(&mut self, _: usize, ticket: u64) -> Option<usize> {
        Some(self.plan.test_of(ticket))
    }
}

impl JudgeResponses for TestSource {
    fn reads_bodies(&self) -> bool {
        self.plan.tests.iter().any(|test| test.template.holds.is_some())
    }

    #[inline]
    fn judge(&mut self, test: usize, status: u16, body: Body<'_>) -> Result<(), Failure> {
        self.counts.answer(test, status, body.length);
        self.plan.judge(test, status, body.bytes)
    }
}

impl Source for TestSource {
    fn operations(&self) -> Vec<String> {
        self.plan.tests.iter().map(|test| test.name.clone()).collect()
    }

    #[inline]
    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        Some(self)
    }
}

impl TimingSink for TestSource {
    fn begin(&mut self, start: Instant) {
        self.counts.begin(start);
    }

    #[inline]
    fn answered(&mut self, test: usize, moments: &OperationTiming) {
        self.counts.answered(test, moments);
    }

    fn ended(&mut self) {
        self.counts.ended();
    }
}
