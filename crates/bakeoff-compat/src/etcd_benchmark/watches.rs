//! Runs the loads with watchers: `watch`, `watch-latency` and `watch-get`.
//!
//! A stream is a connection of its own, and requests one watcher after the other, as etcd's client does.
//!
//! Not here: events (`event_observer`), puts (`watched_puts`), other loads (`run`).

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::study::Stop;
use bakeoff_core::units::{latency_text, plural, share_text};
use bakeoff_core::watch::{WatchFigures, WatchStart};
use bakeoff_engine::watch::{WatchConnect, WatchParty, WatchSession, WatchSettings};
use bakeoff_engine::works::grpc::{CallSource, CallTargets, drive_calls};
use bakeoff_engine::{Drive, EngineError, LoadError};
use serde_json::json;

use super::calls::{Calls, Mix, Reads};
use super::control::Control;
use super::event_observer::{CREATION, EVENT, EventObserver, NeededEvents};
use super::keys::KeyWriter;
use super::options::{
    Options, RangeContent, RangeEnd, RangeOptions, RangeTransfer, WatchLoad, WatchTask,
};
use super::report::{Distribution, ReportFigures};
use super::run::{self, NamedReport};
use super::seconds::{SecondSink, SecondsByOperation};
use super::supervision::{SetOnDrop, supervise};
use super::watched_puts::{PutCalls, WatchedPuts};
use crate::Console;

/// Creates a watch session with a node: its authority, true if it uses TLS, and the metadata of calls.
pub type WatchSessions = fn(&str, bool, &[(String, String)]) -> Box<dyn WatchSession>;

/// Value of the puts of `watch`.
const VALUE: &[u8] = b"data";
/// Key of the puts of `watch-get`.
const WATCHED_KEY: &[u8] = b"watchkey";
/// Key that `watch-get` reads. It need not exist.
const READ_KEY: &str = "abc";
/// Longest wait for the last events while events still come.
const DRAIN_WITHIN: Duration = Duration::from_secs(600);

/// Watchers with what they observe, and what was driven meanwhile.
struct WatchResult {
    measurement: Measurement,
    observer: EventObserver,
    figures: WatchFigures,
    seconds: SecondsByOperation,
    gave_up: bool,
}

/// Runs a load with watchers, and prints its reports.
pub(super) fn run(
    options: &Options,
    task: &WatchTask,
    targets: &CallTargets,
    sessions: WatchSessions,
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    bakeoff_engine::open_files::raise_for(task.streams)?;
    let seconds: Arc<Mutex<SecondsByOperation>> = Arc::default();
    let sink = || options.sample.then(|| SecondSink::new(&seconds));
    let (puts, needed) = prepared(options, &task.load, targets, interrupted)?;
    let puts = Arc::new(puts);
    let observer = EventObserver::new(&puts, needed, task.watchers, sink());
    let watch = || start(task, targets, sessions, observer, interrupted);
    let patience = options.timeout + targets.connect_within;
    let (ran, watched) = match &task.load {
        WatchLoad::Gets { .. } => {
            let reads = Mix::Reads(Reads::new(&read_range()));
            let sources = &mut |_| -> Box<dyn CallSource> {
                Box::new(Calls::new(reads.clone(), options.command, sink()))
            };
            let once = Drive::once(1, 1, 1, options.timeout);
            let drive = Drive { stop: Stop::After(DRAIN_WITHIN), ..once };
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let watching = scope.spawn(|| {
                    let _end = SetOnDrop(&is_over);
                    watch().map(|party| party.finish(interrupted))
                });
                let ran = supervise(&[interrupted, &is_over], patience, None, |stop, progress| {
                    drive_calls(targets, &drive, sources, stop, progress)
                });
                let watched = watching.join();
                (ran, watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        }
        load => {
            let party = watch()?;
            let (targets, options) = match load {
                WatchLoad::OnePut { .. } => one_at_a_time(targets, options),
                _ => (targets.clone(), options.clone()),
            };
            let sources =
                &mut |_| -> Box<dyn CallSource> { Box::new(PutCalls::new(&puts, sink())) };
            let ran = run::drive(&options, &targets, messages).map(|drive| {
                supervise(&[interrupted], patience, None, |stop, progress| {
                    drive_calls(&targets, &drive, sources, stop, progress)
                })
            });
            let has_run = ran.as_ref().is_ok_and(|ran| ran.load.is_ok());
            let at_once = AtomicBool::new(true);
            let watched = party.finish(if has_run { interrupted } else { &at_once });
            (ran?, Ok(watched))
        }
    };
    let (mut observer, costs) = watched?;
    let (measurement, _) = ran.load?;
    let figures = observer.conclude(costs);
    let seconds = std::mem::take(&mut *seconds.lock().unwrap_or_else(PoisonError::into_inner));
    let was_interrupted = interrupted.load(Ordering::Relaxed);
    let measurement = Measurement {
        interrupted: was_interrupted || ran.gave_up,
        watch: Some(Box::new(figures.clone())),
        ..measurement
    };
    let watched = WatchResult { measurement, observer, figures, seconds, gave_up: ran.gave_up };
    let code = conclude(options, task, &watched, messages)?;
    match was_interrupted && !watched.gave_up {
        true => Ok(ExitCode::from(LoadError::Interrupted.exit_code())),
        false => Ok(code),
    }
}

/// Returns the puts of a load, and the events that each watcher must have.
fn prepared(
    options: &Options,
    load: &WatchLoad,
    targets: &CallTargets,
    interrupted: &AtomicBool,
) -> Result<(WatchedPuts, NeededEvents), LoadError> {
    let random = |size: usize| {
        let mut bytes = vec![0; size];
        rand::fill(&mut bytes[..]);
        bytes
    };
    Ok(match load {
        WatchLoad::Puts { keys, turns } => {
            let writer = KeyWriter::new(keys.clone(), rand::random());
            let name = |turn| {
                let mut name = Vec::new();
                writer.write(turn, &mut name);
                name
            };
            let puts = WatchedPuts::new((0..*turns).map(name).collect(), VALUE.to_vec());
            (puts, NeededEvents::OfPuts)
        }
        WatchLoad::OnePut { key_size, value_size } => {
            (WatchedPuts::new(vec![random(*key_size)], random(*value_size)), NeededEvents::OfPuts)
        }
        WatchLoad::Gets { events } => {
            let control = Control::new(targets, 0, run::call_timeout(options), interrupted);
            let mut first = None;
            for number in 0..*events {
                let revision = control.put(WATCHED_KEY, number.to_string().as_bytes())?;
                first.get_or_insert(revision);
            }
            let after = first.unwrap_or_default().saturating_sub(1);
            let puts = WatchedPuts::new(vec![WATCHED_KEY.to_vec()], Vec::new());
            (puts, NeededEvents::Numbered { count: *events, after })
        }
    })
}

fn read_range() -> RangeOptions {
    RangeOptions {
        key: READ_KEY.to_owned(),
        end: RangeEnd::None,
        serializable: true,
        limit: 0,
        content: RangeContent::Pairs,
        transfer: RangeTransfer::Whole,
    }
}

/// Returns the target and options of puts that wait for each other: one client at one server.
fn one_at_a_time(targets: &CallTargets, options: &Options) -> (CallTargets, Options) {
    let targets = CallTargets {
        peers: targets.peers[..1].to_vec(),
        authorities: targets.authorities[..1].to_vec(),
        ..targets.clone()
    };
    (targets, Options { clients: 1, connections: 1, ..options.clone() })
}

/// Creates all watchers.
fn start(
    task: &WatchTask,
    targets: &CallTargets,
    sessions: WatchSessions,
    observer: EventObserver,
    interrupted: &AtomicBool,
) -> Result<WatchParty<EventObserver>, EngineError> {
    let settings = WatchSettings {
        watchers: task.watchers,
        connections: task.streams,
        from: WatchStart::Now,
        previous: task.previous,
        one_by_one: true,
        progress: Duration::ZERO,
        churn: Duration::ZERO,
        slow: None,
        drain_within: DRAIN_WITHIN,
    };
    let of = targets.clone();
    let connect: WatchConnect = Box::new(move |node| {
        sessions(&of.authorities[node], of.peers[node].tls.is_some(), &of.metadata)
    });
    WatchParty::start(targets.peers.clone(), settings, observer, connect, interrupted)
}

/// Prints the reports, and on standard error what they hide.
fn conclude(
    options: &Options,
    task: &WatchTask,
    watched: &WatchResult,
    messages: &mut dyn Console,
) -> Result<ExitCode, LoadError> {
    let WatchResult { measurement, observer, figures, .. } = watched;
    let mut is_complete = true;
    for report in reports(options, task, watched) {
        is_complete &= run::print_report(&report, options, messages);
    }
    let remarks: Vec<String> = (run::from_due(options, measurement).into_iter())
        .chain(remark(&task.load, observer, figures))
        .collect();
    let events = json!({
        "creation": quantiles(&observer.creations),
        "event_from_sent": quantiles(&observer.from_sent),
        "event_after_acknowledgement": quantiles(&observer.after_acknowledgement),
        "events_before_acknowledgement": observer.before_acknowledgement,
    });
    let is_sound = run::finish(options, measurement, remarks, Some(events), messages)?;
    let counts = &figures.counts;
    let is_whole = counts.delivered == counts.expected && !figures.has_failed();
    Ok(run::exit_code(is_complete && is_sound && is_whole))
}

fn quantiles(latencies: &Latencies) -> serde_json::Value {
    let seconds = |quantile| latencies.quantile(quantile).map(|time| time.as_secs_f64());
    json!({
        "count": latencies.count(),
        "p50_seconds": seconds(0.5),
        "p90_seconds": seconds(0.9),
        "p99_seconds": seconds(0.99),
        "p99.9_seconds": seconds(0.999),
    })
}

/// Returns the reports of a load, with their headings.
fn reports(options: &Options, task: &WatchTask, watched: &WatchResult) -> Vec<NamedReport> {
    let WatchResult { measurement, observer, figures, seconds, .. } = watched;
    let of = |name: &str, heading, figures| NamedReport { name: name.to_owned(), heading, figures };
    let points = |place| {
        let seconds = seconds.get(&place).into_iter().flatten();
        options.sample.then(|| seconds.map(|(&second, &point)| (second, point)).collect())
    };
    let missing = figures.counts.expected - figures.counts.delivered;
    let events = || ReportFigures {
        times: Distribution::new(observer.from_sent.recorded()),
        total: measurement.window.max(observer.receiving_time()),
        seconds: points(EVENT),
        errors: (missing > 0)
            .then(|| (missing, "the event of an acknowledged put never came".to_owned()))
            .into_iter()
            .collect(),
    };
    let driven = |operation| run::figures(options, measurement, operation, seconds.get(&0));
    match task.load {
        WatchLoad::Puts { .. } => {
            let creations = ReportFigures {
                times: Distribution::new(observer.creations.recorded()),
                total: figures.setup,
                seconds: points(CREATION),
                errors: Vec::new(),
            };
            vec![
                of("watch-make", "Watch creation summary:\n", creations),
                of("watch-put", "Watch events received summary:\n", events()),
            ]
        }
        WatchLoad::OnePut { .. } => vec![
            of("watch-latency-put", "\nPut summary:\n", driven("put")),
            of("watch-latency-watch", "\nWatch events summary:\n", events()),
        ],
        WatchLoad::Gets { .. } => {
            vec![of("watch-get", "Get during watch summary:\n", driven("watch-get"))]
        }
    }
}

/// Describes the events in a sentence.
fn remark(load: &WatchLoad, observer: &EventObserver, figures: &WatchFigures) -> Option<String> {
    let counts = &figures.counts;
    let received = plural(counts.delivered, "event");
    let watchers = plural(figures.watchers.into(), "watcher");
    if let WatchLoad::Gets { .. } = load {
        let took = latency_text(figures.setup);
        return Some(format!("{watchers} existed after {took} and received {received}"));
    }
    let after = &observer.after_acknowledgement;
    let [median, p99] = [0.5, 0.99]
        .map(|quantile| after.quantile(quantile).map_or("unknown".to_owned(), latency_text));
    let all = observer.from_sent.count();
    let before = observer.before_acknowledgement;
    (all > 0).then(|| {
        let early = share_text(before as f64 / all as f64);
        format!(
            "{watchers} received {received}, timed from when their put was sent; {early} came before its \
             acknowledgement, the others after it: median {median}, p99 {p99}"
        )
    })
}
