//! Formats numbers as the Go programs do: go-humanize's sizes and thousands, and Go's shortest decimals.

/// Formats a number of bytes as `105 MB`: powers of 1000, with one decimal below 10.
pub(super) fn bytes(count: f64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let count = if count.is_finite() { count.max(0.0).trunc() } else { 0.0 };
    if count < 10.0 {
        return format!("{count:.0} B");
    }
    let power = (count.ln() / 1000f64.ln()).floor().clamp(0.0, (UNITS.len() - 1) as f64);
    let value = (count / 1000f64.powf(power) * 10.0 + 0.5).floor() / 10.0;
    let unit = UNITS[power as usize];
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Formats a whole number with commas between thousands: `1,000,000`.
pub(super) fn commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_go_humanize() {
        let check = |count: f64, expected: &str| assert_eq!(bytes(count), expected);
        check(0.0, "0 B");
        check(9.0, "9 B");
        check(999.0, "999 B");
        check(3_813_376.0, "3.8 MB");
        check(12_288.0, "12 kB");
        check(105_381_888.0, "105 MB");
        check(359_052_320.0, "359 MB");
        check(1e9, "1.0 GB");
        check(f64::NAN, "0 B");
    }

    #[test]
    fn thousands_have_commas() {
        let check = |number, expected: &str| assert_eq!(commas(number), expected);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(1_455_400, "1,455,400");
    }
}
