//! Sources of PostgreSQL.
//!
//! Each Debian release has one series of PostgreSQL, and its package names contain the series. The project publishes
//! only source code. Maven Central has 16 and 17 without `pg_basebackup`, so they run on one node only.
//! `InstalledProgram::adjacent` finds the programs that create and copy a data directory.

use bakeoff_install::{Algorithm, Libraries, Member, Pin, Recipe, Shape, Source};

/// Recipe of PostgreSQL.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "postgresql",
    shape: Shape::Accompanied {
        executable: "postgres",
        version_args: &["--version"],
        // A replica needs `pg_basebackup` too.
        lacks: |program| {
            let lacks = !program.with_file_name("initdb").exists();
            lacks.then(|| "has no `initdb` next to it".to_owned())
        },
    },
    sources: &[
        Source::Debian {
            packages: &["postgresql-{series}", "postgresql-client-{series}"],
            files: &[
                "usr/lib/postgresql/{series}/bin/postgres",
                "usr/lib/postgresql/{series}/bin/initdb",
                "usr/lib/postgresql/{series}/bin/pg_basebackup",
                "usr/lib/postgresql/{series}/bin/pg_ctl",
                "usr/lib/postgresql/{series}/bin/psql",
            ],
            // Series of Debian 11 to 13 and of Ubuntu since 22.04.
            series: &["18", "17", "16", "15", "14", "13"],
            libraries: Libraries::Unpacked,
        },
        Source::Archive {
            url: "https://repo1.maven.org/maven2/io/zonky/test/postgres/embedded-postgres-binaries-linux-{arch:amd64|arm64v8}/{version}.0/embedded-postgres-binaries-linux-{arch:amd64|arm64v8}-{version}.0.jar",
            packager: Some("Zonky"),
            checksums: "https://repo1.maven.org/maven2/io/zonky/test/postgres/embedded-postgres-binaries-linux-{arch:amd64|arm64v8}/{version}.0/embedded-postgres-binaries-linux-{arch:amd64|arm64v8}-{version}.0.jar.sha256",
            algorithm: Algorithm::Sha256,
            member: Member::Nested {
                archive: "postgres-linux-{arch:x86_64|arm_64}.txz",
                executable: "bin/postgres",
            },
            versions: &["17.6", "17.11", "16.10", "16.15"],
            pins: &[
                Pin::new(
                    "17.6",
                    "amd64",
                    "23da5a044b4fb7a5a081a45008c95749c873305328d73f86aefd56922ce1d29d",
                ),
                Pin::new(
                    "17.6",
                    "arm64",
                    "84427ea54a5238247924ef3b0f940e7d027e58760f19d7325242e50d22fa014a",
                ),
                Pin::new(
                    "17.11",
                    "amd64",
                    "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d",
                ),
                Pin::new(
                    "17.11",
                    "arm64",
                    "8b042e0ea418b1927d95399207950da0734d27fe01e29503ade3bdc464ad4c2b",
                ),
                Pin::new(
                    "16.10",
                    "amd64",
                    "17a8ded28bde97fe66247387806af30ee26190fc96503c47c3eaa4fcbdcff8b6",
                ),
                Pin::new(
                    "16.10",
                    "arm64",
                    "96e6e62674dfbb2fb16081a05525c0454290e163a8d7ae225512cf60ee908371",
                ),
                Pin::new(
                    "16.15",
                    "amd64",
                    "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2",
                ),
                Pin::new(
                    "16.15",
                    "arm64",
                    "f846a9989d686b7977d6eca9bc9d8b2b69e3f70c7eb60e032197d9c574a6136c",
                ),
            ],
        },
    ],
};
