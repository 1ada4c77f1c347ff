//! `cargo xtask dist`: bakeoff as packages, for machines without a toolchain.
//!
//! maturin builds a Python wheel for each target. All other packages hold the program of a wheel: an archive to unpack
//! anywhere, a Debian package, an OCI image. All hold manual pages and shell completions. Two builds of one commit with
//! one toolchain give the same bytes.
//!
//! Not here: publishing. `docs/install.md` describes the packages.

mod archive;
mod check;
mod measure;
mod oci;
mod pages;
mod sbom;
mod wheel;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use self::archive::PackageFile;
use self::wheel::{TARGETS, Target, Tools};
use crate::oci::sha256;
use crate::peers::built_for_tests;
use crate::{Failure, root};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PAIRS_MIN: usize = 8;

#[derive(Debug)]
struct Options {
    targets: Vec<&'static Target>,
    is_release: bool,
    checks: bool,
    measures: bool,
    pairs: usize,
    /// A native release build, to measure against.
    native: Option<PathBuf>,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let mut options = Self {
            targets: Vec::new(),
            is_release: true,
            checks: false,
            measures: false,
            pairs: PAIRS_MIN,
            native: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().copied().ok_or(format!("`{word}` needs a value"));
            match word {
                "--target" => {
                    let triple = value()?;
                    let target = TARGETS.iter().find(|target| target.triple == triple);
                    options.targets.push(target.ok_or_else(|| {
                        let known: Vec<&str> = TARGETS.iter().map(|one| one.triple).collect();
                        format!("`--target` is one of {}, not `{triple}`", known.join(", "))
                    })?);
                }
                "--profile" => {
                    options.is_release = match value()? {
                        "release" => true,
                        "dev" => false,
                        other => {
                            return Err(format!("`--profile` is release or dev, not `{other}`"));
                        }
                    };
                }
                "--check" => options.checks = true,
                "--measure" => options.measures = true,
                "--pairs" => {
                    let pairs = value()?.parse().ok().filter(|&pairs| pairs >= PAIRS_MIN);
                    options.pairs =
                        pairs.ok_or(format!("`--pairs` must be at least {PAIRS_MIN}"))?;
                }
                "--native" => options.native = Some(PathBuf::from(value()?)),
                _ => return Err(format!("`dist` does not know `{word}`")),
            }
        }
        if options.measures && !options.is_release {
            return Err("`--measure` compares release builds: leave `--profile dev` out".into());
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.iter().collect();
        }
        Ok(options)
    }
}

/// Builds, writes `target/dist`, then checks and measures as asked. Development builds go to `target/dist-dev`.
pub(crate) fn dist(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let base =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let out = &base.join(if options.is_release { "dist" } else { "dist-dev" });
    fs::create_dir_all(out).map_err(|error| format!("cannot make `{}`: {error}", out.display()))?;
    let tools = Tools::fetch(&base.join("dist-tools"))?;
    // It prints its pages on this machine.
    let pages = pages::pages(&built_for_tests()?)?;
    wheel::write_project(out, &pages)?;
    let mut built = Vec::new();
    for target in &options.targets {
        let wheel = tools.wheel(target, options.is_release, out)?;
        let program = out.join(format!("bakeoff-{VERSION}-{}", target.triple));
        wheel::program(&wheel, &program)?;
        pack(target, &program, &pages, out)?;
        built.push((*target, wheel, program));
    }
    write(&out.join(format!("bakeoff-{VERSION}.cdx.json")), sbom::bill()?.as_bytes())?;
    write_sums(out)?;
    for (target, wheel, program) in built.iter().filter(|(target, ..)| target.runs_here()) {
        if target.installs_here() && options.checks {
            check::wheel(wheel, target)?;
        }
        if target.is_static() && options.checks {
            check::check(program, &out.join("oci"))?;
            check::deb(&out.join(deb_name(target)))?;
        }
        if target.is_static() && options.measures {
            measure::measure(program, options.native.as_deref(), options.pairs)?;
        }
    }
    Ok(())
}

/// Writes the packages of a target next to its program, and says how large they are.
fn pack(target: &Target, program: &Path, pages: &[PackageFile], out: &Path) -> Result<(), Failure> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
    };
    let bytes = read(program)?;
    println!("{}: {:.1} MiB", program.display(), bytes.len() as f64 / f64::from(1 << 20));
    let mut files = pages.to_vec();
    files.push(PackageFile::new("bin/bakeoff", bytes, 0o755));
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        files.push(PackageFile::new(
            format!("share/doc/bakeoff/{name}"),
            read(&root().join(name))?,
            0o644,
        ));
    }
    let folder = format!("bakeoff-{VERSION}-{}", target.triple);
    write(&out.join(format!("{folder}.tar.gz")), &archive::tar_gz(&folder, &files))?;
    if !target.is_static() {
        return Ok(());
    }
    if let Some(loader) = check::loader(program)? {
        return Err(format!("`{}` is not static: it asks for `{loader}`", program.display()));
    }
    write(&out.join(deb_name(target)), &archive::deb(target.processor, &files))?;
    if target.runs_here() {
        let archive = out.join("bakeoff-oci.tar");
        let digest = oci::write(&files, target.processor, VERSION, &out.join("oci"), &archive)?;
        println!("{}: localhost/bakeoff:{VERSION}, {digest}", archive.display());
    }
    Ok(())
}

fn deb_name(target: &Target) -> String {
    format!("bakeoff_{VERSION}_{}.deb", target.processor)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

/// Writes a file that can be executed.
fn write_program(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("cannot make `{}` executable: {error}", path.display()))
}

/// Writes the hashes of all files next to it, sorted by name, as `sha256sum --check` reads them.
fn write_sums(out: &Path) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| format!("cannot write the sums of `{}`: {error}", out.display());
    let mut lines = Vec::new();
    for entry in fs::read_dir(out).map_err(cannot)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("bakeoff") && entry.path().is_file() {
            lines.push((sha256(&fs::read(entry.path()).map_err(cannot)?), name));
        }
    }
    lines.sort_by(|one, other| one.1.cmp(&other.1));
    let text: String = lines.iter().map(|(hash, name)| format!("{hash}  {name}\n")).collect();
    write(&out.join("SHA256SUMS"), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_options_that_contradict_or_are_unknown() {
        let refused = |words: &[&str]| Options::read(words).unwrap_err();
        assert!(refused(&["--target", "darwin"]).contains("x86_64-unknown-linux-musl"));
        assert!(refused(&["--measure", "--profile", "dev"]).contains("release builds"));
        assert!(refused(&["--pairs", "3"]).contains("at least 8"));
        assert!(refused(&["--target"]).contains("needs a value"));
        assert!(refused(&["--fast"]).contains("`--fast`"));
        assert_eq!(Options::read(&[]).unwrap().targets.len(), TARGETS.len());
    }

    #[test]
    fn sums_name_programs_and_archives_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("bakeoff-oci.tar", "b"), ("bakeoff-1-musl", "a"), ("other", "c")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        write_sums(dir.path()).unwrap();
        let sums = fs::read_to_string(dir.path().join("SHA256SUMS")).unwrap();
        let expected =
            format!("{}  bakeoff-1-musl\n{}  bakeoff-oci.tar\n", sha256(b"a"), sha256(b"b"));
        assert_eq!(sums, expected);
    }
}
