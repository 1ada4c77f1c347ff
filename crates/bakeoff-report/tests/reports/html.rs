//! Tests the HTML page: its contents, forbidden markup and size.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use bakeoff_core::record::Record;
use bakeoff_report::{self as report, Report};
use serde_json::Value;

use super::building::{page_of, text_of};
use super::large::{first, hostile, large, under};

static LARGE: LazyLock<(Record, String)> = LazyLock::new(|| {
    let record = large();
    let page = page_of(&record);
    // For a look in a browser.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large.html");
    std::fs::write(path, &page).expect("a written page");
    for (name, record) in [("small", under("c64")), ("hostile", hostile())] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
        std::fs::write(&path, page_of(&record)).expect("a written page");
        std::fs::write(path.with_extension("svg"), report::card(&Report::new(&record)))
            .expect("a written page");
        std::fs::write(path.with_extension("png"), report::png(&Report::new(&record)))
            .expect("a written page");
    }
    (record, page)
});

#[test]
fn large_report_is_small_enough_for_a_mail() {
    let (record, page) = &*LARGE;
    assert_eq!(record.trials.len(), 120);
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
}

#[test]
fn foreign_text_is_never_markup() {
    let page = page_of(&hostile());
    for markup in
        ["<script>document", "<img", "<b>bold", "<i>", "<u>", "\u{1b}", "\u{0}", "\u{202e}"]
    {
        assert!(!page.contains(markup), "{markup:?}");
    }
    assert!(page.contains("&lt;script&gt;document"), "escaped, but shown");
    // The page's script, and one for each file.
    assert_eq!(page.matches("<script").count(), 1 + 4);
    assert_eq!(page.matches("</script>").count(), 1 + 4);
    assert_eq!(page.matches("</title>").count(), page.matches("<title>").count());
    let inline =
        ["onclick=", "onload=", "style=\"", "javascript:", "src=\"", "http://", "https://"];
    for forbidden in inline {
        assert!(!page.contains(forbidden), "{forbidden} in the page");
    }
}

#[test]
fn answer_comes_first_and_sections_follow_in_order() {
    let (_, page) = &*LARGE;
    let mut places = vec![
        page.find("<h1 id=\"verdict\">zookeeper leads under 7 of 8 loads").expect("an answer"),
        page.find("what each load costs in latency").expect("a curve"),
        page.find("Key figures").expect("figures"),
        page.find("Verified").expect("facts"),
        page.find("id=\"warnings\"").expect("findings"),
        page.find("<ol class=\"toc\">").expect("a table of contents"),
    ];
    let sections = [
        "figures", "ratios", "clients", "latency", "time", "fairness", "trials", "setup", "method",
        "data",
    ];
    for id in sections {
        assert!(page.contains(&format!("<li><a href=\"#{id}\">")), "no entry of {id}");
        places
            .push(page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}")));
    }
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn invalid_trial_is_hollow_and_crossed_out() {
    let (record, page) = &*LARGE;
    let invalid = record.trials.iter().filter(|one| !one.invalid_because().is_empty()).count();
    assert_eq!(invalid, 3);
    // Each is in a chart of throughput and one of latency, and a sweep has no latency over all stages.
    assert_eq!(page.matches(" hollow\"").count(), 2 * invalid);
    assert_eq!(page.matches("NOT VALID: generator: ").count(), invalid);
    let valid = record.trials.len() - invalid;
    let marks = page.matches(", trial ").count();
    assert!(marks >= 2 * (valid + invalid), "{marks} marks");
}

#[test]
fn reference_beyond_the_axis_is_named_and_not_drawn() {
    let (_, page) = &*LARGE;
    assert!(page.contains("Published for zookeeper, beyond this axis: 34,000."));
    assert!(page.contains("published for etcd: 2,921"));
    assert!(page.contains("durable appends to this disk"));
}

#[test]
fn first_valid_trial_is_shown_without_a_script() {
    let (record, page) = &*LARGE;
    for trial in &record.trials {
        let id = format!("<div id=\"time-{}\"", trial.trial.number + 1);
        let here = page.find(&id).unwrap_or_else(|| panic!("no {id}")) + id.len();
        let hidden = page[here..].starts_with(" hidden");
        let place = |one: &bakeoff_core::plan::Trial| (one.system.clone(), one.load.clone());
        let shown = record.trials.iter().find(|one| {
            place(&one.trial) == place(&trial.trial) && one.invalid_because().is_empty()
        });
        assert_eq!(!hidden, shown == Some(trial), "{id}");
    }
}

#[test]
fn page_contains_its_data() {
    let record = hostile();
    let report = Report::new(&record);
    let page = page_of(&record);
    let block = |id: &str| -> Value {
        let begin = format!("id=\"{id}\">");
        let begin = page.find(&begin).unwrap_or_else(|| panic!("no {id}")) + begin.len();
        let end = begin + page[begin..].find("</script>").expect("the end of the block");
        serde_json::from_str(&page[begin..end]).expect("a block is JSON")
    };
    // Parsing may change the last digit of a number, so both are parsed.
    let again: Value = serde_json::from_str(&report::json(&report).to_string()).expect("JSON");
    assert_eq!(block("file-json"), again);
    assert_eq!(block("file-csv"), report::csv(&report));
    assert_eq!(block("file-md"), report::markdown(&report));
    // A small record is included byte by byte, with its hashes.
    assert_eq!(block("file-record"), text_of(&record));
}

#[test]
fn pages_render_for_empty_and_old_records() {
    for (name, record) in [("empty", empty()), ("old", old()), ("one load", under("sweep"))] {
        let page = page_of(&record);
        assert!(page.ends_with("</body></html>\n"), "{name}");
        assert!(!page.contains("NaN") && !page.contains("inf "), "{name}");
    }
    let (_, page) = &*LARGE;
    assert!(!page.contains("NaN") && !page.contains("\"inf"), "a place is a number");
}

fn empty() -> Record {
    let mut record = first(0);
    record.end = None;
    record
}

/// Returns an old record without samples, with a trial in which nothing was measured.
fn old() -> Record {
    let mut record = hostile();
    record.header.environment.machine_baseline = None;
    for trial in &mut record.trials {
        trial.observed = None;
        trial.stages.iter_mut().for_each(|stage| stage.began = 0.0);
    }
    record.trials[0].stages.clear();
    record
}

#[test]
fn csv_has_one_row_per_trial() {
    let record = hostile();
    let text = report::csv(&Report::new(&record));
    let rows: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 1 + record.trials.len());
    let columns: Vec<&str> = rows[0].split(',').collect();
    assert_eq!(columns[..4], ["study", "scale", "trial", "round"]);
    for name in ["throughput_mean_per_second", "response_p99_ms", "invalid_because"] {
        assert!(columns.contains(&name), "{name} is not in {columns:?}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains('\u{0}'));
    let column = columns.iter().position(|name| *name == "requests_verified").expect("the column");
    let sum = |record: &bakeoff_core::record::TrialRecord| record.stages[0].measurement.verified();
    for (row, trial) in rows[1..].iter().zip(&record.trials) {
        // Only one field is quoted, and it has no comma.
        let fields: Vec<&str> = row.split(',').collect();
        assert_eq!(fields.len(), columns.len(), "{row}");
        assert_eq!(fields[column], sum(trial).to_string());
        assert_eq!(fields[2], (trial.trial.number + 1).to_string());
    }
}

/// Measures a duration, which means little without optimization: `CARGO_PROFILE_DEV_OPT_LEVEL=3
/// cargo test -p bakeoff-report --test reports quickly -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it measures and prints a duration"
)]
fn large_report_renders_quickly() {
    let (record, _) = &*LARGE;
    let text = text_of(record);
    let began = std::time::Instant::now();
    let report = Report::new(record);
    let computed = began.elapsed();
    let page = report::html(&report, record, text.as_bytes());
    let took = began.elapsed();
    println!("computed in {computed:?}, with the page {took:?}, {} bytes", page.len());
    assert!(took < Duration::from_secs(2), "{took:?}");
}
