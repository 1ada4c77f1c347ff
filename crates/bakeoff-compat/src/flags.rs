//! Reads a command line as Go's `flag` and `pflag` packages do, and values as Go's `strconv` and `time` do.
//!
//! hey and vault-benchmark are Go programs that use `flag`, and scripts rely on their syntax. `-n 5`, `-n=5`, `--n 5`
//! and `--n=5` are the same. A switch takes a value only with `=`. The first word that is not a flag ends the flags.
//!
//! etcd's benchmark uses `pflag`: flags have two hyphens, and may follow other words.
//!
//! Not here: the list of flags and their meaning (`options`).

use std::time::Duration;

/// Whether a flag takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagArity {
    /// The text after `=`, or else the next argument.
    Value,
    /// No value, or `=true` and the like.
    Nothing,
}

#[derive(Debug, PartialEq)]
pub(super) struct CommandLine {
    /// Flags by name, without hyphens, in order.
    pub(super) flags: Vec<(String, String)>,
    pub(super) rest: Vec<String>,
}

/// A command line error, worded for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(String);

impl From<String> for UsageError {
    fn from(what: String) -> Self {
        Self(what)
    }
}

impl From<&str> for UsageError {
    fn from(what: &str) -> Self {
        Self(what.to_owned())
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Unreadable {
    /// The user asks for help with `-h` or `-help`, and the tool has no flag of that name.
    Help,
    Wrong(UsageError),
}

/// Splits a command line into flags and arguments. `takes` returns how a flag takes its value.
pub(super) fn read(
    args: &[String],
    takes: impl Fn(&str) -> Option<FlagArity>,
) -> Result<CommandLine, Unreadable> {
    let mut flags = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let Some(name) = arg.strip_prefix('-').filter(|name| !name.is_empty()) else { break };
        at += 1;
        let name = name.strip_prefix('-').unwrap_or(name);
        if name.is_empty() {
            break; // `--` ends the flags and is dropped
        }
        let (name, given) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(Unreadable::Wrong("a flag without a name: `-=…` or `---…`".into()));
        }
        let value = match (takes(name), given) {
            (Some(_), Some(value)) => value,
            (Some(FlagArity::Nothing), None) => "true".to_owned(),
            (Some(FlagArity::Value), None) => {
                let Some(value) = args.get(at) else {
                    return Err(match name {
                        "h" => Unreadable::Help,
                        _ => Unreadable::Wrong(format!("flag `-{name}` needs a value").into()),
                    });
                };
                at += 1;
                value.clone()
            }
            (None, _) if name == "help" => return Err(Unreadable::Help),
            (None, _) => return Err(Unreadable::Wrong(format!("unknown flag `-{name}`").into())),
        };
        flags.push((name.to_owned(), value));
    }
    Ok(CommandLine { flags, rest: args[at..].to_vec() })
}

/// Splits a command line as `pflag` does: flags with two hyphens, anywhere before `--`. `takes` returns how a flag
/// takes its value.
pub(super) fn read_anywhere(
    args: &[String],
    takes: impl Fn(&str) -> Option<FlagArity>,
) -> Result<CommandLine, Unreadable> {
    let (mut flags, mut rest) = (Vec::new(), Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.extend(words.cloned());
            break;
        }
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
            rest.push(word.clone());
            continue;
        };
        let Some(name) = name.strip_prefix('-') else {
            return Err(match name {
                "h" => Unreadable::Help,
                _ => Unreadable::Wrong(
                    format!("unknown flag `{word}`: flags have two hyphens").into(),
                ),
            });
        };
        let (name, given) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let value = match (takes(name), given) {
            (Some(_), Some(value)) => value,
            (Some(FlagArity::Nothing), None) => "true".to_owned(),
            (Some(FlagArity::Value), None) => {
                let value = words.next().cloned();
                value.ok_or_else(|| {
                    Unreadable::Wrong(format!("flag `--{name}` needs a value").into())
                })?
            }
            (None, _) if name == "help" => return Err(Unreadable::Help),
            (None, _) => return Err(Unreadable::Wrong(format!("unknown flag `--{name}`").into())),
        };
        flags.push((name.to_owned(), value));
    }
    Ok(CommandLine { flags, rest })
}

/// Parses a truth value: `1`, `t`, `T`, `true`, `TRUE`, `True`, and the same forms of false.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a whole number in Go's notation: `200`, `+5`, `-1`, `0x10`, `0b11`, `0o17`, `017`, `1_000`.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits, prefixed) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..], true),
        [b'0', b'b', ..] => (2, &lower[2..], true),
        [b'0', b'o', ..] => (8, &lower[2..], true),
        [b'0', _, ..] => (8, &lower[1..], true),
        _ => (10, &*lower, false),
    };
    // An underscore is valid between digits and after the prefix.
    let stripped = if prefixed { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    if stripped.split('_').any(str::is_empty) || stripped.contains(['+', '-']) {
        return None;
    }
    let magnitude = i128::from(u64::from_str_radix(&stripped.replace('_', ""), radix).ok()?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Parses a finite number.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses a duration in Go's notation: `10s`, `1h30m`, `1.5s`, `250ms`, `0`. Refuses negative durations and those that
/// do not fit into a `Duration`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(digits);
        let end = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        let number: f64 = number.parse().ok()?;
        seconds += number
            * match &unit[..end] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &unit[end..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(name: &str) -> Option<FlagArity> {
        match name {
            "n" | "c" | "h" | "host" => Some(FlagArity::Value),
            "h2" => Some(FlagArity::Nothing),
            _ => None,
        }
    }

    fn read_words(line: &str) -> Result<CommandLine, Unreadable> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&args, takes)
    }

    #[track_caller]
    fn check(line: &str, flags: &[(&str, &str)], rest: &[&str]) {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let read = read_words(line).unwrap();
        assert_eq!(read.flags, flags.iter().map(own).collect::<Vec<_>>());
        assert_eq!(read.rest, rest);
    }

    #[test]
    fn accepts_one_or_two_hyphens_and_an_optional_equals_sign() {
        for line in ["-n 5 u", "-n=5 u", "--n 5 u", "--n=5 u"] {
            check(line, &[("n", "5")], &["u"]);
        }
        check("-n= u", &[("n", "")], &["u"]);
        check("-n -5 u", &[("n", "-5")], &["u"]); // a value may look like a flag
    }

    #[test]
    fn first_word_without_a_hyphen_ends_the_flags() {
        check("-n 5 url -c 3", &[("n", "5")], &["url", "-c", "3"]);
        check("-n 5 -- -c 3", &[("n", "5")], &["-c", "3"]);
        check("- -n 5", &[], &["-", "-n", "5"]);
        check("", &[], &[]);
    }

    #[test]
    fn a_switch_takes_a_value_only_with_an_equals_sign() {
        check("-h2 false", &[("h2", "true")], &["false"]);
        check("-h2=false u", &[("h2", "false")], &["u"]);
    }

    #[test]
    fn refuses_flags_that_hey_does_not_have() {
        for line in ["-foo u", "-n", "-=3", "---n 3"] {
            assert!(matches!(read_words(line), Err(Unreadable::Wrong(_))), "{line}");
        }
        for line in ["-h", "-help", "--help", "-n 5 -h"] {
            assert_eq!(read_words(line), Err(Unreadable::Help), "{line}");
        }
    }

    #[test]
    fn pflag_finds_flags_with_two_hyphens_after_other_words() {
        let read = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            read_anywhere(&args, takes)
        };
        let line = read("k --n 5 end --h2 --c=-1 -- --n 6 -h").unwrap();
        let flags: Vec<_> = line.flags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(flags, [("n", "5"), ("h2", "true"), ("c", "-1")]);
        assert_eq!(line.rest, ["k", "end", "--n", "6", "-h"]);
        for line in ["-n 5", "--x", "--n", "--=1"] {
            assert!(matches!(read(line), Err(Unreadable::Wrong(_))), "{line}");
        }
        for line in ["-h", "--help", "k --n 5 -h"] {
            assert_eq!(read(line), Err(Unreadable::Help), "{line}");
        }
    }

    #[test]
    fn whole_numbers_are_read_as_go_reads_them() {
        let good = [
            ("200", 200),
            ("+5", 5),
            ("-1", -1),
            ("0", 0),
            ("0x1F", 31),
            ("0b11", 3),
            ("0o17", 15),
            ("017", 15),
            ("1_000", 1000),
            ("0x_ff", 255),
        ];
        for (text, value) in good {
            assert_eq!(integer(text), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "x",
            "1.5",
            "1e3",
            "_1",
            "1_",
            "1__0",
            "08",
            "+-1",
            "0x",
            "99999999999999999999",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let good = [
            ("10s", 10_000),
            ("3m", 180_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1500),
            ("250ms", 250),
            (".5s", 500),
            ("0", 0),
            ("+1s", 1000),
        ];
        for (text, milliseconds) in good {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(duration("3µs"), Some(Duration::from_micros(3)));
        for text in [
            "",
            "3",
            "s",
            ".s",
            "1..5s",
            "1d",
            "-1s",
            "1s2",
            "10 s",
            "1e30h",
            "9999999999999999999999999h",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_finite() {
        assert_eq!((number("1.5"), number("1e3")), (Some(1.5), Some(1000.0)));
        assert_eq!((number("inf"), number("NaN"), number("x")), (None, None, None));
    }
}
