//! Draws a line for each system of a run: its last seconds, rate and p99, and how many of its trials have ended.
//!
//! The running system shows the seconds of its load; the others show those of their last trial. Each row has its own
//! scale, so a row shows how steady a system is. The number next to it compares.
//!
//! Not here: the line of the trial in progress and the terminal (`messages`).

use std::collections::VecDeque;

use bakeoff_core::record::TrialRecord;
use bakeoff_core::study::Study;
use bakeoff_core::units::count_text;
use bakeoff_engine::LoadProgress;

use super::glyphs::Glyphs;
use super::sentences;

/// Most seconds that a row shows.
const SECONDS_MAX: usize = 40;
/// Fewest columns of seconds that are worth showing.
const SECONDS_MIN: usize = 5;
/// Longest name that is shown in full.
const NAME_MAX: usize = 24;

/// The rows of all systems.
#[derive(Debug, Default)]
pub(super) struct Board {
    rows: Vec<Row>,
    /// Index of the running system.
    running: Option<usize>,
    /// Number of trials of each system.
    trials: usize,
}

#[derive(Debug, Default)]
struct Row {
    system: String,
    /// Verified operations of each second.
    seconds: VecDeque<u64>,
    /// Figures of the last second, or of the last trial.
    figures: String,
    /// Number of trials that have ended.
    ended: usize,
}

impl Board {
    /// Creates the rows of a study's systems, before any trial.
    pub(super) fn new(study: &Study) -> Self {
        let row = |name: &String| Row { system: name.clone(), ..Row::default() };
        let rows = study.systems.iter().map(|system| row(&system.name)).collect();
        Self { rows, running: None, trials: 0 }
    }

    /// Begins a trial of a run with `trials` trials.
    pub(super) fn trial_begins(&mut self, system: &str, trials: usize) {
        self.trials = trials / self.rows.len().max(1);
        self.running = self.rows.iter().position(|row| row.system == system);
        if let Some(row) = self.running() {
            row.seconds.clear();
            row.figures.clear();
        }
    }

    /// Adds a second of the load.
    pub(super) fn second(&mut self, live: &LoadProgress) {
        let Some(row) = self.running() else { return };
        if row.seconds.len() == SECONDS_MAX {
            row.seconds.pop_front();
        }
        row.seconds.push_back(live.verified);
        row.figures = sentences::second(live);
    }

    /// Ends the trial.
    pub(super) fn trial_ended(&mut self, record: &TrialRecord) {
        if let Some(row) = self.running() {
            row.ended += 1;
            row.figures = match record.invalid_because().is_empty() {
                true => sentences::rate_and_p99(record).unwrap_or_default(),
                false => "not valid".to_owned(),
            };
        }
        self.running = None;
    }

    fn running(&mut self) -> Option<&mut Row> {
        self.rows.get_mut(self.running?)
    }

    /// Returns the rows, each cut to `width` columns and at most `rows_max` of them; the running system is one of them.
    pub(super) fn lines(&self, (width, rows_max): (usize, usize), glyphs: Glyphs) -> Vec<String> {
        let name_width = self.rows.iter().map(|row| row.system.chars().count()).max();
        let name_width = name_width.unwrap_or(0).min(NAME_MAX);
        let figures_width = self.rows.iter().map(|row| row.figures.chars().count()).max();
        let figures_width = figures_width.unwrap_or(0);
        let last = self.running.map_or(0, |running| running + 1);
        let first = last.saturating_sub(rows_max);
        let rows = self.rows.iter().enumerate().skip(first).take(rows_max);
        let line = |(place, row): (usize, &Row)| {
            let mark = if self.running == Some(place) { '>' } else { ' ' };
            let name = cut(&row.system, name_width, glyphs);
            let ended = format!("{} of {}", count_text(row.ended as u64), self.trials);
            let taken = 2 + name_width + 2 + figures_width + 2 + ended.chars().count() + 2;
            let room = width.saturating_sub(taken).min(SECONDS_MAX);
            let bars = match room >= SECONDS_MIN {
                true => format!("{}  ", bars(&row.seconds, room, glyphs)),
                false => String::new(),
            };
            let figures = &row.figures;
            let text =
                format!("{mark} {name:<name_width$}  {bars}{figures:<figures_width$}  {ended}");
            cut(text.trim_end(), width, glyphs)
        };
        rows.map(line).collect()
    }
}

/// Draws the last seconds in `room` columns. A second without success is a gap.
fn bars(seconds: &VecDeque<u64>, room: usize, glyphs: Glyphs) -> String {
    let shown = || seconds.iter().skip(seconds.len().saturating_sub(room));
    let most = shown().copied().max().unwrap_or(0).max(1) as f64;
    let bar = |&second: &u64| match second {
        0 => ' ',
        second => glyphs.bar(second as f64 / most),
    };
    format!("{:<room$}", shown().map(bar).collect::<String>())
}

/// Cuts a text to `width` columns.
pub(super) fn cut(text: &str, width: usize, glyphs: Glyphs) -> String {
    let more = glyphs.more();
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(more.chars().count()));
    kept.chain(more.chars()).take(width).collect()
}

#[cfg(test)]
mod tests {
    use bakeoff_core::ranked_latencies::Percentile;
    use bakeoff_core::study;
    use bakeoff_systems::kinds;
    use std::time::Duration;

    use super::*;

    fn board() -> Board {
        let text = "title: T\nsystems: {quick: {kind: canary}, slow-and-steady: {kind: canary}}\nworkloads: {w: {mix: \
                    {put: 1}, keys: {count: 9}}}\nloads: {l: {clients: 1, stop: {after: 9s}}}\ntrials: 3\n";
        let study = study::parse("t", "t.yaml", text, &kinds()).expect("it is a study");
        let mut board = Board::new(&study);
        for (system, rates) in
            [("slow-and-steady", &[100, 100][..]), ("quick", &[50, 4000, 0, 1000])]
        {
            board.trial_begins(system, 6);
            for (second, &verified) in (0..).zip(rates) {
                let p99 = Percentile::At(Duration::from_micros(1500));
                let (p50, max) = (p99, p99);
                board.second(&LoadProgress {
                    second,
                    verified,
                    errors: 0,
                    p50,
                    p99,
                    max,
                    busy: 0.1,
                });
            }
        }
        board
    }

    #[test]
    fn rows_show_seconds_and_fit_the_terminal() {
        let board = board();
        let lines = board.lines((80, 9), Glyphs::Blocks);
        assert_eq!(
            lines[0],
            "> quick            ▁█ ▂                             1,000/s, p99 1.50 ms  0 of 3"
        );
        assert_eq!(
            lines[1],
            "  slow-and-steady  ██                               100/s, p99 1.50 ms    0 of 3"
        );
        let lines = board.lines((80, 9), Glyphs::Ascii);
        assert!(lines.iter().all(|line| line.is_ascii()), "{lines:?}");
        for width in [20, 30, 45, 60, 79, 120, 200] {
            let lines = board.lines((width, 9), Glyphs::Blocks);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
        }
        assert_eq!(board.lines((20, 9), Glyphs::Ascii)[0], "> quick            ~");
        assert_eq!(board.lines((80, 1), Glyphs::Blocks).len(), 1);
        assert!(board.lines((80, 1), Glyphs::Blocks)[0].starts_with("> quick"));
    }
}
