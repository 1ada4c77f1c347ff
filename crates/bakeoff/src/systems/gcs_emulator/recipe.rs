//! Where the emulator of Google Cloud Storage comes from: fake-gcs-server.

use crate::install::{Recipe, Shape, Source};

/// How the emulator can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "gcs-emulator",
    shape: Shape::Binary { executable: "fake-gcs-server", version_args: &["-version"] },
    sources: &[Source::GoModule {
        module: "github.com/fsouza/fake-gcs-server",
        package: "github.com/fsouza/fake-gcs-server",
        versions: &["1.52.3"],
        takes: "a minute",
    }],
};
