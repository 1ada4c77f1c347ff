//! Options of `bakeoff load`, and its help.
//!
//! Options that may hold a secret (URLs, headers) are plain text here and parsed in `commands::load::ask`, because clap
//! prints a value that it rejects.
//!
//! Not here: the load that the options describe together (`commands::load::ask`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::WatchOptions;
use super::values::{Ramp, clients, ramp, rate, requests, time, time_above_zero};

const EXAMPLES: &str = "\
Examples:
  bakeoff load http://127.0.0.1:8080/                             closed load: 64 clients, 10 s
  bakeoff load http://127.0.0.1:8080/ --rate 1000 --for 30s       open load: a fixed rate
  bakeoff load https://host/ --ca ca.pem -H 'Accept: text/plain'  TLS, a header
  bakeoff load URL --rate 500 --fail-if 'p99 > 20ms'              a gate for CI
  bakeoff load URL --steps 500,1000,2000 --for 10s                a row for each rate
  bakeoff load URL --find-max --slo 'p99 < 20ms'                  the highest rate that keeps `--slo`
  bakeoff load --targets requests.txt                             requests from a file
  bakeoff load URL --rate 50000 --on places.yaml                  several machines share the load
  bakeoff load URL --rate 500 --out runs                          a page, and a record to compare";

const EXIT_CODES: &str = "\
Exit codes:
  0    done and valid; no `--fail-if` condition holds
  1    done, but not valid, or a `--fail-if` condition holds or could not be judged,
       or `--find-max` found no valid answer
  2    bad input: an option, a URL or a file
  4    the server could not be reached
  5    this machine refused a resource: sockets or threads
  130  interrupted; results so far are printed";

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

/// Requests, and the answers that count as success.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// URLs to request; several are used in turn
    #[arg(value_name = "URL", required_unless_present = "targets", conflicts_with = "targets")]
    pub(crate) urls: Vec<String>,
    /// File of requests: lines of `[WEIGHT] METHOD URL`, each followed by its `Name: value` headers and `@FILE` for its
    /// body; `-` reads standard input
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) targets: Option<PathBuf>,
    /// Relative weight of each URL, such as `3,1` [default: in turn]
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "targets")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Requests")]
    pub(crate) weights: Vec<u32>,
    /// HTTP method [default: GET, or POST with a body]
    #[arg(long, short = 'X', conflicts_with = "targets", help_heading = "Requests")]
    pub(crate) method: Option<String>,
    /// Header of each request, `Name: value`; repeatable
    #[arg(long, short = 'H', value_name = "HEADER", help_heading = "Requests")]
    pub(crate) header: Vec<String>,
    /// File with `USER:PASSWORD` for each request without an `Authorization` header [env: BAKEOFF_USER holds the same]
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) user_file: Option<PathBuf>,
    /// Body of each request; `@FILE` reads it from a file
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["body_file", "targets"])]
    #[arg(help_heading = "Requests")]
    pub(crate) body: Option<String>,
    /// File with the body of each request
    #[arg(long, value_name = "FILE", conflicts_with = "targets", help_heading = "Requests")]
    pub(crate) body_file: Option<PathBuf>,
    /// CSV file whose columns fill words in braces, such as `{user}` or `{user:json}`; each request takes the next row
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) rows: Option<PathBuf>,
    /// Send the body in chunks, without its length (HTTP/1.1)
    #[arg(long, conflicts_with = "http2", help_heading = "Requests")]
    pub(crate) chunked: bool,
    /// Statuses that count as success: `200`, `2xx`, `200-299,404` [default: 2xx]
    #[arg(long, value_name = "STATUSES", help_heading = "Requests")]
    pub(crate) expect_status: Option<String>,
    /// Text that the body of a success must contain, or `sha256:HEX` of the whole body
    #[arg(long, value_name = "TEXT", help_heading = "Requests")]
    pub(crate) expect_body: Option<String>,
}

/// Clients, and the length of the load.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Clients [default: 64, or 256 at a rate; never more than requests]
    #[arg(long, short, value_name = "N", value_parser = clients, help_heading = "Load")]
    #[arg(aliases = ["concurrency", "connections", "vus", "users"])]
    pub(crate) clients: Option<u32>,
    /// Threads of the load generator [default: one per core; never more than clients]
    #[arg(long, short, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Measuring time, or that of each step [default: 10s; 5s for each rate of `--find-max`]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    #[arg(aliases = ["duration", "time"], short_alias = 'd', help_heading = "Load")]
    pub(crate) time: Option<Duration>,
    /// Stop after this many requests instead of after a time
    #[arg(long, short = 'n', value_name = "N", value_parser = requests, help_heading = "Load")]
    #[arg(conflicts_with_all = ["time", "ramp", "steps", "find_max"])]
    pub(crate) requests: Option<u64>,
    /// Warm-up time before measuring, and before each step [default: a fifth of `--for`, from 1s to 5s; at most 1s for
    /// each rate of `--find-max`; none with `--requests` or `--ramp`]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Load")]
    pub(crate) warmup: Option<Duration>,
    /// Timeout of each request
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, default_value = "10s")]
    #[arg(help_heading = "Load")]
    pub(crate) timeout: Duration,
    /// Concurrent requests per client, over HTTP/2 [default: 1]
    #[arg(long, value_name = "N", requires = "http2", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) in_flight: Option<u32>,
    /// Share the load among the generator machines of this file, over SSH; clients, rate and requests are totals,
    /// threads are per machine [default: this machine only]
    #[arg(long, value_name = "PLACES.yaml", help_heading = "Load")]
    pub(crate) on: Option<PathBuf>,
    /// Seed of random arrivals [default: random, printed]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seed: Option<u64>,
}

/// The rates of an open load.
#[derive(Debug, Args)]
pub(crate) struct OpenLoadArgs {
    /// Send at this rate even if no client is free (open load); with `--find-max` the first rate to try
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Open load")]
    #[arg(aliases = ["qps", "rps"], short_alias = 'q', conflicts_with_all = ["ramp", "steps"])]
    pub(crate) rate: Option<f64>,
    /// Change the rate evenly from FROM to TO over `--for`
    #[arg(long, value_name = "FROM..TO", value_parser = ramp, help_heading = "Open load")]
    #[arg(conflicts_with_all = ["steps", "warmup"])]
    pub(crate) ramp: Option<Ramp>,
    /// Run at each rate in turn, each for `--for`
    #[arg(long, value_name = "RATE,…", value_parser = rate, value_delimiter = ',')]
    #[arg(help_heading = "Open load")]
    pub(crate) steps: Vec<f64>,
    /// Spacing of the requests of an open load [default: constant]
    #[arg(long, value_enum, requires = "open", help_heading = "Open load")]
    pub(crate) arrivals: Option<Spread>,
    /// Wait for due times without sleeping, for at most this long: more exact times for more CPU
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, requires = "open")]
    #[arg(num_args = 0..=1, default_missing_value = "100us", require_equals = true)]
    #[arg(help_heading = "Open load")]
    pub(crate) precision: Option<Duration>,
    /// Search for the highest rate that keeps `--slo`
    #[arg(long, requires = "slo", conflicts_with_all = ["ramp", "steps", "fail_if"])]
    #[arg(help_heading = "Open load")]
    pub(crate) find_max: bool,
    /// Objective that `--find-max` must keep, such as `p99 < 20ms`; if repeated, it must keep all
    #[arg(long, value_name = "CONDITION", requires = "find_max", help_heading = "Open load")]
    pub(crate) slo: Vec<String>,
}

/// Protocol, addresses and certificates.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// Use HTTP/2; without TLS, with prior knowledge
    #[arg(long, conflicts_with = "no_keepalive", help_heading = "Connection")]
    pub(crate) http2: bool,
    /// Open a new connection for each request
    #[arg(long, help_heading = "Connection")]
    pub(crate) no_keepalive: bool,
    /// Connect to ADDRESS:PORT instead of a URL's HOST:PORT; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS:PORT", help_heading = "Connection")]
    pub(crate) connect_to: Vec<String>,
    /// Connect to this Unix domain socket instead of the URLs' servers; `Host` and TLS still use the URLs' names
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "on"], help_heading = "Connection")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Trust this certificate, and those that it signed (PEM file) [default: this machine's trust store]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "Connection")]
    pub(crate) ca: Option<PathBuf>,
    /// Client certificate (PEM file, which may hold the key too)
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) cert: Option<PathBuf>,
    /// Key of the client certificate (PEM file) [default: the certificate's file]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Connection")]
    pub(crate) key: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long, help_heading = "Connection")]
    pub(crate) insecure: bool,
}

/// Conditions on the result, and its formats.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Exit with 1 if this holds, such as `p99 > 20ms`; repeatable
    #[arg(long, value_name = "CONDITION", help_heading = "Result")]
    pub(crate) fail_if: Vec<String>,
    /// Write the outcome of each `--fail-if`, and whether the result is valid, to this file, in JUnit format
    #[arg(long, value_name = "FILE", conflicts_with = "find_max", help_heading = "Result")]
    pub(crate) junit: Option<PathBuf>,
    /// Store a run in a new folder below DIR, as `bakeoff run` does: a page, and a record for `report`, `compare` and
    /// `history`
    #[arg(
        long,
        visible_alias = "output",
        value_name = "DIR",
        conflicts_with = "ramp",
        help_heading = "Result"
    )]
    pub(crate) out: Option<PathBuf>,
    /// Print only the result, as JSON, on standard output
    #[arg(long, help_heading = "Result")]
    pub(crate) json: bool,
    #[command(flatten, next_help_heading = "Result")]
    pub(crate) watch: WatchOptions,
}

/// Spacing of the requests of an open load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spread {
    /// Equal intervals
    Constant,
    /// Exponentially distributed intervals, like independent users
    Poisson,
}
