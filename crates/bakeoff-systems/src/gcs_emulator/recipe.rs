//! Sources of the Google Cloud Storage emulator, fake-gcs-server.

use bakeoff_install::{Recipe, Shape, Source};

/// Recipe of fake-gcs-server.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "gcs-emulator",
    shape: Shape::Go { executable: "fake-gcs-server", module: MODULE },
    sources: &[Source::GoModule {
        module: MODULE,
        package: MODULE,
        versions: &["1.52.3"],
        takes: "a minute",
    }],
};

const MODULE: &str = "github.com/fsouza/fake-gcs-server";
