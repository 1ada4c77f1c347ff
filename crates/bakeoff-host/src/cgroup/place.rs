//! Finds where groups for nodes can be created: the hierarchy of a controller, and a group in it.
//!
//! Not here: limits (`cgroup`).

use std::io;
use std::path::{Path, PathBuf};

use super::Tree;

/// The controller that applies a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Memory,
}

impl Controller {
    /// Returns the kernel's name for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// Version of the cgroup interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// The reason why no group can be created for a node.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    #[error("the cgroup (v1) hierarchy of the `{}` controller is not mounted", .0.name())]
    NotMounted(Controller),
    #[error("no cgroup hierarchy with the `{}` controller is mounted", .0.name())]
    NoHierarchy(Controller),
    #[error("the cgroup `{0}` holds processes, so it cannot have limited subgroups")]
    HoldsProcesses(PathBuf),
    #[error("the cgroup `{0}` has no `{controller}` controller", controller = .1.name())]
    NoController(PathBuf, Controller),
    #[error("cannot write `+{controller}` to `{0}`: {2}", controller = .1.name())]
    NotEnabled(PathBuf, Controller, #[source] io::Error),
    #[error("cannot create the cgroup `{0}`: {1}")]
    NotMade(PathBuf, #[source] io::Error),
    /// Neither our own group nor its parent can have limited subgroups.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Nowhere(Vec<PlaceError>),
}

/// A hierarchy that has a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    version: Version,
    /// The group in which ours are created.
    below: PathBuf,
}

impl Hierarchy {
    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn below(&self) -> &Path {
        &self.below
    }

    /// Creates the group of a node.
    pub(super) fn make_group(
        &self,
        tree: &dyn Tree,
        controller: Controller,
        run: &str,
        node: &str,
    ) -> Result<PathBuf, PlaceError> {
        let of_run = self.below.join(run);
        let group = of_run.join(node);
        tree.make(&of_run).map_err(|error| PlaceError::NotMade(of_run.clone(), error))?;
        if self.version == Version::Two {
            enable(tree, &of_run, controller)?;
        }
        tree.make(&group).map_err(|error| PlaceError::NotMade(group.clone(), error))?;
        Ok(group)
    }
}

/// Finds where groups with this controller can be created. `own`: `/proc/self/cgroup`; `mounts`:
/// `/proc/self/mountinfo`.
pub(super) fn find(
    tree: &dyn Tree,
    controller: Controller,
    own: &str,
    mounts: &str,
) -> Result<Hierarchy, PlaceError> {
    let name = controller.name();
    // A controller is in one hierarchy at a time: that of a v1 mount, or else the v2 one.
    if let Some(path) = own_group(own, |list| list.split(',').any(|one| one == name)) {
        let mount = mounted(mounts, |kind, options| {
            kind == "cgroup" && options.split(',').any(|one| one == name)
        });
        let mount = mount.ok_or(PlaceError::NotMounted(controller))?;
        return Ok(Hierarchy { version: Version::One, below: mount.dir_of(path) });
    }
    let path = own_group(own, str::is_empty);
    let mount = mounted(mounts, |kind, _| kind == "cgroup2");
    let (Some(path), Some(mount)) = (path, mount) else {
        return Err(PlaceError::NoHierarchy(controller));
    };
    let own = mount.dir_of(path);
    let adjacent = own.parent().filter(|_| own != mount.place);
    let mut reasons = Vec::new();
    for below in [Some(own.as_path()), adjacent].into_iter().flatten() {
        match may_divide(tree, below).and_then(|()| enable(tree, below, controller)) {
            Ok(()) => return Ok(Hierarchy { version: Version::Two, below: below.to_owned() }),
            Err(why) => reasons.push(why),
        }
    }
    Err(PlaceError::Nowhere(reasons))
}

/// Returns our own group with this controller, as far as it is visible. `own`: `/proc/self/cgroup`; `mounts`:
/// `/proc/self/mountinfo`.
pub(super) fn own_dir(
    controller: Controller,
    own: &str,
    mounts: &str,
) -> Option<(Version, PathBuf)> {
    let has = |list: &str| list.split(',').any(|one| one == controller.name());
    if let Some(path) = own_group(own, has) {
        let mount = mounted(mounts, |kind, options| kind == "cgroup" && has(options))?;
        return Some((Version::One, mount.dir_of(path)));
    }
    let mount = mounted(mounts, |kind, _| kind == "cgroup2")?;
    Some((Version::Two, mount.dir_of(own_group(own, str::is_empty)?)))
}

/// Checks that groups below this one may have both processes and controllers.
fn may_divide(tree: &dyn Tree, group: &Path) -> Result<(), PlaceError> {
    // Only the root has no type, and it may have both.
    let is_root = tree.read(&group.join("cgroup.type")).is_err();
    let members = tree.read(&group.join("cgroup.procs")).unwrap_or_default();
    if !is_root && !members.trim().is_empty() {
        return Err(PlaceError::HoldsProcesses(group.to_owned()));
    }
    Ok(())
}

/// Enables a controller for the groups below this one.
fn enable(tree: &dyn Tree, group: &Path, controller: Controller) -> Result<(), PlaceError> {
    let name = controller.name();
    let has = |file: &str| {
        let text = tree.read(&group.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().any(|one| one == name)
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err(PlaceError::NoController(group.to_owned(), controller));
    }
    let control = group.join("cgroup.subtree_control");
    tree.write(&control, &format!("+{name}"))
        .map_err(|error| PlaceError::NotEnabled(control.clone(), controller, error))
}

/// Returns our group in the hierarchy whose list of controllers is `wanted`; `cgroups(7)`.
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
        // A group outside the mounted part is unreachable; use the part's root.
        let inside = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        match inside.as_os_str().is_empty() {
            true => self.place.clone(),
            false => self.place.join(inside),
        }
    }
}

/// Returns the first mount of a kind; `proc_pid_mountinfo(5)`.
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
