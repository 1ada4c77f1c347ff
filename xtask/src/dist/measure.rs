//! Measures the cost of the portable program compared with the native release build: CPU time per request.
//!
//! Both load the same NGINX at full speed, in pairs with alternating order. A disturbance usually lasts longer than
//! one run, so each ratio is taken within a pair, and the median of the ratios is the result.

use std::path::Path;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::Failure;
use crate::peers::built;
use crate::peers::fetch::Debian;
use crate::peers::http::nginx::Nginx;
use crate::peers::measure::{self, Place};
use crate::peers::summary::Spread;

const CONNECTIONS: [u32; 2] = [16, 64];
/// Largest accepted cost of the portable build, relative to the native one.
const RATIO_MAX: f64 = 1.03;
const SECONDS: &str = "3s";
/// Accepted exit codes. `bakeoff load` returns 1 if it was slower than the server, as it is at full speed.
const CODES: &[i32] = &[0, 1];

/// Prints the ratios. Fails if a median exceeds [`RATIO_MAX`].
pub(super) fn measure(portable: &Path, native: Option<&Path>, pairs: usize) -> Result<(), Failure> {
    let native = match native {
        Some(native) => native.to_owned(),
        None => built(["--bin", "bakeoff"])?,
    };
    let nginx = Debian::default().program("nginx", "nginx", &["libpcre2-8-0"])?;
    let allowed = sched_getaffinity(None).map_err(|error| format!("cannot read CPUs: {error}"))?;
    let cpus: Vec<usize> =
        (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(2).collect();
    let (server, generator) = match cpus.as_slice() {
        [server, generator] => (Some(*server), Some(*generator)),
        _ => (None, None),
    };
    measure::pin(server, &allowed)?;
    let nginx = Nginx::start(&nginx, &[], u64::from(CONNECTIONS[1]));
    measure::pin(None, &allowed)?;
    let nginx = nginx?;
    let scratch = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let place = Place { cpu: generator, allowed: &allowed, codes: CODES };
    let url = format!("http://{}/", nginx.plain);
    let log = scratch.path().join("load.log");
    let cost = |program: &Path, connections: u32| {
        let mut command = Command::new(program);
        command.args(["load", &url, "--threads", "1", "--for", SECONDS, "--json"]);
        command.args(["--clients", &connections.to_string()]);
        let (_, output) = place.run(command, &log)?;
        cpu_per_request(&output)
    };
    let mut over = Vec::new();
    for connections in CONNECTIONS {
        let mut figures: Vec<[f64; 2]> = Vec::new();
        for pair in 0..pairs {
            let (first, second) = if pair % 2 == 0 {
                (portable, native.as_path())
            } else {
                (native.as_path(), portable)
            };
            let (first, second) = (cost(first, connections)?, cost(second, connections)?);
            figures.push(if pair % 2 == 0 { [first, second] } else { [second, first] });
        }
        let column = |nth: usize| Spread::measure(figures.iter().map(|pair| pair[nth]));
        let ratio = Spread::measure(figures.iter().map(|[portable, native]| portable / native));
        println!(
            "{connections} connections, {pairs} pairs: portable {} µs of CPU per request, native {}; ratio {}",
            column(0).text(2),
            column(1).text(2),
            ratio.text(3)
        );
        if ratio.median > RATIO_MAX {
            over.push(format!("{:.3} at {connections} connections", ratio.median));
        }
    }
    if over.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the portable build costs more than {RATIO_MAX} of the native one: {}\n\
         hint: on a busy machine, use `--pairs 20` for a more precise result",
        over.join(", ")
    ))
}

/// Reads the generator's CPU time from the output of `load --json`.
fn cpu_per_request(output: &str) -> Result<f64, Failure> {
    let report: serde_json::Value = serde_json::from_str(output)
        .map_err(|error| format!("`load --json` printed no JSON: {error}"))?;
    let found = report.pointer("/generator/cpu_us_per_request").and_then(serde_json::Value::as_f64);
    found.ok_or_else(|| "`load --json` reports no CPU time".into())
}
