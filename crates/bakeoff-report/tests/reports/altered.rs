//! Alters records at random: each is refused, or read, rendered and compared.
//!
//! A smoke run of the fuzz target `record` with seeds, on the stable toolchain. Not here: texts with terminal escape codes (`html`, and the binary's `hostile_runs`).

#![allow(
    clippy::disallowed_macros,
    reason = "it prints the number of inputs and the memory they took"
)]

use std::process::Command;

use bakeoff_core::record;
use bakeoff_core::units::is_harmful;
use bakeoff_report::compare::RunComparison;
use bakeoff_report::comparison;
use bakeoff_report::reproduce::Reproduction;
use bakeoff_report::{self as report, Extent, Report, verify};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::building::{lines_of, page_of};
use super::{NARROW, all};

/// Replacements for numbers.
const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "0.5",
    "1e-300",
    "3",
    "99999999",
    "100000000",
    "1000000000000000",
    "-0.0",
    "1e12",
    "18446744073709551615",
];
/// Replacements for texts.
const TEXTS: [&str; 8] =
    ["\"\"", "\"=1+1\"", "\"\\u001b[2J\"", "\"\u{202e}x\"", "\"put\"", "null", "[]", "{}"];

/// Largest memory of this program in KiB (256 MiB), the limit of the fuzz target `record`.
const MEMORY_MAX_KIB: u64 = 256 << 10;

/// Returns the largest memory of this program so far, in KiB (`VmHWM` of `proc_pid_status(5)`).
fn most_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse().ok()).unwrap_or_else(|| panic!("{status}"))
}

/// Replaces a random JSON token in a line: a number, or a text that is a value.
fn alter(line: &str, rng: &mut Xoshiro256PlusPlus) -> String {
    let bytes = line.as_bytes();
    let from = rng.random_range(0..bytes.len());
    let is_number = |byte: u8| byte.is_ascii_digit() || b".-+eE".contains(&byte);
    let after_colon = (from..bytes.len()).find(|&at| matches!(bytes[at], b':' | b'[' | b','));
    let Some(begin) = after_colon.map(|at| at + 1) else { return line.to_owned() };
    let rest = &bytes[begin..];
    let (length, by) = match rest.first() {
        Some(&first) if is_number(first) => {
            let length = rest.iter().take_while(|&&byte| is_number(byte)).count();
            (length, NUMBERS[rng.random_range(0..NUMBERS.len())])
        }
        Some(b'"') => {
            let length = rest.iter().skip(1).take_while(|&&byte| byte != b'"').count() + 2;
            (length, TEXTS[rng.random_range(0..TEXTS.len())])
        }
        _ => return line.to_owned(),
    };
    let Some(end) = line.get(begin + length..) else { return line.to_owned() };
    format!("{}{by}{end}", &line[..begin])
}

/// Reads a record and renders it in each format, also compared with itself. Returns true if it could be read.
fn render(text: &str) -> bool {
    let Ok((record, complaints)) = record::read(text) else { return false };
    verify::verify(&record::chain::check(text.as_bytes()), &record, &complaints);
    let reproduced = Reproduction::new(&record, &record).text();
    assert!(!reproduced.is_empty());
    let read = Report::new(&record);
    let harmful = |text: &str| text.replace("\r\n", "").contains(|c| is_harmful(c) && c != '\n');
    let terminal = report::terminal(&read, &NARROW, Extent::Full);
    assert!(!harmful(&terminal), "{terminal:?}");
    let csv = report::csv(&read);
    assert!(!harmful(&csv), "{csv:?}");
    for cell in csv.split([',', '\n']) {
        let formula = cell.starts_with(['=', '@', '+']) || cell.starts_with("\"=");
        assert!(!formula || cell.parse::<f64>().is_ok(), "{cell:?}");
    }
    assert!(!harmful(&report::markdown(&read)));
    // Tabs separate the numbers in its charts.
    assert!(!harmful(&page_of(&record).replace('\t', "")));
    report::json(&read);
    let compared = RunComparison::new(&record, &record, &[], &[]);
    comparison::terminal(&compared, &NARROW);
    comparison::markdown(&compared);
    true
}

/// Runs in its own process, because the memory of other tests is not limited.
#[test]
fn altered_texts_neither_panic_nor_use_much_memory() {
    let program = std::env::current_exe().expect("the path of this program");
    let alone = ["--exact", "altered::altered_texts_are_rendered", "--ignored", "--nocapture"];
    let ended = Command::new(program).args(alone).output().expect("this program again");
    let stdout = String::from_utf8_lossy(&ended.stdout);
    print!("{stdout}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}", ended.status);
    assert!(stdout.contains("1 passed"), "no test ran");
}

#[test]
#[ignore = "the previous test runs it in its own process"]
fn altered_texts_are_rendered() {
    let smallest = all().iter().map(|(_, record, _)| {
        let mut record = record.clone();
        record.trials.truncate(1);
        lines_of(&record).concat()
    });
    let mut smallest: Vec<String> = smallest.collect();
    smallest.sort_by_key(String::len);
    smallest.truncate(4);
    let corpus: Vec<&[u8]> = smallest.iter().map(String::as_bytes).collect();
    let words = ["null", "[]", "{}", "\"=1+1\"", "\\u001b[2J", "\u{202e}", "true", "1e15", "\"\""];
    bakeoff_fuzz::run("documents", &corpus, &words, |input| {
        render(&String::from_utf8_lossy(input));
        let most = most_memory_kib();
        assert!(most < MEMORY_MAX_KIB, "{most} KiB of memory");
    });
    println!("at most {} MiB of memory", most_memory_kib() >> 10);
}

#[test]
fn altered_records_are_refused_or_rendered() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(15);
    let records: Vec<Vec<String>> = all()
        .iter()
        .map(|(_, record, _)| {
            let mut record = record.clone();
            record.trials.truncate(6);
            lines_of(&record)
        })
        .collect();
    let (mut read, rounds) = (0, 12);
    for lines in &records {
        for _ in 0..rounds {
            let mut lines = lines.clone();
            for _ in 0..rng.random_range(1..4) {
                let place = rng.random_range(0..lines.len());
                lines[place] = alter(&lines[place], &mut rng);
            }
            match rng.random_range(0..8) {
                0 => drop(lines.remove(rng.random_range(0..lines.len()))),
                1 => lines.push(lines[rng.random_range(0..lines.len())].clone()),
                _ => {}
            }
            read += u32::from(render(&lines.concat()));
        }
    }
    assert!(read > rounds, "most altered records can be read: {read}");
}
