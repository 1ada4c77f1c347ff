//! Sources of the DynamoDB emulator, dynalite.
//!
//! Amazon's own DynamoDB Local listens on all interfaces; dynalite listens only on `--host`. It also accepts
//! all requests of Vault; stricter emulators refuse some. `package-lock.json` has the checksums of all packages.

use bakeoff_install::{Recipe, Shape, Source};

/// Recipe of dynalite.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "dynamodb-emulator",
    // dynalite declares 20, but Debian 12's 18 runs it.
    shape: Shape::Node { executable: "dynalite", node_major_min: 18 },
    sources: &[Source::Npm {
        package: "dynalite",
        version: "4.0.0",
        script: "cli.js",
        lock: include_str!("package-lock.json"),
    }],
};
