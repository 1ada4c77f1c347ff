//! Records observed durability: syncs for acknowledged writes, and settings that disable syncs.
//!
//! A group commit lets writes share a sync. With C clients, each waiting for its answer, at most C writes per node
//! share one. So if syncs times clients is below the acknowledged writes, a write was acknowledged without a sync.
//!
//! Not here: counting syncs (`bakeoff_host::syncs`), making the writes (`trial::durability` of the binary).

use serde::{Deserialize, Serialize};

use super::{AckLocation, Guarantees};
use crate::units::count_text;
use crate::verdict::Verdict;

/// Holds the result of a trial's durability probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Durability {
    /// Acknowledged writes of the probe.
    #[serde(default)]
    pub writes: u64,
    /// Clients that made them, each with one write at a time.
    #[serde(default)]
    pub clients: u32,
    /// Syncs of the nodes' processes during the probe. Empty if they could not be counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syncs: Vec<NodeSyncs>,
    /// Settings of running processes that disable syncs, such as `--unsafe-no-fsync`. Nothing else of a command line
    /// or an environment is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsafe_settings: Vec<String>,
    /// Passed if no write can have gone without the syncs that the system claims.
    pub verdict: Verdict,
}

/// Counts the syncs of one node during the probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeSyncs {
    /// Name of the node, such as `etcd-1`.
    pub name: String,
    /// Completed calls of `fsync`, `fdatasync`, `msync`, `syncfs`, and writes to files opened with `O_DSYNC`.
    pub syncs: u64,
}

/// Observations of one component of a system: its own nodes, or those of a part.
pub type Component = Vec<NodeSyncs>;

impl Durability {
    /// Creates a probe that could not be made.
    pub fn not_checked(why: impl Into<String>) -> Self {
        Self {
            writes: 0,
            clients: 0,
            syncs: Vec::new(),
            unsafe_settings: Vec::new(),
            verdict: Verdict::NotChecked(why.into()),
        }
    }

    /// Adds unsafe settings. They alone contradict a claim of disks.
    pub fn with_unsafe_settings(mut self, settings: Vec<String>) -> Self {
        if !settings.is_empty() {
            let ran_with = format!("ran with {}", settings.join(", "));
            let evidence = match self.syncs.is_empty() {
                true => String::new(),
                false => format!(": {}", self.syncs_text()),
            };
            self.verdict = Verdict::Failed(format!("{ran_with}{evidence}"));
            self.unsafe_settings = settings;
        }
        self
    }

    /// Judges the syncs of a probe. `claim` is the system's claim, [`AckLocation::Disk`] or
    /// [`AckLocation::MajorityDisks`]. One component with enough syncs satisfies the claim.
    pub fn judged(
        claim: AckLocation,
        writes: u64,
        clients: u32,
        components: Vec<Component>,
    ) -> Self {
        let shared = u64::from(clients.max(1));
        let enough = |component: &Component| {
            let served = |node: &NodeSyncs| node.syncs.saturating_mul(shared).min(writes);
            let served: u64 = component.iter().map(served).sum();
            let nodes = match claim {
                AckLocation::MajorityDisks => component.len() as u64 / 2 + 1,
                _ => 1,
            };
            !component.is_empty() && served >= writes.saturating_mul(nodes)
        };
        let kept = components.iter().any(enough);
        let syncs: Component = components.into_iter().flatten().collect();
        let mut judged =
            Self { writes, clients, syncs, unsafe_settings: Vec::new(), verdict: Verdict::Passed };
        if !kept {
            judged.verdict = Verdict::Failed(judged.syncs_text());
        }
        judged
    }

    /// Formats the count: `150 syncs for 50 acknowledged writes`, per node if there are several.
    pub fn syncs_text(&self) -> String {
        let plural = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{} {what}s", count_text(count)),
        };
        let total = self.syncs.iter().map(|node| node.syncs).fold(0, u64::saturating_add);
        let nodes = match self.syncs.len() {
            0 | 1 => String::new(),
            nodes => format!(" on {nodes} nodes"),
        };
        let clients = match self.clients {
            0 | 1 => String::new(),
            clients => format!(" of {}", plural(clients.into(), "client")),
        };
        let syncs = plural(total, "sync");
        format!("{syncs}{nodes} for {}{clients}", plural(self.writes, "acknowledged write"))
    }
}

impl Guarantees {
    /// Returns true if it claims that an acknowledged write is on disk.
    pub fn claims_disks(&self) -> bool {
        self.acknowledged_in.is_some_and(AckLocation::is_on_disk)
    }
}

impl AckLocation {
    /// Returns true if a write is on disk when it is acknowledged, and survives a power cut.
    pub fn is_on_disk(self) -> bool {
        matches!(self, Self::Disk | Self::MajorityDisks)
    }

    /// Returns the strongest remaining claim if too few syncs were observed.
    pub fn without_syncs(self) -> Self {
        match self {
            Self::Disk => Self::PageCache,
            Self::MajorityDisks => Self::MajorityPageCaches,
            other => other,
        }
    }
}

/// Describes a server setting that disables syncs, on a command line or in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsafeSetting {
    /// Name: `unsafe-no-fsync`, `ETCD_UNSAFE_NO_FSYNC`.
    pub name: String,
    /// Unsafe values in lower case. An empty one stands for a flag without a value.
    pub values: Vec<String>,
}

impl UnsafeSetting {
    /// Creates a setting with its unsafe values.
    pub fn new(name: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Self { name: name.to_owned(), values }
    }

    /// Creates a switch that is unsafe when on.
    pub fn on(name: &str) -> Self {
        Self::new(name, &["", "true", "t", "1"])
    }
}

/// Returns the unsafe settings of a process, only by name and value. The last of several values of an argument
/// counts. An argument overrides an environment variable of the same name.
pub fn unsafe_settings(
    known: &[UnsafeSetting],
    args: &[String],
    env: &[(String, String)],
) -> Vec<String> {
    let mut found = Vec::new();
    for setting in known {
        let is_unsafe = |value: &str| setting.values.contains(&value.to_lowercase());
        if let Some((written, value)) = of_args(setting, args) {
            if is_unsafe(&value) {
                found.push(as_written(&written, &value));
            }
        } else if let Some((name, value)) = env.iter().find(|(name, _)| *name == setting.name)
            && is_unsafe(value)
        {
            found.push(as_written(name, value));
        }
    }
    let preloaded = |(name, value): &(String, String)| {
        name == "LD_PRELOAD" && value.to_lowercase().contains("eatmydata")
    };
    found.extend(env.iter().any(preloaded).then(|| "`LD_PRELOAD` of libeatmydata".to_owned()));
    found
}

/// Returns a setting's name as written in arguments, and its last value.
fn of_args(setting: &UnsafeSetting, args: &[String]) -> Option<(String, String)> {
    let mut found = None;
    for (place, arg) in args.iter().enumerate() {
        // Accepts `-Dname` of Java, `-name` and `--name`, and `name=value` after a `-c`.
        let bare = arg.trim_start_matches('-');
        let bare = match arg.strip_prefix("-D") {
            Some(property) => property,
            None => bare,
        };
        let Some(rest) = bare.strip_prefix(&setting.name) else { continue };
        let written = arg.strip_suffix(rest).unwrap_or(arg).to_owned();
        if let Some(value) = rest.strip_prefix('=') {
            found = Some((written, value.to_owned()));
        } else if rest.is_empty() && arg.starts_with('-') {
            let takes_value = !setting.values.iter().any(String::is_empty);
            let next = args.get(place + 1).filter(|_| takes_value);
            found = Some((written, next.cloned().unwrap_or_default()));
        }
    }
    found
}

fn as_written(name: &str, value: &str) -> String {
    match value {
        "" => format!("`{name}`"),
        value => format!("`{name}={value}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(syncs: &[u64]) -> Component {
        let node = |(place, &syncs)| NodeSyncs { name: format!("n-{}", place + 1), syncs };
        syncs.iter().enumerate().map(node).collect()
    }

    fn judged(claim: AckLocation, clients: u32, components: &[&[u64]]) -> Result<(), String> {
        let components = components.iter().map(|syncs| nodes(syncs)).collect();
        match Durability::judged(claim, 50, clients, components).verdict {
            Verdict::Passed => Ok(()),
            Verdict::Failed(why) => Err(why),
            Verdict::NotChecked(why) => panic!("{why}"),
        }
    }

    #[test]
    fn too_few_syncs_contradict_the_disk_claim() {
        use AckLocation::{Disk, MajorityDisks};
        let no = |why: &str| Err(why.to_owned());
        for (claim, clients, components, expected) in [
            (Disk, 1, &[&[50][..]][..], Ok(())),
            (Disk, 1, &[&[49]], no("49 syncs for 50 acknowledged writes")),
            (Disk, 1, &[&[1]], no("1 sync for 50 acknowledged writes")),
            (Disk, 1, &[&[0, 70]], Ok(())),
            // With group commit two clients share each sync.
            (Disk, 2, &[&[25]], Ok(())),
            (Disk, 2, &[&[24]], no("24 syncs for 50 acknowledged writes of 2 clients")),
            (MajorityDisks, 1, &[&[50, 50, 0]], Ok(())),
            (MajorityDisks, 1, &[&[50, 20, 30]], Ok(())),
            // Many syncs of one node do not make a majority.
            (
                MajorityDisks,
                1,
                &[&[900, 0, 0]],
                no("900 syncs on 3 nodes for 50 acknowledged writes"),
            ),
            // The storage behind a system syncs for it.
            (MajorityDisks, 1, &[&[0], &[60, 0, 51]], Ok(())),
            (MajorityDisks, 1, &[&[], &[0]], no("0 syncs for 50 acknowledged writes")),
        ] {
            assert_eq!(judged(claim, clients, components), expected, "{claim:?} {components:?}");
        }
    }

    #[test]
    fn unsafe_setting_alone_is_evidence() {
        let probe = Durability::not_checked("ptrace").with_unsafe_settings(vec!["`-F`".into()]);
        assert_eq!(probe.verdict, Verdict::Failed("ran with `-F`".into()));
        let probe = Durability::judged(AckLocation::Disk, 50, 1, vec![nodes(&[0])]);
        let probe = probe.with_unsafe_settings(vec!["`-F`".into()]);
        let why = "ran with `-F`: 0 syncs for 50 acknowledged writes";
        assert_eq!(probe.verdict, Verdict::Failed(why.into()));
    }

    #[test]
    fn finds_unsafe_settings_and_nothing_else() {
        let known = [
            UnsafeSetting::on("unsafe-no-fsync"),
            UnsafeSetting::on("ETCD_UNSAFE_NO_FSYNC"),
            UnsafeSetting::new("appendfsync", &["no", "everysec"]),
            UnsafeSetting::new("zookeeper.forceSync", &["no"]),
            UnsafeSetting::new("fsync", &["off"]),
        ];
        let found = |args: &[&str], env: &[(&str, &str)]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
            unsafe_settings(&known, &args, &env.iter().map(own).collect::<Vec<_>>())
        };
        for (args, expected) in [
            (&["etcd", "--unsafe-no-fsync", "--name", "a"][..], "`--unsafe-no-fsync`"),
            (&["etcd", "-unsafe-no-fsync=TRUE"], "`-unsafe-no-fsync=TRUE`"),
            (&["redis-server", "--appendfsync", "no"], "`--appendfsync=no`"),
            (&["java", "-Dzookeeper.forceSync=no", "Main"], "`-Dzookeeper.forceSync=no`"),
            (&["postgres", "-c", "fsync=off"], "`fsync=off`"),
        ] {
            assert_eq!(found(args, &[]), [expected]);
        }
        for args in [
            &["etcd", "--unsafe-no-fsync=false", "unsafe-no-fsync"][..],
            &["etcd", "--unsafe-no-fsync-not"],
            &["redis-server", "--appendfsync", "no", "--appendfsync", "always"],
            &["redis-server", "--appendfsync"],
        ] {
            assert_eq!(found(args, &[]), [""; 0], "{args:?}");
        }
        assert_eq!(
            found(&[], &[("ETCD_UNSAFE_NO_FSYNC", "true")]),
            ["`ETCD_UNSAFE_NO_FSYNC=true`"]
        );
        assert_eq!(found(&[], &[("ETCD_UNSAFE_NO_FSYNC", "false"), ("SECRET", "x")]), [""; 0]);
        assert_eq!(found(&[], &[("LD_PRELOAD", "/l/libeatmydata.so")]).len(), 1);
    }
}
