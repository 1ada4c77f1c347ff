//! Reads and writes numbers as wrk does.
//!
//! Programs parse these numbers, so wrk's oddities are kept. A unit is used from 0.85 of it. Hours are read but never
//! written. A column is cut to its width.
//!
//! Not here: bakeoff's own number format (`bakeoff_core::units`).

use crate::flags::UsageError;

/// Units of one kind: the base unit, the factor between successive units, and their names.
struct Units {
    scale: u32,
    base: &'static str,
    /// Names from small to large. wrk reads all of them and never writes the last.
    names: &'static [&'static str],
}

const MICROSECONDS: Units = Units { scale: 1000, base: "us", names: &["ms", "s"] };
const SECONDS: Units = Units { scale: 60, base: "s", names: &["m", "h"] };
const BINARY: Units = Units { scale: 1024, base: "", names: &["K", "M", "G", "T", "P"] };
const METRIC: Units = Units { scale: 1000, base: "", names: &["k", "M", "G", "T", "P"] };

/// Share of a unit from which it is used.
const TAKEN_UP_AT: f64 = 0.85;

/// Undefined number, as C's `printf` shows 0/0.
const NOT_A_NUMBER: &str = "-nan";

fn write(mut amount: f64, units: &Units, decimals: usize) -> String {
    let mut name = units.base;
    let scale = f64::from(units.scale);
    for larger in &units.names[..units.names.len() - 1] {
        if amount < scale * TAKEN_UP_AT {
            break;
        }
        amount /= scale;
        name = larger;
    }
    format!("{}{name}", fixed(amount, decimals))
}

/// Formats as `%.*f`.
pub(super) fn fixed(number: f64, decimals: usize) -> String {
    if number.is_nan() { NOT_A_NUMBER.to_owned() } else { format!("{number:.decimals$}") }
}

/// Formats microseconds: `1.23ms`.
pub(super) fn microseconds(n: f64) -> String {
    if n >= 1e6 { write(n / 1e6, &SECONDS, 2) } else { write(n, &MICROSECONDS, 2) }
}

/// Formats whole seconds: `30s`, `2m`.
pub(super) fn seconds(n: u64) -> String {
    write(n as f64, &SECONDS, 0)
}

/// Formats a count by 1024: `1.23M`, without the unit of the counted thing.
pub(super) fn binary(n: f64) -> String {
    write(n, &BINARY, 2)
}

/// Formats a count by 1000: `12.34k`.
pub(super) fn metric(n: f64) -> String {
    write(n, &METRIC, 2)
}

/// Aligns a number in a column. The digits end at the same place for units of zero, one or two letters. A text that is
/// too long is cut at its end.
pub(super) fn column(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    let width = width - pad;
    format!("{text:>width$.width$}{:pad$}", "")
}

/// Parses a count: `12`, `12k`, `1M`.
pub(super) fn read_count(text: &str) -> Result<u64, UsageError> {
    read(text, &METRIC).ok_or_else(|| {
        format!("`{text}` is not a count; write a whole number such as `400`, `10k` or `1M`").into()
    })
}

/// Parses whole seconds: `30`, `30s`, `2m`, `1h`.
pub(super) fn read_seconds(text: &str) -> Result<u64, UsageError> {
    read(text, &SECONDS).ok_or_else(|| {
        format!("`{text}` is not a time; write whole seconds, minutes or hours: `30s`, `2m`, `1h`")
            .into()
    })
}

fn read(text: &str, units: &Units) -> Option<u64> {
    let text = text.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    if unit.is_empty() || unit.eq_ignore_ascii_case(units.base) {
        return Some(number);
    }
    let power = units.names.iter().position(|name| unit.eq_ignore_ascii_case(name))? + 1;
    let scale = u64::from(units.scale).checked_pow(u32::try_from(power).ok()?)?;
    number.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_wrk_writes_them() {
        let check = |n: f64, text: &str| assert_eq!(microseconds(n), text, "{n}");
        check(0.0, "0.00us");
        check(849.0, "849.00us");
        check(850.0, "0.85ms");
        check(12_345.0, "12.35ms");
        check(999_999.0, "1000.00ms");
        check(1_000_000.0, "1.00s");
        check(50_900_000.0, "50.90s");
        check(51_000_000.0, "0.85m");
        check(7_200e6, "120.00m");
        assert_eq!([10, 60, 90, 7200].map(seconds), ["10s", "1m", "2m", "120m"]);
    }

    #[test]
    fn counts_are_written_as_wrk_writes_them() {
        assert_eq!(
            [849.0, 850.0, 12_345.0, 9e5].map(metric),
            ["849.00", "0.85k", "12.35k", "0.90M"]
        );
        assert_eq!([870.0, 871.0, 1e6].map(binary), ["870.00", "0.85K", "0.95M"]);
    }

    #[test]
    fn column_aligns_its_digits() {
        assert_eq!(column("849.00us", 10), "  849.00us");
        assert_eq!(column("12.35k", 10), "   12.35k ");
        assert_eq!(column("849.00", 10), "  849.00  ");
        assert_eq!(column("12345678.00us", 8), "12345678", "a text that is too long is cut");
    }

    #[test]
    fn reads_the_units_that_wrk_reads() {
        let count = |text| read_count(text).ok();
        assert_eq!(
            ["12", "2k", "3M", "1g", " 7"].map(count),
            [Some(12), Some(2000), Some(3_000_000), Some(1_000_000_000), Some(7)]
        );
        let time = |text| read_seconds(text).ok();
        assert_eq!(["5", "5s", "2m", "1H"].map(time), [Some(5), Some(5), Some(120), Some(3600)]);
    }

    #[test]
    fn refuses_the_units_that_wrk_refuses() {
        for text in ["", "k", "-5", "1.5s", "500ms", "10sec", "99999999999999999999", "1ss"] {
            assert!(read_seconds(text).is_err(), "{text}");
            assert!(read_count(text).is_err(), "{text}");
        }
        assert!(read_seconds("500ms").unwrap_err().to_string().contains("`500ms` is not a time"));
    }
}
