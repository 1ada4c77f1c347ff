//! Renders the result of a load as JSON. docs/load-json.md explains the fields.
//!
//! Not here: text (`text`), a search's result (`curve`, with functions from here).

use std::time::Duration;

use bakeoff_core::ranked_latencies::{Percentile, RankedLatencies};
use bakeoff_core::study::Stop;
use bakeoff_core::units::harmless;
use bakeoff_engine::LoadProgress;
use serde_json::{Map, Value, json};

use super::generator_parts::{self, GeneratorShown};
use super::result::{LoadResult, Part};
use super::settings::Settings;
use super::text::QUANTILES;

/// Version of the JSON form. Added fields do not change it.
const FORMAT: u32 = 1;
/// Maximum number of examples for each kind of error.
const EXAMPLES_GIVEN: usize = 3;

/// Renders the result.
pub(super) fn json(result: &LoadResult) -> Value {
    let mut object = opening(&result.settings);
    object.extend(part(&result.whole, &result.settings, result.peak_rss_bytes));
    let reasons = result.reasons();
    object.insert("valid".into(), reasons.is_empty().into());
    object.insert("reasons".into(), reasons.into());
    let gates = result.gates.iter().map(|gate| {
        json!({"fail_if": gate.condition.to_string(), "failed": gate.failed(), "seen": gate.seen()})
    });
    object.insert("gates".into(), gates.collect());
    let steps = result.steps.iter().map(|step| Value::Object(step_json(step, &result.settings)));
    object.insert("steps".into(), steps.collect());
    Value::Object(object)
}

/// Returns the fields that every result begins with: format, version of bakeoff and settings.
pub(super) fn opening(settings: &Settings) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("format".into(), FORMAT.into());
    object.insert("bakeoff".into(), env!("CARGO_PKG_VERSION").into());
    let url = match settings.requests.as_slice() {
        [one] => one.url.clone().into(),
        _ => Value::Null,
    };
    object.insert("url".into(), url);
    let requests: Vec<Value> = settings
        .requests
        .iter()
        .map(|request| {
            json!({
                "name": request.name,
                "method": request.method,
                "url": request.url,
                "headers": request.header_names,
                "body_bytes": request.body_bytes,
                "weight": request.weight,
            })
        })
        .collect();
    let drive = &settings.drive;
    let (seconds, count) = match drive.stop {
        Stop::After(time) => (Some(time.as_secs_f64()), None),
        Stop::Operations(count) => (None, Some(count)),
    };
    object.insert(
        "settings".into(),
        json!({
            "requests": requests,
            "rows": settings.rows,
            "load": settings.arrivals(),
            "rate": settings.rate(),
            "steps": settings.steps(),
            "ramp": settings.ramp().map(|(from, to)| [from, to]),
            "clients": drive.clients,
            "threads": drive.threads,
            "in_flight": drive.in_flight,
            "unix_socket": settings.unix_socket,
            "insecure": settings.insecure,
            "http": if settings.http2 { 2 } else { 1 },
            "keep_alive": settings.keep_alive(),
            "for_seconds": seconds,
            "for_requests": count,
            "warmup_seconds": drive.warmup.as_secs_f64(),
            "timeout_seconds": drive.timeout.as_secs_f64(),
            "precision_us": drive.spin.as_micros() as u64,
            "seed": drive.seed,
        }),
    );
    object
}

/// Returns the figures and the validity of one rate.
pub(super) fn step_json(step: &Part, settings: &Settings) -> Map<String, Value> {
    let mut object = part(step, settings, None);
    let reasons = step.reasons.clone();
    object.insert("valid".into(), reasons.is_empty().into());
    object.insert("reasons".into(), reasons.into());
    object
}

fn part(part: &Part, settings: &Settings, peak_rss_bytes: Option<u64>) -> Map<String, Value> {
    let measurement = &part.measurement;
    let total = measurement.total();
    let mut errors = Map::new();
    let mut examples = Vec::new();
    for (kind, count) in part.errors() {
        errors.insert(kind.key().into(), count.into());
        examples.extend(part.examples(kind, EXAMPLES_GIVEN).into_iter().map(|example| {
            json!({
                "kind": kind.key(),
                "at_seconds": example.at_seconds,
                "node": example.node,
                "what": harmless(&example.what),
            })
        }));
    }
    let addresses = measurement.addresses.iter().map(|used| {
        json!({"address": harmless(&used.address), "name": used.name, "since_seconds": used.since})
    });
    let addresses: Vec<Value> = addresses.collect();
    let statuses: Map<String, Value> = measurement
        .answers
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), (*count).into()))
        .collect();
    let by_request: Vec<Value> = match settings.requests.as_slice() {
        [_] => Vec::new(),
        several => several.iter().filter_map(|request| of_request(&request.name, part)).collect(),
    };
    let fields = json!({
        "rate": part.rate,
        "requests": part.requests(),
        "verified": measurement.verified(),
        "verified_in_window": measurement.verified_in_window(),
        "due_in_the_warmup": measurement.carried_over,
        "requests_per_second": measurement.throughput(),
        "window_seconds": measurement.window.as_secs_f64(),
        "interrupted": measurement.interrupted,
        "errors": errors,
        "error_examples": examples,
        "late_clients": measurement.late_clients,
        "unconnected_clients": measurement.unconnected_clients,
        "reissued": measurement.reissued,
        "closed_idle": measurement.closed_idle,
        "oddities": measurement.oddities,
        "addresses": addresses,
        "delayed_ack_share": measurement.delayed_acks().map(|found| found.share),
        "connection_errors": measurement.connection_errors.count,
        "silences": measurement.silences,
        "stalled_share": measurement.stood_still().unwrap_or(0.0),
        "statuses": statuses,
        "bytes_received": measurement.answers.bytes,
        "body_bytes": measurement.answers.body_bytes,
        "response": latencies(&total.responses()),
        "service": latencies(&total.services()),
        "schedule_lag": latencies(&RankedLatencies::of_values(&measurement.schedule_lag)),
        "timer_lag": latencies(&RankedLatencies::of_values(&measurement.timer_lag)),
        "receive_lag": latencies(&RankedLatencies::of_values(&measurement.receive_lag)),
        "undelayed": latencies(&RankedLatencies::of_values(&measurement.undelayed)),
        "waited_for_client_share": part.waited(),
        "generator": {
            "cpu_share": measurement.generator_busiest,
            "cpu_us_per_request": micros(part.cpu_per_request()),
            "threads": measurement.generator_threads,
            "peak_rss_bytes": peak_rss_bytes,
            "stalls": measurement.stalls,
        },
        "by_request": by_request,
        "seconds": part.seconds.iter().map(second).collect::<Vec<_>>(),
    });
    let mut fields = match fields {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    if !part.generators.is_empty() {
        fields.insert("generators".into(), generators(&part.generators));
    }
    fields
}

/// Returns each generator's share of a load.
fn generators(parts: &[GeneratorShown]) -> Value {
    let one = |GeneratorShown { machine, part }: &GeneratorShown| {
        json!({
            "machine": machine,
            "clients": part.clients,
            "verified": part.verified,
            "errors": part.errors,
            "late_us": part.late_us,
            "clock_error_us": part.clock_error_us,
            "cpu_seconds": part.cpu.as_secs_f64(),
            "cpu_share": part.busiest,
        })
    };
    json!({
        "began_within_us": generator_parts::began_within_us(parts),
        "each": parts.iter().map(one).collect::<Vec<_>>(),
    })
}

fn of_request(name: &str, part: &Part) -> Option<Value> {
    let figures = part.measurement.operations.get(name)?;
    let seconds = part.measurement.window.as_secs_f64();
    let rate = (seconds > 0.0).then(|| figures.verified_in_window as f64 / seconds);
    Some(json!({
        "name": name,
        "requests": figures.verified + figures.error_count(),
        "verified": figures.verified,
        "requests_per_second": rate,
        "errors": figures.error_count(),
        "response": latencies(&figures.responses()),
        "service": latencies(&figures.services()),
    }))
}

/// Returns a distribution of all operations, with failures ranked last. Missing figures are null, with the reason in
/// `none_because`. The histogram covers successes only.
fn latencies(of: &RankedLatencies<'_>) -> Value {
    let mut object = Map::new();
    let quantiles = QUANTILES.iter().map(|(name, quantile)| (*name, of.percentile(*quantile)));
    put_places(&mut object, quantiles.chain([("max", of.max()), ("mean", of.mean())]));
    let successes = of.successes();
    object.insert("operations".into(), of.count().into());
    object.insert("failed_share".into(), of.failed_share().into());
    object.insert("failed_after_us".into(), micros(of.failed_after()));
    object.insert("count".into(), successes.count().into());
    object.insert("saturated".into(), successes.saturated().into());
    let alone = RankedLatencies::of_values(successes);
    let alone: Map<String, Value> = QUANTILES
        .iter()
        .map(|(name, quantile)| {
            (format!("{name}_us"), micros(alone.percentile(*quantile).latency()))
        })
        .collect();
    object.insert("of_successes".into(), alone.into());
    object.insert("hdr".into(), successes.encode().into());
    Value::Object(object)
}

/// Adds latencies by name. `none_because` gets the reasons for missing ones.
fn put_places<'a>(
    object: &mut Map<String, Value>,
    places: impl Iterator<Item = (&'a str, Percentile)>,
) {
    let mut none_because = Map::new();
    for (name, place) in places {
        let name = format!("{name}_us");
        object.insert(name.clone(), micros(place.latency()));
        none_because.extend(place.why_not().map(|why| (name, why.into())));
    }
    if !none_because.is_empty() {
        object.insert("none_because".into(), none_because.into());
    }
}

fn micros(latency: Option<Duration>) -> Value {
    latency.map_or(Value::Null, |latency| (latency.as_nanos() as f64 / 1e3).into())
}

/// Returns the figures of one second, without histograms.
fn second(live: &LoadProgress) -> Value {
    let mut object = Map::new();
    object.insert("second".into(), live.second.into());
    object.insert("verified".into(), live.verified.into());
    object.insert("errors".into(), live.errors.into());
    put_places(&mut object, [("p50", live.p50), ("p99", live.p99), ("max", live.max)].into_iter());
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use bakeoff_core::histogram::Latencies;

    use super::super::testing::{part, result, with_errors};
    use super::*;

    #[test]
    fn json_holds_the_figures() {
        let json = json(&result(with_errors(part(1000.0, 11), 100), &["errors > 0"]));
        assert_eq!(json["format"], 1);
        assert_eq!(json["url"], "http://127.0.0.1:8080/");
        assert_eq!(json["settings"]["requests"][0]["headers"], json!(["Authorization"]));
        assert_eq!((&json["requests"], &json["verified"]), (&json!(1000), &json!(900)));
        assert_eq!(json["requests_per_second"], 900.0, "errors do not count as throughput");
        assert_eq!(json["errors"], json!({"status": 100}));
        assert_eq!(json["error_examples"][0]["what"], "status 500: \u{fffd}[31mred");
        assert_eq!(json["statuses"], json!({"200": 900, "500": 100}));
        assert_eq!(json["schedule_lag"]["max_us"], 12.007);
        let generator = json!({
            "cpu_share": 0.25, "cpu_us_per_request": 10.0, "threads": 2, "peak_rss_bytes": 12 << 20,
            "stalls": []
        });
        assert_eq!(json["generator"], generator);
        assert_eq!((&json["valid"], &json["reasons"]), (&json!(true), &json!([])));
        let gates = json!([{"fail_if": "errors > 0", "failed": true, "seen": "errors is 100"}]);
        assert_eq!(json["gates"], gates);
        assert_eq!(json["seconds"][0]["verified"], 1000);
        assert_eq!(json["steps"], json!([]));
    }

    #[test]
    fn histogram_decodes_and_agrees_with_the_figures() {
        let json = json(&result(part(1000.0, 11), &[]));
        let response = &json["response"];
        let read = Latencies::decode(response["hdr"].as_str().unwrap(), 0).unwrap();
        assert_eq!(read.count(), 1000);
        assert_eq!(response["p99_us"], micros(read.quantile(0.99)));
    }

    #[test]
    fn missing_figures_are_null() {
        let json = json(&result(with_errors(part(100.0, 11), 100), &[]));
        for figure in ["p50_us", "p99.9_us", "max_us", "mean_us"] {
            assert_eq!(json["response"][figure], Value::Null, "{figure}");
        }
        assert_eq!(json["valid"], false);
    }
}
