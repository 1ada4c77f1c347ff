//! Passes on warnings that do not end a command, such as a namespace that is left or a limit that could not be applied.
//!
//! Some occur while pods are dropped, where no error can be returned.
//!
//! Not here: printing warnings (the binary's `messages`).

use std::sync::OnceLock;

static PRINTER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that prints warnings. Only the first call counts; earlier warnings are discarded.
pub fn print_by(printer: fn(&str)) {
    PRINTER.get_or_init(|| printer);
}

/// Prints a warning, if [`print_by`] has set a printer.
pub fn warn(what: &str) {
    if let Some(print) = PRINTER.get() {
        print(what);
    }
}
