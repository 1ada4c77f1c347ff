//! Renders the measured requests from templates, whose constant parts are rendered once.
//!
//! A template has placeholders: a number, one of a list, a fresh name. All values follow from the request's ticket. So
//! nothing is stored between requests, and a request that was never sent still belongs to its test.
//!
//! Not here: the requests of each test (`tests`), when they are sent (`load`).

#[derive(Clone)]
pub(super) enum Piece {
    /// Constant text.
    Text(String),
    /// A number from 1 to this one.
    Number(u64),
    /// A version 4 UUID, different in each request.
    Unique,
}

/// A request of a test. May hold secrets: never print it.
#[derive(Clone)]
pub(super) struct Template {
    pub(super) method: &'static str,
    /// Path from `/v1/` on.
    pub(super) path: Vec<Piece>,
    /// Names and values: the token, the namespace.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<Piece>,
    /// Text that an answer must hold besides its status.
    pub(super) holds: Option<&'static str>,
}

impl Template {
    /// Returns a template without placeholders. `path` starts with `/v1/`.
    pub(super) fn fixed(method: &'static str, path: String, body: String) -> Self {
        Self {
            method,
            path: vec![Piece::Text(path)],
            headers: Vec::new(),
            body: vec![Piece::Text(body)],
            holds: None,
        }
    }

    pub(super) fn with(self, headers: Vec<(String, String)>) -> Self {
        Self { headers, ..self }
    }
}

/// Values for the placeholders of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    /// Percentile that selects the test, 0 to 99.
    pub(super) percent: u32,
    number: u64,
    name: [u64; 2],
}

impl Draw {
    /// Derives the values from a seed and a ticket with SplitMix64 (Steele, Lea and Flood, 2014), which computes each
    /// output without the earlier ones.
    pub(super) fn new(seed: u64, ticket: u64) -> Self {
        let mut state = seed.wrapping_add(ticket.wrapping_mul(GAMMA.wrapping_mul(4)));
        let mut next = || {
            state = state.wrapping_add(GAMMA);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let percent = below(next(), 100) as u32;
        Self { percent, number: next(), name: [next(), next()] }
    }
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps random bits to a number below `limit`, without a division.
fn below(bits: u64, limit: u64) -> u64 {
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

/// Pieces with their constant parts rendered.
pub(super) struct Pieces(Vec<RenderedPart>);

enum RenderedPart {
    Bytes(Vec<u8>),
    Number(u64),
    Unique,
}

impl Pieces {
    pub(super) fn new(pieces: &[Piece]) -> Self {
        let rendered = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => RenderedPart::Bytes(text.clone().into_bytes()),
            Piece::Number(last) => RenderedPart::Number((*last).max(1)),
            Piece::Unique => RenderedPart::Unique,
        });
        Self(rendered.collect())
    }

    fn prepend(&mut self, bytes: Vec<u8>) {
        self.0.insert(0, RenderedPart::Bytes(bytes));
    }

    /// Returns true if there are no placeholders.
    fn is_fixed(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, RenderedPart::Bytes(_)))
    }

    /// Returns the number of bytes that [`Self::write`] would append.
    pub(super) fn length(&self, draw: &Draw) -> usize {
        let length = |piece: &RenderedPart| match piece {
            RenderedPart::Bytes(bytes) => bytes.len(),
            RenderedPart::Number(last) => digits(1 + below(draw.number, *last), &mut [0; 20]).len(),
            RenderedPart::Unique => UUID_LENGTH,
        };
        self.0.iter().map(length).sum()
    }

    #[inline]
    pub(super) fn write(&self, draw: &Draw, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                RenderedPart::Bytes(bytes) => out.extend_from_slice(bytes),
                RenderedPart::Number(last) => {
                    out.extend_from_slice(digits(1 + below(draw.number, *last), &mut [0; 20]));
                }
                RenderedPart::Unique => put_uuid(draw.name, out),
            }
        }
    }
}

/// Returns a number's decimal digits, without allocating.
fn digits(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

const UUID_LENGTH: usize = 36;

/// Appends a version 4 UUID (RFC 9562 section 5.4) made of these random bits.
fn put_uuid(bits: [u64; 2], out: &mut Vec<u8>) {
    let high = (bits[0] & !0xf000) | 0x4000;
    let low = (bits[1] & !(0b11 << 62)) | (0b10 << 62);
    let hex = |value: u64, places: std::ops::Range<u32>, out: &mut Vec<u8>| {
        for place in places {
            out.push(b"0123456789abcdef"[(value >> (60 - 4 * place) & 0xf) as usize]);
        }
    };
    hex(high, 0..8, out);
    out.push(b'-');
    hex(high, 8..12, out);
    out.push(b'-');
    hex(high, 12..16, out);
    out.push(b'-');
    hex(low, 0..4, out);
    out.push(b'-');
    hex(low, 4..16, out);
}

/// Returns a version 4 UUID as text.
pub(super) fn uuid(bits: [u64; 2]) -> String {
    let mut out = Vec::with_capacity(UUID_LENGTH);
    put_uuid(bits, &mut out);
    out.into_iter().map(char::from).collect()
}

/// A template rendered as HTTP/1.1 messages.
pub(super) struct MessageOne {
    /// Method and path of the request line.
    start: Pieces,
    /// Bytes from the end of the path to the body, or to the value of its length if that varies.
    rest_of_head: Vec<u8>,
    body: Pieces,
    body_is_fixed: bool,
}

impl MessageOne {
    /// `authority`: host and port for the `Host` field.
    pub(super) fn new(template: &Template, authority: &str, keep_alive: bool) -> Self {
        let mut start = Pieces::new(&template.path);
        start.prepend(format!("{} ", template.method).into_bytes());
        let body = Pieces::new(&template.body);
        let mut head = format!(" HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {USER_AGENT}\r\n");
        for (name, value) in &template.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !keep_alive {
            head.push_str("Connection: close\r\n");
        }
        let body_is_fixed = body.is_fixed();
        let has_body = !body_is_fixed || body.length(&NOTHING) > 0;
        let wants_length = has_body || matches!(template.method, "POST" | "PUT");
        if body_is_fixed {
            if wants_length {
                head.push_str(&format!("Content-Length: {}\r\n", body.length(&NOTHING)));
            }
            head.push_str("\r\n");
        } else {
            head.push_str("Content-Length: ");
        }
        Self { start, rest_of_head: head.into_bytes(), body, body_is_fixed }
    }

    /// Appends the message. Returns the length of its body.
    #[inline]
    pub(super) fn write(&self, draw: &Draw, out: &mut Vec<u8>) -> usize {
        self.start.write(draw, out);
        out.extend_from_slice(&self.rest_of_head);
        let body = self.body.length(draw);
        if !self.body_is_fixed {
            out.extend_from_slice(digits(body as u64, &mut [0; 20]));
            out.extend_from_slice(b"\r\n\r\n");
        }
        self.body.write(draw, out);
        body
    }
}

/// Draw for pieces without placeholders.
const NOTHING: Draw = Draw { percent: 0, number: 0, name: [0; 2] };

/// Names bakeoff in the `User-Agent` header.
pub(super) const USER_AGENT: &str = concat!("bakeoff/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(message: &MessageOne, draw: &Draw) -> String {
        let mut out = Vec::new();
        message.write(draw, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn content_length_matches_every_body() {
        let template = Template {
            path: vec![Piece::Text("/v1/a/".into()), Piece::Number(100_000)],
            body: vec![Piece::Text("{".into()), Piece::Number(100_000), Piece::Unique],
            ..Template::fixed("POST", String::new(), String::new())
        };
        let message = MessageOne::new(&template, "h:1", true);
        let mut lengths = BTreeSet::new();
        for ticket in 0..200 {
            let text = text(&message, &Draw::new(7, ticket));
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let announced = head.split_once("Content-Length: ").unwrap().1;
            assert_eq!(announced.parse::<usize>().unwrap(), body.len());
            let number = head.strip_prefix("POST /v1/a/").unwrap().split_once(' ').unwrap().0;
            assert_eq!(&body[1..body.len() - 36], number, "one number a request");
            lengths.insert(body.len());
        }
        assert!(lengths.len() > 1, "{lengths:?}");
    }

    #[test]
    fn fixed_message_has_method_path_headers_and_body() {
        let template = Template::fixed("LIST", "/v1/a".into(), String::new())
            .with(vec![("X-Vault-Token".into(), "t".into())]);
        let agent = USER_AGENT;
        assert_eq!(
            text(&MessageOne::new(&template, "h:1", false), &Draw::new(0, 0)),
            format!(
                "LIST /v1/a HTTP/1.1\r\nHost: h:1\r\nUser-Agent: {agent}\r\nX-Vault-Token: t\r\n\
                 Connection: close\r\n\r\n"
            )
        );
    }

    #[test]
    fn numbers_reach_from_1_to_the_last() {
        let pieces = Pieces::new(&[Piece::Number(3)]);
        let mut seen = BTreeSet::new();
        for ticket in 0..500 {
            let mut out = Vec::new();
            pieces.write(&Draw::new(1, ticket), &mut out);
            seen.insert(String::from_utf8(out).unwrap());
        }
        let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
        assert_eq!(seen, ["1", "2", "3"]);
    }

    #[test]
    fn each_hundredth_of_the_weights_has_its_share_of_tickets() {
        let mut counts = [0_u32; 100];
        for ticket in 0..100_000 {
            counts[Draw::new(3, ticket).percent as usize] += 1;
        }
        // Ten standard deviations of a binomial distribution with p = 0.01.
        assert!(counts.iter().all(|count| (685..1315).contains(count)), "{counts:?}");
    }

    #[test]
    fn unique_names_are_distinct_version_4_uuids() {
        let names: BTreeSet<String> =
            (0..1000).map(|ticket| uuid(Draw::new(9, ticket).name)).collect();
        assert_eq!(names.len(), 1000);
        for name in names {
            assert_eq!(name.len(), UUID_LENGTH);
            assert_eq!(&name[14..15], "4");
            assert!("89ab".contains(&name[19..20]), "{name}");
        }
    }
}
