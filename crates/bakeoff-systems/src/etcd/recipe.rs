//! Sources of etcd.
//!
//! The official archive comes first, then a build of two minutes. Debian's etcd 3.4 installs in seconds but is no
//! longer maintained. It comes last, and is the only listed source of 3.4.

use bakeoff_install::{Algorithm, Libraries, Member, Pin, Recipe, Shape, Source};

/// Recipe of etcd.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "etcd",
    shape: Shape::Binary { executable: "etcd", version_args: &["--version"] },
    sources: &[
        Source::Archive {
            url: "https://github.com/etcd-io/etcd/releases/download/v{version}/etcd-v{version}-linux-{arch}.tar.gz",
            packager: None,
            checksums: "https://github.com/etcd-io/etcd/releases/download/v{version}/SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("etcd-v{version}-linux-{arch}/etcd"),
            versions: VERSIONS,
            pins: &[
                Pin::new(
                    "3.5.33",
                    "amd64",
                    "5025b5b24d81a9616b6e284ccd439b9a3df055ef8fdcdc142af3ec8f6a3b3c95",
                ),
                Pin::new(
                    "3.5.33",
                    "arm64",
                    "0764c5c0acef155f4bfa0487791cc5776adef66315bf16ec0653883bfd463a90",
                ),
            ],
        },
        Source::GoModule {
            module: "go.etcd.io/etcd/server/v3",
            package: "go.etcd.io/etcd/server/v3",
            versions: VERSIONS,
            takes: "2 minutes",
        },
        Source::Debian {
            packages: &["etcd-server"],
            files: &["usr/bin/etcd"],
            series: &[],
            libraries: Libraries::Named,
        },
    ],
};

/// Versions tested to build from the Go module. The contract tests run the first.
const VERSIONS: &[&str] = &["3.6.16", "3.7.3", "3.5.33"];
