//! Tests the program that this crate's tests launch servers with.

use std::process::Command;

#[test]
fn rejects_other_commands() {
    let program = env!("CARGO_BIN_EXE_bakeoff-host");
    let status = Command::new(program).arg("run").status().expect("it was built");
    assert_eq!(status.code(), Some(2));
}
