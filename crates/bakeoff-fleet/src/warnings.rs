//! Passes on warnings about what does not end a command: a namespace that is left, a limit that does not hold.
//!
//! Some arise while pods are dropped, where no error can be returned.
//!
//! Not here: how a warning is printed (the binary's `messages`).

use std::sync::OnceLock;

static PRINTER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that prints warnings. The first call counts; warnings before it are discarded.
pub fn print_by(printer: fn(&str)) {
    PRINTER.get_or_init(|| printer);
}

/// Prints a warning.
pub(crate) fn warn(what: &str) {
    if let Some(print) = PRINTER.get() {
        print(what);
    }
}
