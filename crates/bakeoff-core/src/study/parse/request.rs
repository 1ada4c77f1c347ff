//! Parses the request of a workload: method, path, headers, body, and the expected answer.

use std::collections::BTreeMap;

use super::systems::{secret, texts};
use super::{Scope, is_set};
use crate::statuses::Statuses;
use crate::study::fields;
use crate::study::reading::{Fields, as_written};
use crate::study::tree::{ByteRange, DiagnosticSink, Entry, Node, Value};
use crate::study::{HttpRequest, Operation, Rows};
use crate::template::{Template, TemplateError, Word};
use crate::units::shown;

/// Parses a `request`; returns the default one if the study has none.
pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    mix: Option<&BTreeMap<Operation, u32>>,
    scope: Scope<'_>,
) -> Option<HttpRequest> {
    let asks =
        |mix: &BTreeMap<Operation, u32>| mix.keys().any(|operation| operation.asks_over_http());
    if fields.node("request").is_none() {
        // A gateway refuses sessions at its own path, so `denied` needs no request.
        if mix.is_some_and(|mix| mix.contains_key(&Operation::Request)) {
            let what = format!("{} sends HTTP requests but has no `request`", fields.what);
            sink.hint(&fields.at, what, "add `request: {path: /}`");
            return None;
        }
        return Some(HttpRequest::default());
    }
    if mix.is_some_and(|mix| !asks(mix)) {
        let what = format!("{} has a `request` and none in its mix", fields.what);
        sink.hint(fields.key_at("request"), what, "write `mix: {request: 1}`");
    }
    let request = fields.table(sink, "request")?;
    let method = request.text(sink, "method");
    let token = |text: &String| text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if let Some(written) = method.as_ref().filter(|text| !token(text)) {
        let what = format!("`{}` is not a method", shown(written));
        sink.hint(request.value_at("method"), what, "write it in capitals: `GET`");
    }
    let path = request.text(sink, "path");
    let plain = |text: &String| {
        text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
    };
    if let Some(written) = path.as_ref().filter(|text| !plain(text)) {
        let what = format!("`{}` is not a path", shown(written));
        let hint = "a path begins with `/`, and other characters than ASCII letters are encoded, such as a space as `%20`";
        sink.hint(request.value_at("path"), what, hint);
    }
    let mut headers = texts(sink, &request, "headers")?;
    // White space around a header's value is not part of it (RFC 9110 section 5.5).
    headers.values_mut().for_each(|value| *value = value.trim().to_owned());
    let http2 = request.flag(sink, "http2");
    let body = request.text(sink, "body");
    let rows = match request.node("rows") {
        None => None,
        Some(_) => Some(rows(sink, &request, scope)?),
    };
    let words = Words {
        columns: match &rows {
            None => Some(&[]),
            Some((_, columns)) => columns.as_deref(),
        },
        has_keys: fields.node("keys").is_some(),
    };
    for (text, field) in [(&path, "path"), (&body, "body")] {
        if let Some(text) = text {
            words.check(sink, text, field, request.value_at(field));
        }
    }
    if let Some(Node { value: Value::Map(entries), .. }) = request.node("headers") {
        for entry in entries {
            header(sink, entry, headers.get(&entry.key));
            if let Some(text) = headers.get(&entry.key) {
                words.check(sink, text, &shown(&entry.key), &entry.node.at);
                is_set(sink, text, &entry.node.at, scope);
            }
        }
    }
    let expect = match request.node("expect") {
        None => Fields::absent(&fields::EXPECT),
        Some(_) => request.table(sink, "expect")?,
    };
    let statuses = statuses(sink, &expect);
    let expected_headers = expected_headers(sink, &expect)?;
    let body_size = expect.whole(sink, "body-size");
    let contains = expect.text(sink, "contains");
    if contains.as_ref().is_some_and(String::is_empty) {
        sink.add(
            expect.value_at("contains"),
            "`contains` is empty: each body holds that".to_owned(),
        );
    }
    let (method, path, http2, statuses) = (method?, path?, http2?, statuses?);
    let rows = rows.map(|(rows, _)| Box::new(rows));
    Some(HttpRequest {
        method,
        path,
        headers,
        http2,
        rows,
        body,
        statuses,
        expected_headers,
        body_size,
        contains,
    })
}

/// Parses the accepted statuses.
fn statuses(sink: &mut DiagnosticSink<'_>, expect: &Fields<'_>) -> Option<Statuses> {
    const HINT: &str = "write `status: 200`, `status: 2xx` or `status: [200, 404-410]`";
    if expect.node("status").is_none() {
        return Some(HttpRequest::default().statuses);
    }
    let items = expect.list(sink, "status")?;
    let mut parts = Vec::new();
    for item in items {
        let text = as_written(sink, "status", item)?;
        match Statuses::parse(&text) {
            Ok(_) => parts.push(text),
            Err(why) => sink.hint(&item.at, format!("`status`: {why}"), HINT),
        }
    }
    if parts.len() < items.len() {
        return None;
    }
    match Statuses::parse(&parts.join(",")) {
        Ok(statuses) => Some(statuses),
        Err(why) => {
            sink.hint(expect.value_at("status"), format!("`status`: {why}"), HINT);
            None
        }
    }
}

/// Parses the required header fields.
fn expected_headers(
    sink: &mut DiagnosticSink<'_>,
    expect: &Fields<'_>,
) -> Option<BTreeMap<String, String>> {
    let mut headers = texts(sink, expect, "headers")?;
    headers.values_mut().for_each(|value| *value = value.trim().to_owned());
    if let Some(Node { value: Value::Map(entries), .. }) = expect.node("headers") {
        for entry in entries {
            header_form(sink, entry, headers.get(&entry.key));
            let same = |name: &&String| name.eq_ignore_ascii_case(&entry.key);
            if headers.keys().filter(same).count() > 1 {
                let what = format!("header `{}` is expected twice", shown(&entry.key));
                sink.hint(&entry.key_at, what, "capitals in names do not matter; leave one out");
            }
        }
    }
    Some(headers)
}

/// Reports an invalid header field.
fn header_form(sink: &mut DiagnosticSink<'_>, entry: &Entry, value: Option<&String>) {
    let name = entry.key.as_str();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        let what = format!("`{}` cannot be the name of a header", shown(name));
        sink.hint(&entry.key_at, what, "write letters, digits and hyphens: `x-request-id`");
    }
    if value.is_some_and(|value| value.bytes().any(|byte| byte < 0x20 || byte == 0x7f)) {
        sink.add(
            &entry.node.at,
            format!("header `{}` holds a line break or the like", shown(name)),
        );
    }
}

fn header(sink: &mut DiagnosticSink<'_>, entry: &Entry, value: Option<&String>) {
    let name = entry.key.as_str();
    header_form(sink, entry, value);
    let ours = ["host", "content-length", "transfer-encoding", "connection"];
    if ours.iter().any(|one| name.eq_ignore_ascii_case(one)) {
        let what = format!("header `{}` is bakeoff's own to write", shown(name));
        sink.hint(&entry.key_at, what, "leave it out");
    }
    secret(sink, entry, value, "AUTHORIZATION TOKEN SECRET API-KEY");
}

/// Parses `rows`. The columns are unknown if the file was not read.
fn rows(
    sink: &mut DiagnosticSink<'_>,
    request: &Fields<'_>,
    scope: Scope<'_>,
) -> Option<(Rows, Option<Vec<String>>)> {
    let fields = request.table(sink, "rows")?;
    let file = fields.text(sink, "file")?;
    let given = fields.text(sink, "sha256");
    let table = match scope.surroundings.table(&file) {
        Ok(Some(table)) => table,
        Ok(None) => return Some((Rows { file, sha256: given }, None)),
        Err(error) => {
            let hint = "write its path from the folder that bakeoff is started in";
            sink.hint(fields.value_at("file"), error.to_string(), hint);
            return None;
        }
    };
    if let Some(given) = given.filter(|given| !given.eq_ignore_ascii_case(&table.sha256)) {
        let what =
            format!("`{}` has SHA-256 {}, not {}", shown(&file), table.sha256, shown(&given));
        sink.hint(
            fields.value_at("sha256"),
            what,
            "it is another file than the study was made for",
        );
        return None;
    }
    Some((Rows { file, sha256: Some(table.sha256) }, Some(table.columns)))
}

/// Checks the words in braces of a request.
struct Words<'a> {
    /// Columns of its table; `None` if unknown.
    columns: Option<&'a [String]>,
    has_keys: bool,
}

impl Words<'_> {
    /// Reports an unknown word in a text.
    fn check(&self, sink: &mut DiagnosticSink<'_>, text: &str, field: &str, at: &ByteRange) {
        let columns = self.columns.unwrap_or_default();
        let template = match Template::parse(text, columns) {
            Ok(template) => template,
            Err(TemplateError::Unknown { .. }) if self.columns.is_none() => return,
            Err(error) => {
                let (hint, at) = (error.hint(), sink.piece(at, &error.word()));
                return sink.hint(&at, format!("{error} in `{field}`"), hint);
            }
        };
        if !self.has_keys && template.words().any(|word| *word == Word::Key) {
            let what = format!("`{{key}}` stands in `{field}`, and the workload has no `keys`");
            let at = sink.piece(at, "{key}");
            sink.hint(&at, what, "add `keys: {count: 10000}` to the workload");
        }
    }
}
