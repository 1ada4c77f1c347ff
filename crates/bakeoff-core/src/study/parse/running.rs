//! Parses a system that already runs: its endpoints, TLS and credentials.
//!
//! Not here: systems that bakeoff starts (`bakeoff_systems`).

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use super::{Scope, is_set};
use crate::secrets;
use crate::study::reading::{Fields, as_written, unit};
use crate::study::tree::{ByteRange, DiagnosticSink};
use crate::study::{CredentialForm, Credentials, Endpoint, Kind, MetricsUrl, SecretSource, Tls};
use crate::units::{Unreadable, shown};

/// Parses the endpoints; empty without the field. Returns `None` if some are invalid.
pub(super) fn endpoints(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
) -> Option<Vec<Endpoint>> {
    if fields.node("endpoints").is_none() {
        return Some(Vec::new());
    }
    for name in ["nodes", "version", "program", "limits", "process"] {
        if fields.node(name).is_some() {
            let what = format!("{} has both `endpoints` and `{name}`", fields.what);
            let hint = format!(
                "a system with `endpoints` already runs; leave out `{name}`, which says what to start"
            );
            sink.hint(fields.key_at(name), what, hint);
        }
    }
    let items = fields.list(sink, "endpoints")?;
    let mut endpoints = Vec::new();
    let mut known = BTreeSet::new();
    for item in items {
        let Some(endpoint) = unit(sink, "endpoints", item, endpoint) else { continue };
        if known.insert((endpoint.host.clone(), endpoint.port)) {
            endpoints.push(endpoint);
        } else {
            let text = format!("{}:{}", endpoint.host, endpoint.port);
            sink.add(&item.at, format!("endpoint `{text}` is listed twice"));
        }
    }
    (endpoints.len() == items.len()).then_some(endpoints)
}

/// Parses the metrics URLs; empty without the field. Returns `None` if some are invalid.
pub(super) fn metrics(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
) -> Option<Vec<MetricsUrl>> {
    if fields.node("metrics").is_none() {
        return Some(Vec::new());
    }
    if !fields.gives("endpoints") {
        let what = format!("{} has `metrics` and no `endpoints`", fields.what);
        let hint = "bakeoff samples the servers that it starts; leave `metrics` out";
        sink.hint(fields.key_at("metrics"), what, hint);
    }
    let items = fields.list(sink, "metrics")?;
    if items.len() > METRICS_MAX {
        let what = format!("{} has more than {METRICS_MAX} addresses of metrics", fields.what);
        sink.add(fields.value_at("metrics"), what);
        return None;
    }
    let mut urls: Vec<MetricsUrl> = Vec::new();
    for item in items {
        let secret = item.scalar().is_some_and(holds_secret);
        if secret {
            let what = "`metrics` holds what may be secret, and a record keeps the study";
            let hint = "metrics are read without a user or a token: use a URL that needs none";
            sink.hint_secret(&item.at, what.to_owned(), hint.to_owned());
            continue;
        }
        let Some(url) = unit(sink, "metrics", item, metrics_url) else { continue };
        if urls.contains(&url) {
            sink.add(&item.at, format!("`{}` is listed twice", shown(&url.text())));
        } else {
            urls.push(url);
        }
    }
    (urls.len() == items.len()).then_some(urls)
}

/// Maximum number of metrics URLs: each has a thread.
const METRICS_MAX: usize = 99;

/// Returns true if a URL names a user, or has a query parameter that looks like a secret.
fn holds_secret(url: &str) -> bool {
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    let mut names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    before.contains('@') || names.any(secrets::is_named_by)
}

/// Parses `http://10.0.0.5:2379/metrics`; the default path is `/metrics`.
fn metrics_url(text: &str) -> Result<MetricsUrl, Unreadable> {
    let not =
        |hint: String| Unreadable { what: format!("`{}` is not a metrics URL", shown(text)), hint };
    let from = text.find("://").map_or(0, |at| at + 3);
    let rest = text.get(from..).unwrap_or_default();
    let end = rest.find(['/', '?', '#']).map_or(text.len(), |at| from + at);
    let (address, path) = text.split_at(end);
    let path = if path.is_empty() { "/metrics" } else { path };
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(not("write `http://HOST:PORT/metrics`".to_owned()));
    }
    let endpoint = endpoint(address).map_err(|wrong| not(wrong.hint))?;
    if !matches!(text.get(..from), Some("" | "http://" | "https://")) {
        return Err(not("write `http://HOST:PORT/metrics`".to_owned()));
    }
    Ok(MetricsUrl { endpoint, path: path.to_owned() })
}

/// Schemes of endpoints without TLS.
const PLAIN: [&str; 3] = ["http://", "redis://", "nats://"];
const OVER_TLS: [&str; 3] = ["https://", "rediss://", "tls://"];

/// Parses `http://10.0.0.5:2379`, `https://[::1]:2379`, `etcd-1:2379`, `rediss://10.0.0.5:6379`.
fn endpoint(text: &str) -> Result<Endpoint, Unreadable> {
    let not =
        |hint: String| Unreadable { what: format!("`{}` is not an endpoint", shown(text)), hint };
    let form = "write `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`";
    let after = |schemes: &[&str]| schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    let (tls, rest) = match (after(&PLAIN), after(&OVER_TLS), text.split_once("://")) {
        (Some(rest), ..) => (false, rest),
        (_, Some(rest), _) => (true, rest),
        (.., Some((scheme, _))) => {
            return Err(not(format!("it cannot be reached by `{}`; {form}", shown(scheme))));
        }
        (None, None, None) => (false, text),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('/') {
        return Err(not(format!("it has a path; {form}")));
    }
    if rest.contains('@') {
        return Err(not(format!("it names a user; {form}")));
    }
    let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
        let (host, port) =
            bracketed.split_once(']').ok_or_else(|| not("the bracket `[` is not closed".into()))?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(not(format!("`{}` is not an IPv6 address", shown(host))));
        }
        (host, port.strip_prefix(':'))
    } else {
        match rest.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err(not("write an IPv6 address in brackets: `[::1]:2379`".into()));
            }
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        }
    };
    let port = port.ok_or_else(|| not(format!("it has no port; {form}")))?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = match port.parse::<u16>() {
        Ok(number) if digits && number > 0 => number,
        _ => return Err(not("a port is a number from 1 to 65535".into())),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(not(format!("it has no name or address; {form}")));
    }
    Ok(Endpoint { tls, host: host.to_owned(), port })
}

pub(super) fn tls(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    endpoints: Option<&[Endpoint]>,
    scope: Scope<'_>,
) -> Option<Tls> {
    let tls = fields.table(sink, "tls")?;
    // A server of a `process` may use TLS without `https://` endpoints.
    let is_process = fields.gives("process") && !fields.gives("endpoints");
    if !is_process
        && endpoints.is_some_and(|endpoints| !endpoints.iter().any(|endpoint| endpoint.tls))
    {
        let what = format!("{} has `tls` and no `https://` endpoint", fields.what);
        sink.hint(&tls.at, what, "write `https://` before the endpoints, or leave `tls` out");
    }
    let ca = tls.text(sink, "ca");
    let cert = tls.text(sink, "cert");
    let key = tls.text(sink, "key");
    let insecure = tls.flag(sink, "insecure").unwrap_or_default();
    let lone = |has: &str, lacks: &str, at: &ByteRange, sink: &mut DiagnosticSink<'_>| {
        let what = format!("{} has `{has}` without `{lacks}`", tls.what);
        sink.hint(at, what, "a client shows a certificate and proves it with its key");
    };
    match (tls.node("cert").is_some(), tls.node("key").is_some()) {
        (true, false) => lone("cert", "key", tls.key_at("cert"), sink),
        (false, true) => lone("key", "cert", tls.key_at("key"), sink),
        _ => {}
    }
    if insecure && tls.node("ca").is_some() {
        let what = format!("{} has `ca`, but `insecure: true` accepts any certificate", tls.what);
        sink.hint(tls.key_at("ca"), what, "leave out one of the two");
    }
    for (name, file) in [("ca", &ca), ("cert", &cert), ("key", &key)] {
        if let Some(file) = file {
            is_readable(sink, file, tls.value_at(name), scope);
        }
    }
    Some(Tls { ca, cert, key, insecure })
}

/// Parses the credentials of clients. Secrets are referenced, never stored.
pub(super) fn credentials(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    kind: Option<&Kind>,
    scope: Scope<'_>,
) -> Option<Credentials> {
    let given = fields.table(sink, "credentials")?;
    if !fields.gives("endpoints") {
        let what = format!("{} has `credentials` and no `endpoints`", fields.what);
        let hint = "bakeoff sets up the servers that it starts; leave `credentials` out";
        sink.hint(fields.key_at("credentials"), what, hint);
    }
    let credentials = Credentials {
        user: given.text(sink, "user"),
        password: source(sink, &given, "password", "password-file", scope),
        token: source(sink, &given, "token", "token-file", scope),
    };
    let kind = kind?;
    let token = ["token", "token-file"].into_iter().find(|name| given.gives(name));
    let password = ["user", "password", "password-file"].into_iter().find(|name| given.gives(name));
    let (strange, hint) = match kind.credentials {
        CredentialForm::None => (token.or(password), "leave `credentials` out"),
        CredentialForm::Token => (password, "write `credentials: {token: $NAME}`"),
        CredentialForm::Password => (token, "write `credentials: {user: NAME, password: $NAME}`"),
        CredentialForm::PasswordOrToken => {
            (None, "write `credentials: {user: NAME, password: $NAME}` or `{token: $NAME}`")
        }
    };
    let has_password = given.gives("password") || given.gives("password-file");
    if let Some(name) = strange {
        let what = format!("clients of kind `{}` have no `{name}`", kind.name);
        sink.hint(given.key_at(name), what, hint);
    } else if let Some((token, name)) = token.zip(password) {
        let what = format!("{} has both `{token}` and `{name}`", given.what);
        sink.hint(given.key_at(name), what, "leave out one of the two");
    } else if password.is_some() && (credentials.user.is_none() || !has_password) {
        let what = format!("{} needs both `user` and `password`", given.what);
        sink.hint(&given.at, what, hint);
    } else if token.or(password).is_none() {
        sink.hint(&given.at, format!("{} says nothing", given.what), hint);
    }
    Some(credentials)
}

/// Parses the source of one secret: the field of an environment variable, or that of a file.
fn source(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    variable: &str,
    file: &str,
    scope: Scope<'_>,
) -> Option<SecretSource> {
    if fields.gives(variable) && fields.gives(file) {
        let what = format!("{} has both `{variable}` and `{file}`", fields.what);
        sink.hint(fields.key_at(file), what, "leave out one of the two");
    }
    if let Some(node) = fields.node(variable) {
        let text = as_written(sink, variable, node)?;
        let Some(name) = text.trim().strip_prefix('$') else {
            // The value may be a real secret, so it is not shown.
            let what = format!("`{variable}` holds a secret, and a record keeps the study");
            let hint = format!(
                "write `{variable}: $NAME` and set it in bakeoff's environment, or `{file}: PATH`"
            );
            sink.hint_secret(&node.at, what, hint);
            return None;
        };
        is_set(sink, text.trim(), &node.at, scope);
        return Some(SecretSource::Variable(name.to_owned()));
    }
    let path = fields.text(sink, file)?;
    is_readable(sink, &path, fields.value_at(file), scope);
    Some(SecretSource::File(path))
}

/// Reports a file that is missing or unreadable on this machine.
fn is_readable(sink: &mut DiagnosticSink<'_>, path: &str, at: &ByteRange, scope: Scope<'_>) {
    if let Err(why) = scope.surroundings.file(path) {
        let what = format!("`{}` cannot be read: {why}", shown(path));
        sink.hint(at, what, "write its path from the folder that bakeoff is started in");
    }
}
