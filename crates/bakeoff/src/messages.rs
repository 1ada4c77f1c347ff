//! Prints all output of bakeoff. Nothing else prints.
//!
//! Results go to standard output; progress, warnings and errors go to standard error. On a terminal, progress is a few
//! lines that change: the trial, a row for each system, and the time left. Without one, it is plain lines without escape
//! codes, printed when something begins or ends. A closed output (`| head`) is no error.

mod board;
mod glyphs;
mod sentences;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_agent::transfer::Transfer;
use bakeoff_clock as clock;
use bakeoff_compat::Console;
use bakeoff_core::check;
use bakeoff_core::plan::Trial;
use bakeoff_core::record::TrialRecord;
use bakeoff_core::repeat;
use bakeoff_core::study::Study;
use bakeoff_core::units::{count_text, harmless_json, is_harmful, plural};
use bakeoff_engine::LoadProgress;
use bakeoff_install::InstallMessage;
use bakeoff_report::Style;
use bakeoff_report::ci::github;
use bakeoff_trial::event::{Event, Reporter, TrialStarted};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use self::board::Board;
pub(crate) use self::glyphs::{Glyphs, glyphs};
use self::sentences::left_text;

/// Seconds of load between two progress lines without a terminal.
const PLAIN_LINE_EVERY: u32 = 10;

/// Prints results and progress.
pub(crate) struct Messages {
    bar: Option<ProgressBar>,
    prefix: String,
    below: Arc<Mutex<ProgressLines>>,
}

/// Progress lines below the one of the trial.
#[derive(Default)]
struct ProgressLines {
    board: Board,
    outlook: Option<Outlook>,
    /// True once a trial that is not valid was followed by advice.
    advised: bool,
}

impl ProgressLines {
    /// Returns the lines, each after a line break. They fit a terminal of this size next to the trial's line.
    fn lines(&self, (width, height): (usize, usize)) -> String {
        let Some(outlook) = &self.outlook else { return String::new() };
        let mut lines = self.board.lines((width, height.saturating_sub(4)), glyphs());
        lines.push(outlook.line(width));
        lines.iter().map(|line| format!("\n{}", safe(line))).collect()
    }
}

/// Last progress line of a run: expected end and findings so far.
struct Outlook {
    ends: Instant,
    found: Option<String>,
}

impl Outlook {
    /// Returns the line, cut to `width` columns.
    fn line(&self, width: usize) -> String {
        let left = self.ends.saturating_duration_since(clock::now());
        let found = self.found.as_ref().map(|found| format!(" · {found}")).unwrap_or_default();
        board::cut(&format!("  about {} left{found}", left_text(left)), width, glyphs())
    }
}

impl Messages {
    /// Creates the printer. Progress is live if standard error is a terminal.
    pub(crate) fn new() -> Self {
        let below = Arc::<Mutex<ProgressLines>>::default();
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}{below}") {
                let below = Arc::clone(&below);
                // Computed at every tick, so that the time left counts down between events.
                let style = match glyphs() {
                    Glyphs::Blocks => style,
                    Glyphs::Ascii => style.tick_chars("-\\|/ "),
                };
                bar.set_style(style.with_key(
                    "below",
                    move |_: &ProgressState, to: &mut dyn fmt::Write| {
                        let below = below.lock().unwrap_or_else(PoisonError::into_inner);
                        let size = rustix::termios::tcgetwinsize(io::stderr());
                        let size = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
                        let size = (usize::from(size.0.max(20)), usize::from(size.1));
                        to.write_str(&below.lines(size)).ok();
                    },
                ));
            }
            bar
        });
        Self { bar, prefix: String::new(), below }
    }

    /// Prints a result.
    pub(crate) fn output(&self, text: &str) {
        output(text);
    }

    /// Prints a progress line that stays.
    pub(crate) fn step(&mut self, line: &str) {
        self.line(line);
    }

    fn trial_started(&mut self, started: &TrialStarted<'_>) {
        let TrialStarted { trial, trials, left, found, .. } = *started;
        self.below().board.trial_begins(&trial.system, trials);
        if let Some(found) = found.filter(|_| started.begins_round && self.bar.is_none()) {
            self.line(&format!("      {found}"));
        }
        let found = Some(found.unwrap_or("nothing found yet").to_owned());
        self.look_out(Some(Outlook { ends: clock::now() + left, found }));
        let Trial { number, system, workload, load, .. } = trial;
        self.prefix = format!("[{}/{trials}] {system} · {workload} · {load}", number + 1);
        match &self.bar {
            Some(bar) => {
                bar.enable_steady_tick(Duration::from_millis(120));
                self.state(&self.prefix);
            }
            None => self.line(&self.prefix),
        }
    }

    fn look_out(&self, outlook: Option<Outlook>) {
        self.below().outlook = outlook;
    }

    fn below(&self) -> MutexGuard<'_, ProgressLines> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase_started(&self, name: &str) {
        self.state(&format!("{}: {name}", self.prefix));
    }

    /// Shows a state in the line that changes.
    fn state(&self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(safe(line).into_owned());
        }
    }

    /// Shows a trial's clients and the last second of their load.
    fn loading(&self, clients: u32, live: Option<&LoadProgress>) {
        let message = sentences::loading(clients, live);
        live.into_iter().for_each(|live| self.below().board.second(live));
        match &self.bar {
            Some(_) => self.state(&format!("{}: {message}", self.prefix)),
            // Long stages show progress without filling a log.
            None if live.is_some_and(|live| (live.second + 1) % PLAIN_LINE_EVERY == 0) => {
                self.line(&format!("      {message}"));
            }
            None => {}
        }
    }

    fn trial_finished(&self, record: &TrialRecord, left: Duration) {
        let message = sentences::trial_finished(record);
        self.below().board.trial_ended(record);
        let line = match &self.bar {
            Some(_) => format!("{}: {message}", self.prefix),
            None if left.is_zero() => format!("      {message}"),
            None => format!("      {message} (about {} left)", left_text(left)),
        };
        self.line(&line);
        self.advise(record);
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.set_message("");
        }
    }

    /// Says once a run what would make its trials valid.
    fn advise(&self, record: &TrialRecord) {
        let Some(advice) = check::advice(record) else { return };
        if !std::mem::replace(&mut self.below().advised, true) {
            self.line(&format!("      what helps: {advice}"));
        }
    }

    /// Returns true if progress is a line that changes.
    pub(crate) fn is_live(&self) -> bool {
        self.bar.is_some()
    }

    /// Begins a trial of a load of URLs, which is a study of one system.
    pub(crate) fn load_trial_begins(&self, study: &Study, started: &TrialStarted<'_>) {
        let mut below = self.below();
        if started.trial.number == 0 {
            below.board = Board::new(study);
        }
        below.board.trial_begins(&started.trial.system, started.trials);
        below.outlook = Some(Outlook { ends: clock::now() + started.left, found: None });
    }

    /// Shows that a load of URLs begins.
    pub(crate) fn load_begins(&mut self, what: &str) {
        self.prefix = what.to_owned();
        if let Some(bar) = &self.bar {
            bar.enable_steady_tick(Duration::from_millis(120));
            self.state(&self.prefix);
        }
    }

    /// Shows the last second of a load of URLs.
    pub(crate) fn load_goes_on(&mut self, live: &LoadProgress) {
        self.below().board.second(live);
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
            Some(_) => self.state(&format!("{}: {message}", self.prefix)),
            None if (live.second + 1).is_multiple_of(PLAIN_LINE_EVERY) => {
                self.line(&format!("      {message}"))
            }
            None => {}
        }
    }

    /// Clears the progress of a load of URLs.
    pub(crate) fn load_ended(&mut self, record: &TrialRecord) {
        self.below().board.trial_ended(record);
        self.look_out(None);
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.set_message("");
        }
    }

    /// Prints a warning.
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
            Event::ProgramsMissing { programs } => {
                self.line("programs to get before the first trial:");
                programs.iter().for_each(|one| self.line(&format!("  {one}")));
            }
            Event::Installing { message: InstallMessage::Step(line) } => {
                self.state("");
                self.line(line);
            }
            Event::Installing { message: InstallMessage::State(line) } => match self.is_live() {
                true => self.state(line),
                false => self.line(line),
            },
            Event::Outdated { system, version, newer } => self.complain(&format!(
                "`{system}` is version {version}, older than all maintained versions ({newer}); set a newer `version` \
                 in the study"
            )),
            Event::SystemAsked { system, endpoints } => {
                self.line(&format!("{system}: querying {endpoints}"));
            }
            Event::SystemStarting { system } => self.line(&format!("{system}: starting")),
            Event::ServersChanged { what } => self.line(what),
            Event::Exposed { warning } => self.complain(warning),
            Event::CutsByRelays { why } => self.complain(&format!(
                "{why}: relays cut the network instead (docs/faults.md says what they cannot do)"
            )),
            Event::NodeMissing { why } => self.complain(why),
            Event::PortTaken { why } => self.complain(&format!(
                "{why}: another process took a port; starting again on other ports"
            )),
            Event::LimitsMissing { why } => self.complain(&format!("limits: {why}")),
            Event::BaselineStarted { machines } => {
                let of = if *machines == 1 { "this machine" } else { "each machine" };
                self.line(&format!("measuring the machine baseline: disk and loopback of {of}"));
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
                self.line(&format!("the run takes about {} longer", left_text(*takes)));
            }
            Event::RunStarted { study, seed, trials, folder } => {
                self.below().board = Board::new(study);
                self.line(&sentences::run_started(study, *seed, *trials, folder));
            }
            Event::RunResumed(resumed) => {
                self.below().board = Board::new(resumed.study);
                self.line(&sentences::run_resumed(resumed));
            }
            Event::MachinesChanged { changes } => self.complain(&format!(
                "this run mixes machines, as `--trust` allows; its report begins with that: {}",
                changes.join("; ")
            )),
            Event::NothingMissing { folder } => {
                self.line(&format!("no trials are missing in {}", folder.display()));
            }
            Event::Answered { rounds, most } => {
                self.finish();
                self.line(&format!(
                    "stopping after {rounds} of up to {most} rounds: they answer every leading question"
                ));
            }
            Event::RecordTorn { file } => self.complain(&format!(
                "`{}` ended in an incomplete line, now removed; its trial will run again",
                file.display()
            )),
            Event::TrialStarted(started) => self.trial_started(started),
            Event::PhaseStarted { name } => self.phase_started(name),
            Event::Filling { written, keys } => {
                let (written, keys) = (count_text(*written), count_text(*keys));
                let message = format!("filling: {written} of {keys} keys written");
                match &self.bar {
                    Some(_) => self.state(&format!("{}: {message}", self.prefix)),
                    None => self.line(&format!("      {message}")),
                }
            }
            Event::LoadStarted { clients } => self.loading(*clients, None),
            Event::Observed { clients, live, .. } => self.loading(*clients, Some(live)),
            Event::RateTried { tried } => self.line(&format!("      {}", tried.text())),
            Event::FaultStarted { fault, repeat } => {
                self.line(&format!("      fault {} ({repeat}): {}", fault.name, fault.text()));
            }
            Event::TrialFailed { text } => self.complain(text),
            Event::GivenUp { system, left, why } => {
                let skipping = match left {
                    0 => String::new(),
                    left => format!("; skipping its other trials ({left})"),
                };
                self.complain(&format!("`{system}` failed to start twice with the same error{skipping}: {why}"));
            }
            Event::MachineAwaited { why } => {
                self.line(&format!("waiting until all machines are back: {why}"));
            }
            Event::MachineLost { why, left } => self.complain(&format!(
                "lost a machine; stopping the run with {} left: {why}",
                plural(*left as u64, "trial")
            )),
            Event::TrialFinished { record, left } => self.trial_finished(record, *left),
            Event::RunFinished { complete, resume, folder, on } => {
                self.finish();
                if !complete {
                    let on = on.map(|file| format!(" --on {}", file.display()));
                    self.line(&format!(
                        "hint: `bakeoff {resume} --resume {}{}` runs the missing trials",
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

/// Error of the last failed write to standard output.
static OUTPUT_FAILED: OnceLock<String> = OnceLock::new();

/// Prints a result to standard output. [`output_failed`] returns the error if that fails.
pub(crate) fn output(text: &str) {
    print(&safe(text));
}

/// Prints a table with our own escape codes. Its renderer has made all texts from others harmless.
pub(crate) fn output_styled(text: &str) {
    print(&safe_for(reader(), text, &STYLES));
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        // A reader such as `head` may close the pipe early.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            OUTPUT_FAILED.set(error.to_string()).ok();
        }
        _ => {}
    }
}

/// Returns the error if a result could not be printed.
pub(crate) fn output_failed() -> Option<&'static str> {
    OUTPUT_FAILED.get().map(String::as_str)
}

/// Prints a warning outside of a run.
pub(crate) fn warn(what: &str) {
    writeln!(io::stderr(), "{}", safe(&warning(what))).ok();
}

/// Shows a transfer to a machine.
pub(crate) fn transfer(of: &Transfer<'_>) {
    writeln!(io::stderr(), "{}", safe(&sentences::transfer(of))).ok();
}

/// Prints workflow commands for the CI service unchanged.
pub(crate) fn annotate(commands: &[String]) {
    commands.iter().for_each(|command| drop(writeln!(io::stderr(), "{command}")));
}

/// Reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// People, and programs that do not execute lines of it.
    Anyone,
    /// The GitHub Actions runner, which executes some lines as commands.
    GitHubActions,
}

/// Returns the reader, by the environment variable `GITHUB_ACTIONS`.
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

/// Renders indented JSON, with control characters escaped.
pub(crate) fn json(value: &serde_json::Value) -> String {
    let json = harmless_json(&format!("{value:#}"));
    match reader() {
        Reader::Anyone => json,
        Reader::GitHubActions => github::defused_json(&json),
    }
}

/// Removes what the reader would execute. All text from others passes here before it is printed.
fn safe(text: &str) -> Cow<'_, str> {
    safe_for(reader(), text, &[])
}

fn safe_for<'a>(reader: Reader, text: &'a str, styles: &[&'static str]) -> Cow<'a, str> {
    let text = safe_for_terminals(text, styles);
    match reader {
        Reader::Anyone => text,
        Reader::GitHubActions => Cow::Owned(github::defused(&text).into_owned()),
    }
}

/// Replaces characters that control a terminal, except those in [`KEPT`] and in `styles`.
fn safe_for_terminals<'a>(text: &'a str, styles: &[&'static str]) -> Cow<'a, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(is_harmful) {
        let (plain, tail) = rest.split_at(place);
        safe.push_str(plain);
        let kept = KEPT.iter().chain(styles).copied().find(|kept| tail.starts_with(kept));
        safe.push_str(kept.unwrap_or("\u{fffd}"));
        let length = kept.map_or_else(|| tail.chars().next().map_or(0, char::len_utf8), str::len);
        rest = tail.get(length..).unwrap_or_default();
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

/// Line ends and tabs.
const KEPT: [&str; 3] = ["\r\n", "\n", "\t"];
/// Escape codes of our tables: reset, bold, faint, red, green, yellow.
const STYLES: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Returns the width and colour of tables on standard output. `COLUMNS` sets the width, also in a pipe.
pub(crate) fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    let width = set.or_else(|| own().filter(|_| terminal));
    Style { width: width.filter(|&columns| columns > 0), colour }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(text: &str) -> Cow<'_, str> {
        safe_for(Reader::Anyone, text, &[])
    }

    #[test]
    fn workflow_commands_are_defused_for_github_actions() {
        let text = "seen:\n::add-mask::x ##[error]";
        assert_eq!(safe(text), text);
        assert_eq!(safe_for(Reader::GitHubActions, text, &[]), "seen:\n: :add-mask::x # #[error]");
    }

    #[test]
    fn only_our_own_escape_codes_reach_a_terminal() {
        let bold = "plain\n\x1b[1mbold\x1b[0m\r\n";
        assert_eq!(safe_for(Reader::Anyone, bold, &STYLES), bold);
        assert_eq!(safe(bold), "plain\n\u{fffd}[1mbold\u{fffd}[0m\r\n", "a stranger's text");
        let (title, home) = ("\x1b]0;title\x07", "\x1b[2J\x1b[H");
        assert_eq!(safe(title), "\u{fffd}]0;title\u{fffd}");
        assert_eq!(safe(home), "\u{fffd}[2J\u{fffd}[H");
        assert_eq!(
            safe("over\rwritten \u{202e}txt.exe\u{9b}31m"),
            "over\u{fffd}written \u{fffd}txt.exe\u{fffd}31m"
        );
    }

    #[test]
    fn json_keeps_its_value_when_escaped() {
        let value = serde_json::json!({"a": "\u{202e}\u{9b}\u{1b}x"});
        let text = json(&value);
        assert!(!text.replace('\n', "").contains(is_harmful), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
