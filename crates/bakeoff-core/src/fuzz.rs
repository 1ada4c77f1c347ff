//! Feeds core's parsers with altered inputs: histograms, records, conditions.

use std::time::Duration;

use crate::condition::Condition;
use crate::histogram::Latencies;
use crate::record;
use crate::study::parse;
use crate::study::testing::kinds;
use crate::units;

#[test]
fn histogram_decoder_never_panics() {
    let mut some = Latencies::default();
    let empty = some.encode();
    (1..200).for_each(|number| some.record(Duration::from_micros(number * number)));
    let corpus = [some.encode(), empty];
    let corpus = corpus.each_ref().map(|text| text.as_bytes());
    bakeoff_fuzz::run("histogram", &corpus, &["HISTF", "AAAA", "////"], |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(read) = Latencies::decode(text, 0) {
            assert!(read.count() <= 1_000_000_000_000_000);
        }
    });
}

/// Shortest possible record, with no trial.
const RECORD: &str = concat!(
    r#"{"line":"resumed","resumed":"x","bakeoff":"0.1.0","previous_sha256":"00"}"#,
    "\n",
    r#"{"line":"end","ended":"2026-11-21T20:30:00Z","complete":true}"#,
    "\n"
);

#[test]
fn record_parser_never_panics() {
    let text = "title: t\nsystems: {a: {kind: canary}}\nworkloads: {w: {mix: {put: 1}, keys: {count: 9}}}\n\
                loads: {x: {clients: 1, stop: {after: 1s}}}\n";
    let study = parse("t", "t.yaml", text, &kinds()).expect("it is a study");
    let header = record::RecordLine::Run(record::RunHeader::of_study(study, 7));
    let header = serde_json::to_string(&header).expect("it is JSON") + "\n";
    let short = [header.as_bytes(), RECORD.as_bytes()].concat();
    let words = ["\"line\":\"trial\"", "null", "{", "[", "\"", "\\u0000", "\n", "1e999"];
    bakeoff_fuzz::run("record", &[&short, RECORD.as_bytes()], &words, |input| {
        record::read(input).ok();
        record::chain::check(input);
    });
}

#[test]
fn condition_and_quantity_parsers_never_panic() {
    let corpus: [&[u8]; 5] = [
        b"p99 > 20ms",
        b"errors >= 0.1%",
        b"service p99.9 < 1.5s",
        b"throughput < 1000/s",
        b"16MiB",
    ];
    let words = ["ms", "p99", "schedule lag", "\u{a0}", "\u{202e}", "<=", "%", "/s", "GiB"];
    bakeoff_fuzz::run("condition", &corpus, &words, |input| {
        let text = String::from_utf8_lossy(input);
        if let Err(misread) = text.parse::<Condition>() {
            assert!(!misread.to_string().contains('\u{202e}'));
        }
        units::parse_duration(&text).ok();
        units::parse_rate(&text).ok();
        units::parse_share(&text).ok();
    });
}
