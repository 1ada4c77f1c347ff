//! Decodes one histogram, in a record's base64 form.
#![no_main]

use bakeoff_core::histogram::Latencies;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(read) = Latencies::decode(text, 0) {
        assert!(read.count() <= 1_000_000_000_000_000);
    }
});
