//! The load over HTTP/1.1: a connection a worker.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bakeoff_engine::work::Moments;
use bakeoff_engine::works::http::{Abort, Batch, Judged, Response, Source};

use super::counts::{Counts, TestCounts};
use super::{Plan, Server};
use crate::vault_benchmark::request::MessageOne;

/// The tests' messages, rendered as far as they can be.
pub(super) fn messages(plan: &Plan, server: &Server, keep_alive: bool) -> Arc<Vec<MessageOne>> {
    let rendered = plan
        .tests
        .iter()
        .map(|test| MessageOne::new(&test.template, &server.authority, keep_alive));
    Arc::new(rendered.collect())
}

/// Where one worker thread's requests come from.
pub(super) struct OneSource {
    plan: Arc<Plan>,
    messages: Arc<Vec<MessageOne>>,
    counts: Counts,
    /// The test of the request that each client has under way.
    under_way: Vec<usize>,
}

impl OneSource {
    pub(super) fn new(
        plan: &Arc<Plan>,
        messages: &Arc<Vec<MessageOne>>,
        counts: &Arc<Mutex<Vec<TestCounts>>>,
        clients: usize,
    ) -> Self {
        Self {
            plan: plan.clone(),
            messages: messages.clone(),
            counts: Counts::new(plan.tests.len(), counts),
            under_way: vec![0; clients],
        }
    }
}

impl Source for OneSource {
    #[inline]
    fn request(
        &mut self,
        client: u32,
        _: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, Abort> {
        let (test, draw) = self.plan.draw(ticket);
        let body = self.messages[test].write(&draw, out);
        self.counts.sent(test, body);
        self.under_way[client as usize] = test;
        Ok(Batch { operation: test, responses: 1, is_head: false })
    }

    #[inline]
    fn response(&mut self, operation: usize, response: &Response<'_>) -> Judged {
        self.counts.answer(operation, response.status, response.body.len());
        match self.plan.judge(operation, response.status, response.body) {
            Ok(()) => Judged::Success,
            Err(failure) => Judged::Failure(failure),
        }
    }

    fn operation(&self, _: usize, ticket: u64) -> usize {
        self.plan.test_of(ticket)
    }

    fn begin(&mut self, start: Instant) {
        self.counts.begin(start);
    }

    #[inline]
    fn answered(&mut self, client: u32, moments: &Moments) {
        self.counts.answered(self.under_way[client as usize], moments);
    }

    fn ended(&mut self) {
        self.counts.ended();
    }
}
