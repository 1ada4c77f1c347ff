//! Tests metrics URLs of running systems.

use super::*;

fn metrics(fields: &str) -> Result<Vec<String>, String> {
    let text = format!(
        "title: t\nsystems:\n  kv: {{kind: etcd, {fields}}}\n\
         workloads: {{write: {{mix: {{put: 1}}, keys: {{count: 10}}}}}}\n\
         loads: {{steady: {{clients: 1, stop: {{after: 1s}}}}}}\n"
    );
    let study = parse("my", "my.yaml", &text, &kinds()).map_err(|error| error.to_string())?;
    Ok(study.systems[0].metrics.iter().map(|url| url.text()).collect())
}

#[test]
fn metrics_urls_are_parsed_in_all_forms() {
    let check = |written: &str, expected: &str| {
        let read = metrics(&format!("endpoints: [\"http://a:1\"], metrics: [\"{written}\"]"));
        assert_eq!(read, Ok(vec![expected.to_owned()]), "{written}");
    };
    check("http://a:1/metrics", "http://a:1/metrics");
    check("a:9100", "http://a:9100/metrics");
    check("https://[::1]:1", "https://[::1]:1/metrics");
    check(
        "http://a:1/v1/agent/metrics?format=prometheus",
        "http://a:1/v1/agent/metrics?format=prometheus",
    );
    check("http://a:1/", "http://a:1/");
    assert_eq!(metrics("endpoints: [\"http://a:1\"]"), Ok(Vec::new()));
    let tls = "endpoints: [\"http://a:1\"], metrics: [\"https://a:2\"], tls: {ca: ca.pem}";
    assert!(metrics(tls).is_ok(), "`tls` is for metrics too");
}

#[test]
fn invalid_metrics_urls_are_rejected() {
    let refused = |fields: &str, wording: &[&str]| {
        let error = metrics(fields).expect_err("it is mistaken");
        for part in wording {
            assert!(error.contains(part), "{part} in:\n{error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
    };
    let one = |written: &str, wording: &[&str]| {
        refused(&format!("endpoints: [\"http://a:1\"], metrics: [\"{written}\"]"), wording);
    };
    refused(
        "metrics: [a:1]",
        &["my.yaml:3:", "has `metrics` and no `endpoints`", "leave `metrics` out"],
    );
    one("http://a/metrics", &["my.yaml:3:", "is not a metrics URL", "it has no port"]);
    one("ftp://a:1", &["cannot be reached by `ftp`"]);
    one("redis://a:1", &["write `http://HOST:PORT/metrics`"]);
    one("http://a:1?x=1", &["write `http://HOST:PORT/metrics`"]);
    one("http://a:1/m#x", &["write `http://HOST:PORT/metrics`"]);
    one("http://me:hunter2@a:1/metrics", &["`metrics` holds what may be secret"]);
    one("http://a:1/metrics?token=hunter2", &["`metrics` holds what may be secret"]);
    one("http://a:1/metrics?sig=1&signature=hunter2", &["`metrics` holds what may be secret"]);
    refused(
        "endpoints: [\"http://a:1\"], metrics: [\"http://a:1\", \"a:1/metrics\"]",
        &["`http://a:1/metrics` is listed twice"],
    );
    refused("endpoints: [\"http://a:1\"], metrics: []", &["`metrics` is an empty list"]);
}
