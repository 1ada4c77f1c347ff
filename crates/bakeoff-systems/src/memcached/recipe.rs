//! Where memcached comes from.
//!
//! Debian alone: the project publishes sources, and no checksums of what it builds of them.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// Sources of memcached.
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
