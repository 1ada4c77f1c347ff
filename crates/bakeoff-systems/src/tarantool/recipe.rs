//! Source of Tarantool: Debian.
//!
//! The project publishes packages but no plain archive. Debian has version 2.6 since release 11.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// Recipe of Tarantool.
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
