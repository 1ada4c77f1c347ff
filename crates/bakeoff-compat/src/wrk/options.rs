//! Parses wrk's command line, and wrk2's additions.
//!
//! Does not use clap, because existing scripts rely on forms of `getopt_long` that clap refuses: options after the
//! URL, `-t12` and `-t 12`, abbreviated long names (`--lat`), and everything after `--` for the Lua script.
//!
//! Not here: numbers and their units (`units`), a script's use of its arguments (`script`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::units;
use crate::flags::UsageError;

/// Most threads accepted; more is probably a typing error.
const THREADS_MAX: u64 = 1024;

/// Usage, printed for `--help` and below an error.
pub(super) const USAGE: &str = "\
Usage: wrk <options> <url> [-- <arguments of the script>]
  Options:
    -c, --connections <N>  Connections, all threads together
    -d, --duration    <T>  How long to load the server
    -t, --threads     <N>  Threads that share the connections

    -s, --script      <S>  A LuaJIT script
    -H, --header      <H>  A header for each request
    -L, --latency          Print the distribution of latencies
        --timeout     <T>  How long an answer may take
    -R, --rate        <N>  Requests per second, all threads together:
                           an open load, as wrk2 makes it
    -U, --u_latency        With -R: latencies from sending, too
    -B, --batch_latency    Accepted, without effect
    -v, --version          Print what this is

  Counts may have a unit (1k, 1M, 1G), times too (2s, 2m, 2h)
";

#[derive(Debug)]
pub(super) enum WrkCommand {
    Run(Box<Options>),
    Help,
    Version,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    pub(super) threads: u32,
    pub(super) connections: u32,
    pub(super) duration: Duration,
    pub(super) timeout: Duration,
    pub(super) script: Option<PathBuf>,
    pub(super) headers: Vec<(String, String)>,
    /// `-H` arguments without a space after the colon, which wrk drops silently.
    pub(super) headers_wrk_drops: Vec<String>,
    pub(super) latency: bool,
    pub(super) uncorrected: bool,
    pub(super) rate: Option<u64>,
    pub(super) version: bool,
    pub(super) url: Url,
    /// URL and the arguments after it, passed to the script's `init` from index 0.
    pub(super) args: Vec<String>,
}

/// A URL in the parts that scripts see.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Url {
    /// URL as given, with any password removed.
    pub(super) shown: String,
    pub(super) scheme: String,
    /// Host without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// Everything after the authority, if that begins with a slash.
    pub(super) path: String,
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let shown = match user.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{place}{rest}"),
            None => text.to_owned(),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(v6) => {
                let (host, after) = v6.split_once(']')?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return None;
        }
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|&port| port > 0)?),
            None => None,
        };
        Some(Self {
            shown,
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            port,
            path: if rest.starts_with('/') { rest } else { "/" }.to_owned(),
        })
    }

    pub(super) fn tls(&self) -> bool {
        self.scheme == "https"
    }

    /// Returns the port, or else the scheme: the service for address lookups.
    pub(super) fn service(&self) -> String {
        self.port.map_or_else(|| self.scheme.clone(), |port| port.to_string())
    }
}

/// Letter and long name of each option, and whether it takes a value.
const OPTIONS: [(char, &str, bool); 12] = [
    ('c', "connections", true),
    ('d', "duration", true),
    ('t', "threads", true),
    ('s', "script", true),
    ('H', "header", true),
    ('L', "latency", false),
    ('U', "u_latency", false),
    ('B', "batch_latency", false),
    ('T', "timeout", true),
    ('R', "rate", true),
    ('h', "help", false),
    ('v', "version", false),
];

struct GivenFlag {
    letter: char,
    /// Name as written on the command line, for messages.
    name: String,
    value: String,
}

/// Parses a command line, without the program's name.
pub(super) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<WrkCommand, UsageError> {
    let (message, words) = split(args)?;
    let mut run = Options {
        threads: 2,
        connections: 10,
        duration: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        script: None,
        headers: Vec::new(),
        headers_wrk_drops: Vec::new(),
        latency: false,
        uncorrected: false,
        rate: None,
        version: false,
        url: Url {
            shown: String::new(),
            scheme: String::new(),
            host: String::new(),
            port: None,
            path: String::new(),
        },
        args: words,
    };
    let (mut threads, mut connections) = (2, 10);
    for GivenFlag { letter, name, value } in message {
        let at = |problem: UsageError| UsageError::from(format!("`{name}`: {problem}"));
        match letter {
            't' => threads = units::read_count(&value).map_err(at)?,
            'c' => connections = units::read_count(&value).map_err(at)?,
            'd' => run.duration = time(&value).map_err(at)?,
            'T' => run.timeout = time(&value).map_err(at)?,
            'R' => run.rate = Some(rate(&value).map_err(at)?),
            's' => run.script = Some(PathBuf::from(value)),
            'H' => run.take_header(&value).map_err(at)?,
            'L' => run.latency = true,
            'U' => (run.latency, run.uncorrected) = (true, true),
            'v' => run.version = true,
            'h' => return Ok(WrkCommand::Help),
            _ => {} // -B concerns pipelined requests, which an open load refuses
        }
    }
    let Some(url) = run.args.first() else {
        return if run.version {
            Ok(WrkCommand::Version)
        } else {
            Err("the URL is missing".into())
        };
    };
    run.url = Url::parse(url).ok_or_else(|| format!("invalid URL: {url}"))?;
    if threads == 0 || threads > THREADS_MAX {
        return Err(format!("`-t`: {threads} threads; give 1 to {THREADS_MAX}").into());
    }
    if connections < threads {
        return Err("number of connections must be >= threads".into());
    }
    run.threads = threads as u32;
    run.connections = u32::try_from(connections)
        .map_err(|_| format!("`-c`: {connections} connections are too many"))?;
    if run.uncorrected && run.rate.is_none() {
        return Err(
            "`-U` separates response time from service time, which differ only in an open load: \
                    give its rate with `-R`"
                .into(),
        );
    }
    Ok(WrkCommand::Run(Box::new(run)))
}

fn time(text: &str) -> Result<Duration, UsageError> {
    match units::read_seconds(text)? {
        0 => Err("must be more than 0".into()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

fn rate(text: &str) -> Result<u64, UsageError> {
    match units::read_count(text)? {
        0 => Err("must be more than 0".into()),
        rate => Ok(rate),
    }
}

impl Options {
    fn take_header(&mut self, text: &str) -> Result<(), UsageError> {
        // Do not repeat the text: it may be a password.
        let (name, value) = text.split_once(':').ok_or("has no colon: `Name: value`")?;
        if text.contains(['\r', '\n']) {
            return Err("holds a line break".into());
        }
        if !value.starts_with(' ') {
            self.headers_wrk_drops.push(name.to_owned());
        }
        let value = value.strip_prefix(' ').unwrap_or(value);
        self.headers.push((name.to_owned(), value.to_owned()));
        Ok(())
    }
}

/// Separates options from words, as `getopt_long` does.
fn split(
    args: impl IntoIterator<Item = OsString>,
) -> Result<(Vec<GivenFlag>, Vec<String>), UsageError> {
    let (mut message, mut words) = (Vec::new(), Vec::new());
    let mut args = args.into_iter().map(|arg| {
        arg.into_string().map_err(|arg| format!("the argument {arg:?} is not UTF-8").into())
    });
    while let Some(arg) = args.next() {
        let arg = arg?;
        if arg == "--" {
            words.extend(args.by_ref().collect::<Result<Vec<_>, _>>()?);
        } else if let Some(long) = arg.strip_prefix("--") {
            let (given, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let name = format!("--{given}");
            let (letter, valued) = long_option(given)?;
            let value = match (valued, value) {
                (true, Some(value)) => value,
                (true, None) => next_value(&name, args.next())?,
                (false, None) => String::new(),
                (false, Some(_)) => return Err(format!("`{name}` takes no value").into()),
            };
            message.push(GivenFlag { letter, name, value });
        } else if arg.len() > 1 && arg.starts_with('-') {
            let letters = arg[1..].char_indices();
            for (at, letter) in letters {
                let name = format!("-{letter}");
                let known = OPTIONS.iter().find(|(known, _, _)| *known == letter);
                let &(_, _, valued) = known.ok_or_else(|| format!("unknown option `{name}`"))?;
                if !valued {
                    message.push(GivenFlag { letter, name, value: String::new() });
                    continue;
                }
                let value = match &arg[1 + at + letter.len_utf8()..] {
                    "" => next_value(&name, args.next())?,
                    rest => rest.to_owned(),
                };
                message.push(GivenFlag { letter, name, value });
                break;
            }
        } else {
            words.push(arg);
        }
    }
    Ok((message, words))
}

fn next_value(name: &str, next: Option<Result<String, UsageError>>) -> Result<String, UsageError> {
    next.unwrap_or_else(|| Err(format!("`{name}` needs a value").into()))
}

/// Returns the option with this long name, or the only one that starts with it.
fn long_option(given: &str) -> Result<(char, bool), UsageError> {
    if let Some(&(letter, _, valued)) = OPTIONS.iter().find(|(_, name, _)| *name == given) {
        return Ok((letter, valued));
    }
    let mut meant = OPTIONS.iter().filter(|(_, name, _)| name.starts_with(given));
    match (meant.next(), meant.next()) {
        (Some(&(letter, _, valued)), None) => Ok((letter, valued)),
        (Some((_, one, _)), Some((_, other, _))) => {
            Err(format!("`--{given}` may mean `--{one}` or `--{other}`").into())
        }
        (None, _) => Err(format!("unknown option `--{given}`").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WrkCommand, UsageError> {
        parse(text.split_whitespace().map(OsString::from))
    }

    #[track_caller]
    fn run(text: &str) -> Options {
        match read(text) {
            Ok(WrkCommand::Run(options)) => *options,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[track_caller]
    fn fails(text: &str, message: &str) {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }

    #[test]
    fn defaults_are_those_of_wrk() {
        let options = run("http://localhost:8080/index.html");
        assert_eq!((options.threads, options.connections), (2, 10));
        assert_eq!((options.duration.as_secs(), options.timeout.as_secs()), (10, 2));
        assert!(!options.latency && options.rate.is_none() && options.script.is_none());
        assert_eq!(options.args, ["http://localhost:8080/index.html"]);
    }

    #[test]
    fn options_are_accepted_anywhere_and_in_every_form() {
        let all = [
            "-t12 -c 400 -d30s --latency -s x.lua http://h/ -- a -b",
            "http://h/ -t 12 -c400 --duration=30 --lat --script x.lua -- a -b",
            "-Lt12 --conn 400 http://h/ --dur 30 -sx.lua a -- -b",
        ];
        for text in all {
            let options = run(text);
            assert_eq!((options.threads, options.connections), (12, 400), "{text}");
            assert_eq!(options.duration, Duration::from_secs(30), "{text}");
            assert_eq!(options.script, Some(PathBuf::from("x.lua")), "{text}");
            assert!(options.latency, "{text}");
            assert_eq!(options.args, ["http://h/", "a", "-b"], "{text}");
        }
    }

    #[test]
    fn a_rate_makes_the_load_open() {
        let options = run("-R 2k -U http://h/");
        assert_eq!(options.rate, Some(2000));
        assert!(options.latency && options.uncorrected);
        fails("-U http://h/", "give its rate with `-R`");
        fails("-R0 http://h/", "more than 0");
    }

    #[test]
    fn urls_split_into_the_parts_that_scripts_see() {
        let check = |text: &str, scheme: &str, host: &str, port, path: &str| {
            let url = Url::parse(text).expect(text);
            assert_eq!(
                (&*url.scheme, &*url.host, url.port, &*url.path),
                (scheme, host, port, path)
            );
        };
        check("http://h", "http", "h", None, "/");
        check("HTTP://h:81/a?b=c#d", "http", "h", Some(81), "/a?b=c#d");
        check("https://u:p@h/a", "https", "h", None, "/a");
        check("http://[::1]:8080/x", "http", "::1", Some(8080), "/x");
        check("http://[::1]", "http", "::1", None, "/");
        check("http://h?x=1", "http", "h", None, "/");
        for text in
            ["h", "http:/h", "ftp://h/", "http://", "http://h:x/", "http://h:0/", "http://h/a b"]
        {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }

    #[test]
    fn keeps_headers_and_lists_those_that_wrk_drops() {
        let args = ["-H", "A: b: c", "-HX:y", "-H", "Empty: ", "http://h/"];
        let Ok(WrkCommand::Run(options)) = parse(args.map(OsString::from)) else { panic!() };
        let pairs = [("A", "b: c"), ("X", "y"), ("Empty", "")];
        assert_eq!(options.headers, pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(options.headers_wrk_drops, ["X"]);
        let error =
            parse(["-H", "secret", "http://h/"].map(OsString::from)).unwrap_err().to_string();
        assert!(error.contains("no colon") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn bad_command_lines_are_refused_with_the_reason() {
        fails("", "the URL is missing");
        fails("nonsense", "invalid URL: nonsense");
        fails("-t3 -c2 http://h/", "number of connections must be >= threads");
        fails("-t0 http://h/", "0 threads");
        fails("-d 500ms http://h/", "`-d`: `500ms` is not a time");
        fails("-d0 http://h/", "more than 0");
        fails("-x http://h/", "unknown option `-x`");
        fails("--xyz http://h/", "unknown option `--xyz`");
        fails("--t 5 http://h/", "may mean");
        fails("http://h/ -c", "`-c` needs a value");
        fails("--latency=5 http://h/", "takes no value");
    }

    #[test]
    fn help_and_version_need_no_url() {
        assert!(matches!(read("-h"), Ok(WrkCommand::Help)));
        assert!(matches!(read("--help"), Ok(WrkCommand::Help)));
        assert!(matches!(read("-v"), Ok(WrkCommand::Version)));
        assert!(run("-v http://h/").version);
    }
}
