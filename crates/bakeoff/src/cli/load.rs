//! The flags of `bakeoff load`, and its help.
//!
//! Flags that may hold a secret (URLs, headers) are taken as text here and read in `commands::load::ask`, since clap
//! repeats a value that it cannot read.
//!
//! Not here: what the flags mean together (`commands::load::ask`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::values::{Ramp, clients, ramp, rate, requests, time, time_above_zero};

const EXAMPLES: &str = "\
Examples:
  bakeoff load http://127.0.0.1:8080/                             closed load: 64 clients, 10 s
  bakeoff load http://127.0.0.1:8080/ --rate 1000 --for 30s       open load: due times, not turns
  bakeoff load https://host/ --ca ca.pem -H 'Accept: text/plain'  TLS, a header
  bakeoff load URL --rate 500 --fail-if 'p99 > 20ms'              a gate for CI
  bakeoff load URL --steps 500,1000,2000 --for 10s                a row for each rate
  bakeoff load URL --find-max --slo 'p99 < 20ms'                  the highest rate that keeps it
  bakeoff load --targets requests.txt                             a file of requests
  bakeoff load URL --rate 50000 --on places.yaml                  several machines share the load
  bakeoff load URL --rate 500 --out runs                          a page, and a record to compare";

const EXIT_CODES: &str = "\
Exit codes:
  0    done and valid; no `--fail-if` condition holds
  1    done, and not valid, or a `--fail-if` condition holds or could not be judged,
       or `--find-max` found no valid answer
  2    bad input: a flag, a URL, a file
  4    the server could not be reached
  5    this machine refused something: sockets, threads
  130  interrupted; what was measured by then is printed";

/// `bakeoff load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(group = ArgGroup::new("open").args(["rate", "ramp", "steps", "find_max"]).multiple(true))]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) requests: RequestArgs,
    #[command(flatten)]
    pub(crate) load: ClientArgs,
    #[command(flatten)]
    pub(crate) open: OpenLoadArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Requests, and the answers that are a success.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Where requests go; several URLs are asked in turn
    #[arg(value_name = "URL", required_unless_present = "targets", conflicts_with = "targets")]
    pub(crate) urls: Vec<String>,
    /// A file of requests: lines of `[WEIGHT] METHOD URL`, below each its `Name: value` headers and
    /// `@FILE` for its body; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) targets: Option<PathBuf>,
    /// How often each URL is asked beside the others, as `3,1` [default: in turn]
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "targets")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Requests")]
    pub(crate) weights: Vec<u32>,
    /// The method [default: GET, or POST where there is a body]
    #[arg(long, short = 'X', conflicts_with = "targets", help_heading = "Requests")]
    pub(crate) method: Option<String>,
    /// A header of each request, `Name: value`; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER", help_heading = "Requests")]
    pub(crate) header: Vec<String>,
    /// The body of each request; `@FILE` is what a file holds
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["body_file", "targets"])]
    #[arg(help_heading = "Requests")]
    pub(crate) body: Option<String>,
    /// A file with the body of each request
    #[arg(long, value_name = "FILE", conflicts_with = "targets", help_heading = "Requests")]
    pub(crate) body_file: Option<PathBuf>,
    /// A CSV file whose columns words in braces may name: `{user}`, `{user:json}`. Each request takes the next row
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) rows: Option<PathBuf>,
    /// Send the body in chunks, without its length (HTTP/1.1)
    #[arg(long, conflicts_with = "http2", help_heading = "Requests")]
    pub(crate) chunked: bool,
    /// Statuses that are a success: `200`, `2xx`, `200-299,404` [default: 2xx]
    #[arg(long, value_name = "STATUSES", help_heading = "Requests")]
    pub(crate) expect_status: Option<String>,
    /// The body of a success, in part or whole: a text, or `sha256:HEX` of the whole
    #[arg(long, value_name = "TEXT", help_heading = "Requests")]
    pub(crate) expect_body: Option<String>,
}

/// Clients, and how long they ask.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Clients [default: 64, or 256 where there is a rate; no more than requests]
    #[arg(long, short, value_name = "N", value_parser = clients, help_heading = "Load")]
    #[arg(aliases = ["concurrency", "connections", "vus", "users"])]
    pub(crate) clients: Option<u32>,
    /// Threads of the load generator [default: one a core, no more than clients]
    #[arg(long, short, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// How long to measure, or each step of it [default: 10s; 5s for each rate of `--find-max`]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    #[arg(aliases = ["duration", "time"], short_alias = 'd', help_heading = "Load")]
    pub(crate) time: Option<Duration>,
    /// Stop after so many requests rather than after a time
    #[arg(long, short = 'n', value_name = "N", value_parser = requests, help_heading = "Load")]
    #[arg(conflicts_with_all = ["time", "ramp", "steps", "find_max"])]
    pub(crate) requests: Option<u64>,
    /// Load for so long before measuring, or before each step [default: a fifth of `--for`, from 1s to 5s; of a try
    /// of `--find-max` at most 1s; none with `--requests` or `--ramp`]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Load")]
    pub(crate) warmup: Option<Duration>,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, default_value = "10s")]
    #[arg(help_heading = "Load")]
    pub(crate) timeout: Duration,
    /// Requests that a client has under way at once, over HTTP/2 [default: 1]
    #[arg(long, value_name = "N", requires = "http2", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) in_flight: Option<u32>,
    /// Share the load among the machines of this file that generate load, reached over SSH: clients, rate and
    /// requests are those of all together, threads those of each [default: this machine alone]
    #[arg(long, value_name = "PLACES.yaml", help_heading = "Load")]
    pub(crate) on: Option<PathBuf>,
    /// The seed of random arrivals [default: a fresh one, printed]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seed: Option<u64>,
}

/// The rates of an open load.
#[derive(Debug, Args)]
pub(crate) struct OpenLoadArgs {
    /// Open load: requests are due at this rate, whoever is free; with `--find-max` the first rate
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Open load")]
    #[arg(aliases = ["qps", "rps"], short_alias = 'q', conflicts_with_all = ["ramp", "steps"])]
    pub(crate) rate: Option<f64>,
    /// From one rate to another, evenly over `--for`
    #[arg(long, value_name = "FROM..TO", value_parser = ramp, help_heading = "Open load")]
    #[arg(conflicts_with_all = ["steps", "warmup"])]
    pub(crate) ramp: Option<Ramp>,
    /// One rate after the other, each for `--for`
    #[arg(long, value_name = "RATE,…", value_parser = rate, value_delimiter = ',')]
    #[arg(help_heading = "Open load")]
    pub(crate) steps: Vec<f64>,
    /// How requests of an open load are spread over time [default: constant]
    #[arg(long, value_enum, requires = "open", help_heading = "Open load")]
    pub(crate) arrivals: Option<Spread>,
    /// Wait for due times without sleeping, for at most this long: finer times for more CPU
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, requires = "open")]
    #[arg(num_args = 0..=1, default_missing_value = "100us", require_equals = true)]
    #[arg(help_heading = "Open load")]
    pub(crate) precision: Option<Duration>,
    /// Search for the highest rate that keeps `--slo`
    #[arg(long, requires = "slo", conflicts_with_all = ["ramp", "steps", "fail_if"])]
    #[arg(help_heading = "Open load")]
    pub(crate) find_max: bool,
    /// An objective that `--find-max` has to keep, `p99 < 20ms`; given several times, all of them
    #[arg(long, value_name = "CONDITION", requires = "find_max", help_heading = "Open load")]
    pub(crate) slo: Vec<String>,
}

/// The protocol, and whom to trust.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// HTTP/2; without TLS with prior knowledge
    #[arg(long, conflicts_with = "no_keepalive", help_heading = "Connection")]
    pub(crate) http2: bool,
    /// A new connection for each request
    #[arg(long, help_heading = "Connection")]
    pub(crate) no_keepalive: bool,
    /// Connect to ADDRESS:PORT instead of a URL's own HOST:PORT; may be given several times
    #[arg(long, value_name = "HOST:PORT:ADDRESS:PORT", help_heading = "Connection")]
    pub(crate) connect_to: Vec<String>,
    /// Connect to this Unix domain socket instead of the URLs' own servers; `Host` and TLS keep their names
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "on"], help_heading = "Connection")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Trust this certificate and those that it signed, a PEM file [default: this machine's trust]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "Connection")]
    pub(crate) ca: Option<PathBuf>,
    /// Show this certificate, a PEM file that may hold the key too
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) cert: Option<PathBuf>,
    /// The certificate's key, a PEM file [default: the certificate's file]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Connection")]
    pub(crate) key: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, help_heading = "Connection")]
    pub(crate) insecure: bool,
}

/// Conditions on the result, and its forms.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// End with code 1 if this holds, `p99 > 20ms`; may be given several times
    #[arg(long, value_name = "CONDITION", help_heading = "Result")]
    pub(crate) fail_if: Vec<String>,
    /// Write what became of each `--fail-if`, and whether the result is valid, to this file in JUnit's form
    #[arg(long, value_name = "FILE", conflicts_with = "find_max", help_heading = "Result")]
    pub(crate) junit: Option<PathBuf>,
    /// Leave a run in a new folder of this one, as `bakeoff run` does: a page, and a record that `report`,
    /// `compare` and `history` read
    #[arg(
        long,
        visible_alias = "output",
        value_name = "DIR",
        conflicts_with = "ramp",
        help_heading = "Result"
    )]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON on standard output, and nothing else there
    #[arg(long, help_heading = "Result")]
    pub(crate) json: bool,
}

/// The distances between requests of an open load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spread {
    /// At equal distances
    Constant,
    /// At exponentially distributed distances, as independent users arrive
    Poisson,
}
