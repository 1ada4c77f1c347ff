//! Reads a message as each of etcd's answers. What was written must be read as it was.
#![no_main]

use bakeoff_wire::etcd::{self, Branch, TxnAnswer};
use bakeoff_wire::protobuf::Fields;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut keys = 0;
    etcd::read_range_response(input, |_, _| keys += 1).ok();
    etcd::read_streamed_range(input).ok();
    etcd::read_txn(input, |answer| {
        if let TxnAnswer::Range(range) = answer {
            etcd::read_range_response(range, |_, _| {}).ok();
        }
    })
    .ok();
    etcd::read_watch(input, |_, _| {}).ok();
    etcd::read_members(input).ok();
    etcd::read_status(input).ok();
    etcd::read_revision(input).ok();
    let mut out = Vec::new();
    etcd::write_txn_put(Branch::Then, input, input, &mut out);
    assert!(Fields::new(&out).all(|field| field.is_ok()));
    let end = etcd::prefix_end(input);
    assert!(end == etcd::TO_THE_LAST_KEY || end.as_slice() > input);
});
