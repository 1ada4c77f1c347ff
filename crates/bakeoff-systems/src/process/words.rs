//! Expands words in braces, such as `{port}`, in a command, its environment and its files.
//!
//! Configuration files are full of braces, so only certain texts are words: `{port}`, `{port:admin}`. They have no
//! blanks and no `$` before them. `{{port}}` is the literal text `{port}`. An unknown word stays unchanged in a file.
//! In a command or an environment it is an error, because it is probably a typing error.
//!
//! Not here: ports and folders themselves (`mod`).

use bakeoff_core::study::{self, suggest};

use super::ROLES;

/// Name of the port that clients connect to.
pub(super) const CLIENT: &str = "client";

/// A fault of a word, and a hint.
pub(super) type Diagnostic = (String, String);

/// A word that cannot be expanded.
#[derive(Debug)]
pub(super) struct WordProblem {
    /// Word with its braces.
    pub(super) word: String,
    pub(super) what: String,
    pub(super) hint: String,
}

impl WordProblem {
    fn new(word: &str, (what, hint): Diagnostic) -> Self {
        Self { word: format!("{{{word}}}"), what, hint }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Port with this purpose.
    Port(String),
    /// Address on which the node listens.
    Address,
    /// Folder of the node's data.
    Dir,
    /// Name of the node.
    Node,
    /// Folder in which bakeoff was started.
    Here,
    /// PEM file of the node's generated certificate, of its key, or of both.
    Identity(IdentityFile),
    /// Addresses of a part's nodes with their ports, or of one of them, counted from 0.
    Part { role: &'static str, node: Option<usize> },
    /// The address or the port of a part's first node, for configurations that have a field for each.
    HalfOf { role: &'static str, half: AddressHalf },
}

/// A half of `127.0.0.1:8080`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressHalf {
    Address,
    Port,
}

/// Files of a node's certificate, generated if a word refers to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentityFile {
    Certificate,
    Key,
    /// Certificate followed by its key: HAProxy's form.
    Both,
}

impl IdentityFile {
    pub(super) const ALL: [Self; 3] = [Self::Certificate, Self::Key, Self::Both];

    /// Returns the path in the node's folder.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Certificate => "tls/certificate.pem",
            Self::Key => "tls/key.pem",
            Self::Both => "tls/both.pem",
        }
    }
}

/// Type of a text, which decides how an unknown word is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Command or environment: an unknown word is an error.
    Ours,
    /// File: an unknown word stays.
    File,
}

/// Returns a text with each word expanded.
pub(super) fn written(
    text: &str,
    system: &study::System,
    place: Place,
    write: &mut dyn FnMut(Meaning) -> String,
) -> Result<String, WordProblem> {
    let meaning = |word| meaning(word, system).map_err(|fault| WordProblem::new(word, fault));
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let is_variable = rest[..at].ends_with('$');
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if is_variable {
            out.push('{');
            rest = &rest[1..];
        } else if let Some((word, after)) = doubled(rest)
            && (place == Place::Ours || meaning(word)?.is_some())
        {
            out.push_str(&rest[1..rest.len() - after.len() - 1]);
            rest = after;
        } else if let Some((word, after)) = single(rest) {
            match meaning(word)? {
                Some(meaning) => out.push_str(&write(meaning)),
                None if place == Place::Ours => {
                    return Err(WordProblem::new(word, unknown(word, system)));
                }
                None => out.push_str(&rest[..rest.len() - after.len()]),
            }
            rest = after;
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the word at the start of a text, such as `{port}`, and the rest.
fn single(text: &str) -> Option<(&str, &str)> {
    let (word, after) = text.strip_prefix('{')?.split_once('}')?;
    let of_words = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c);
    let is_word = word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(of_words);
    is_word.then_some((word, after))
}

/// Returns the escaped word at the start of a text, such as `{{port}}`, and the rest.
fn doubled(text: &str) -> Option<(&str, &str)> {
    let (word, after) = single(text.strip_prefix('{')?)?;
    Some((word, after.strip_prefix('}')?))
}

/// Returns the meaning of a word, or `None` for an unknown one. Fails for a known word that has no value here.
fn meaning(word: &str, system: &study::System) -> Result<Option<Meaning>, Diagnostic> {
    let (name, which) = match word.split_once(':') {
        None => (word, None),
        Some((name, which)) => (name, Some(which)),
    };
    Ok(Some(match (name, which) {
        ("address", None) => Meaning::Address,
        ("dir", None) => Meaning::Dir,
        ("node", None) => Meaning::Node,
        ("here", None) => Meaning::Here,
        ("cert", None) => Meaning::Identity(IdentityFile::Certificate),
        ("key", None) => Meaning::Identity(IdentityFile::Key),
        ("cert-and-key", None) => Meaning::Identity(IdentityFile::Both),
        ("port", None) => Meaning::Port(CLIENT.to_owned()),
        ("port", Some(purpose)) if !purpose.is_empty() => Meaning::Port(purpose.to_owned()),
        ("port", Some(_)) => {
            let hint = "write `{port}` for the port of the clients, `{port:admin}` for another";
            return Err((format!("`{{{word}}}` does not name a port"), hint.to_owned()));
        }
        _ => {
            let Some(role) = ROLES.iter().find(|role| role.name == name) else { return Ok(None) };
            let Some(part) = system.parts.get(role.name) else {
                let what = format!("`{{{word}}}` refers to a part that it does not have");
                let hint = format!("add `parts: {{{name}: {{kind: …}}}}`");
                return Err((what, hint));
            };
            let half = match which {
                Some("address") => Some(AddressHalf::Address),
                Some("port") => Some(AddressHalf::Port),
                _ => None,
            };
            if let Some(half) = half {
                return Ok(Some(Meaning::HalfOf { role: role.name, half }));
            }
            let node = match which.map(str::parse::<u32>) {
                None => None,
                Some(Ok(number)) if (1..=part.nodes).contains(&number) => Some(number as usize - 1),
                Some(_) => {
                    let what = format!("`{{{word}}}` is not one of the part's nodes");
                    let most = part.nodes;
                    let hint = match most {
                        1 => format!("it has one node: write `{{{name}}}`"),
                        _ => format!("it has {most} nodes: `{{{name}:1}}` to `{{{name}:{most}}}`"),
                    };
                    return Err((what, hint));
                }
            };
            Meaning::Part { role: role.name, node }
        }
    }))
}

/// Words available to every command.
const WORDS: [&str; 9] = [
    "{address}",
    "{port}",
    "{port:NAME}",
    "{dir}",
    "{node}",
    "{here}",
    "{cert}",
    "{key}",
    "{cert-and-key}",
];

fn unknown(word: &str, system: &study::System) -> Diagnostic {
    let parts = system.parts.keys().map(|role| format!("{{{role}}}"));
    let known: Vec<String> = WORDS.map(str::to_owned).into_iter().chain(parts).collect();
    let written = format!("{{{word}}}");
    let hint = suggest(&written, known.iter().map(String::as_str), "there are");
    (
        format!("unknown word `{written}`"),
        format!(
            "{hint}{} `{{{{{word}}}}}` is the literal text",
            if hint.ends_with('?') { "" } else { ";" }
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::study_system;

    fn system() -> study::System {
        let parts = [("backend".to_owned(), study_system("process", 2, &[]))].into();
        study::System { parts, ..study_system("process", 1, &[]) }
    }

    fn show(meaning: Meaning) -> String {
        match meaning {
            Meaning::Port(purpose) => format!("<{purpose}>"),
            Meaning::Address => "<address>".into(),
            Meaning::Dir => "<dir>".into(),
            Meaning::Node => "<node>".into(),
            Meaning::Identity(file) => file.path().to_owned(),
            Meaning::Here => "<here>".into(),
            Meaning::Part { role, node } => format!("<{role} {node:?}>"),
            Meaning::HalfOf { role, half } => format!("<{role} {half:?}>"),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        for place in [Place::Ours, Place::File] {
            let found = written(text, &system(), place, &mut show).unwrap();
            assert_eq!(found, expected, "{place:?}");
        }
    }

    #[track_caller]
    fn refused(text: &str, place: Place, reply: [&str; 2]) {
        let WordProblem { what, hint, .. } =
            written(text, &system(), place, &mut show).unwrap_err();
        assert!(what.contains(reply[0]) && hint.contains(reply[1]), "{what}\n{hint}");
    }

    #[test]
    fn words_are_expanded() {
        check("--listen=127.0.0.1:{port}", "--listen=127.0.0.1:<client>");
        check("{address}:{port}", "<address>:<client>");
        check("{port:admin}{port:client}", "<admin><client>");
        check("{dir}/{node}.log", "<dir>/<node>.log");
        check("{here}/gateway.yaml", "<here>/gateway.yaml");
        check("{backend} {backend:2}", "<backend None> <backend Some(1)>");
        check("{backend:address}, {backend:port}", "<backend Address>, <backend Port>");
    }

    #[test]
    fn other_braces_in_files_stay() {
        check("server { listen {port}; }", "server { listen <client>; }");
        check("{\"a\":{\"port\":{port}}}", "{\"a\":{\"port\":<client>}}");
        check(
            "${port} $port {{ port }} {} {PORT} {a b}",
            "${port} $port {{ port }} {} {PORT} {a b}",
        );
        check("{port", "{port");
        check("}{", "}{");
        check("{{{", "{{{");
    }

    #[test]
    fn doubled_braces_are_literal() {
        check("{{port}} {{port:a}} {{backend}}", "{port} {port:a} {backend}");
        let own = written("{{host}}", &system(), Place::File, &mut show).unwrap();
        assert_eq!(own, "{{host}}", "a template's own");
        let ours = written("{{host}}", &system(), Place::Ours, &mut show).unwrap();
        assert_eq!(ours, "{host}");
    }

    #[test]
    fn unknown_words_are_refused() {
        refused("{prot}", Place::Ours, ["`{prot}`", "did you mean `{port}`? `{{prot}}` is the"]);
        refused("{gateway}", Place::Ours, ["`{gateway}`", "`{dir}`, `{node}`"]);
        let own = written("{remote_host} {prot}", &system(), Place::File, &mut show).unwrap();
        assert_eq!(own, "{remote_host} {prot}");
        for place in [Place::Ours, Place::File] {
            refused("{port:}", place, ["does not name a port", "{port:admin}"]);
            refused("{backend:3}", place, ["not one of the part's nodes", "`{backend:1}` to"]);
        }
        let alone = study_system("process", 1, &[]);
        let WordProblem { word, what, hint } =
            written("{backend}", &alone, Place::File, &mut show).unwrap_err();
        assert!(what.contains("does not have") && hint.contains("parts: {backend:"), "{what}");
        assert_eq!(word, "{backend}");
    }
}
