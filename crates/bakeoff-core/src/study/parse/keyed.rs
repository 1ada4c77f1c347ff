//! Parses the keys and values of a workload: number, size, order.
//!
//! Not here: operations and their mix (`workloads`), limits of a system (`combine`).

use std::collections::BTreeMap;

use super::Scope;
use crate::study::fields::{self, ORDERS, VALUE_SIZE, VALUE_SIZE_MAX};
use crate::study::reading::{Fields, size, word};
use crate::study::tree::{DiagnosticSink, Value};
use crate::study::{KeyOrder, Keys, Operation, ValueSizes};
use crate::units::{ByteCount, plural, shown};
use crate::workload::{DIRECTORY_SIZE, KEY_SIZE_USUAL, VALUE_SIZE_MIN, bare_size};

/// Default exponent of Zipf's law, as in YCSB.
const EXPONENT: f64 = 0.99;
/// Default shares of a hotspot, as in YCSB.
const HOTSPOT: KeyOrder = KeyOrder::Hotspot { keys: 0.2, operations: 0.8 };
/// Default keys per directory if a mix has `list`.
const PER_DIRECTORY: u64 = 100;
/// Maximum number of sizes in a list or a file.
const SIZES_MAX: usize = 10_000;

/// Parses a workload's `keys`.
pub(super) fn keys(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    mix: Option<&BTreeMap<Operation, u32>>,
    workload: &str,
) -> Option<Keys> {
    let count = fields.whole(sink, "count");
    let size = fields.size(sink, "size");
    let order = order(sink, fields);
    let lists = mix.is_some_and(|mix| mix.contains_key(&Operation::List));
    let per_directory = match fields.node("per-directory") {
        Some(_) => fields.whole(sink, "per-directory"),
        None => Some(if lists { PER_DIRECTORY } else { 0 }),
    };
    if lists && per_directory == Some(0) {
        let what =
            format!("workload `{}` has `list` in its mix and no directories", shown(workload));
        let hint = "`list` returns the keys of one directory; write `per-directory: 100`";
        sink.hint(fields.value_at("per-directory"), what, hint);
    }
    let least = KEY_SIZE_USUAL + DIRECTORY_SIZE;
    if let (Some(size), Some(1..)) = (size, per_directory)
        && size < least
    {
        let what = format!("keys of {size} bytes are too short to have directories");
        sink.hint(fields.value_at("size"), what, format!("write `size: {least}` or more"));
    } else if let (Some(size), Some(count)) = (size, count)
        && size < bare_size(count)
    {
        let names = 1_u64 << (5 * size).min(63);
        let bytes = plural(size, "byte");
        let what = format!("keys of {bytes} have {names} names, and there are {count} keys");
        let hint = format!("write `size: {}` or more", bare_size(count));
        sink.hint(fields.value_at("size"), what, hint);
    }
    Some(Keys { count: count?, size: size?, order: order?, per_directory: per_directory? })
}

fn order(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<KeyOrder> {
    let Some(node) = fields.node("order") else { return Some(KeyOrder::Uniform) };
    if let Value::Map(_) = node.value {
        let at = fields.key_at("order");
        let own = Fields::open(sink, &fields::ORDER, "the key order", at, node)?;
        return own_order(sink, &own);
    }
    let orders = [
        KeyOrder::Sequential,
        KeyOrder::Unique,
        KeyOrder::Uniform,
        KeyOrder::Zipfian { exponent: EXPONENT },
        HOTSPOT,
        KeyOrder::Latest { exponent: EXPONENT },
        KeyOrder::Same,
    ];
    orders.get(word(sink, "order", ORDERS, node)?).copied()
}

/// Parses an order with parameters. Exactly one is allowed.
fn own_order(sink: &mut DiagnosticSink<'_>, own: &Fields<'_>) -> Option<KeyOrder> {
    let hint = "write `order: {zipfian: 1.2}`, `{latest: 1.2}` or `{hotspot: {keys: 10%}}`";
    let given = ["zipfian", "latest", "hotspot"].map(|name| own.node(name).is_some());
    match given {
        [true, false, false] => {
            own.number(sink, "zipfian").map(|exponent| KeyOrder::Zipfian { exponent })
        }
        [false, true, false] => {
            own.number(sink, "latest").map(|exponent| KeyOrder::Latest { exponent })
        }
        [false, false, true] => {
            let shares = own.table(sink, "hotspot")?;
            let (keys, operations) = (shares.share(sink, "keys"), shares.share(sink, "operations"));
            if keys == Some(0.0) {
                let what = "a hotspot of no keys takes no operations".to_owned();
                sink.hint(shares.value_at("keys"), what, "write `keys: 20%`");
                return None;
            }
            Some(KeyOrder::Hotspot { keys: keys?, operations: operations? })
        }
        _ => {
            let said = given.iter().filter(|&&given| given).count();
            let what =
                format!("the key order has {}", if said == 0 { "no law" } else { "several laws" });
            sink.hint(&own.at, what, hint);
            None
        }
    }
}

/// Parses the sizes of `values`.
pub(super) fn value_sizes(
    sink: &mut DiagnosticSink<'_>,
    values: &Fields<'_>,
    scope: Scope<'_>,
) -> Option<ValueSizes> {
    let Some(node) = values.node("size") else {
        return values.size(sink, "size").map(ValueSizes::Fixed);
    };
    match &node.value {
        Value::Map(_) => {
            let own = Fields::open(
                sink,
                &fields::SIZES,
                "the size of values",
                values.key_at("size"),
                node,
            )?;
            own_sizes(sink, &own, scope)
        }
        Value::List(_) => {
            let items = values.list(sink, "size")?;
            if items.len() > SIZES_MAX {
                let what = format!("`size` lists {} sizes; at most {SIZES_MAX}", items.len());
                sink.add(&node.at, what);
                return None;
            }
            let sizes = items.iter().map(|item| size(sink, "size", &VALUE_SIZE, item));
            listed(sizes.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?)
        }
        _ => size(sink, "size", &VALUE_SIZE, node).map(ValueSizes::Fixed),
    }
}

/// Converts a list of sizes; a list of one is that size.
fn listed(sizes: Vec<u64>) -> Option<ValueSizes> {
    match sizes[..] {
        [] => None,
        [size] => Some(ValueSizes::Fixed(size)),
        _ => Some(ValueSizes::Listed(sizes)),
    }
}

/// Parses a range of sizes, or a file of samples.
fn own_sizes(
    sink: &mut DiagnosticSink<'_>,
    own: &Fields<'_>,
    scope: Scope<'_>,
) -> Option<ValueSizes> {
    let hint = "write `size: {from: 100, to: 10KiB}` or `size: {file: sizes.txt}`";
    match ["from", "to", "file"].map(|name| own.node(name).is_some()) {
        [true, true, false] => {
            let (from, to) = (own.size(sink, "from"), own.size(sink, "to"));
            let (from, to) = (from?, to?);
            if from > to {
                let what = format!("the smallest size, {from} bytes, is above the largest, {to}");
                sink.hint(own.value_at("from"), what, "write the smaller one as `from`");
                return None;
            }
            Some(ValueSizes::Range { from, to })
        }
        [false, false, true] => samples(sink, own, scope),
        _ => {
            let what = "the size of values is neither a range nor a file".to_owned();
            sink.hint(&own.at, what, hint);
            None
        }
    }
}

/// Parses a file of samples: one size a line, `#` before a comment. The sizes become part of the study.
fn samples(
    sink: &mut DiagnosticSink<'_>,
    own: &Fields<'_>,
    scope: Scope<'_>,
) -> Option<ValueSizes> {
    let path = own.text(sink, "file")?;
    let at = own.value_at("file");
    let text = match scope.surroundings.text(&path) {
        Ok(Some(text)) => text,
        // If files are not checked, only the form of the study matters.
        Ok(None) => {
            return Fields::absent(&fields::VALUES).size(sink, "size").map(ValueSizes::Fixed);
        }
        Err(why) => {
            let what = format!("cannot read `{}`: {why}", shown(&path));
            sink.hint(at, what, "write its path from the folder that bakeoff is started in");
            return None;
        }
    };
    let mut sizes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if sizes.len() == SIZES_MAX {
            let what = format!("`{}` has more than {SIZES_MAX} sizes", shown(&path));
            sink.hint(at, what, "draw that many samples of them");
            return None;
        }
        let read = line.parse::<ByteCount>().map(|ByteCount(bytes)| bytes);
        match read {
            Ok(size) if (VALUE_SIZE_MIN..=VALUE_SIZE_MAX).contains(&size) => sizes.push(size),
            _ => {
                let (least, most) = (ByteCount(VALUE_SIZE_MIN), ByteCount(VALUE_SIZE_MAX));
                let place = format!("line {} of `{}`", number + 1, shown(&path));
                let what =
                    format!("`{}` in {place} is no size from {least} to {most}", shown(line));
                sink.hint(at, what, "write one size a line: `4KiB`");
                return None;
            }
        }
    }
    if sizes.is_empty() {
        sink.hint(at, format!("`{}` has no sizes", shown(&path)), "write one size a line: `4KiB`");
    }
    listed(sizes)
}
