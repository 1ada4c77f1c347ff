//! Environment variables in the values of a study: `$NAME`.
//!
//! Not here: words in braces (`process::words`), which variables a study may name (`bakeoff_core::study`).

use std::fmt;

use bakeoff_core::secrets;

/// An environment variable that a study asks for and that is not set.
#[derive(Debug)]
pub struct UnsetVariable(String);

impl fmt::Display for UnsetVariable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "the study asks for `${}`, which is not set in bakeoff's environment", self.0)
    }
}

impl std::error::Error for UnsetVariable {}

/// Returns a value as a study writes it, which for `$NAME` is what bakeoff's own environment holds. It may
/// be secret.
pub(crate) fn expanded(value: &str) -> Result<String, UnsetVariable> {
    match value.strip_prefix('$') {
        None => Ok(value.to_owned()),
        Some(name) => {
            let found = std::env::var(name).map_err(|_| UnsetVariable(name.to_owned()))?;
            secrets::note(&found);
            Ok(found)
        }
    }
}
