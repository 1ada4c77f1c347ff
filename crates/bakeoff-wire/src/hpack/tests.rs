//! Tests the rules of [`super`] one by one. The replays of real servers are in `tests/`.

use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn fields(block: &HeaderBlock) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    block.view().iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, ProtocolError> {
    let mut into = HeaderBlock::new();
    decoder.decode(block, &mut into).map(|()| fields(&into))
}

fn check(decoder: &mut Decoder, block: &str, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    assert_eq!(decode(decoder, &hex(block)), Ok(expected));
}

fn check_refused(block: &str, expected: &str) {
    let result = decode(&mut Decoder::new(4096, 1000), &hex(block));
    assert_eq!(result.unwrap_err().what, format!("hpack: {expected}"));
}

#[test]
fn requests_of_rfc_7541_appendix_c_4_are_decoded() {
    let mut decoder = Decoder::new(4096, 1000);
    let first = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ];
    check(&mut decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", &first);
    let mut second = first.to_vec();
    second.push(("cache-control", "no-cache"));
    check(&mut decoder, "8286 84be 5886 a8eb 1064 9cbf", &second);
    check(
        &mut decoder,
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        &[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ],
    );
}

#[test]
fn responses_of_rfc_7541_appendix_c_6_evict() {
    let mut decoder = Decoder::new(256, 1000);
    let date = "Mon, 21 Oct 2013 20:13:21 GMT";
    let location = "https://www.example.com";
    check(
        &mut decoder,
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        &[(":status", "302"), ("cache-control", "private"), ("date", date), ("location", location)],
    );
    check(
        &mut decoder,
        "4883 640e ffc1 c0bf",
        &[(":status", "307"), ("cache-control", "private"), ("date", date), ("location", location)],
    );
    check(
        &mut decoder,
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        &[
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", location),
            ("content-encoding", "gzip"),
            ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        ],
    );
}

#[test]
fn malformed_blocks_are_rejected() {
    check_refused("80", "index 0");
    check_refused("be", "an index beyond the table");
    check_refused("7f", "a truncated integer");
    check_refused("ff ffff ffff ff7f", "an integer that is too large");
    check_refused("40 05 61", "a truncated string");
    check_refused("82 20", "a table size update after a field");
    check_refused("3f e2 1f", "a table size update above what was allowed");
    check_refused("00 84 ffff ffff 00", "the end-of-string symbol in a Huffman string");
    check_refused("00 81 00 00", "wrong padding of a Huffman string");
    check_refused("00 82 ffff 00", "wrong padding of a Huffman string");
}

#[test]
fn header_list_above_the_limit_is_rejected() {
    let mut block = Vec::new();
    literal(&mut block, 0x40, 6, b"a", &[b'x'; 400]);
    block.extend([0xbe; 2]);
    let result = decode(&mut Decoder::new(4096, 1000), &block);
    assert_eq!(result.unwrap_err().what, "hpack: header list larger than the limit");
}

#[test]
fn repeated_field_costs_one_byte() {
    let mut encoder = Encoder::new(4096);
    let mut first = Vec::new();
    encoder.encode(b"te", b"trailers", &mut first);
    assert_eq!(first.len(), 1 + 1 + 2 + 1 + 8);
    let mut second = Vec::new();
    encoder.encode(b"te", b"trailers", &mut second);
    assert_eq!(second, [0x80 | 62]);
}

#[test]
fn field_that_does_not_fit_is_always_a_literal() {
    let mut encoder = Encoder::new(100);
    let mut decoder = Decoder::new(4096, 1000);
    for _ in 0..3 {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.encode(b"a", b"1", &mut block);
        encoder.encode(b"b", &[b'x'; 100], &mut block);
        assert_eq!(decode(&mut decoder, &block).unwrap().len(), 2);
    }
}

#[test]
fn smaller_table_is_announced_once_and_starts_empty() {
    let mut encoder = Encoder::new(4096);
    let mut decoder = Decoder::new(4096, 1000);
    let mut lengths = Vec::new();
    for round in 0..4 {
        if round == 2 {
            encoder.peer_allows(64);
        }
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.encode(b"a", b"1", &mut block);
        assert_eq!(decode(&mut decoder, &block).unwrap(), [("a".into(), "1".into())]);
        lengths.push(block.len());
    }
    assert_eq!(lengths, [5, 1, 8, 1]);
}

proptest! {
    #[test]
    fn table_holds_the_newest_fields_that_fit(
        values in proptest::collection::vec("[a-z]{0,40}", 1..60), limit in 40usize..300,
    ) {
        let mut decoder = Decoder::new(limit, 100_000);
        let mut held: Vec<String> = Vec::new();
        for value in values {
            let mut block = Vec::new();
            literal(&mut block, 0x40, 6, b"x", value.as_bytes());
            prop_assert!(decode(&mut decoder, &block).is_ok());
            held.insert(0, value);
            let mut size = 0;
            let fits = |value: &String| {
                size += 1 + value.len() + ENTRY_OVERHEAD;
                size <= limit
            };
            held = held.into_iter().take_while(fits).collect();
            let indices: Vec<u8> = (0..held.len()).map(|at| 0x80 | (62 + at) as u8).collect();
            let fields = decode(&mut decoder, &indices).unwrap();
            prop_assert!(fields.iter().map(|(_, value)| value).eq(&held));
            prop_assert!(decode(&mut decoder, &[0x80 | (62 + held.len()) as u8]).is_err());
        }
    }

    #[test]
    fn huffman_text_decodes_to_itself(text: Vec<u8>) {
        let mut coded = Vec::new();
        huffman_encode(&text, &mut coded);
        let mut back = Vec::new();
        prop_assert_eq!(huffman_decode(&coded, &mut back), Ok(()));
        prop_assert_eq!(back, text);
    }

    #[test]
    fn decoder_reads_the_encoders_output(
        blocks in proptest::collection::vec(
            proptest::collection::vec(("[a-d]{1,2}", "[a-c]{0,30}", any::<bool>()), 0..6), 0..20),
        sizes in proptest::collection::vec(0usize..300, 20),
    ) {
        let mut encoder = Encoder::new(4096);
        let mut decoder = Decoder::new(4096, 100_000);
        for (fields, size) in blocks.iter().zip(sizes) {
            if size < 200 {
                encoder.peer_allows(size);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value, again) in fields {
                if *again {
                    encoder.encode(name.as_bytes(), value.as_bytes(), &mut block);
                } else {
                    encoder.encode_once(name.as_bytes(), value.as_bytes(), &mut block);
                }
            }
            let expected: Vec<_> =
                fields.iter().map(|(n, v, _)| (n.clone(), v.clone())).collect();
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
        }
    }

    #[test]
    fn arbitrary_blocks_never_panic(blocks: Vec<Vec<u8>>) {
        let mut decoder = Decoder::new(100, 1000);
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            prop_assert!(decoder.table.size <= 100);
            prop_assert!(decoder.table.bytes.len() <= 200);
        }
    }
}
