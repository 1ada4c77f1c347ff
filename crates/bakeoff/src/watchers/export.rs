//! Parses `--export`: where to export a run.
//!
//! The values are plain text until here, because clap prints a value that it rejects, and a URL may hold a password.

use crate::failure::Failure;

/// An export that the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Export {
    /// Metrics for Prometheus on this port; 0 for a free one.
    Prometheus(u16),
}

/// Forms of the option.
const FORMS: &str = "use `prometheus`, `prometheus=PORT`";

impl Export {
    /// Parses a value.
    ///
    /// # Errors
    /// Fails for an unknown export, a missing value and an invalid one.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        match text.split_once('=') {
            None if text == "prometheus" => Ok(Self::Prometheus(0)),
            Some(("prometheus", port)) => match port.parse() {
                Ok(port) => Ok(Self::Prometheus(port)),
                Err(_) => Err(Failure::input(
                    format!("`--export prometheus={port}`: this is not a port"),
                    "write a port from 1 to 65535, or `prometheus` alone for a free one",
                )),
            },
            _ => {
                // What follows a `=` may be a secret.
                let name = text.split('=').next().unwrap_or_default();
                Err(Failure::input(format!("`--export {name}`: there is no such export"), FORMS))
            }
        }
    }
}
