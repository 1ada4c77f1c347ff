//! Feeds any bytes to the parser of metrics.
#![no_main]

use bakeoff_wire::prometheus::samples;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for sample in samples(input).flatten() {
        assert!(!sample.name.is_empty());
        sample.label("mode");
    }
});
