//! Decodes consecutive header blocks with one table; the first byte of each sets its length. Then encodes and decodes
//! the fields again.
#![no_main]

use bakeoff_wire::hpack::{Decoder, Encoder, HeaderBlock};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut decoder = Decoder::new(300, 2000);
    let mut encoder = Encoder::new(4096);
    let mut again = Decoder::new(4096, 100_000);
    let mut fields = HeaderBlock::new();
    let mut rest = input;
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        fields.clear();
        if decoder.decode(block, &mut fields).is_err() {
            return;
        }
        let mut block = Vec::new();
        if length % 8 == 0 {
            encoder.peer_allows(usize::from(length) * 2);
        }
        encoder.begin(&mut block);
        for (name, value) in fields.view().iter() {
            encoder.encode(name, value, &mut block);
        }
        let mut back = HeaderBlock::new();
        again.decode(&block, &mut back).unwrap();
        assert!(fields.view().iter().eq(back.view().iter()));
    }
});
