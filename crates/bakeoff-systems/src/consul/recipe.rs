//! Sources of Consul.
//!
//! Debian 12 has no Consul. As a Go module, 1.20.1 is the newest version that builds unchanged.

use bakeoff_install::{Algorithm, Member, Pin, Recipe, Shape, Source};

/// Recipe of Consul.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "consul",
    shape: Shape::Binary { executable: "consul", version_args: &["version"] },
    sources: &[
        Source::Archive {
            url: "https://releases.hashicorp.com/consul/{version}/consul_{version}_linux_{arch}.zip",
            packager: None,
            checksums: "https://releases.hashicorp.com/consul/{version}/consul_{version}_SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("consul"),
            versions: &["1.20.1"],
            pins: &[
                Pin::new(
                    "1.20.1",
                    "amd64",
                    "d38e7571177909d437a9cbcc62fb65083bc567266b74a62d02c6abe783951648",
                ),
                Pin::new(
                    "1.20.1",
                    "arm64",
                    "03ad4cf513819413016a79154e74161bcfa3c9e1fbfcbdc9eca525b2123d4779",
                ),
            ],
        },
        Source::GoModule {
            module: "github.com/hashicorp/consul",
            package: "github.com/hashicorp/consul",
            versions: &["1.20.1"],
            takes: "7 minutes",
        },
    ],
};
