//! Serves requests that contain words as a source.
//!
//! Not here: the words, and the fixed parts of a message (`placeholders`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_core::template::{self, Template};

use super::fixed_requests::{Order, Requests};
use super::placeholders::{
    HEADERS_SALT, Message, RequestWords, TARGET_SALT, UnknownWord, WordPlace, values,
};
use super::request::Request;
use super::source::{
    Batch, Body, HeaderList, JudgeResponses, MakeRequests, OwnFields, Source, Stream,
};
use crate::work::{Failure, NotIssued};

impl Request {
    /// Parses words in path, query, headers and body; `columns` are those of a table. Unknown words stay as they are
    /// and are returned. Bodies often contain braces, so there only `{name:json}` and `{name:grpc}` count as unknown words.
    pub fn read_words(&mut self, columns: &[String]) -> Vec<UnknownWord> {
        let mut unknown = Vec::new();
        let mut read = |text: &mut String, place: WordPlace| {
            let (template, mut others) = Template::parse_known(text, columns);
            if place == WordPlace::Body {
                others.retain(|word| word.ends_with(":json}") || word.ends_with(":grpc}"));
            }
            unknown
                .extend(others.into_iter().map(|word| UnknownWord { word, place: place.clone() }));
            changing(template, text)
        };
        let mut words = RequestWords {
            target: read(&mut self.url.target, WordPlace::Url),
            headers: (self.headers.iter_mut())
                .map(|(name, value)| read(value, WordPlace::Header(name.clone())))
                .collect(),
            body: None,
        };
        // Bytes that are not text have no words.
        if let Ok(text) = str::from_utf8(&self.body) {
            let mut text = text.to_owned();
            words.body = read(&mut text, WordPlace::Body);
            self.body = text.into_bytes();
        }
        let any = words.target.is_some()
            || words.body.is_some()
            || words.headers.iter().any(Option::is_some);
        self.words = any.then(|| Box::new(words));
        unknown
    }
}

/// Returns a template that has words. For a template without words, updates the text and returns `None`.
fn changing(template: Template, text: &mut String) -> Option<Template> {
    if let Some(plain) = template.plain() {
        plain.clone_into(text);
        return None;
    }
    Some(template)
}

/// Serves [`Requests`] with words as a source.
pub(super) struct TemplateRequests {
    requests: Arc<Requests>,
    messages: Arc<[Message]>,
    order: Order,
    seed: u64,
    body: Vec<u8>,
    path: Vec<u8>,
    /// Headers of one HTTP/2 request, and the ends of each name and value.
    fields: Vec<u8>,
    field_ends: Vec<(usize, usize)>,
}

impl TemplateRequests {
    pub(super) fn new(
        requests: Arc<Requests>,
        messages: Arc<[Message]>,
        order: Order,
        seed: u64,
    ) -> Self {
        let (body, path, fields) = (Vec::new(), Vec::new(), Vec::new());
        Self { requests, messages, order, seed, body, path, fields, field_ends: Vec::new() }
    }
}

impl MakeRequests for TemplateRequests {
    fn request(
        &mut self,
        client: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued> {
        let operation = self.order.next(&self.requests, node, ticket);
        let values = values(client, ticket, self.seed, &self.requests.rows);
        self.messages[operation].write(&values, &mut self.body, out);
        let is_head = self.requests.all[operation].is_head();
        let idle_close = self.requests.idle_closes[operation];
        Ok(Batch { operation, responses: 1, is_head, idle_close })
    }

    fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        self.requests.header_lists(node)
    }

    fn stream(&mut self, client: u32, node: usize, ticket: u64) -> Result<Stream<'_>, NotIssued> {
        let operation = self.order.next(&self.requests, node, ticket);
        let Self { requests, messages, body, path, fields, field_ends, .. } = self;
        let values = values(client, ticket, self.seed, &requests.rows);
        let request = &requests.all[operation];
        let words = request.words.as_deref();
        let target = words.and_then(|words| words.target.as_ref());
        path.clear();
        if let Some(target) = target {
            target.write(&values, TARGET_SALT, template::percent_encoded, path);
        }
        fields.clear();
        field_ends.clear();
        let changing = words.map_or(&[][..], |words| &words.headers);
        for ((salt, (name, _)), value) in (HEADERS_SALT..).zip(&request.headers).zip(changing) {
            let Some(value) = value.as_ref().filter(|_| request.is_sent_in_http2(name)) else {
                continue;
            };
            fields.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
            let name_end = fields.len();
            value.write(&values, salt, template::verbatim, fields);
            field_ends.push((name_end, fields.len()));
        }
        Ok(Stream {
            operation,
            path: target.is_some().then_some(path),
            fields: OwnFields { bytes: fields, ends: field_ends },
            body: messages[operation].body.bytes(&values, body),
            idle_close: requests.idle_closes[operation],
        })
    }

    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize> {
        Some(self.order.next(&self.requests, node, ticket))
    }
}

impl JudgeResponses for TemplateRequests {
    fn reads_bodies(&self) -> bool {
        self.requests.read_bodies()
    }

    fn judge(&mut self, operation: usize, status: u16, body: Body<'_>) -> Result<(), Failure> {
        self.requests.all[operation].expect.judge(status, body)
    }
}

impl Source for TemplateRequests {
    fn operations(&self) -> Vec<String> {
        self.requests.operations()
    }

    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        self.requests.pause(client, now)
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::template::Table;

    use super::*;
    use crate::work::IdleClose;
    use crate::works::http::{Url, parse_header};

    fn request(url: &str, header: &str, body: &[u8]) -> Request {
        let mut request = Request::get(Url::parse(url).unwrap());
        request.headers.push(parse_header(header).unwrap());
        request.method = "POST".into();
        request.body = body.to_vec();
        request
    }

    fn users() -> Table {
        let rows = ["ann", "b \"b"].map(|user| vec![user.to_owned()]);
        Table { columns: vec!["user".to_owned()], rows: rows.into() }
    }

    fn sent(request: &Request, client: u32, sequence: u64) -> String {
        let mut out = Vec::new();
        let message = request.message(None, true);
        message.write(&values(client, sequence, 1, &users()), &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_change_with_each_request_in_all_parts() {
        let mut request =
            request("http://a/{sequence}?by={client}", "X-Id: n{sequence}", b"[{sequence}]");
        assert_eq!(request.read_words(&[]), []);
        let text = sent(&request, 3, 99);
        assert!(text.starts_with("POST /99?by=3 HTTP/1.1\r\nHost: a\r\n"), "{text}");
        assert!(text.contains("\r\nX-Id: n99\r\nContent-Length: 4\r\n\r\n[99]"), "{text}");
        let text = sent(&request, 3, 100);
        assert!(text.ends_with("\r\nX-Id: n100\r\nContent-Length: 5\r\n\r\n[100]"), "{text}");
    }

    #[test]
    fn unknown_braces_are_sent_as_written() {
        let body = b"{viewer{login}} {page:2} {usr:json}";
        let mut request = request("http://a/{id}/{{client}}", "X-Id: {who}", body);
        let unknown = request.read_words(&users().columns);
        let seen: Vec<(&str, &WordPlace)> =
            unknown.iter().map(|one| (one.word.as_str(), &one.place)).collect();
        let header = WordPlace::Header("X-Id".to_owned());
        let expected =
            [("{id}", &WordPlace::Url), ("{who}", &header), ("{usr:json}", &WordPlace::Body)];
        assert_eq!(seen, expected);
        assert_eq!(request.words, None, "it never changes");
        let text = sent(&request, 0, 0);
        assert!(text.starts_with("POST /{id}/{client} HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("X-Id: {who}\r\n") && text.ends_with(" {usr:json}"), "{text}");
    }

    #[test]
    fn row_values_are_escaped_for_their_place() {
        let mut request =
            request("http://a/{user}", "X-Id: {user}", b"{\"user\": \"{user:json}\", {user}}");
        assert_eq!(request.read_words(&users().columns), []);
        let text = sent(&request, 0, 1);
        assert!(text.starts_with("POST /b%20%22b HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("\r\nX-Id: b \"b\r\n"), "{text}");
        assert!(text.ends_with("{\"user\": \"b \\\"b\", b \"b}"), "{text}");
        assert!(sent(&request, 0, 2).starts_with("POST /ann HTTP/1.1\r\n"));
        let words = request.words.as_ref().unwrap();
        assert_eq!(words.check_rows(&request.headers, &users()), Ok(()));
        let broken = Table { rows: vec![vec!["a\r\nb".to_owned()]], ..users() };
        let error = words.check_rows(&request.headers, &broken).unwrap_err();
        assert!(error.contains("header `X-Id`"), "{error}");
    }

    #[test]
    fn binary_bodies_are_sent_unchanged() {
        let mut request = request("http://a/", "X: y", b"\xff{client}");
        assert!(request.read_words(&[]).is_empty());
        assert_eq!((request.words.is_none(), &request.body[..]), (true, &b"\xff{client}"[..]));
    }

    #[test]
    fn random_words_depend_on_the_seed() {
        let mut request = request("http://a/{random:4}", "X: {random:4}", b"");
        request.read_words(&[]);
        assert!(request.words.as_ref().is_some_and(|words| words.is_random()));
        assert_eq!(sent(&request, 0, 5), sent(&request, 1, 5));
        assert_ne!(sent(&request, 0, 5), sent(&request, 0, 6));
    }

    #[test]
    fn http2_separates_changing_from_fixed_parts() {
        let mut request = request("http://a/{sequence}", "X-Id: n{client}", b"[{sequence}]");
        request.headers.push(parse_header("X-Fixed: same").unwrap());
        request.read_words(&[]);
        let messages = vec![request.message(None, true)].into();
        let requests = Arc::new(Requests {
            all: vec![request],
            rendered: Vec::new(),
            order: vec![0],
            orders: vec![vec![0]],
            server_of: vec![0],
            idle_closes: vec![IdleClose::Reissued],
            keep_alive: true,
            follow_redirects: false,
            by_proxy: false,
            pace: None,
            rows: Arc::default(),
        });
        let order = Order::new(&requests, 0, false);
        let mut source = TemplateRequests::new(requests, messages, order, 1);
        let list = source.header_lists(0).remove(0).unwrap();
        let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [":method", ":scheme", ":authority", "user-agent", "x-fixed"]);
        let Ok(stream) = source.stream(3, 0, 99) else { panic!("there is always a next one") };
        assert_eq!((stream.path, stream.body), (Some(&b"/99"[..]), &b"[99]"[..]));
        let fields: Vec<_> = stream.fields.iter().collect();
        assert_eq!(fields, [(&b"x-id"[..], &b"n3"[..])]);
    }
}
