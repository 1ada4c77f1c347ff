//! The requests of `bakeoff load`, which no study can name: several at once, with bodies, rows and conditions of their own.
//!
//! Requests hold secrets. They go over the pipe to an agent and nowhere else: nothing here has `Debug`.
//!
//! Not here: reading requests (the binary's `commands::load`), driving them (`generators::http`).

use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::schedule::RateProfile;
use bakeoff_core::template::Table;
use bakeoff_engine::tls::TlsTexts;
use bakeoff_engine::works::http::{Detour, Expect, Plan, Protocol, Ready, Request, Url};
use bakeoff_engine::{LoadError, Seconds};
use serde::{Deserialize, Serialize};

/// Requests, and what a load cannot say of how they are sent.
#[derive(Clone)]
pub struct Requests {
    /// The requests, in their order.
    pub plan: Plan,
    /// The plan with its servers looked up and reached; an agent does that itself.
    pub ready: Option<Arc<Ready>>,
    /// Time before each due moment in which a thread does not sleep.
    pub spin: Duration,
    /// The rate over time, in place of the load's one rate.
    pub ramp: Option<RateProfile>,
    /// Whether figures of each second are kept for the record.
    pub seconds: Seconds,
}

/// The same as an agent is given it: with what files hold in place of their names.
#[derive(Clone, Serialize, Deserialize)]
pub struct RequestsOrder {
    requests: Vec<RequestOrder>,
    http2: bool,
    tls: TlsTexts,
    detours: Vec<Detour>,
    rows: Table,
    spin: Duration,
    ramp: Option<RateProfile>,
    seconds_kept: bool,
}

/// One of the requests.
#[derive(Clone, Serialize, Deserialize)]
struct RequestOrder {
    name: String,
    method: String,
    url: Url,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunked: bool,
    weight: u32,
    expect: Expect,
    has_words: bool,
}

impl RequestsOrder {
    /// Puts requests into an order.
    ///
    /// # Errors
    /// When a PEM file of the plan cannot be read.
    pub fn new(requests: &Requests) -> Result<Self, LoadError> {
        let Requests { plan, ready: _, spin, ramp, seconds } = requests;
        let request = |request: &Request| RequestOrder {
            name: request.name.clone(),
            method: request.method.clone(),
            url: Url { user: None, ..request.url.clone() }, // it is in a header
            headers: request.headers.clone(),
            body: request.body.clone(),
            chunked: request.chunked,
            weight: request.weight,
            expect: request.expect.clone(),
            has_words: request.words.is_some(),
        };
        Ok(Self {
            requests: plan.requests.iter().map(request).collect(),
            http2: plan.protocol == Protocol::Two,
            tls: plan.tls.read()?,
            detours: plan.detours.clone(),
            rows: (*plan.rows).clone(),
            spin: *spin,
            ramp: ramp.clone(),
            seconds_kept: *seconds == Seconds::Kept,
        })
    }

    /// Returns the requests of the order.
    pub(crate) fn requests(&self) -> Requests {
        let request = |order: &RequestOrder| {
            let mut request = Request {
                name: order.name.clone(),
                method: order.method.clone(),
                headers: order.headers.clone(),
                body: order.body.clone(),
                chunked: order.chunked,
                weight: order.weight,
                expect: order.expect.clone(),
                ..Request::get(order.url.clone())
            };
            if order.has_words {
                request.read_words(&self.rows.columns);
            }
            request
        };
        let plan = Plan {
            protocol: if self.http2 { Protocol::Two } else { Protocol::One },
            tls: self.tls.clone().options(),
            detours: self.detours.clone(),
            rows: self.rows.clone().into(),
            ..Plan::new(self.requests.iter().map(request).collect())
        };
        let seconds = if self.seconds_kept { Seconds::Kept } else { Seconds::Told };
        Requests { plan, ready: None, spin: self.spin, ramp: self.ramp.clone(), seconds }
    }
}
