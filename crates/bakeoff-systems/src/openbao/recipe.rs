//! Where OpenBao comes from.
//!
//! No package registry has it: it is the project's own release archive, or a program of the user's.

use bakeoff_install::{Algorithm, Member, Pin, Recipe, Shape, Source};

/// How OpenBao can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "openbao",
    shape: Shape::Binary { executable: "bao", version_args: &["version"] },
    sources: &[Source::Archive {
        url: "https://github.com/openbao/openbao/releases/download/v{version}/bao_{version}_Linux_{arch:x86_64}.tar.gz",
        checksums: "https://github.com/openbao/openbao/releases/download/v{version}/checksums-linux.txt",
        algorithm: Algorithm::Sha256,
        member: Member::File("bao"),
        versions: &["2.5.1", "2.4.4"],
        pins: &[
            Pin::new(
                "2.4.4",
                "amd64",
                "a02f6e3e710616ae2687592a65bcbd72989500686d505bbd35ec5402b2847923",
            ),
            Pin::new(
                "2.4.4",
                "arm64",
                "30a0e40ee4f267f3acf4f4c419ceb4b3f63fa9f460d7d51f747ba26e6abeaba3",
            ),
        ],
    }],
};
