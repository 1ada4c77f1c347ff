//! Parses admin answers of Envoy 1.36.2.

use serde_json::json;

use super::*;

const NEVER: &str = "cluster_manager.cds.update_attempt: 1\ncluster_manager.cds.update_rejected: 0\n\
                     cluster_manager.cds.update_success: 0\ncontrol_plane.connected_state: 0\n\
                     listener_manager.lds.update_attempt: 0\nlistener_manager.lds.version_text: \"\"\n";

#[test]
fn counters_show_received_configuration() {
    assert_eq!(counted(NEVER), ConfigCounters::default());
    assert_eq!(
        counted(NEVER).to_string(),
        "no control plane is connected, clusters were sent 0 times and listeners 0 times"
    );
    let refused = NEVER.replace("connected_state: 0", "connected_state: 1")
        + "cluster_manager.cds.update_success: 2\nlistener_manager.lds.update_rejected: 3\n";
    let sent = ConfigCounters { why: Some("too long".into()), ..counted(&refused) };
    assert_eq!(
        sent.to_string(),
        "its control plane is connected, clusters were sent 2 times and listeners 3 times (3 \
         refused): too long"
    );
    for rubbish in ["", "x", ": \n:", "control_plane.connected_state: -1"] {
        assert_eq!(counted(rubbish), ConfigCounters::default(), "{rubbish}");
    }
}

#[test]
fn finds_a_listener_by_its_port() {
    let listeners = json!({"listener_statuses": [
        {"name": "public", "local_address": {"pipe": {"path": "x"}}},
        {"name": "public", "local_address": {"socket_address": {
            "address": "127.0.0.1", "port_value": 17001,
        }}},
    ]});
    assert!(listens(&listeners, 17001) && !listens(&listeners, 17002));
    assert!(!listens(&json!({}), 17001) && !listens(&json!([1]), 1));
}

#[test]
fn finds_the_rejection_reason_at_any_depth() {
    let dump = json!({"configs": [{"clusters": []}, {"dynamic_listeners": [
        {"name": "a", "active_state": {}},
        {"name": "b", "error_state": {"details": "RE2 program size of 125 > max program size"}},
    ]}]});
    let found = refused(&dump.to_string());
    assert_eq!(found.as_deref(), Some("RE2 program size of 125 > max program size"));
    assert_eq!(refused("{\"configs\": []}"), None);
    assert_eq!(refused("no JSON"), None);
}

#[test]
fn tcp_listener_takes_no_requests() {
    let listener = |kind: &str| {
        let kind = format!("type.googleapis.com/envoy.extensions.filters.network.{kind}");
        json!({
            "name": "public_listener",
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 17001}},
            "filter_chains": [{"filters": [
                {"name": "rbac", "typed_config": {"@type": "rbac.v3.RBAC"}},
                {"name": "last", "typed_config": {"@type": kind}},
            ]}],
        })
    };
    let requests = listener("http_connection_manager.v3.HttpConnectionManager");
    assert!(takes_requests(&requests, 17001) && !takes_requests(&requests, 17002));
    assert!(!takes_requests(&listener("tcp_proxy.v3.TcpProxy"), 17001));
    assert!(!takes_requests(&json!({}), 17001));
}

#[test]
fn warming_configuration_is_not_active() {
    let dump = json!({"configs": [
        {"name": "a", "active_state": {"version_info": "1", "listener": {"name": "a"}}},
        {"name": "b", "warming_state": {"listener": {"name": "b"}}},
    ]});
    assert_eq!(in_force(&dump, LISTENERS), [json!({"name": "a"})]);
    assert_eq!(in_force(&json!({}), LISTENERS), [Value::Null; 0]);
}

#[test]
fn no_admin_answer_panics() {
    let stats: &[u8] =
        b"cluster_manager.cds.update_success: 3\ncluster_manager.cds.update_rejected: 1\n\
        listener_manager.lds.update_success: 2\ncontrol_plane.connected_state: 1\n";
    let dump: &[u8] = br#"{"configs":[{"dynamic_listeners":[{"error_state":{"details":"no"}}]}]}"#;
    let pieces = [": ", "18446744073709551615", "error_state", "[[[[", "{", "null", "\n"];
    bakeoff_fuzz::run("envoy", &[stats, dump], &pieces, |input| {
        let text = String::from_utf8_lossy(input);
        let _ = counted(&text).to_string();
        refused(&text);
    });
}
