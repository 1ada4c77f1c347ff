//! Builds the requests of a load, from URLs or from a targets file.
//!
//! Messages never contain secrets: values of headers, or the user and password of a URL.
//!
//! Not here: the format of a targets file (`targets`), the settings of the load (`load_request`).

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use bakeoff_core::secrets;
use bakeoff_core::stats::and;
use bakeoff_core::statuses::Statuses;
use bakeoff_core::study::Rows;
use bakeoff_core::template::Table;
use bakeoff_core::units::plural;
use bakeoff_engine::works::http::{
    Expect, ExpectBody, Request, UnknownWord, Url, WordPlace, check_headers, parse_header,
    parse_method,
};
use bakeoff_files as files;
use bakeoff_systems::rows::RowTable;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::targets;
use crate::cli::LoadArgs;
use crate::failure::Failure;

pub(super) fn from_urls(args: &LoadArgs) -> Result<Vec<Request>, Failure> {
    let body = match (&args.requests.body, &args.requests.body_file) {
        (Some(text), _) => match text.strip_prefix('@') {
            Some(path) => read_file(Path::new(path), "body")?,
            None => text.clone().into_bytes(),
        },
        (None, Some(path)) => read_file(path, "body")?,
        (None, None) => Vec::new(),
    };
    let method = match &args.requests.method {
        Some(text) => parse_method(text).map_err(|what| {
            Failure::input(format!("`--method`: {what}"), "write `GET`, `PUT`, …")
        })?,
        None if body.is_empty() => "GET".to_owned(),
        None => "POST".to_owned(),
    };
    if !args.requests.weights.is_empty() && args.requests.weights.len() != args.requests.urls.len()
    {
        let (weights, urls) = (args.requests.weights.len(), args.requests.urls.len());
        return Err(Failure::input(
            format!(
                "`--weights` has {} for {}",
                plural(weights as u64, "number"),
                plural(urls as u64, "URL")
            ),
            "give one for each URL, in their order",
        ));
    }
    let (headers, expect, user) = (headers(args)?, expect(args)?, user(args)?);
    let mut requests = Vec::new();
    for (place, text) in args.requests.urls.iter().enumerate() {
        let url = Url::parse(text)
            .map_err(|what| Failure::input(format!("URL {}: {what}", masked(text)), URL_HINT))?;
        requests.push(Request {
            name: String::new(),
            method: method.clone(),
            headers: with_user(headers.clone(), &url, user.as_ref()),
            url,
            body: body.clone(),
            chunked: args.requests.chunked,
            weight: args.requests.weights.get(place).copied().unwrap_or(1),
            expect: expect.clone(),
            words: None,
        });
    }
    name_apart(&mut requests);
    Ok(requests)
}

/// Most bytes of a body or a file of requests.
const BODY_MAX: u64 = 1 << 30;
/// Most bytes of a file with user and password.
const USER_MAX: u64 = 64 << 10;
const URL_HINT: &str = "write `http://127.0.0.1:8080/path`";

/// Returns the requests of a targets file.
pub(super) fn from_file(args: &LoadArgs, path: &Path) -> Result<Vec<Request>, Failure> {
    let bytes = read_file(path, "targets file")?;
    let shown = path.display();
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::input(format!("the targets file `{shown}` is not UTF-8"), FILE_HINT)
    })?;
    let all = |diagnostics: Vec<targets::Diagnostic>| {
        let lines: Vec<String> =
            diagnostics.iter().map(|m| format!("{shown}:{}: {}", m.line, m.what)).collect();
        Failure::input(lines.join("\nerror: "), FILE_HINT)
    };
    let targets = targets::parse(text.trim_start_matches('\u{feff}')).map_err(all)?;
    let (common, expect, user) = (headers(args)?, expect(args)?, user(args)?);
    let (mut requests, mut diagnostics) = (Vec::new(), Vec::new());
    for target in targets {
        let url = Url::parse(&target.url);
        let body = match &target.body {
            None => Vec::new(),
            Some((file, line)) => files::read(Path::new(file), BODY_MAX).unwrap_or_else(|error| {
                let what = format!(
                    "cannot read the body `{file}`: {error}; its path starts from the folder that bakeoff is started in"
                );
                diagnostics.push(targets::Diagnostic { line: *line, what });
                Vec::new()
            }),
        };
        let url = match url {
            Ok(url) => url,
            Err(what) => {
                diagnostics.push(targets::Diagnostic { line: target.line, what: what.to_string() });
                continue;
            }
        };
        let mut headers = target.headers;
        let own: BTreeSet<String> =
            headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let missing = common.iter().filter(|(name, _)| !own.contains(&name.to_ascii_lowercase()));
        headers.extend(missing.cloned());
        requests.push(Request {
            name: String::new(),
            method: target.method,
            headers: with_user(headers, &url, user.as_ref()),
            url,
            body,
            chunked: args.requests.chunked,
            weight: target.weight.unwrap_or(1),
            expect: expect.clone(),
            words: None,
        });
    }
    if !diagnostics.is_empty() {
        diagnostics.sort_by_key(|diagnostic| diagnostic.line);
        return Err(all(diagnostics));
    }
    name_apart(&mut requests);
    Ok(requests)
}

const FILE_HINT: &str = "write a request as `[WEIGHT] METHOD URL`, and below it `Name: value` headers and `@FILE` for the body";

/// Reads the table of `--rows`, and returns it with its file. Without the flag, the table is empty.
pub(super) fn rows(args: &LoadArgs) -> Result<(Table, Option<Rows>), Failure> {
    let Some(path) = &args.requests.rows else { return Ok((Table::default(), None)) };
    let file = path.display().to_string();
    let RowTable { table, sha256 } = RowTable::read(&file).map_err(|error| {
        Failure::input(
            format!("`--rows`: {error}"),
            "give a CSV file whose first row names the columns",
        )
    })?;
    Ok((table, Some(Rows { file, sha256: Some(sha256) })))
}

/// Parses the words of all requests, which may name columns of `table`. Returns a warning for each unknown word.
pub(super) fn read_words(requests: &mut [Request], table: &Table) -> Result<Vec<String>, Failure> {
    let columns = table.columns.iter().map(|column| format!("`{{{column}}}`"));
    let known = ["`{sequence}`", "`{client}`", "`{random:8}`"].map(str::to_owned);
    let known = and(&known.into_iter().chain(columns).collect::<Vec<_>>());
    let mut warnings = BTreeSet::new();
    for request in requests {
        for UnknownWord { word, place } in request.read_words(&table.columns) {
            let place = match place {
                WordPlace::Url => "the URL".to_owned(),
                WordPlace::Header(name) => format!("header `{name}`"),
                WordPlace::Body => "the body".to_owned(),
            };
            warnings.insert(format!(
                "`{word}` in {place} is an unknown word and is sent unchanged; the known words are {known}"
            ));
        }
        if let Some(words) = &request.words {
            words.check_rows(&request.headers, table).map_err(|what| {
                Failure::input(format!("`--rows`: {what}"), "correct the file, or the request")
            })?;
        }
    }
    Ok(warnings.into_iter().collect())
}

/// Gives each request a unique name, because figures are kept by name.
fn name_apart(requests: &mut [Request]) {
    let mut names = BTreeSet::new();
    for request in requests {
        let plain = format!("{} {}", request.method, shown(&request.url));
        let mut name = plain.clone();
        let mut number = 2;
        while !names.insert(name.clone()) {
            name = format!("{plain} ({number})");
            number += 1;
        }
        request.name = name;
    }
}

/// Returns a URL without user and password. Masks the values of parameters whose names suggest a secret.
pub(super) fn shown(url: &Url) -> String {
    let shown = url.shown();
    let Some((before, query)) = shown.split_once('?') else { return shown };
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if secrets::is_named_by(name) => format!("{name}=***"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{before}?{}", parameters.join("&"))
}

/// Registers the secrets of a request, so that records mask them in answers that repeat them.
pub(super) fn note_secrets(request: &Request) {
    for (name, value) in &request.headers {
        let is_cookie = name.eq_ignore_ascii_case("cookie");
        if !is_cookie && !secrets::is_named_by(name) {
            continue;
        }
        secrets::note(value);
        // `Bearer TOKEN`, `session=TOKEN; other=1`.
        value.split([' ', ';', ',']).for_each(secrets::note);
        value
            .split([';', ','])
            .filter_map(|pair| pair.split_once('='))
            .for_each(|(_, value)| secrets::note(value));
    }
    if let Some((_, password)) = &request.url.user {
        secrets::note(password);
    }
    let query = request.url.target.split_once('?').map_or("", |(_, query)| query);
    for (name, value) in query.split('&').filter_map(|parameter| parameter.split_once('=')) {
        if secrets::is_named_by(name) {
            secrets::note(value);
        }
    }
}

/// Quotes an invalid URL for a message, without its query and without text that may be a password.
fn masked(text: &str) -> String {
    let text = text.split_once('?').map_or(text, |(before, _)| before);
    let text = match text.rsplit_once('@') {
        Some((_, after)) => format!("***@{after}"),
        None => text.to_owned(),
    };
    format!("`{}`", targets::short(&text))
}

/// Adds the `Authorization` header for the URL's user and password (RFC 7617), else for those of `given`, unless
/// `headers` already has one.
fn with_user(
    mut headers: Vec<(String, String)>,
    url: &Url,
    given: Option<&(String, String)>,
) -> Vec<(String, String)> {
    let is_given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if let Some((user, password)) = url.user.as_ref().or(given).filter(|_| !is_given) {
        secrets::note(password);
        let credentials = STANDARD.encode(format!("{user}:{password}"));
        headers.push(("Authorization".to_owned(), format!("Basic {credentials}")));
    }
    headers
}

/// Reads user and password from `--user-file`, else from the environment.
fn user(args: &LoadArgs) -> Result<Option<(String, String)>, Failure> {
    let wrong = |place: &str, what: &str| {
        Failure::input(format!("{place}: {what}"), "it holds one line, `USER:PASSWORD`")
    };
    let (place, text) = match &args.requests.user_file {
        None => {
            return bakeoff_compat::user_of_environment()
                .map_err(|what| wrong("BAKEOFF_USER", what));
        }
        Some(path) => {
            let place = format!("`--user-file {}`", path.display());
            let text = files::read_text(path, USER_MAX)
                .map_err(|error| wrong(&place, &error.to_string()))?;
            (place, text)
        }
    };
    bakeoff_compat::parse_user(text.trim_end_matches(['\n', '\r']))
        .map(Some)
        .map_err(|what| wrong(&place, what))
}

fn headers(args: &LoadArgs) -> Result<Vec<(String, String)>, Failure> {
    let read = |text: &String| {
        parse_header(text).map_err(|what| {
            Failure::input(format!("`--header`: {what}"), "write `--header 'Name: value'`")
        })
    };
    let headers = args.requests.header.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    check_headers(&headers)
        .map_err(|what| Failure::input(format!("`--header`: {what}"), "give each header once"))?;
    Ok(headers)
}

fn expect(args: &LoadArgs) -> Result<Expect, Failure> {
    let mut expect = Expect::default();
    if let Some(text) = &args.requests.expect_status {
        expect.statuses = Statuses::parse(text).map_err(|what| {
            Failure::input(
                format!("`--expect-status`: {what}"),
                "write `200`, `2xx` or `200-299,404`",
            )
        })?;
    }
    if let Some(text) = &args.requests.expect_body {
        let body = ExpectBody::parse(text).map_err(|what| {
            Failure::input(
                format!("`--expect-body`: {what}"),
                "write a part of the body, or `sha256:HEX`",
            )
        })?;
        expect.body = Some(body);
    }
    Ok(expect)
}

fn read_file(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    let read = match path.as_os_str() == "-" {
        false => files::read(path, BODY_MAX),
        true => {
            let mut text = Vec::new();
            std::io::stdin().lock().take(BODY_MAX).read_to_end(&mut text).map(|_| text)
        }
    };
    read.map_err(|error| {
        Failure::input(
            format!("cannot read the {what} `{}`: {error}", path.display()),
            "write its path from the folder that bakeoff is started in",
        )
    })
}
