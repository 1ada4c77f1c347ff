//! The program that this crate's tests launch servers with.

use std::process::Command;

#[test]
fn refuses_what_is_no_internal_command() {
    let program = env!("CARGO_BIN_EXE_bakeoff-host");
    let status = Command::new(program).arg("run").status().expect("it was built");
    assert_eq!(status.code(), Some(2));
}
