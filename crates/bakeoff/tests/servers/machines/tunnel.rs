//! Tests runs whose coordinator reaches only `sshd` on the hosts, not the addresses of their servers.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{command, left_on, run, run_folder, text, trials};
use crate::support::SMALL_ETCD;
use crate::support::hosts::Hosts;

const ALL: [usize; 5] = [1, 2, 3, 4, 5];

/// Runs a study of three nodes and two generators on five hosts.
pub(super) fn sets_up_servers_that_are_not_reached(hosts: &Hosts) {
    hosts.join_inner_network();
    let places = hosts.places_at(&[1, 2, 3], &[4, 5], Hosts::inner_address);
    let auto = fs::read_to_string(&places).unwrap();
    let with = |words: &str| fs::write(&places, format!("{auto}{words}\n")).unwrap();

    // Without the tunnel, the run is rejected before anything starts.
    with("tunnel: never");
    let refused = run(hosts, SMALL_ETCD, &places, &[]);
    let output = text(&refused);
    assert_eq!(refused.status.code(), Some(4), "{output}");
    let wanted =
        "cannot connect to servers on `h1`, `h2` and `h3`, and the places file has `tunnel: never`";
    assert!(output.contains(wanted) && output.contains("198.19.0.1 of `h1`: Network"), "{output}");
    assert!(!hosts.dir().join("runs").exists(), "{output}");

    let doctor = |places: &std::path::Path| {
        let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
        text(&command.arg("doctor").arg("--on").arg(places).output().unwrap())
    };
    let output = doctor(&places);
    assert!(
        output.contains("a direct connection from this machine to 198.19.0.1: Network"),
        "{output}"
    );

    // A load does not go through the tunnel either.
    let here = "  me: {here: true, address: 198.18.0.254, generator: true}\n";
    fs::write(&places, auto.replace("machines:\n", &format!("machines:\n{here}"))).unwrap();
    let refused = run(hosts, SMALL_ETCD, &places, &[]);
    let output = text(&refused);
    assert_eq!(refused.status.code(), Some(4), "{output}");
    assert!(output.contains("`me`, this machine, generates load but cannot connect"), "{output}");
    assert!(output.contains("hint: a load never uses a tunnel"), "{output}");

    with("");
    let ended = run(hosts, SMALL_ETCD, &places, &[]);
    // 1 means not valid, which a shared machine causes at times.
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", text(&ended));
    let trial = &trials(hosts)[0];
    let generated = &trial["machines"][3]["generated"][0];
    assert!(generated["verified"].as_u64() > Some(100), "{generated}");
    let folder = run_folder(hosts);
    let record = fs::read_to_string(folder.join("record.jsonl")).unwrap();
    let header: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    let machines = header["environment"]["machines"].as_array().unwrap();
    let through: Vec<_> = machines.iter().map(|machine| machine["tunnel"] == true).collect();
    assert_eq!(through, [true, true, true, false, false]);
    let report = fs::read_to_string(folder.join("report.md")).unwrap();
    let said = "set up the servers on h1, h2 and h3 through a tunnel: times until ready include";
    assert!(report.contains(said), "{report}");
    assert_eq!(left_on(hosts, &ALL), Vec::<String>::new());

    // The tunnels of a killed coordinator end with it.
    let mut command = command(hosts, SMALL_ETCD, &places);
    let mut bakeoff = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while hosts.connections_with_itself(1) == 0 {
        assert!(Instant::now() < until, "no connection of a tunnel was seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    bakeoff.kill().unwrap();
    bakeoff.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        let left = left_on(hosts, &ALL);
        let open = hosts.connections_with_itself(1);
        if left.is_empty() && open == 0 {
            return;
        }
        assert!(Instant::now() < until, "{open} connections, {left:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
