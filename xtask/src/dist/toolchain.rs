//! Selects the tools for a static bakeoff: Rust's standard library for musl or glibc, and a matching C compiler.
//!
//! ring, LuaJIT and the allocator are written in C. For musl the machine's compiler compiles them with musl's headers:
//! those of an installed `musl-gcc`, or else Debian's, unpacked into the cache. musl itself and the unwinder come with
//! Rust's target.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::peers::fetch::{Debian, on_path};
use crate::peers::output_of;

/// The crate `getrandom` looks up glibc's function at run time, which a static program cannot do, and falls back to
/// `/dev/urandom`. This setting makes it call the kernel: Linux 3.17.
const GNU_FLAGS: &str = "-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";

/// C library that is linked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Libc {
    Musl,
    Gnu,
}

impl Libc {
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::Musl => "x86_64-unknown-linux-musl",
            Self::Gnu => "x86_64-unknown-linux-gnu",
        }
    }

    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Musl => "musl",
            Self::Gnu => "gnu-static",
        }
    }
}

#[derive(Debug)]
pub(super) struct Toolchain {
    pub(super) libc: Libc,
    /// Sentence that explains the choice.
    pub(super) why: String,
    /// Environment variables for cargo.
    pub(super) env: Vec<(String, String)>,
}

/// Selects musl if available, unless `wanted` names a library. `out` is a folder for intermediate files.
pub(super) fn choose(wanted: Option<Libc>, out: &Path) -> Result<Toolchain, Failure> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return Err("static builds need x86-64 Linux, and run on x86-64 Linux".into());
    }
    match wanted {
        Some(Libc::Gnu) => gnu("linked statically with glibc, as requested".into()),
        Some(Libc::Musl) => musl(out).map_err(|why| {
            format!(
                "cannot build for musl: {why}\nhint: `--target gnu` links statically with glibc"
            )
        }),
        None => musl(out).or_else(|why| {
            gnu(format!("linked statically with glibc, because musl is not available: {why}"))
        }),
    }
}

fn gnu(why: String) -> Result<Toolchain, Failure> {
    let archive = output_of("cc", &["-print-file-name=libc.a"])?;
    if !Path::new(&archive).is_absolute() {
        return Err(format!(
            "{why}, but glibc's `libc.a` is missing\nhint: install Debian's `libc6-dev`"
        ));
    }
    let flags = rust_flags(Libc::Gnu, GNU_FLAGS);
    Ok(Toolchain { libc: Libc::Gnu, why, env: vec![flags?] })
}

fn musl(out: &Path) -> Result<Toolchain, Failure> {
    let library = standard_library()?;
    let mut env = vec![rust_flags(Libc::Musl, "")?, no_unwinding()];
    // Crates that compile C find an installed `musl-gcc` themselves.
    if let Some(installed) = on_path("musl-gcc") {
        let why = format!("linked with musl; C is compiled by `{}`", installed.display());
        return Ok(Toolchain { libc: Libc::Musl, why, env });
    }
    let (tree, version) = Debian::default().tree("musl-dev")?;
    let compiler = compiler(&tree, &library, &out.join("musl"))?;
    env.push(("CC_x86_64_unknown_linux_musl".into(), compiler.display().to_string()));
    Ok(Toolchain {
        libc: Libc::Musl,
        why: format!(
            "linked with musl; C is compiled with the headers of Debian's musl-dev {version}"
        ),
        env,
    })
}

/// Limits LuaJIT's unwinding to its own frames.
///
/// By default LuaJIT lets the C library's unwinder do that, and registers its compiled code in gcc's format. The
/// unwinder of Rust's musl target expects another format and prints `bad fde` to standard error. Errors of scripts are
/// still caught, and mlua ensures in any case that no panic crosses LuaJIT.
fn no_unwinding() -> (String, String) {
    ("CFLAGS_x86_64_unknown_linux_musl".into(), "-DLUAJIT_NO_UNWIND".into())
}

/// Returns the folder of Rust's standard library for musl. Installs it with rustup if it is missing.
fn standard_library() -> Result<PathBuf, Failure> {
    let target = Libc::Musl.target();
    let folder = PathBuf::from(output_of("rustc", &["--print", "sysroot"])?)
        .join("lib/rustlib")
        .join(target)
        .join("lib");
    if folder.is_dir() {
        return Ok(folder);
    }
    println!("rustup target add {target}");
    let asked = Command::new("rustup").args(["target", "add", target]).output();
    match asked {
        Ok(asked) if asked.status.success() && folder.is_dir() => Ok(folder),
        Ok(asked) => {
            let errors = String::from_utf8_lossy(&asked.stderr).into_owned();
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            Err(format!("`rustup target add {target}`: {}", last.unwrap_or("failed").trim()))
        }
        Err(error) => Err(format!("rustc has no `{target}`, and cannot run rustup: {error}")),
    }
}

/// Writes a script that calls the machine's C compiler with musl's headers. Returns its path.
///
/// The settings are those of Debian's `musl-gcc`, with two changes. The folders are in the cache, and programs use the
/// unwinder of Rust's target, because gcc's needs glibc. Only LuaJIT's build links a program.
fn compiler(tree: &Path, library: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", folder.display());
    let file = tree.join("usr/lib/x86_64-linux-musl/musl-gcc.specs");
    let given = fs::read_to_string(&file)
        .map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let unwinder = library.join("self-contained/libunwind.a");
    let specs = specs(&given, tree, &unwinder);
    fs::create_dir_all(folder).map_err(cannot)?;
    let specs_file = folder.join("cc.specs");
    fs::write(&specs_file, specs).map_err(cannot)?;
    let compiler = folder.join("cc");
    let script = format!("#!/bin/sh\nexec cc \"$@\" -specs '{}'\n", specs_file.display());
    fs::write(&compiler, script).map_err(cannot)?;
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
    Ok(compiler)
}

fn specs(given: &str, tree: &Path, unwinder: &Path) -> String {
    ["/usr/lib/x86_64-linux-musl", "/usr/include/x86_64-linux-musl"]
        .iter()
        .fold(given.to_owned(), |text, folder| {
            text.replace(folder, &format!("{}{folder}", tree.display()))
        })
        .replace("%:if-exists(libgcc_eh.a%s)", &unwinder.display().to_string())
}

/// Returns the variable with compiler flags. They remove this machine's paths from the program.
fn rust_flags(libc: Libc, more: &str) -> Result<(String, String), Failure> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let remap = format!("--remap-path-prefix={}=crates", home.join("registry/src").display());
    let name = libc.target().to_uppercase().replace('-', "_");
    Ok((format!("CARGO_TARGET_{name}_RUSTFLAGS"), format!("{remap} {more}").trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_use_the_unpacked_package_and_rusts_unwinder() {
        let given = "-isystem /usr/include/x86_64-linux-musl\n-L/usr/lib/x86_64-linux-musl\n\
            libgcc.a%s %:if-exists(libgcc_eh.a%s)\n";
        let expected = "-isystem /c/usr/include/x86_64-linux-musl\n-L/c/usr/lib/x86_64-linux-musl\n\
            libgcc.a%s /r/libunwind.a\n";
        assert_eq!(specs(given, Path::new("/c"), Path::new("/r/libunwind.a")), expected);
    }

    #[test]
    fn flags_apply_only_to_the_target() {
        let (name, flags) = rust_flags(Libc::Gnu, "-C target-feature=+crt-static").unwrap();
        assert_eq!(name, "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS");
        assert!(flags.ends_with("=crates -C target-feature=+crt-static"), "{flags}");
    }
}
