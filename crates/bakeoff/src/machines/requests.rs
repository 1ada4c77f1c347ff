//! Loads of requests as generators are given them (`bakeoff load --on`).
//!
//! Requests hold secrets. They go over the pipe to an agent and nowhere else: nothing here has `Debug`.
//!
//! Not here: reading requests (`commands::load`), driving them (`http`).

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_core::schedule::{LoadShare, RateProfile, Spacing};
use bakeoff_core::study::Stop;
use bakeoff_core::template::Table;
use bakeoff_engine::tls::TlsTexts;
use bakeoff_engine::works::http::{Detour, Expect, Plan, Protocol, Request, Url};
use bakeoff_engine::{Connections, Drive, LoadError, Seconds};
use serde::{Deserialize, Serialize};

/// A load of requests, of which a generator drives its share.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct HttpOrder {
    requests: Vec<RequestOrder>,
    http2: bool,
    tls: TlsTexts,
    detours: Vec<Detour>,
    rows: Table,
    /// Clients of all generators together.
    pub(crate) clients: u32,
    in_flight: u32,
    pub(crate) one_each: bool,
    arrivals: Option<(RateProfile, Spacing)>,
    spin: Duration,
    warmup: Duration,
    stop: Stop,
    timeout: Duration,
    seconds_kept: bool,
    threads: u32,
    seed: u64,
    share: LoadShare,
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

/// The answers besides times.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct AnswersTold {
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) bytes_received: u64,
    pub(crate) body_bytes: u64,
}

impl AnswersTold {
    /// Adds what another generator got.
    pub(crate) fn add(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.bytes_received += other.bytes_received;
        self.body_bytes += other.body_bytes;
    }
}

impl HttpOrder {
    /// Puts a plan and how it is driven into an order.
    ///
    /// # Errors
    /// When a PEM file of the plan cannot be read.
    pub(crate) fn new(plan: &Plan, drive: &Drive) -> Result<Self, LoadError> {
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
            clients: drive.clients,
            in_flight: drive.in_flight,
            one_each: drive.connections == Connections::OneEach,
            arrivals: drive.arrivals.clone(),
            spin: drive.spin,
            warmup: drive.warmup,
            stop: drive.stop,
            timeout: drive.timeout,
            seconds_kept: drive.seconds == Seconds::Kept,
            threads: drive.threads,
            seed: drive.seed,
            share: LoadShare::WHOLE,
        })
    }

    /// Returns the order for one share of the load.
    pub(crate) fn of_share(&self, share: LoadShare) -> Self {
        Self { share, ..self.clone() }
    }

    pub(crate) fn plan(&self) -> Plan {
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
        Plan {
            protocol: if self.http2 { Protocol::Two } else { Protocol::One },
            tls: self.tls.clone().options(),
            detours: self.detours.clone(),
            rows: self.rows.clone().into(),
            ..Plan::new(self.requests.iter().map(request).collect())
        }
    }

    pub(crate) fn drive(&self) -> Drive {
        // An open load's requests are dealt by the schedule; those of a closed one that ends by a count are counted.
        let own_operations = match (self.stop, &self.arrivals) {
            (Stop::Operations(count), None) => Some(self.share.count(count)),
            _ => None,
        };
        Drive {
            clients: self.clients,
            in_flight: self.in_flight,
            connections: if self.one_each { Connections::OneEach } else { Connections::Kept },
            arrivals: self.arrivals.clone(),
            spin: self.spin,
            warmup: self.warmup,
            stop: self.stop,
            timeout: self.timeout,
            seconds: if self.seconds_kept { Seconds::Kept } else { Seconds::Told },
            threads: self.threads,
            seed: self.seed,
            first_ticket: 0,
            moments: None,
            share: self.share,
            own_operations,
        }
    }
}
