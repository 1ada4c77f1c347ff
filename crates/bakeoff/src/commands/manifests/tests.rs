//! Tests that manifests are valid YAML with the study's numbers, and that the study with them parses.

use bakeoff_core::study::{ReadConsistency, shipped};
use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use super::*;

/// Parses YAML documents with an independent parser.
fn read(text: &str) -> Vec<Value> {
    enum Open {
        List(Vec<Value>),
        Map(Map<String, Value>, Option<String>),
    }
    let (mut documents, mut open) = (Vec::new(), Vec::<Open>::new());
    for event in Parser::new_from_str(text) {
        let (event, _) = event.unwrap_or_else(|error| panic!("{}: {text}", error.info()));
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => {
                serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.to_string()))
            }
            Event::Scalar(text, ..) => Value::String(text.to_string()),
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop().unwrap() {
                Open::List(items) => Value::Array(items),
                Open::Map(fields, _) => Value::Object(fields),
            },
            _ => continue,
        };
        match open.last_mut() {
            None => documents.push(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(fields, key)) => match key.take() {
                None => *key = Some(value.as_str().unwrap().to_owned()),
                Some(name) => assert!(fields.insert(name, value).is_none(), "twice: {text}"),
            },
        }
    }
    documents
}

fn ingress() -> (Study, &'static str) {
    let (_, text) = shipped::shipped().iter().find(|(name, _)| *name == "ingress").unwrap();
    (study::parse("ingress", "ingress.yaml", text, &systems::kinds()).unwrap(), text)
}

fn written() -> Vec<ManifestFile> {
    let (study, text) = ingress();
    files(&study, "ingress", text, "node.invalid").unwrap()
}

fn named(files: &[ManifestFile], name: &str) -> String {
    files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}")).text.clone()
}

#[test]
fn manifests_parse_back_to_their_resources() {
    let (study, _) = ingress();
    let contenders = contenders(&study).unwrap();
    let meant = [
        ("namespaces.yaml", resources::namespaces(&contenders)),
        ("applications.yaml", resources::applications(&contenders)),
        ("consul-values.yaml", vec![resources::consul_values(&contenders)]),
        ("consul-gateways.yaml", resources::consul_gateways(&contenders)),
        ("istio-gateways.yaml", resources::istio_gateways(&contenders)),
    ];
    let files = written();
    for (name, documents) in &meant {
        assert_eq!(&read(&named(&files, name)), documents, "{name}");
        for one in documents.iter().filter(|_| *name != "consul-values.yaml") {
            for field in ["/apiVersion", "/kind", "/metadata/name"] {
                assert!(one.pointer(field).and_then(Value::as_str).is_some(), "{name}: {one}");
            }
        }
    }
    assert_eq!(files.len(), meant.len() + 2, "plus the README and the study");
}

/// Returns the `resources` of a deployment's first container.
fn resources_of(documents: &[Value], deployment: &str) -> Value {
    let is = |one: &&Value| one["kind"] == "Deployment" && one["metadata"]["name"] == deployment;
    let found = documents.iter().find(is).unwrap_or_else(|| panic!("no {deployment}"));
    found["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
}

#[test]
fn limits_come_from_the_study() {
    let files = written();
    let values = &read(&named(&files, "consul-values.yaml"))[0];
    let gateways = values["ingressGateways"]["gateways"].as_array().unwrap();
    let limits: Vec<(&str, &str, &str)> = gateways
        .iter()
        .map(|gateway| {
            let limit = |name: &str| gateway["resources"]["limits"][name].as_str().unwrap();
            (gateway["name"].as_str().unwrap(), limit("cpu"), limit("memory"))
        })
        .collect();
    let expected = [
        ("consul-default-gateway", "100m", "100Mi"),
        ("consul-tuned-gateway", "250m", "500Mi"),
        ("consul-equal-gateway", "2", "1Gi"),
    ];
    assert_eq!(limits, expected);
    let istio = read(&named(&files, "istio-gateways.yaml"));
    let resources = resources_of(&istio, "istio-default-gateway");
    assert_eq!(resources["limits"]["cpu"], "2");
    assert_eq!(resources["requests"]["memory"], "128Mi", "what has to be free");
    // Annotations on the pods set the limits of sidecars.
    let applications = named(&files, "applications.yaml");
    assert!(
        applications.contains("\"sidecar.istio.io/proxyCPULimit\": \"2\"")
            || applications.contains("sidecar.istio.io/proxyCPULimit: \"2\""),
        "{applications}"
    );
    assert_eq!(applications.matches("sidecar-proxy-memory-limit").count(), 1, "{applications}");
    assert!(named(&files, "README.md").contains(
        "| consul-tuned | bakeoff-consul-tuned | 30802 | CPU 250m, memory 500Mi | \
                 consul/consul-consul-tuned-gateway |"
    ));
    // A changed study changes the numbers.
    let (_, text) = ingress();
    let text = text.replace("cpu: 0.25, memory: 500MiB", "cpu: 0.3, memory: 1500KiB");
    let study = study::parse("mine", "mine.yaml", &text, &systems::kinds()).unwrap();
    let files = super::files(&study, "mine", &text, "::1").unwrap();
    let values = named(&files, "consul-values.yaml");
    assert!(values.contains("300m") && values.contains("1500Ki") && !values.contains("250m"));
    assert!(named(&files, STUDY).contains("http://[::1]:30800"));
}

/// Returns the manifests of the shipped study with `from` replaced.
fn changed(from: &str, to: &str) -> Result<Vec<ManifestFile>, Failure> {
    let (_, text) = ingress();
    assert!(text.contains(from), "{from}");
    let text = text.replace(from, to);
    let study = study::parse("mine", "mine.yaml", &text, &systems::kinds()).unwrap();
    files(&study, "mine", &text, "node.invalid")
}

#[test]
fn charts_get_no_limits_without_study_limits() {
    let files = changed("limits: {cpu: 0.1, memory: 100MiB}\n", "nodes: 1\n").unwrap();
    let values = &read(&named(&files, "consul-values.yaml"))[0];
    let gateway = &values["ingressGateways"]["gateways"][0];
    let requests = serde_json::json!({"requests": {"cpu": "100m", "memory": "128Mi"}});
    assert_eq!(gateway["resources"], requests, "the chart's defaults are 100m and 100Mi");
    assert!(
        named(&files, "README.md")
            .contains("| consul-default | bakeoff-consul-default | 30800 | none |")
    );
    let files = changed(
        "istio, version: 1.26.0}\n      sidecar: {kind: envoy, limits: {cpu: 2, memory: 1GiB}}",
        "istio, version: 1.26.0}\n      sidecar: {kind: envoy}",
    )
    .unwrap();
    let applications = named(&files, "applications.yaml");
    let marks = applications.lines().filter(|line| line.contains("sidecar.istio.io/proxy"));
    let marks: Vec<String> = marks.map(|line| line.trim().replace('"', "")).collect();
    let expected = ["sidecar.istio.io/proxyCPU: 100m", "sidecar.istio.io/proxyMemory: 128Mi"];
    assert_eq!(marks, expected, "only requests: the chart's defaults are 2 and 1Gi");
}

#[test]
fn installs_the_versions_of_the_study() {
    let files = written();
    let readme = named(&files, "README.md");
    for step in [
        "helm install consul hashicorp/consul --version '~1.6.0' --namespace consul",
        "helm install base istio/base --version 1.26.0 ",
        "helm install istiod istio/istiod --version 1.26.0 ",
    ] {
        assert!(readme.contains(step), "{readme}");
    }
    let values = &read(&named(&files, "consul-values.yaml"))[0];
    assert_eq!(values["global"]["image"], "hashicorp/consul:1.20.1");
    assert_eq!(values["server"]["extraConfig"], r#"{"performance":{"raft_multiplier":1}}"#);
    // An unknown version gets the newest chart.
    let files = changed("version: 1.20.1", "version: 1.2.3").unwrap();
    assert!(named(&files, "README.md").contains("hashicorp/consul --namespace"));
}

#[test]
fn refuses_options_that_manifests_would_leave_out() {
    let refused = |from: &str, to: &str, message: &str| {
        let error = changed(from, to).err().unwrap_or_else(|| panic!("{to}")).to_string();
        assert!(error.contains(message), "{error}");
    };
    let direct = "direct: {kind: application}";
    let slow = "direct: {kind: application, options: {delay: 5ms}}";
    refused(direct, slow, "`delay` of kind `application` in system `direct` has no counterpart");
    let pinned = "direct: {kind: application, limits: {cpus: [0]}}";
    refused(direct, pinned, "`cpus` of kind `application` in system `direct` has no counterpart");
    refused("direct", "2direct", "system `2direct` cannot have that name in Kubernetes");
    let first = "limits: {cpu: 0.25, memory: 500MiB}\n    parts:\n      application: {kind: application}\n      \
                 control-plane: {kind: consul, version: 1.20.1";
    let other = first.replace("1.20.1", "1.21.0");
    refused(first, &other, "study `mine` has different control planes of one kind");
}

#[test]
fn written_study_differs_only_in_its_systems() {
    let (before, _) = ingress();
    let text = named(&written(), STUDY);
    let after = study::parse("ingress", STUDY, &text, &systems::kinds()).unwrap();
    let names = |study: &Study| study.systems.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    assert!(after.systems.iter().all(|system| system.kind == "http" && !system.is_started()));
    let ports: Vec<u16> = after.systems.iter().map(|system| system.endpoints()[0].port).collect();
    assert_eq!(ports, [30_800, 30_801, 30_802, 30_803, 30_804]);
    assert_eq!((&before.workloads, &before.loads), (&after.workloads, &after.loads));
    assert_eq!(before.published, after.published);
    assert_eq!(before.workloads[0].reads, ReadConsistency::Linearizable);
    assert!(!text.contains("yaml-language-server"), "there is no schema next to it");
}

#[test]
fn answer_size_matches_the_study() {
    let (study, _) = ingress();
    let expected = study.workloads[0].request().unwrap().body_size.unwrap() as usize;
    let applications = read(&named(&written(), "applications.yaml"));
    let deployments: Vec<_> =
        applications.iter().filter(|one| one["kind"] == "Deployment").collect();
    assert_eq!(deployments.len(), study.systems.len());
    for deployment in deployments {
        let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let text = args[1].as_str().unwrap().strip_prefix("-text=").unwrap();
        assert_eq!(text.len() + "\n".len(), expected);
    }
}

#[test]
fn rejects_kinds_that_cannot_run_in_kubernetes() {
    let (_, quickstart) =
        shipped::shipped().iter().find(|(name, _)| *name == "quickstart").unwrap();
    let study = study::parse("quickstart", "q.yaml", quickstart, &systems::kinds()).unwrap();
    let message = files(&study, "quickstart", quickstart, "n").err().unwrap().to_string();
    assert!(message.contains("system `etcd` of kind `etcd` cannot run in Kubernetes"), "{message}");
    let (study, text) = ingress();
    let message = files(&study, "ingress", text, "no host").err().unwrap().to_string();
    assert!(message.contains("is not an endpoint"), "{message}");
}
