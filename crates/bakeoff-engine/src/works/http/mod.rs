//! Drives HTTP loads, over HTTP/1.1 or HTTP/2.
//!
//! All HTTP loads share one `Work` (`HttpWork`). Studies, `bakeoff load`, wrk, hey and vault-benchmark differ only in
//! the [`Source`] of their requests.
//!
//! Not here: the loop (`engine`), the wire formats (`bakeoff_wire`), command lines and output.

mod answers;
mod connection;
mod expect;
mod fixed_requests;
mod http_work;
mod placeholders;
mod request;
mod servers;
mod source;
mod streams;
mod template_requests;
mod url;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_core::measurement::Measurement;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::template::Table;

use serde::{Deserialize, Serialize};

use answers::AllAnswers;
pub use answers::Answers;
pub use bakeoff_wire::http1::Response;
pub use bakeoff_wire::http2::Response as StreamResponse;
pub use expect::{Expect, ExpectBody, ExpectError, PLAIN_TEXT_REFUSED, refuses_plain_text};
pub use fixed_requests::ThinkTime;
pub use placeholders::{RequestWords, UnknownWord, WordPlace};
pub use request::{
    HeaderError, METHODS, MethodError, Request, check_headers, is_allowed_in_http2, parse_header,
    parse_method,
};
pub use servers::{Detour, locate, locate_within, tls_target};
pub use source::{
    Batch, Body, HeaderList, JudgeResponses, MakeRequests, OwnFields, RedirectError,
    ResponseVerdict, Source, Stream, TimingSink,
};
pub use url::{Url, UrlError};

use crate::peer::Peer;
use crate::start_barrier::StartBarrier;
use crate::tls::TlsOptions;
use crate::turns::Turns;
use crate::work::IdleClose;
use crate::{Connections, Drive, EngineError, LoadError, LoadProgress};
use fixed_requests::{FixedRequests, Order, Requests, deal};
use http_work::HttpWork;
use template_requests::TemplateRequests;

/// Maximum bytes of a body that is checked, over either version of HTTP.
const BODY_MAX: usize = 1 << 30;
/// Bytes that are kept of a body that is not checked, for the text of a failure.
const BODY_BEGINNING: usize = 16 << 10;

/// Returns the maximum accepted and kept bytes of a body.
fn body_limits(reads_bodies: bool) -> (usize, usize) {
    if reads_bodies { (BODY_MAX, BODY_MAX) } else { (usize::MAX, BODY_BEGINNING) }
}

/// Selects the version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1.
    One,
    /// HTTP/2: by ALPN over TLS, otherwise with prior knowledge.
    Two,
}

/// Describes requests and how to send them.
#[derive(Clone)]
pub struct Plan {
    /// At least one request; weights set how often each is sent.
    pub requests: Vec<Request>,
    /// Version of HTTP.
    pub protocol: Protocol,
    /// True to follow redirects, on the same server and over kept connections.
    pub follow_redirects: bool,
    /// Trusted authorities and client certificate.
    pub tls: TlsOptions,
    /// Number of single results that each thread keeps.
    pub capture: u64,
    /// Decides by method about requests whose connection the server closes before it answers.
    pub idle_close: fn(&str) -> IdleClose,
    /// Pause of clients of a closed load; `None` for no pause.
    pub pace: Option<ThinkTime>,
    /// Proxy to connect to in place of the URLs' servers. It gets absolute URLs.
    pub proxy: Option<Url>,
    /// Other addresses to connect to for some servers. Their names stay the same.
    pub detours: Vec<Detour>,
    /// Values for the requests' words, one row per request in turn.
    pub rows: Arc<Table>,
}

/// Holds the results of a load.
#[derive(Debug)]
pub struct HttpOutcome {
    /// Times and failures.
    pub measurement: Measurement,
    /// Answers other than times.
    pub answers: Answers,
}

/// Holds a plan whose servers have been resolved and accepted a connection.
pub struct Ready {
    plan: Plan,
    requests: Arc<Requests>,
    peers: Vec<Peer>,
    turns: Option<Arc<Turns>>,
}

impl Plan {
    /// Creates a plan of these requests over HTTP/1.1 with default settings.
    pub fn new(requests: Vec<Request>) -> Self {
        Self {
            requests,
            protocol: Protocol::One,
            follow_redirects: false,
            tls: TlsOptions::default(),
            capture: 0,
            idle_close: IdleClose::of_method,
            pace: None,
            proxy: None,
            detours: Vec::new(),
            rows: Arc::default(),
        }
    }

    /// Resolves names and checks that each server accepts a connection. An unusable plan fails here with the reason.
    pub fn ready(self, keep_alive: bool) -> Result<Ready, LoadError> {
        let (servers, server_of_request) = self.servers();
        let any_tls = servers.iter().any(|(url, _)| url.tls);
        let config = any_tls.then(|| self.tls.config(self.protocol)).transpose()?;
        let located = servers.iter().map(|(url, _)| locate(url, config.as_ref(), &self.detours));
        let located = located.collect::<Result<Vec<_>, _>>()?;
        let weights: Vec<u32> = self.requests.iter().map(|request| request.weight).collect();
        let order = deal(&weights);
        let orders = (0..servers.len()).map(|server| {
            let here: Vec<usize> =
                (0..self.requests.len()).filter(|&of| server_of_request[of] == server).collect();
            let weights: Vec<u32> = here.iter().map(|&place| self.requests[place].weight).collect();
            deal(&weights).into_iter().map(|dealt| here[dealt]).collect()
        });
        let weights: Vec<u32> = servers.iter().map(|(_, weight)| *weight).collect();
        // Spreads a server's clients over its addresses.
        let turns = located.iter().map(Vec::len).max().unwrap_or(1);
        let dealt = deal(&weights);
        let server_of: Vec<usize> = std::iter::repeat_n(dealt, turns).flatten().collect();
        let rendered = self.requests.iter().map(|request| {
            let mut bytes = Vec::new();
            let whole = self.proxy.is_some().then(|| request.url.shown());
            request.write_http1(whole.as_deref(), keep_alive, &mut bytes);
            (bytes, request.is_head())
        });
        let idle_closes = self.requests.iter().map(|request| (self.idle_close)(&request.method));
        let requests = Requests {
            rendered: rendered.collect(),
            idle_closes: idle_closes.collect(),
            orders: orders.collect(),
            order,
            server_of: server_of.clone(),
            keep_alive,
            follow_redirects: self.follow_redirects,
            by_proxy: self.proxy.is_some(),
            pace: self.pace.clone(),
            rows: self.rows.clone(),
            all: self.requests.clone(),
        };
        let mut taken = vec![0; located.len()];
        let peers = server_of.into_iter().map(|server| {
            let addresses = &located[server];
            taken[server] += 1;
            addresses[(taken[server] - 1) % addresses.len()].clone()
        });
        let peers = peers.collect();
        drop(servers);
        let leads_to = requests.order.iter().map(|&place| server_of_request[place]).collect();
        let turns = Turns::new(leads_to, &requests.server_of).map(Arc::new);
        Ok(Ready { requests: Arc::new(requests), peers, turns, plan: self })
    }

    /// Returns the servers, each with the weight of its requests, and the server of each request.
    fn servers(&self) -> (Vec<(&Url, u32)>, Vec<usize>) {
        let mut servers: Vec<(&Url, u32)> = Vec::new();
        let mut server_of_request = Vec::new();
        for request in &self.requests {
            let url = self.proxy.as_ref().unwrap_or(&request.url);
            let same = |(known, _): &(&Url, u32)| {
                (known.tls, &known.host, known.port) == (url.tls, &url.host, url.port)
            };
            let place = servers.iter().position(same).unwrap_or_else(|| {
                servers.push((url, 0));
                servers.len() - 1
            });
            servers[place].1 += request.weight;
            server_of_request.push(place);
        }
        (servers, server_of_request)
    }

    /// Returns the number of simultaneous connections. Each client of a closed load has one per server.
    pub fn connections(&self, clients: u32, is_open: bool) -> u32 {
        let each = if is_open { 1 } else { self.servers().0.len() as u32 };
        clients.saturating_mul(each)
    }
}

impl Ready {
    /// Drives a load of the plan's requests.
    pub fn drive(
        &self,
        drive: &Drive,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<HttpOutcome, LoadError> {
        self.drive_together(drive, None, interrupted, progress)
    }

    /// Drives a load that begins at the same time as all loads of `barrier`.
    pub fn drive_together(
        &self,
        drive: &Drive,
        barrier: Option<&StartBarrier>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<HttpOutcome, LoadError> {
        let is_open = drive.arrivals.is_some();
        if is_open {
            self.expect_clients_at_all_servers(drive.clients)?;
        }
        let requests = &self.requests;
        if requests.all.iter().all(|request| request.words.is_none()) {
            let fixed = &|share: LoadShare| -> Box<dyn Source> {
                let order = Order::new(requests, share.index, is_open);
                Box::new(FixedRequests::new(requests.clone(), order))
            };
            return self.drive_plan(drive, barrier, fixed, interrupted, progress);
        }
        let keep_alive = drive.connections == Connections::Kept;
        let messages: Arc<[_]> =
            requests.all.iter().map(|request| request.message(None, keep_alive)).collect();
        let worded = &|share: LoadShare| -> Box<dyn Source> {
            let order = Order::new(requests, share.index, is_open);
            Box::new(TemplateRequests::new(requests.clone(), messages.clone(), order, drive.seed))
        };
        self.drive_plan(drive, barrier, worded, interrupted, progress)
    }

    fn drive_plan(
        &self,
        drive: &Drive,
        barrier: Option<&StartBarrier>,
        source: &dyn Fn(LoadShare) -> Box<dyn Source>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<HttpOutcome, LoadError> {
        let Plan { protocol, capture, .. } = self.plan;
        let cycle = self.requests.order.len() as u64;
        let work = &mut |share, answers| {
            HttpWork::new(source(share), protocol, drive, capture, answers)
                .owned(drive.share, cycle)
                .turning(self.turns.clone())
        };
        let driven = drive_works(&self.peers, drive, barrier, work, interrupted, progress)?;
        Ok(driven.0)
    }

    /// Rejects a load with so few clients that a server gets none.
    fn expect_clients_at_all_servers(&self, clients: u32) -> Result<(), LoadError> {
        let server_of = &self.requests.server_of;
        let first_of = |server| server_of.iter().position(|&one| one == server).unwrap_or(0);
        let last = (0..self.requests.orders.len()).max_by_key(|&server| first_of(server));
        let Some((server, node)) = last.map(|server| (server, first_of(server))) else {
            return Ok(());
        };
        if node < clients as usize {
            return Ok(());
        }
        let url = &self.requests.all[self.requests.orders[server][0]].url;
        Err(LoadError::Input(
            format!(
                "none of {clients} clients falls to `{}://{}`: a client of an open load stays with one server, and \
                 they are shared out by weight",
                url.scheme(),
                url.authority
            ),
            Some(format!("give {} clients or more", node + 1)),
        ))
    }
}

/// Drives a load whose sources make requests as it runs. All loads of `barrier` begin at the same time.
///
/// Over HTTP/1.1 a batch has as many responses as the load has operations in flight. Also returns the number of the
/// first operation that was not started.
pub fn drive_sources(
    protocol: Protocol,
    peers: &[Peer],
    drive: &Drive,
    barrier: Option<&StartBarrier>,
    sources: &mut dyn FnMut(LoadShare) -> Box<dyn Source>,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(HttpOutcome, u64), EngineError> {
    let work = &mut |share, answers| HttpWork::new(sources(share), protocol, drive, 0, answers);
    drive_works(peers, drive, barrier, work, interrupted, progress)
}

/// Drives work over HTTP. The loop is compiled in this crate for all sources, with this crate's optimization.
fn drive_works(
    peers: &[Peer],
    drive: &Drive,
    barrier: Option<&StartBarrier>,
    works: &mut dyn FnMut(LoadShare, Arc<Mutex<AllAnswers>>) -> HttpWork,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(HttpOutcome, u64), EngineError> {
    let all = Arc::new(Mutex::new(AllAnswers::default()));
    let work = |share| works(share, all.clone());
    let driven = crate::drive(peers, drive, barrier, work, interrupted, progress)?;
    let (mut measurement, next) = driven;
    let all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    let AllAnswers { counted, oddities, answers } = all;
    measurement.oddities = oddities.iter().map(|odd| odd.text().to_owned()).collect();
    measurement.answers = counted;
    Ok((HttpOutcome { measurement, answers }, next))
}
