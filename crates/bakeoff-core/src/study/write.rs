//! Writes a study back to YAML, so that one from a record passes the same checks as a file.
//!
//! A record's study comes from an untrusted author. Before it runs again, it is written as YAML, parsed, and compared
//! with itself. A study that the parser could not have produced from a file is rejected.
//!
//! Published figures are left out, because nothing depends on them; so is a quick form, which did not run. Not here:
//! parsing (`parse`).

use super::entries::{Entries, duration, list, map, quoted, texts};
use super::{
    Arrivals, Credentials, Diagnostic, Diagnostics, Fault, HttpRequest, KeyOrder, Keys, Kind,
    Limits, LinearizabilityCheck, Load, Payload, Process, Routing, SecretSource, Servers, Stop,
    Study, System, Tls, ValueSizes, Workload, parse,
};

/// Checks a record's study by the rules of study files. `file` is the record's name in messages.
///
/// # Errors
/// Returns the faults of a file with this study. Returns one diagnostic, without a place, if the study cannot be
/// written as a file.
pub fn recheck(study: &Study, file: &str, kinds: &[Kind]) -> Result<(), Diagnostics> {
    let read = parse(&study.name, file, &yaml(study), kinds)?;
    let bare = |study: &Study| Study {
        publication: None,
        published: Vec::new(),
        quick: None,
        is_quick: false,
        scale: 1.0,
        ..study.clone()
    };
    let (given, read) = (bare(study), bare(&read));
    if given == read && is_file_name(&study.name) {
        return Ok(());
    }
    Err(Diagnostics(vec![Diagnostic {
        what: format!("the study in `{file}` cannot come from a study file"),
        place: None,
        hint: Some("run the study's own file, and inspect the record with `bakeoff report`".into()),
    }]))
}

/// Returns true if a study's name is safe as part of a folder's name.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Writes a study as YAML in flow style, which accepts JSON's strings.
pub(super) fn yaml(study: &Study) -> String {
    let named = |entries: Vec<(&String, String)>| map(entries);
    let mut top = Entries::default();
    top.add("title", quoted(&study.title));
    top.option("description", study.description.as_deref().map(quoted));
    top.add("systems", named(study.systems.iter().map(|one| (&one.name, system(one))).collect()));
    let workloads = study.workloads.iter().map(|one| (&one.name, workload(one)));
    top.add("workloads", named(workloads.collect()));
    top.add("loads", named(study.loads.iter().map(|one| (&one.name, load(one))).collect()));
    top.option("question", study.question.as_ref().map(|one| quoted(&one.to_string())));
    top.some("faults", study.faults.iter().map(|one| (&one.name, fault(one))).collect());
    top.option("repeat", (!study.faults.is_empty()).then_some(study.repeat));
    top.add("trials", study.trials);
    top.add("audit-keys", study.audit_keys);
    top.option("audit", audit(study));
    top.add("sample-every", duration(study.sample_every));
    top.add("clusters", quoted(study.clusters.name()));
    top.text()
}

fn audit(study: &Study) -> Option<String> {
    let mut audit = Entries::default();
    audit.option("kill", study.kill.map(|kill| quoted(kill.name())));
    audit.option("linearizability", (!study.linearizability.is_off()).then_some(true));
    let keeps_history = study.linearizability == LinearizabilityCheck::KeepingHistory;
    audit.option("history", keeps_history.then_some(true));
    audit.option("power-cut", study.power_cuts.map(|cuts| quoted(cuts.of.name())));
    audit.option("cuts", study.power_cuts.map(|cuts| cuts.cuts));
    audit.option("bit-flip", study.bit_flip.map(|of| quoted(of.name())));
    (!audit.is_empty()).then(|| audit.text())
}

fn system(of: &System) -> String {
    let mut entries = Entries::default();
    entries.add("kind", quoted(&of.kind));
    entries.option("version", of.version.as_deref().map(quoted));
    entries.option("program", of.program.as_deref().map(quoted));
    match &of.servers {
        Servers::Started => entries.add("nodes", of.nodes),
        Servers::Running(endpoints) => {
            let urls = endpoints.iter().map(|one| {
                let scheme = if one.tls { "https" } else { "http" };
                quoted(&format!("{scheme}://{}", one.authority()))
            });
            entries.add("endpoints", list(urls));
        }
    }
    let urls =
        (!of.metrics.is_empty()).then(|| list(of.metrics.iter().map(|url| quoted(&url.text()))));
    entries.option("metrics", urls);
    entries.some("options", texts(&of.options));
    entries.option("limits", of.limits.as_ref().map(limits));
    entries.option("tls", of.tls.as_ref().map(tls));
    entries.option("credentials", of.credentials.as_ref().map(credentials));
    entries.option("process", of.process.as_ref().map(process));
    entries.some("parts", of.parts.iter().map(|(role, part)| (role, system(part))).collect());
    entries.text()
}

fn limits(of: &Limits) -> String {
    let mut entries = Entries::default();
    entries.option("cpu", of.cpu);
    entries.option("memory", of.memory.map(|bytes| bytes.0));
    entries.option("cpus", (!of.cpus.is_empty()).then(|| list(&of.cpus)));
    entries.text()
}

fn tls(of: &Tls) -> String {
    let mut entries = Entries::default();
    for (name, file) in [("ca", &of.ca), ("cert", &of.cert), ("key", &of.key)] {
        entries.option(name, file.as_deref().map(quoted));
    }
    entries.add("insecure", of.insecure);
    entries.text()
}

fn credentials(of: &Credentials) -> String {
    let mut entries = Entries::default();
    entries.option("user", of.user.as_deref().map(quoted));
    for (name, source) in [("password", &of.password), ("token", &of.token)] {
        match source {
            None => {}
            Some(SecretSource::Variable(variable)) => {
                entries.add(name, quoted(&format!("${variable}")))
            }
            Some(SecretSource::File(path)) => entries.add(&format!("{name}-file"), quoted(path)),
        }
    }
    entries.text()
}

fn process(of: &Process) -> String {
    let mut entries = Entries::default();
    entries.add("command", list(of.command.iter().map(|word| quoted(word))));
    entries.some("environment", texts(&of.environment));
    entries.some("files", texts(&of.files));
    entries.option("ready", of.ready.as_deref().map(quoted));
    entries.text()
}

fn workload(of: &Workload) -> String {
    let mut entries = Entries::default();
    entries.add("mix", map(of.mix.iter().map(|(operation, weight)| (operation.name(), weight))));
    entries.add("keys", keys(&of.keys));
    match &of.payload {
        Payload::Values(values) => entries.add("values", map([("size", sizes(values))])),
        Payload::Request(asked) => entries.add("request", request(asked)),
    }
    entries.some("with", texts(&of.with));
    entries.add("reads", quoted(of.reads.name()));
    entries.add("fill", of.fill);
    entries.add("loads", list(of.loads.iter().map(|name| quoted(name))));
    let systems =
        (!of.systems.is_empty()).then(|| list(of.systems.iter().map(|name| quoted(name))));
    entries.option("systems", systems);
    entries.text()
}

fn sizes(of: &ValueSizes) -> String {
    match of {
        ValueSizes::Fixed(size) => size.to_string(),
        ValueSizes::Listed(sizes) => list(sizes),
        ValueSizes::Range { from, to } => map([("from", from), ("to", to)]),
    }
}

fn keys(of: &Keys) -> String {
    let order = match of.order {
        KeyOrder::Sequential => quoted("sequential"),
        KeyOrder::Unique => quoted("unique"),
        KeyOrder::Uniform => quoted("uniform"),
        KeyOrder::Same => quoted("same"),
        KeyOrder::Zipfian { exponent } => map([("zipfian", exponent)]),
        KeyOrder::Latest { exponent } => map([("latest", exponent)]),
        KeyOrder::Hotspot { keys, operations } => {
            map([("hotspot", map([("keys", keys), ("operations", operations)]))])
        }
    };
    let mut entries = Entries::default();
    entries.add("count", of.count);
    entries.add("size", of.size);
    entries.add("order", order);
    entries.add("per-directory", of.per_directory);
    entries.text()
}

fn request(of: &HttpRequest) -> String {
    let mut expect = Entries::default();
    match of.statuses.single() {
        Some(status) => expect.add("status", status),
        None => expect.add("status", quoted(&of.statuses.to_string())),
    }
    expect.some("headers", texts(&of.expected_headers));
    expect.option("body-size", of.body_size);
    expect.option("contains", of.contains.as_deref().map(quoted));
    let mut entries = Entries::default();
    entries.add("method", quoted(&of.method));
    entries.add("path", quoted(&of.path));
    entries.some("headers", texts(&of.headers));
    entries.add("http2", of.http2);
    entries.option("body", of.body.as_deref().map(quoted));
    let rows = of.rows.as_ref().map(|rows| {
        let mut entries = Entries::default();
        entries.add("file", quoted(&rows.file));
        entries.option("sha256", rows.sha256.as_deref().map(quoted));
        entries.text()
    });
    entries.option("rows", rows);
    entries.add("expect", expect.text());
    entries.text()
}

fn load(of: &Load) -> String {
    let mut entries = Entries::default();
    entries.add("clients", list(&of.clients));
    let own = of.clients_for.iter().map(|(system, clients)| (system, list(clients)));
    entries.some("clients-for", own.collect());
    entries.option("rate", of.arrivals.rate().map(|rate| quoted(&format!("{rate}/s"))));
    entries.option(
        "arrivals",
        match of.arrivals {
            Arrivals::Closed => None,
            Arrivals::Constant { .. } => Some("constant"),
            Arrivals::Poisson { .. } => Some("poisson"),
        },
    );
    entries.add("in-flight", of.in_flight);
    let stop = match of.stop {
        Stop::After(time) => map([("after", duration(time))]),
        Stop::Operations(operations) => map([("operations", operations)]),
    };
    entries.add("stop", stop);
    entries.add("warmup", duration(of.warmup));
    entries.add("timeout", duration(of.timeout));
    let targets = match of.targets {
        Routing::Same(targets) => quoted(targets.name()),
        Routing::Split { writes, reads } => {
            map([("writes", quoted(writes.name())), ("reads", quoted(reads.name()))])
        }
    };
    entries.add("targets", targets);
    let word = |on: bool| quoted(if on { "on" } else { "off" });
    entries.add("keep-alive", word(of.keep_alive));
    entries.add("tls-resumption", word(of.tls_resumption));
    entries.add("errors-max", of.errors_max);
    let objective = |of: &super::Find| list(of.objective.iter().map(|text| quoted(text)));
    entries.option("find", of.find.as_ref().map(|find| map([("objective", objective(find))])));
    entries.text()
}

fn fault(of: &Fault) -> String {
    let mut entries = Entries::default();
    of.write(&mut entries);
    entries.add("at", duration(of.at));
    entries.option("alone", (!of.alone).then_some(false));
    // Those of a sequence are those of its faults.
    let is_limited = !of.systems.is_empty() && of.sequence.is_empty();
    let systems = is_limited.then(|| list(of.systems.iter().map(|name| quoted(name))));
    entries.option("systems", systems);
    entries.text()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::study::parse::tests::EVERY_FAULT;
    use crate::study::shipped::shipped;
    use crate::study::testing::kinds;

    /// Study with as many fields as possible.
    const FULL: &str = r#"
title: "All: of it # and \"more\""
description: "Two\nlines, ünïcode"
systems:
  one:
    kind: etcd
    version: "3.6"
    nodes: 3
    limits: {cpu: 0.5, memory: 1GiB, cpus: [0, 1]}
  two:
    kind: etcd
    endpoints: ["https://[::1]:2379", "https://db.example:2379"]
    metrics: ["http://[::1]:2379/metrics?x=1", "https://db.example:9100"]
    tls: {ca: ca.pem}
    credentials: {user: "me: #", password: $KV_PASSWORD}
  three: {kind: http, endpoints: ["http://web.example:80"]}
workloads:
  keyed:
    mix: {put: 10%, get: 90, list: 1}
    keys: {count: 1000, size: 64, order: {zipfian: 1.25}, per-directory: 10}
    values: {size: 256}
    reads: stale
    loads: [open, closed]
    systems: [one]
  hot: {mix: {get: 1}, keys: {count: 9, order: {hotspot: {keys: 10%, operations: 90%}}}, values: {size: {from: 5, to: 1KiB}}, systems: [one]}
  late: {mix: {get: 9, put: 1}, keys: {count: 9, size: 10, order: {latest: 1.5}}, values: {size: [9, 9, 100]}, loads: [open], systems: [one]}
  other: {mix: {put: 1}, keys: {count: 7}, systems: [one, two]}
  pages:
    mix: {request: 1}
    request: {path: /, expect: {status: [200, 204, 301-308, 4xx], headers: {X-Id: "a: #"}, contains: "<p>"}}
    loads: [closed]
    systems: [three]
loads:
  open: {rate: 1000.5/s, arrivals: poisson, clients: 4, warmup: 1500ms, timeout: 3s, stop: {after: 1m30s}, errors-max: 2.5%}
  closed: {clients: [1, 2], clients-for: {two: [3, 4]}, stop: {operations: 1000}, tls-resumption: off}
  split: {clients: 4, stop: {after: 2s}, targets: {writes: leader, reads: followers}}
  found: {rate: 1000/s, clients: 4, stop: {after: 10s}, find: {objective: [p99 < 50ms, errors < 1%]}}
trials: 3
audit: {kill: at-rest, linearizability: true, history: true}
sample-every: 250ms
clusters: kept
"#;

    fn read(name: &str, text: &str) -> Study {
        parse(name, name, text, &kinds()).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn studies_survive_writing_and_parsing() {
        let shipped = shipped().iter().map(|(name, text)| read(name, text));
        let cut = FULL
            .replace("history: true}", "power-cut: one, cuts: 7, bit-flip: one}")
            .replace("clusters: kept", "clusters: fresh");
        let own = [read("full", FULL), read("cut", &cut), read("faults", EVERY_FAULT)];
        for study in shipped.chain(own) {
            recheck(&study, "record", &kinds()).unwrap_or_else(|wrong| panic!("{wrong}"));
            for factor in [0.1, 0.5, 3.0] {
                let Ok(scaled) = study.scaled(factor) else { continue };
                recheck(&scaled, "record", &kinds()).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        }
    }

    /// Changes a study as only a record's author can, and expects an error.
    #[track_caller]
    fn refused(change: impl FnOnce(&mut Study), expected: &str) {
        let mut study = read("full", FULL);
        change(&mut study);
        let error = recheck(&study, "record.jsonl", &kinds()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn studies_that_no_file_can_contain_are_rejected() {
        refused(|study| study.systems[0].name = "../../home".into(), "../../home");
        refused(|study| study.workloads[0].name = "/etc".into(), "/etc");
        refused(|study| study.loads[0].name = "a b".into(), "a b");
        refused(|study| study.name = "../away".into(), "cannot come from a study file");
        refused(|study| study.trials = 1_000_000, "1000");
        refused(|study| study.loads[0].clients = vec![4_000_000], "clients");
        refused(|study| study.systems[0].kind = "sh".into(), "unknown kind `sh`");
        refused(|study| study.systems[0].version = Some("$(id)".into()), "not a version");
        refused(|study| study.workloads[1].keys.count = 0, "count");
        refused(|study| study.workloads[1].mix.clear(), "empty");
        refused(|study| study.sample_every = Duration::ZERO, "sample-every");
        let twice = |study: &mut Study| study.systems[1].name = study.systems[0].name.clone();
        refused(twice, "one");
        let parts = |study: &mut Study| {
            let part = study.systems[0].clone();
            study.systems[0].parts.insert("shell".into(), part);
        };
        refused(parts, "no part `shell`");
        let limits = Limits { cpu: None, memory: None, cpus: vec![1, 0] };
        refused(|study| study.systems[0].limits = Some(limits), "cannot come from a study file");
    }
}
