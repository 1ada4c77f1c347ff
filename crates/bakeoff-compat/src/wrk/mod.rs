//! Runs `bakeoff wrk`: wrk's command line, scripts and output, and wrk2's open load, on bakeoff's engine.
//!
//! Scripts depend on wrk's order of steps. The main state resolves the host. Each thread gets a state, `setup` sees it
//! in the main state, and its own `init` runs. Thread 0's `request` is called once and determines the requests per
//! call. Then follow the load, the report, and `done` in the main state.
//!
//! The output differs where wrk's figures mislead: see `notes` and `docs/wrk-and-hey.md`.
//!
//! Not here: the load itself (`http`, `engine`).

mod notes;
mod options;
mod output;
mod pipeline;
mod script;
mod source;
mod spread;
mod units;
mod userdata;

use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::schedule::{RateProfile, Spacing};
use bakeoff_core::study::Stop;
use bakeoff_engine::address::Address;
use bakeoff_engine::peer::Peer;
use bakeoff_engine::tls::TlsOptions;
use bakeoff_engine::works::http::{self, HttpOutcome, Protocol};
use bakeoff_engine::{Connections, Drive, LoadError, Seconds, ports_exhausted};
use mlua::Lua;

use self::options::{Options, WrkCommand};
use self::output::{Figures, SocketErrors, Successes};
use self::script::{Script, ScriptError};
use self::source::{LuaSource, Shape};
use self::spread::Spread;
use self::userdata::ThreadState;
use crate::Console;

/// Longest attempt to learn why a server refuses connections.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

impl From<ScriptError> for LoadError {
    fn from(error: ScriptError) -> Self {
        Self::Input(error.to_string(), None)
    }
}

/// Runs wrk with these arguments.
pub fn run(
    args: &[OsString],
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    let options = match options::parse(args.iter().cloned()) {
        Ok(WrkCommand::Run(options)) => options,
        Ok(WrkCommand::Help) => {
            messages.output(options::USAGE);
            return Ok(ExitCode::SUCCESS);
        }
        Ok(WrkCommand::Version) => {
            messages.output(&version());
            return Ok(ExitCode::SUCCESS);
        }
        Err(problem) => {
            messages.output(options::USAGE);
            return Err(LoadError::Input(problem.to_string(), None));
        }
    };
    if options.version {
        messages.output(&version());
    }
    if let Some((script, why)) = options
        .script
        .as_ref()
        .and_then(|script| Some((script, bakeoff_files::foreign_code(script)?)))
    {
        messages.complain(&format!("script `{}` {why}, and bakeoff executes it", script.display()));
    }
    if let Some(note) = notes::headers(&options) {
        messages.step(&note);
    }
    Run::prepare(*options)?.go(messages, interrupted)
}

fn version() -> String {
    format!("wrk 4.2.0 [epoll] as bakeoff {} speaks it\n", env!("CARGO_PKG_VERSION"))
}

/// A prepared run: every state has run its script, and every thread is set up.
struct Run {
    options: Options,
    main: Script,
    sources: Vec<LuaSource>,
    /// Server address of each thread.
    addresses: Vec<SocketAddr>,
    /// States of the threads, which `done` may still read.
    states: Vec<Lua>,
    shape: Shape,
    fault: source::Fault,
}

impl Run {
    fn prepare(options: Options) -> Result<Self, LoadError> {
        let main = Script::new(&options, None)?;
        let resolved = main.resolve(&options.url).map_err(|error| match options.script {
            Some(_) => error.into(),
            None => LoadError::Unreachable(error.what),
        })?;
        let Some(&first) = resolved.first() else {
            return Err(why_unreachable(&options));
        };
        let fault = source::Fault::default();
        let (mut sources, mut states, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        let mut shape = None;
        for index in 0..options.threads {
            let thread = Arc::new(ThreadState::default());
            let script = Script::new(&options, Some(index))?;
            main.setup(script.begin(&thread)?)?;
            script.init(&options.args)?;
            let shape = match shape {
                Some(shape) => shape,
                None => *shape.insert(shape_of(&script)?),
            };
            states.push(script.lua().clone());
            addresses.push(thread.address().unwrap_or(first));
            sources.push(LuaSource::new(script, shape, thread, fault.clone())?);
        }
        let shape = shape.expect("there is at least one thread");
        if options.rate.is_some() && shape.pipeline > 1 {
            let what = format!("`request` returns {} requests at once", shape.pipeline);
            let hint = "with `-R` each request has its own moment: let it return one";
            return Err(LoadError::input(what, hint));
        }
        Ok(Self { options, main, sources, addresses, states, shape, fault })
    }

    fn go(
        self,
        messages: &mut dyn Console,
        interrupted: &AtomicBool,
    ) -> Result<ExitCode, LoadError> {
        let Self { options, main, sources, addresses, states, shape, fault } = self;
        bakeoff_engine::open_files::raise_for(options.connections)?;
        let peers = peers(&options, &addresses)?;
        let drive = Drive {
            clients: options.connections,
            in_flight: shape.pipeline,
            connections: Connections::Kept,
            arrivals: options
                .rate
                .map(|rate| (RateProfile::Constant { rate: rate as f64 }, Spacing::Constant)),
            spin: Duration::ZERO,
            warmup: Duration::ZERO,
            stop: Stop::After(options.duration),
            timeout: options.timeout,
            seconds: Seconds::Told,
            threads: options.threads,
            seed: 0, // constant arrivals need no random numbers
            first_ticket: 0,
            moments: None,
            share: LoadShare::WHOLE,
            own_operations: None,
        };
        main.flush();
        messages.output(&output::heading(&options));
        let mut sources = sources.into_iter();
        let (outcome, _) = http::drive_sources(
            Protocol::One,
            &peers,
            &drive,
            None,
            &mut |_| Box::new(sources.next().expect("there are as many sources as threads")),
            interrupted,
            &mut |_| {},
        )?;
        let dropped = outcome.measurement.errors_of(ErrorKind::Dropped);
        let figures = figures(&outcome);
        main.flush();
        messages.output(&output::report(&figures, &options));
        for note in notes::notes(&options, &figures, dropped) {
            messages.step(&note);
        }
        let measurement = &outcome.measurement;
        let only_refusals = measurement.answers.statuses.keys().eq([&400]) && !options.url.tls();
        let tls = only_refusals
            .then(|| "every answer was 400: this port may speak TLS, try `https://`".to_owned());
        for what in crate::findings(measurement).chain(tls) {
            messages.step(&format!("note: {what}"));
        }
        if main.defines("done") {
            main.done(&figures)?;
            main.flush();
        }
        drop(states);
        let fault = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        match fault {
            Some(error) => Err(error.into()),
            None if interrupted.load(Ordering::Relaxed) => Err(LoadError::Interrupted),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Examines thread 0's script with the one call of `request` before the run.
fn shape_of(script: &Script) -> Result<Shape, ScriptError> {
    let text = script.request()?;
    let pipeline =
        pipeline::count(&text.as_bytes()).map_err(|broken| script.refuse(&broken.to_string()))?;
    Ok(Shape {
        pipeline,
        dynamic: script.defines("request"),
        delays: script.defines("delay"),
        responds: script.defines("response"),
    })
}

/// Returns the peer of each thread. The engine assigns clients to threads and to peers in the same order, so with
/// equally many peers each thread has its own. As in wrk, certificates are not verified and a name is resolved once.
fn peers(options: &Options, addresses: &[SocketAddr]) -> Result<Vec<Peer>, LoadError> {
    let tls = if options.url.tls() {
        let anybody = TlsOptions { insecure: true, ..TlsOptions::default() };
        Some(http::tls_target(&options.url.host, &anybody.config(Protocol::One)?)?)
    } else {
        None
    };
    let peer = |&at: &SocketAddr| Peer { address: Address::Tcp(at), tls: tls.clone() };
    Ok(addresses.iter().map(peer).collect())
}

/// Connects once more to learn the reason of a failure.
fn why_unreachable(options: &Options) -> LoadError {
    let url = &options.url;
    let port = url.port.unwrap_or(if url.tls() { 443 } else { 80 });
    let mut seen = "it has no address".to_owned();
    for address in (&*url.host, port).to_socket_addrs().into_iter().flatten() {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(_) => seen = "it accepted only the second connection".to_owned(),
            Err(error) => match ports_exhausted(&error) {
                Some(why) => return LoadError::Machine(why),
                None => seen = error.to_string(),
            },
        }
    }
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    LoadError::Unreachable(format!(
        "unable to connect to {host}:{}: {seen}\nhint: check that the server runs and listens \
         there?",
        url.service()
    ))
}

/// Returns the figures as wrk counts them. Answers after the end of the load count neither as requests nor in the
/// rate.
fn figures(outcome: &HttpOutcome) -> Figures {
    let HttpOutcome { measurement, answers } = outcome;
    let total = measurement.total();
    let late = total.verified.saturating_sub(total.verified_in_window);
    let answered: u64 = measurement.answers.statuses.values().sum();
    let errors = |kind| measurement.errors_of(kind);
    Figures {
        runtime: measurement.window,
        complete: answered.saturating_sub(late),
        bytes: measurement.answers.bytes,
        socket_errors: SocketErrors {
            connect: errors(ErrorKind::Refused),
            read: errors(ErrorKind::Reset) + errors(ErrorKind::Protocol),
            write: 0, // broken connections show when reading
            timeout: errors(ErrorKind::Timeout),
        },
        status_errors: errors(ErrorKind::Status),
        successes: Successes {
            rate: measurement.throughput().unwrap_or(0.0),
            latency: Spread::of_latencies(&total.response),
        },
        latency: Spread::of_latencies(&total.answered_and_unanswered()),
        uncorrected: Spread::of_latencies(&total.answered_and_unanswered_service()),
        rates: Spread::of_rates(&answers.rates),
    }
}

/// Returns true if wrk accepts this command line.
#[cfg(test)]
pub(crate) fn reads(words: &[String]) -> bool {
    options::parse(words.iter().map(Into::into)).is_ok()
}
