//! Reads a record, renders it in every format, and compares it with itself.
#![no_main]

use bakeoff_core::record;
use bakeoff_core::units::is_harmful;
use bakeoff_report::compare::RunComparison;
use bakeoff_report::comparison;
use bakeoff_report::reproduce::Reproduction;
use bakeoff_report::{self as report, Extent, Report, Style, verify};
use libfuzzer_sys::fuzz_target;

const PLAIN: Style = Style { width: Some(80), colour: false };

fuzz_target!(|input: &[u8]| {
    let Ok((record, complaints)) = record::read(input) else { return };
    let read = Report::new(&record);
    for text in [report::terminal(&read, &PLAIN, Extent::Full), report::markdown(&read)] {
        assert!(!text.contains(|c| is_harmful(c) && c != '\n'), "{text:?}");
    }
    report::csv(&read);
    report::html(&read, &record, input);
    report::json(&read);
    verify::verify(&record::chain::check(input), &record, &complaints);
    Reproduction::new(&record, &record).text();
    let compared = RunComparison::new(&record, &record, &[], &[]);
    comparison::terminal(&compared, &PLAIN);
    comparison::markdown(&compared);
});
