//! Renders the settings of `bakeoff load` as text.
//!
//! Not here: parsing them (`load_request`).

use bakeoff_core::schedule::Spacing;
use bakeoff_core::study::Stop;
use bakeoff_core::units::{duration_text, harmless, plural, rate_text};

use super::page::Page;
use super::settings::{Course, Settings};

/// Returns requests and load as one line.
pub(super) fn asked_text(settings: &Settings) -> String {
    format!("{}: {}", requests_text(settings), load_text(settings))
}

/// Returns the load as text: `closed load, 64 clients, 10s`.
fn load_text(settings: &Settings) -> String {
    let drive = &settings.drive;
    let rates: Vec<String> = settings.steps().iter().copied().map(rate_text).collect();
    let load = match (settings.arrivals(), settings.rate(), rates.as_slice()) {
        ("closed", ..) => "closed load".to_owned(),
        (arrivals, Some(rate), _) => format!("open load, {} {arrivals}", rate_text(rate)),
        (arrivals, None, _) if settings.ramp().is_some() => {
            let (from, to) = settings.ramp().unwrap_or_default();
            format!("open load, {arrivals}, from {} to {}", rate_text(from), rate_text(to))
        }
        (arrivals, None, []) => format!("open load, {arrivals}"),
        (arrivals, None, rates) => format!("open load, {arrivals}, {}", rates.join(" then ")),
    };
    let mut parts = vec![load, plural(u64::from(drive.clients), "client")];
    if settings.http2 {
        parts.push(format!("HTTP/2 with {} in flight each", drive.in_flight));
    }
    if let Some(path) = &settings.unix_socket {
        parts.push(format!("over the Unix socket {}", harmless(path)));
    }
    if settings.insecure {
        parts.push("certificates not checked".to_owned());
    }
    if !settings.keep_alive() {
        parts.push("a connection for each request".to_owned());
    }
    parts.push(match drive.stop {
        Stop::After(time) if rates.len() > 1 => format!("{} each", duration_text(time)),
        Stop::After(time) => duration_text(time),
        Stop::Operations(count) => plural(count, "request"),
    });
    if !drive.warmup.is_zero() {
        parts.push(format!("after {} of warm-up", duration_text(drive.warmup)));
    }
    let is_poisson = settings.course != Course::Closed && settings.spacing == Spacing::Poisson;
    if is_poisson || settings.is_random {
        parts.push(format!("seed {}", drive.seed));
    }
    parts.join(", ")
}

/// Maximum characters of a URL in a line. The record holds the whole URL.
const URL_MAX: usize = 120;

/// Shortens a URL to [`URL_MAX`] characters.
fn shortened(url: &str) -> String {
    match url.char_indices().nth(URL_MAX) {
        Some((end, _)) => format!("{}…", &url[..end]),
        None => url.to_owned(),
    }
}

/// Returns the method and URL of a single request, or the number of requests.
pub(super) fn requests_text(settings: &Settings) -> String {
    match settings.requests.as_slice() {
        [one] => format!("{} {}", one.method, shortened(&one.url)),
        several if several.iter().any(|request| request.weight > 1) => {
            format!("{} requests by their weights", several.len())
        }
        several => format!("{} requests in turn", several.len()),
    }
}

impl Page {
    /// Adds the requests and the load.
    pub(super) fn opening(&mut self, settings: &Settings) {
        self.bold(&requests_text(settings));
        self.dim(&load_text(settings));
    }
}
