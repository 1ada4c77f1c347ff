//! Writes the skeleton of a system: `cargo xtask new-system NAME --protocol http|own`.
//!
//! The skeletons (`xtask/templates`) are compiled with the tests of `bakeoff-systems`, as two unregistered systems, so
//! that they stay up to date. Their author replaces the places marked `FILL IN`. A test there lists the places that
//! are left.
//!
//! Not here: the guide to adding a system (`docs/adding-a-system.md`).

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, root};

/// Placeholder name in the skeletons.
const NAME: &str = "newcomer";
const TYPE: &str = "Newcomer";
const CONSTANT: &str = "NEWCOMER";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1: maps operations onto requests.
    Http,
    /// Its own protocol, with a session and a file in `bakeoff-wire`.
    Own,
}

/// Runs `cargo xtask new-system`.
pub(crate) fn write(words: &[&str]) -> Result<(), Failure> {
    let (name, protocol) = match words {
        [name, "--protocol", "http"] => (name, Protocol::Http),
        [name, "--protocol", "own"] => (name, Protocol::Own),
        _ => return Err("`cargo xtask new-system NAME --protocol http|own`".into()),
    };
    let written = Skeleton::new(&root(), name, protocol)?.write()?;
    println!("written:\n  {}\n", written.join("\n  "));
    println!(
        "next:\n  \
         cargo xtask bless                                     # add it to schema, tables and kinds\n  \
         cargo test -p bakeoff-systems skeleton_markers        # lists the FILL IN markers that are left\n  \
         cargo test -p bakeoff --test servers {name}            # its contract, once its program is found\n\
         docs/adding-a-system.md explains each part."
    );
    Ok(())
}

struct Skeleton<'a> {
    root: &'a Path,
    /// Name in studies: `gcs-emulator`.
    kind: &'a str,
    /// Name of its folder: `gcs_emulator`.
    module: String,
    protocol: Protocol,
}

impl<'a> Skeleton<'a> {
    fn new(root: &'a Path, kind: &'a str, protocol: Protocol) -> Result<Self, Failure> {
        let words: Vec<&str> = kind.split('-').collect();
        let is_word = |word: &&str| {
            word.starts_with(|first: char| first.is_ascii_lowercase())
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !words.iter().all(is_word) {
            let form = "lower case letters and digits, with dashes between words";
            return Err(format!("`{kind}` is not a valid name of a kind: use {form}"));
        }
        Ok(Self { root, kind, module: words.join("_"), protocol })
    }

    /// Writes all files and returns their paths. Writes nothing if one of them exists.
    fn write(&self) -> Result<Vec<String>, Failure> {
        let mut files = self.new_files()?;
        for (path, _) in &files {
            if self.root.join(path).exists() {
                return Err(format!("`{path}` already exists"));
            }
        }
        files.extend(self.changed_files()?);
        for (path, text) in &files {
            let path = self.root.join(path);
            let folder = path.parent().expect("a file is in a folder");
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
            written.map_err(|error| format!("`{}`: {error}", path.display()))?;
        }
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }

    fn new_files(&self) -> Result<Vec<(String, String)>, Failure> {
        let Self { module, .. } = self;
        let folder = format!("crates/bakeoff-systems/src/{module}");
        let mut files: Vec<(&str, String)> = vec![
            ("mod.rs", format!("{folder}/mod.rs")),
            ("recipe.rs", format!("{folder}/recipe.rs")),
            ("contract.json", format!("{folder}/contract.json")),
        ];
        if self.protocol == Protocol::Own {
            files.extend([
                ("session.rs", format!("{folder}/session.rs")),
                ("wire.rs", format!("crates/bakeoff-wire/src/{module}.rs")),
            ]);
        }
        let file = |(template, path)| Ok((path, self.template(template)?));
        files.into_iter().map(file).collect()
    }

    /// Returns the files that list systems, with the new system's line added.
    fn changed_files(&self) -> Result<Vec<(String, String)>, Failure> {
        let module = &self.module;
        let mut files = Vec::new();
        let mut change = |path: &str, change: &dyn Fn(String) -> Option<String>| {
            let text = self.read(path)?;
            let text =
                change(text).ok_or_else(|| format!("`{path}` has no place for `{module}`"))?;
            files.push((path.to_owned(), text));
            Ok::<_, Failure>(())
        };
        change("crates/bakeoff-systems/src/lib.rs", &|text| {
            let line = "\npub(crate) mod ";
            let last = text.rfind(line)? + line.len();
            let end = last + text.get(last..)?.find('\n')? + 1;
            Some(inserted(&text, end, &format!("\npub(crate) mod {module};\n")))
        })?;
        if self.protocol == Protocol::Http {
            return Ok(files);
        }
        change("crates/bakeoff-wire/src/lib.rs", &|text| {
            let line = format!("pub mod {module};\n");
            let is_before = |one: &&str| one.starts_with("pub mod ") && *one < line.trim_end();
            let after = text.lines().rfind(is_before)?;
            let end = text.find(after)? + after.len() + 1;
            Some(inserted(&text, end, &line))
        })?;
        Ok(files)
    }

    /// Returns a file of the skeleton with the system's name filled in.
    fn template(&self, file: &str) -> Result<String, Failure> {
        let protocol = match self.protocol {
            Protocol::Http => "http",
            Protocol::Own => "own",
        };
        let mut text = self.read(&format!("xtask/templates/{protocol}/{file}"))?;
        // A module of the skeleton becomes a file of `bakeoff-wire`.
        match file {
            "wire.rs" => text = text.replace("use bakeoff_wire::", "use crate::"),
            "mod.rs" | "session.rs" => {
                if let (Some(from), Some(to)) =
                    (text.find("#[allow(unreachable_pub"), text.find("mod wire;\n"))
                {
                    text.replace_range(from..to + "mod wire;\n".len(), "");
                }
                text = text
                    .replace("use self::wire::", &format!("use bakeoff_wire::{NAME}::"))
                    .replace(
                        "use super::wire::{self, ",
                        &format!("use bakeoff_wire::{NAME}::{{self as wire, "),
                    );
            }
            _ => {}
        }
        // Paths and function names use underscores; texts for users use dashes.
        for before in ["bakeoff_wire::", "bakeoff_systems::", "bakeoff-systems "] {
            text = text.replace(&format!("{before}{NAME}"), &format!("{before}{}", self.module));
        }
        let word = |word: &str| word[..1].to_uppercase() + &word[1..];
        let title: String = self.kind.split('-').map(word).collect();
        Ok(text
            .replace(CONSTANT, &self.module.to_uppercase())
            .replace(TYPE, &title)
            .replace(NAME, self.kind))
    }

    fn read(&self, path: &str) -> Result<String, Failure> {
        let path: PathBuf = self.root.join(path);
        fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))
    }
}

fn inserted(text: &str, at: usize, more: &str) -> String {
    let (before, after) = text.split_at(at);
    [before, more, after].concat()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Copies the files that this task changes, or everything that is compiled.
    fn copied(parts: &[&str]) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for part in parts {
            let to = copy.path().join(part);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let copied = Command::new("cp").arg("-r").arg(root().join(part)).arg(&to).status();
            assert!(copied.unwrap().success(), "{part}");
        }
        copy
    }

    const READ: &[&str] = &[
        "crates/bakeoff-systems/src",
        "crates/bakeoff-wire/src",
        "crates/bakeoff-wire/fuzz/Cargo.toml",
        "crates/bakeoff-wire/tests",
        "xtask/templates",
    ];

    fn written(copy: &Path, name: &str, protocol: Protocol) -> Result<Vec<String>, Failure> {
        Skeleton::new(copy, name, protocol)?.write()
    }

    #[test]
    fn writes_a_folder_and_a_line_without_the_skeletons_name() {
        let copy = copied(READ);
        let http = written(copy.path(), "plain-store", Protocol::Http).unwrap();
        let own = written(copy.path(), "own-store", Protocol::Own).unwrap();
        assert_eq!((http.len(), own.len()), (4, 7), "{http:?} {own:?}");
        for path in http.iter().chain(&own) {
            let text = fs::read_to_string(copy.path().join(path)).unwrap();
            let known = path.ends_with("bakeoff-systems/src/lib.rs");
            assert!(known || !text.to_lowercase().contains(NAME), "{path}");
        }
        let text = |path: &str| fs::read_to_string(copy.path().join(path)).unwrap();
        let registry = text("crates/bakeoff-systems/src/lib.rs");
        assert!(
            registry
                .contains("\n\npub(crate) mod plain_store;\n\npub(crate) mod own_store;\n\nuse ")
        );
        assert!(
            text("crates/bakeoff-wire/src/lib.rs").contains("pub mod nats;\npub mod own_store;\n")
        );
        let folder = text("crates/bakeoff-systems/src/own_store/mod.rs");
        assert!(folder.contains("use bakeoff_wire::own_store::{Reply, Session};"), "{folder}");
        assert!(folder.contains("Kind::new(\"own-store\")") && folder.contains("struct OwnStore;"));
        assert!(!folder.contains("mod wire;"), "{folder}");
    }

    #[test]
    fn refuses_taken_and_invalid_names_and_writes_nothing() {
        let copy = copied(READ);
        let before = fs::read_to_string(copy.path().join(READ[0]).join("lib.rs")).unwrap();
        for (name, expected) in [
            ("etcd", "`crates/bakeoff-systems/src/etcd/mod.rs` already exists"),
            ("Etcd", "`Etcd` is not a valid name of a kind"),
            ("a--b", "`a--b` is not a valid name of a kind"),
            ("../a", "`../a` is not a valid name of a kind"),
            ("resp", "`crates/bakeoff-wire/src/resp.rs` already exists"),
        ] {
            let failure = written(copy.path(), name, Protocol::Own).unwrap_err();
            assert!(failure.starts_with(expected), "{failure}");
        }
        let after = fs::read_to_string(copy.path().join(READ[0]).join("lib.rs")).unwrap();
        assert_eq!(before, after);
    }

    #[test]
    #[ignore = "compiles a copy of the tree, which takes a minute: `cargo test -p xtask -- --ignored`"]
    fn skeleton_compiles_and_its_tests_list_the_markers() {
        let copy = copied(&[
            "Cargo.toml",
            "Cargo.lock",
            "clippy.toml",
            "crates",
            "xtask",
            "docs",
            "schema",
            "studies",
            "README.md",
        ]);
        written(copy.path(), "plain-store", Protocol::Http).unwrap();
        written(copy.path(), "own-store", Protocol::Own).unwrap();
        let test = |package: &str, names: &[&str]| {
            let mut cargo = super::super::cargo();
            cargo.current_dir(copy.path()).env("CARGO_TARGET_DIR", root().join("target"));
            let out =
                cargo.args(["test", "--offline", "-p", package]).args(names).output().unwrap();
            String::from_utf8_lossy(&out.stdout).into_owned()
                + &String::from_utf8_lossy(&out.stderr)
        };
        let wire = test("bakeoff-wire", &["--lib", "own_store"]);
        assert!(wire.contains("3 passed; 0 failed"), "{wire}");
        let left = test("bakeoff-systems", &["--lib", "skeleton_markers"]);
        for place in ["plain_store/mod.rs", "own_store/session.rs", "bakeoff-wire/src/own_store.rs"]
        {
            assert!(left.contains(place), "{left}");
        }
    }
}
