//! Passes on warnings that do not end a command, such as a namespace that is left or a limit that could not be applied.
//!
//! Some occur while pods are dropped, where no error can be returned.
//!
//! Not here: printing warnings (the binary's `messages`).

use std::path::Path;
use std::sync::OnceLock;

use bakeoff_files as files;

static PRINTER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that prints warnings. Only the first call counts; earlier warnings are discarded.
pub fn print_by(printer: fn(&str)) {
    PRINTER.get_or_init(|| printer);
}

/// Warns of a file that another user may have written and that names commands which bakeoff executes.
pub fn warn_of_foreign_code(path: &Path) {
    if let Some(why) = files::foreign_code(path) {
        warn(&format!("`{}` {why}, and bakeoff executes the commands in it", path.display()));
    }
}

/// Prints a warning, if [`print_by`] has set a printer.
pub fn warn(what: &str) {
    if let Some(print) = PRINTER.get() {
        print(what);
    }
}
