//! Reads the events of Jepsen's registers, and joins each operation's beginning with its end.
//!
//! `:ok` is done, `:fail` did not happen, `:info` has an unknown outcome, as has an operation without an end. Without
//! `:time`, the order of the lines is the order of the events.
//!
//! Not here: EDN (`edn`), judging.

use std::collections::HashMap;

use super::super::judged_history::OperationOutcome;
use super::super::recorded_operation::{OperationOrigin, RecordedAction, RecordedOperation};
use super::edn::{self, Edn};
use super::shortened;

/// Distance between the lines of a history without times, in nanoseconds.
const LINE_NS: u64 = 1_000_000;

/// Whether an operation begins, or how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Invoke,
    Ok,
    Fail,
    Info,
}

/// Action of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Read,
    Write,
    CompareAndSet,
}

/// A line of a history.
#[derive(Debug)]
pub(super) struct Event {
    process: u32,
    kind: EventKind,
    function: Function,
    /// Key of an independent register.
    pub(super) key: Option<String>,
    value: Edn,
    time: Option<u64>,
}

/// An operation with its interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    key: u32,
    client: u32,
    start: u64,
    end: u64,
    action: RecordedAction,
    outcome: OperationOutcome,
}

impl Operation {
    /// Returns the operation in bakeoff's form.
    pub(super) fn recorded(&self, node: u16) -> RecordedOperation {
        let origin = OperationOrigin { key: self.key, client: self.client, node };
        RecordedOperation::new(origin, (self.start, self.end), self.action, self.outcome)
    }
}

/// An operation that has begun.
#[derive(Debug)]
struct Invocation {
    key: u32,
    function: Function,
    /// Effect of a write or compare-and-set; `None` for a read.
    action: Option<RecordedAction>,
    start: u64,
    line: u64,
}

/// The operations that have begun, by process.
#[derive(Debug, Default)]
pub(super) struct Processes {
    open: HashMap<u32, Invocation>,
    /// True if lines have times.
    timed: Option<bool>,
    last: u64,
}

impl Processes {
    /// Adds an event. Returns its operation if it has ended with a known effect or answer.
    pub(super) fn add(
        &mut self,
        event: Event,
        line: u64,
        key: u32,
    ) -> Result<Option<Operation>, String> {
        let at = self.time(event.time, line)?;
        let process = event.process;
        if event.kind == EventKind::Invoke {
            let action = written(&event)?;
            let begun = Invocation { key, function: event.function, action, start: at, line };
            return match self.open.insert(process, begun) {
                Some(before) => Err(format!(
                    "process {process} begins an operation before that of line {} has ended",
                    before.line
                )),
                None => Ok(None),
            };
        }
        let Some(begun) = self.open.remove(&process) else {
            return Err(format!("process {process} ends an operation that it did not begin"));
        };
        if begun.function != event.function {
            return Err(format!(
                "process {process} ends another operation than it began in line {}",
                begun.line
            ));
        }
        let outcome = match event.kind {
            EventKind::Ok => OperationOutcome::Done,
            EventKind::Fail => OperationOutcome::Refused,
            EventKind::Info | EventKind::Invoke => OperationOutcome::Unknown,
        };
        let action = match (begun.action, outcome) {
            (Some(action), _) => action,
            (None, OperationOutcome::Done) => read(&event.value)?,
            // A read without an answer says nothing.
            (None, _) => return Ok(None),
        };
        let (key, start) = (begun.key, begun.start);
        Ok(Some(Operation { key, client: process, start, end: at, action, outcome }))
    }

    /// Returns the time of a line, never before that of an earlier line.
    fn time(&mut self, time: Option<u64>, line: u64) -> Result<u64, String> {
        if *self.timed.get_or_insert(time.is_some()) != time.is_some() {
            return Err("some events have a `:time` and others have none".to_owned());
        }
        let time = time.unwrap_or(line.saturating_mul(LINE_NS));
        self.last = self.last.max(time);
        Ok(self.last)
    }

    /// Returns the writes that never ended.
    pub(super) fn finish(self) -> impl Iterator<Item = Operation> {
        self.open.into_iter().filter_map(|(client, begun)| {
            let (key, start, action) = (begun.key, begun.start, begun.action?);
            let outcome = OperationOutcome::Unknown;
            Some(Operation { key, client, start, end: start, action, outcome })
        })
    }
}

/// Returns the effect that an operation begins with; `None` for a read.
fn written(event: &Event) -> Result<Option<RecordedAction>, String> {
    Ok(match event.function {
        Function::Read => None,
        Function::Write => Some(RecordedAction::Write(number(&event.value)?)),
        Function::CompareAndSet => {
            let Edn::List(pair) = &event.value else { return Err(not_a_pair(&event.value)) };
            let [expected, value] = pair.as_slice() else { return Err(not_a_pair(&event.value)) };
            let value = number(value)?;
            Some(match expected {
                Edn::Nil => RecordedAction::Create(value, None),
                expected => RecordedAction::CompareAndSet { expected: number(expected)?, value },
            })
        }
    })
}

/// Returns the answer of a read.
fn read(value: &Edn) -> Result<RecordedAction, String> {
    Ok(match value {
        Edn::Nil => RecordedAction::Missing(None),
        value => RecordedAction::Read(number(value)?),
    })
}

fn not_a_pair(value: &Edn) -> String {
    format!("`{value:?}` is no pair of an expected and a new value, such as `[1 2]`")
}

fn number(value: &Edn) -> Result<u32, String> {
    let found = match value {
        Edn::Number(value) => u32::try_from(*value).ok(),
        _ => None,
    };
    found.ok_or_else(|| {
        format!(
            "`{}` is no value of a register: write a whole number from 0 to {}",
            value_text(value),
            u32::MAX
        )
    })
}

fn value_text(value: &Edn) -> String {
    match value {
        Edn::Nil => "nil".to_owned(),
        Edn::Number(value) => value.to_string(),
        Edn::Keyword(word) => format!(":{word}"),
        other => shortened(format!("{other:?}")),
    }
}

fn kind(word: &str) -> Result<EventKind, String> {
    Ok(match word {
        "invoke" => EventKind::Invoke,
        "ok" => EventKind::Ok,
        "fail" => EventKind::Fail,
        "info" => EventKind::Info,
        other => {
            return Err(format!("`:{}` is none of :invoke, :ok, :fail, :info", shortened(other)));
        }
    })
}

fn function(word: &str) -> Result<Function, String> {
    Ok(match word {
        "read" => Function::Read,
        "write" => Function::Write,
        "cas" => Function::CompareAndSet,
        other => return Err(format!("`:{}` is none of :read, :write, :cas", shortened(other))),
    })
}

/// Reads a line of a log. Returns `None` for lines of other processes, such as a nemesis.
pub(super) fn log_event(line: &str) -> Result<Option<Event>, String> {
    let Some((_, event)) = line.split_once("jepsen.util - ") else { return Ok(None) };
    let mut parts = event.split_whitespace();
    let Some(process) = parts.next().and_then(|one| one.parse().ok()) else { return Ok(None) };
    let keyword = |part: Option<&str>| {
        part.and_then(|part| part.strip_prefix(':')).map(str::to_owned).ok_or_else(|| {
            format!("`{}` is no event, such as `0 :invoke :write 3`", shortened(event.trim()))
        })
    };
    let (kind, function) = (kind(&keyword(parts.next())?)?, function(&keyword(parts.next())?)?);
    let value: Vec<&str> = parts.collect();
    let value = match value.is_empty() {
        true => Edn::Nil,
        false => edn::parse(&value.join(" "))?,
    };
    Ok(Some(Event { process, kind, function, key: None, value, time: None }))
}

/// Reads a line of `history.edn`. Returns `None` for lines of other processes, such as a nemesis, and for brackets.
pub(super) fn edn_event(line: &str) -> Result<Option<Event>, String> {
    let Some(begin) = line.find(['#', '{']) else { return Ok(None) };
    let event = edn::parse(&line[begin..])?;
    let field = |name: &str| event.get(name).ok_or_else(|| format!("`:{name}` is missing"));
    let Edn::Number(process) = field("process")? else { return Ok(None) };
    let process = u32::try_from(*process)
        .map_err(|_| format!("`:process {process}` is not a number from 0 to {}", u32::MAX))?;
    let word = |name: &str| match field(name)? {
        Edn::Keyword(word) => Ok(word.as_str()),
        other => Err(format!("`:{name} {}` is no keyword", value_text(other))),
    };
    let (kind, function) = (kind(word("type")?)?, function(word("f")?)?);
    let time = match event.get("time") {
        None | Some(Edn::Nil) => None,
        Some(Edn::Number(time)) => Some(
            u64::try_from(*time)
                .map_err(|_| format!("`:time {time}` is not a time in nanoseconds"))?,
        ),
        Some(other) => return Err(format!("`:time {}` is no number", value_text(other))),
    };
    let value = event.get("value").cloned().unwrap_or(Edn::Nil);
    let (key, value) = independent(function, value);
    Ok(Some(Event { process, kind, function, key, value, time }))
}

/// Takes the key off the value of an independent register: `[key value]`, `[key [expected value]]`.
fn independent(function: Function, value: Edn) -> (Option<String>, Edn) {
    let Edn::List(pair) = &value else { return (None, value) };
    let is_keyed = |of: &Edn| match function {
        Function::CompareAndSet => matches!(of, Edn::List(_)),
        Function::Read | Function::Write => true,
    };
    match pair.as_slice() {
        [key, of] if is_keyed(of) => (Some(value_text(key)), of.clone()),
        _ => (None, value),
    }
}
