//! Describes a repeated request, and renders its bytes.

use bakeoff_core::template::{Table, Template};

use super::expect::Expect;
use super::placeholders::{Framing, Message, MessageBody, RequestWords, values};
use super::url::Url;

/// Describes a request that is sent repeatedly.
#[derive(Clone)]
pub struct Request {
    /// Name of its row in tables.
    pub name: String,
    /// Method, such as `GET`.
    pub method: String,
    /// Target of the request.
    pub url: Url,
    /// Names and values. They may hold secrets: never print them.
    pub headers: Vec<(String, String)>,
    /// Body; empty for none.
    pub body: Vec<u8>,
    /// True to send the body in chunks over HTTP/1.1, without its length.
    pub chunked: bool,
    /// Relative frequency among the requests.
    pub weight: u32,
    /// Conditions for a successful response.
    pub expect: Expect,
    /// Parts that change with each request; `None` if all are fixed.
    pub words: Option<Box<RequestWords>>,
}

/// Default headers, sent unless the user sets them.
const USER_AGENT: &str = concat!("bakeoff/", env!("CARGO_PKG_VERSION"));

impl Request {
    /// Creates a GET request for `url` without body or further headers.
    pub fn get(url: Url) -> Self {
        Self {
            name: url.shown(),
            method: "GET".into(),
            url,
            headers: Vec::new(),
            body: Vec::new(),
            chunked: false,
            weight: 1,
            expect: Expect::default(),
            words: None,
        }
    }

    /// Returns true if its responses have no bodies, which is the case for HEAD.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(found, _)| found.eq_ignore_ascii_case(name))
    }

    /// Appends its HTTP/1.1 message. `target` replaces the path after a redirect.
    pub fn write_http1(&self, target: Option<&str>, keep_alive: bool, out: &mut Vec<u8>) {
        let message = self.message(target, keep_alive);
        message.write(&values(0, 0, 0, &Table::default()), &mut Vec::new(), out);
    }

    /// Returns its HTTP/1.1 message with words not yet rendered.
    pub(super) fn message(&self, target: Option<&str>, keep_alive: bool) -> Message {
        let words = self.words.as_deref();
        let mut start = Template::verbatim(format!("{} ", self.method));
        let changing = words.and_then(|words| words.target.clone()).filter(|_| target.is_none());
        let target = target.unwrap_or(&self.url.target);
        start.append(changing.unwrap_or_else(|| Template::verbatim(target.to_owned())));
        let mut head = Template::verbatim(" HTTP/1.1\r\n".to_owned());
        let mut header = |name: &str, value: Template| {
            head.append(Template::verbatim(format!("{name}: ")));
            head.append(value);
            head.append(Template::verbatim("\r\n".to_owned()));
        };
        let is_host = |name: &str| name.eq_ignore_ascii_case("host");
        match self.headers.iter().position(|(name, _)| is_host(name)) {
            Some(place) => header(&self.headers[place].0, self.header_value(place)),
            None => header("Host", Template::verbatim(self.url.authority.clone())),
        }
        if !self.has("user-agent") {
            header("User-Agent", Template::verbatim(USER_AGENT.to_owned()));
        }
        for (place, (name, _)) in self.headers.iter().enumerate() {
            if !is_host(name) && !frames(name) {
                header(name, self.header_value(place));
            }
        }
        let has_length = matches!(&*self.method, "POST" | "PUT" | "PATCH");
        let framing = match self.body.is_empty() {
            false if self.chunked => Framing::Chunks,
            true if !has_length => Framing::NoBody,
            _ => Framing::Length,
        };
        let closes = !keep_alive && !self.has("connection");
        let body = match words.and_then(|words| words.body.clone()) {
            Some(template) => MessageBody::Words(template),
            None => MessageBody::Fixed(self.body.clone()),
        };
        let tail = if closes { "Connection: close\r\n\r\n" } else { "\r\n" };
        Message { start, head, framing, tail, body }
    }

    fn header_value(&self, place: usize) -> Template {
        let changing = self.words.as_ref().and_then(|words| words.headers.get(place)?.clone());
        changing.unwrap_or_else(|| Template::verbatim(self.headers[place].1.clone()))
    }

    /// Returns true if a user's header is sent over HTTP/2.
    pub(super) fn is_sent_in_http2(&self, name: &str) -> bool {
        is_allowed_in_http2(name) && !frames(name)
    }

    /// Returns its HTTP/2 header list: pseudo-headers first, names in lower case (RFC 9113 sections 8.2.2 and 8.3).
    /// Leaves out headers that HTTP/2 forbids and parts with words.
    pub fn http2_headers(&self) -> Vec<(String, String)> {
        let host = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or(&self.url.authority, |(_, value)| value);
        let mut list = vec![
            (":method".into(), self.method.clone()),
            (":scheme".into(), self.url.scheme().into()),
            (":authority".into(), authority.clone()),
        ];
        let words = self.words.as_deref();
        if words.is_none_or(|words| words.target.is_none()) {
            list.insert(2, (":path".into(), self.url.target.clone()));
        }
        if !self.has("user-agent") {
            list.push(("user-agent".into(), USER_AGENT.into()));
        }
        let changes = |place: usize| {
            words.is_some_and(|words| words.headers.get(place).is_some_and(Option::is_some))
        };
        for (place, (name, value)) in self.headers.iter().enumerate() {
            if self.is_sent_in_http2(name) && !changes(place) {
                list.push((name.to_ascii_lowercase(), value.clone()));
            }
        }
        // The frames carry the length of a changing body.
        if !self.body.is_empty() && words.is_none_or(|words| words.body.is_none()) {
            list.push(("content-length".into(), self.body.len().to_string()));
        }
        list
    }
}

/// Returns true if a header frames the message. Those follow from the body (RFC 9112 section 6).
fn frames(name: &str) -> bool {
    ["content-length", "transfer-encoding"].iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Returns true if a header is allowed in an HTTP/2 request. Others belong to the connection or are renamed (RFC 9113
/// sections 8.2.2 and 8.3.1).
pub fn is_allowed_in_http2(name: &str) -> bool {
    const FORBIDDEN: [&str; 6] =
        ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    !FORBIDDEN.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Explains why a user's header is invalid. No text shows its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The `:` is missing.
    #[error("a header is `Name: value`; there is no `:`")]
    NoColon,
    /// The name is not a valid header name.
    #[error("`{}` is not a header name", .0.escape_debug())]
    Name(String),
    /// The value contains a control character.
    #[error("the value of `{0}` contains a control character")]
    Value(String),
    /// The header frames the message.
    #[error("bakeoff writes `{0}` itself, from the body: leave it out")]
    Framing(String),
    /// A second `Host`; a request has one (RFC 9112 section 3.2).
    #[error("`Host` is given twice, and a request has one")]
    SecondHost,
}

/// Explains why a method is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// CONNECT opens a tunnel.
    #[error("CONNECT opens a tunnel, which cannot be measured as a request")]
    Connect,
    /// The text is not a method.
    #[error("`{}` is not a method", .0.escape_debug())]
    NoMethod(String),
}

/// Rejects headers of one request that contradict each other.
pub fn check_headers(headers: &[(String, String)]) -> Result<(), HeaderError> {
    let hosts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    if hosts.count() > 1 { Err(HeaderError::SecondHost) } else { Ok(()) }
}

/// Parses `Name: value` and checks that it is valid in a message.
pub fn parse_header(text: &str) -> Result<(String, String), HeaderError> {
    let (name, value) = text.split_once(':').ok_or(HeaderError::NoColon)?;
    let (name, value) = (name.trim(), value.trim());
    // A token by RFC 9110 section 5.6.2.
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(HeaderError::Name(name.to_owned()));
    }
    if frames(name) {
        return Err(HeaderError::Framing(name.to_owned()));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(HeaderError::Value(name.to_owned()));
    }
    Ok((name.into(), value.into()))
}

/// Methods of RFC 9110 section 9 and RFC 5789, also recognized in lower case.
pub const METHODS: [&str; 8] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

/// Checks that a method is a token (RFC 9110 section 9.1). Turns `head` into HEAD.
pub fn parse_method(text: &str) -> Result<String, MethodError> {
    let fine = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let known = METHODS.into_iter().find(|known| known.eq_ignore_ascii_case(text));
    match text {
        _ if text.eq_ignore_ascii_case("connect") => Err(MethodError::Connect),
        _ if known.is_some() => Ok(known.unwrap_or_default().to_owned()),
        _ if fine => Ok(text.into()),
        _ => Err(MethodError::NoMethod(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request, keep_alive: bool) -> String {
        let mut out = Vec::new();
        request.write_http1(None, keep_alive, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn users_headers_are_not_sent_twice() {
        let mut request = Request::get(Url::parse("http://a:1/b").unwrap());
        let agent = USER_AGENT;
        assert_eq!(
            text(&request, true),
            format!("GET /b HTTP/1.1\r\nHost: a:1\r\nUser-Agent: {agent}\r\n\r\n")
        );
        let headers = ["HOST: x", "user-agent: y", "Connection: z"];
        request.headers = headers.iter().map(|h| parse_header(h).unwrap()).collect();
        // Other tools let users write these, but their values would be wrong.
        let more = [("host", "again"), ("content-length", "9"), ("Transfer-Encoding", "chunked")];
        request.headers.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
        request.method = "POST".into();
        request.body = b"body".to_vec();
        assert_eq!(
            text(&request, false),
            "POST /b HTTP/1.1\r\nHOST: x\r\nuser-agent: y\r\nConnection: z\r\n\
             Content-Length: 4\r\n\r\nbody"
        );
    }

    #[test]
    fn body_can_be_chunked() {
        let mut request = Request::get(Url::parse("http://a/").unwrap());
        (request.body, request.chunked) = (vec![b'x'; (16 << 10) + 2], true);
        let sent = text(&request, true);
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with("\r\nTransfer-Encoding: chunked"), "{head}");
        let whole = "x".repeat(16 << 10);
        assert_eq!(body, format!("4000\r\n{whole}\r\n2\r\nxx\r\n0\r\n\r\n"));
    }

    #[test]
    fn known_methods_are_accepted_in_lower_case() {
        assert_eq!(parse_method("head"), Ok("HEAD".to_owned()));
        assert_eq!(
            parse_method("purge"),
            Ok("purge".to_owned()),
            "an own method is as it is written"
        );
        assert_eq!(parse_method("connect"), Err(MethodError::Connect));
    }

    #[test]
    fn post_states_its_length_even_if_empty() {
        let mut request = Request::get(Url::parse("http://a/").unwrap());
        request.method = "POST".into();
        assert!(text(&request, false).ends_with("Content-Length: 0\r\nConnection: close\r\n\r\n"));
    }

    #[test]
    fn http2_omits_forbidden_headers() {
        let mut request = Request::get(Url::parse("https://a/b?c").unwrap());
        request.headers = vec![
            ("Host".into(), "other".into()),
            ("Connection".into(), "close".into()),
            ("X-Y".into(), "Z".into()),
        ];
        let list: Vec<String> =
            request.http2_headers().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let agent = format!("user-agent={USER_AGENT}");
        assert_eq!(
            list,
            [":method=GET", ":scheme=https", ":path=/b?c", ":authority=other", &agent, "x-y=Z"]
        );
    }

    #[test]
    fn header_that_would_break_the_message_is_rejected() {
        assert_eq!(parse_header("A:  b c "), Ok(("A".into(), "b c".into())));
        assert_eq!(parse_header("A:"), Ok(("A".into(), String::new())));
        for wrong in ["", "A", ": b", "A B: c", "A: b\r\nC: d", "Ä: b"] {
            assert!(parse_header(wrong).is_err(), "{wrong}");
        }
        let framing = |text: &str| matches!(parse_header(text), Err(HeaderError::Framing(_)));
        assert!(framing("content-length: 4") && framing("Transfer-Encoding: chunked"));
        let host = || ("Host".to_owned(), "a".to_owned());
        assert_eq!(check_headers(&[host()]), Ok(()));
        assert_eq!(check_headers(&[host(), host()]), Err(HeaderError::SecondHost));
        assert!(!parse_header("A B: secret").unwrap_err().to_string().contains("secret"));
    }
}
