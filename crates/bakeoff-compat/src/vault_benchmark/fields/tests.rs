//! Tests of [`super`].

use bakeoff_core::study::Diagnostics;

use super::*;
use crate::vault_benchmark::config::Config;

/// Reads options from the `config` of a test with these lines. Returns the result and the diagnostics.
fn read(lines: &str, read: impl FnOnce(&Fields) -> String) -> (String, Result<(), Diagnostics>) {
    let text = format!("test \"k\" \"t\" {{\nweight = 100\nconfig {{\n{lines}\n}}\n}}\n");
    let environment = Environment::from([("VAULT_BENCHMARK_X", "from outside")]);
    let config = Config::parse("t.hcl", &text, environment).unwrap();
    let read = read(&config.tests[0].config);
    (read, config.finish())
}

#[track_caller]
fn check(lines: &str, fields: &[Field], expected: &str) {
    let (json, finished) =
        read(lines, |config| serde_json::to_string(&config.read(fields)).unwrap());
    finished.unwrap();
    assert_eq!(json, expected);
}

#[track_caller]
fn check_diagnostic(lines: &str, fields: &[Field], expected: &[&str]) {
    let (_, finished) = read(lines, |config| format!("{:?}", config.read(fields)));
    let diagnostics = finished.unwrap_err().to_string();
    for expected in expected {
        assert!(diagnostics.contains(expected), "{diagnostics}");
    }
}

#[test]
fn values_are_converted_as_in_vault_benchmark() {
    check("a = \"x\"", &[text("a")], r#"{"a":"x"}"#);
    check("a = 5", &[text("a")], r#"{"a":"5"}"#);
    check("a = true", &[text("a")], r#"{"a":"true"}"#);
    check("a = \"5\"", &[whole("a")], r#"{"a":5}"#);
    check("a = \"true\"", &[flag("a")], r#"{"a":true}"#);
    check("a = [\"x\", 1]", &[texts("a")], r#"{"a":["x","1"]}"#);
    check("a = { b = \"c\", d = 1 }", &[map("a")], r#"{"a":{"b":"c","d":"1"}}"#);
    check("a = { b = [1, null, 2.5] }", &[any("a")], r#"{"a":{"b":[1,null,2.5]}}"#);
}

#[test]
fn leaves_empty_values_out() {
    let fields = [text("a"), whole("b"), flag("c"), switch("d"), texts("e")];
    check("a = \"\"\nb = 0\nc = false", &fields, "{}");
    check("d = false\ne = []", &fields, r#"{"d":false,"e":[]}"#);
    check("a = null", &[text("a").or("x")], r#"{"a":"x"}"#);
}

#[test]
fn file_overrides_environment_and_environment_overrides_default() {
    let field = [text("a").or("default").or_variable("VAULT_BENCHMARK_X")];
    check("a = \"file\"", &field, r#"{"a":"file"}"#);
    check("", &field, r#"{"a":"from outside"}"#);
    check("", &[text("a").or("default").or_variable("VAULT_BENCHMARK_Y")], r#"{"a":"default"}"#);
    check("", &[whole("a").or_whole(7), flag("b").or_flag(true)], r#"{"a":7,"b":true}"#);
    check("", &[texts("a").or_texts(&["x"])], r#"{"a":["x"]}"#);
}

#[test]
fn reports_unknown_options_with_their_line() {
    check_diagnostic(
        "role_nam = 1",
        &[text("role_name")],
        &["unknown option `role_nam` in `config` of test `t`", "t.hcl:4:1", "`role_name`?"],
    );
    check_diagnostic("rle { }", &[text("a")], &["unknown block `rle`", "known options: `a`"]);
    let (_, finished) =
        read("role {\n  x = 1\n}", |config| format!("{:?}", config.block("role").text("y")));
    let diagnostics = finished.unwrap_err().to_string();
    assert!(diagnostics.contains("`x` in `role` of `config` of test `t`"), "{diagnostics}");
    assert!(diagnostics.contains("t.hcl:5:3"), "{diagnostics}");
}

#[test]
fn refuses_wrong_values_without_showing_secrets() {
    check_diagnostic("a = []", &[text("a")], &["`a` must be a text, not a list", "t.hcl:4:5"]);
    check_diagnostic("a = 1.5", &[whole("a")], &["must be a whole number, not `1.5`"]);
    check_diagnostic("a = 1", &[flag("a")], &["must be `true` or `false`, not `1`"]);
    check_diagnostic("a = \"x\"", &[texts("a")], &["must be a list of texts"]);
    check_diagnostic("a = [[]]", &[texts("a")], &["must be a list of texts, not a list"]);
    check_diagnostic("a { }", &[text("a")], &["`a` is an option, not a block"]);
    check_diagnostic("", &[text("a").required()], &["`config` of test `t` needs `a`", "t.hcl:3:1"]);
    let (_, finished) =
        read("password = \"hunter2\"", |config| format!("{:?}", config.whole("password")));
    let diagnostics = finished.unwrap_err().to_string();
    assert!(diagnostics.contains("a text") && !diagnostics.contains("hunter2"), "{diagnostics}");
}

#[test]
fn a_block_is_written_once_and_without_an_equals_sign() {
    let block = |lines: &str| read(lines, |config| format!("{:?}", config.block("b").text("c")));
    assert_eq!(block("b { c = 1 }").0, "Some(\"1\")");
    let error = block("b { c = 1 }\nb { c = 2 }").1.unwrap_err().to_string();
    assert!(error.contains("second `b`") && error.contains("t.hcl:5:1"), "{error}");
    let error = block("b = { c = 1 }").1.unwrap_err().to_string();
    assert!(error.contains("`b` is a block"), "{error}");
    block("").1.unwrap();
}

#[test]
fn durations_have_units() {
    let duration = |lines: &str| read(lines, |config| format!("{:?}", config.duration("a")));
    assert_eq!(duration("a = \"1m30s\"").0, "Some(90s)");
    for wrong in ["a = \"5\"", "a = 5", "a = \"-1s\""] {
        let error = duration(wrong).1.unwrap_err().to_string();
        assert!(error.contains("a duration"), "{error}");
    }
}
