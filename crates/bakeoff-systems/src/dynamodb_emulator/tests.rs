//! Runs the real emulator, if it can be installed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bakeoff_clock as clock;

use super::*;
use crate::running_system::{self};
use crate::testing::{program, study_system};

/// Returns the answer to one call of the API. The emulator does not verify the signature.
fn call(node: &Access, action: &str, json: &str) -> String {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.{action}\r\n\
         X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=a\r\n\r\n",
        node.authority,
        json.len(),
    );
    let mut socket = TcpStream::connect(node.target.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all([head.as_bytes(), json.as_bytes()].concat().as_slice()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

const TABLE: &str = r#"{"TableName": "vault", "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "Path", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "Path", "KeyType": "HASH"}]}"#;
const ITEM: &str =
    r#"{"TableName": "vault", "Item": {"Path": {"S": "a"}, "Value": {"S": "stored"}}}"#;
const KEY: &str = r#"{"TableName": "vault", "Key": {"Path": {"S": "a"}}}"#;

#[test]
fn stored_items_survive_a_kill_and_latency_delays_each_request() {
    let Some(program) = program(&DynamoDbEmulator, &[]) else { return };
    for latency in [None, Some("250ms")] {
        let options: Vec<_> =
            latency.map(|latency| (remote_service::OPTION, latency)).into_iter().collect();
        let asked_for = study_system("dynamodb-emulator", 1, &options);
        let running = running_system::start(&DynamoDbEmulator, &asked_for, Some(program.clone()));
        let nodes = running.ready.nodes.clone();
        assert_eq!(nodes.len(), 1 + options.len());
        let entrance = nodes.last().unwrap();
        assert!(call(entrance, "CreateTable", TABLE).contains(" 200 "));
        let deadline = clock::now() + Duration::from_secs(10);
        while !call(entrance, "DescribeTable", r#"{"TableName": "vault"}"#).contains("ACTIVE") {
            assert!(clock::now() < deadline, "the table was not made");
            std::thread::sleep(Duration::from_millis(20));
        }
        let put = call(entrance, "PutItem", ITEM);
        assert!(put.contains(" 200 "), "{put}");

        let running = running.killed_and_restarted();
        let began = clock::now();
        let read = call(entrance, "GetItem", KEY);
        let took = began.elapsed();
        assert!(read.contains(r#""Value":{"S":"stored"}"#), "{read}");
        assert_eq!(took >= Duration::from_millis(250), latency.is_some(), "{took:?}");
        running.stopped();
    }
}
