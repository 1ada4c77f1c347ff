//! Tests measured quantiles against a server that records its own delays.
//!
//! The truth is the recorded delay of the canary, not the configured one, so a canary that wakes late does not fail a
//! test. The canary cannot see the path: the kernel, and the wait for a CPU. Two figures measure the path during the
//! load: the additional latency of a plain blocking client, and the canary's own lateness. Both are small on an idle
//! machine. They add to the tolerance of 1 % or 50 µs. Each test has three attempts, one at a time.
//!
//! Not here: counts and sums that hold on any machine (`engine`).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::support::canary::Canary;
use crate::support::{CommandOutput, bakeoff, decode};

const ATTEMPTS: u32 = 3;
const MILLISECOND: f64 = 1e6;

/// Returns a histogram of the canary's truth: the true delays (`given`), or the lateness of answers (`late`).
fn truth(canary: &Canary, which: &str) -> Histogram<u64> {
    decode(&canary.stats()["truth"][which])
}

/// A plain client of its own canary, which measures the additional latency of the path while a test measures.
struct Way {
    canary: Canary,
    client: std::thread::JoinHandle<Histogram<u64>>,
    stop: Arc<AtomicBool>,
}

impl Way {
    fn watch() -> Self {
        let canary = Canary::start("--truth constant:5ms");
        let stop = Arc::new(AtomicBool::new(false));
        let (address, asked) = (canary.address, Arc::clone(&stop));
        let client = std::thread::spawn(move || {
            let mut seen = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_nodelay(true).unwrap();
            while !asked.load(Ordering::Relaxed) {
                let began = Instant::now();
                socket.write_all(b"GET /truth HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"truth\n") {
                    let mut bytes = [0; 256];
                    let read = socket.read(&mut bytes).unwrap();
                    assert!(read > 0, "{answer:?}");
                    answer.extend(&bytes[..read]);
                }
                seen.record(began.elapsed().as_nanos() as u64).unwrap();
            }
            seen
        });
        Self { canary, client, stop }
    }

    /// Returns the nanoseconds that the path adds to a quantile.
    fn end(self) -> impl Fn(f64) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let (seen, given) = (self.client.join().unwrap(), truth(&self.canary, "given"));
        move |at| seen.value_at_quantile(at).saturating_sub(given.value_at_quantile(at)) as f64
    }
}

/// The output of `bakeoff load --json`.
struct LoadOutput {
    result: Value,
}

impl LoadOutput {
    #[track_caller]
    fn load(canary: &Canary, options: &str) -> Self {
        let mut command: Command = bakeoff();
        command
            .arg("load")
            .arg(canary.url("/truth"))
            .args(["--warmup", "0s"])
            .args(options.split_whitespace())
            .arg("--json");
        let ran = CommandOutput::run(&mut command);
        let result = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| {
            panic!("no JSON: {error}\n{}\nstderr:\n{}", ran.stdout, ran.stderr)
        });
        Self { result }
    }

    /// `response` or `service`.
    fn latencies(&self, which: &str) -> Histogram<u64> {
        decode(&self.result[which])
    }
}

/// Returns the number and the sum, in nanoseconds, of latencies beyond a limit.
fn beyond(latencies: &Histogram<u64>, limit: Duration) -> (u64, f64) {
    let limit = limit.as_nanos() as u64;
    let long = latencies.iter_recorded().filter(|value| value.value_iterated_to() > limit);
    long.fold((0, 0.0), |(count, sum), value| {
        let more = value.count_since_last_iteration();
        (count + more, sum + more as f64 * value.value_iterated_to() as f64)
    })
}

/// Fails the test if no attempt succeeds. Attempts run one at a time, because they measure.
#[track_caller]
fn attempt(mut once: impl FnMut() -> Result<(), String>) {
    static MACHINE: Mutex<()> = Mutex::new(());
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        match once() {
            Ok(()) => return,
            Err(problem) => seen.push(problem),
        }
    }
    panic!("in none of {ATTEMPTS} attempts:\n{}", seen.join("\n"));
}

#[test]
fn measured_quantiles_match_the_truth() {
    for shape in ["uniform:2ms,40ms", "lognormal:4ms,0.7", "bimodal:3ms,20ms,20%"] {
        attempt(|| {
            let canary = Canary::start(&format!("--truth {shape} --truth-order cycle"));
            let way = Way::watch();
            let load = "--rate 1000/s --clients 100 --threads 1 --for 5s --precision";
            let loaded = LoadOutput::load(&canary, load);
            let (way, given, late) = (way.end(), truth(&canary, "given"), truth(&canary, "late"));
            let response = loaded.latencies("response");
            let mut off = Vec::new();
            for at in [0.5, 0.75, 0.9, 0.99] {
                let (truth, seen) = (given.value_at_quantile(at), response.value_at_quantile(at));
                let (truth, seen) = (truth as f64, seen as f64);
                let precise = f64::max(0.01 * truth, 50_000.0) + 0.002 * truth;
                let most = f64::max(at, 0.9);
                // Operations that the machine delays rank higher. Where a distribution is thin, a small share of them
                // moves a quantile far.
                let ranked = given.value_at_quantile((at + RANKED_HIGHER).min(1.0)) as f64 - truth;
                let allowed = precise + way(most) + late.value_at_quantile(most) as f64 + ranked;
                let line = format!(
                    "{shape} p{}: {:.3} ms measured, {:.3} ms true, {:.3} ms allowed",
                    at * 100.0,
                    seen / MILLISECOND,
                    truth / MILLISECOND,
                    allowed / MILLISECOND
                );
                eprintln!("{line}");
                off.extend(Some(line).filter(|_| (seen - truth).abs() > allowed));
            }
            if off.is_empty() { Ok(()) } else { Err(off.join("\n")) }
        });
    }
}

/// Share of operations that the machine may delay beyond any quantile.
const RANKED_HIGHER: f64 = 0.04;

const STALLS: &str = "--truth constant:1ms --stall 1s --stall-after 2500ms";

#[test]
fn stall_shows_in_every_request_due_during_it() {
    attempt(|| {
        let canary = Canary::start(STALLS);
        let loaded = LoadOutput::load(
            &canary,
            "--rate 1000/s --clients 200 --threads 1 --for 5s --precision",
        );
        let stats = canary.stats();
        assert_eq!(stats["faults"]["stalls"], 1);
        let stalled = stats["faults"]["stalled_ns"].as_f64().unwrap() / 1e9;
        let response = loaded.latencies("response");
        let (count, _) = beyond(&response, Duration::from_millis(5));
        // A busy machine delays others too, but for less time.
        let (long, sum) = beyond(&response, Duration::from_millis(50));
        // They are due evenly over the stall: the first waits for all of it, the last not at all.
        let (expected, waits) = (1000.0 * stalled, 1000.0 * stalled * stalled / 2.0);
        let sum = sum / 1e9;
        // At most one request per client was sent into the stall.
        let (held, _) = beyond(&loaded.latencies("service"), Duration::from_millis(500));
        let seen = format!(
            "{count} above 5 ms, {long} above 50 ms, {expected:.0} due in the stall; {sum:.1} s of waiting, {waits:.1} \
             expected; {held} of service time"
        );
        eprintln!("{seen}");
        // The backlog takes a moment, and more operations fall due meanwhile.
        let counted = count as f64 > 0.95 * expected && (long as f64) < 1.1 * expected;
        let waited = (0.9 * waits..1.25 * waits).contains(&sum);
        if counted && waited && held <= 200 { Ok(()) } else { Err(seen) }
    });
}

#[test]
fn closed_load_sees_a_stall_once_per_client() {
    attempt(|| {
        let canary = Canary::start(STALLS);
        let loaded = LoadOutput::load(&canary, "--clients 10 --threads 1 --for 5s");
        let (held, _) = beyond(&loaded.latencies("service"), Duration::from_millis(500));
        if held == 10 { Ok(()) } else { Err(format!("{held} of 10 clients were held up")) }
    });
}

#[test]
fn only_open_loads_report_schedule_lag() {
    let canary = Canary::start("--truth constant:1ms");
    let open = LoadOutput::load(&canary, "--rate 500/s --clients 20 --for 3s");
    let schedule_lag = |name: &str| open.result["schedule_lag"][name].as_f64().expect(name);
    let lags = [schedule_lag("p50_us"), schedule_lag("p99_us"), schedule_lag("max_us")];
    assert!(lags.is_sorted(), "{lags:?}");
    assert!(schedule_lag("count") > 0.0);
    let closed = LoadOutput::load(&canary, "--clients 2 --requests 100");
    assert_eq!(closed.result["schedule_lag"]["count"], 0);
    assert!(closed.result["schedule_lag"]["p50_us"].is_null(), "{}", closed.result["schedule_lag"]);
}
