//! Where NGINX comes from: every distribution has it.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// How NGINX can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "nginx",
    shape: Shape::Binary { executable: "nginx", version_args: &["-v"] },
    sources: &[Source::Debian {
        packages: &["nginx"],
        files: &["usr/sbin/nginx"],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};
