//! What is written is YAML, is the study's own numbers, and is a study again.

use bakeoff_core::study::{ReadConsistency, shipped};
use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use super::*;

/// The documents of a YAML text, read by a parser that knows nothing of what wrote it.
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

fn written() -> Vec<Written> {
    let (study, text) = ingress();
    files(&study, "ingress", text, "node.invalid").unwrap()
}

fn named(files: &[Written], name: &str) -> String {
    files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}")).text.clone()
}

#[test]
fn every_manifest_is_yaml_that_says_what_was_meant() {
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
    assert_eq!(files.len(), meant.len() + 2, "and what explains them, and the study");
}

/// The resources of the container with this name, wherever it is.
fn resources_of(documents: &[Value], deployment: &str) -> Value {
    let is = |one: &&Value| one["kind"] == "Deployment" && one["metadata"]["name"] == deployment;
    let found = documents.iter().find(is).unwrap_or_else(|| panic!("no {deployment}"));
    found["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
}

#[test]
fn limits_are_those_of_the_study() {
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
    // Sidecars have theirs by marks on the pods.
    let applications = named(&files, "applications.yaml");
    assert!(
        applications.contains("\"sidecar.istio.io/proxyCPULimit\": \"2\"")
            || applications.contains("sidecar.istio.io/proxyCPULimit: \"2\""),
        "{applications}"
    );
    assert_eq!(applications.matches("sidecar-proxy-memory-limit").count(), 1, "{applications}");
    assert!(
        named(&files, "README.md")
            .contains("| consul-tuned | bakeoff-consul-tuned | 30802 | CPU 250m, memory 500Mi |")
    );
    // Another study, other numbers.
    let (_, text) = ingress();
    let text = text.replace("cpu: 0.25, memory: 500MiB", "cpu: 0.3, memory: 1500KiB");
    let study = study::parse("mine", "mine.yaml", &text, &systems::kinds()).unwrap();
    let files = super::files(&study, "mine", &text, "::1").unwrap();
    let values = named(&files, "consul-values.yaml");
    assert!(values.contains("300m") && values.contains("1500Ki") && !values.contains("250m"));
    assert!(named(&files, STUDY).contains("http://[::1]:30800"));
}

#[test]
fn the_study_that_goes_with_them_differs_in_its_systems_alone() {
    let (before, _) = ingress();
    let text = named(&written(), STUDY);
    let after = study::parse("ingress", STUDY, &text, &systems::kinds()).unwrap();
    let names = |study: &Study| study.systems.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    assert!(after.systems.iter().all(|system| system.kind == "http" && !system.is_started()));
    let ports: Vec<u16> = after.systems.iter().map(|system| system.endpoints[0].port).collect();
    assert_eq!(ports, [30_800, 30_801, 30_802, 30_803, 30_804]);
    assert_eq!((&before.workloads, &before.loads), (&after.workloads, &after.loads));
    assert_eq!(before.published, after.published);
    assert_eq!(before.workloads[0].reads, ReadConsistency::Linearizable);
    assert!(!text.contains("yaml-language-server"), "the schema is not beside it");
}

#[test]
fn an_answer_has_the_size_that_the_study_expects() {
    let (study, _) = ingress();
    let expected = study.workloads[0].request.body_size.unwrap() as usize;
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
fn what_cannot_be_had_in_kubernetes_is_refused() {
    let (_, quickstart) =
        shipped::shipped().iter().find(|(name, _)| *name == "quickstart").unwrap();
    let study = study::parse("quickstart", "q.yaml", quickstart, &systems::kinds()).unwrap();
    let said = files(&study, "quickstart", quickstart, "n").err().unwrap().to_string();
    assert!(said.contains("system `etcd` of kind `etcd` cannot be had in Kubernetes"), "{said}");
    let (study, text) = ingress();
    let said = files(&study, "ingress", text, "no host").err().unwrap().to_string();
    assert!(said.contains("is not an endpoint"), "{said}");
}
