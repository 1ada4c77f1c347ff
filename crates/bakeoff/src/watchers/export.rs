//! Parses `--export`: where to export a run.
//!
//! The values are plain text until here, because clap prints a value that it rejects, and a URL may hold a password.

use bakeoff_engine::works::http::{Url, UrlError};

use crate::failure::Failure;

/// An export that the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Export {
    /// Metrics for Prometheus on this port; 0 for a free one.
    Prometheus(u16),
    /// Metrics to an OpenTelemetry collector at this URL.
    Otlp(Url),
}

/// Forms of the option.
const FORMS: &str = "use `prometheus`, `prometheus=PORT` or `otlp=http://HOST:4318`";
/// Form of a collector's URL.
const OTLP_FORM: &str = "write the collector's URL for OTLP over HTTP: `otlp=http://HOST:4318`";
/// Path of metrics at a collector.
const OTLP_PATH: &str = "/v1/metrics";

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
            None if text == "otlp" => {
                Err(Failure::input("`--export otlp`: the collector's URL is missing", OTLP_FORM))
            }
            Some(("otlp", url)) => collector(url).map(Self::Otlp),
            _ => {
                // What follows a `=` may be a secret.
                let name = text.split('=').next().unwrap_or_default();
                Err(Failure::input(format!("`--export {name}`: there is no such export"), FORMS))
            }
        }
    }
}

/// Parses a collector's URL. The errors show no user and no password.
fn collector(text: &str) -> Result<Url, Failure> {
    let refused = |why: &str| Failure::input(format!("`--export otlp`: {why}"), OTLP_FORM);
    if !text.contains("://") {
        return Err(refused("this is not a URL with its scheme"));
    }
    let url = Url::parse(text).map_err(|error| match error {
        UrlError::Scheme(scheme) => {
            refused(&format!("`{scheme}` is not a scheme of OTLP: http, https"))
        }
        error => refused(&error.to_string()),
    })?;
    if url.user.is_some() || url.target.contains('?') {
        return Err(Failure::input(
            "`--export otlp`: the URL holds a user, a password or a query, which others on this machine could read",
            "export to a collector that needs none, such as one on this machine which adds them",
        ));
    }
    let target = match url.target.trim_end_matches('/') {
        base if base.ends_with(OTLP_PATH) => base.to_owned(),
        base => format!("{base}{OTLP_PATH}"),
    };
    Ok(Url { target, ..url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collector_urls_get_the_path_of_metrics() {
        for (text, shown) in [
            ("otlp=http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("otlp=https://host/", "https://host/v1/metrics"),
            ("otlp=http://host/v1/metrics", "http://host/v1/metrics"),
            ("otlp=http://host:1/otel", "http://host:1/otel/v1/metrics"),
        ] {
            let Ok(Export::Otlp(url)) = Export::parse(text) else { panic!("{text} is valid") };
            assert_eq!(url.shown(), shown);
        }
    }

    #[test]
    fn refusals_show_no_secret() {
        for text in [
            "otlp=http://user:hunter2@host",
            "otlp=http://host/?token=hunter2",
            "otlp=hunter2",
            "otlp=ftp://user:hunter2@host",
            "otlp=http://user:hunter2@host:x",
            "datadog=hunter2",
        ] {
            let refused = Export::parse(text).expect_err(text).to_string();
            assert!(refused.contains("hint: ") && !refused.contains("hunter2"), "{refused}");
        }
    }
}
