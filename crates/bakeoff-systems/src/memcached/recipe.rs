//! Source of memcached: Debian.
//!
//! The project publishes source code, but no binaries with checksums.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// Recipe of memcached.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "memcached",
    shape: Shape::Binary { executable: "memcached", version_args: &["--version"] },
    sources: &[Source::Debian {
        packages: &["memcached"],
        files: &["usr/bin/memcached"],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};
