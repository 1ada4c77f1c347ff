//! Runs `run`: sets the tests up, runs the load, cleans up, and prints the results.
//!
//! Clean-up runs after any failure once an object was made, if the user asked for it. A message lists the objects that
//! stay behind.
//!
//! Not here: options and files (`options`, `config`), the objects of a test (`tests`), reports (`report`).

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use bakeoff_core::check;
use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::study::ERRORS_MAX;
use bakeoff_core::units::{
    count_text, duration_text, figure_text, latency_text, plural, rate_text,
};
use bakeoff_engine::LoadError;
use bakeoff_engine::tls::{Pem, PemText};
use serde_json::json;

use super::cleanup::{CreatedObject, Ledger};
use super::client::{CLEAN_UP_AFTER_SIGNAL, Client};
use super::config::Config;
use super::fields::Environment;
use super::interrupts::Interrupts;
use super::load::{self, Outcome, Settings, TestFigures, WeightedTemplate};
use super::options::{LogLevel, Options, RunFlags};
use super::profiles::Profiles;
use super::report;
use super::request::Draw;
use super::server::{Server, TlsSettings};
use super::tests::{self, Stage, TestType, fresh_name};
use super::trouble::{Kind, Trouble};

use crate::Console;
use crate::NOT_VALID;

/// Path of the audit device that `-audit_path` creates.
const AUDIT: &str = "sys/audit/bench-audit";

/// Largest p99 of the schedule lag before a note appears.
const LATE: Duration = Duration::from_millis(5);

/// A test of the file, ready to be set up.
struct PreparedTest {
    name: String,
    weight: u32,
    /// Mount path, used unless mounts are random.
    mount: String,
    test: Box<dyn TestType>,
}

/// Runs the tests of a file.
pub(super) fn run(
    flags: RunFlags,
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    let (options, config) = flags.resolve(&Environment::of_this_process())?;
    let prepared = prepare(&config)?;
    let variable = |name: &str| std::env::var(name).ok();
    let mut tls = TlsSettings::from_environment(options.ca_pem_file.clone(), variable)?;
    if let Some(identity) = prepared.iter().find_map(|one| one.test.identity()) {
        let pem = |name: &str, text: &str| {
            Pem::Text(PemText { name: name.to_owned(), text: text.to_owned() })
        };
        let certificate = pem("the certificate of the load", &identity.certificate);
        tls.options.cert = Some((certificate, pem("its key", &identity.key)));
    }
    let interrupts = Arc::new(Interrupts::default());
    interrupts.during(interrupted, |_| {
        let mut run = Run { options: &options, messages, interrupts: interrupts.clone() };
        run.go(&prepared, &tls)
    })
}

/// Builds all tests, so that every fault of the file is reported at once.
fn prepare(config: &Config) -> Result<Vec<PreparedTest>, LoadError> {
    let mut all = Vec::new();
    let mut identified = false;
    for test in &config.tests {
        match tests::build(&test.kind, &test.config) {
            Some(built) => {
                if built.identity().is_some() && std::mem::replace(&mut identified, true) {
                    test.diagnostic(
                        "a second test needs a generated client certificate",
                        "all requests share one client certificate: only one `cert_auth` can \
                         omit `certificate`",
                    );
                }
                all.push(PreparedTest {
                    name: test.name.clone(),
                    weight: test.weight,
                    mount: test.mount().to_owned(),
                    test: built,
                });
            }
            None => test.unknown_kind(&tests::names(), tests::ELSEWHERE),
        }
    }
    config.finish()?;
    Ok(all)
}

struct Run<'a> {
    options: &'a Options,
    messages: &'a mut dyn Console,
    interrupts: Arc<Interrupts>,
}

impl Run<'_> {
    fn go(&mut self, prepared: &[PreparedTest], tls: &TlsSettings) -> Result<ExitCode, LoadError> {
        let options = self.options;
        let servers = options.addresses.iter().map(|address| Server::find(address, tls));
        let servers: Vec<Arc<Server>> =
            servers.map(|server| server.map(Arc::new)).collect::<Result<_, _>>()?;
        for server in &servers {
            if let Some(remark) = self.client(server).check_health()? {
                self.log(LogLevel::Warn, &remark);
            }
        }
        let first = servers.first().ok_or_else(|| LoadError::Input("no server".into(), None))?;
        let mut ledger = Ledger::default();
        let loaded = self.set_up(first, prepared, &mut ledger).and_then(|tests| {
            let outcomes = self.load(&servers, tests, tls)?;
            Ok(outcomes)
        });
        let clean = self.clean_up(first, &mut ledger);
        let outcomes = loaded?;
        let notes: Vec<Vec<String>> =
            outcomes.iter().zip(&servers).map(|(outcome, server)| notes(outcome, server)).collect();
        let printed = servers.iter().zip(&outcomes).zip(&notes);
        let reports: Vec<String> = printed
            .map(|((server, outcome), notes)| {
                let (address, annotations) = (&server.address, &options.annotations);
                report::render(address, outcome, annotations, notes, options.report_mode)
            })
            .collect();
        self.log(LogLevel::Info, "benchmark complete");
        self.messages.output(&reports.concat());
        notes.iter().flatten().for_each(|note| self.messages.complain(note));
        Ok(if self.interrupts.count() > 0 {
            ExitCode::from(LoadError::Interrupted.exit_code())
        } else if !clean || outcomes.iter().any(|outcome| !is_valid(&outcome.measurement)) {
            ExitCode::from(NOT_VALID)
        } else {
            ExitCode::SUCCESS
        })
    }

    fn client(&self, server: &Arc<Server>) -> Client {
        let options = self.options;
        Client::new(
            server.clone(),
            options.token.reveal().to_owned(),
            options.namespace.clone().unwrap_or_default(),
            self.interrupts.clone(),
        )
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        if self.options.log_level < level {
            return;
        }
        match level {
            LogLevel::Error => self.messages.complain(&format!("error: {line}")),
            LogLevel::Warn => self.messages.complain(line),
            _ => self.messages.step(line),
        }
    }

    /// Sets up all tests.
    fn set_up(
        &mut self,
        server: &Arc<Server>,
        prepared: &[PreparedTest],
        ledger: &mut Ledger,
    ) -> Result<Vec<WeightedTemplate>, LoadError> {
        let options = self.options;
        let mut client = self.client(server);
        if let Some(path) = &options.audit_path {
            enable_audit(&mut client, path, ledger)?;
        }
        self.log(LogLevel::Info, &format!("setting up {}", tests_text(prepared.len())));
        let mut loaded = Vec::new();
        for PreparedTest { name, weight, mount, test } in prepared {
            self.log(LogLevel::Debug, &format!("setting up `{name}`"));
            let name_on_server = match options.random_mounts {
                true => fresh_name(),
                false => mount.clone(),
            };
            let template = test.set_up(&mut Stage {
                client: &mut client,
                ledger,
                name: name_on_server,
                progress: &mut |line| self.log(LogLevel::Trace, &line),
            });
            let template =
                template.map_err(|trouble| trouble.while_doing(&format!("test `{name}`")))?;
            loaded.push(WeightedTemplate { name: name.clone(), weight: *weight, template });
        }
        if options.debug {
            self.probe(&mut client, &loaded)?;
        }
        Ok(loaded)
    }

    /// Sends each test's request once and logs the status. Hides the answer, which may be a secret.
    fn probe(&mut self, client: &mut Client, loaded: &[WeightedTemplate]) -> Result<(), LoadError> {
        for (ticket, test) in (0..).zip(loaded) {
            let draw = Draw::new(ticket, rand::random());
            let (path, status, bytes) = client.probe(&test.template, &draw)?;
            let (name, method) = (&test.name, test.template.method);
            let line = format!(
                "`{name}`: {method} {path} returned {} with {} bytes",
                load::status_text(status),
                count_text(bytes as u64)
            );
            self.messages.step(&line);
            if status >= 400 {
                let hint = "without -debug the load goes on and counts such answers";
                return Err(LoadError::input(line, hint));
            }
        }
        Ok(())
    }

    fn load(
        &mut self,
        servers: &[Arc<Server>],
        tests: Vec<WeightedTemplate>,
        tls: &TlsSettings,
    ) -> Result<Vec<Outcome>, LoadError> {
        let options = self.options;
        let settings = Settings {
            workers: options.workers,
            rps: options.rps,
            duration: options.duration,
            keep_alive: !options.disable_keep_alive,
            http2: !options.disable_http2,
            seed: rand::random(),
        };
        if !options.annotations.is_empty() {
            // The original makes them labels of a metric for Prometheus.
            let line = "annotations appear only in the output of `-report_mode=json`; there are \
                        no metrics on port 2112";
            self.log(LogLevel::Warn, line);
        }
        let profiles = options
            .pprof_interval
            .map(|interval| Profiles::begin(&servers[0].address, options, tls, interval));
        let profiles = profiles.transpose().unwrap_or_else(|what| {
            self.log(LogLevel::Warn, &what.to_string());
            None
        });
        let length = latency_text(options.duration);
        self.log(LogLevel::Info, &format!("starting the load for {length}"));
        let asked = &self.interrupts.asked;
        let settings = &settings;
        let driven: Vec<Result<Outcome, LoadError>> = match servers {
            [server] => vec![load::drive(server, tests, settings, asked)],
            servers => thread::scope(|scope| {
                let threads: Vec<_> = servers
                    .iter()
                    .map(|server| {
                        let tests = tests.clone();
                        scope.spawn(move || load::drive(server, tests, settings, asked))
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| match thread.join() {
                        Ok(driven) => driven,
                        Err(panic) => std::panic::resume_unwind(panic),
                    })
                    .collect()
            }),
        };
        if let Some(profiles) = profiles {
            let ended = profiles.end();
            self.log(LogLevel::Info, &ended);
        }
        driven.into_iter().collect()
    }

    /// Removes the objects if the user asked for it, and reports those that stay. Returns false if a removal failed.
    fn clean_up(&mut self, server: &Arc<Server>, ledger: &mut Ledger) -> bool {
        if ledger.is_empty() {
            return true;
        }
        if !self.options.cleanup {
            let made = plural(ledger.len() as u64, "object");
            let stays = ledger.shown();
            let what =
                format!("{made} stay on the server: {stays}; `-cleanup` removes what a run makes");
            self.log(LogLevel::Warn, &what);
            return true;
        }
        let within = duration_text(CLEAN_UP_AFTER_SIGNAL);
        let cleaning_up = match self.interrupts.count() {
            0 => "cleaning up".to_owned(),
            _ => format!("cleaning up for at most {within}; another signal ends it at once"),
        };
        self.log(LogLevel::Info, &cleaning_up);
        let mut client = self.client(server).for_clean_up();
        for trouble in ledger.take_away(&mut client) {
            self.messages.complain(&format!("clean-up: {trouble}"));
        }
        if ledger.is_empty() {
            return true;
        }
        let stays = ledger.shown();
        self.messages.complain(&format!("error: left on the server: {stays}"));
        false
    }
}

/// Returns notes on facts that the report leaves out.
fn notes(outcome: &Outcome, server: &Server) -> Vec<String> {
    let mut notes = Vec::new();
    let address = &server.address;
    let measured = &outcome.measurement;
    if outcome.dropped > 0 {
        let planned = outcome.dropped + outcome.tests.iter().map(|t| t.requests).sum::<u64>();
        notes.push(format!(
            "{} of {} requests to `{address}` were due but never sent, because no worker was free; \
             the latencies include their wait, the counts do not. Lower `-rps` or raise \
             `-workers`",
            count_text(outcome.dropped),
            count_text(planned),
        ));
    }
    if let Some(late) = measured.schedule_lag.quantile(0.99).filter(|late| *late > LATE) {
        notes.push(format!(
            "the load generator was late: it sent 1 % of the requests at least {} after they \
             were due",
            latency_text(late)
        ));
    }
    let failed: u64 = outcome.tests.iter().map(|test| test.requests - test.successes).sum();
    if failed > 0 {
        let all: u64 = outcome.tests.iter().map(|test| test.requests).sum();
        let mut kinds: Vec<String> = Vec::new();
        for test in &outcome.tests {
            for (what, count) in &test.errors {
                kinds.push(format!("{} × {what} (`{}`)", count_text(*count), test.name));
            }
        }
        kinds.truncate(10);
        let p99 = measured.total().response.quantile(0.99);
        let successes = p99.map_or_else(String::new, |p99| {
            format!("; p99 of the successes alone: {}", latency_text(p99))
        });
        let first = measured.error_examples().find(|(kind, _)| *kind != ErrorKind::Dropped);
        let first = first.map_or_else(String::new, |(_, example)| {
            format!("; the first, after {:.1} s: {}", example.at_seconds, example.what)
        });
        notes.push(format!(
            "{} of {} requests to `{address}` failed: {}; the latencies include them, as in \
             vault-benchmark{successes}{first}",
            count_text(failed),
            count_text(all),
            kinds.join(", ")
        ));
    }
    notes.extend(outcome.tests.iter().filter_map(|test| rate_of_few(test, address)));
    if let Some(why) = check::gave_out(measured) {
        notes.push(format!("`{address}`: {why}"));
    } else if let Some(share) = measured.stood_still() {
        let longest = measured.stalled().map(|silence| silence.seconds).fold(0.0, f64::max);
        notes.push(format!(
            "`{address}` stalled for {} % of the time: no request succeeded for up to {}",
            figure_text(share * 100.0),
            latency_text(Duration::from_secs_f64(longest))
        ));
    }
    let findings =
        measured.notes_on_the_network().into_iter().chain(check::generator_throttled(measured));
    notes.extend(findings.map(|note| format!("`{address}`: {note}")));
    notes
}

/// Explains a rate that says nothing: all requests were sent before most answers came. The original divides their
/// number by the time from the first to the last one.
fn rate_of_few(test: &TestFigures, address: &str) -> Option<String> {
    let sent = test.last_sent.saturating_sub(test.first_sent);
    let waited = test.last_done.saturating_sub(test.last_sent);
    if test.requests == 0 || sent.is_zero() || sent >= waited {
        return None;
    }
    Some(format!(
        "`{address}`: the rate of `{}`, {}, is of {} that were sent within {}, while the last answer took {} more: it \
         is the rate of sending, and `throughput` that of the answers. Load for longer",
        test.name,
        rate_text(test.requests as f64 / sent.as_secs_f64()),
        plural(test.requests, "request"),
        latency_text(sent),
        latency_text(waited)
    ))
}

/// Returns true if the result is valid by the rules of `bakeoff load`.
fn is_valid(measurement: &Measurement) -> bool {
    let failed = measurement.failed_count() as f64;
    let all = failed + measurement.verified() as f64;
    measurement.verified() > 0
        && check::gave_out(measurement).is_none()
        && failed <= ERRORS_MAX * all
}

fn tests_text(count: usize) -> String {
    if count == 1 { "1 test".to_owned() } else { format!("{count} tests") }
}

/// Makes the server write an audit log.
fn enable_audit(client: &mut Client, path: &str, ledger: &mut Ledger) -> Result<(), Trouble> {
    let made = CreatedObject::At(AUDIT.to_owned());
    ledger.note(made.clone());
    let body = json!({ "type": "file", "options": { "file_path": path } });
    match client.write(AUDIT, &body) {
        Ok(_) => Ok(()),
        Err(trouble) if trouble.kind == Kind::InUse && trouble.repeated => Ok(()),
        Err(trouble) => {
            if trouble.kind.is_refusal() && !trouble.repeated {
                ledger.forget(&made);
            }
            Err(trouble.while_doing("cannot create the audit device"))
        }
    }
}
