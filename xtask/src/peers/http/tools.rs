//! Defines the tools: the source of each, its command line, and how its output is read.
//!
//! All tools get the same task: a number of connections, one request at a time on each, as fast as possible, for a
//! number of seconds. Each has one CPU. Go programs adapt their threads to it; wrk, h2load and bakeoff are configured
//! with one thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::fetch::{self, Debian, Program};
use crate::Failure;

const VEGETA: &str = "12.12.0";
const K6: &str = "1.8.1";
const FORTIO: &str = "1.66.0";
const OHA: &str = "1.16.0";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Tool {
    /// The bare loop: `crates/bakeoff/examples/http_baseline.rs`.
    Baseline,
    /// `bakeoff load`.
    Load,
    /// `bakeoff load --precision`.
    Precise,
    /// `bakeoff wrk`.
    OurWrk,
    Wrk,
    H2load,
    Fortio,
    Oha,
    Hey,
    Vegeta,
    K6,
}

impl Tool {
    pub(super) const ALL: [Self; 11] = [
        Self::Baseline,
        Self::Load,
        Self::Precise,
        Self::OurWrk,
        Self::Wrk,
        Self::H2load,
        Self::Fortio,
        Self::Oha,
        Self::Hey,
        Self::Vegeta,
        Self::K6,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "bare loop",
            Self::Load => "bakeoff load",
            Self::Precise => "bakeoff load --precision",
            Self::OurWrk => "bakeoff wrk",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::Fortio => "fortio",
            Self::Oha => "oha",
            Self::Hey => "hey",
            Self::Vegeta => "vegeta",
            Self::K6 => "k6",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Load | Self::Precise | Self::OurWrk)
    }

    /// Accepted exit codes. `bakeoff load` returns 1 if its figures are not valid, for example because it was slower
    /// than the server at full speed.
    pub(super) fn codes(self) -> &'static [i32] {
        if matches!(self, Self::Load | Self::Precise) { &[0, 1] } else { &[0] }
    }
}

/// Returns the programs of the tools, or the reason why one is not available.
pub(super) fn fetch(
    debian: &Debian,
    bakeoff: &Path,
    baseline: &Path,
    without: &[String],
) -> BTreeMap<Tool, Result<Program, Failure>> {
    let ours = |name: &str| {
        let program = Program::at(bakeoff.to_owned(), env!("CARGO_PKG_VERSION"));
        let helps = program.command().args([name, "--help"]).output();
        let knows = helps.is_ok_and(|help| help.status.success());
        if knows { Ok(program) } else { Err(format!("this bakeoff has no `{name}`")) }
    };
    let had = |tool: Tool| match tool {
        _ if without.iter().any(|name| name == tool.name()) => Err("left out as requested".into()),
        Tool::Baseline => Ok(Program::at(baseline.to_owned(), env!("CARGO_PKG_VERSION"))),
        Tool::Load | Tool::Precise => ours("load"),
        Tool::OurWrk => ours("wrk"),
        Tool::Wrk => debian.program("wrk", "wrk", &["libluajit-5.1-2", "libluajit-5.1-common"]),
        Tool::Hey => debian.program("hey", "hey", &[]),
        Tool::H2load => {
            let libraries = ["libnghttp2-14", "libev4", "libjansson4", "libjemalloc2", "libxml2"];
            debian.program("h2load", "nghttp2-client", &libraries)
        }
        Tool::Fortio => fetch::go("fortio", "fortio.org/fortio", "fortio.org/fortio", FORTIO),
        Tool::Vegeta => {
            let module = "github.com/tsenart/vegeta/v12";
            fetch::go("vegeta", module, module, VEGETA)
        }
        Tool::K6 => fetch::go("k6", "go.k6.io/k6", "go.k6.io/k6", K6),
        Tool::Oha => fetch::from_crate("oha", OHA),
    };
    Tool::ALL.into_iter().map(|tool| (tool, had(tool))).collect()
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) url: String,
    pub(super) connections: u32,
    pub(super) seconds: u32,
    pub(super) http2: bool,
    /// Rate of an open load.
    pub(super) rate: Option<u32>,
    /// A Lua script.
    pub(super) script: Option<PathBuf>,
}

/// Figures that a tool reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolFigures {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) per_second: f64,
    /// Schedule lag of an open load in µs: p50, p99, maximum.
    pub(super) schedule_lag: Option<[f64; 3]>,
}

/// Returns the command with which `tool` does `job`. Writes the files that it needs into `dir`.
pub(super) fn command(
    tool: Tool,
    program: &Program,
    job: &Job,
    dir: &Path,
) -> Result<Command, Failure> {
    let Job { url, connections, seconds, http2, rate, script } = job;
    let (n, s) = (connections.to_string(), seconds.to_string());
    let time = format!("{seconds}s");
    let mut command = program.command();
    match tool {
        Tool::Baseline => {
            let rest = url.strip_prefix("http://").ok_or("the bare loop speaks plain HTTP only")?;
            let address = rest.trim_end_matches('/');
            command.args([address, &n, &s]);
        }
        Tool::Load | Tool::Precise => {
            command.args(["load", url, "--clients", &n, "--threads", "1", "--for", &time]);
            command.args(["--warmup", "0s", "--json", "--insecure"]);
            if *http2 {
                command.arg("--http2");
            }
            if let Some(rate) = rate {
                command.arg("--rate").arg(rate.to_string());
            }
            if tool == Tool::Precise {
                command.arg("--precision");
            }
        }
        Tool::Wrk | Tool::OurWrk => {
            if tool == Tool::OurWrk {
                command.arg("wrk");
            }
            command.args(["-t1", &format!("-c{n}"), &format!("-d{time}")]);
            if let Some(script) = script {
                command.arg("-s").arg(script);
            }
            command.arg(url);
        }
        Tool::H2load => {
            command.args(["-t1", "-m1", "-c", &n, "-D", &s]);
            if !http2 {
                command.arg("--h1");
            }
            command.arg(url);
        }
        Tool::Fortio => {
            command.args(["load", "-qps", "0", "-t", &time, "-c", &n, "-quiet", "-k"]);
            command.args(["-json", "-", url]);
        }
        Tool::Oha => {
            command.args(["--no-tui", "-z", &time, "-c", &n, "--insecure", "-w"]);
            command.args(["--output-format", "json", url]);
        }
        Tool::Hey => {
            command.args(["-z", &time, "-c", &n, url]);
        }
        Tool::Vegeta => {
            let targets = dir.join("vegeta.targets");
            std::fs::write(&targets, format!("GET {url}\n"))
                .map_err(|error| format!("cannot write vegeta's targets: {error}"))?;
            command.args(["attack", "-rate", "0", "-duration", &time, "-insecure"]);
            command.args(["-workers", &n, "-max-workers", &n, "-connections", &n]);
            command.arg("-targets").arg(targets).arg("-output").arg(vegeta_results(dir));
        }
        Tool::K6 => {
            let script = dir.join("load.js");
            std::fs::write(&script, include_str!("load.js"))
                .map_err(|error| format!("cannot write k6's script: {error}"))?;
            command.args(["run", "--quiet", "--no-usage-report", "--address", ""]);
            command.args(["-e", &format!("TARGET={url}"), "-e", &format!("CLIENTS={n}")]);
            command.args(["-e", &format!("SECONDS={s}")]).arg(script);
        }
    }
    Ok(command)
}

fn vegeta_results(dir: &Path) -> PathBuf {
    dir.join("vegeta.results")
}

/// Reads a tool's output, or the file that vegeta wrote into `dir`.
pub(super) fn read(
    tool: Tool,
    program: &Program,
    output: &str,
    dir: &Path,
) -> Result<ToolFigures, Failure> {
    let reported = match tool {
        Tool::Wrk | Tool::OurWrk => read_wrk(output),
        Tool::H2load => read_h2load(output),
        Tool::Hey => read_hey(output),
        Tool::Vegeta => {
            let mut report = program.command();
            report.args(["report", "-type", "json"]).arg(vegeta_results(dir));
            let report = report.output().map_err(|error| format!("vegeta report: {error}"))?;
            read_json(tool, &String::from_utf8_lossy(&report.stdout))
        }
        Tool::Baseline | Tool::Load | Tool::Precise | Tool::Fortio | Tool::Oha | Tool::K6 => {
            read_json(tool, output)
        }
    };
    reported.ok_or_else(|| {
        let begin: Vec<&str> = output.lines().take(20).collect();
        format!("the output of {} has no figures:\n  {}", tool.name(), begin.join("\n  "))
    })
}

fn read_json(tool: Tool, output: &str) -> Option<ToolFigures> {
    let json: Value = serde_json::from_str(output.trim()).ok()?;
    let number = |at: &str| json.pointer(at).and_then(Value::as_f64);
    let count = |at: &str| json.pointer(at).and_then(Value::as_u64);
    let sum = |at: &str| -> Option<u64> {
        Some(json.pointer(at)?.as_object()?.values().filter_map(Value::as_u64).sum())
    };
    let reported = |requests, errors, per_second| ToolFigures {
        requests,
        errors,
        per_second,
        schedule_lag: None,
    };
    Some(match tool {
        Tool::Baseline => reported(count("/requests")?, 0, number("/requests_per_second")?),
        Tool::K6 => reported(count("/requests")?, count("/errors")?, number("/per_second")?),
        Tool::Vegeta => {
            let (requests, good) = (count("/requests")?, sum("/status_codes")?);
            let good = good.saturating_sub(count("/status_codes/0").unwrap_or(0));
            reported(requests, requests.saturating_sub(good), number("/throughput")?)
        }
        Tool::Fortio => {
            let requests = count("/DurationHistogram/Count")?;
            let good = count("/RetCodes/200")?;
            reported(requests, requests.saturating_sub(good), number("/ActualQPS")?)
        }
        Tool::Oha => {
            let requests = sum("/statusCodeDistribution")?;
            let aborted = count("/errorDistribution/aborted due to deadline").unwrap_or(0);
            let errors = sum("/errorDistribution")?.saturating_sub(aborted);
            reported(requests, errors, number("/summary/requestsPerSec")?)
        }
        Tool::Load | Tool::Precise => {
            let schedule_lag =
                ["p50_us", "p99_us", "max_us"].map(|part| number(&format!("/schedule_lag/{part}")));
            let schedule_lag = match schedule_lag {
                [Some(p50), Some(p99), Some(max)] => Some([p50, p99, max]),
                _ => None,
            };
            let errors = count("/errors").or_else(|| sum("/errors"))?;
            ToolFigures {
                schedule_lag,
                ..reported(count("/requests")?, errors, number("/requests_per_second")?)
            }
        }
        Tool::Wrk | Tool::OurWrk | Tool::H2load | Tool::Hey => return None,
    })
}

/// Reads `  90145 requests in 3.00s, 13.15MB read`, `Requests/sec:  30029.11`, and the lines about errors, which are
/// there only if errors occurred.
fn read_wrk(output: &str) -> Option<ToolFigures> {
    let lines = || output.lines().map(str::trim);
    let requests = lines().find_map(|line| line.split_once(" requests in ")?.0.parse().ok())?;
    let per_second =
        lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())?;
    let socket = lines().find_map(|line| line.strip_prefix("Socket errors:")).unwrap_or("");
    let digits = |text: &str| {
        text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum::<u64>()
    };
    let other = lines().find_map(|line| line.strip_prefix("Non-2xx or 3xx responses:"));
    let errors = digits(&socket.replace(',', " ")) + digits(other.unwrap_or(""));
    Some(ToolFigures { requests, errors, per_second, schedule_lag: None })
}

/// Reads `finished in 1.00s, 43389.00 req/s, 6.33MB/s` and `requests: 43389 total, 43393 started, 43389 done, 43389
/// succeeded, 0 failed, 0 errored, 0 timeout`.
fn read_h2load(output: &str) -> Option<ToolFigures> {
    let line = |begin: &str| output.lines().find_map(|line| line.strip_prefix(begin));
    let per_second = line("finished in ")?.split(", ").nth(1)?.strip_suffix(" req/s")?;
    let counts: BTreeMap<&str, u64> = line("requests: ")?
        .split(", ")
        .filter_map(|part| {
            let (number, name) = part.split_once(' ')?;
            Some((name, number.parse().ok()?))
        })
        .collect();
    let done = *counts.get("done")?;
    let good = *counts.get("succeeded")?;
    let errors = counts.get("errored")? + done.saturating_sub(good);
    Some(ToolFigures {
        requests: done,
        errors,
        per_second: per_second.parse().ok()?,
        schedule_lag: None,
    })
}

/// Reads `[200] 18116 responses` for each status, and `Error distribution:` with `[1] …` for each error.
fn read_hey(output: &str) -> Option<ToolFigures> {
    let lines = || output.lines().map(str::trim);
    let per_second =
        lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())?;
    // `[CODE] N responses`, or `[N] ERROR`, separated by a tab.
    let bracket = |line: &str| -> Option<(u64, String)> {
        let (number, rest) = line.strip_prefix('[')?.split_once(']')?;
        Some((number.parse().ok()?, rest.trim().to_owned()))
    };
    let mut errors = 0;
    for (count, _) in
        lines().skip_while(|line| !line.starts_with("Error distribution:")).filter_map(bracket)
    {
        errors += count;
    }
    let mut requests = 0;
    let statuses = lines().skip_while(|line| !line.starts_with("Status code distribution:"));
    for (code, rest) in statuses.filter_map(bracket) {
        let count = rest.strip_suffix(" responses").and_then(|count| count.parse::<u64>().ok());
        match (count, code) {
            (Some(count), 200..=299) => requests += count,
            (Some(count), _) => errors += count,
            (None, _) => {}
        }
    }
    Some(ToolFigures { requests, errors, per_second, schedule_lag: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(requests: u64, errors: u64, per_second: f64) -> Option<ToolFigures> {
        Some(ToolFigures { requests, errors, per_second, schedule_lag: None })
    }

    #[test]
    fn wrks_requests_and_errors_are_read() {
        let good = "Running 3s test\n  90145 requests in 3.00s, 13.15MB read\n\
            Requests/sec:  30029.11\nTransfer/sec:      4.38MB\n";
        assert_eq!(read_wrk(good), reported(90145, 0, 30029.11));
        let bad = "  10 requests in 3.00s, 1KB read\n  Socket errors: connect 0, read 1, write 2, \
            timeout 3\n  Non-2xx or 3xx responses: 4\nRequests/sec:  3.33\n";
        assert_eq!(read_wrk(bad), reported(10, 10, 3.33));
        assert_eq!(read_wrk("unable to connect\n"), None);
    }

    #[test]
    fn h2loads_requests_and_errors_are_read() {
        let output = "\nfinished in 1.00s, 43389.50 req/s, 6.33MB/s\nrequests: 43389 total, 43393 \
            started, 43389 done, 43380 succeeded, 9 failed, 2 errored, 0 timeout\n";
        assert_eq!(read_h2load(output), reported(43389, 11, 43389.5));
    }

    #[test]
    fn heys_requests_and_errors_are_read() {
        let output = "Summary:\n  Requests/sec:\t100.5\n\nResponse time histogram:\n  0.000 [7]\t|\n\n\
            Status code distribution:\n  [200]\t95 responses\n  [503]\t3 responses\n\n\
            Error distribution:\n  [5]\tGet \"http://127.0.0.1\": EOF\n";
        assert_eq!(read_hey(output), reported(95, 8, 100.5));
    }

    #[test]
    fn reads_the_figures_of_tools_from_json() {
        let vegeta = r#"{"requests":10,"throughput":4.5,"status_codes":{"0":1,"200":9}}"#;
        assert_eq!(read_json(Tool::Vegeta, vegeta), reported(10, 1, 4.5));
        let fortio =
            r#"{"ActualQPS":2.5,"DurationHistogram":{"Count":7},"RetCodes":{"200":6,"-1":1}}"#;
        assert_eq!(read_json(Tool::Fortio, fortio), reported(7, 1, 2.5));
        let oha = r#"{"summary":{"requestsPerSec":3.5},"statusCodeDistribution":{"200":8},
            "errorDistribution":{"aborted due to deadline":2,"connection refused":1}}"#;
        assert_eq!(read_json(Tool::Oha, oha), reported(8, 1, 3.5));
        let ours = r#"{"requests":9,"requests_per_second":4.5,"errors":{"timeout":1,"refused":2},
            "schedule_lag":{"p50_us":1.5,"p99_us":20,"max_us":300.25}}"#;
        let schedule_lag = Some([1.5, 20.0, 300.25]);
        let our_figures =
            reported(9, 3, 4.5).map(|reported| ToolFigures { schedule_lag, ..reported });
        assert_eq!(read_json(Tool::Load, ours), our_figures);
        assert_eq!(read_json(Tool::K6, "level=error msg=no\n"), None);
    }
}
