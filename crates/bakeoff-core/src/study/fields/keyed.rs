//! Declares the fields of a workload's keys and values.
//!
//! Not here: their combined meaning (`parse`).

use super::{COUNT, Form, Table, always, default, maybe};
use crate::workload::VALUE_SIZE_MIN;

pub(in crate::study) static KEYS: Table = Table {
    name: "keys",
    meaning: "Which keys a workload touches.",
    one_of: &[],
    fields: &[
        always("count", COUNT, "10000", "How many different ones."),
        default(
            "size",
            Form::Size { min: 1, max: 65536 },
            "64",
            "Length of each key in bytes. Below 24 they have fewer digits; too short for their count is refused.",
        ),
        default(
            "order",
            Form::Either(&[Form::Word(ORDERS), Form::Table(&ORDER)]),
            "uniform",
            "In which order they are touched.",
        ),
        maybe(
            "per-directory",
            Form::Whole { min: 0, max: 1_000_000 },
            "100",
            "How many keys share a directory, which is what one `list` returns; 0 for no directories. By default 100 when the mix has `list`, else 0.",
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
    meaning: "An order with figures of its own.",
    one_of: &[&["zipfian"], &["latest"], &["hotspot"]],
    fields: &[
        maybe(
            "zipfian",
            EXPONENT,
            "1.2",
            "The exponent: the n-th most popular key has weight n^-exponent; 0.99 when the word stands alone.",
        ),
        maybe(
            "latest",
            EXPONENT,
            "0.99",
            "Writes go through the keys in turn; others ask for the n-th latest with weight n^-exponent. 0.99 when the word stands alone.",
        ),
        maybe(
            "hotspot",
            Form::Table(&HOTSPOT),
            "{keys: 20%, operations: 80%}",
            "Few keys take most of the operations.",
        ),
    ],
};

pub(in crate::study) static HOTSPOT: Table = Table {
    name: "hotspot",
    meaning: "Few keys that take most of the operations, one as many as another.",
    one_of: &[],
    fields: &[
        default("keys", Form::Share, "20%", "The share of keys that are hot."),
        default("operations", Form::Share, "80%", "The share of operations that go to them."),
    ],
};

/// Maximum size of a value in bytes.
pub(in crate::study) const VALUE_SIZE_MAX: u64 = 1 << 30;
/// Size of one value.
pub(in crate::study) const VALUE_SIZE: Form =
    Form::Size { min: VALUE_SIZE_MIN, max: VALUE_SIZE_MAX };

pub(in crate::study) static VALUES: Table = Table {
    name: "values",
    meaning: "What a workload writes.",
    one_of: &[],
    fields: &[default(
        "size",
        Form::Either(&[VALUE_SIZE, Form::List(&VALUE_SIZE), Form::Table(&SIZES)]),
        "256",
        "Size of each value in bytes: one, or a list or a range from which each write draws its own.",
    )],
};

pub(in crate::study) static SIZES: Table = Table {
    name: "sizes",
    meaning: "Sizes from which each write draws its own, one as likely as another.",
    one_of: &[&["from", "to"], &["file"]],
    fields: &[
        maybe("from", VALUE_SIZE, "100", "The smallest."),
        maybe("to", VALUE_SIZE, "10KiB", "The largest."),
        maybe(
            "file",
            Form::Text,
            "sizes.txt",
            "A file of samples, one size a line; the study's record holds them.",
        ),
    ],
};
