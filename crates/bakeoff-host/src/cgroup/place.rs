//! Finds the place for the groups of nodes: the hierarchy with a controller, and our place in it.
//!
//! Not here: limits (`cgroup`).

use std::io;
use std::path::{Path, PathBuf};

use super::Tree;

/// The controller that applies limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Memory,
}

impl Controller {
    /// As the kernel calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// Of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// A hierarchy that has a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    version: Version,
    /// The group that ours are made in.
    below: PathBuf,
}

impl Hierarchy {
    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn below(&self) -> &Path {
        &self.below
    }

    /// Makes the group of a node; what is wrong is in words.
    pub(super) fn make_group(
        &self,
        tree: &dyn Tree,
        controller: Controller,
        run: &str,
        node: &str,
    ) -> Result<PathBuf, String> {
        let of_run = self.below.join(run);
        let group = of_run.join(node);
        let fail = |what: &Path, error: io::Error| {
            format!("the cgroup `{}` cannot be made: {error}", what.display())
        };
        tree.make(&of_run).map_err(|error| fail(&of_run, error))?;
        if self.version == Version::Two {
            enable(tree, &of_run, controller)?;
        }
        tree.make(&group).map_err(|error| fail(&group, error))?;
        Ok(group)
    }
}

/// Finds where groups with this controller can be made. `own`: `/proc/self/cgroup`; `mounts`:
/// `/proc/self/mountinfo`.
pub(super) fn find(
    tree: &dyn Tree,
    controller: Controller,
    own: &str,
    mounts: &str,
) -> Result<Hierarchy, String> {
    let name = controller.name();
    // A controller is in one hierarchy at a time: that of a v1 mount, or else the v2 one.
    if let Some(path) = own_group(own, |list| list.split(',').any(|one| one == name)) {
        let mount = mounted(mounts, |kind, options| {
            kind == "cgroup" && options.split(',').any(|one| one == name)
        });
        let mount = mount.ok_or_else(|| {
            format!("the cgroup (v1) hierarchy of the `{name}` controller is mounted nowhere")
        })?;
        return Ok(Hierarchy { version: Version::One, below: mount.dir_of(path) });
    }
    let path = own_group(own, str::is_empty);
    let mount = mounted(mounts, |kind, _| kind == "cgroup2");
    let (Some(path), Some(mount)) = (path, mount) else {
        return Err(format!("no cgroup hierarchy with the `{name}` controller is mounted"));
    };
    let own = mount.dir_of(path);
    let beside = own.parent().filter(|_| own != mount.place);
    let mut reasons = Vec::new();
    for below in [Some(own.as_path()), beside].into_iter().flatten() {
        match may_divide(tree, below).and_then(|()| enable(tree, below, controller)) {
            Ok(()) => return Ok(Hierarchy { version: Version::Two, below: below.to_owned() }),
            Err(why) => reasons.push(why),
        }
    }
    Err(reasons.join("; "))
}

/// Returns whether groups below this one could have processes and controllers.
fn may_divide(tree: &dyn Tree, group: &Path) -> Result<(), String> {
    // The root alone has no type, and may have both.
    let is_root = tree.read(&group.join("cgroup.type")).is_err();
    let members = tree.read(&group.join("cgroup.procs")).unwrap_or_default();
    if !is_root && !members.trim().is_empty() {
        return Err(format!(
            "the cgroup `{}` holds processes itself, and so cannot be divided",
            group.display()
        ));
    }
    Ok(())
}

/// Gives the groups below this one a controller.
fn enable(tree: &dyn Tree, group: &Path, controller: Controller) -> Result<(), String> {
    let name = controller.name();
    let has = |file: &str| {
        let text = tree.read(&group.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().any(|one| one == name)
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err(format!("the cgroup `{}` has no `{name}` controller", group.display()));
    }
    let control = group.join("cgroup.subtree_control");
    tree.write(&control, &format!("+{name}"))
        .map_err(|error| format!("`+{name}` cannot be written to `{}`: {error}", control.display()))
}

/// Our group in the hierarchy whose controllers are `wanted`; `cgroups(7)`.
fn own_group(own: &str, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        wanted(controllers).then_some(path)
    })
}

/// A mounted hierarchy, or a part of one.
struct Mount {
    place: PathBuf,
    /// The group that is mounted there.
    root: String,
}

impl Mount {
    fn dir_of(&self, group: &str) -> PathBuf {
        // A group outside of what is mounted cannot be reached; the part's root then is the place.
        let inside = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        match inside.as_os_str().is_empty() {
            true => self.place.clone(),
            false => self.place.join(inside),
        }
    }
}

/// The first mount of a kind; `proc_pid_mountinfo(5)`.
fn mounted(mounts: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
        let mut before = before.split(' ').skip(3);
        let (root, place) = (before.next()?, before.next()?);
        is_it(kind, options).then(|| Mount { place: place.into(), root: root.to_owned() })
    })
}
