//! Describes the result of a load for `--json`. docs/load-json.md explains the fields.
//!
//! Not here: the fields (`bakeoff_report::load_json`), text (`text`), a search's result (`curve`, with functions from
//! here).

use bakeoff_core::study::Stop;
use bakeoff_engine::LoadProgress;
use bakeoff_report::MeasurementSummary;
use bakeoff_report::load_json::{
    GateJson, GeneratorJson, GeneratorsJson, LoadJson, LoadOutput, OutputHeader, RequestJson,
    SecondJson, SettingsJson, StepJson,
};
use serde_json::Value;

use super::generator_parts::{self, GeneratorShown};
use super::result::{Gate, LoadResult, Part};
use super::settings::{RequestShown, Settings};

/// Version of the JSON form. Added fields do not change it.
const FORMAT: u32 = 1;

/// Renders the result.
pub(super) fn json(result: &LoadResult) -> Value {
    let gate = |gate: &Gate| GateJson {
        fail_if: gate.condition.to_string(),
        failed: gate.failed(),
        seen: gate.seen().to_owned(),
    };
    let output = LoadOutput::Load(LoadJson {
        header: header(&result.settings),
        whole: StepJson {
            valid: result.reasons().is_empty(),
            reasons: result.reasons(),
            ..step(&result.whole)
        },
        peak_rss_bytes: result.peak_rss_bytes,
        gates: result.gates.iter().map(gate).collect(),
        steps: result.steps.iter().map(step).collect(),
    });
    output.json()
}

/// Returns the fields that every result begins with: format, version of bakeoff and settings.
pub(super) fn header(settings: &Settings) -> OutputHeader {
    let request = |request: &RequestShown| RequestJson {
        name: request.name.clone(),
        method: request.method.clone(),
        url: request.url.clone(),
        headers: request.header_names.clone(),
        body_bytes: request.body_bytes,
        weight: request.weight,
    };
    let drive = &settings.drive;
    let (for_seconds, for_requests) = match drive.stop {
        Stop::After(time) => (Some(time.as_secs_f64()), None),
        Stop::Operations(count) => (None, Some(count)),
    };
    OutputHeader {
        format: FORMAT,
        bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
        url: match settings.requests.as_slice() {
            [one] => Some(one.url.clone()),
            _ => None,
        },
        settings: SettingsJson {
            requests: settings.requests.iter().map(request).collect(),
            rows: settings.rows.clone(),
            load: settings.arrivals(),
            rate: settings.rate(),
            steps: settings.steps().to_vec(),
            ramp: settings.ramp().map(|(from, to)| [from, to]),
            clients: drive.clients,
            threads: drive.threads,
            in_flight: drive.in_flight,
            unix_socket: settings.unix_socket.clone(),
            insecure: settings.insecure,
            http: if settings.http2 { 2 } else { 1 },
            keep_alive: settings.keep_alive(),
            for_seconds,
            for_requests,
            warmup_seconds: drive.warmup.as_secs_f64(),
            timeout_seconds: drive.timeout.as_secs_f64(),
            precision_us: drive.spin.as_micros() as u64,
            seed: drive.seed,
        },
    }
}

/// Returns the figures and the validity of one rate.
pub(super) fn step(of: &Part) -> StepJson {
    StepJson {
        rate: of.rate,
        measurement: MeasurementSummary::with_histograms(&of.measurement),
        waited_for_client_share: of.waited(),
        seconds: of.seconds.iter().map(second).collect(),
        generators: (!of.generators.is_empty()).then(|| generators(&of.generators)),
        valid: of.reasons.is_empty(),
        reasons: of.reasons.clone(),
    }
}

/// Returns each generator's share of a load.
fn generators(parts: &[GeneratorShown]) -> GeneratorsJson {
    let one = |GeneratorShown { machine, part }: &GeneratorShown| GeneratorJson {
        machine: machine.clone(),
        clients: part.clients,
        verified: part.verified,
        errors: part.errors,
        late_us: part.late_us,
        clock_error_us: part.clock_error_us,
        cpu_seconds: part.cpu.as_secs_f64(),
        cpu_share: part.busiest,
    };
    GeneratorsJson {
        began_within_us: generator_parts::began_within_us(parts),
        each: parts.iter().map(one).collect(),
    }
}

/// Returns the figures of one second, without histograms.
fn second(live: &LoadProgress) -> SecondJson {
    SecondJson::new(live.second, live.verified, live.errors, [live.p50, live.p99, live.max])
}

#[cfg(test)]
mod tests {
    use bakeoff_core::histogram::Latencies;
    use serde_json::json;

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
            "cpu_share": 0.25, "cpu_us_per_request": 10.0, "threads": 2, "stalls": []
        });
        assert_eq!(json["generator"], generator);
        assert_eq!(json["peak_rss_bytes"], 12 << 20);
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
        assert_eq!(response["p99_us"], read.quantile(0.99).unwrap().as_nanos() as f64 / 1e3);
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
