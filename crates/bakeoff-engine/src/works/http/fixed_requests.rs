//! Sends requests that never change, in a fixed order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_core::template::Table;
use bakeoff_wire::http1::Response;

use super::request::Request;
use super::source::{
    Batch, Body, HeaderList, JudgeResponses, MakeRequests, OwnFields, RedirectError,
    ResponseVerdict, Source, Stream, judge_response,
};
use super::url::Url;
use crate::work::{Failure, IdleClose, NotIssued};

/// Holds requests, and the order in which each server gets them.
pub(super) struct Requests {
    pub(super) all: Vec<Request>,
    /// HTTP/1.1 message of each request, and whether it is a HEAD request.
    pub(super) rendered: Vec<(Vec<u8>, bool)>,
    /// Rule for each request if the server closes the connection before it answers.
    pub(super) idle_closes: Vec<IdleClose>,
    /// Indices into `all`, repeated: the order of a closed load by operation number, and of any load on a single
    /// server.
    pub(super) order: Vec<usize>,
    /// Order of each server's requests in an open load.
    pub(super) orders: Vec<Vec<usize>>,
    /// Server of each node. Clients are spread over nodes, and a server may have several.
    pub(super) server_of: Vec<usize>,
    pub(super) keep_alive: bool,
    pub(super) follow_redirects: bool,
    /// True if requests go to a proxy, which needs absolute URLs.
    pub(super) by_proxy: bool,
    pub(super) pace: Option<ThinkTime>,
    /// Values of the requests' words.
    pub(super) rows: Arc<Table>,
}

/// Returns the pause of a closed load's client before its next request.
pub type ThinkTime = Arc<dyn Fn(u32, Instant) -> Duration + Send + Sync>;

/// Tracks a worker's position in the orders.
pub(super) struct Order {
    /// True if the operation's number alone picks the request, for any number of threads and any speed of the
    /// servers.
    by_number: bool,
    next: Vec<usize>,
}

impl Order {
    /// Starts the orders of a worker.
    pub(super) fn new(requests: &Requests, worker: u32, is_open: bool) -> Self {
        let servers = requests.orders.len();
        Self { by_number: !is_open || servers == 1, next: vec![worker as usize; servers] }
    }

    /// Returns the index of the next request for a node.
    #[inline]
    pub(super) fn next(&mut self, requests: &Requests, node: usize, ticket: u64) -> usize {
        if self.by_number {
            let order = &requests.order;
            return match order.len() {
                1 => order[0],
                length => order[(ticket % length as u64) as usize],
            };
        }
        let server = requests.server_of[node];
        let order = &requests.orders[server];
        let next = &mut self.next[server];
        *next = (*next + 1) % order.len();
        order[*next]
    }
}

impl Requests {
    /// Returns the names of all requests.
    pub(super) fn operations(&self) -> Vec<String> {
        self.all.iter().map(|request| request.name.clone()).collect()
    }

    /// Returns the HTTP/2 header list of each request that goes to the node's server; `None` for the others.
    pub(super) fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        let order = &self.orders[self.server_of[node]];
        let all = self.all.iter().enumerate();
        all.map(|(place, request)| order.contains(&place).then(|| request.http2_headers()))
            .collect()
    }

    /// Returns true if the body of a response is checked.
    pub(super) fn read_bodies(&self) -> bool {
        self.all.iter().any(|request| request.expect.body.is_some())
    }

    /// Returns the pause of `client`, of a closed load, before its next request.
    pub(super) fn pause(&self, client: u32, now: Instant) -> Duration {
        self.pace.as_ref().map_or(Duration::ZERO, |pace| pace(client, now))
    }
}

/// Returns an order in which items with these weights are spread as evenly as possible. Uses smooth weighted round
/// robin, like NGINX for its upstreams.
pub(super) fn deal(weights: &[u32]) -> Vec<usize> {
    let common = weights.iter().copied().fold(0, gcd).max(1);
    let weights: Vec<i64> = weights.iter().map(|weight| i64::from(weight / common)).collect();
    let total: i64 = weights.iter().sum();
    let mut credit = vec![0; weights.len()];
    let mut order = Vec::new();
    for _ in 0..total {
        credit.iter_mut().zip(&weights).for_each(|(credit, weight)| *credit += weight);
        let most = (0..credit.len()).max_by_key(|&place| (credit[place], std::cmp::Reverse(place)));
        let Some(most) = most else { break };
        credit[most] -= total;
        order.push(most);
    }
    order
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Serves [`Requests`] as a source.
pub(super) struct FixedRequests {
    requests: Arc<Requests>,
    order: Order,
}

impl FixedRequests {
    pub(super) fn new(requests: Arc<Requests>, order: Order) -> Self {
        Self { requests, order }
    }
}

impl MakeRequests for FixedRequests {
    #[inline]
    fn request(
        &mut self,
        _: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued> {
        let place = self.order.next(&self.requests, node, ticket);
        let (message, is_head) = &self.requests.rendered[place];
        out.extend_from_slice(message);
        let idle_close = self.requests.idle_closes[place];
        Ok(Batch { operation: place, responses: 1, is_head: *is_head, idle_close })
    }

    fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        self.requests.header_lists(node)
    }

    #[inline]
    fn stream(&mut self, _: u32, node: usize, ticket: u64) -> Result<Stream<'_>, NotIssued> {
        let operation = self.order.next(&self.requests, node, ticket);
        let (body, idle_close) =
            (&self.requests.all[operation].body, self.requests.idle_closes[operation]);
        Ok(Stream { operation, path: None, fields: OwnFields::default(), body, idle_close })
    }

    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize> {
        Some(self.order.next(&self.requests, node, ticket))
    }
}

impl JudgeResponses for FixedRequests {
    fn reads_bodies(&self) -> bool {
        self.requests.read_bodies()
    }

    #[inline]
    fn judge(&mut self, operation: usize, status: u16, body: Body<'_>) -> Result<(), Failure> {
        self.requests.all[operation].expect.judge(status, body)
    }

    #[inline]
    fn response(&mut self, operation: usize, response: &Response<'_>) -> ResponseVerdict {
        if self.requests.follow_redirects
            && matches!(response.status, 301 | 302 | 303 | 307 | 308)
            && response.headers.get("location").is_some()
        {
            return ResponseVerdict::Redirect;
        }
        judge_response(self, operation, response)
    }

    fn follow(
        &mut self,
        operation: usize,
        response: &Response<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, RedirectError> {
        let location = response.headers.get("location").unwrap_or_default();
        let location = str::from_utf8(location).map_err(|_| RedirectError::NotUtf8)?;
        let mut request = self.requests.all[operation].clone();
        request.url.target = redirect(&request.url, location)?;
        // RFC 9110 section 15.4: 307 and 308 keep method and body. The others become GET, as in all clients.
        if !matches!(response.status, 307 | 308) && !request.is_head() {
            request.method = "GET".into();
            request.body.clear();
            request.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
        }
        let whole = self.requests.by_proxy.then(|| request.url.shown());
        request.write_http1(whole.as_deref(), self.requests.keep_alive, out);
        Ok(request.is_head())
    }
}

impl Source for FixedRequests {
    fn operations(&self) -> Vec<String> {
        self.requests.operations()
    }

    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        self.requests.pause(client, now)
    }
}

/// Returns the target of a `Location` on the same server. Relative references are resolved against the request's path
/// (RFC 3986 section 5.2). Dots are left for the server to remove.
fn redirect(from: &Url, location: &str) -> Result<String, RedirectError> {
    let location = location.split_once('#').map_or(location, |(before, _)| before);
    // A reference without a scheme takes the request's (RFC 3986 section 4.2).
    let with_scheme = location.starts_with("//").then(|| format!("{}:{location}", from.scheme()));
    let location = with_scheme.as_deref().unwrap_or(location);
    if location.contains("://") {
        let to = Url::parse(location).map_err(RedirectError::NoUrl)?;
        if (to.tls, &to.host, to.port) != (from.tls, &from.host, from.port) {
            let server = format!("{}://{}", to.scheme(), to.authority);
            return Err(RedirectError::Elsewhere(server));
        }
        return Ok(to.target);
    }
    if location.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(RedirectError::Unsendable);
    }
    let path = from.target.split_once('?').map_or(&*from.target, |(path, _)| path);
    Ok(match location.chars().next() {
        Some('/') => location.into(),
        Some('?') => format!("{path}{location}"),
        None => from.target.clone(),
        Some(_) => {
            let directory = path.rfind('/').map_or("/", |slash| &path[..=slash]);
            format!("{directory}{location}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_spread_evenly() {
        assert_eq!(deal(&[1]), [0]);
        assert_eq!(deal(&[7, 7]), [0, 1]);
        assert_eq!(deal(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(deal(&[0, 2]), [1]);
        let order = deal(&[50, 30, 20]);
        for (place, share) in [(0, 5), (1, 3), (2, 2)] {
            assert_eq!(order.iter().filter(|&&dealt| dealt == place).count(), share);
        }
    }

    #[test]
    fn redirect_is_followed_only_on_the_same_server() {
        let check = |location: &str, expected: Result<&str, &str>| {
            let from = Url::parse("http://a:1/b/c?d").unwrap();
            let target = redirect(&from, location);
            assert_eq!(
                target.as_deref().map_err(ToString::to_string),
                expected.map_err(str::to_owned),
                "{location}"
            );
        };
        check("/x?y#z", Ok("/x?y"));
        check("x", Ok("/b/x"));
        check("?x", Ok("/b/c?x"));
        check("", Ok("/b/c?d"));
        check("http://a:1", Ok("/"));
        check("http://a:2/x", Err("a redirect to another server, `http://a:2`"));
        check("https://a:1/x", Err("a redirect to another server, `https://a:1`"));
        check("//a:1/x", Ok("/x"));
        check("//b/x", Err("a redirect to another server, `http://b`"));
    }
}
