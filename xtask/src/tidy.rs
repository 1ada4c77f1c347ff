//! Checks rules that no compiler checks: headers, registry, layers, cycles, commit subjects, and absences.
//!
//! An ordinary test runs this, so that `cargo test` reports violations. Sources are searched as text. Rules about the
//! program skip the part after a file's `#[cfg(test)]`.
//!
//! Not here: names and words (`names`), cycles (`modules`), the pages of modules (`module_pages`), links and length of the
//! documents (`documents`), and the tables of systems there, which need the registry itself
//! (`crates/bakeoff-systems/src/table.rs`).

pub(crate) mod documents;
mod module_pages;
mod modules;
mod names;

use std::fs;
use std::path::Path;
use std::process::Command;

/// Longest commit subject in characters, and the number of commits to check.
const SUBJECT_MAX: usize = 72;
const SUBJECTS: &str = "-50";

/// Words that a part of the tree must not contain. A part is a folder or a file.
struct Absence {
    part: &'static str,
    /// Files of the part that are exempt.
    except: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

/// Paths of the standard library that access the machine.
const THE_MACHINE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::thread",
    "std::process",
    "TcpStream",
    "UdpSocket",
    "Instant",
    "SystemTime",
    "std::io::std",
];

/// A separate program that shares nothing with bakeoff. The engine's cost is compared with it.
const BARE_LOOP: &str = "crates/bakeoff/examples/http_baseline.rs";

/// Prints what the linearizability check costs. Core cannot depend on the clock's crate.
const JUDGE_HISTORY: &str = "crates/bakeoff-core/examples/judge_history.rs";

const ABSENCES: &[Absence] = &[
    Absence {
        part: "crates/bakeoff-core/src/",
        except: &[],
        words: THE_MACHINE,
        why: "core takes values and returns values: no file, socket, thread, clock or environment",
    },
    Absence {
        part: "crates/bakeoff-report/src/",
        except: &[],
        words: THE_MACHINE,
        why: "a report is a pure function of a record: no file, socket, thread, clock or environment",
    },
    Absence {
        part: "crates/bakeoff-wire/src/",
        except: &[],
        words: THE_MACHINE,
        why: "a wire session sees bytes only: no socket, file, thread or clock",
    },
    Absence {
        part: "crates/bakeoff-systems/src/",
        except: &[],
        words: &["process::Command", "Command::new", ".spawn("],
        why: "a system describes its processes; a host starts them",
    },
    Absence {
        part: "crates/bakeoff-systems/src/",
        except: &["crates/bakeoff-systems/src/dynamodb_emulator/tests.rs"],
        words: &["TcpStream::connect"],
        why: "servers may be on a separate network: connect through `bakeoff_engine::routes`",
    },
    Absence {
        part: "crates/bakeoff-trial/src/",
        except: &[],
        words: &["TcpStream::connect"],
        why: "servers may be on a separate network: connect through `bakeoff_engine::routes`",
    },
    Absence {
        part: "crates/",
        except: &[
            "crates/bakeoff-clock/src/lib.rs",
            // Only used in tests, including those of core, which cannot depend on the clock's crate.
            "crates/bakeoff-fuzz/src/lib.rs",
            BARE_LOOP,
            JUDGE_HISTORY,
        ],
        words: &["Instant::now"],
        why: "only `bakeoff-clock` reads the monotonic clock",
    },
    Absence {
        part: "crates/",
        except: &["crates/bakeoff-clock/src/wall.rs"],
        words: &["SystemTime::now", "Timestamp::now", "Zoned::now"],
        why: "only `bakeoff-clock` reads the wall clock",
    },
    Absence {
        part: "crates/",
        except: &["crates/bakeoff-files/src/remove.rs"],
        words: &["remove_dir_all"],
        why: "`bakeoff_files` removes folders, so that no link leads out of them",
    },
    Absence {
        part: "crates/",
        except: &[
            "crates/bakeoff/src/messages.rs",
            // Separate programs that bakeoff starts. Their output is a log or a pipe.
            "crates/bakeoff/src/canary/mod.rs",
            "crates/bakeoff/src/canary/delay.rs",
            "crates/bakeoff/src/commands/agent.rs",
            "crates/bakeoff-disk/src/serve.rs",
            "crates/bakeoff-host/src/disk_probe.rs",
            "crates/bakeoff-host/src/hold.rs",
            "crates/bakeoff-host/src/network/enter.rs",
            "crates/bakeoff-host/src/warden.rs",
            // These print for cargo, or for a developer who runs a test.
            "crates/bakeoff-trial/build.rs",
            "crates/bakeoff-systems/build.rs",
            "crates/bakeoff-fuzz/src/lib.rs",
            BARE_LOOP,
            JUDGE_HISTORY,
        ],
        words: &["println!", "eprintln!", "stdout()", "stderr()"],
        why: "only `messages.rs` prints",
    },
];

/// Returns all violations.
pub(crate) fn complaints(root: &Path) -> Vec<String> {
    let files = tracked(root);
    let mut complaints = Vec::new();
    for (path, text) in &files {
        if path.ends_with(".rs") {
            complaints.extend(header(path, text));
            complaints.extend(absences(path, text));
        }
        complaints.extend(foreign(path, text));
    }
    let text_of = |wanted: &str| {
        files.iter().find(|(path, _)| path == wanted).map_or("", |(_, text)| text.as_str())
    };
    complaints.extend(modules::complaints(&files));
    complaints.extend(module_pages::complaints(&files));
    complaints.extend(names::complaints(&files));
    complaints.extend(documents::complaints(root, &files));
    complaints.extend(long_subjects(root));
    complaints.extend(unregistered(&files, text_of("crates/bakeoff-systems/src/lib.rs")));
    complaints.extend(lock(text_of("Cargo.lock")));
    complaints.extend(one_test_command(text_of(".ci/run"), text_of("README.md")));
    complaints
}

/// Writes the pages of modules in `docs/modules/`.
pub(crate) fn write_module_pages(root: &Path) -> std::io::Result<()> {
    module_pages::write(root)
}

/// Returns the tracked files, and the new ones that are not ignored, with their text. Leaves out binary files.
fn tracked(root: &Path) -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let names = match listed {
        Ok(output) if output.status.success() => {
            let names = String::from_utf8_lossy(&output.stdout).into_owned();
            names.split_terminator('\0').map(str::to_owned).collect()
        }
        // An archive of the tree has no git folder.
        _ => walk(root, root),
    };
    let read = |name: String| Some((name.clone(), fs::read_to_string(root.join(&name)).ok()?));
    names.into_iter().filter_map(read).collect()
}

fn walk(root: &Path, dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else { return names };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if !["target", "runs", ".git", "corpus", "artifacts"].iter().any(|skip| name == *skip) {
                names.extend(walk(root, &path));
            }
        } else if let Ok(inside) = path.strip_prefix(root) {
            names.push(inside.to_string_lossy().into_owned());
        }
    }
    names
}

/// Returns a file without the tests at its end.
fn program(text: &str) -> &str {
    let marks = text.match_indices("\n#[cfg(test)]\n");
    let mut tests = marks.filter(|(at, mark)| {
        let line = text[at + mark.len()..].lines().next().unwrap_or_default();
        line.contains("mod ") && line.contains('{')
    });
    tests.next().map_or(text, |(at, _)| &text[..at])
}

/// Returns true for files with only tests or their shared code.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/testing.rs")
}

fn header(path: &str, text: &str) -> Option<String> {
    let opens = text.starts_with("//! ");
    (!opens).then(|| format!("{path} does not open with `//!`: describe what it does and why"))
}

/// Returns the overlong subjects among the newest commits; empty without git.
fn long_subjects(root: &Path) -> Vec<String> {
    let log = Command::new("git")
        .args(["log", SUBJECTS, "--no-merges", "--format=%h %s"])
        .current_dir(root)
        .output();
    let log = log.ok().filter(|output| output.status.success());
    let log = log.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    log.iter().flat_map(|log| log.lines()).filter_map(long_subject).collect()
}

/// Returns a complaint about `HASH SUBJECT` if the subject is too long.
fn long_subject(line: &str) -> Option<String> {
    let (hash, subject) = line.split_once(' ')?;
    let length = subject.chars().count();
    (length > SUBJECT_MAX).then(|| {
        format!("the subject of {hash} has {length} characters; the limit is {SUBJECT_MAX}")
    })
}

fn absences(path: &str, text: &str) -> Vec<String> {
    let rules = ABSENCES.iter().filter(|rule| {
        path.starts_with(rule.part) && !rule.except.contains(&path) && !is_test(path)
    });
    let mut complaints = Vec::new();
    for rule in rules {
        for (number, line) in (1..).zip(program(text).lines()) {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = rule.words.iter().find(|word| code.contains(**word)) {
                complaints.push(format!("{path}:{number} contains `{word}`: {}", rule.why));
            }
        }
    }
    complaints
}

/// Finds paths of a user's machine. The words are assembled here so that this file does not contain them.
fn foreign(path: &str, text: &str) -> Vec<String> {
    let homes = ["root", "home", "Users"].map(|home| format!("/{home}/"));
    let lines = (1..).zip(text.lines());
    let found = lines.filter(|(_, line)| homes.iter().any(|home| line.contains(home.as_str())));
    found
        .map(|(number, _)| format!("{path}:{number} contains a path of a user's machine"))
        .collect()
}

/// Returns folders of `bakeoff-systems` that are not in the registry.
fn unregistered(files: &[(String, String)], systems: &str) -> Vec<String> {
    let below =
        files.iter().filter_map(|(path, _)| path.strip_prefix("crates/bakeoff-systems/src/"));
    let mut folders: Vec<&str> = below.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    let line = |folder: &str| format!("pub(crate) mod {folder};");
    let missing =
        folders.into_iter().filter(|folder| !systems.lines().any(|has| has == line(folder)));
    missing.map(|folder| format!("`{folder}/` is not in the registry of systems")).collect()
}

/// Checks that dependencies come only from crates.io.
fn lock(text: &str) -> Vec<String> {
    let sources = text.lines().filter_map(|line| line.strip_prefix("source = "));
    let known = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    let others = sources.filter(|source| *source != known);
    others
        .map(|source| format!("Cargo.lock has a source that is not crates.io: {source}"))
        .collect()
}

/// Checks that the README and `.ci/run` name the same test command.
fn one_test_command(ci: &str, readme: &str) -> Option<String> {
    const TESTS: &str = "cargo test --workspace --no-fail-fast";
    if !ci.contains(&format!("step \"tests\" {TESTS}\n")) {
        return Some(format!("`.ci/run` does not run `{TESTS}`"));
    }
    let printed = readme.is_empty() || readme.contains(TESTS);
    (!printed).then(|| format!("README.md does not name the test command `{TESTS}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_tidy() {
        let complaints = complaints(&crate::root());
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }

    #[test]
    fn core_must_not_read_a_clock() {
        let text = "//! Plans.\n\nfn f() { Instant::now(); }\n";
        let found = absences("crates/bakeoff-core/src/plan.rs", text);
        assert!(
            found[0].starts_with("crates/bakeoff-core/src/plan.rs:3 contains `Instant`"),
            "{found:?}"
        );
        let tested = format!("//! Plans.\n\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert!(absences("crates/bakeoff-core/src/plan.rs", &tested).is_empty());
    }

    #[test]
    fn file_needs_a_header() {
        assert!(header("a.rs", "use std::fs;\n").is_some());
        assert!(header("a.rs", "//! What it is.\n").is_none());
    }

    #[test]
    fn overlong_subject_is_reported() {
        let subject = "x".repeat(SUBJECT_MAX);
        assert_eq!(long_subject(&format!("abc {subject}")), None);
        assert!(long_subject(&format!("abc {subject}x")).is_some());
    }

    #[test]
    fn unregistered_folder_is_reported() {
        let file = |name: &str| (format!("crates/bakeoff-systems/src/{name}"), String::new());
        let files = [file("etcd/mod.rs"), file("vault/mod.rs"), file("http.rs")];
        let systems = "pub(crate) mod etcd;\n\nmod vault;\n";
        assert_eq!(unregistered(&files, systems), ["`vault/` is not in the registry of systems"]);
    }

    #[test]
    fn machine_paths_and_other_registries_are_reported() {
        let line = format!("see /{}/me/x\n", "home");
        assert_eq!(foreign("a.md", &line), ["a.md:1 contains a path of a user's machine"]);
        assert_eq!(lock("source = \"registry+https://example.org/\"\n").len(), 1);
    }

    #[test]
    fn readme_and_ci_name_one_test_command() {
        let ci = "step \"tests\" cargo test --workspace --no-fail-fast\n";
        assert_eq!(one_test_command(ci, "Run `cargo test --workspace --no-fail-fast`."), None);
        assert!(one_test_command(ci, "Run `cargo test`.").is_some());
        assert!(one_test_command("step \"tests\" cargo test\n", "").is_some());
    }
}
