//! Checks names and words: shared type names, names of tests and functions, and kinds named outside of their folder.
//!
//! A rule that the tree does not meet yet has a ceiling, which may only go down. A commit that fixes violations lowers
//! the number here.
//!
//! Not here: layers and headers (`tidy`).

use std::collections::BTreeMap;

use super::{is_test, program};

/// Public types that share a name: the most files, and the reason. Types of wire formats do not count, because code
/// names them with their module.
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

/// Folder of the wire formats.
const WIRE: &str = "crates/bakeoff-wire/src/";

/// Words that the style guide replaces, and the most identifiers that may still contain them.
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
    ("slip", 0),
    ("unready", 0),
];

/// Words that do not say what a thing is. Words in `-ed` and `-ing` do not either, except [`NOUNS`].
const NO_NOUNS: &str = "\
    About Across After Again Ahead Alike Alone Also Among Apart Around As At Away Back Before \
    Befallen Begun Below Beside Better Between Both Broken Built By Chosen Done Down Drawn \
    Driven Each Either Elsewhere From Given Gone Grown Heard Held Here Hidden How In Into Kept \
    Known Left Lost Made Meant Meanwhile Met Misread Of Off Often On Once Ours Out Over Own Past \
    Put Ran Rare Said Seen Sent Shown Spent Spoilt Stolen Taken Then There To Together Told Torn \
    Towards Twice Unread Unsent Until Up Upon What When Where Which Who Why With Within Written";

/// Nouns that end like participles.
const NOUNS: &str = "\
    Bearing Drawing Feed Finding Framing Greeting Listing Mapping Meaning Memcached Pacing \
    Ranking Reading Rendering Routing Sampling Setting Spacing Timing Tracing Wording";

/// Types outside tests that still have such a word as their name.
const VAGUE_TYPES: usize = 0;

/// Parts of the tree that must not name a kind of system.
const NO_KINDS: &[&str] = &[
    "crates/bakeoff/src/",
    "crates/bakeoff-core/src/",
    "crates/bakeoff-engine/src/",
    "crates/bakeoff-fleet/src/",
    "crates/bakeoff-host/src/",
    "crates/bakeoff-report/src/",
    "crates/bakeoff-systems/src/",
    "crates/bakeoff-trial/src/",
];

/// Folder with one folder per kind.
const SYSTEMS: &str = "crates/bakeoff-systems/src/";

/// Kinds whose names are also ordinary words.
const COMMON_WORDS: &[&str] = &["http", "process"];

/// Files that may name kinds outside of their folder, with the reason.
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

/// Returns all violations.
pub(super) fn complaints(files: &[(String, String)]) -> Vec<String> {
    let sources: Vec<_> = files.iter().filter(|(path, _)| path.ends_with(".rs")).collect();
    let mut found = shared_types(&sources, SHARED_TYPES);
    let whats = sources.iter().flat_map(|(path, text)| what(path, text)).collect();
    found.extend(ceiling("start a doc comment with a verb, not with \"What\"", 0, whats));
    let odd = sources.iter().flat_map(|(path, text)| odd_tests(path, text)).collect();
    found.extend(ceiling("name a test by behaviour, not `what_…` or `that_…`", 0, odd));
    found.extend(sources.iter().flat_map(|(path, text)| functions_of(path, text)));
    let types = sources.iter().flat_map(|(path, text)| vague_types(path, text)).collect();
    found.extend(ceiling("name a type by a noun, not by a lone participle", VAGUE_TYPES, types));
    for (word, most) in WORDS {
        let spoken = sources.iter().flat_map(|(path, text)| speaks(path, text, word)).collect();
        let rule = format!("HOUSE_STYLE's dictionary has another word for `{word}`");
        found.extend(ceiling(&rule, *most, spoken));
    }
    let kinds = kinds(files);
    found.extend(sources.iter().flat_map(|(path, text)| names_kinds(path, text, &kinds)));
    found
}

/// Returns a complaint with the last violations if there are more than `most`.
fn ceiling(rule: &str, most: usize, found: Vec<String>) -> Option<String> {
    (found.len() > most).then(|| {
        let last = found.iter().rev().take(5).cloned().collect::<Vec<_>>().join(", ");
        format!("{rule}: found {} times, at most {most} allowed; see {last}", found.len())
    })
}

/// Returns complaints about public types with the same name in several files, beyond those in `allowed`.
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

/// Returns doc comments that start with "What".
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

/// Returns tests and other functions named `what_…` or `that_…`.
fn odd_tests(path: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines().map(str::trim_start));
    let odd =
        lines.filter(|(_, line)| line.starts_with("fn what_") || line.starts_with("fn that_"));
    odd.map(|(number, _)| format!("{path}:{number}")).collect()
}

/// Returns types, private ones too, whose name is a lone participle, preposition, pronoun or adverb.
fn vague_types(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(program(text).lines()).filter(|_| !is_test(path)) {
        let is_visibility = |word: &&str| word.starts_with("pub") || word.ends_with(')');
        let mut words = line.split_whitespace().skip_while(is_visibility);
        if !matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union")) {
            continue;
        }
        let end = |c: char| !c.is_alphanumeric() && c != '_';
        let name = words.next().and_then(|rest| rest.split(end).next()).unwrap_or_default();
        let is_one_word = !name.chars().skip(1).any(char::is_uppercase);
        let is_participle = name.ends_with("ed") || name.ends_with("ing");
        let is_in = |list: &str| list.split(' ').any(|word| word == name);
        if is_in(NO_NOUNS) || (is_one_word && is_participle && !is_in(NOUNS)) {
            found.push(format!("{path}:{number} `{name}`"));
        }
    }
    found
}

/// Returns functions named `of`.
fn functions_of(path: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines().map(code));
    let declares = |code: &str| code.contains("fn of(") || code.contains("fn of<");
    let of = lines.filter(|(_, line)| line.split('"').step_by(2).any(declares));
    of.map(|(number, _)| format!("{path}:{number} has a function `of`: name its result")).collect()
}

/// Returns identifiers that contain a word, ignoring texts and comments.
fn speaks(path: &str, text: &str, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let unquoted = code(line).split('"').step_by(2);
        let words = unquoted.flat_map(identifier_words);
        found.extend(words.filter(|part| part == word).map(|_| format!("{path}:{number}")));
    }
    found
}

/// Returns the words of all identifiers in a piece of code, in lower case.
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

/// Returns a line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Returns the kinds of system, one per folder.
fn kinds(files: &[(String, String)]) -> Vec<String> {
    let below = files.iter().filter_map(|(path, _)| path.strip_prefix(SYSTEMS));
    let folders = below.filter_map(|path| Some(path.split_once('/')?.0.replace('_', "-")));
    let mut kinds: Vec<String> =
        folders.filter(|kind| !COMMON_WORDS.contains(&kind.as_str())).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Returns true if a file is in the folder of a kind.
fn is_in_folder(path: &str) -> bool {
    path.strip_prefix(SYSTEMS).is_some_and(|inside| inside.contains('/'))
}

/// Returns texts that name a kind outside of the folders of kinds.
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
    fn second_public_type_of_a_name_is_reported() {
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
    fn doc_comment_that_starts_with_what_is_reported() {
        let text = "/// What it is.\nfn a() {}\n/// Returns it.\n/// What else.\nfn b() {}\n";
        assert_eq!(what("a.rs", text), ["a.rs:1"]);
    }

    #[test]
    fn test_without_a_behaviour_in_its_name_is_reported() {
        let text =
            "#[test]\nfn what_is_lost() {}\n    fn that_which_is() {}\nfn loses_nothing() {}\n";
        assert_eq!(odd_tests("a.rs", text), ["a.rs:2", "a.rs:3"]);
    }

    #[test]
    fn lone_participle_as_a_type_is_reported() {
        let text = "pub(in crate::a) struct Held<'a> {}\ntype Towards = u8;\n    enum Joining {}\n\
                    struct Finding;\nstruct HeldBytes;\n#[cfg(test)]\nmod tests { struct Seen; }\n";
        let found = vague_types("a.rs", text);
        assert_eq!(found, ["a.rs:1 `Held`", "a.rs:2 `Towards`", "a.rs:3 `Joining`"]);
        assert!(vague_types("a/tests/main.rs", text).is_empty());
    }

    #[test]
    fn function_called_of_is_reported() {
        let text = "pub fn of(x: u32) {}\nfn of<T>() {}\nfn often() {}\n// fn of()\n";
        assert_eq!(functions_of("a.rs", text).len(), 2);
    }

    #[test]
    fn dialect_words_are_found_only_in_identifiers() {
        let text = "let zork_count = Zork::new(\"zork\"); // zork\nlet wzork = zorks;\nTheZORK;\n";
        assert_eq!(speaks("a.rs", text, "zork"), ["a.rs:1", "a.rs:1", "a.rs:3"]);
        assert_eq!(speaks("a.rs", text, "zorks"), ["a.rs:2"]);
    }

    #[test]
    fn kind_named_outside_of_its_folder_is_reported() {
        let kinds = kinds(&[file("crates/bakeoff-systems/src/gcs_emulator/mod.rs", "")]);
        assert_eq!(kinds, ["gcs-emulator"]);
        let text =
            "if kind == \"gcs-emulator\" {}\n\n#[cfg(test)]\nmod tests { \"gcs-emulator\" }\n";
        let found = names_kinds("crates/bakeoff-trial/src/cluster/mod.rs", text, &kinds);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(names_kinds("crates/bakeoff-systems/src/consul/mod.rs", text, &kinds).is_empty());
        assert!(names_kinds(NAMES_KINDS[0].0, text, &kinds).is_empty());
    }

    #[test]
    fn exceeded_ceiling_is_reported() {
        let found = || vec!["a.rs:1".to_owned(), "b.rs:2".to_owned()];
        assert_eq!(ceiling("a rule", 2, found()), None);
        assert!(
            ceiling("a rule", 1, found()).unwrap().contains("found 2 times, at most 1 allowed")
        );
    }
}
