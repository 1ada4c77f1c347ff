//! Reads a message and its nested messages. Fields that are written again must read the same.
#![no_main]

use bakeoff_wire::protobuf::{Fields, Value, bytes_len, put_bytes, put_uint, uint_len};
use libfuzzer_sys::fuzz_target;

fn read(message: &[u8], depth: usize) {
    for field in Fields::new(message) {
        match field {
            Ok((number, Value::Bytes(inner))) => {
                let mut out = Vec::new();
                put_bytes(&mut out, number, inner);
                assert_eq!(out.len(), bytes_len(number, inner.len()));
                assert_eq!(Fields::new(&out).next(), Some(Ok((number, Value::Bytes(inner)))));
                if depth > 0 {
                    read(inner, depth - 1);
                }
            }
            Ok((number, Value::Varint(value))) => {
                let mut out = Vec::new();
                put_uint(&mut out, number, value);
                assert_eq!(out.len(), uint_len(number, value));
                let again = Fields::new(&out).next();
                assert!(value == 0 || again == Some(Ok((number, Value::Varint(value)))));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fuzz_target!(|input: &[u8]| read(input, 4));
