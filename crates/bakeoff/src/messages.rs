//! The only place that prints.
//!
//! Results go to standard output and nothing else does; progress, complaints and
//! errors go to standard error. On a terminal progress is one line that changes; elsewhere it is
//! plain lines without escape codes, one when something begins or ends. Output that nobody reads
//! any more (`| head`) is no error.

mod glyphs;
mod sentences;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_compat::Console;
use bakeoff_core::plan::Trial;
use bakeoff_core::record::TrialRecord;
use bakeoff_core::repeat;
use bakeoff_core::units::{count_text, harmless_json, is_harmful, plural};
use bakeoff_engine::Live;
use bakeoff_report::Style;
use bakeoff_report::ci::github;
use bakeoff_trial::event::{Event, Reporter, TrialStarted};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

pub(crate) use self::glyphs::{Glyphs, glyphs};
use self::sentences::left_text;

/// Seconds of load between two lines of progress where there is no terminal.
const PLAIN_LINE_EVERY: u32 = 10;

/// Prints, to the right place, in the right form.
pub(crate) struct Messages {
    bar: Option<ProgressBar>,
    prefix: String,
    /// The expected end of the run, and its findings so far.
    outlook: Arc<Mutex<Option<Outlook>>>,
}

/// The second line of a run's progress.
struct Outlook {
    ends: Instant,
    found: Option<String>,
}

impl Outlook {
    /// In this many columns.
    fn line(&self, width: usize) -> String {
        let left = self.ends.saturating_duration_since(clock::now());
        let found = self.found.as_deref().unwrap_or("nothing found yet");
        let line = format!("  about {} left · {}", left_text(left), safe(found));
        match line.char_indices().nth(width.saturating_sub(1)) {
            Some((end, _)) if line.chars().count() > width => format!("{}…", &line[..end]),
            _ => line,
        }
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
        output(text);
    }

    /// Prints a line of its own.
    pub(crate) fn step(&mut self, line: &str) {
        self.line(line);
    }

    fn trial_started(&mut self, started: &TrialStarted<'_>) {
        let TrialStarted { trial, trials, left, found, .. } = *started;
        if let Some(found) = found.filter(|_| started.begins_round && self.bar.is_none()) {
            self.line(&format!("      {found}"));
        }
        let found = found.map(str::to_owned);
        self.look_out(Some(Outlook { ends: clock::now() + left, found }));
        let Trial { number, system, workload, load, .. } = trial;
        self.prefix = format!("[{}/{trials}] {system} · {workload} · {load}", number + 1);
        match &self.bar {
            Some(bar) => {
                bar.enable_steady_tick(Duration::from_millis(120));
                bar.set_message(safe(&self.prefix).into_owned());
            }
            None => self.line(&self.prefix),
        }
    }

    fn look_out(&self, outlook: Option<Outlook>) {
        *self.outlook.lock().unwrap_or_else(PoisonError::into_inner) = outlook;
    }

    fn phase_started(&self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {name}", self.prefix));
        }
    }

    /// Shows that a trial's clients work, and how they did in the last second.
    fn loading(&self, clients: u32, live: Option<&Live>) {
        let message = sentences::loading(clients, live);
        match &self.bar {
            Some(bar) => bar.set_message(safe(&format!("{}: {message}", self.prefix)).into_owned()),
            // Long stages show that they live, and how they go, without filling a log.
            None if live.is_some_and(|live| (live.second + 1) % PLAIN_LINE_EVERY == 0) => {
                self.line(&format!("      {message}"));
            }
            None => {}
        }
    }

    fn trial_finished(&self, record: &TrialRecord, left: Duration) {
        let message = sentences::trial_finished(record);
        let line = match &self.bar {
            Some(_) => format!("{}: {message}", self.prefix),
            None if left.is_zero() => format!("      {message}"),
            None => format!("      {message} (about {} left)", left_text(left)),
        };
        self.line(&line);
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.set_message("");
        }
    }

    /// Returns whether there is a line that changes, so that what is done now needs no lines of its own.
    pub(crate) fn is_live(&self) -> bool {
        self.bar.is_some()
    }

    /// A load of URLs begins.
    pub(crate) fn load_begins(&mut self, what: &str) {
        self.prefix = what.to_owned();
        if let Some(bar) = &self.bar {
            bar.enable_steady_tick(Duration::from_millis(120));
            bar.set_message(safe(&self.prefix).into_owned());
        }
    }

    /// A load of URLs has gone on for another second.
    pub(crate) fn load_goes_on(&mut self, live: &Live) {
        let errors = match live.errors {
            0 => "no errors".to_owned(),
            errors => format!("{} errors/s", count_text(errors)),
        };
        let message = format!(
            "{} s: {}/s, p50 {}, p99 {}, {errors}, generator at {:.0} % of its CPU",
            live.second + 1,
            count_text(live.verified),
            live.p50.text(),
            live.p99.text(),
            live.busy * 100.0
        );
        match &self.bar {
            Some(bar) => bar.set_message(safe(&format!("{}: {message}", self.prefix)).into_owned()),
            None if (live.second + 1).is_multiple_of(PLAIN_LINE_EVERY) => {
                self.line(&format!("      {message}"))
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
        self.line(&warning(what));
    }

    /// Ends the live line.
    pub(crate) fn finish(&mut self) {
        self.look_out(None);
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn line(&self, line: &str) {
        let line = safe(line);
        match &self.bar {
            Some(bar) => bar.suspend(|| writeln!(io::stderr(), "{line}").ok()),
            None => writeln!(io::stderr(), "{line}").ok(),
        };
    }
}

impl Reporter for Messages {
    fn report(&mut self, event: &Event<'_>) {
        match event {
            Event::Installing { line } => self.line(line),
            Event::Outdated { system, version, newer } => self.complain(&format!(
                "`{system}` is version {version}, which is older than all that are maintained ({newer}); a study's \
                 `version` asks for one of them"
            )),
            Event::SystemAsked { system, endpoints } => {
                self.line(&format!("{system}: asking {endpoints}"));
            }
            Event::SystemStarting { system } => self.line(&format!("{system}: starting")),
            Event::Exposed { warning } => self.complain(warning),
            Event::NodeMissing { why } => self.complain(why),
            Event::PortTaken { why } => self.complain(&format!(
                "{why}: another process had taken a port; starting again with others"
            )),
            Event::LimitsMissing { why } => self.complain(&format!("limits: {why}")),
            Event::BaselineStarted { machines } => {
                let of = if *machines == 1 { "this machine" } else { "each machine" };
                self.line(&format!("measuring what disk and loopback of {of} can do at best"));
            }
            Event::BaselineFailed { failure } => {
                self.complain(&format!("the machine baseline was not measured: {failure}"));
            }
            Event::GateStarted(started) => self.line(&sentences::gate_started(started)),
            Event::GateExtended(extended) => {
                self.finish();
                self.line(&sentences::gate_extended(extended));
            }
            Event::RoundsRepeated { repeats, takes } => {
                self.finish();
                for text in repeat::texts(repeats) {
                    self.line(&text);
                }
                self.line(&format!("the run takes about {} more", left_text(*takes)));
            }
            Event::RunStarted { study, seed, trials, folder } => {
                self.line(&sentences::run_started(study, *seed, *trials, folder));
            }
            Event::RunResumed(resumed) => self.line(&sentences::run_resumed(resumed)),
            Event::NothingMissing { folder } => {
                self.line(&format!("nothing is missing of {}", folder.display()));
            }
            Event::Answered { rounds, most } => {
                self.finish();
                self.line(&format!(
                    "stopping after {rounds} of up to {most} rounds: they answer every leading question"
                ));
            }
            Event::RecordTorn { file } => self.complain(&format!(
                "`{}`: its last line is torn and is cut off; that trial is run again",
                file.display()
            )),
            Event::TrialStarted(started) => self.trial_started(started),
            Event::PhaseStarted { name } => self.phase_started(name),
            Event::Filling { written, keys } => {
                let (written, keys) = (count_text(*written), count_text(*keys));
                let message = format!("filling: {written} of {keys} keys are written");
                match &self.bar {
                    Some(bar) => bar.set_message(format!("{}: {message}", self.prefix)),
                    None => self.line(&format!("      {message}")),
                }
            }
            Event::LoadStarted { clients } => self.loading(*clients, None),
            Event::Observed { clients, live } => self.loading(*clients, Some(live)),
            Event::RateTried { tried } => self.line(&format!("      {}", tried.text())),
            Event::TrialFailed { text } => self.complain(text),
            Event::GivenUp { system, left, why } => {
                let others = match left {
                    0 => String::new(),
                    left => format!(", and its other trials ({left}) are not tried"),
                };
                self.complain(&format!("`{system}` failed to start twice in the same way{others}: {why}"));
            }
            Event::MachineAwaited { why } => {
                self.line(&format!("waiting until all machines are back: {why}"));
            }
            Event::MachineLost { why, left } => self.complain(&format!(
                "a machine is lost, and {} of the run {} missing: {why}",
                plural(*left as u64, "trial"),
                if *left == 1 { "is" } else { "are" }
            )),
            Event::TrialFinished { record, left } => self.trial_finished(record, *left),
            Event::RunFinished { complete, resume, folder, on } => {
                self.finish();
                if !complete {
                    let on = on.map(|file| format!(" --on {}", file.display()));
                    self.line(&format!(
                        "hint: `bakeoff {resume} --resume {}{}` goes on with what is missing",
                        folder.display(),
                        on.unwrap_or_default()
                    ));
                }
            }
        }
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

/// Why standard output took no more, if that was the case.
static OUTPUT_FAILED: OnceLock<String> = OnceLock::new();

/// Prints what was asked for, to standard output. [`output_failed`] says whether that worked.
pub(crate) fn output(text: &str) {
    let mut out = io::stdout().lock();
    let text = safe(text);
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        // A reader such as `head` has had enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            OUTPUT_FAILED.set(error.to_string()).ok();
        }
        _ => {}
    }
}

/// Returns why not all that was asked for could be printed, if that is so.
pub(crate) fn output_failed() -> Option<&'static str> {
    OUTPUT_FAILED.get().map(String::as_str)
}

/// Tells, where nothing is under way, of something that went wrong and does not end the command.
pub(crate) fn warn(what: &str) {
    writeln!(io::stderr(), "{}", safe(&warning(what))).ok();
}

/// Prints commands to the service that reads the log, as they are.
pub(crate) fn annotate(commands: &[String]) {
    commands.iter().for_each(|command| drop(writeln!(io::stderr(), "{command}")));
}

/// Who reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// People and programs that obey nothing in it.
    Anyone,
    /// The runner of GitHub Actions, which obeys some lines.
    GitHubActions,
}

/// Returns who reads what is printed, as the environment says.
pub(crate) fn reader() -> Reader {
    static READER: OnceLock<Reader> = OnceLock::new();
    *READER.get_or_init(|| match std::env::var_os("GITHUB_ACTIONS") {
        Some(value) if value == "true" => Reader::GitHubActions,
        _ => Reader::Anyone,
    })
}

fn warning(what: &str) -> String {
    let mark = if what.starts_with("error: ") { "" } else { "warning: " };
    format!("{mark}{what}")
}

/// Prints the failure that bakeoff ends with.
pub(crate) fn failure(text: &str) {
    writeln!(io::stderr(), "{}", safe(text)).ok();
}

/// Renders JSON for people and programs: indented, and with escapes for all that a terminal would obey.
pub(crate) fn json(value: &serde_json::Value) -> String {
    let json = harmless_json(&format!("{value:#}"));
    match reader() {
        Reader::Anyone => json,
        Reader::GitHubActions => github::defused_json(&json),
    }
}

/// A text without what its reader would obey: whatever others wrote passes here before it is printed.
fn safe(text: &str) -> Cow<'_, str> {
    safe_for(reader(), text)
}

fn safe_for(reader: Reader, text: &str) -> Cow<'_, str> {
    let text = safe_for_terminals(text);
    match reader {
        Reader::Anyone => text,
        Reader::GitHubActions => Cow::Owned(github::defused(&text).into_owned()),
    }
}

/// A text without what a terminal would obey, but for line breaks, tabs and colours of ours.
fn safe_for_terminals(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(is_harmful) {
        let (plain, tail) = rest.split_at(place);
        safe.push_str(plain);
        let kept = KEPT.iter().copied().find(|kept| tail.starts_with(kept));
        safe.push_str(kept.unwrap_or("\u{fffd}"));
        let length = kept.map_or_else(|| tail.chars().next().map_or(0, char::len_utf8), str::len);
        rest = tail.get(length..).unwrap_or_default();
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

/// Ends of lines, tabs, and the escape codes of tables and verdicts: ends, bold, faint, red, green, yellow.
const KEPT: [&str; 9] =
    ["\r\n", "\n", "\t", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Returns how tables on standard output may look.
pub(crate) fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    Style { width: width.filter(|&columns| terminal && columns > 0), colour }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(text: &str) -> Cow<'_, str> {
        safe_for(Reader::Anyone, text)
    }

    #[test]
    fn workflow_commands_are_defused_where_a_runner_obeys_them() {
        let text = "seen:\n::add-mask::x ##[error]";
        assert_eq!(safe(text), text);
        assert_eq!(safe_for(Reader::GitHubActions, text), "seen:\n: :add-mask::x # #[error]");
    }

    #[test]
    fn only_our_own_escape_codes_reach_a_terminal() {
        assert_eq!(safe("plain\n\x1b[1mbold\x1b[0m\r\n"), "plain\n\x1b[1mbold\x1b[0m\r\n");
        let (title, home) = ("\x1b]0;title\x07", "\x1b[2J\x1b[H");
        assert_eq!(safe(title), "\u{fffd}]0;title\u{fffd}");
        assert_eq!(safe(home), "\u{fffd}[2J\u{fffd}[H");
        assert_eq!(
            safe("over\rwritten \u{202e}txt.exe\u{9b}31m"),
            "over\u{fffd}written \u{fffd}txt.exe\u{fffd}31m"
        );
    }

    #[test]
    fn json_says_the_same_without_harm() {
        let value = serde_json::json!({"a": "\u{202e}\u{9b}\u{1b}x"});
        let text = json(&value);
        assert!(!text.replace('\n', "").contains(is_harmful), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
