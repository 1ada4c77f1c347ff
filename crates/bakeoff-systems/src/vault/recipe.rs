//! Sources of Vault.
//!
//! No distribution has Vault. Its Go module does not build unchanged, because it replaces some requirements with local
//! folders. bakeoff builds it as a library of the `main.go` here, which also lists what such a Vault contains.

use bakeoff_install::{Algorithm, Member, Pin, Recipe, Shape, Source};

/// Recipe of Vault.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "vault",
    shape: Shape::Binary { executable: "vault", version_args: &["version"] },
    sources: &[
        Source::Archive {
            url: "https://releases.hashicorp.com/vault/{version}/vault_{version}_linux_{arch}.zip",
            packager: None,
            checksums: "https://releases.hashicorp.com/vault/{version}/vault_{version}_SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("vault"),
            versions: VERSIONS,
            pins: &[
                Pin::new(
                    "1.21.0",
                    "amd64",
                    "5a91c93a9949ed8863ee4b91cfc30640bc49ab04225f0b1c5a0650c4d6e10171",
                ),
                Pin::new(
                    "1.21.0",
                    "arm64",
                    "0083b02005ad89f6a01773866c6a892194ba27867b5f26ee374a0dfbbfb84c07",
                ),
                Pin::new(
                    "1.19.0",
                    "amd64",
                    "9df904271319452bbb37825cfe50726383037550cc04b7c2d0ab09e2f08f82a1",
                ),
                Pin::new(
                    "1.19.0",
                    "arm64",
                    "252bf12d0ce1824860d6e06bd21b74b548eedd6a35225f12bf38482a4c78bef6",
                ),
            ],
        },
        Source::GoLibrary {
            module: "github.com/hashicorp/vault",
            main: include_str!("main.go"),
            // Without this tag the build includes clients of a dozen clouds.
            tags: "minimal",
            versions: VERSIONS,
            takes: "7 minutes and 3 GB of memory",
        },
    ],
};

/// Versions tested to build from the Go module.
const VERSIONS: &[&str] = &["1.21.0", "1.19.0"];
