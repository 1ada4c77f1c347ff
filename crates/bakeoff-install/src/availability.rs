//! Reports whether a program is installed and, if not, what each of its sources needs.
//!
//! Not here: the search (`find`), fetching (the crate root).

use std::path::Path;

use super::cache::{Cache, Look};
use super::error::{InstallError, NODE_REMEDY};
use super::find::{Finding, RefusedProgram, Search};
use super::recipe::{Recipe, Shape, Source};
use super::version::VersionRequest;
use super::{Host, InstalledProgram, debian, go_module, npm};

/// Result of a search for a program, without fetching it.
#[derive(Debug, Clone)]
pub enum Availability {
    /// A suitable program was found.
    Found(InstalledProgram),
    /// No suitable program was found.
    Missing {
        /// Reason in one line.
        reason: String,
        /// Sources in the recipe's order.
        sources: Vec<SourceOption>,
        /// Command or advice to get the program: `bakeoff install consul@1.20.1`.
        remedy: String,
    },
}

/// A source, and whether this machine can use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOption {
    /// Name of the source: `Go module github.com/hashicorp/consul`.
    pub title: String,
    /// True if this machine has the tools, and the source may have the version. Does not test the network.
    pub possible: bool,
    /// Needs of the source, or the reason why it cannot deliver: `npm is installed`, ``this machine has no `npm` ``.
    pub note: String,
}

/// Finds the program or reports how to get it. Does not hash cached files, because a listing of all systems should be
/// quick.
pub fn describe(
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
    own_program: Option<&Path>,
    cache: &Cache,
) -> Availability {
    describe_on(&Host::from_environment(), recipe, wanted, own_program, cache)
}

pub(super) fn describe_on(
    host: &Host,
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
    own_program: Option<&Path>,
    cache: &Cache,
) -> Availability {
    let wanted_text = wanted.map_or(String::new(), |wanted| format!("@{wanted}"));
    let install = match recipe.sources {
        [] => "put it on PATH, or name it with `program:` in a study".to_owned(),
        _ => format!("bakeoff install {}{wanted_text}", recipe.system),
    };
    let found = Search::new(host, recipe, wanted, cache)
        .and_then(|search| search.find(own_program, Look::Glance));
    let (reason, remedy) = match found {
        Ok(Finding::Found(found)) => return Availability::Found(found),
        Ok(Finding::Refused(refused)) => (missing(&refused), install),
        Err(error @ InstallError::Node { .. }) => (first_line(&error), as_root(NODE_REMEDY)),
        Err(error @ InstallError::OwnProgram { .. }) => {
            (first_line(&error), "correct `program:`, or leave it out".to_owned())
        }
        Err(error) => (first_line(&error), install),
    };
    Availability::Missing { reason, sources: source_options(host, recipe, wanted), remedy }
}

/// Returns the reason why a program is missing.
fn missing(refused: &[RefusedProgram]) -> String {
    match refused {
        [] => "it is neither on PATH nor in bakeoff's cache".to_owned(),
        refused => refused.iter().map(RefusedProgram::to_string).collect::<Vec<_>>().join("; "),
    }
}

fn as_root(command: &str) -> String {
    format!("{command} (as root)")
}

fn first_line(error: &InstallError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn source_options(
    host: &Host,
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
) -> Vec<SourceOption> {
    let option = |source: &Source| {
        let (possible, note) = match (source.lacks(wanted), source) {
            (Some(lacking), _) => (false, lacking.to_string()),
            (None, Source::Debian { .. }) => match debian::unable(host) {
                Some(reason) => (false, reason),
                None => (true, "apt-get and dpkg are installed".to_owned()),
            },
            (None, Source::DebianAndBuild { build, .. }) => {
                match debian::unable(host).or_else(|| debian::build::unable(host, build)) {
                    Some(reason) => (false, reason),
                    None => (true, format!("building {} takes {}", build.name, build.takes)),
                }
            }
            (
                None,
                Source::GoModule { takes, .. }
                | Source::GoLibrary { takes, .. }
                | Source::GoPrograms { takes, .. },
            ) => match go_module::go_version(host) {
                Ok(go) => (true, format!("{go} is installed; building takes about {takes}")),
                Err(missing) => (false, missing.to_string()),
            },
            (None, Source::Npm { .. }) => match npm::unable(host) {
                Some(reason) => (false, reason),
                None => (true, "npm is installed".to_owned()),
            },
            (None, Source::Maven { .. } | Source::PyPi { .. } | Source::Archive { .. }) => {
                (true, "needs its host to be reachable".to_owned())
            }
        };
        SourceOption { title: source.title(), possible, note }
    };
    recipe.sources.iter().map(option).collect()
}

/// Returns advice for users if every source failed.
pub(super) fn hints(host: &Host, recipe: &Recipe) -> Vec<String> {
    let mut hints = Vec::new();
    let builds = |source: &Source| {
        matches!(
            source,
            Source::GoModule { .. } | Source::GoLibrary { .. } | Source::GoPrograms { .. }
        )
    };
    if recipe.sources.iter().any(builds) && go_module::go_version(host).is_err() {
        hints.push("put a recent Go on PATH to build it from source".to_owned());
    }
    hints.push(match recipe.shape {
        Shape::Binary { executable, .. }
        | Shape::Accompanied { executable, .. }
        | Shape::Go { executable, .. } => {
            format!("put `{executable}` on PATH, or name it with `program:` in the study")
        }
        Shape::Node { executable, .. } => {
            format!("put `{executable}` on PATH, or name its script with `program:` in the study")
        }
        Shape::Java { .. } => "name a folder with its jars with `program:` in the study".to_owned(),
    });
    hints
}
