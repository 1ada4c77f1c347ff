//! The live page of a run: a browser on this machine shows each second of the load, and at the end the report.
//!
//! The page is static; server-sent events bring all that it shows. `docs/live.md` describes them. A browser that comes
//! later gets the events of the round so far. At the end the page becomes the report, so nothing has to be served any
//! more.
//!
//! Not here: the page (`bakeoff_report::live_page`), the connections (`server`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::ranked_latencies::Percentile;
use bakeoff_core::trial_samples::NodeSample;
use bakeoff_install::InstallMessage;
use bakeoff_trial::event::{Event, TrialStarted};
use bakeoff_trial::run::folder::PAGE;
use serde_json::{Value, json};

use super::feed::Feed;
use super::server::{Answer, LoopbackServer};
use super::status::{Status, TrialNow};
use super::verdict::{VerdictSoFar, verdict};
use crate::failure::Failure;

/// Name of the threads that serve the page.
const THREAD: &str = "live";

/// A live page that is being served.
pub(super) struct LivePage {
    feed: Arc<Feed>,
    server: LoopbackServer,
}

impl LivePage {
    /// Serves the page on this port, or on a free one for 0.
    ///
    /// # Errors
    /// Fails if the port is in use.
    pub(super) fn open(port: u16) -> Result<Self, Failure> {
        let feed = Arc::<Feed>::default();
        let events = Arc::clone(&feed);
        let server = LoopbackServer::start(("--live", port), THREAD, move |path| match path {
            "/" => Answer::Text("text/html", bakeoff_report::live_page()),
            "/events" => Answer::Events(Arc::clone(&events)),
            _ => Answer::Absent,
        })?;
        Ok(Self { feed, server })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Sends an event to the browsers. `status` has followed it.
    pub(super) fn report(&mut self, event: &Event<'_>, status: &Status) {
        match event {
            Event::Installing {
                message: InstallMessage::Step(line) | InstallMessage::State(line),
            } => self.feed.push("phase", &json!({ "name": line })),
            Event::BaselineStarted { .. } => {
                self.feed.push("phase", &json!({"name": "measuring the machine baseline"}));
            }
            Event::RunStarted { .. } | Event::RunResumed(_) => {
                let run = json!({
                    "title": status.title, "systems": status.systems, "rounds": status.rounds,
                });
                self.feed.push_opening("run", &run);
                self.show_verdict(status);
            }
            Event::TrialStarted(started) => {
                if started.begins_round {
                    self.feed.begin("round", &json!({"round": started.trial.round + 1}));
                    self.show_verdict(status);
                }
                self.feed.push("trial", &trial_started(started));
            }
            Event::PhaseStarted { name } => self.feed.push("phase", &json!({ "name": name })),
            Event::Filling { written, keys } => {
                let name = format!("filling: {written} of {keys} keys written");
                self.feed.push("phase", &json!({ "name": name }));
            }
            Event::LoadStarted { clients } => {
                self.feed.push("stage", &json!({ "clients": clients }));
            }
            Event::Observed { .. } => {
                if let Some(second) = status.trial.as_ref().and_then(second) {
                    self.feed.push("second", &second);
                }
            }
            Event::TrialFinished { record, left } => {
                let why = record.invalid_because();
                let done = json!({"invalid": why.first(), "left": left.as_secs()});
                self.feed.push("done", &done);
            }
            Event::RunFinished { .. } => self.show_verdict(status),
            _ => {}
        }
    }

    fn show_verdict(&self, status: &Status) {
        let Some(VerdictSoFar { sentences, trials, is_final }) = verdict(&status.folder) else {
            return;
        };
        let verdict = json!({"sentences": sentences, "trials": trials, "provisional": !is_final});
        self.feed.push_opening("verdict", &verdict);
    }

    /// Sends the report, and closes all connections.
    pub(super) fn close(self, status: &Status) {
        let page = status.folder.join(PAGE);
        let report = match status.folder.as_os_str().is_empty() {
            true => None,
            false => bakeoff_files::read_text(&page, PAGE_MAX).ok(),
        };
        let path = report.is_some().then(|| page.display().to_string());
        self.feed.push("end", &json!({ "report": path }));
        if let Some(report) = report {
            self.feed.push("report", &json!(report));
        }
        self.feed.close();
        self.server.drain();
    }
}

/// Most bytes of a page that is sent to a viewer.
const PAGE_MAX: u64 = 256 << 20;

fn trial_started(started: &TrialStarted<'_>) -> Value {
    let TrialStarted { trial, trials, left, .. } = started;
    json!({
        "number": trial.number + 1,
        "of": trials,
        "round": trial.round + 1,
        "system": trial.system,
        "workload": trial.workload,
        "load": trial.load,
        "left": left.as_secs(),
    })
}

/// Returns the last second of a trial's load, as [`bakeoff_engine::LoadProgress`] has it.
fn second(trial: &TrialNow) -> Option<Value> {
    let live = trial.last.as_ref()?;
    Some(json!({
        "trial": trial.number,
        "second": live.second,
        "verified": live.verified,
        "errors": live.errors,
        "p50": percentile(live.p50),
        "p99": percentile(live.p99),
        "nodes": trial.nodes.iter().map(node).collect::<Vec<_>>(),
    }))
}

/// Returns a percentile as text, and in nanoseconds if it is a latency.
fn percentile(of: Percentile) -> Value {
    let ns = of.latency().as_ref().map(Duration::as_nanos).map(|ns| ns as u64);
    json!({"text": of.text(), "ns": ns})
}

fn node(sample: &NodeSample) -> Value {
    json!({
        "name": sample.name,
        "at": sample.at,
        "cpu_seconds": sample.cpu_seconds,
        "cpu_percent": sample.cpu_percent,
        "memory": sample.memory,
    })
}
