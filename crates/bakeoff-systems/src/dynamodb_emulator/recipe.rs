//! Where the emulator of DynamoDB comes from: dynalite.
//!
//! Amazon's own, DynamoDB Local, listens on all interfaces. dynalite does as it is told (`--host`), and
//! takes what Vault sends; a stricter emulator refuses some of it. `package-lock.json` names it and all
//! that it needs with their checksums.

use bakeoff_install::{Recipe, Shape, Source};

/// How the emulator can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "dynamodb-emulator",
    // It says that it wants 20; Debian 12's 18 runs it.
    shape: Shape::Node { executable: "dynalite", node_major_min: 18 },
    sources: &[Source::Npm {
        package: "dynalite",
        version: "4.0.0",
        script: "cli.js",
        lock: include_str!("package-lock.json"),
    }],
};
