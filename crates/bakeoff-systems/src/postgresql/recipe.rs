//! Where PostgreSQL comes from.
//!
//! Each release of Debian has one series of it, in packages that are named after the series. The
//! project itself publishes sources alone. `Installed::beside` tells where the programs are that
//! make and copy a data directory.

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// The programs without which a server is of no use.
const BESIDE: [&str; 2] = ["initdb", "pg_basebackup"];

/// How PostgreSQL can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "postgresql",
    shape: Shape::Accompanied {
        executable: "postgres",
        version_args: &["--version"],
        lacks: |program| {
            let lacks = |name: &&&str| !program.with_file_name(name).exists();
            BESIDE.iter().find(lacks).map(|name| format!("has no `{name}` beside it"))
        },
    },
    sources: &[Source::Debian {
        packages: &["postgresql-{series}", "postgresql-client-{series}"],
        files: &[
            "usr/lib/postgresql/{series}/bin/postgres",
            "usr/lib/postgresql/{series}/bin/initdb",
            "usr/lib/postgresql/{series}/bin/pg_basebackup",
            "usr/lib/postgresql/{series}/bin/pg_ctl",
            "usr/lib/postgresql/{series}/bin/psql",
        ],
        // Of Debian 11 to 13 and of Ubuntu since 22.04.
        series: &["18", "17", "16", "15", "14", "13"],
        libraries: Libraries::Unpacked,
    }],
};
