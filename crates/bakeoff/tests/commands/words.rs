//! Tests words in braces in requests of `bakeoff load`, and loads that cannot begin.
//!
//! Not here: words in requests of a study (`own_services`), the known words (`bakeoff_core::template`).

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::outputs::Recorder;
use crate::support::canary::Canary;
use crate::support::schema;
use crate::support::{CommandOutput, bakeoff};

#[test]
fn words_differ_between_requests() {
    let recorder = Recorder::start();
    let url = format!("http://{}/a/{{sequence}}?by={{client}}&as={{{{client}}}}", recorder.address);
    let words = ["-n", "3", "-c", "1", "-H", "X-Id: n{sequence}", "--body", "{\"n\":{sequence}}"];
    CommandOutput::run(bakeoff().args(["load", &url]).args(words)).ends_with(0);
    let messages = recorder.messages();
    for number in 0..3 {
        let line = format!("POST /a/{number}?by=0&as={{client}} HTTP/1.1\\r");
        let rest = format!("X-Id: n{number}\\r\nContent-Length: 7\\r\n\\r\n{{\"n\":{number}}}");
        assert!(messages.contains(&line) && messages.contains(&rest), "{messages}");
    }
}

#[test]
fn random_words_depend_on_the_seed() {
    let recorder = Recorder::start();
    let url = format!("http://{}/{{random:12}}", recorder.address);
    let sent = |seed: &str| -> BTreeSet<String> {
        let load = ["load", &url, "-n", "20", "-c", "2", "--seed", seed];
        let ran = CommandOutput::run(bakeoff().args(load)).ends_with(0);
        assert!(ran.stdout.contains(&format!("seed {seed}")), "{}", ran.stdout);
        let messages = recorder.messages();
        messages.lines().filter(|line| line.starts_with("GET /")).map(str::to_owned).collect()
    };
    let first = sent("7");
    assert_eq!(first.len(), 20, "{first:?}");
    assert_eq!(sent("7"), first);
    assert!(sent("8").is_disjoint(&first));
}

#[test]
fn unknown_words_in_braces_are_sent_with_a_warning() {
    let recorder = Recorder::start();
    let url = format!("http://{}/{{id}}/{{{{name}}}}", recorder.address);
    let load = ["load", &url, "-n", "2", "-c", "1", "--body", "{viewer{login}}"];
    CommandOutput::run(bakeoff().args(load)).ends_with(0).complains(&[
        "warning: `{id}` in the URL is an unknown word and is sent unchanged",
        "`{sequence}`, `{client}` and `{random:8}`",
    ]);
    let messages = recorder.messages();
    assert!(messages.contains("POST /{id}/{{name}} HTTP/1.1"), "{messages}");
    assert!(messages.contains("{viewer{login}}"), "{messages}");
}

#[test]
fn words_of_a_targets_file_are_filled_in() {
    let recorder = Recorder::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("GET http://{}/{{sequence}}\nX-Client: c{{client}}\n", recorder.address);
    std::fs::write(file.path(), text).unwrap();
    let targets = file.path().to_str().unwrap();
    CommandOutput::run(bakeoff().args(["load", "--targets", targets, "-n", "2", "-c", "1"]))
        .ends_with(0);
    let messages = recorder.messages();
    assert!(messages.contains("GET /0 ") && messages.contains("GET /1 "), "{messages}");
    assert!(messages.contains("X-Client: c0\\r"), "{messages}");
}

#[test]
fn rows_take_turns_and_are_escaped() {
    let recorder = Recorder::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "user\nann\n\"b \"\"b\"\n").unwrap();
    let rows = file.path().to_str().unwrap();
    let url = format!("http://{}/{{user}}", recorder.address);
    let load = |more: &[&str]| {
        let words = ["load", &url, "--rows", rows, "-n", "2", "-c", "1"];
        CommandOutput::run(bakeoff().args(words).args(more))
    };
    let ran = load(&["--body", "{\"user\": \"{user:json}\"}", "--json"]).ends_with(0);
    let messages = recorder.messages();
    assert!(messages.contains("POST /ann HTTP/1.1"), "{messages}");
    assert!(messages.contains("POST /b%20%22b HTTP/1.1"), "{messages}");
    assert!(messages.contains("{\"user\": \"b \\\"b\"}"), "{messages}");
    let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["settings"]["rows"]["file"], rows);
    schema::allow("load", &result);
    load(&["--body", "{usr:json}"]).ends_with(0).complains(&["`{usr:json}` in the body"]);
    std::fs::write(file.path(), "user\n\"a\nb\"\n").unwrap();
    load(&["-H", "X-User: {user}"]).ends_with(2).complains(&[
        "`--rows`: row 1 of the table holds a line break or control character in `user`",
    ]);
    std::fs::write(file.path(), "user,page\nann\n").unwrap();
    load(&[]).ends_with(2).complains(&["line 2 has 1 values"]);
}

#[test]
fn load_that_cannot_begin_prints_no_json() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(); // closed again
    let ran = CommandOutput::run(bakeoff().args(["load", &format!("http://{address}/"), "--json"]));
    let ran = ran.ends_with(4).complains(&["could not connect to `http://", "hint: "]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn load_with_more_clients_than_open_files_ends_with_5() {
    let canary = Canary::start("");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" load \"$@\""]).arg(bakeoff().get_program());
    limited.args([&canary.url("/health"), "-c", "100", "--json"]).stdin(Stdio::null());
    let ran = CommandOutput::run(&mut limited).ends_with(5).complains(&[
        "100 clients need 150 open files, and this process may have 64",
        "hint: raise the limit (`ulimit -Hn`), or use fewer clients",
    ]);
    assert_eq!(ran.stdout, "");
}
