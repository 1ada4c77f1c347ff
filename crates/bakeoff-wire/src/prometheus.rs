//! Parses metrics in Prometheus' text format, version 0.0.4, sample by sample.
//!
//! Nothing is copied: a sample borrows its line. A line that is neither a comment nor a sample is an error, so an
//! unrelated page does not pass as empty metrics.
//!
//! Not here: the meaning of metrics, and the limit on a text's length, which the receiver sets.

use crate::ProtocolError;

/// Media type of this format, for the header `accept`.
pub const MEDIA_TYPE: &str = "text/plain;version=0.0.4";

/// Maximum bytes of a line that an error quotes.
const SHOWN: usize = 40;

/// Holds one sample of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// Metric name, such as `process_cpu_seconds_total`.
    pub name: &'a str,
    /// Labels as written between the braces.
    labels: &'a str,
    /// Value; may be infinite or NaN.
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// Returns the value of a label; escapes are left as written.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        while let Some((known, value, after)) = label(rest) {
            if known == name {
                return Some(value);
            }
            rest = after.trim_start().strip_prefix(',')?;
        }
        None
    }
}

/// Parses a text line by line.
///
/// # Errors
/// An item is an error if its line is not a sample. Later lines are still parsed.
pub fn samples(text: &[u8]) -> impl Iterator<Item = Result<Sample<'_>, ProtocolError>> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let relevant = lines.filter(|(_, line)| line.first().is_some_and(|byte| *byte != b'#'));
    relevant.map(|(place, line)| {
        let read = str::from_utf8(line).ok().and_then(sample);
        read.ok_or_else(|| {
            let shown = line.get(..SHOWN).unwrap_or(line).escape_ascii();
            ProtocolError::new(format!("line {} is not a sample of a metric: `{shown}`", place + 1))
        })
    })
}

/// Parses `name{label="value"} 1.5 1700000000000`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_of_name(c))?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None if rest.starts_with([' ', '\t']) => ("", rest),
        None => return None,
    };
    let mut words = rest.split_ascii_whitespace();
    let value = words.next()?.parse().ok()?;
    // Skip a timestamp. Only exemplars of newer versions may follow it.
    let is_time = |word: &str| word == "#" || word.parse::<f64>().is_ok();
    words.next().is_none_or(is_time).then_some(Sample { name, labels, value })
}

/// Splits the text after an opening brace into the labels and the text after the closing brace.
fn labels(inside: &str) -> Option<(&str, &str)> {
    let mut rest = inside.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((inside.get(..inside.len() - rest.len())?, after));
        }
        let (_, _, after) = label(rest)?;
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.starts_with('}') => after,
            None => return None,
        };
    }
}

/// Parses `name="value"`. Returns name, value and the remaining text.
fn label(text: &str) -> Option<(&str, &str, &str)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text = text.trim_start();
    let (name, rest) = text.split_at(text.find(|c| !is_of_name(c))?);
    let quoted = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    let mut escaped = false;
    let end = quoted.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    (!name.is_empty()).then_some(())?;
    Some((name, quoted.get(..end)?, quoted.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Sample<'_>>, ProtocolError> {
        samples(text.as_bytes()).collect()
    }

    #[test]
    fn samples_are_read_with_their_labels() {
        let text = "# HELP up Whether it is up.\n# TYPE up gauge\n\nup 1\r\n  \
                    cpu_total{cpu=\"0\",mode=\"idle\"} 1.5e3 1700000000000\n\
                    odd { a = \"x } \\\" y\" , b=\"\", } NaN\nhigh{} +Inf\n\
                    seen 3 # {trace=\"1\"} 2\n";
        let all = read(text).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name).collect();
        assert_eq!(names, ["up", "cpu_total", "odd", "high", "seen"]);
        assert_eq!((all[1].value, all[1].label("mode")), (1500.0, Some("idle")));
        assert_eq!((all[1].label("cpu"), all[1].label("c")), (Some("0"), None));
        assert_eq!((all[2].label("a"), all[2].label("b")), (Some("x } \\\" y"), Some("")));
        assert!(all[2].value.is_nan() && all[3].value.is_infinite());
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn other_lines_are_reported_with_their_numbers() {
        for wrong in [
            "<html>",
            "up",
            "up one",
            "1up 1",
            "up{ 1",
            "up{a=1} 1",
            "up{a=\"x} 1",
            "up{a=\"x\" b=\"y\"} 1",
            "up{=\"x\"} 1",
            "up{a=\"x\"}",
            "up-1 1",
            "up 1 now",
            "{\"cpu\": 1}",
        ] {
            let error = read(&format!("# x\n{wrong}\n")).unwrap_err().to_string();
            assert!(error.starts_with("line 2 is not a sample of a metric: `"), "{wrong}: {error}");
        }
        let all: Vec<_> = samples(b"\xff 1\nup 1").collect();
        assert!(all[0].is_err() && all[1].is_ok());
    }

    proptest! {
        #[test]
        fn any_text_yields_samples_or_errors(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            for sample in samples(&text).flatten() {
                sample.label("mode");
            }
        }

        #[test]
        fn labels_are_found_with_any_value(value in "[^\"\\\\\n\r]{0,20}") {
            let text = format!("m{{a=\"{value}\",b=\"{value}\"}} 2");
            let all = read(&text).unwrap();
            prop_assert_eq!((all[0].label("a"), all[0].label("b")), (Some(&*value), Some(&*value)));
        }
    }
}
