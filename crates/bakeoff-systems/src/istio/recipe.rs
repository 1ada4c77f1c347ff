//! Sources of Istio.
//!
//! Istio's releases have the control plane only in container images. The Go proxy names its versions by commits; the
//! commit here is the tag's.

use bakeoff_install::{Recipe, Shape, Source};

/// Recipe of Istio's control plane, and of the agent that starts its proxies.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "istio",
    shape: Shape::Binary { executable: "pilot-discovery", version_args: &["version"] },
    sources: &[Source::GoPrograms {
        module: "istio.io/istio",
        packages: &[
            "istio.io/istio/pilot/cmd/pilot-discovery",
            "istio.io/istio/pilot/cmd/pilot-agent",
        ],
        versions: &["1.26.0"],
        commits: &["0.0.0-20250506181944-c2e9871f340c"],
        stamp: "istio.io/istio/pkg/version.buildVersion",
        takes: "7 minutes and 2 GB of memory",
    }],
};
