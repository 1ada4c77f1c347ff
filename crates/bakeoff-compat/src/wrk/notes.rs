//! Writes notes to standard error where bakeoff's figures differ from wrk's, or where wrk's lines hide failures.
//!
//! wrk mixes computed latencies into measured ones, counts failed answers as throughput and drops requests that were
//! never answered. Standard output keeps wrk's lines, because programs parse it.

use std::time::Duration;

use super::options::Options;
use super::output::{Figures, Successes};
use super::units::{fixed, microseconds};

/// Returns the notes for a run. `dropped`: requests of an open load that were due but found no free connection.
pub(super) fn notes(options: &Options, figures: &Figures, dropped: u64) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(format!("note: {text}"));
    if figures.status_errors > 0 {
        let Successes { rate, latency } = &figures.successes;
        let p99 = match latency.count() {
            0 => "no latency".to_owned(),
            _ => format!("p99 {}", microseconds(latency.percentile(99.0) as f64)),
        };
        note(format!(
            "{} of {} answers failed (status not 2xx or 3xx); rate and latencies include them, as in \
             wrk; successes alone: {} requests/sec, {p99}",
            figures.status_errors,
            figures.complete,
            fixed(*rate, 2),
        ));
    }
    let timeouts = figures.socket_errors.timeout;
    if timeouts > 0 {
        note(format!(
            "{timeouts} requests had no answer within {}s ; the latencies include them with the time \
             that they waited; wrk leaves them out, and counts only answers that came late",
            options.timeout.as_secs()
        ));
    }
    if let Some(added) = back_filled(options, figures).filter(|&added| added > 0) {
        note(format!(
            "the {} latencies are as measured; wrk would add {added} computed ones",
            figures.latency.count()
        ));
    }
    if dropped > 0 {
        note(format!(
            "{dropped} requests were due but found no free connection before the end: the server \
             did not keep up with `-R`; the latencies include them"
        ));
    }
    let opened = options.connections - options.connections % options.threads;
    if opened < options.connections {
        note(format!(
            "{} connections are open; wrk would open {opened}, the same number in each thread",
            options.connections
        ));
    }
    notes
}

/// Returns a note on headers that wrk would drop.
pub(super) fn headers(options: &Options) -> Option<String> {
    let dropped = &options.headers_wrk_drops;
    (!dropped.is_empty()).then(|| {
        format!(
            "note: added a space after the colon, without which wrk drops a header: `{}`",
            dropped.join("`, `")
        )
    })
}

/// Returns the number of latencies that wrk would have computed; `None` for wrk2, which computes none.
fn back_filled(options: &Options, figures: &Figures) -> Option<u64> {
    if options.rate.is_some() || figures.runtime == Duration::ZERO {
        return None;
    }
    let of_each = figures.complete / u64::from(options.connections);
    let interval = (figures.runtime.as_micros() as u64).checked_div(of_each)?;
    Some(figures.latency.back_fill(interval))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::options::{self, WrkCommand};
    use super::super::output::SocketErrors;
    use super::*;

    fn message(command: &str, figures: &Figures, dropped: u64) -> String {
        match options::parse(command.split_whitespace().map(OsString::from)) {
            Ok(WrkCommand::Run(options)) => notes(&options, figures, dropped).join("\n"),
            other => panic!("{other:?}"),
        }
    }

    fn figures() -> Figures {
        Figures {
            runtime: Duration::from_secs(1),
            complete: 1000,
            latency: [(1000, 1000)].into_iter().collect(),
            ..Figures::default()
        }
    }

    #[test]
    fn no_notes_without_differences() {
        assert_eq!(message("-c1 -t1 http://h/", &figures(), 0), "");
    }

    #[test]
    fn each_difference_has_a_note() {
        let plain = "-c1 -t1 http://h/";
        let errors = Figures { status_errors: 400, ..figures() };
        assert_eq!(
            message(plain, &errors, 0),
            "note: 400 of 1000 answers failed (status not 2xx or 3xx); rate and latencies include them, as in \
             wrk; successes alone: 0.00 requests/sec, no latency"
        );
        let successes = Successes { rate: 600.0, latency: [(900, 600)].into_iter().collect() };
        let mixed = Figures { status_errors: 400, successes, ..figures() };
        let printed = message(plain, &mixed, 0);
        assert!(printed.ends_with("successes alone: 600.00 requests/sec, p99 0.90ms"), "{printed}");
        let timeout = SocketErrors { timeout: 3, ..SocketErrors::default() };
        let timeouts = Figures { socket_errors: timeout, ..figures() };
        assert!(message(plain, &timeouts, 0).contains("3 requests had no answer within 2s"));
        let slow =
            Figures { latency: [(900, 990), (5_500, 10)].into_iter().collect(), ..figures() };
        assert!(message(plain, &slow, 0).contains("wrk would add 40 computed ones"));
        assert_eq!(message("-c1 -t1 -R10 http://h/", &slow, 0), "", "wrk2 computes none");
        assert!(message("-c1 -t1 -R10 http://h/", &figures(), 7).contains("7 requests were due"));
        assert!(message("-c5 -t2 http://h/", &figures(), 0).contains("wrk would open 4"));
    }
}
