//! Runs `bakeoff hey`: hey's command line and hey's output.
//!
//! The load is hey's: a number of workers, each with one request in flight. The output has hey's layout. The
//! percentiles cover all requests instead of the first million. Standard error adds what hey's lines hide, such as the
//! number of failures and the rate of successes. `docs/wrk-and-hey.md` lists every difference.
//!
//! Not here: the flags (`compat::flags`, `options`), the layout (`output`), how requests are sent (`http`).

mod options;
mod output;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::check;
use bakeoff_core::measurement::{ErrorKind, Errors, Measurement};
use bakeoff_core::statuses::Statuses;
use bakeoff_core::study::Stop;
use bakeoff_core::units::latency_text;
use bakeoff_engine::LoadError;
use bakeoff_engine::tls::TlsOptions;
use bakeoff_engine::work::IdleClose;
use bakeoff_engine::works::http::{Answers, Expect, Plan, Protocol, Request, ThinkTime, Url};
use bakeoff_engine::{Connections, Drive};

use super::flags::Unreadable;

use crate::Console;
use crate::NOT_VALID;
use options::{Body, Options, Output, StopRule};
use output::{Answer, Figures};

/// Most answers kept one by one for `-o csv`, as in hey.
const ROWS_MAX: u64 = 1_000_000;

/// Most answers kept for the details of the summary.
const DETAILS_MAX: u64 = 100_000;

/// Stands for "no timeout".
const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Most bytes of a body.
const BODY_MAX: u64 = 1 << 30;

/// Runs `hey` with these arguments.
pub fn run(
    args: &[OsString],
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    let args: Vec<String> = args.iter().map(text).collect::<Result<_, _>>()?;
    let options = match options::parse(&args) {
        Ok(options) => options,
        Err(Unreadable::Help) => {
            messages.output(options::USAGE);
            return Ok(ExitCode::SUCCESS);
        }
        Err(Unreadable::Wrong(what)) => {
            return Err(LoadError::Input(format!("{what}\n\n{}", options::USAGE), None));
        }
    };
    for note in &options.notes {
        messages.complain(note);
    }
    let request = request(&options)?;
    if options.http2 && !request.url.tls {
        messages.complain("-h2 changes nothing for an http URL, as in hey: this is HTTP/1.1");
    }
    let drive = drive(&options)?;
    let plan = plan(&options, request)?;
    let ready = plan.ready(options.keep_alive)?;
    let outcome = ready.drive(&drive, interrupted, &mut |_| {})?;
    Ok(conclude(&options, &outcome.measurement, outcome.answers, messages))
}

fn text(arg: &OsString) -> Result<String, LoadError> {
    let text = arg.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let shown = arg.to_string_lossy();
        LoadError::input(format!("`{shown}` is not UTF-8"), "`-D FILE` sends bytes of any kind")
    })
}

/// Builds the request that all workers repeat.
fn request(options: &Options) -> Result<Request, LoadError> {
    let mut url = Url::parse(&path_encoded(&options.url)).map_err(|what| {
        LoadError::input(format!("invalid URL: {what}"), "write it as `http://host:port/path`")
    })?;
    let mut headers = options.headers.clone();
    let is_authorization = |(name, _): &(String, String)| name == "Authorization";
    let of_environment = super::user_of_environment().map_err(|what| {
        LoadError::input(format!("BAKEOFF_USER: {what}"), "it holds `USER:PASSWORD`")
    })?;
    if let Some((user, password)) = url.user.as_ref().or(of_environment.as_ref())
        && !headers.iter().any(is_authorization)
    {
        let value = options::basic(&format!("{user}:{password}"));
        headers.extend(value.map(|value| ("Authorization".to_owned(), value)));
    }
    if let Some(host) = &options.host {
        url.authority.clone_from(host);
    }
    let body = match &options.body {
        Body::Bytes(bytes) => bytes.clone(),
        Body::File(path) => bakeoff_files::read(path.as_ref(), BODY_MAX).map_err(|error| {
            let what = format!("cannot read the body from `{}`: {error}", path.display());
            LoadError::input(what, "-D takes a file, -d the body itself")
        })?,
    };
    if let Some(authorization) =
        options.proxy.as_ref().and_then(|proxy| proxy.authorization.clone())
    {
        headers.push(("Proxy-Authorization".into(), authorization));
    }
    // With redirects off, a redirect is a success. With redirects on, one that was not followed is a failure.
    let successes = if options.follow_redirects { "200-299,304" } else { "200-399" };
    let statuses =
        Statuses::parse(successes).map_err(|error| LoadError::Input(error.to_string(), None))?;
    Ok(Request {
        method: options.method.clone(),
        headers,
        body,
        expect: Expect { statuses, ..Expect::default() },
        ..Request::get(url)
    })
}

/// Percent-encodes characters that a path may not hold (RFC 3986 section 3.3), as Go does for hey. Leaves the query
/// and existing escapes unchanged.
fn path_encoded(url: &str) -> String {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url.find('#').unwrap_or(url.len());
    let query = url[..end].find('?').unwrap_or(end);
    let Some(path) = url[host.min(query)..query].find('/').map(|at| host + at) else {
        return url.to_owned();
    };
    let mut encoded = url[..path].to_owned();
    for byte in url[path..query].bytes() {
        let stays = byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte);
        match stays {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded + &url[query..]
}

fn plan(options: &Options, request: Request) -> Result<Plan, LoadError> {
    let proxy = options.proxy.as_ref().map(|proxy| {
        Url::parse(&proxy.url).map_err(|what| {
            LoadError::input(format!("-x: {what}"), "give the proxy as `host:port`")
        })
    });
    let proxy = proxy.transpose()?;
    if proxy.is_some() && request.url.tls {
        return Err(LoadError::input(
            "an https URL through a proxy is not supported: it needs a tunnel (CONNECT)",
            "leave out -x, or load the http URL through the proxy",
        ));
    }
    let protocol = match options.http2 && request.url.tls {
        true => Protocol::Two,
        false => Protocol::One,
    };
    Ok(Plan {
        protocol,
        follow_redirects: options.follow_redirects,
        // hey verifies no certificates, and its users' servers often have self-signed ones.
        tls: TlsOptions { insecure: true, ..TlsOptions::default() },
        capture: capture(options),
        idle_close: as_go,
        pace: options.rate.map(|rate| pace(rate, options.workers)),
        proxy,
        ..Plan::new(vec![request])
    })
}

/// Returns how Go's client, and so hey, treats a request whose kept connection was closed. See `shouldRetryRequest`
/// and `isReplayable` in `net/http`.
fn as_go(method: &str) -> IdleClose {
    match method {
        "GET" | "HEAD" | "OPTIONS" | "TRACE" => IdleClose::Reissued,
        _ => IdleClose::Failed,
    }
}

/// Returns the number of answers that each thread keeps. The split of a counted load among threads is not known in
/// advance. Each thread may therefore keep all answers if the total stays below the limit.
fn capture(options: &Options) -> u64 {
    let most = match options.output {
        Output::Csv => ROWS_MAX,
        Output::Summary => DETAILS_MAX,
    };
    match options.until {
        StopRule::Requests(count) if count <= most => count,
        _ => most / u64::from(threads(options).min(options.workers)),
    }
}

fn threads(options: &Options) -> u32 {
    options.threads.unwrap_or_else(bakeoff_engine::open_files::cpus).max(1)
}

fn drive(options: &Options) -> Result<Drive, LoadError> {
    bakeoff_engine::open_files::raise_for(options.workers)?;
    let timeout = options.timeout.unwrap_or(NO_TIMEOUT);
    let count = match options.until {
        StopRule::Requests(count) => count,
        StopRule::Elapsed(_) => u64::MAX,
    };
    Ok(Drive {
        connections: match options.keep_alive {
            true => Connections::Kept,
            false => Connections::OneEach,
        },
        stop: match options.until {
            StopRule::Requests(count) => Stop::Operations(count),
            StopRule::Elapsed(time) => Stop::After(time),
        },
        ..Drive::once(count, options.workers, threads(options), timeout)
    })
}

/// Limits each worker to a rate with a ticker. A late worker continues at once and does not catch up on missed ticks.
fn pace(rate: f64, workers: u32) -> ThinkTime {
    let period = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(NO_TIMEOUT);
    let tickers: Vec<Mutex<Option<Ticker>>> = (0..workers).map(|_| Mutex::new(None)).collect();
    Arc::new(move |worker, now| {
        let Some(ticker) = tickers.get(worker as usize) else { return Duration::ZERO };
        // No code panics while it holds the lock.
        let mut ticker = ticker.lock().unwrap_or_else(PoisonError::into_inner);
        ticker.get_or_insert(Ticker { next: now + period.min(NO_TIMEOUT) }).wait(now, period)
    })
}

/// Time of a worker's next tick.
#[derive(Debug, Clone, Copy)]
struct Ticker {
    next: Instant,
}

impl Ticker {
    /// Returns the wait from `now` to the next tick.
    fn wait(&mut self, now: Instant, period: Duration) -> Duration {
        let wait = self.next.saturating_duration_since(now);
        if wait.is_zero() && !period.is_zero() {
            let missed = now.duration_since(self.next).div_duration_f64(period).floor();
            self.next += period.mul_f64(missed);
        }
        self.next += period;
        wait
    }
}

/// Prints the measurement, and warnings about differences from hey.
fn conclude(
    options: &Options,
    measurement: &Measurement,
    answers: Answers,
    messages: &mut dyn Console,
) -> ExitCode {
    let seen = measurement.answers.statuses.values().sum::<u64>();
    let (rows, figures) = figures(measurement, answers);
    match options.output {
        Output::Summary => messages.output(&output::summary(&figures)),
        Output::Csv => {
            messages.output(&output::csv(&rows));
            if (rows.len() as u64) < seen {
                let kept = rows.len();
                messages.complain(&format!("the csv holds {kept} of {seen} answers"));
            }
        }
    }
    let failures = failures(options.output, measurement);
    failures.iter().for_each(|line| messages.complain(line));
    crate::findings(measurement).for_each(|what| messages.complain(&what));
    if measurement.interrupted {
        return ExitCode::from(LoadError::Interrupted.exit_code());
    }
    let verified = measurement.verified();
    let gave_out = check::gave_out(measurement);
    gave_out.iter().for_each(|why| messages.complain(why));
    if verified == 0 || gave_out.is_some() { ExitCode::from(NOT_VALID) } else { ExitCode::SUCCESS }
}

/// Returns warnings that hey's output omits: the number and kinds of failures, and the figures of the successes.
fn failures(output: Output, measurement: &Measurement) -> Vec<String> {
    let total = measurement.total();
    let failed = total.error_count();
    if failed == 0 {
        return Vec::new();
    }
    let kinds = total.errors.iter();
    let kinds = kinds.map(|(&kind, errors)| format!("{} {}", errors.count, message(kind, errors)));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let all = total.verified + failed;
    let mut lines = vec![match output {
        Output::Summary => {
            let rate = measurement.throughput().unwrap_or(0.0);
            let p99 = total.response.quantile(0.99);
            let p99 =
                p99.map_or("no latency".to_owned(), |p99| format!("p99 {}", latency_text(p99)));
            format!(
                "{failed} of {all} requests failed ({kinds}); `Requests/sec` counts them, as in hey; \
                 successes alone: {rate:.4} requests/sec, {p99}"
            )
        }
        Output::Csv => {
            format!(
                "{failed} of {all} requests failed ({kinds}); those without an answer have no line"
            )
        }
    }];
    let timeouts = total.errors_of(ErrorKind::Timeout);
    if timeouts > 0 && output == Output::Summary {
        lines.push(format!(
            "{timeouts} requests timed out; the latencies include them with the time they waited, where hey \
             leaves them out"
        ));
    }
    lines
}

/// Returns the kept answers one by one, and the figures of all.
fn figures(measurement: &Measurement, answers: Answers) -> (Vec<Answer>, Figures) {
    let total = measurement.total();
    let mut rows: Vec<Answer> = answers
        .results
        .iter()
        .filter(|result| result.status > 0)
        .map(|result| Answer {
            total: result.response,
            // bakeoff resolves names and connects before the load, and sends a request in one piece. The phases that
            // hey distinguishes are one wait here.
            wait: result.response,
            status: result.status,
            offset: result.at,
            ..Answer::default()
        })
        .collect();
    rows.sort_by_key(|row| row.offset + row.total);
    let statuses = measurement.answers.statuses.clone();
    let seconds = measurement.window.as_secs_f64();
    let ended = (total.verified + total.error_count()) as f64;
    let figures = Figures {
        total: measurement.window,
        requests_per_second: if seconds > 0.0 { ended / seconds } else { 0.0 },
        latencies: total.answered_and_unanswered(),
        body_bytes: measurement.answers.body_bytes,
        answers: statuses.values().sum(),
        statuses,
        errors: total
            .errors
            .iter()
            .filter(|(kind, _)| !kind.is_answer())
            .map(|(&kind, errors)| (errors.count, message(kind, errors)))
            .collect(),
        phases: output::phases(&rows),
    };
    (rows, figures)
}

/// Describes a kind of failure with its examples.
fn message(kind: ErrorKind, errors: &Errors) -> String {
    let mut seen: Vec<&str> = errors.examples.iter().map(|example| &*example.what).collect();
    seen.dedup();
    let seen = seen.join("; ").replace(char::is_control, " ");
    match kind.name() {
        name if seen.is_empty() => name.to_owned(),
        name if seen.starts_with(name) => seen,
        name => format!("{name}: {seen}"),
    }
}

/// Returns true if hey accepts this command line.
#[cfg(test)]
pub(crate) fn reads(words: &[String]) -> bool {
    options::parse(words).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_as_go_encodes_them_and_queries_are_not() {
        // hey 0.1.4 was observed to send each of these.
        for (url, sent) in [
            ("http://a/a b", "http://a/a%20b"),
            ("http://a/a%20b", "http://a/a%20b"),
            ("http://a/ä", "http://a/%C3%A4"),
            ("http://a/{b}\"|^\\", "http://a/%7Bb%7D%22%7C%5E%5C"),
            ("http://a/[x]", "http://a/[x]"),
            ("http://a/?q=<x>|^ä", "http://a/?q=<x>|^ä"),
            ("http://a?x=/ä", "http://a?x=/ä"),
            ("http://a", "http://a"),
            ("a/b c", "a/b%20c"),
        ] {
            assert_eq!(path_encoded(url), sent);
        }
    }
    use bakeoff_core::measurement::Example;

    const PERIOD: Duration = Duration::from_millis(10);

    #[test]
    fn worker_waits_for_its_tick_and_does_not_catch_up() {
        let start = bakeoff_clock::now();
        let ms = Duration::from_millis;
        let mut ticker = Ticker { next: start + PERIOD };
        assert_eq!(ticker.wait(start + ms(4), PERIOD), ms(6));
        assert_eq!(ticker.wait(start + ms(12), PERIOD), ms(8));
        assert_eq!(ticker.wait(start + ms(30), PERIOD), ms(0)); // just in time
        assert_eq!(ticker.wait(start + ms(75), PERIOD), ms(0)); // the tick at 40 has passed
        assert_eq!(ticker.wait(start + ms(76), PERIOD), ms(4)); // the ticks at 50, 60 and 70 are skipped
    }

    #[test]
    fn huge_rate_is_unlimited_and_tiny_rate_waits() {
        let now = bakeoff_clock::now();
        assert_eq!(pace(1e300, 1)(0, now), Duration::ZERO);
        assert!(pace(1e-300, 1)(0, now) > Duration::from_secs(86_400 * 365));
        assert_eq!(pace(1.0, 1)(7, now), Duration::ZERO); // no such worker
    }

    #[test]
    fn each_worker_has_its_own_rate_limit() {
        let now = bakeoff_clock::now();
        let pace = pace(100.0, 2);
        assert_eq!(pace(0, now), PERIOD);
        assert_eq!(pace(1, now + PERIOD / 2), PERIOD);
        assert_eq!(pace(0, now + PERIOD), PERIOD);
    }

    #[test]
    fn failure_message_has_kind_and_examples() {
        let check = |kind, what: &[&str], expected: &str| {
            let examples = what.iter().map(|&what| Example {
                at_seconds: 0.0,
                node: String::new(),
                what: what.to_owned(),
            });
            let errors = Errors { count: 9, examples: examples.collect(), ..Errors::default() };
            assert_eq!(message(kind, &errors), expected);
        };
        check(ErrorKind::Status, &["status 503", "status 503"], "status 503");
        check(ErrorKind::Status, &["status 503", "status 500\nx"], "status 503; status 500 x");
        check(ErrorKind::Reset, &["closed"], "reset: closed");
        check(ErrorKind::Timeout, &[], "timeout");
    }
}
