//! Writes packets and the entries of their bodies.
//!
//! Not here: the content of each request (`iproto`).

use super::{KEY_SYNC, KEY_TYPE, SyncId};
use crate::msgpack::{self, Value};

/// Writes a packet: its length in five bytes, its header, and the body from `write`.
pub(super) fn framed(kind: u64, sync: SyncId, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0xce, 0, 0, 0, 0]);
    msgpack::put_map(2, out);
    for (key, value) in [(KEY_TYPE, kind), (KEY_SYNC, sync.number())] {
        msgpack::put_unsigned(key, out);
        msgpack::put_unsigned(value, out);
    }
    write(out);
    let length = (out.len() - begin - 5) as u32;
    if let Some(place) = out.get_mut(begin + 1..begin + 5) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

pub(super) fn put_number(key: u64, number: u32, out: &mut Vec<u8>) {
    msgpack::put_unsigned(key, out);
    msgpack::put_unsigned(number.into(), out);
}

pub(super) fn put_text(key: u64, text: &str, out: &mut Vec<u8>) {
    msgpack::put_unsigned(key, out);
    msgpack::put_text(text.as_bytes(), out);
}

pub(super) fn put_list(key: u64, values: &[Value<'_>], out: &mut Vec<u8>) {
    msgpack::put_unsigned(key, out);
    msgpack::put_array(values.len() as u32, out);
    values.iter().for_each(|value| msgpack::put(value, out));
}
