//! Runs `cargo xtask dist`: builds one file that runs on any x86-64 Linux, and an OCI image of it.
//!
//! The program is linked with musl and its own allocator. If Rust's standard library for musl is not available, it is
//! linked statically with glibc instead, which needs more from its machine: `docs/portable.md`.
//!
//! Not here: compilers (`toolchain`), running the result (`check`), its cost (`measure`), the image (`oci`).

mod check;
mod measure;
mod oci;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::toolchain::{Libc, Toolchain};
use crate::oci::sha256;
use crate::{Failure, cargo, root, run};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PAIRS_MIN: usize = 8;

#[derive(Debug)]
struct Options {
    /// C library; `None` for musl if available.
    libc: Option<Libc>,
    profile: Profile,
    checks: bool,
    measures: bool,
    pairs: usize,
    /// Existing static build to use.
    program: Option<PathBuf>,
    /// Existing native release build to use.
    native: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    Release,
    Dev,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let mut options = Self {
            libc: None,
            profile: Profile::Release,
            checks: false,
            measures: false,
            pairs: PAIRS_MIN,
            program: None,
            native: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().copied().ok_or(format!("`{word}` needs a value"));
            match word {
                "--target" => {
                    options.libc = Some(match value()? {
                        "musl" => Libc::Musl,
                        "gnu" => Libc::Gnu,
                        other => return Err(format!("`--target` is musl or gnu, not `{other}`")),
                    });
                }
                "--profile" => {
                    options.profile = match value()? {
                        "release" => Profile::Release,
                        "dev" => Profile::Dev,
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
                        pairs.ok_or(format!("`--pairs` needs a number of at least {PAIRS_MIN}"))?;
                }
                "--program" => options.program = Some(PathBuf::from(value()?)),
                "--native" => options.native = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown option `{word}` of `dist`")),
            }
        }
        if options.measures && options.profile == Profile::Dev {
            return Err("`--measure` compares release builds: leave out `--profile dev`".into());
        }
        Ok(options)
    }
}

/// Builds bakeoff, writes `target/dist`, and checks and measures it if requested.
pub(crate) fn dist(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let out = root().join("target/dist");
    fs::create_dir_all(&out)
        .map_err(|error| format!("cannot make `{}`: {error}", out.display()))?;
    let toolchain = toolchain::choose(options.libc, &out)?;
    println!("{}", toolchain.why);
    let built = match options.program {
        Some(program) => program,
        None => build(&toolchain, options.profile)?,
    };
    let program = out.join(name(toolchain.libc, options.profile));
    strip(&built, &program)?;
    if let Some(loader) = check::loader(&program)? {
        return Err(format!("`{}` is not static: it needs `{loader}`", program.display()));
    }
    let layout = out.join("oci");
    let archive = out.join("bakeoff-oci.tar");
    let digest = oci::write(&program, VERSION, &layout, &archive)?;
    write_sums(&out)?;
    let size = fs::metadata(&program).map_or(0, |found| found.len());
    println!("{} ({:.1} MiB)", program.display(), size as f64 / f64::from(1 << 20));
    println!("{}: localhost/bakeoff:{VERSION}, {digest}", archive.display());
    if options.checks {
        check::check(&program, &layout)?;
    }
    if options.measures {
        measure::measure(&program, options.native.as_deref(), options.pairs)?;
    }
    Ok(())
}

/// Returns the file name: `bakeoff-0.1.0-x86_64-linux-musl`.
fn name(libc: Libc, profile: Profile) -> String {
    let profile = if profile == Profile::Dev { "-dev" } else { "" };
    format!("bakeoff-{VERSION}-x86_64-linux-{}{profile}", libc.suffix())
}

/// Builds bakeoff for the target and returns its path.
fn build(toolchain: &Toolchain, profile: Profile) -> Result<PathBuf, Failure> {
    let mut build = cargo();
    build.args(["build", "-p", "bakeoff", "--bin", "bakeoff", "--target", toolchain.libc.target()]);
    if profile == Profile::Release {
        build.arg("--release");
    }
    if toolchain.libc == Libc::Musl {
        build.args(["--features", "portable"]);
    }
    build.args(["--message-format", "json-render-diagnostics"]);
    build.envs(toolchain.env.iter().map(|(name, value)| (name, value)));
    let output = build.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cannot build bakeoff for `{}`", toolchain.libc.target()));
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut program = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    program.next_back().ok_or_else(|| "cargo reported no path of bakeoff".to_owned())
}

/// Copies the program without its symbols, which shrinks it to a third.
fn strip(built: &Path, program: &Path) -> Result<(), Failure> {
    let mut strip = Command::new("strip");
    strip.args(["--strip-all", "-o"]).arg(program).arg(built);
    run(strip)
}

/// Writes the hashes of all files in the folder, sorted by name, in the format of `sha256sum --check`.
fn write_sums(out: &Path) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| format!("cannot write the sums of `{}`: {error}", out.display());
    let mut lines = Vec::new();
    for entry in fs::read_dir(out).map_err(cannot)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("bakeoff-") {
            lines.push((sha256(&fs::read(entry.path()).map_err(cannot)?), name));
        }
    }
    lines.sort_by(|one, other| one.1.cmp(&other.1));
    let text: String = lines.iter().map(|(hash, name)| format!("{hash}  {name}\n")).collect();
    fs::write(out.join("SHA256SUMS"), text).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_named_after_version_and_library() {
        let name = |libc, profile| name(libc, profile).replace(VERSION, "1.2.3");
        assert_eq!(name(Libc::Musl, Profile::Release), "bakeoff-1.2.3-x86_64-linux-musl");
        assert_eq!(name(Libc::Gnu, Profile::Dev), "bakeoff-1.2.3-x86_64-linux-gnu-static-dev");
    }

    #[test]
    fn refuses_contradictory_and_unknown_options() {
        let refused = |words: &[&str]| Options::read(words).unwrap_err();
        assert!(refused(&["--target", "darwin"]).contains("musl or gnu"));
        assert!(refused(&["--measure", "--profile", "dev"]).contains("release builds"));
        assert!(refused(&["--pairs", "3"]).contains("at least 8"));
        assert!(refused(&["--target"]).contains("needs a value"));
        assert!(refused(&["--fast"]).contains("`--fast`"));
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
