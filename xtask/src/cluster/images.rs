//! Builds the images of a cluster without a daemon, and imports them into the nodes, because there is no registry.
//!
//! Not here: the format of an image (`crate::oci`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::debian;
use super::error::ClusterError;
use super::node::{PAUSE, SOCKET};
use super::process::{finish, wait_until};
use super::programs::{Programs, cluster_folder, lock};
use super::run::{Machine, Run};
use crate::oci::{Layout, write_image, write_tree_image};

/// Image with a shell and small tools in one program.
pub(super) const SHELL: &str = "localhost/bakeoff-shell:1";
/// Image with Debian's C library, shell, tools and Java.
pub(super) const DEBIAN: &str = "localhost/bakeoff-debian:1";

/// Unprivileged user and group.
const NOBODY: &str = "65534:65534";
const PASSWD: &str = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

const BRIEF: Duration = Duration::from_secs(20);
const IMPORTED: Duration = Duration::from_secs(300);

pub(super) fn pause(run: &Run, programs: &Programs) -> Result<PathBuf, ClusterError> {
    let out = run.path("images/pause.tar");
    let init = fs::read(&programs.init).map_err(ClusterError::file("read", &programs.init))?;
    let files = [("/init", init.as_slice(), 0o755)];
    write_image(Layout::Tar(&out), PAUSE, &files, &["/init"], NOBODY)?;
    Ok(out)
}

/// Writes the image with a shell: Busybox, with a link for each of its tools.
pub(super) fn shell(run: &Run, programs: &Programs) -> Result<PathBuf, ClusterError> {
    let out = run.path("images/shell.tar");
    let busybox = programs.tool("busybox");
    let tools = finish(Command::new(&busybox).arg("--list"), BRIEF)?;
    let tree = tempfile::tempdir_in(run.folder())
        .map_err(ClusterError::file("make a folder in", run.folder()))?;
    let make = || -> std::io::Result<()> {
        let bin = tree.path().join("bin");
        fs::create_dir(&bin)?;
        fs::copy(&busybox, bin.join("busybox"))?;
        for tool in tools.lines().filter(|tool| *tool != "busybox") {
            symlink("busybox", bin.join(tool))?;
        }
        add_users(tree.path())
    };
    make().map_err(ClusterError::file("make an image in", tree.path()))?;
    write_tree_image(Layout::Tar(&out), SHELL, tree.path(), &["/bin/sh"], NOBODY)?;
    Ok(out)
}

/// Returns the image of a Debian root folder from the cache, built if it is missing.
pub(super) fn debian(cache: &Path) -> Result<PathBuf, ClusterError> {
    let place = cluster_folder(cache)?;
    let _lock = lock(&place)?;
    let tree = debian::root(&place)?;
    let out = tree.with_extension("tar");
    if out.is_file() {
        return Ok(out);
    }
    let make = || -> std::io::Result<()> {
        add_users(&tree)?;
        // Debian's installation scripts, which did not run, would create these two links.
        link(&tree, "usr/bin/sh", "dash")?;
        if let Some(java) = java(&tree) {
            link(&tree, "usr/bin/java", &java)?;
        }
        Ok(())
    };
    make().map_err(ClusterError::file("make an image in", &tree))?;
    let fresh = out.with_extension("tar.new");
    write_tree_image(Layout::Tar(&fresh), DEBIAN, &tree, &["/bin/sh"], NOBODY)?;
    fs::rename(&fresh, &out).map_err(ClusterError::file("keep an image in", &out))?;
    Ok(out)
}

/// Writes an image of some files and of the shared libraries that they need.
pub(super) fn of_files(
    run: &Run,
    name: &str,
    files: &[(&str, &str)],
) -> Result<PathBuf, ClusterError> {
    let out = run.path("images/files.tar");
    let mut each: Vec<(String, PathBuf)> =
        files.iter().map(|(path, file)| ((*path).to_owned(), PathBuf::from(file))).collect();
    for (_, file) in files {
        each.extend(libraries(file)?.into_iter().map(|path| (path.display().to_string(), path)));
    }
    each.sort();
    each.dedup();
    let read = |(path, file): &(String, PathBuf)| {
        let bytes = fs::read(file).map_err(ClusterError::file("read", file))?;
        Ok((path.clone(), bytes))
    };
    let read = each.iter().map(read).collect::<Result<Vec<_>, ClusterError>>()?;
    let read: Vec<_> =
        read.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice(), 0o755)).collect();
    write_image(Layout::Tar(&out), name, &read, &[], NOBODY)?;
    Ok(out)
}

/// Returns the shared libraries and the loader of a program on this machine; empty for a static program.
fn libraries(program: &str) -> Result<Vec<PathBuf>, ClusterError> {
    let printed = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(|error| ClusterError::Start { program: "ldd".to_owned(), error })?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(printed.lines().filter_map(path).collect())
}

fn add_users(tree: &Path) -> std::io::Result<()> {
    let etc = tree.join("etc");
    fs::create_dir_all(&etc)?;
    fs::write(etc.join("passwd"), PASSWD)?;
    fs::write(etc.join("group"), GROUP)
}

fn link(tree: &Path, link: &str, target: &str) -> std::io::Result<()> {
    let link = tree.join(link);
    match link.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => symlink(target, link),
    }
}

/// Returns the path of Java in a tree: `/usr/lib/jvm/java-17-openjdk-amd64/bin/java`.
fn java(tree: &Path) -> Option<String> {
    let entries = fs::read_dir(tree.join("usr/lib/jvm")).ok()?.flatten();
    let mut runtimes = entries.filter(|entry| entry.path().join("bin/java").is_file());
    let name = runtimes.next()?.file_name();
    Some(format!("/usr/lib/jvm/{}/bin/java", name.to_string_lossy()))
}

/// Imports an image into a node, and waits until its kubelet sees it. Returns the images' names.
pub(super) fn import(
    programs: &Programs,
    node: &Machine,
    image: &Path,
) -> Result<Vec<String>, ClusterError> {
    let printed = finish(ctr(programs, node).arg("import").arg(image), IMPORTED)?;
    let names = imported(&printed);
    for name in &names {
        let late =
            || ClusterError::TooLong { program: format!("ctr import {name}"), within: BRIEF };
        wait_until(BRIEF, || has(programs, node, name), late)?;
    }
    Ok(names)
}

/// Returns true if a node's kubelet sees an image.
pub(super) fn has(programs: &Programs, node: &Machine, name: &str) -> Result<bool, ClusterError> {
    let list = finish(ctr(programs, node).args(["list", &format!("name=={name}")]), BRIEF)?;
    Ok(list.contains("io.cri-containerd.image=managed"))
}

fn ctr(programs: &Programs, node: &Machine) -> Command {
    let mut ctr = node.command(programs, &programs.tool("ctr"));
    ctr.args(["--address", SOCKET, "--namespace", "k8s.io", "images"]);
    ctr
}

/// Returns the names in the output of `ctr images import`: `unpacking localhost/x:1 (sha256:…)...done`.
fn imported(printed: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("unpacking ")?.split(' ').next()?.to_owned());
    printed.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_imported_images_are_read() {
        let printed = "unpacking localhost/bakeoff-shell:1 (sha256:00)...done\nelapsed: 0.1 s\n";
        assert_eq!(imported(printed), [SHELL]);
        assert!(imported("").is_empty());
    }

    #[test]
    fn java_of_a_tree_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(java(dir.path()), None);
        let bin = dir.path().join("usr/lib/jvm/java-17-openjdk-x/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("java"), "").unwrap();
        assert_eq!(java(dir.path()).unwrap(), "/usr/lib/jvm/java-17-openjdk-x/bin/java");
    }
}
