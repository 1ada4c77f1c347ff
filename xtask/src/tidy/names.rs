//! Rules of names and words: shared type names, names of tests and functions, kinds outside their folder.
//!
//! A rule that the tree does not meet yet has a ceiling: what there is may become less, never more.
//! Whoever brings it down lowers the number here.
//!
//! Not here: layers and headers (`tidy`).

use std::collections::BTreeMap;

use super::{is_test, program};

/// The public types that share a name, in how many files at most, and why. Types of wire formats do not count: they are
/// named with their module.
const SHARED_TYPES: &[(&str, usize, &str)] = &[
    ("Component", 2, "of a system that is started, and its syncs in a record"),
    ("Failure", 2, "of an operation, and of an installation"),
    ("Group", 2, "of databases that are tested together, and a cgroup"),
    ("Host", 2, "what runs servers, and the facts of the machine that a program is fetched for"),
    ("Machine", 2, "one of a places file, and one that was reached"),
    ("Member", 2, "a file of an archive, and a component of a system, described"),
    ("Origin", 2, "of a machine's clock, and of a program"),
    ("Process", 2, "one that a study names, and one that runs"),
    ("Request", 3, "to an agent, and of the two works"),
    ("Source", 3, "of requests in two works, and of a program"),
    ("System", 2, "one that a study names, and what every kind has to do"),
];

/// Where wire formats are.
const WIRE: &str = "crates/bakeoff-wire/src/";

/// Words of the dialect that was, and how often each may still be part of an identifier.
const WORDS: &[(&str, usize)] = &[
    ("climb", 0),
    ("gist", 0),
    ("greet", 0),
    ("hump", 0),
    ("humps", 0),
    ("ingredient", 0),
    ("ladder", 0),
    ("mistake", 0),
    ("mistakes", 0),
    ("promises", 0),
    ("punctual", 0),
    ("rung", 0),
    ("rungs", 0),
    ("slip", 2), // in quotes within quotes: the name of before in a condition
    ("unready", 0),
];

/// Parts of the tree where a kind of system is not named.
const NO_KINDS: &[&str] = &[
    "crates/bakeoff/src/",
    "crates/bakeoff-core/src/",
    "crates/bakeoff-engine/src/",
    "crates/bakeoff-fleet/src/",
    "crates/bakeoff-host/src/",
    "crates/bakeoff-report/src/",
    "crates/bakeoff-systems/src/",
];

/// Where the folder of each kind is.
const SYSTEMS: &str = "crates/bakeoff-systems/src/";

/// Kinds whose names are words of other matters, too.
const COMMON_WORDS: &[&str] = &["http", "process"];

/// Files that name kinds outside of their folder, and why.
const NAMES_KINDS: &[(&str, &str)] = &[
    (
        "crates/bakeoff/src/commands/manifests/resources.rs",
        "names of Kubernetes' and Consul's own resources, and the role of an application",
    ),
    ("crates/bakeoff-systems/src/consistency.rs", "tests that declarations agree with each other"),
    ("crates/bakeoff-systems/src/mesh.rs", "the role of an application"),
    ("crates/bakeoff-core/src/study/fields.rs", "examples of the fields' documentation"),
    ("crates/bakeoff-core/src/study/shipped.rs", "the name of a study"),
];

/// Everything that is not as it should be.
pub(super) fn complaints(files: &[(String, String)]) -> Vec<String> {
    let sources: Vec<_> = files.iter().filter(|(path, _)| path.ends_with(".rs")).collect();
    let mut found = shared_types(&sources, SHARED_TYPES);
    let whats = sources.iter().flat_map(|(path, text)| what(path, text)).collect();
    found.extend(ceiling("a doc comment begins with a verb, not with \"What\"", 0, whats));
    let odd = sources.iter().flat_map(|(path, text)| odd_tests(path, text)).collect();
    found.extend(ceiling("a test is named by behaviour, not `what_…` or `that_…`", 0, odd));
    found.extend(sources.iter().flat_map(|(path, text)| functions_of(path, text)));
    for (word, most) in WORDS {
        let spoken = sources.iter().flat_map(|(path, text)| speaks(path, text, word)).collect();
        let rule = format!("HOUSE_STYLE's dictionary has another word for `{word}`");
        found.extend(ceiling(&rule, *most, spoken));
    }
    let kinds = kinds(files);
    found.extend(sources.iter().flat_map(|(path, text)| names_kinds(path, text, &kinds)));
    found
}

/// Complains when more was found than there may be: of the rule, with the last of what was found.
fn ceiling(rule: &str, most: usize, found: Vec<String>) -> Option<String> {
    (found.len() > most).then(|| {
        let last = found.iter().rev().take(5).cloned().collect::<Vec<_>>().join(", ");
        format!("{rule}: {} times, and {most} at most; look at {last}", found.len())
    })
}

/// Public types of the same name in several files, beyond those that `allowed` lists.
fn shared_types(sources: &[&(String, String)], allowed: &[(&str, usize, &str)]) -> Vec<String> {
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| path.starts_with("crates/")) {
        if is_test(path) || path.starts_with(WIRE) {
            continue;
        }
        for line in program(text).lines() {
            let declared = ["pub struct ", "pub enum ", "pub trait ", "pub type "]
                .iter()
                .find_map(|keyword| line.strip_prefix(keyword));
            let end = |c: char| !c.is_alphanumeric() && c != '_';
            if let Some(name) = declared.and_then(|rest| rest.split(end).next()) {
                let paths = types.entry(name).or_default();
                if !paths.contains(&path.as_str()) {
                    paths.push(path);
                }
            }
        }
    }
    let mut found = Vec::new();
    for (name, paths) in types {
        let most = allowed.iter().find(|(known, _, _)| *known == name);
        let most = most.map_or(1, |(_, most, _)| *most);
        if paths.len() > most {
            let paths = paths.join(", ");
            found.push(format!(
                "public types share the name `{name}`: {paths}; rename one, or give the reason in \
                 `tidy/names.rs`"
            ));
        }
    }
    found
}

/// Doc comments that begin with "What".
fn what(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in (1..).zip(text.lines().map(str::trim_start)) {
        if line.starts_with("/// What ") && !before.starts_with("///") {
            found.push(format!("{path}:{number}"));
        }
        before = line;
    }
    found
}

/// Tests, and functions, that are called `what_…` or `that_…`.
fn odd_tests(path: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines().map(str::trim_start));
    let odd =
        lines.filter(|(_, line)| line.starts_with("fn what_") || line.starts_with("fn that_"));
    odd.map(|(number, _)| format!("{path}:{number}")).collect()
}

/// Functions that are called `of`.
fn functions_of(path: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines().map(code));
    let declares = |code: &str| code.contains("fn of(") || code.contains("fn of<");
    let of = lines.filter(|(_, line)| line.split('"').step_by(2).any(declares));
    of.map(|(number, _)| format!("{path}:{number} calls a function `of`: name what it returns"))
        .collect()
}

/// Identifiers that a word is part of, texts and comments not counted.
fn speaks(path: &str, text: &str, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let unquoted = code(line).split('"').step_by(2);
        let words = unquoted.flat_map(identifier_words);
        found.extend(words.filter(|part| part == word).map(|_| format!("{path}:{number}")));
    }
    found
}

/// The words of all identifiers of a piece of code, in small letters.
fn identifier_words(code: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_small = false;
    for c in code.chars() {
        if !c.is_ascii_alphabetic() || (was_small && c.is_ascii_uppercase()) {
            words.push(std::mem::take(&mut word));
        }
        was_small = c.is_ascii_lowercase();
        if c.is_ascii_alphabetic() {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.push(word);
    words
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// The kinds of system: one for each folder.
fn kinds(files: &[(String, String)]) -> Vec<String> {
    let below = files.iter().filter_map(|(path, _)| path.strip_prefix(SYSTEMS));
    let folders = below.filter_map(|path| Some(path.split_once('/')?.0.replace('_', "-")));
    let mut kinds: Vec<String> =
        folders.filter(|kind| !COMMON_WORDS.contains(&kind.as_str())).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Returns whether a file is in the folder of a kind.
fn is_in_folder(path: &str) -> bool {
    path.strip_prefix(SYSTEMS).is_some_and(|inside| inside.contains('/'))
}

/// Texts that are the name of a kind, outside of the folders of the kinds.
fn names_kinds(path: &str, text: &str, kinds: &[String]) -> Vec<String> {
    let applies = NO_KINDS.iter().any(|part| path.starts_with(part))
        && !is_in_folder(path)
        && !is_test(path)
        && NAMES_KINDS.iter().all(|(excused, _)| *excused != path);
    if !applies {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in (1..).zip(program(text).lines()) {
        let named = kinds.iter().find(|kind| code(line).contains(&format!("\"{kind}\"")));
        found.extend(named.map(|kind| {
            format!("{path}:{number} names the kind `{kind}`: its folder declares what is special")
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn a_second_public_type_of_a_name_is_found() {
        let one = file("crates/a/src/lib.rs", "pub struct Plan;\npub(super) struct Own;\n");
        let two = file("crates/b/src/lib.rs", "pub enum Plan<T> {}\nstruct Own;\n");
        let both = [&one, &two];
        let found = shared_types(&both, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`Plan`: crates/a/src/lib.rs, crates/b/src/lib.rs"), "{found:?}");
        assert!(shared_types(&both, &[("Plan", 2, "a reason")]).is_empty());
        assert!(!shared_types(&both, &[("Plan", 1, "a reason")]).is_empty());
        assert!(shared_types(&[&one], &[]).is_empty());
        let wire = file("crates/bakeoff-wire/src/a.rs", "pub struct Plan;\n");
        assert!(shared_types(&[&one, &wire], &[]).is_empty());
    }

    #[test]
    fn a_doc_comment_that_begins_with_what_is_found() {
        let text = "/// What it is.\nfn a() {}\n/// Returns it.\n/// What else.\nfn b() {}\n";
        assert_eq!(what("a.rs", text), ["a.rs:1"]);
    }

    #[test]
    fn a_test_without_a_behaviour_in_its_name_is_found() {
        let text =
            "#[test]\nfn what_is_lost() {}\n    fn that_which_is() {}\nfn loses_nothing() {}\n";
        assert_eq!(odd_tests("a.rs", text), ["a.rs:2", "a.rs:3"]);
    }

    #[test]
    fn a_function_called_of_is_found() {
        let text = "pub fn of(x: u32) {}\nfn of<T>() {}\nfn often() {}\n// fn of()\n";
        assert_eq!(functions_of("a.rs", text).len(), 2);
    }

    #[test]
    fn a_word_of_the_dialect_is_found_in_identifiers_alone() {
        let text = "let zork_count = Zork::new(\"zork\"); // zork\nlet wzork = zorks;\nTheZORK;\n";
        assert_eq!(speaks("a.rs", text, "zork"), ["a.rs:1", "a.rs:1", "a.rs:3"]);
        assert_eq!(speaks("a.rs", text, "zorks"), ["a.rs:2"]);
    }

    #[test]
    fn a_kind_that_is_matched_outside_of_its_folder_is_found() {
        let kinds = kinds(&[file("crates/bakeoff-systems/src/gcs_emulator/mod.rs", "")]);
        assert_eq!(kinds, ["gcs-emulator"]);
        let text =
            "if kind == \"gcs-emulator\" {}\n\n#[cfg(test)]\nmod tests { \"gcs-emulator\" }\n";
        let found = names_kinds("crates/bakeoff/src/cluster/mod.rs", text, &kinds);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(names_kinds("crates/bakeoff-systems/src/consul/mod.rs", text, &kinds).is_empty());
        assert!(names_kinds(NAMES_KINDS[0].0, text, &kinds).is_empty());
    }

    #[test]
    fn a_ceiling_is_kept_and_never_exceeded() {
        let found = || vec!["a.rs:1".to_owned(), "b.rs:2".to_owned()];
        assert_eq!(ceiling("a rule", 2, found()), None);
        assert!(ceiling("a rule", 1, found()).unwrap().contains("2 times, and 1 at most"));
    }
}
