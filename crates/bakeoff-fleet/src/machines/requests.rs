//! The requests of `bakeoff load`, which no study can contain: several at once, with their own bodies, rows and
//! conditions.
//!
//! Requests hold secrets. They are sent to agents and nowhere else, so no type here implements `Debug`.
//!
//! Not here: parsing requests (the binary's `commands::load`), driving them (`generators::http`).

use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::schedule::RateProfile;
use bakeoff_core::template::Table;
use bakeoff_engine::tls::TlsTexts;
use bakeoff_engine::works::http::{Detour, Expect, Plan, Protocol, Ready, Request, Url};
use bakeoff_engine::{LoadError, Seconds};
use serde::{Deserialize, Serialize};

/// Requests, and settings that a study's load lacks.
#[derive(Clone)]
pub struct Requests {
    /// The requests, in order.
    pub plan: Plan,
    /// The plan with resolved and tested servers; `None` on an agent, which does that itself.
    pub ready: Option<Arc<Ready>>,
    /// Busy-wait before each due time.
    pub spin: Duration,
    /// Rate over time, instead of the load's constant rate.
    pub ramp: Option<RateProfile>,
    /// Whether to keep figures of each second for the record.
    pub seconds: Seconds,
}

/// Requests in the form for an agent: contents of files instead of their names.
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

/// A single request.
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
    /// Encodes requests as an order.
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

    /// Decodes the requests.
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
