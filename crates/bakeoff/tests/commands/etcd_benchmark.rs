//! Tests `bakeoff etcd-benchmark` against servers that do not answer, and its command line.
//!
//! Not here: a real etcd and etcd's own benchmark (`servers`).

use std::io::Read as _;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{CommandOutput, bakeoff};

/// Runs it with `--dial-timeout=1s`, and returns how long it took.
fn run(endpoint: &str, words: &str) -> (CommandOutput, Duration) {
    let began = Instant::now();
    let mut command = bakeoff();
    command.args(["etcd-benchmark", &format!("--endpoints={endpoint}"), "--dial-timeout=1s"]);
    let ran = CommandOutput::run(command.args(words.split(' ')).env_remove("BAKEOFF_USER"));
    (ran, began.elapsed())
}

#[track_caller]
fn check_refused(endpoint: &str, words: &str, code: i32, parts: &[&str]) {
    let (ran, took) = run(endpoint, words);
    let ran = ran.ends_with(code);
    for part in parts {
        assert!(ran.stderr.contains(part), "`{part}` is missing:\n{}", ran.stderr);
    }
    assert!(took < Duration::from_secs(4), "it took {took:?}");
}

#[test]
fn endpoint_that_refuses_connections_is_named_within_the_dial_timeout() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    check_refused(&address, "put", 4, &["could not connect to", &address, "refused"]);
}

#[test]
fn endpoint_that_accepts_and_says_nothing_is_named_within_the_dial_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let held: Vec<_> = listener.incoming().collect();
        drop(held);
    });
    for words in ["put", "--user=root:of-the-root range a", "--target-leader txn-put"] {
        check_refused(&address, words, 4, &["could not connect a client to", &address]);
    }
    let secure = format!("https://{address}");
    check_refused(
        &secure,
        "--insecure-skip-tls-verify put",
        4,
        &["could not agree on TLS", &address],
    );
}

#[test]
fn endpoint_that_speaks_another_protocol_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = socket.read(&mut [0; 1024]);
                let _ = std::io::Write::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            });
        }
    });
    check_refused(&address, "put", 4, &["could not connect a client to", &address]);
}

#[test]
fn invalid_command_lines_are_refused_before_anything_is_sent() {
    for (words, part) in [
        ("mvcc put", "etcd's storage library"),
        ("stm --stm-locker=lock-rpc", "locks around transactions are not built yet"),
        (
            "put --keysize=8",
            "unknown flag `--keysize`; `etcd-benchmark put --help` lists the flags",
        ),
        ("put --key-size=1 --key-space-size=1000", "the number of a key takes 2 bytes"),
        ("put --cacert=/nowhere/ca.pem", "`/nowhere/ca.pem` cannot be used for TLS"),
        ("range", "`range` needs a key"),
    ] {
        check_refused("127.0.0.1:1", words, 2, &["error: ", part]);
    }
    check_refused("http://127.0.0.1:1/v3", "put", 2, &["invalid endpoint", "hint: write it as"]);
}

#[test]
fn help_lists_the_commands_and_the_flags_of_one() {
    let help = |words: &[&str]| {
        let ran = CommandOutput::run(bakeoff().arg("etcd-benchmark").args(words)).ends_with(0);
        ran.stdout
    };
    let all = help(&["--help"]);
    for part in
        ["Usage: bakeoff etcd-benchmark COMMAND [flags]", "  txn-mixed ", "--report-perfdash"]
    {
        assert!(all.contains(part), "{all}");
    }
    assert_eq!(help(&[]), all);
    let put = help(&["put", "-h"]);
    assert!(put.contains("--compact-index-delta N ") && put.contains("[default: 1000]"), "{put}");
    assert!(put.lines().all(|line| line.chars().count() <= 120), "{put}");
}
