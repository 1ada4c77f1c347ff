//! Tests damaged records, and those of other formats.

use bakeoff_core::record::{self, Record};
use bakeoff_report::Report;

use super::building::text_of;
use super::{NARROW, full, incomplete};

#[test]
fn records_survive_writing_and_reading() {
    for (name, written, _) in super::all() {
        let (read, complaints) = record::read(text_of(written)).unwrap();
        assert_eq!(complaints, [], "{name}");
        assert!(read == *written, "{name}");
    }
}

fn complaints(text: &str) -> (Record, Vec<String>) {
    let (record, complaints) = record::read(text).unwrap();
    (record, complaints.iter().map(ToString::to_string).collect())
}

fn refused(text: &str) -> String {
    record::read(text).unwrap_err().to_string()
}

#[test]
fn torn_last_line_loses_only_that_line() {
    let whole = text_of(&incomplete());
    let torn = &whole[..whole.len() - 20];
    let (record, complaints) = complaints(torn);
    assert_eq!(complaints, ["line 4: torn: the run was killed while it was written"]);
    assert_eq!((record.trials.len(), &record.end), (2, &None));
    assert!(full(&Report::new(&record), &NARROW).contains("2 of 6 trials"));

    let in_a_trial = whole.lines().next().unwrap().len() + 500;
    let (record, complaints) = self::complaints(&whole[..in_a_trial]);
    assert_eq!(complaints, ["line 2: torn: the run was killed while it was written"]);
    assert!(record.trials.is_empty());
}

#[test]
fn garbage_line_is_named_and_skipped() {
    let whole = text_of(&incomplete());
    let (first, rest) = whole.split_once('\n').unwrap();
    let (record, complaints) = complaints(&format!("{first}\n\u{0}\u{0}garbage\n{rest}"));
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("line 2: not a line of a record: "), "{complaints:?}");
    assert_eq!(record.trials.len(), 2);
    assert!(record.end.is_some());
}

#[test]
fn second_run_in_a_record_is_named_and_ignored() {
    let whole = text_of(&incomplete());
    let (record, complaints) = complaints(&format!("{whole}{whole}"));
    assert_eq!(complaints, ["line 5: a second run begins here; the rest is ignored"]);
    assert_eq!(record.trials.len(), 2);
}

#[test]
fn other_formats_are_refused() {
    let why = "this program reads format 1: a newer bakeoff wrote it, or one from before the first release";
    let newer = text_of(&incomplete()).replacen("\"format\":1", "\"format\":6", 1);
    assert_eq!(refused(&newer), format!("line 1: the record has format 6, and {why}"));
    let older = include_str!("../records/before-release.jsonl");
    assert_eq!(refused(older), format!("line 1: the record has format 2, and {why}"));
}

#[test]
fn file_that_is_no_record_is_refused() {
    assert_eq!(refused(""), "line 1: the record is empty");
    assert!(refused("\n").starts_with("line 1: this is not a record of a run: "));
    assert!(refused("hello\n").starts_with("line 1: this is not a record of a run: "));
    assert!(
        refused("{\"format\":1}\n").starts_with("line 1: the run's description cannot be read")
    );
    let end = "{\"line\":\"end\",\"format\":1,\"ended\":\"\",\"complete\":true}\n";
    assert_eq!(
        refused(end),
        "line 1: a record begins with its run, and this line is something else"
    );
}
