//! Where it comes from.

use crate::install::{Recipe, Shape};

/// How it can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "openbao",
    shape: Shape::Binary { executable: "bao", version_args: &["version"] },
    sources: &[],
};
