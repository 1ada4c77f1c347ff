//! Parses URLs without normalizing them.
//!
//! A URL library would decode and encode, remove dots, and drop a default port. Here the target is
//! sent as written, so unusual requests are possible. Only text that cannot be sent at all is
//! rejected.

use serde::{Deserialize, Serialize};

/// Holds the parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Url {
    /// True for `https`.
    pub tls: bool,
    /// Host name or address; IPv6 without brackets.
    pub host: String,
    /// Port; the scheme's default if the text names none.
    pub port: u16,
    /// Host and port for the `Host` field. The port is omitted if the URL had none.
    pub authority: String,
    /// Path and query, at least `/`.
    pub target: String,
    /// User and password, if the URL had them. Never print them.
    pub user: Option<(String, String)>,
}

/// Explains why a URL is invalid. No text shows user or password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// White space or a control character, which must be percent-encoded.
    #[error("it contains {0:?}; percent-encode it")]
    Unencoded(char),
    /// A scheme other than `http` and `https`.
    #[error("`{0}` is not a scheme that can be loaded: http, https")]
    Scheme(String),
    /// An IPv6 address without its closing bracket.
    #[error("a `[` without its `]`")]
    Bracket,
    /// No host.
    #[error("it has no host")]
    NoHost,
    /// Text after the host that is not a port.
    #[error("`{0}` after the host is not a port")]
    AfterHost(String),
    /// Digits that are not a port.
    #[error("`{0}` is not a port: 1 to 65535")]
    Port(String),
    /// A `%` in user or password without two hexadecimal digits.
    #[error("a `%` in its user or password without two digits after it")]
    Percent,
    /// User or password that are not UTF-8.
    #[error("its user or password is not UTF-8")]
    NotUtf8,
}

impl Url {
    /// Parses a URL. The default scheme is `http`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if let Some(odd) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Unencoded(odd));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(UrlError::Scheme(scheme.to_owned())),
        };
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (user, authority) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, authority)) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((decode(name)?, decode(password)?)), authority)
            }
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(UrlError::Bracket)?;
                (host, port)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => {
                if tls {
                    443
                } else {
                    80
                }
            }
            None => return Err(UrlError::AfterHost(port.to_owned())),
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| UrlError::Port(digits.to_owned()))?,
        };
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        Ok(Self { tls, host: host.into(), port, authority: authority.into(), target, user })
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Returns the URL without user and password.
    pub fn shown(&self) -> String {
        format!("{}://{}{}", self.scheme(), self.authority, self.target)
    }
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let hex = after.get(..2).and_then(|hex| str::from_utf8(hex).ok());
        let decoded = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.ok_or(UrlError::Percent)?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| UrlError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Result<(&str, u16, &str, &str), &str>) {
        let url = Url::parse(text);
        let parts = url.as_ref().map(|u| (&*u.host, u.port, &*u.authority, &*u.target));
        assert_eq!(parts.map_err(ToString::to_string), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn url_is_parsed_and_its_target_kept_as_written() {
        check("http://a", Ok(("a", 80, "a", "/")));
        check("https://a:8443?q=1#f", Ok(("a", 8443, "a:8443", "/?q=1")));
        check("127.0.0.1:8080/x", Ok(("127.0.0.1", 8080, "127.0.0.1:8080", "/x")));
        check("HTTP://[::1]:80/../%zz//", Ok(("::1", 80, "[::1]:80", "/../%zz//")));
        check("https://u:p@a/b@c", Ok(("a", 443, "a", "/b@c")));
        assert_eq!(
            Url::parse("http://u%40:p%3a@a/").unwrap().user,
            Some(("u@".into(), "p:".into()))
        );
        assert_eq!(Url::parse("http://u:p@a:1/b").unwrap().shown(), "http://a:1/b");
    }

    #[test]
    fn refuses_unloadable_plans_with_the_reason() {
        check("", Err("it has no host"));
        check("http://:80/", Err("it has no host"));
        check("ftp://a/", Err("`ftp` is not a scheme that can be loaded: http, https"));
        check("http://a:0/", Err("`0` is not a port: 1 to 65535"));
        check("http://a:x/", Err("`x` is not a port: 1 to 65535"));
        check("http://[::1/", Err("a `[` without its `]`"));
        check("http://a/b c", Err("it contains ' '; percent-encode it"));
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "\\PC{0,40}") {
            let _ = Url::parse(&text);
            let _ = Url::parse(&format!("http://{text}"));
        }
    }
}
