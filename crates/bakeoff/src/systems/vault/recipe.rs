//! Where Vault comes from.
//!
//! No distribution has it. Its Go module replaces some of its requirements by folders beside it,
//! so that it cannot be built as it is; it is built as a library of the `main.go` here, which also
//! says what such a Vault has.

use bakeoff_install::{Algorithm, Member, Recipe, Shape, Source};

/// How Vault can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "vault",
    shape: Shape::Binary { executable: "vault", version_args: &["version"] },
    sources: &[
        Source::Archive {
            url: "https://releases.hashicorp.com/vault/{version}/vault_{version}_linux_{arch}.zip",
            checksums: "https://releases.hashicorp.com/vault/{version}/vault_{version}_SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("vault"),
            versions: VERSIONS,
        },
        Source::GoLibrary {
            module: "github.com/hashicorp/vault",
            main: include_str!("main.go"),
            // Without it a dozen clouds' clients are built too.
            tags: "minimal",
            versions: VERSIONS,
            takes: "7 minutes and 3 GB of memory",
        },
    ],
};

/// Seen to build from the Go module.
const VERSIONS: &[&str] = &["1.21.0", "1.19.0"];
