//! Source of NGINX: Debian. Every distribution has it.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// Recipe of NGINX.
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
