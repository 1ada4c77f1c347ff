//! Expands environment variables in the values of a study: `$NAME`.
//!
//! Not here: words in braces (`process::words`), the variables that a study may use (`bakeoff_core::study`).

use bakeoff_core::secrets;

/// An environment variable that a study uses but that is not set.
#[derive(Debug, thiserror::Error)]
#[error("the study uses `${0}`, which is not set in bakeoff's environment")]
pub struct UnsetVariable(String);

/// Returns a value of a study. For `$NAME` that is the value of bakeoff's environment variable, which may be secret.
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
