//! Tests services of any kind: commands, HTTP requests, systems of a workload, searches for a rate.

use super::*;
use crate::study::HttpRequest;

/// Parses a study of one service, with these fields in its mapping, its workload and its load.
fn service(system: &str, workload: &str, load: &str) -> Result<Study, String> {
    let text = format!(
        "title: t\nsystems:\n  web: {{{system}}}\n  gate: {{kind: gate}}\n\
         workloads:\n  pages: {{{workload}}}\nloads:\n  steady: {{{load}}}\n"
    );
    parse("my", "my.yaml", &text, &kinds()).map_err(|diagnostics| diagnostics.to_string())
}

const WEB: &str = r#"kind: process, process: {command: [./web, "{port}"]}"#;
const PAGES: &str = "mix: {request: 1}, request: {path: /}";
const STEADY: &str = "clients: 4, stop: {after: 1s}";

#[track_caller]
fn refused(system: &str, workload: &str, load: &str, wording: &[&str]) {
    let diagnostics = service(system, workload, load).expect_err("the study is wrong");
    for text in wording {
        assert!(diagnostics.contains(text), "no `{text}` in:\n{diagnostics}");
    }
}

#[test]
fn command_is_parsed_with_all_fields() {
    let process = r#"kind: process, process: {command: [./web, 8, "{port}"], environment: {LOG: warn, WEB_TOKEN: $TOKEN}, files: {etc/web.conf: "listen {port}"}, ready: /health}"#;
    let study = service(process, PAGES, STEADY).unwrap();
    let process = study.systems[0].process.as_ref().unwrap();
    assert_eq!(process.command, ["./web", "8", "{port}"]);
    assert_eq!(
        (&*process.environment["LOG"], &*process.environment["WEB_TOKEN"]),
        ("warn", "$TOKEN")
    );
    assert_eq!(process.files["etc/web.conf"], "listen {port}");
    assert_eq!(process.ready.as_deref(), Some("/health"));
}

#[test]
fn command_belongs_only_to_its_kind() {
    refused(
        "kind: process",
        PAGES,
        STEADY,
        &["system `web` does not name its command", "add `process: {command:"],
    );
    refused(
        "kind: gate, parts: {backend: {kind: process}}",
        PAGES,
        STEADY,
        &["does not name its command"],
    );
    refused(
        "kind: gate, process: {command: [x]}",
        PAGES,
        STEADY,
        &["system `web` has a `process` and is of kind `gate`", "my.yaml:3:21"],
    );
    let part =
        r#"kind: gate, parts: {backend: {kind: process, process: {command: [./b, "{port}"]}}}"#;
    let study = service(part, PAGES, STEADY).unwrap();
    assert_eq!(study.systems[0].parts["backend"].process.as_ref().unwrap().command[0], "./b");
}

#[test]
fn secret_in_a_command_is_rejected() {
    let with = |environment: &str| {
        format!("kind: process, process: {{command: [x], environment: {{{environment}}}}}")
    };
    let wording = ["`DB_PASSWORD` looks like a secret", "write `DB_PASSWORD: $DB_PASSWORD`"];
    refused(&with("DB_PASSWORD: hunter2"), PAGES, STEADY, &wording);
    assert!(service(&with("DB_PASSWORD: $X, MODE: fast"), PAGES, STEADY).is_ok());
    let wording = ["`authorization` looks like a secret"];
    let pages = "mix: {request: 1}, request: {headers: {authorization: Bearer abc}}";
    refused(WEB, pages, STEADY, &wording);
}

#[test]
fn file_of_a_command_must_stay_in_its_folder() {
    for path in ["../x", "/etc/passwd", "a/../../b", "\"\""] {
        let system = format!("kind: process, process: {{command: [x], files: {{{path}: y}}}}");
        refused(&system, PAGES, STEADY, &["is not in the folder of the process"]);
    }
}

#[test]
fn request_is_parsed_with_its_expected_answer() {
    let pages = "mix: {request: 90%, denied: 10%}, keys: {count: 9}, request: {method: POST, \
                 path: \"/a?k={key}\", headers: {accept: x}, body: b, \
                 expect: {status: 201, headers: {X-Id: \" 7 \"}, body-size: 43, contains: c}}";
    let study = service(WEB, pages, STEADY).unwrap();
    let HttpRequest {
        method,
        path,
        headers,
        http2,
        rows,
        body,
        statuses,
        expected_headers,
        body_size,
        contains,
    } = study.workloads[0].request().unwrap();
    assert!(!http2 && rows.is_none(), "unless they are asked for");
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/a?k={key}"));
    assert_eq!((statuses.single(), expected_headers["X-Id"].as_str()), (Some(201), "7"));
    assert_eq!((headers["accept"].as_str(), body.as_deref()), ("x", Some("b")));
    assert_eq!((*body_size, contains.as_deref()), (Some(43), Some("c")));
    let mix = [(Operation::Request, 90), (Operation::Denied, 10)];
    assert_eq!(study.workloads[0].mix, mix.into());
    let plain = service(WEB, PAGES, STEADY).unwrap();
    assert!(plain.workloads[0].request().unwrap().is_plain());
}

#[test]
fn expected_statuses_are_parsed_in_all_forms() {
    let check = |status: &str, expected: &str| {
        let pages = format!("mix: {{request: 1}}, request: {{expect: {{status: {status}}}}}");
        let study = service(WEB, &pages, STEADY).unwrap_or_else(|why| panic!("{why}"));
        let request = study.workloads[0].request().unwrap();
        assert_eq!(request.statuses.to_string(), expected);
        let json = serde_json::to_string(&study).unwrap();
        assert_eq!(serde_json::from_str::<Study>(&json).unwrap(), study);
    };
    check("404", "404");
    check("[200, 204]", "200,204");
    check("2xx", "2xx");
    check("\"200-299,404\"", "2xx,404");
    check("[2xx, 404-406, \"410\"]", "2xx,404-406,410");
}

#[test]
fn malformed_expectation_is_reported() {
    let check = |expect: &str, wording: &[&str]| {
        let pages = format!("mix: {{request: 1}}, request: {{expect: {{{expect}}}}}");
        refused(WEB, &pages, STEADY, wording);
    };
    check("status: 2x", &["my.yaml:6:", "`status`: `2x` is not a status", "write `status: 200`"]);
    check("status: [200, 100]", &["`100` is not a status", "from 200 to 999"]);
    check("status: 299-200", &["`299-200` ends before it begins"]);
    check("status: []", &["`status` is an empty list"]);
    check("status: {ok: 200}", &["`status` must be a text or a number, not a mapping"]);
    check("headers: {\"a b\": c}", &["my.yaml:6:", "`a b` cannot be the name of a header"]);
    check("headers: {a: \"b\\nc\"}", &["header `a` holds a line break"]);
    check("headers: {A: b, a: c}", &["header `a` is expected twice"]);
    check("headers: [a]", &["`headers` must be a mapping, not a list"]);
}

#[test]
fn white_space_of_files_arguments_and_bodies_is_kept() {
    let process = r#"kind: process, process: {command: [x, " {port} "], files: {a.conf: "listen {port}\n"}, environment: {SEPARATOR: " "}}"#;
    let pages = r#"mix: {request: 1}, request: {method: POST, body: "a\n", headers: {accept: " x "}, expect: {contains: "b "}}"#;
    let study = service(process, pages, STEADY).unwrap();
    let process = study.systems[0].process.as_ref().unwrap();
    assert_eq!(process.command, ["x", " {port} "]);
    assert_eq!(
        (&*process.files["a.conf"], &*process.environment["SEPARATOR"]),
        ("listen {port}\n", " ")
    );
    let request = study.workloads[0].request().unwrap();
    assert_eq!((request.body.as_deref(), request.contains.as_deref()), (Some("a\n"), Some("b ")));
    assert_eq!(request.headers["accept"], "x", "around a header's value it is none of it");
    let empty = r#"mix: {request: 1}, request: {expect: {contains: ""}}"#;
    refused(WEB, empty, STEADY, &["`contains` is empty"]);
}

#[test]
fn http2_allows_several_requests_in_flight() {
    let pages = "mix: {request: 1}, request: {http2: true}";
    let with =
        |in_flight: u32| STEADY.replace("clients:", &format!("in-flight: {in_flight}, clients:"));
    let study = service(WEB, pages, &with(100)).unwrap();
    assert!(study.workloads[0].request().unwrap().http2);
    refused(
        WEB,
        pages,
        &with(101),
        &["cannot have 101 operations in flight", "over HTTP/2 has at most 100"],
    );
    refused(WEB, PAGES, &with(2), &["a client of kind `process` has at most 1"]);
}

#[test]
fn malformed_request_is_reported() {
    let check = |request: &str, wording: &str| {
        let pages = format!("mix: {{request: 1}}, request: {{{request}}}");
        refused(WEB, &pages, STEADY, &[wording]);
    };
    check("method: get", "`get` is not a method");
    check("path: index.html", "`index.html` is not a path");
    check("path: /a b", "`/a b` is not a path");
    check("headers: {\"a b\": c}", "`a b` cannot be the name of a header");
    check("headers: {Host: c}", "header `Host` is bakeoff's own to write");
    check("headers: {x: \"a\\r\\nb: c\"}", "header `x` holds a line break or the like");
    let wording = ["workload `pages` has a `request` and none in its mix"];
    refused(WEB, "mix: {ping: 1}, request: {path: /}", STEADY, &wording);
    refused(WEB, "mix: {request: 1.5%}", STEADY, &["`request` must be a whole number"]);
}

#[test]
fn workload_can_be_limited_to_some_systems() {
    let study =
        service(WEB, "mix: {request: 1}, request: {path: /}, systems: [gate]", STEADY).unwrap();
    assert_eq!(study.workloads[0].systems, ["gate"]);
    let planned = crate::plan::plan(&study, 1);
    assert!(!planned.is_empty() && planned.iter().all(|trial| trial.system == "gate"));
    refused(
        WEB,
        "mix: {request: 1}, request: {path: /}, systems: [gat]",
        STEADY,
        &["unknown system `gat`", "`gate`"],
    );
    // A missing ability is not a fault if no workload needs it.
    let etcd = "kind: etcd, nodes: 1";
    assert!(
        service(etcd, "mix: {request: 1}, request: {path: /}, systems: [gate]", STEADY).is_ok()
    );
    refused(etcd, PAGES, STEADY, &["system `web` cannot `request`"]);
}

#[test]
fn related_options_can_be_nested() {
    let gate = "kind: gate, options: {connector: {path: ./lua, module: resty.x}}";
    let study = service(gate, PAGES, STEADY).unwrap();
    let options = &study.systems[0].options;
    assert_eq!((&*options["connector.path"], &*options["connector.module"]), ("./lua", "resty.x"));
    let gate = "kind: gate, options: {connector: {pat: ./lua}}";
    refused(gate, PAGES, STEADY, &["has no option `connector.pat`", "`connector.path`"]);
}

#[test]
fn search_for_a_rate_is_parsed() {
    let load =
        "clients: 4, rate: 200/s, stop: {after: 5s}, find: {objective: [p99 < 50ms, errors < 1%]}";
    let study = service(WEB, PAGES, load).unwrap();
    assert_eq!(study.loads[0].find.as_ref().unwrap().objective, ["p99 < 50ms", "errors < 1%"]);
    let check = |load: &str, wording: &str| refused(WEB, PAGES, load, &[wording]);
    check("clients: 4, stop: {after: 5s}, find: {objective: p99 < 1s}", "has none to start with");
    let by_count = "clients: 4, rate: 9/s, stop: {operations: 5}, find: {objective: p99 < 1s}";
    check(by_count, "searches for a rate but ends by a count");
    check("clients: 4, rate: 9/s, stop: {after: 1s}, find: {objective: fast}", "`objective`:");
    let few =
        "clients: 4, rate: 100/s, stop: {after: 5s}, find: {objective: [p50 < 1s, p99 < 50ms]}";
    check(
        few,
        "`p99 < 50ms` needs 1,000 operations, and a try of load `steady` has 500: 100/s for 5s",
    );
    check(few, "try each rate for 10s or longer, begin at 200/s or more");
    let by_chance = few.replace("100/s", "205/s, arrivals: poisson");
    check(&by_chance, "needs 1,095 operations, and a try of load `steady` has 1,025");
}

#[test]
fn tls_resumption_can_be_turned_off() {
    let study = service(WEB, PAGES, "clients: 4, stop: {after: 1s}, tls-resumption: off").unwrap();
    assert!(!study.loads[0].tls_resumption);
    assert!(service(WEB, PAGES, STEADY).unwrap().loads[0].tls_resumption);
}
