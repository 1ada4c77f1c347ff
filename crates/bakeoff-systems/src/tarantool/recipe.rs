//! Where Tarantool comes from.
//!
//! The project itself publishes packages and no plain archive; Debian has version 2.6 since its release 11.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// How Tarantool can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "tarantool",
    shape: Shape::Binary { executable: "tarantool", version_args: &["--version"] },
    sources: &[Source::Debian {
        packages: &["tarantool"],
        files: &["usr/bin/tarantool"],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};
