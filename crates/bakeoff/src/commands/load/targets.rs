//! Parses the file of requests for `--targets`.
//!
//! ```text
//! # A comment.
//! GET http://127.0.0.1:8080/
//!
//! 3 PUT http://127.0.0.1:8080/kv/a
//! Content-Type: text/plain
//! @body.txt
//! ```
//!
//! This is vegeta's format, with an optional weight in front. The parser reports all errors, each with its line.
//!
//! Not here: reading files (`requests`), the syntax of URLs and headers (`bakeoff_engine::works::http`).

use bakeoff_engine::works::http::{
    HeaderError, METHODS, MethodError, check_headers, parse_header, parse_method,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Line in the file, from 1.
    pub(super) line: usize,
    /// Weight relative to other requests; `None` if the file gives none.
    pub(super) weight: Option<u32>,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    /// File with the body, and the line that names it.
    pub(super) body: Option<(String, usize)>,
}

/// An error in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diagnostic {
    /// Line in the file, from 1.
    pub(super) line: usize,
    pub(super) what: String,
}

/// Parses the file's text. The list of errors is never empty.
pub(super) fn parse(text: &str) -> Result<Vec<Target>, Vec<Diagnostic>> {
    let mut targets: Vec<Target> = Vec::new();
    let mut diagnostics = Vec::new();
    // True while headers and body may follow: from a request to the next empty line.
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        let (line, number) = (line.trim(), number + 1);
        let part = match line {
            "" => {
                open = false;
                continue;
            }
            comment if comment.starts_with('#') => continue,
            line => part(line),
        };
        let wrong = match (part, targets.last_mut().filter(|_| open)) {
            (Ok(Part::Request { weight, method, url }), _) => {
                open = true;
                targets.push(Target {
                    line: number,
                    weight,
                    method,
                    url,
                    headers: Vec::new(),
                    body: None,
                });
                continue;
            }
            (Ok(Part::Header(name, value)), Some(target)) => {
                target.headers.push((name, value));
                match check_headers(&target.headers) {
                    Ok(()) => continue,
                    Err(error) => LineError::Header(error),
                }
            }
            (Ok(Part::Body(file)), Some(target)) if target.body.is_none() => {
                target.body = Some((file, number));
                continue;
            }
            (Ok(Part::Body(_)), Some(_)) => LineError::SecondBody,
            (Ok(_), None) => LineError::NoRequestAbove,
            (Err(error), _) => {
                // If no request was parsed yet, this line may be a mistyped one. Then the next lines belong to it.
                open |= targets.is_empty();
                error
            }
        };
        diagnostics.push(Diagnostic { line: number, what: wrong.to_string() });
    }
    if targets.is_empty() && diagnostics.is_empty() {
        diagnostics.push(Diagnostic { line: 1, what: LineError::NoRequest.to_string() });
    }
    if diagnostics.is_empty() { Ok(targets) } else { Err(diagnostics) }
}

enum Part {
    Request { weight: Option<u32>, method: String, url: String },
    Header(String, String),
    Body(String),
}

/// An error in one line.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("no request in the file: write lines such as `GET http://127.0.0.1:8080/`")]
    NoRequest,
    #[error(
        "no request above this line: headers and body follow their `METHOD URL` line without an empty line between"
    )]
    NoRequestAbove,
    #[error("this request already has a body")]
    SecondBody,
    #[error("no file name after the `@`")]
    NoFile,
    /// The line begins with a URL or with a weight.
    #[error(
        "no method before the URL: write `{}GET http://…`",
        if *weighted { "3 " } else { "" }
    )]
    NoMethod { weighted: bool },
    #[error("the weight `{}` is not between 1 and 1,000", short(.0))]
    Weight(String),
    #[error(transparent)]
    Header(HeaderError),
    #[error(transparent)]
    Method(MethodError),
    #[error("no URL after `{method}`")]
    NoUrl { method: String },
    #[error("unexpected text after the URL: write a space in a URL as `%20`")]
    AfterUrl,
    /// The line has no scheme, no known method and no `:`. It may be a header with a secret, so the message does not
    /// quote it.
    #[error(
        "neither a request nor a header: write `GET http://127.0.0.1:8080/` or `Name: value`, with a `:`"
    )]
    Neither,
}

/// Parses a line. It is a body if it begins with `@`, a header if it begins with `Name:`, or else a request.
fn part(line: &str) -> Result<Part, LineError> {
    if let Some(file) = line.strip_prefix('@') {
        return match file.trim() {
            "" => Err(LineError::NoFile),
            file => Ok(Part::Body(file.to_owned())),
        };
    }
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    if first.contains("://") {
        return Err(LineError::NoMethod { weighted: false });
    }
    // `X Y: 1` is parsed as a header too, so that the error concerns its name.
    let second = line.split_whitespace().nth(1).unwrap_or_default();
    if first.contains(':') || second.ends_with(':') {
        let header = parse_header(line).map_err(LineError::Header)?;
        return Ok(Part::Header(header.0, header.1));
    }
    let (weight, method) = match first.bytes().all(|byte| byte.is_ascii_digit()) {
        false => (None, Some(first)),
        true => match first.parse::<u32>() {
            Ok(weight @ 1..=1000) => (Some(weight), words.next()),
            _ => return Err(LineError::Weight(first.to_owned())),
        },
    };
    let method = method.filter(|method| !method.contains("://")).unwrap_or_default();
    if method.is_empty() {
        return Err(LineError::NoMethod { weighted: true });
    }
    let is_request =
        line.contains("://") || METHODS.iter().any(|one| one.eq_ignore_ascii_case(method));
    if !is_request {
        return Err(LineError::Neither);
    }
    let method = parse_method(method).map_err(LineError::Method)?;
    match (words.next(), words.next()) {
        (Some(url), None) => Ok(Part::Request { weight, method, url: url.to_owned() }),
        (None, _) => Err(LineError::NoUrl { method }),
        (Some(_), Some(_)) => Err(LineError::AfterUrl),
    }
}

/// Shortens a text to 40 characters, without control characters, for a message.
pub(super) fn short(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let start: String = characters.by_ref().take(40).collect();
    if characters.next().is_some() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: usize, weight: Option<u32>, method: &str, url: &str) -> Target {
        let (method, url) = (method.to_owned(), url.to_owned());
        Target { line, weight, method, url, headers: Vec::new(), body: None }
    }

    #[test]
    fn parses_requests_with_headers_and_bodies() {
        let text = "# all of it\nGET http://a/\nGET http://a/b?c=d:e\n\n3 PUT http://a/k\n  X-Id: 1:2\n@body.json\n# done\n\nDELETE http://a/k\r\n";
        let mut put = request(5, Some(3), "PUT", "http://a/k");
        put.headers.push(("X-Id".into(), "1:2".into()));
        put.body = Some(("body.json".into(), 7));
        let expected = [
            request(2, None, "GET", "http://a/"),
            request(3, None, "GET", "http://a/b?c=d:e"),
            put,
            request(10, None, "DELETE", "http://a/k"),
        ];
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let diagnostics = parse(text).unwrap_err();
        let seen: Vec<(usize, &str)> =
            diagnostics.iter().map(|m| (m.line, m.what.as_str())).collect();
        assert_eq!(seen.len(), expected.len(), "{seen:#?}");
        for ((line, what), (expected_line, part)) in seen.iter().zip(expected) {
            assert!(line == expected_line && what.contains(part), "{line}: {what}");
        }
    }

    #[test]
    fn reports_all_diagnostics_with_their_lines() {
        check("", &[(1, "no request in the file")]);
        check("# nothing\n\n", &[(1, "no request in the file")]);
        check("http://a/\n", &[(1, "no method before the URL")]);
        check("2 http://a/\n", &[(1, "no method before the URL")]);
        check("0 GET http://a/\n", &[(1, "the weight `0`")]);
        check("G(T http://a/\n", &[(1, "`G(T` is not a method")]);
        check("GET\n", &[(1, "no URL after `GET`")]);
        check("GET http://a/ b\n", &[(1, "write a space in a URL as `%20`")]);
        check("GET http://a/\n\nX: 1\n@f\n", &[(3, "no request above"), (4, "no request")]);
        check("GET http://a/\n@a\n@b\n@\n", &[(3, "already has a body"), (4, "no file name")]);
        check("GET http://a/\nX-Token s3cret\n", &[(2, "neither a request nor a header")]);
        check("GET http://a/\nX-Token=s3cret\n", &[(2, "neither a request nor a header")]);
        check("GET http://a/\nHost: a\nhost: b\n", &[(3, "`Host` is given twice")]);
        check("GET http://a/\nContent-Length: 3\n", &[(2, "bakeoff writes `Content-Length`")]);
        check("GET http://a/\nBad Name: x\n", &[(2, "`Bad Name` is not a header name")]);
    }

    #[test]
    fn malformed_files_do_not_panic() {
        for text in ["@", ":", "::", "1", "1 1", "é é", "GET é://", "@é\n:\n1 é", "\u{0}\n\u{1}: x"]
        {
            parse(text).ok();
        }
    }
}
