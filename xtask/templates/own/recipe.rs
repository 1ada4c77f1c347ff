//! Where Newcomer comes from.

use bakeoff_install::{Algorithm, Libraries, Member, Recipe, Shape, Source};

/// Sources of Newcomer.
///
/// FILL IN: its sources, the quickest that is new enough first; what does not exist goes. `cargo run -- install newcomer` tries them.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "newcomer",
    shape: Shape::Binary { executable: "newcomer", version_args: &["--version"] },
    sources: &[
        Source::Debian {
            packages: &["newcomer"],
            files: &["usr/bin/newcomer"],
            series: &[],
            libraries: Libraries::Unpacked,
        },
        Source::Archive {
            url: "https://example.org/{version}/newcomer-{version}-linux-{arch}.tar.gz",
            packager: None,
            checksums: "https://example.org/{version}/SHA256SUMS",
            algorithm: Algorithm::Sha256,
            member: Member::File("newcomer-{version}-linux-{arch}/newcomer"),
            versions: &["1.0.0"],
            // Pin::new(VERSION, PROCESSOR, CHECKSUM) for each known version; others are called unpinned.
            pins: &[],
        },
    ],
};
