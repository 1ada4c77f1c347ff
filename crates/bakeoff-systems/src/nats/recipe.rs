//! Where NATS comes from.
//!
//! Debian 12 has 2.9, which cannot sync each write: it comes last. The newer one is the official archive, or
//! takes half a minute to build.

use bakeoff_install::{Algorithm, Libraries, Member, Recipe, Shape, Source};

/// How NATS can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "nats",
    shape: Shape::Binary { executable: "nats-server", version_args: &["--version"] },
    sources: &[
        Source::Archive {
            url: "https://github.com/nats-io/nats-server/releases/download/v{version}/nats-server-v{version}-linux-{arch}.tar.gz",
            checksums: "https://github.com/nats-io/nats-server/releases/download/v{version}/SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("nats-server-v{version}-linux-{arch}/nats-server"),
            versions: VERSIONS,
            pins: &[],
        },
        Source::GoModule {
            module: "github.com/nats-io/nats-server/v2",
            package: "github.com/nats-io/nats-server/v2",
            versions: VERSIONS,
            takes: "half a minute",
        },
        Source::Debian {
            packages: &["nats-server"],
            files: &["usr/sbin/nats-server"],
            series: &[],
            libraries: Libraries::Named,
        },
    ],
};

/// Seen to build from the Go module.
const VERSIONS: &[&str] = &["2.12.4"];
