//! Builds the Python wheel of a target: maturin runs cargo, zig compiles C and links.
//!
//! zig brings the headers of musl and the symbols of old versions of glibc for each processor, so one machine builds
//! for all targets. Both tools come from PyPI into an environment of their own.
//!
//! Not here: packages made from the wheel's program (`archive`, `debian`, `oci`).

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::output_of;
use crate::{Failure, root, run, without_own_variables};

use super::VERSION;
use super::archive::PackageFile;

/// Versions and hashes of maturin and zig.
const REQUIREMENTS: &str = include_str!("requirements.txt");
const PROJECT: &str = include_str!("pyproject.toml");
/// Manifest of the program, in the checkout.
const MANIFEST: &str = "crates/bakeoff/Cargo.toml";

/// A kind of machine that bakeoff is built for.
#[derive(Debug)]
pub(super) struct Target {
    /// Rust's name of it.
    pub(super) triple: &'static str,
    /// The name by which pip knows machines that can run it.
    platform: &'static str,
    /// The processor as Debian and container images name it.
    pub(super) processor: &'static str,
}

/// The targets. glibc 2.28 is that of Debian 10 and Red Hat 8.
pub(super) const TARGETS: [Target; 4] = [
    Target { triple: "x86_64-unknown-linux-musl", platform: "musllinux_1_2", processor: "amd64" },
    Target { triple: "x86_64-unknown-linux-gnu", platform: "manylinux_2_28", processor: "amd64" },
    Target { triple: "aarch64-unknown-linux-musl", platform: "musllinux_1_2", processor: "arm64" },
    Target { triple: "aarch64-unknown-linux-gnu", platform: "manylinux_2_28", processor: "arm64" },
];

impl Target {
    /// Returns true if the program needs no library of the machine.
    pub(super) fn is_static(&self) -> bool {
        self.triple.ends_with("musl")
    }

    /// Returns true if pip of this machine takes the wheel: it looks at the C library.
    pub(super) fn installs_here(&self) -> bool {
        self.runs_here() && self.is_static() == cfg!(target_env = "musl")
    }

    /// Returns true if this machine can run the program.
    pub(super) fn runs_here(&self) -> bool {
        self.triple.starts_with(std::env::consts::ARCH)
    }
}

/// A Python environment with maturin and zig.
pub(super) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Makes the environment, or takes the one of an earlier call.
    pub(super) fn fetch(folder: &Path) -> Result<Self, Failure> {
        let tools = Self { folder: folder.to_owned() };
        let done = folder.join("requirements.txt");
        if fs::read_to_string(&done).is_ok_and(|text| text == REQUIREMENTS) {
            return Ok(tools);
        }
        fs::remove_dir_all(folder).ok();
        venv(folder)?;
        let wanted = folder.join("wanted.txt");
        let cannot = |error| format!("cannot write `{}`: {error}", wanted.display());
        fs::write(&wanted, REQUIREMENTS).map_err(cannot)?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--no-deps", "--require-hashes", "--requirement"]);
        pip.arg(&wanted);
        run(pip)?;
        fs::rename(&wanted, &done).map_err(cannot)?;
        Ok(tools)
    }

    /// Builds the wheel of a target below `out` and returns its path. `out/python/data` is packed with it.
    pub(super) fn wheel(
        &self,
        target: &Target,
        is_release: bool,
        out: &Path,
    ) -> Result<PathBuf, Failure> {
        standard_library(target)?;
        let mut build = without_own_variables(Command::new(self.folder.join("bin/maturin")));
        build.current_dir(out.join("python"));
        build.args(["build", "--locked", "--zig", "--target", target.triple]);
        build.args(["--compatibility", target.platform, "--profile"]);
        build.arg(if is_release { "release" } else { "dev" });
        if target.is_static() {
            build.args(["--features", "portable"]);
        }
        build.arg("--out").arg(out).envs(self.environment(target)?);
        run(build)?;
        let tag = format!("{}_{}", target.platform, target.triple.split('-').next().unwrap_or(""));
        let wheel = out.join(format!("bakeoff-{VERSION}-py3-none-{tag}.whl"));
        match wheel.is_file() {
            true => Ok(wheel),
            false => Err(format!("maturin wrote no `{}`", wheel.display())),
        }
    }

    /// Returns variables that make a build the same on each machine and in each folder.
    fn environment(&self, target: &Target) -> Result<Vec<(String, String)>, Failure> {
        let home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")))
            .ok_or("neither CARGO_HOME nor HOME is set")?;
        let folders = [(home.join("registry/src"), "crates"), (root(), "bakeoff")];
        let remap = |flag: &str| {
            let each = folders.iter().map(|(from, to)| format!("{flag}={}={to}", from.display()));
            each.collect::<Vec<_>>().join(" ")
        };
        let name = target.triple.to_uppercase().replace('-', "_");
        // LuaJIT registers its code with the C library's unwinder, which zig does not link, and in a form that Rust's
        // unwinder for musl refuses. With this it unwinds its own frames alone; mlua lets no panic cross them.
        let unwind = " -DLUAJIT_NO_UNWIND";
        let path = std::env::var("PATH").unwrap_or_default();
        Ok(vec![
            ("PATH".into(), format!("{}/bin:{path}", self.folder.display())),
            ("VIRTUAL_ENV".into(), self.folder.display().to_string()),
            ("SOURCE_DATE_EPOCH".into(), committed_at()?),
            // LuaJIT strips its own program, which bakeoff does not use; this machine's `strip` rejects other processors.
            ("TARGET_STRIP".into(), "true".into()),
            (format!("CARGO_TARGET_{name}_RUSTFLAGS"), remap("--remap-path-prefix")),
            (
                format!("CFLAGS_{}", target.triple.replace('-', "_")),
                format!("{}{unwind}", remap("-ffile-prefix-map")),
            ),
        ])
    }
}

/// Writes the Python project with the files that go into each wheel, below `out/python`.
pub(super) fn write_project(out: &Path, files: &[PackageFile]) -> Result<(), Failure> {
    let folder = out.join("python");
    let cannot = |error| format!("cannot write `{}`: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    for file in files {
        let path = folder.join("data/data").join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(cannot)?;
        fs::write(path, &file.bytes).map_err(cannot)?;
    }
    // The output folder may be outside the project.
    let manifest = root().join(MANIFEST);
    let project = PROJECT.replace(MANIFEST, &manifest.display().to_string());
    fs::write(folder.join("pyproject.toml"), project).map_err(cannot)
}

/// Makes a Python environment.
pub(super) fn venv(folder: &Path) -> Result<(), Failure> {
    let mut python = Command::new("python3");
    python.args(["-m", "venv"]).arg(folder);
    run(python).map_err(|why| format!("{why}\nhint: Debian has it in `python3-venv`"))
}

/// Returns the time of the last commit, in seconds since 1970. All packages carry it.
fn committed_at() -> Result<String, Failure> {
    let root = root().display().to_string();
    output_of("git", &["-C", &root, "log", "-1", "--format=%ct"])
}

/// Has rustup fetch Rust's standard library for a target, unless it is there.
fn standard_library(target: &Target) -> Result<(), Failure> {
    let sysroot = PathBuf::from(output_of("rustc", &["--print", "sysroot"])?);
    if sysroot.join("lib/rustlib").join(target.triple).join("lib").is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target.triple]);
    run(rustup)
}

/// Takes the program out of a wheel. Refuses a wheel that holds the path of this checkout.
pub(super) fn program(wheel: &Path, to: &Path) -> Result<(), Failure> {
    let cannot = |why: &dyn std::fmt::Display| format!("`{}`: {why}", wheel.display());
    let file = File::open(wheel).map_err(|error| cannot(&error))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| cannot(&error))?;
    let program = format!("bakeoff-{VERSION}.data/scripts/bakeoff");
    let checkout = root().join("crates/").display().to_string();
    let mut found = None;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(|error| cannot(&error))?;
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
        let name = member.name().map_err(|error| cannot(&error))?.into_owned();
        // Wheels of two checkouts would differ.
        if bytes.windows(checkout.len()).any(|part| part == checkout.as_bytes()) {
            return Err(cannot(&format!("`{name}` in it holds the checkout's path `{checkout}`")));
        }
        if name == program {
            found = Some(bytes);
        }
    }
    let bytes = found.ok_or_else(|| cannot(&format!("it holds no `{program}`")))?;
    super::write_program(to, &bytes)
}
