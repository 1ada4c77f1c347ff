//! Tests words in braces of a request: `{key}`, `{sequence}`, columns of a table.

use std::io;

use crate::study::testing::kinds;
use crate::study::{
    Diagnostics, Study, Surroundings, TableError, TableFile, ValueSizes, parse_within,
};

/// Simulates a machine with one table.
struct Desk;

impl Surroundings for Desk {
    fn table(&self, path: &str) -> Result<Option<TableFile>, TableError> {
        match path {
            "users.csv" => Ok(Some(TableFile {
                columns: vec!["user".to_owned(), "page".to_owned()],
                sha256: "ab".repeat(32),
            })),
            _ => Err(TableError { path: path.to_owned(), source: "it is not there".into() }),
        }
    }

    fn file(&self, _: &str) -> Result<(), io::Error> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn text(&self, path: &str) -> Result<Option<String>, io::Error> {
        match path {
            "sizes.txt" => Ok(Some("# of a day\n100\n1KiB # one\n\n100\n".to_owned())),
            "spoilt.txt" => Ok(Some("100\n4\n".to_owned())),
            "empty.txt" => Ok(Some("# none\n".to_owned())),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn has_variable(&self, name: &str) -> bool {
        name == "TOKEN"
    }
}

fn study(workload: &str, surroundings: &dyn Surroundings) -> Result<Study, Diagnostics> {
    let text = format!(
        "title: Words\n\
         systems: {{web: {{kind: process, process: {{command: [./web, \"{{port}}\"]}}}}}}\n\
         workloads:\n  \
           pages: {{{workload}}}\n\
         loads: {{steady: {{clients: 1, stop: {{after: 1s}}}}}}\n"
    );
    parse_within("my", "my.yaml", &text, &kinds(), surroundings)
}

#[track_caller]
fn refused(workload: &str, wording: &[&str]) {
    let error = study(workload, &Desk).expect_err("it is mistaken").to_string();
    for part in wording {
        assert!(error.contains(part), "{part} in:\n{error}");
    }
}

#[test]
fn words_are_parsed_in_path_headers_and_body() {
    let words = r#"mix: {request: 1}, keys: {count: 9}, request: {method: POST, path: "/{key}?by={client}",
        headers: {x-request-id: "{sequence}-{random:8}", x-literal: "{{key}}"}, body: '{"user": "{user}"}',
        rows: {file: users.csv}}"#;
    let read = study(words, &Desk).unwrap();
    let rows = read.workloads[0].request().unwrap().rows.clone().unwrap();
    assert_eq!((rows.file.as_str(), rows.sha256), ("users.csv", Some("ab".repeat(32))));
    // If files are not checked, columns and hash are unknown.
    let elsewhere = study(words, &crate::study::UncheckedSurroundings).unwrap();
    assert_eq!(elsewhere.workloads[0].request().unwrap().rows.as_ref().unwrap().sha256, None);
}

#[test]
fn unknown_words_are_reported_at_their_place() {
    let with =
        |request: &str| format!("mix: {{request: 1}}, keys: {{count: 9}}, request: {{{request}}}");
    refused(
        &with(r#"path: "/{kye}""#),
        &["`{kye}` stands for nothing in `path`", "did you mean `{key}`?", "my.yaml:4:"],
    );
    // Only the word is marked, not the text around it.
    refused(&with(r#"path: "/{key}/{kye}""#), &["/{key}/{kye}\"", "     ^^^^^\n"]);
    refused(
        &with(r#"body: "{user}""#),
        &["`{user}` stands for nothing in `body`", "`{{user}}` is the text itself"],
    );
    refused(
        &with(r#"headers: {x-id: "{sequense}"}"#),
        &["in `x-id`", "did you mean `{sequence}`?"],
    );
    refused(
        &with(r#"path: "/{random:0}""#),
        &["1 to 65536 random characters", "write `{random:8}`"],
    );
    refused(&with(r#"path: "/{usr}", rows: {file: users.csv}"#), &["did you mean `{user}`?"]);
    let json =
        |word: &str| with(&format!(r#"body: '{{"a": "{word}"}}', rows: {{file: users.csv}}"#));
    assert!(study(&json("{user:json}"), &Desk).is_ok());
    refused(&json("{usr:json}"), &["`{usr:json}` stands for nothing in `body`"]);
}

#[test]
fn missing_request_keys_and_files_are_reported() {
    refused(
        r#"mix: {request: 1}, request: {path: "/{key}"}"#,
        &["`{key}` stands in `path`", "has no `keys`", "add `keys: {count: 10000}`"],
    );
    refused(
        "mix: {request: 1}",
        &["workload `pages` sends HTTP requests but has no `request`", "add `request: {path: /}`"],
    );
    refused(
        "request: {path: /}",
        &["workload `pages` has no `mix`", "it sends HTTP requests: add `mix: {request: 1}`"],
    );
    let rows = |rows: &str| format!("mix: {{request: 1}}, request: {{rows: {{{rows}}}}}");
    refused(
        &rows("file: user.csv"),
        &[
            "cannot read `user.csv` as a table: it is not there",
            "from the folder that bakeoff is started in",
        ],
    );
    refused(
        &rows(&format!("file: users.csv, sha256: {}", "cd".repeat(32))),
        &["has SHA-256 abab", "another file"],
    );
    refused(&rows(""), &["has no `file`"]);
}

#[test]
fn value_sizes_are_parsed_from_a_file_of_samples() {
    let study = |file: &str| {
        let text = format!(
            "title: Sizes\nsystems: {{one: {{kind: etcd}}}}\nworkloads:\n  w: {{mix: {{put: 1}}, keys: {{count: 9}}, \
             values: {{size: {{file: {file}}}}}}}\nloads: {{steady: {{clients: 1, stop: {{after: 1s}}}}}}\n"
        );
        parse_within("my", "my.yaml", &text, &kinds(), &Desk)
    };
    let sizes = study("sizes.txt").unwrap().workloads[0].value_sizes().cloned();
    assert_eq!(sizes, Some(ValueSizes::Listed(vec![100, 1024, 100])));
    for (file, error) in [
        ("spoilt.txt", "`4` in line 2 of `spoilt.txt` is no size from 5 B to 1 GiB"),
        ("empty.txt", "`empty.txt` has no sizes"),
        ("away.txt", "cannot read `away.txt`"),
    ] {
        let wrong = study(file).expect_err("it is mistaken").to_string();
        assert!(wrong.contains(error) && wrong.contains("my.yaml:4:"), "{wrong}");
    }
}
