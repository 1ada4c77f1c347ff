//! Parses hey's options: flags, defaults, checks, and the request that they describe.
//!
//! hey silently drops some input, such as a `Host` given with `-H` or words after the URL. So does bakeoff, because
//! the load must stay what the script has always made, but it warns. Messages never repeat header values or passwords.
//!
//! Not here: the syntax of flags (`flags`), the load (`super`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::flags::{self, CommandLine, FlagArity, Unreadable, UsageError};

/// hey's own User-Agent, which servers and their logs may match.
const USER_AGENT: &str = "hey/0.0.1";

/// Headers that Go's client sets itself and that `-H` cannot override.
const WRITTEN_BY_THE_CLIENT: [&str; 4] = ["Host", "Content-Length", "Transfer-Encoding", "Trailer"];

pub(super) const USAGE: &str = "\
Usage: bakeoff hey [flags] URL

How much:
  -n N      requests, all workers together [default: 200]
  -c N      workers, each with one request under way; at most -n [default: 50]
  -z TIME   go on for so long instead of -n requests: 10s, 3m, 1h30m
  -q RATE   at most so many requests a second from each worker; fractions are allowed
  -t SECS   how long a request may take; 0: for ever [default: 20]
  -cpus N   threads of the load generator [default: one a core]

The request:
  -m METHOD          GET, POST, PUT, DELETE, HEAD, OPTIONS, … [default: GET]
  -H 'NAME: VALUE'   a header; may be given again and again
  -A VALUE           the Accept header
  -T VALUE           the Content-Type header [default: text/html]
  -U VALUE           the User-Agent header; `hey/0.0.1` is appended
  -a USER:PASSWORD   basic authentication
  -host HOST         the Host header
  -d TEXT            the body
  -D FILE            the body, from a file

The connection:
  -h2                    HTTP/2, for https URLs
  -x HOST:PORT           an HTTP proxy, for http URLs
  -disable-compression   do not ask for gzip
  -disable-keepalive     a new connection for each request
  -disable-redirects     take a redirect for the answer

Output:
  -o csv    a line for each answer instead of the summary

Flags stand before the URL and are written as Go writes them: `-n 5`, `-n=5`, `--n 5`.";

/// Options of a command line.
pub(super) struct Options {
    pub(super) url: String,
    pub(super) method: String,
    /// In the order in which hey sends them.
    pub(super) headers: Vec<(String, String)>,
    /// Value of the Host header, if it differs from the URL's authority.
    pub(super) host: Option<String>,
    pub(super) body: Body,
    pub(super) workers: u32,
    pub(super) until: StopRule,
    /// Maximum requests per second of each worker.
    pub(super) rate: Option<f64>,
    /// `None`: no timeout.
    pub(super) timeout: Option<Duration>,
    /// `None`: one per core.
    pub(super) threads: Option<u32>,
    pub(super) proxy: Option<Proxy>,
    pub(super) http2: bool,
    pub(super) keep_alive: bool,
    pub(super) follow_redirects: bool,
    pub(super) output: Output,
    /// Warnings about dropped flags.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Body {
    Bytes(Vec<u8>),
    File(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum StopRule {
    Requests(u64),
    Elapsed(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Summary,
    Csv,
}

/// Proxy that receives the requests instead of the server.
pub(super) struct Proxy {
    pub(super) url: String,
    pub(super) authorization: Option<String>,
}

fn takes(name: &str) -> Option<FlagArity> {
    match name {
        "n" | "c" | "q" | "z" | "o" | "m" | "H" | "h" | "t" | "A" | "d" | "D" | "T" | "U" | "a"
        | "x" | "host" | "cpus" => Some(FlagArity::Value),
        "h2" | "disable-compression" | "disable-keepalive" | "disable-redirects" => {
            Some(FlagArity::Nothing)
        }
        _ => None,
    }
}

/// Flags as given, before they are checked against each other.
struct RawFlags {
    requests: i64,
    workers: i64,
    rate: f64,
    time: Duration,
    timeout: i64,
    cpus: i64,
    output: String,
    method: String,
    accept: String,
    content_type: String,
    user_agent: String,
    host: String,
    proxy: String,
    credentials: String,
    deprecated_header: String,
    headers: Vec<String>,
    body: String,
    body_file: String,
    http2: bool,
    plain: bool,
    one_request_each: bool,
    redirects_are_answers: bool,
}

impl RawFlags {
    fn defaults() -> Self {
        Self {
            requests: 200,
            workers: 50,
            rate: 0.0,
            time: Duration::ZERO,
            timeout: 20,
            cpus: 0,
            output: String::new(),
            method: "GET".into(),
            accept: String::new(),
            content_type: "text/html".into(),
            user_agent: String::new(),
            host: String::new(),
            proxy: String::new(),
            credentials: String::new(),
            deprecated_header: String::new(),
            headers: Vec::new(),
            body: String::new(),
            body_file: String::new(),
            http2: false,
            plain: false,
            one_request_each: false,
            redirects_are_answers: false,
        }
    }

    fn take(&mut self, name: &str, text: String) -> Result<(), UsageError> {
        let unread = |wanted: &str| format!("flag `-{name}`: `{text}` is not {wanted}");
        let integer = || flags::integer(&text).ok_or_else(|| unread("a whole number"));
        let switch = || flags::switch(&text).ok_or_else(|| unread("`true` or `false`"));
        match name {
            "n" => self.requests = integer()?,
            "c" => self.workers = integer()?,
            "t" => self.timeout = integer()?,
            "cpus" => self.cpus = integer()?,
            "q" => self.rate = flags::number(&text).ok_or_else(|| unread("a number"))?,
            "z" => {
                let wanted = "a duration, such as `10s` or `3m`";
                self.time = flags::duration(&text).ok_or_else(|| unread(wanted))?;
            }
            "h2" => self.http2 = switch()?,
            "disable-compression" => self.plain = switch()?,
            "disable-keepalive" => self.one_request_each = switch()?,
            "disable-redirects" => self.redirects_are_answers = switch()?,
            "o" => self.output = text,
            "m" => self.method = text,
            "H" => self.headers.push(text),
            "h" => self.deprecated_header = text,
            "A" => self.accept = text,
            "T" => self.content_type = text,
            "U" => self.user_agent = text,
            "a" => self.credentials = text,
            "d" => self.body = text,
            "D" => self.body_file = text,
            "x" => self.proxy = text,
            "host" => self.host = text,
            _ => return Err(format!("unknown flag `-{name}`").into()),
        }
        Ok(())
    }
}

/// Parses hey's command line, without the program's name.
pub(super) fn parse(args: &[String]) -> Result<Options, Unreadable> {
    let CommandLine { flags, rest } = flags::read(args, takes)?;
    let mut given = RawFlags::defaults();
    for (name, text) in flags {
        given.take(&name, text).map_err(Unreadable::Wrong)?;
    }
    checked(given, rest).map_err(Unreadable::Wrong)
}

fn checked(given: RawFlags, rest: Vec<String>) -> Result<Options, UsageError> {
    let mut notes = Vec::new();
    let mut rest = rest.into_iter();
    let url = rest.next().ok_or("no URL was given")?;
    let ignored: Vec<String> = rest.collect();
    if !ignored.is_empty() {
        notes.push(format!(
            "ignoring {} word{} after the URL, as in hey: put flags before the URL",
            ignored.len(),
            if ignored.len() == 1 { "" } else { "s" }
        ));
    }
    if !given.deprecated_header.is_empty() {
        return Err("`-h` is an old name; use `-H` for headers".into());
    }
    let (workers, until) = amount(&given)?;
    if given.rate < 0.0 {
        return Err("-q cannot be below 0".into());
    }
    let timeout = match u64::try_from(given.timeout) {
        Ok(0) => None,
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => return Err("-t cannot be below 0; 0 waits for ever".into()),
    };
    let threads = match u32::try_from(given.cpus.max(0)) {
        Ok(0) => None,
        Ok(threads) => Some(threads),
        Err(_) => return Err(format!("-cpus `{}` is too large", given.cpus).into()),
    };
    let output = match &*given.output {
        "" => Output::Summary,
        "csv" => Output::Csv,
        other => return Err(format!("-o `{other}` is not supported; use `csv`").into()),
    };
    let method = given.method.to_ascii_uppercase();
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(format!("-m `{method}` is not an HTTP method").into());
    }
    if given.host.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("-host holds spaces or control characters".into());
    }
    let headers = headers(&given, &method, &mut notes)?;
    Ok(Options {
        url,
        method,
        headers,
        host: Some(given.host).filter(|host| !host.is_empty()),
        body: match &*given.body_file {
            "" => Body::Bytes(given.body.into_bytes()),
            path => Body::File(PathBuf::from(path)),
        },
        workers,
        until,
        rate: Some(given.rate).filter(|&rate| rate > 0.0),
        timeout,
        threads,
        proxy: proxy(&given.proxy)?,
        http2: given.http2,
        keep_alive: !given.one_request_each,
        follow_redirects: !given.redirects_are_answers,
        output,
        notes,
    })
}

fn amount(given: &RawFlags) -> Result<(u32, StopRule), UsageError> {
    let counted = given.time.is_zero();
    if counted && (given.requests <= 0 || given.workers <= 0) {
        return Err("-n and -c cannot be smaller than 1".into());
    }
    if given.workers <= 0 {
        return Err("-c cannot be smaller than 1".into());
    }
    if counted && given.requests < given.workers {
        return Err("-n cannot be less than -c".into());
    }
    let workers =
        u32::try_from(given.workers).map_err(|_| format!("-c `{}` is too large", given.workers))?;
    let until = match u64::try_from(given.requests) {
        Ok(requests) if counted => StopRule::Requests(requests),
        _ => StopRule::Elapsed(given.time),
    };
    Ok((workers, until))
}

/// Returns the headers in the order of Go's client: the user agent, then the others by name, then those that the
/// transport adds.
fn headers(
    given: &RawFlags,
    method: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, String)>, UsageError> {
    let mut named = BTreeMap::from([("Content-Type".to_owned(), given.content_type.clone())]);
    for (index, text) in given.headers.iter().enumerate() {
        let (name, value) = header(text).ok_or_else(|| {
            format!("-H number {} is not a header: write it as `Name: value`", index + 1)
        })?;
        if WRITTEN_BY_THE_CLIENT.contains(&&*name) {
            let instead = if name == "Host" { ": use `-host`" } else { "" };
            notes.push(format!("`{name}` given with -H is not sent, as in hey{instead}"));
        } else {
            named.insert(name, value);
        }
    }
    if !given.accept.is_empty() {
        named.insert("Accept".into(), given.accept.clone());
    }
    if !given.credentials.is_empty() {
        let what = "-a is not `user:password`";
        named.insert("Authorization".into(), basic(&given.credentials).ok_or(what)?);
    }
    let own_agent = named.remove("User-Agent");
    let agent = Some(given.user_agent.clone()).filter(|agent| !agent.is_empty()).or(own_agent);
    let agent = agent.map_or(USER_AGENT.to_owned(), |agent| format!("{agent} {USER_AGENT}"));
    let mut headers = vec![("User-Agent".to_owned(), agent)];
    let asks_for_parts = named.contains_key("Range") || named.contains_key("Accept-Encoding");
    headers.extend(named);
    if !given.plain && !asks_for_parts && method != "HEAD" {
        headers.push(("Accept-Encoding".into(), "gzip".into()));
    }
    let is_value = |value: &str| !value.bytes().any(|b| (b < b' ' && b != b'\t') || b == 0x7f);
    match headers.iter().find(|(_, value)| !is_value(value)) {
        Some((name, _)) => Err(format!("the value of `{name}` holds control characters").into()),
        None => Ok(headers),
    }
}

/// Parses `Name: value`. Capitalizes the name as Go does: `x-foo` becomes `X-Foo`.
fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || value.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    let mut starts = true;
    let canonical = name.chars().map(|c| {
        let written = if starts { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        starts = c == '-';
        written
    });
    Some((canonical.collect(), value.trim().to_owned()))
}

/// Returns credentials as a header value, or `None` if they are not `user:password`.
pub(super) fn basic(credentials: &str) -> Option<String> {
    let (user, _) = credentials.split_once(':')?;
    (!user.is_empty()).then(|| format!("Basic {}", STANDARD.encode(credentials)))
}

/// Parses a proxy address: `host:port` as in hey's help, or a URL, which is all that hey itself accepts.
fn proxy(text: &str) -> Result<Option<Proxy>, UsageError> {
    if text.is_empty() {
        return Ok(None);
    }
    let rest = match text.split_once("://") {
        None => text,
        Some(("http", rest)) => rest,
        Some((scheme, _)) => {
            return Err(format!(
                "-x: a proxy over `{scheme}` is not supported; give an HTTP proxy as `host:port`"
            )
            .into());
        }
    };
    let (authorization, address) = match rest.rsplit_once('@') {
        None => (None, rest),
        Some((credentials, address)) => {
            let value = basic(credentials).ok_or("-x: credentials are not `user:password`")?;
            (Some(value), address)
        }
    };
    let address = address.trim_end_matches('/');
    if address.is_empty() {
        return Err("-x has no host: give the proxy as `host:port`".into());
    }
    Ok(Some(Proxy { url: format!("http://{address}/"), authorization }))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[track_caller]
    fn options(words: &[&str]) -> Options {
        parse(&args(words)).unwrap_or_else(|unread| panic!("{words:?}: {unread:?}"))
    }

    #[track_caller]
    fn refused(words: &[&str]) -> String {
        match parse(&args(words)) {
            Err(Unreadable::Wrong(what)) => what.to_string(),
            Err(Unreadable::Help) => panic!("{words:?}: taken for a call for help"),
            Ok(_) => panic!("{words:?}: was taken"),
        }
    }

    fn sent(words: &[&str]) -> String {
        let headers = options(words).headers;
        headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    #[test]
    fn defaults_are_those_of_hey() {
        let options = options(&["http://h/"]);
        assert_eq!(options.until, StopRule::Requests(200));
        assert_eq!((options.workers, options.rate, options.threads), (50, None, None));
        assert_eq!(options.timeout, Some(Duration::from_secs(20)));
        assert_eq!((&*options.method, options.output), ("GET", Output::Summary));
        assert!(options.keep_alive && options.follow_redirects && !options.http2);
        assert!(options.notes.is_empty());
    }

    #[test]
    fn headers_go_out_as_hey_sends_them() {
        // Observed from hey 0.1.4, except for the user agent, which is that of newer versions.
        assert_eq!(
            sent(&["http://h/"]),
            "User-Agent: hey/0.0.1\nContent-Type: text/html\nAccept-Encoding: gzip\n"
        );
        let many = ["-H", "User-Agent: abc", "-H", "x-foo_bar: q", "-H", "Accept: b", "-A", "c"];
        assert_eq!(
            sent(&[&many[..], &["-T", "text/x", "u"]].concat()),
            "User-Agent: abc hey/0.0.1\nAccept: c\nContent-Type: text/x\nX-Foo_bar: q\n\
             Accept-Encoding: gzip\n"
        );
        assert_eq!(sent(&["-m", "head", "u"]), "User-Agent: hey/0.0.1\nContent-Type: text/html\n");
        assert!(!sent(&["-disable-compression", "u"]).contains("gzip"));
        assert!(!sent(&["-H", "Range: bytes=0-1", "u"]).contains("gzip"));
        assert!(sent(&["-H", "accept-encoding: br", "u"]).contains("Accept-Encoding: br\n"));
        assert!(sent(&["-H", "content-type: a", "u"]).contains("Content-Type: a\n"));
        assert!(sent(&["-U", "me", "u"]).contains("User-Agent: me hey/0.0.1\n"));
    }

    #[test]
    fn credentials_are_sent_and_never_printed() {
        assert!(sent(&["-a", "user:pass", "u"]).contains("Authorization: Basic dXNlcjpwYXNz\n"));
        assert!(sent(&["-a", "a:b:c", "u"]).contains("Basic YTpiOmM=\n"));
        for words in [
            &["-a", "hunter2", "u"],
            &["-H", "hunter2", "u"],
            &["-H", "Authorization hunter2", "u"],
            &["-H", "Authorization: hunter2\u{7}", "u"],
            &["-x", "http://hunter2@", "u"],
            &["-x", "http://hunter2@p", "u"],
        ] {
            assert!(!refused(words).contains("hunter2"), "{words:?}");
        }
    }

    #[test]
    fn warns_about_input_that_hey_drops() {
        let dropped = options(&["-H", "host: x", "-H", "Content-Length: 7", "u", "-n", "9"]);
        assert_eq!(dropped.until, StopRule::Requests(200));
        let notes = dropped.notes.join("\n");
        for part in ["2 words", "`Host`", "`-host`", "`Content-Length`"] {
            assert!(notes.contains(part), "`{part}` is not in {notes}");
        }
        assert!(dropped.headers.iter().all(|(name, _)| name != "Host" && name != "Content-Length"));
    }

    #[test]
    fn checks_are_those_of_hey() {
        let cases: [(&[&str], &str); 18] = [
            (&[], "no URL"),
            (&["-n", "10", "-c", "20", "u"], "-n cannot be less than -c"),
            (&["-n", "0", "u"], "cannot be smaller than 1"),
            (&["-c", "0", "-z", "1s", "u"], "-c cannot be smaller than 1"),
            (&["-c", "5000000000", "-z", "1s", "u"], "-c `5000000000`"),
            (&["-n", "x", "u"], "`-n`: `x`"),
            (&["-z", "3", "u"], "`-z`: `3`"),
            (&["-q", "-1", "u"], "-q"),
            (&["-t", "-1", "u"], "-t"),
            (&["-h2=maybe", "u"], "`-h2`: `maybe`"),
            (&["-h", "X: y", "u"], "`-H`"),
            (&["-o", "json", "u"], "`csv`"),
            (&["-m", "GE T", "u"], "not an HTTP method"),
            (&["-H", "X:", "u"], "-H number 1"),
            (&["-H", "a b: c", "u"], "-H number 1"),
            (&["-x", "https://p:1", "u"], "not supported"),
            (&["-host", "a b", "u"], "-host"),
            (&["-foo", "u"], "unknown flag `-foo`"),
        ];
        for (words, part) in cases {
            let what = refused(words);
            assert!(what.contains(part), "{words:?}: `{part}` is not in `{what}`");
        }
    }

    #[test]
    fn duration_replaces_number_of_requests() {
        let timed = options(&["-z", "3s", "-n", "1", "-c", "7", "u"]);
        assert_eq!((timed.until, timed.workers), (StopRule::Elapsed(Duration::from_secs(3)), 7));
        assert_eq!(options(&["-z", "0", "u"]).until, StopRule::Requests(200));
    }

    #[test]
    fn proxy_scheme_is_optional() {
        for text in ["p:3128", "http://p:3128", "http://p:3128/"] {
            let proxy = options(&["-x", text, "u"]).proxy.unwrap();
            assert_eq!((&*proxy.url, proxy.authorization), ("http://p:3128/", None), "{text}");
        }
        let proxy = options(&["-x", "http://a:b@p:1", "u"]).proxy.unwrap();
        assert_eq!(proxy.authorization.as_deref(), Some("Basic YTpi"));
    }

    #[test]
    fn a_body_comes_from_the_flag_or_from_the_file() {
        assert_eq!(options(&["-d", "x=1", "u"]).body, Body::Bytes(b"x=1".to_vec()));
        assert_eq!(options(&["-d", "x", "-D", "f", "u"]).body, Body::File("f".into()));
    }

    #[test]
    fn every_flag_is_in_the_help() {
        for name in [
            "n",
            "c",
            "q",
            "z",
            "o",
            "m",
            "H",
            "t",
            "A",
            "d",
            "D",
            "T",
            "U",
            "a",
            "x",
            "host",
            "cpus",
            "h2",
            "disable-compression",
            "disable-keepalive",
            "disable-redirects",
        ] {
            assert!(takes(name).is_some(), "-{name} is not taken");
            assert!(USAGE.contains(&format!("\n  -{name} ")), "-{name} is not in the help");
        }
    }
}
