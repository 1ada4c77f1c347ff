//! Shows a run elsewhere than on the terminal while it lasts: on a live page, and to monitoring systems.
//!
//! All of them read the events that the terminal's reporter reads. [`Status`] keeps what they share. None takes part in
//! a load: an event only appends a line to a list, and threads of their own serve browsers and collectors.
//!
//! Not here: the page itself (`bakeoff_report`), the terminal (`messages`).

mod export;
mod feed;
mod live;
mod metrics;
mod otlp;
mod prometheus;
mod server;
mod status;
mod verdict;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bakeoff_trial::event::{Event, Reporter};

use self::export::Export;
use self::live::LivePage;
use self::otlp::OtlpExporter;
use self::status::Status;
use crate::cli::WatchOptions;
use crate::failure::Failure;
use crate::messages::Messages;

/// Status of a run, which threads of the watchers read.
type SharedStatus = Arc<Mutex<Status>>;

fn locked(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The watchers of a run that the user asked for; often none.
#[derive(Default)]
pub(crate) struct Watchers {
    status: SharedStatus,
    live: Option<LivePage>,
    /// True if metrics are served to scrapers.
    is_scraped: bool,
    exporters: Vec<OtlpExporter>,
}

impl Watchers {
    /// Opens their ports, and prints where they are.
    ///
    /// # Errors
    /// Fails for an invalid option or a port that is in use, before anything is started.
    pub(crate) fn open(options: &WatchOptions, messages: &mut Messages) -> Result<Self, Failure> {
        let exports = options.export.iter().map(|text| Export::parse(text));
        let exports: Vec<Export> = exports.collect::<Result<_, _>>()?;
        let mut watchers = Self::default();
        if let Some(port) = options.live {
            let live = LivePage::open(port)?;
            messages.step(&format!("Live: http://{}/", live.address()));
            watchers.live = Some(live);
        }
        for export in exports {
            match export {
                Export::Prometheus(port) => {
                    let server = prometheus::serve(port, &watchers.status)?;
                    messages.step(&format!("Metrics: http://{}/metrics", server.address()));
                    watchers.is_scraped = true;
                }
                Export::Otlp(url) => watchers.exporters.push(OtlpExporter::start(url)?),
            }
        }
        Ok(watchers)
    }

    fn is_empty(&self) -> bool {
        self.live.is_none() && !self.is_scraped && self.exporters.is_empty()
    }

    /// Receives an event.
    pub(crate) fn report(&mut self, event: &Event<'_>) {
        if self.is_empty() {
            return;
        }
        let status = &mut *locked(&self.status);
        status.take(event);
        if let Some(live) = &mut self.live {
            live.report(event, status);
        }
        if matches!(event, Event::Observed { .. }) {
            let exporters = self.exporters.iter();
            exporters.for_each(|exporter| exporter.export(metrics::metrics(status)));
        }
    }

    /// Returns warnings that were not returned before.
    fn warnings(&self) -> Vec<String> {
        self.exporters.iter().filter_map(OtlpExporter::warning).collect()
    }

    /// Sends the final state, and closes all connections. Waits for a slow browser or collector for a moment only.
    /// Prints the number of failed exports.
    pub(crate) fn close(self, messages: &mut Messages) {
        let failed = self.exporters.into_iter().filter_map(OtlpExporter::close);
        failed.for_each(|failed| messages.complain(&failed));
        if let Some(live) = self.live {
            live.close(&locked(&self.status));
        }
    }
}

/// The terminal and the watchers, which receive the same events.
pub(crate) struct Audience<'a> {
    pub(crate) messages: &'a mut Messages,
    pub(crate) watchers: &'a mut Watchers,
}

impl Reporter for Audience<'_> {
    fn report(&mut self, event: &Event<'_>) {
        self.messages.report(event);
        self.watchers.report(event);
        self.watchers.warnings().iter().for_each(|warning| self.messages.complain(warning));
    }
}
