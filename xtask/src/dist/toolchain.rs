//! What a static bakeoff is built with: Rust's standard library for musl or glibc's, and a C compiler for it.
//!
//! ring, LuaJIT and the allocator are C. For musl they are compiled by the machine's own compiler with musl's headers:
//! those of `musl-gcc` where it is installed, else Debian's, unpacked into the cache. musl itself and the unwinder come
//! with Rust's target.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::peers::fetch::{Debian, on_path};
use crate::peers::output_of;

/// The crate `getrandom` looks for glibc's function when it runs, which a static program cannot do, and then needs
/// `/dev/urandom`. With this it asks the kernel: Linux 3.17.
const GNU_FLAGS: &str = "-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";

/// The C library that is linked in.
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

/// Settings of one build.
#[derive(Debug)]
pub(super) struct Toolchain {
    pub(super) libc: Libc,
    /// A sentence on the choice.
    pub(super) why: String,
    /// Variables for cargo.
    pub(super) env: Vec<(String, String)>,
}

/// Takes musl where it can be had, unless `wanted` says which. `out` is a folder for what is made on the way.
pub(super) fn choose(wanted: Option<Libc>, out: &Path) -> Result<Toolchain, Failure> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return Err("static builds are made on x86-64 Linux, for x86-64 Linux".into());
    }
    match wanted {
        Some(Libc::Gnu) => gnu("linked statically with glibc, as asked for".into()),
        Some(Libc::Musl) => musl(out).map_err(|why| {
            format!(
                "cannot build for musl: {why}\nhint: `--target gnu` links statically with glibc"
            )
        }),
        None => musl(out).or_else(|why| {
            gnu(format!("linked statically with glibc, since musl cannot be had: {why}"))
        }),
    }
}

fn gnu(why: String) -> Result<Toolchain, Failure> {
    let archive = output_of("cc", &["-print-file-name=libc.a"])?;
    if !Path::new(&archive).is_absolute() {
        return Err(format!(
            "{why}, and glibc's `libc.a` is not here\nhint: Debian has it in `libc6-dev`"
        ));
    }
    let flags = rust_flags(Libc::Gnu, GNU_FLAGS);
    Ok(Toolchain { libc: Libc::Gnu, why, env: vec![flags?] })
}

fn musl(out: &Path) -> Result<Toolchain, Failure> {
    let library = standard_library()?;
    let mut env = vec![rust_flags(Libc::Musl, "")?, no_unwinding()];
    // An installed one is found by what compiles C for crates.
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

/// Makes LuaJIT unwind its own frames and no others.
///
/// Elsewhere it has the C library's unwinder do that, and registers what it compiles there in a form that gcc's takes.
/// The one of Rust's target for musl takes another form, and says `bad fde` on standard error. Errors of a script and of
/// what it calls are caught as before; that no panic crosses LuaJIT is mlua's care in any case.
fn no_unwinding() -> (String, String) {
    ("CFLAGS_x86_64_unknown_linux_musl".into(), "-DLUAJIT_NO_UNWIND".into())
}

/// Returns the folder of Rust's standard library for musl; asks rustup for it where it is not here.
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
        Err(error) => Err(format!("rustc has no `{target}`, and there is no rustup: {error}")),
    }
}

/// Writes a call of the machine's C compiler with musl's headers, and returns where it is.
///
/// The settings are those of Debian's `musl-gcc`, with two changes: the folders are those of the cache, and programs
/// are linked with the unwinder of Rust's target, since gcc's own needs glibc. Only LuaJIT's build links a program.
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

/// The variable with flags for the compiler. Paths of this machine stay out of messages of the program.
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
    fn specs_lead_to_the_unpacked_package_and_to_rusts_unwinder() {
        let given = "-isystem /usr/include/x86_64-linux-musl\n-L/usr/lib/x86_64-linux-musl\n\
            libgcc.a%s %:if-exists(libgcc_eh.a%s)\n";
        let expected = "-isystem /c/usr/include/x86_64-linux-musl\n-L/c/usr/lib/x86_64-linux-musl\n\
            libgcc.a%s /r/libunwind.a\n";
        assert_eq!(specs(given, Path::new("/c"), Path::new("/r/libunwind.a")), expected);
    }

    #[test]
    fn flags_are_those_of_the_target_alone() {
        let (name, flags) = rust_flags(Libc::Gnu, "-C target-feature=+crt-static").unwrap();
        assert_eq!(name, "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS");
        assert!(flags.ends_with("=crates -C target-feature=+crt-static"), "{flags}");
    }
}
