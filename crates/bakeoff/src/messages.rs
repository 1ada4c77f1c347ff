//! The only place that prints.
//!
//! What was asked for goes to standard output and nothing else does; progress, complaints and
//! errors go to standard error. On a terminal progress is one line that changes; elsewhere it is
//! plain lines without escape codes, one when something begins or ends. Output that nobody reads
//! any more (`| head`) is no error.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_compat::Console;
use bakeoff_core::plan::Trial;
use bakeoff_core::ranked::Place;
use bakeoff_core::record::{Outcome, TrialRecord};
use bakeoff_core::search::Found;
use bakeoff_core::units::{count_text, rate_text};
use bakeoff_engine::Live;
use bakeoff_report::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Seconds of load between two lines of progress where there is no terminal.
const PLAIN_LINE_EVERY: u32 = 10;

/// Prints, to the right place, in the right form.
pub(crate) struct Messages {
    bar: Option<ProgressBar>,
    prefix: String,
    /// When the run is expected to end, and what it found so far.
    outlook: Arc<Mutex<Option<Outlook>>>,
}

/// What the second line of a run's progress says.
struct Outlook {
    ends: Instant,
    found: Option<String>,
}

impl Outlook {
    /// In this many columns.
    fn line(&self, width: usize) -> String {
        let left = self.ends.saturating_duration_since(clock::now());
        let found = self.found.as_deref().unwrap_or("nothing found yet");
        let line = format!("  about {} left · {found}", left_text(left));
        match line.char_indices().nth(width.saturating_sub(1)) {
            Some((end, _)) if line.chars().count() > width => format!("{}…", &line[..end]),
            _ => line,
        }
    }
}

/// `1 min 25 s`, in steps that an estimate can bear.
pub(crate) fn left_text(left: Duration) -> String {
    match left.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 600 => format!("{} min {} s", seconds / 60, seconds % 60 / 5 * 5),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

impl Messages {
    /// Progress on standard error, live if that is a terminal.
    pub(crate) fn new() -> Self {
        let outlook = Arc::<Mutex<Option<Outlook>>>::default();
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}{outlook}") {
                let outlook = Arc::clone(&outlook);
                // Asked at every tick, so that the time left goes down while nothing else is said.
                bar.set_style(style.with_key(
                    "outlook",
                    move |_: &ProgressState, to: &mut dyn fmt::Write| {
                        let outlook = outlook.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(outlook) = &*outlook {
                            let width = rustix::termios::tcgetwinsize(io::stderr());
                            let width = width.map_or(80, |size| usize::from(size.ws_col.max(20)));
                            write!(to, "\n{}", outlook.line(width)).ok();
                        }
                    },
                ));
            }
            bar
        });
        Self { bar, prefix: String::new(), outlook }
    }

    /// Prints what was asked for.
    pub(crate) fn output(&self, text: &str) {
        let mut out = io::stdout().lock();
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        write!(out, "{text}{newline}").and_then(|()| out.flush()).ok();
    }

    /// Something was begun or done that is worth a line.
    pub(crate) fn step(&mut self, line: &str) {
        self.line(line);
    }

    /// A trial begins, one of so many; this one and those after it may take `left`, and `found` is
    /// what those before it showed.
    pub(crate) fn trial_begins(
        &mut self,
        trial: &Trial,
        of: usize,
        left: Duration,
        found: Option<String>,
    ) {
        let Trial { number, system, workload, load, .. } = trial;
        self.look_out(Some(Outlook { ends: clock::now() + left, found }));
        self.prefix = format!("[{}/{of}] {system} · {workload} · {load}", number + 1);
        match &self.bar {
            Some(bar) => {
                bar.enable_steady_tick(Duration::from_millis(120));
                bar.set_message(self.prefix.clone());
            }
            None => self.line(&self.prefix.clone()),
        }
    }

    fn look_out(&self, outlook: Option<Outlook>) {
        *self.outlook.lock().unwrap_or_else(PoisonError::into_inner) = outlook;
    }

    /// What a trial does now.
    pub(crate) fn phase(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {what}", self.prefix));
        }
    }

    /// A trial's clients work.
    pub(crate) fn loading(&mut self, clients: u32, live: Option<&Live>) {
        let clients_text =
            if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
        let said = live.map(|live| {
            // A second of a slow load has too few operations for a p99.
            let latency = match live.p99 {
                Place::TooFew { .. } => format!(", p50 {}", live.p50.text()),
                // Of writes and reads that are driven apart.
                Place::Nothing => String::new(),
                p99 => format!(", p99 {}", p99.text()),
            };
            let errors = match live.errors {
                0 => String::new(),
                errors => format!(", {} errors/s", count_text(errors)),
            };
            format!(", {} s: {}/s{latency}{errors}", live.second + 1, count_text(live.verified))
        });
        let said = format!("{clients_text}{}", said.unwrap_or_default());
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {said}", self.prefix)),
            // Long stages show that they live, and how they go, without filling a log.
            None if live.is_some_and(|live| (live.second + 1) % PLAIN_LINE_EVERY == 0) => {
                self.line(&format!("      {said}"));
            }
            None => {}
        }
    }

    /// A trial has ended; those after it may take `left`.
    pub(crate) fn trial_ended(&mut self, record: &TrialRecord, left: Duration) {
        let invalid = record.invalid_because();
        let said = match (&record.outcome, invalid.first()) {
            (Outcome::Interrupted, _) => "interrupted".to_owned(),
            (_, Some(why)) => format!("not valid: {}", short(why)),
            (Outcome::Completed | Outcome::Failed(_), None) => figures(record),
        };
        let line = match &self.bar {
            Some(_) => format!("{}: {said}", self.prefix),
            None if left.is_zero() => format!("      {said}"),
            None => format!("      {said} (about {} left)", left_text(left)),
        };
        self.line(&line);
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.set_message("");
        }
    }

    /// Whether there is a line that changes, so that what is done now needs no lines of its own.
    pub(crate) fn is_live(&self) -> bool {
        self.bar.is_some()
    }

    /// A load of URLs begins.
    pub(crate) fn load_begins(&mut self, what: &str) {
        self.prefix = what.to_owned();
        if let Some(bar) = &self.bar {
            bar.enable_steady_tick(Duration::from_millis(120));
            bar.set_message(self.prefix.clone());
        }
    }

    /// A load of URLs has gone on for another second.
    pub(crate) fn load_goes_on(&mut self, live: &Live) {
        let errors = match live.errors {
            0 => "no errors".to_owned(),
            errors => format!("{} errors/s", count_text(errors)),
        };
        let said = format!(
            "{} s: {}/s, p50 {}, p99 {}, {errors}, generator at {:.0} % of its CPU",
            live.second + 1,
            count_text(live.verified),
            live.p50.text(),
            live.p99.text(),
            live.busy * 100.0
        );
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {said}", self.prefix)),
            None if (live.second + 1).is_multiple_of(PLAIN_LINE_EVERY) => {
                self.line(&format!("      {said}"))
            }
            None => {}
        }
    }

    /// A load of URLs has ended.
    pub(crate) fn load_ended(&mut self) {
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.set_message("");
        }
    }

    /// Something went wrong that does not end the run.
    pub(crate) fn complain(&mut self, what: &str) {
        let mark = if what.starts_with("error: ") { "" } else { "warning: " };
        self.line(&format!("{mark}{what}"));
    }

    /// Ends the live line.
    pub(crate) fn finish(&mut self) {
        self.look_out(None);
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| writeln!(io::stderr(), "{line}").ok()),
            None => writeln!(io::stderr(), "{line}").ok(),
        };
    }
}

impl Console for Messages {
    fn output(&self, text: &str) {
        Messages::output(self, text);
    }

    fn step(&mut self, line: &str) {
        Messages::step(self, line);
    }

    fn complain(&mut self, what: &str) {
        Messages::complain(self, what);
    }
}

/// What bakeoff says last when it could not do what was asked.
pub(crate) fn failure(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}

/// How tables on standard output may look.
pub(crate) fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    Style { width: width.filter(|&columns| terminal && columns > 0), colour }
}

fn figures(record: &TrialRecord) -> String {
    let Some(measurement) = record.measurement() else { return "nothing was measured".to_owned() };
    let rate = measurement.throughput().map_or(0, |rate| rate.round() as u64);
    let p99 = measurement.total().responses().percentile(0.99).text();
    let errors = match measurement.error_count() {
        0 => "no errors".to_owned(),
        errors => format!("{} errors", count_text(errors)),
    };
    let found = match record.found {
        Some(Found::Rate(rate)) => format!("the highest rate is {}: ", rate_text(rate)),
        Some(Found::NoLimit(rate)) => format!("the highest rate is beyond {}: ", rate_text(rate)),
        Some(Found::Nothing(rate)) => {
            return format!("no rate kept the objective, down to {}", rate_text(rate));
        }
        Some(Found::Unsteady(_) | Found::OutOfTime(_)) | None => String::new(),
    };
    format!("{found}{}/s, p99 {p99}, {errors}", count_text(rate))
}

fn short(text: &str) -> String {
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(160).collect();
    if characters.next().is_some() { format!("{start}…") } else { start }
}
