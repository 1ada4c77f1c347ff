//! Declares the fields of a workload's keys and values.
//!
//! Not here: their combined meaning (`parse`).

use super::COUNT;
use crate::study::field::{Form, Table, always, default, maybe};
use crate::workload::VALUE_SIZE_MIN;

pub(in crate::study) static KEYS: Table = Table {
    name: "keys",
    meaning: "Keys of a workload.",
    one_of: &[],
    fields: &[
        always("count", COUNT, "10000", "Number of different keys."),
        default(
            "size",
            Form::Size { min: 1, max: 65536 },
            "64",
            "Length of each key in bytes. Keys below 24 bytes have fewer digits. bakeoff rejects a size \
             that is too short for `count`.",
        ),
        default(
            "order",
            Form::Either(&[Form::Word(ORDERS), Form::Table(&ORDER)]),
            "uniform",
            "Order in which operations use the keys.",
        ),
        maybe(
            "per-directory",
            Form::Whole { min: 0, max: 1_000_000 },
            "100",
            "Number of keys in a directory, and so in the result of one `list`; 0 for no directories. By default 100 \
             if the mix has `list`, else 0.",
        ),
    ],
};

/// Orders that are a single word.
pub(in crate::study) const ORDERS: &[&str] =
    &["sequential", "unique", "uniform", "zipfian", "hotspot", "latest", "same"];

/// Exponent of Zipf's law.
const EXPONENT: Form = Form::Number { min: 0.0, from_min: false, max: 10.0 };

pub(in crate::study) static ORDER: Table = Table {
    name: "order",
    meaning: "An order with parameters.",
    one_of: &[&["zipfian"], &["latest"], &["hotspot"]],
    fields: &[
        maybe(
            "zipfian",
            EXPONENT,
            "1.2",
            "Exponent: the n-th most popular key has weight n^-exponent. The word alone means 0.99.",
        ),
        maybe(
            "latest",
            EXPONENT,
            "0.99",
            "Exponent: writes use the keys in turn, and other operations use the n-th latest key with weight \
             n^-exponent. The word alone means 0.99.",
        ),
        maybe(
            "hotspot",
            Form::Table(&HOTSPOT),
            "{keys: 20%, operations: 80%}",
            "A few keys take most of the operations.",
        ),
    ],
};

static HOTSPOT: Table = Table {
    name: "hotspot",
    meaning: "A few keys that take most of the operations, in equal shares.",
    one_of: &[],
    fields: &[
        default("keys", Form::Share, "20%", "Share of keys that are hot."),
        default("operations", Form::Share, "80%", "Share of operations on hot keys."),
    ],
};

/// Maximum size of a value in bytes.
pub(in crate::study) const VALUE_SIZE_MAX: u64 = 1 << 30;
/// Size of one value.
pub(in crate::study) const VALUE_SIZE: Form =
    Form::Size { min: VALUE_SIZE_MIN, max: VALUE_SIZE_MAX };

pub(in crate::study) static VALUES: Table = Table {
    name: "values",
    meaning: "Values that a workload writes.",
    one_of: &[],
    fields: &[default(
        "size",
        Form::Either(&[VALUE_SIZE, Form::List(&VALUE_SIZE), Form::Table(&SIZES)]),
        "256",
        "Size of each value in bytes: one size, or a list or range from which each write draws one.",
    )],
};

pub(in crate::study) static SIZES: Table = Table {
    name: "sizes",
    meaning: "Sizes from which each write draws one, all equally likely.",
    one_of: &[&["from", "to"], &["file"]],
    fields: &[
        maybe("from", VALUE_SIZE, "100", "Smallest size."),
        maybe("to", VALUE_SIZE, "10KiB", "Largest size."),
        maybe(
            "file",
            Form::Text,
            "sizes.txt",
            "File of samples, with one size per line. The study's record holds the samples.",
        ),
    ],
};
