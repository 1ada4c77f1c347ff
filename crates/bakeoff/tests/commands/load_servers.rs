//! Tests `bakeoff load` with several URLs, on one server and on several.
//!
//! Not here: a load of one URL (`load`), the format of targets files (`commands::load::targets`).

use crate::load::{load, of_requests, result};
use crate::support::canary::Canary;

#[test]
fn several_urls_take_turns() {
    let canary = Canary::with_value("");
    let urls = [canary.url("/kv/key"), canary.url("/health")];
    let shown = load(&[&urls[0], &urls[1], "-n", "100", "-c", "2"]).stdout;
    for url in &urls {
        let row = shown.lines().find(|line| line.starts_with(&format!("GET {url} ")));
        let cells: Vec<&str> = row.unwrap_or(&shown).split_whitespace().collect();
        assert_eq!(cells[3], "50", "{shown}");
    }
}

#[test]
fn reports_a_server_without_clients() {
    let (one, other) = (Canary::with_value(""), Canary::with_value(""));
    let urls = [one.url("/health"), other.url("/health")];
    let weights = [&*urls[0], &urls[1], "--weights", "1,8", "-c", "1", "-n", "9"];
    // The only client of a closed load requests both.
    let ran = load(&weights).ends_with(0);
    let rows: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("GET ")).collect();
    let asked: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().nth(3)).collect();
    assert_eq!(asked, ["1", "8"], "{}", ran.stdout);
    let ran = load(&[&weights[..], &["--rate", "100"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("none of 1 clients falls to"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: give 5 clients or more"), "{}", ran.stderr);
}

#[test]
fn weights_hold_even_if_one_server_is_slow() {
    let (quick, slow) = (Canary::with_value(""), Canary::with_value("--delay 20ms"));
    let urls = [quick.url("/kv/key"), slow.url("/kv/key")];
    let load = ["--weights", "3,1", "-c", "8", "--for", "1s", "--warmup", "200ms"];
    let (result, _) = result(&[&[&*urls[0], &urls[1]], &load[..]].concat());
    let asked = of_requests(&result, "requests");
    // Each client may have an operation across each end of the window.
    assert!(asked[1] > 50 && asked[0].abs_diff(3 * asked[1]) <= 4 * 8, "{asked:?}");
    assert_eq!(result["settings"]["clients"], 8);
}
