//! Says whether a program is there and, if not, what each of its sources would need of this machine.
//!
//! Not here: looking for it (`find`), fetching it (the crate root).

use std::path::Path;

use super::cache::{Cache, Look};
use super::error::{InstallError, NODE_REMEDY};
use super::find::{Finding, Refused, Search};
use super::recipe::{Recipe, Shape, Source};
use super::version::VersionRequest;
use super::{Host, Installed, debian, go_module, npm};

/// Whether a program is there and, if not, what would bring it.
#[derive(Debug, Clone)]
pub enum Availability {
    /// It is there.
    Found(Installed),
    /// It is not.
    Missing {
        /// Why, in one line.
        reason: String,
        /// Each source's requirements, in the order in which they would be tried.
        sources: Vec<SourceOption>,
        /// The one command that mends it: `bakeoff install consul@1.20.1`.
        remedy: String,
    },
}

/// A source, and its needs on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOption {
    /// The source: `Go module github.com/hashicorp/consul`.
    pub title: String,
    /// Whether this machine has what it needs; the network is not tried.
    pub possible: bool,
    /// Its version, or the reason that it is lacking: `go1.26.8`, `this machine has no `go``.
    pub note: String,
}

/// Says whether the program is there and, if not, what would bring it. Cached files are looked at
/// but not hashed, since a listing of all systems should be quick.
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

/// Says why a program counts as missing.
fn missing(refused: &[Refused]) -> String {
    match refused {
        [] => "it is neither on PATH nor in bakeoff's cache".to_owned(),
        refused => refused.iter().map(Refused::to_string).collect::<Vec<_>>().join("; "),
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
    let look = |source: &Source| {
        let (possible, note) = match (source.lacks(wanted), source) {
            (Some(lacking), _) => (false, lacking.to_string()),
            (None, Source::Debian { .. }) => match debian::unable(host) {
                Some(reason) => (false, reason),
                None => (true, "apt-get and dpkg are here".to_owned()),
            },
            (
                None,
                Source::GoModule { takes, .. }
                | Source::GoLibrary { takes, .. }
                | Source::GoPrograms { takes, .. },
            ) => match go_module::go_version(host) {
                Ok(go) => (true, format!("{go} is here; building takes about {takes}")),
                Err(missing) => (false, missing.to_string()),
            },
            (None, Source::Npm { .. }) => match npm::unable(host) {
                Some(reason) => (false, reason),
                None => (true, "npm is here".to_owned()),
            },
            (None, Source::Maven { .. } | Source::PyPi { .. } | Source::Archive { .. }) => {
                (true, "needs its host to be reachable".to_owned())
            }
        };
        SourceOption { title: source.title(), possible, note }
    };
    recipe.sources.iter().map(look).collect()
}

/// Returns advice for the case that no source could deliver.
pub(super) fn hints(host: &Host, recipe: &Recipe) -> Vec<String> {
    let mut hints = Vec::new();
    let builds = |source: &Source| {
        matches!(
            source,
            Source::GoModule { .. } | Source::GoLibrary { .. } | Source::GoPrograms { .. }
        )
    };
    if recipe.sources.iter().any(builds) && go_module::go_version(host).is_err() {
        hints.push("with a recent Go on PATH it could be built here".to_owned());
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
        Shape::Java { .. } => "name a folder of its jars with `program:` in the study".to_owned(),
    });
    hints
}
