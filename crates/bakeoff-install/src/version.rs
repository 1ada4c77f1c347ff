//! Parses versions: those that users request, and those that programs print.
//!
//! `3.6` requests the first known 3.6.x, `3.6.16` exactly that version.

use std::fmt;
use std::str::FromStr;

/// A requested version: `3.6`, `1.20.1`. Parsing drops a leading `v`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRequest(String);

/// The text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version")]
pub struct NotAVersion(String);

impl FromStr for VersionRequest {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let bare = text.trim();
        let bare = bare.strip_prefix('v').unwrap_or(bare);
        // `3.6.x` means `3.6`.
        let bare = [".x", ".X", ".*"].iter().find_map(|any| bare.strip_suffix(any)).unwrap_or(bare);
        // The version becomes part of paths, URLs and arguments, so few characters are allowed.
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '~');
        let starts_well = bare.starts_with(|c: char| c.is_ascii_digit());
        let ends_well = bare.ends_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well
            && ends_well
            && bare.chars().all(allowed)
            && !bare.contains("..")
            && bare.len() <= 64
        {
            Ok(VersionRequest(bare.to_owned()))
        } else {
            Err(NotAVersion(text.to_owned()))
        }
    }
}

impl fmt::Display for VersionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl VersionRequest {
    /// Returns true if the request names a single version: at least three numbers, or a pre-release.
    pub fn is_exact(&self) -> bool {
        self.0.split('.').count() >= 3 || self.0.contains(['-', '+', '~'])
    }

    /// Returns true if `version` satisfies the request.
    pub fn matches(&self, version: &str) -> bool {
        let version = version.strip_prefix('v').unwrap_or(version);
        match version.strip_prefix(self.0.as_str()) {
            Some("") => true,
            Some(rest) => !self.is_exact() && rest.starts_with('.'),
            None => false,
        }
    }

    /// Chooses a version from a source that lists `versions`, the preferred one first, and may have others. Returns the
    /// first match, or else the request itself if it is exact.
    pub(super) fn choose(
        wanted: Option<&Self>,
        versions: &[&str],
    ) -> Result<String, NoSuchVersion> {
        match (Self::among(wanted, versions), wanted) {
            (Err(_), Some(wanted)) if wanted.is_exact() => Ok(wanted.0.clone()),
            (Err(NoSuchVersion::Unlisted { wanted, known }), _) => {
                Err(NoSuchVersion::Unknown { wanted, known })
            }
            (chosen, _) => chosen,
        }
    }

    /// Chooses the first matching version from a source that has only `versions`, the preferred one first.
    pub(super) fn among(wanted: Option<&Self>, versions: &[&str]) -> Result<String, NoSuchVersion> {
        let fits = |version: &&&str| wanted.is_none_or(|wanted| wanted.matches(version));
        let chosen = versions.iter().find(fits).map(|version| (*version).to_owned());
        chosen.ok_or_else(|| match wanted.filter(|_| !versions.is_empty()) {
            None => NoSuchVersion::KnowsNone,
            Some(wanted) => {
                NoSuchVersion::Unlisted { wanted: wanted.clone(), known: versions.join(", ") }
            }
        })
    }
}

/// Reason why a source has no matching version.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSuchVersion {
    #[error("it has no version for this processor")]
    KnowsNone,
    #[error("it has no `{wanted}` (known: {known})")]
    Unlisted {
        wanted: VersionRequest,
        /// Versions of the source, separated by commas.
        known: String,
    },
    #[error("it lists no `{wanted}.x` (known: {known}); an exact version may still work")]
    Unknown {
        wanted: VersionRequest,
        /// Listed versions, separated by commas.
        known: String,
    },
}

/// Finds the first version in a program's output: `3.4.23` in `etcd Version: 3.4.23`.
pub(super) fn version_in(text: &str) -> Option<String> {
    let between =
        |c: char| c.is_whitespace() || matches!(c, '"' | ',' | '(' | ')' | ':' | '/' | '=');
    let words = text.split(between);
    for word in words {
        let bare = word.strip_prefix('v').unwrap_or(word).trim_end_matches(['.', ';']);
        let mut parts = bare.split(['.', '-', '+', '~', '_']);
        let numeric = |part: Option<&str>| {
            part.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
        };
        let dotted = bare
            .find(|c: char| !c.is_ascii_digit())
            .is_some_and(|at| bare.as_bytes().get(at) == Some(&b'.'));
        if dotted && numeric(parts.next()) && numeric(parts.next()) {
            // A distribution's HAProxy prints the package's version.
            let packaged = ["+deb", "ubuntu"].iter().any(|mark| bare.contains(mark));
            let expected_version = if packaged { upstream(bare) } else { bare };
            return Some(released(expected_version).to_owned());
        }
    }
    None
}

/// Removes the suffix of `git describe` from a release's own commit: `2.6.0-0-g47aa4e01e` is `2.6.0`. Other commits are
/// not releases and stay unchanged.
fn released(expected_version: &str) -> &str {
    let is_hash = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match expected_version.split_once("-0-g") {
        Some((release, hash)) if is_hash(hash) => release,
        _ => expected_version,
    }
}

/// Finds the first date in a program's output, its build date: `2024-10-29`.
pub(super) fn date_in(text: &str) -> Option<String> {
    let shape = |w: &[u8]| {
        w.len() == 10
            && w.iter()
                .enumerate()
                .all(|(i, b)| if i == 4 || i == 7 { *b == b'-' } else { b.is_ascii_digit() })
    };
    // A build without a date prints 1970.
    let found = text.as_bytes().windows(10).find(|w| shape(w) && !w.starts_with(b"1970"))?;
    String::from_utf8(found.to_vec()).ok()
}

/// Returns the upstream part of a Debian version: `3.4.23` of `1:3.4.23+dfsg-4+b4`.
pub(super) fn upstream(debian: &str) -> &str {
    let without_epoch = debian.split_once(':').map_or(debian, |(_, rest)| rest);
    let end = without_epoch.rfind('-').unwrap_or(without_epoch.len());
    let upstream = &without_epoch[..end];
    let cut = ["+dfsg", "+ds", "~dfsg", "~ds", "+really"]
        .iter()
        .filter_map(|mark| upstream.find(mark))
        .min();
    &upstream[..cut.unwrap_or(upstream.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(request: &str) -> VersionRequest {
        request.parse().unwrap()
    }

    #[test]
    fn short_request_matches_a_series_and_exact_request_only_itself() {
        let cases = [
            ("3.6", "3.6.16", true),
            ("3.6", "3.6", true),
            ("3.6", "v3.6.0", true),
            ("3.6", "3.60.1", false),
            ("3", "3.6.16", true),
            ("3", "30.1", false),
            ("3.6.1", "3.6.16", false),
            ("3.6.1", "3.6.1", true),
            ("3.6.1", "3.6.1.1", false),
            ("v1.20.1", "1.20.1", true),
            ("1.20.1", "1.20.1-dev", false),
            ("1.20", "1.20-rc1", false),
            ("3.6.0-rc.1", "3.6.0-rc.1", true),
        ];
        for (request, version, expected) in cases {
            assert_eq!(wants(request).matches(version), expected, "{request} against {version}");
        }
    }

    #[test]
    fn rejects_text_without_a_version() {
        for text in ["", "v", "latest", "../3", "3..6", "3.6 ", "3.6/..", "3.6.", "-3", "3.6;rm"] {
            let parsed = text.parse::<VersionRequest>();
            assert_eq!(parsed.is_ok(), text == "3.6 ", "{text:?}");
        }
    }

    #[test]
    fn chooses_first_listed_match_or_unlisted_exact_version() {
        let known = ["3.7.3", "3.6.16", "3.6.8", "3.5.33"];
        let choose = |request: &str| VersionRequest::choose(Some(&wants(request)), &known);
        assert_eq!(choose("3.6").unwrap(), "3.6.16");
        assert_eq!(choose("3").unwrap(), "3.7.3");
        assert_eq!(choose("3.6.5").unwrap(), "3.6.5");
        assert!(choose("3.4").unwrap_err().to_string().contains("3.5.33"));
        assert_eq!(VersionRequest::choose(None, &known).unwrap(), "3.7.3");
        assert!(VersionRequest::choose(None, &[]).is_err());
    }

    #[test]
    fn finds_version_in_output_of_real_programs() {
        let cases = [
            ("etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.8\n", Some("3.4.23")),
            (
                "Consul v1.20.1\nRevision 920cc7c6\nBuild Date 2024-10-29T19:04:05Z\n",
                Some("1.20.1"),
            ),
            ("Apache ZooKeeper, version 3.8.0 , built on: 2023-10-30 09:21 UTC\n", Some("3.8.0")),
            ("openjdk version \"17.0.15\" 2025-04-15\n", Some("17.0.15")),
            ("java version \"1.8.0_402\"\n", Some("1.8.0_402")),
            ("x 3.6.0-rc.1.\n", Some("3.6.0-rc.1")),
            (
                "HAProxy version 2.6.12-1+deb12u4 2025/10/02 - https://haproxy.org/\n",
                Some("2.6.12"),
            ),
            ("HAProxy version 2.8.5-1ubuntu3.4 2025/10/02\n", Some("2.8.5")),
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n", Some("15.20")),
            ("Vault v1.21.0 (818ca8b3), built 2025-10-21T14:00:00Z\n", Some("1.21.0")),
            ("Tarantool 2.6.0-0-g47aa4e01e\nTarget: Linux-x86_64\n", Some("2.6.0")),
            ("Tarantool 2.6.0-14-g47aa4e01e\n", Some("2.6.0-14-g47aa4e01e")),
            (
                "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n",
                Some("7.0.15"),
            ),
            ("nats-server: v2.9.10\n", Some("2.9.10")),
            ("x 2.6.0-0-git\n", Some("2.6.0-0-git")),
            ("no number", None),
            ("Git SHA: 12ab", None),
            ("", None),
            ("\u{fffd}v.1 1. .2", None),
        ];
        for (text, expected) in cases {
            assert_eq!(version_in(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(date_in(cases[1].0).as_deref(), Some("2024-10-29"));
        assert_eq!(date_in("Build Date 1970-01-01T00:00:01Z"), None);
        assert_eq!(date_in("1234567890 é 20-10-2024"), None);
    }

    #[test]
    fn upstream_drops_epoch_revision_and_repacking_mark() {
        let cases = [
            ("3.4.23-4+b4", "3.4.23"),
            ("3.4.23+dfsg-4", "3.4.23"),
            ("3.8.0-11+deb12u2", "3.8.0"),
            ("1:4.1.48-7+deb12u2", "4.1.48"),
            ("5:7.0.15-1~deb12u1", "7.0.15"),
            ("2.6", "2.6"),
        ];
        for (debian, expected) in cases {
            assert_eq!(upstream(debian), expected);
        }
    }
}
