//! Where Redis comes from.
//!
//! Debian's 7.0 alone: the project publishes sources, and no checksums of what it builds of them.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// How Redis can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "redis",
    shape: Shape::Binary { executable: "redis-server", version_args: &["--version"] },
    sources: &[Source::Debian {
        // The server is a link to a program of the tools, which does what it is called.
        packages: &["redis-server", "redis-tools"],
        files: &["usr/bin/redis-server"],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};
