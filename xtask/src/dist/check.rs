//! Runs the static program where there is nothing but it: in a root folder of its own, and as a container.
//!
//! The bare root proves that no file of a system is needed, and that names are resolved without one: glibc asks for
//! libraries to do that. The container proves the image: unpacked by its own index, run by `runc` as the image's user
//! with nothing to write to but `/tmp`, as Kubernetes runs it.
//!
//! Not here: writing the image (`oci`).

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::oci::USER;
use super::wheel::{self, Target};
use crate::Failure;
use crate::peers::fetch::{Debian, on_path};
use crate::peers::{free_port, get};

const READY_WITHIN: Duration = Duration::from_secs(10);
/// A name that only the bare root's own table of hosts has.
const NAME: &str = "only-here.test";
const HOSTS: &str = "127.0.0.1 localhost\n127.0.0.1 only-here.test\n";
const SCRIPT: &str =
    "request = function() return wrk.format(\"GET\", \"/\" .. tostring(jit ~= nil)) end\n";

/// Installs a wheel into a fresh Python environment, and runs the study `demo` from there.
pub(super) fn wheel(wheel: &Path, target: &Target) -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let venv = dir.path().join("venv");
    wheel::venv(&venv)?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index"]).arg(wheel);
    succeed(pip)?;
    demo(&venv.join("bin/bakeoff"), dir.path())?;
    let page = venv.join("share/man/man1/bakeoff.1");
    if !page.is_file() {
        return Err(format!("the wheel installed no `{}`", page.display()));
    }
    println!("wheel for {}: installed by pip, runs `demo`", target.triple);
    Ok(())
}

/// Installs a Debian package below a folder, and runs its program.
pub(super) fn deb(package: &Path) -> Result<(), Failure> {
    if on_path("dpkg-deb").is_none() {
        println!("Debian package: skipped: no `dpkg-deb` here");
        return Ok(());
    }
    let dir = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(dir.path());
    succeed(unpack)?;
    let mut version = Command::new(dir.path().join("usr/bin/bakeoff"));
    version.arg("--version");
    succeed(version)?;
    println!("Debian package: dpkg unpacks it, and its program runs");
    Ok(())
}

/// Runs a small form of the study `demo`, whose audits have to pass.
fn demo(program: &Path, folder: &Path) -> Result<(), Failure> {
    let mut demo = Command::new(program);
    demo.args(DEMO).arg("--out").arg(folder.join("runs"));
    passed(&finish(demo, &[0, 1])?)
}

/// A busy machine starves a load generator, so trials may be invalid. Audits have to pass.
const DEMO: [&str; 7] = ["run", "demo", "--scale", "0.25", "--trials", "2", "--shared-machine"];

fn passed(printed: &str) -> Result<(), Failure> {
    let read_back = printed.lines().find(|line| line.starts_with("writes read back: "));
    match read_back.is_some_and(|line| line.contains(" keys, none lost, also after a kill")) {
        true => Ok(()),
        false => Err(format!("`run demo` did not pass its audits\n  {printed}")),
    }
}

/// Runs the static program in a bare root, and its image as a container.
pub(super) fn check(program: &Path, layout: &Path) -> Result<(), Failure> {
    bare_root(program)?;
    container(layout)
}

/// Returns the loader that a program asks the kernel for, and `None` for one that needs none: `elf(5)`, `PT_INTERP`.
pub(super) fn loader(program: &Path) -> Result<Option<String>, Failure> {
    let file = fs::read(program)
        .map_err(|error| format!("cannot read `{}`: {error}", program.display()))?;
    find_loader(&file).ok_or_else(|| format!("`{}` is no 64-bit ELF file", program.display()))
}

fn find_loader(file: &[u8]) -> Option<Option<String>> {
    const INTERP: u64 = 3;
    // 64 bits, little-endian.
    file.strip_prefix(b"\x7fELF\x02\x01")?;
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    };
    let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for nth in 0..count {
        let header = usize::try_from(headers + nth * size).ok()?;
        if number(header, 4)? == INTERP {
            let from = usize::try_from(number(header + 8, 8)?).ok()?;
            let length = usize::try_from(number(header + 32, 8)?).ok()?;
            let path = file.get(from..from.checked_add(length)?)?;
            return Some(Some(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned()));
        }
    }
    Some(None)
}

/// A canary that answers every path. It ends when this is dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path, data: &Path) -> Result<Self, Failure> {
        let address = free_port()?;
        let mut command = Command::new(program);
        command.args(["__canary", "--listen", &address.to_string(), "--answer", "64"]);
        command.arg("--data").arg(data).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot run the canary: {error}"))?;
        let server = Self { child, address };
        let until = Instant::now() + READY_WITHIN;
        while !get(address, "/health").is_ok_and(|answer| answer.contains(" 200 ")) {
            if Instant::now() > until {
                return Err(format!(
                    "the canary was not ready at {address} after {READY_WITHIN:?}"
                ));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs the program in a root folder that holds it, an empty `/tmp` and a table of hosts.
fn bare_root(program: &Path) -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let root = dir.path().join("root");
    let write = |error: std::io::Error| format!("cannot write `{}`: {error}", root.display());
    for folder in ["tmp", "etc"] {
        fs::create_dir_all(root.join(folder)).map_err(write)?;
    }
    fs::copy(program, root.join("bakeoff")).map_err(write)?;
    fs::write(root.join("etc/hosts"), HOSTS).map_err(write)?;
    fs::write(root.join("script.lua"), SCRIPT).map_err(write)?;
    let within = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "--root"]).arg(&root);
        command.args(["--wd", "/", "/bakeoff"]).args(words).env_clear();
        command
    };
    if let Err(why) = succeed(within(&["--version"])) {
        if succeed(unshared()).is_err() {
            println!("bare root: skipped: this machine allows no user namespace");
            return Ok(());
        }
        return Err(format!("in a root folder of its own: {why}"));
    }
    let server = Server::start(program, dir.path())?;
    for host in ["localhost", NAME] {
        let url = format!("http://{host}:{}/", server.address.port());
        let load = succeed(within(&["load", &url, "-c", "2", "-n", "200", "--json"]))?;
        let report: Value = serde_json::from_str(&load)
            .map_err(|error| format!("`load` in a bare root printed no JSON: {error}\n  {load}"))?;
        let requests = report.pointer("/requests").and_then(Value::as_u64);
        if requests != Some(200) {
            return Err(format!(
                "`load {url}` in a bare root had {requests:?} of 200 requests verified"
            ));
        }
        let wrk = ["wrk", "-t", "1", "-c", "2", "-d", "1s", "-s", "/script.lua", &url];
        let printed = succeed(within(&wrk))?;
        if !printed.contains("requests in") || printed.contains("Non-2xx") {
            return Err(format!("`wrk` with a script in a bare root printed\n  {printed}"));
        }
    }
    println!("bare root: runs, resolves localhost and a name of /etc/hosts, runs a Lua script");
    Ok(())
}

fn unshared() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "true"]);
    command
}

/// Runs the image, and the study `demo` in it.
fn container(layout: &Path) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        println!("container: skipped: runc is run by root alone here");
        return Ok(());
    }
    let runc = Debian::default().program("runc", "runc", &["libseccomp2"])?;
    let dir = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let bundle = dir.path();
    let settings = unpack(layout, &bundle.join("rootfs"))?;
    let mut spec = runc.command();
    spec.args(["spec", "--bundle"]).arg(bundle);
    succeed(spec)?;
    let file = bundle.join("config.json");
    let read = fs::read(&file).map_err(|error| format!("cannot read runc's settings: {error}"))?;
    let spec: Value = serde_json::from_slice(&read).map_err(|error| error.to_string())?;
    let contained = |name: &str, words: &[&str]| {
        let spec = adapted(spec.clone(), &settings, words);
        fs::write(&file, spec.to_string())
            .map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
        let id = format!("bakeoff-dist-{}-{name}", std::process::id());
        let mut command = runc.command();
        command.arg("--root").arg(bundle.join("state")).args(["run", "--bundle"]).arg(bundle);
        command.arg(id).stdin(Stdio::null());
        Ok::<_, Failure>(command)
    };
    let version = succeed(contained("version", &["--version"])?)
        .map_err(|why| format!("as a container: {why}"))?;
    let expected = format!("bakeoff {}", super::VERSION);
    if !version.contains(&expected) {
        return Err(format!("the image printed `{}`, not `{expected}`", version.trim()));
    }
    finish(contained("demo", &DEMO)?, &[0, 1])
        .and_then(|printed| passed(&printed))
        .map_err(|why| format!("as a container: {why}"))?;
    println!(
        "container: prints its version and runs `demo` as user {USER}, in a root that is read-only"
    );
    Ok(())
}

/// Unpacks the one image of a layout, and returns its settings.
fn unpack(layout: &Path, rootfs: &Path) -> Result<Value, Failure> {
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        let hash = digest.strip_prefix("sha256:").unwrap_or_default();
        let bytes = fs::read(layout.join("blobs/sha256").join(hash))
            .map_err(|error| format!("cannot read the blob `{digest}`: {error}"))?;
        if crate::oci::sha256(&bytes) == hash {
            Ok(bytes)
        } else {
            Err(format!("`{digest}` is another"))
        }
    };
    let json = |bytes: Vec<u8>| -> Result<Value, Failure> {
        serde_json::from_slice(&bytes).map_err(|error| format!("the layout has no JSON: {error}"))
    };
    let index = fs::read(layout.join("index.json"))
        .map_err(|error| format!("cannot read `{}`: {error}", layout.display()))?;
    let manifest = json(blob(&json(index)?["manifests"][0])?)?;
    let config = json(blob(&manifest["config"])?)?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        let mut tar = Vec::new();
        let unpacked = GzDecoder::new(&blob(layer)?[..]).read_to_end(&mut tar).and_then(|_| {
            let mut archive = tar::Archive::new(&tar[..]);
            archive.set_preserve_permissions(true);
            archive.unpack(rootfs)
        });
        unpacked.map_err(|error| format!("cannot unpack the layer: {error}"))?;
    }
    Ok(config["config"].clone())
}

/// Makes runc's own example do what the image says.
fn adapted(mut spec: Value, settings: &Value, words: &[&str]) -> Value {
    let mut args = settings["Entrypoint"].as_array().cloned().unwrap_or_default();
    args.extend(words.iter().map(|word| json!(word)));
    spec["process"]["terminal"] = json!(false);
    spec["process"]["args"] = json!(args);
    spec["process"]["env"] = settings["Env"].clone();
    spec["process"]["cwd"] = settings["WorkingDir"].clone();
    spec["process"]["user"] = json!({"uid": USER, "gid": USER});
    spec["root"]["readonly"] = json!(true);
    if let Some(mounts) = spec["mounts"].as_array_mut() {
        mounts.push(json!({
            "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777"],
        }));
    }
    spec
}

/// Runs a command and returns its output; an exit code other than 0 is a failure that tells what it printed.
fn succeed(command: Command) -> Result<String, Failure> {
    finish(command, &[0])
}

/// The same with other exit codes that are no failure.
fn finish(mut command: Command, codes: &[i32]) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run `{name}`: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code().is_some_and(|code| codes.contains(&code)) {
        return Ok(printed);
    }
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "`{name} {}` ended with {}\n  {}",
        words.join(" "),
        output.status,
        format!("{printed}{errors}").trim().replace('\n', "\n  ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_of_a_dynamic_program_is_found() {
        // This test is one, unless the toolchain links all statically.
        let own = std::env::current_exe().unwrap();
        let found = loader(&own).unwrap();
        let is_static = cfg!(target_feature = "crt-static");
        assert_eq!(found.is_none(), is_static, "{found:?}");
        assert!(found.is_none_or(|path| path.starts_with('/') && path.contains("ld")));
    }

    #[test]
    fn no_program_and_a_broken_one_are_refused() {
        assert_eq!(find_loader(b"#!/bin/sh\n"), None);
        // The headers would be beyond the file's end.
        let mut broken = b"\x7fELF\x02\x01".to_vec();
        broken.resize(64, 0);
        broken[32] = 64;
        broken[54] = 56;
        assert_eq!(find_loader(&broken), Some(None));
        broken[56] = 1;
        assert_eq!(find_loader(&broken), None);
    }
}
