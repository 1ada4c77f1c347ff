//! Runs the real emulator, if it can be installed.

use std::time::Duration;

use bakeoff_clock as clock;

use super::*;
use crate::running_system::{self};
use crate::testing::{program, study_system};

#[test]
fn stored_objects_survive_a_kill_and_latency_delays_each_request() {
    let Some(program) = program(&GcsEmulator, &[]) else { return };
    for latency in [None, Some("150ms")] {
        let options: Vec<_> =
            latency.map(|latency| (remote_service::OPTION, latency)).into_iter().collect();
        let asked_for = study_system("gcs-emulator", 1, &options);
        let running = running_system::start(&GcsEmulator, &asked_for, Some(program.clone()));
        let nodes = running.ready.nodes.clone();
        assert_eq!(nodes.len(), 1 + options.len());
        let entrance = nodes.last().unwrap();
        make_bucket(entrance, "vault").unwrap();
        make_bucket(entrance, "vault").unwrap();
        let upload = "/upload/storage/v1/b/vault/o?uploadType=media&name=a%2Fb";
        let body = serde_json::json!("stored");
        let asked =
            Question { method: "POST", target: upload, body: Some(&body), ..Question::default() };
        let reply = question(entrance, &asked).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        // The answer holds the address for later requests.
        assert!(reply.body.contains(&entrance.authority), "{}", reply.body);

        let running = running.killed_and_restarted();
        let began = clock::now();
        let read = ask(entrance, "GET", "/storage/v1/b/vault/o/a%2Fb?alt=media").unwrap();
        let took = began.elapsed();
        assert_eq!(read, (200, "\"stored\"".to_owned()));
        let far = took >= Duration::from_millis(150);
        assert_eq!(far, latency.is_some(), "{took:?}");
        running.stopped();
    }
}
