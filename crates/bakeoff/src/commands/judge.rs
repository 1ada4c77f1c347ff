//! `bakeoff judge`: judges whether a history in a file is linearizable.
//!
//! It reads one regular file, line by line, and keeps 40 bytes of each operation.
//!
//! Not here: the forms of histories and the judgement (`bakeoff_core::linearizability`).

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use bakeoff_core::linearizability::import::{HistoryReader, LINE_MAX, ReadHistory};
use bakeoff_core::linearizability::judged_history::{HistoryVerdict, JudgedHistory};
use bakeoff_files as files;
use bakeoff_report::history_text;
use serde_json::json;

use crate::cli::JudgeArgs;
use crate::failure::{CANNOT_TELL, Failure, PROVEN};
use crate::messages;

const HINT: &str = "name a `history.jsonl` of bakeoff, the log of a Jepsen register test, or Jepsen's `history.edn`";

/// Version of the JSON.
const FORMAT: u32 = 1;

/// Judges a history and prints the verdict. The exit code repeats it.
pub(crate) fn run(args: &JudgeArgs) -> Result<ExitCode, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::input(format!("cannot judge `{}`: {why}", args.history.display()), HINT)
    };
    let file = files::open(&args.history).map_err(|error| cannot(&error))?;
    let mut history = read(BufReader::new(file)).map_err(|why| cannot(&why))?;
    let judged = history.judge();
    if args.json {
        messages::output(&messages::json(&as_json(&judged, &history, &args.history)));
    } else {
        let text = history_text(&judged, messages::style().width);
        messages::output(&format!("{}: {}", history.form.text(), text.trim_end()));
    }
    Ok(match judged.verdict {
        HistoryVerdict::Linearizable => ExitCode::SUCCESS,
        HistoryVerdict::Violated => ExitCode::from(PROVEN),
        HistoryVerdict::Undecided(_) | HistoryVerdict::NotChecked(_) => ExitCode::from(CANNOT_TELL),
    })
}

fn as_json(of: &JudgedHistory, history: &ReadHistory, path: &Path) -> serde_json::Value {
    let mut value = json!({"format": FORMAT, "history": path, "form": history.form.text()});
    if let (Some(value), Ok(serde_json::Value::Object(judged))) =
        (value.as_object_mut(), serde_json::to_value(of))
    {
        value.extend(judged);
    }
    value
}

/// Reads a history. The error names the line.
pub(crate) fn read(mut from: impl BufRead) -> Result<ReadHistory, String> {
    let mut reader = HistoryReader::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let most = LINE_MAX as u64 + 1;
        let read = (&mut from).take(most).read_until(b'\n', &mut line);
        if read.map_err(|error| format!("line {number}: {error}"))? == 0 {
            break;
        }
        if line.len() > LINE_MAX {
            return Err(format!("line {number} is longer than {} KiB", LINE_MAX >> 10));
        }
        reader.read_line(line.trim_ascii_end()).map_err(|error| error.to_string())?;
    }
    reader.finish().map_err(|error| error.to_string())
}
