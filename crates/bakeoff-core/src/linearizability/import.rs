//! Reads a history from the lines of a file: bakeoff's own, and those of Jepsen's registers.
//!
//! | form | a line |
//! | --- | --- |
//! | bakeoff | `{"key":"a","client":1,"node":"n","action":"write","value":1,"outcome":"done","start_ns":5,"end_ns":9}` |
//! | Jepsen's log | `INFO  jepsen.util - 0 :invoke :write 3` |
//! | Jepsen's `history.edn` | `{:type :invoke, :f :read, :value nil, :process 0, :time 123}` |
//!
//! Each operation takes 40 bytes, as in a load. Nothing else grows with the file, except the names of keys.
//!
//! Not here: files, judging (`history`).

mod edn;
mod jepsen;

use std::collections::HashMap;
use std::fmt;

use super::history::{HISTORY_MAX, History};
use super::judged_history::{HistoryLine, OperationOutcome, ShownAction};
use super::recorded_operation::{OperationOrigin, RecordedAction, RecordedOperation};
use crate::units::count_text;

/// Longest line that is read, in bytes.
pub const LINE_MAX: usize = 64 << 10;
/// Most bytes that the names of all keys may have together.
const NAMES_MAX: usize = 256 << 20;

/// Form of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryForm {
    /// A `history.jsonl` of bakeoff.
    Bakeoff,
    /// The log of a Jepsen test on one register, as porcupine reads it.
    JepsenLog,
    /// Jepsen's `history.edn` of a register, or of independent registers.
    JepsenEdn,
}

impl HistoryForm {
    /// Returns the form's name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bakeoff => "bakeoff",
            Self::JepsenLog => "Jepsen log",
            Self::JepsenEdn => "Jepsen EDN",
        }
    }

    /// Recognizes the form by a line; `None` if the line is of none.
    fn recognized(line: &str) -> Option<Self> {
        let line = line.trim_start();
        match line {
            _ if line.starts_with("{\"") => Some(Self::Bakeoff),
            _ if line.contains("jepsen.util - ") => Some(Self::JepsenLog),
            _ if line.contains('{') && line.contains(":type") => Some(Self::JepsenEdn),
            _ => None,
        }
    }
}

/// An invalid line of a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct HistoryError {
    /// Number of the line, from 1.
    pub line: u64,
    /// Reason.
    pub why: String,
}

/// Reads a history line by line.
#[derive(Debug, Default)]
pub struct HistoryReader {
    form: Option<HistoryForm>,
    lines: u64,
    operations: Vec<RecordedOperation>,
    keys: Names,
    nodes: Names,
    jepsen: jepsen::Processes,
}

/// A history that was read, with the names of its keys by number.
#[derive(Debug)]
pub struct ReadHistory {
    /// Its operations. Times count from the first start.
    pub history: History,
    /// Name of each key.
    pub keys: Vec<String>,
    /// Form of the file.
    pub form: HistoryForm,
}

impl HistoryReader {
    /// Reads the next line, without its newline.
    ///
    /// # Errors
    /// If the line is no operation of the file's form, or the history is too long.
    pub fn read_line(&mut self, line: &[u8]) -> Result<(), HistoryError> {
        self.lines += 1;
        let read = std::str::from_utf8(line)
            .map_err(|_| "it is not UTF-8".to_owned())
            .and_then(|line| self.read_text(line.trim_start_matches('\u{feff}')));
        read.map_err(|why| HistoryError { line: self.lines, why })
    }

    fn read_text(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let form = match (self.form, HistoryForm::recognized(line)) {
            (Some(form), _) => form,
            (None, Some(form)) => *self.form.insert(form),
            // A log may begin with other lines, and a vector of maps with its bracket.
            (None, None) if line.starts_with("INFO") || line.trim() == "[" => return Ok(()),
            (None, None) => {
                return Err(format!(
                    "`{}` is no operation; known are bakeoff's `history.jsonl`, the log of a Jepsen \
                     register test, and Jepsen's `history.edn`",
                    shortened(line)
                ));
            }
        };
        if self.operations.len() as u64 >= HISTORY_MAX {
            return Err(format!("at most {} operations are judged", count_text(HISTORY_MAX)));
        }
        match form {
            HistoryForm::Bakeoff => {
                let one = self.own(line)?;
                self.operations.push(one);
            }
            HistoryForm::JepsenLog => {
                if let Some(event) = jepsen::log_event(line)? {
                    self.event(event)?;
                }
            }
            HistoryForm::JepsenEdn => {
                if let Some(event) = jepsen::edn_event(line)? {
                    self.event(event)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an event of a Jepsen history. Its operation is complete once it has ended.
    fn event(&mut self, event: jepsen::Event) -> Result<(), String> {
        let node = self.nodes.number("-")? as u16;
        let key = self.keys.number(event.key.as_deref().unwrap_or("register"))?;
        let ended = self.jepsen.add(event, self.lines, key)?;
        self.operations.extend(ended.map(|one| one.recorded(node)));
        Ok(())
    }

    /// Reads a line of bakeoff's own form.
    fn own(&mut self, line: &str) -> Result<RecordedOperation, String> {
        let read: HistoryLine = serde_json::from_str(line)
            .map_err(|why| format!("`{}` is no operation: {why}", shortened(line)))?;
        let HistoryLine { key, client, node, action, witness, outcome, start_ns, end_ns } = read;
        let end = match (outcome, end_ns) {
            (OperationOutcome::Unknown, None) => start_ns,
            (OperationOutcome::Unknown, Some(_)) => {
                return Err("an operation of unknown outcome has no `end_ns`".to_owned());
            }
            (_, Some(end)) if end < start_ns => {
                return Err(format!("`end_ns` {end} is before `start_ns` {start_ns}"));
            }
            (_, Some(end)) => end,
            (_, None) => return Err("`end_ns` is missing".to_owned()),
        };
        let action = match action {
            ShownAction::Write { value } => RecordedAction::Write(value),
            ShownAction::Read { value: Some(value) } => RecordedAction::Read(value),
            ShownAction::Read { value: None } => RecordedAction::Missing(witness),
            ShownAction::CompareAndSet { expected: Some(expected), value } => {
                RecordedAction::CompareAndSet { expected, value }
            }
            ShownAction::CompareAndSet { expected: None, value } => {
                RecordedAction::Create(value, witness)
            }
            ShownAction::Delete => RecordedAction::Delete(witness),
        };
        let node = u16::try_from(self.nodes.number(&node)?)
            .map_err(|_| "there are more than 65,536 nodes".to_owned())?;
        let origin = OperationOrigin { key: self.keys.number(&key)?, client, node };
        Ok(RecordedOperation::new(origin, (start_ns, end), action, outcome))
    }

    /// Ends the history. Operations that never ended have an unknown outcome.
    ///
    /// # Errors
    /// If there was no operation.
    pub fn finish(mut self) -> Result<ReadHistory, HistoryError> {
        let open = std::mem::take(&mut self.jepsen).finish();
        self.operations.extend(open.map(|one| one.recorded(0)));
        let form = self.form.filter(|_| !self.operations.is_empty()).ok_or_else(|| {
            HistoryError { line: self.lines, why: "the file ends without an operation".to_owned() }
        })?;
        let began = self.operations.iter().map(|one| one.start).min().unwrap_or(0);
        let history = History {
            recorded: self.operations.len() as u64,
            operations: self.operations,
            nodes: self.nodes.all,
            began,
        };
        Ok(ReadHistory { history, keys: self.keys.all, form })
    }
}

impl ReadHistory {
    /// Judges all keys.
    pub fn judge(&mut self) -> super::judged_history::JudgedHistory {
        let name = |key: u32| self.keys.get(key as usize).cloned().unwrap_or_default();
        self.history.judge(&name).concluded()
    }
}

/// Numbers names in the order of their first use.
#[derive(Debug, Default)]
struct Names {
    all: Vec<String>,
    numbers: HashMap<String, u32>,
    bytes: usize,
}

impl Names {
    fn number(&mut self, name: &str) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        self.bytes += 2 * name.len() + 64;
        if self.bytes > NAMES_MAX {
            return Err(format!("the names of the keys exceed {} MiB", NAMES_MAX >> 20));
        }
        let number = self.all.len() as u32;
        self.all.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// Returns the beginning of a text for a message.
fn shortened(text: impl fmt::Display) -> String {
    let text: String =
        text.to_string().chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
