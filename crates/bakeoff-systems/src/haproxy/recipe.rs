//! Where HAProxy comes from.
//!
//! The project itself publishes sources alone; every distribution has it.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// How HAProxy can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "haproxy",
    shape: Shape::Binary { executable: "haproxy", version_args: &["-v"] },
    sources: &[Source::Debian {
        packages: &["haproxy"],
        files: &["usr/sbin/haproxy"],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};
