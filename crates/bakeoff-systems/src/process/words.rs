//! The words in braces of a command, of its environment and of its files: `{port}`.
//!
//! Configuration files are full of braces, so a word is one only if it looks like one (`{port}`,
//! `{port:admin}`: no blanks, nothing before it that makes it a variable, as in `${port}`), and what
//! it stands for has to be known. `{{port}}` is the text `{port}`. A word that is not known stays as
//! it is in a file; in a command and in an environment it is a mistake, since it is more likely to be
//! a slip than to be meant.
//!
//! Not here: ports and folders themselves (`mod`).

use bakeoff_core::study::{self, suggest};

use super::ROLES;

/// The port that clients connect to, among a node's ports.
pub(super) const CLIENT: &str = "client";

/// A fault of a word, and its mending.
pub(super) type Diagnostic = (String, String);

/// A word that cannot be written.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// The word with its braces.
    pub(super) word: String,
    pub(super) what: String,
    pub(super) hint: String,
}

impl Unwritten {
    fn new(word: &str, (what, hint): Diagnostic) -> Self {
        Self { word: format!("{{{word}}}"), what, hint }
    }
}

/// The meaning of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The port for a purpose.
    Port(String),
    /// The address that the node is to listen on.
    Address,
    /// The folder of the node's data.
    Dir,
    /// The node's name.
    Node,
    /// The folder that bakeoff was started in.
    Here,
    /// The PEM file of a certificate that bakeoff makes for the node, of its key, or of both.
    Identity(IdentityFile),
    /// The addresses of a part's nodes, or that of one of them, counted from 0.
    Part { role: &'static str, node: Option<usize> },
}

/// The files of a node's certificate, which bakeoff makes where a word asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentityFile {
    Certificate,
    Key,
    /// The certificate, and the key after it: HAProxy's form.
    Both,
}

impl IdentityFile {
    pub(super) const ALL: [Self; 3] = [Self::Certificate, Self::Key, Self::Both];

    /// Returns its path in the node's folder.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Certificate => "tls/certificate.pem",
            Self::Key => "tls/key.pem",
            Self::Both => "tls/both.pem",
        }
    }
}

/// Where a text stands, which decides what a word is that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the command or the environment: a mistake.
    Ours,
    /// In a file: the file's own affair.
    File,
}

/// A text with each of its words written as what it stands for.
pub(super) fn written(
    text: &str,
    system: &study::System,
    place: Place,
    write: &mut dyn FnMut(Meaning) -> String,
) -> Result<String, Unwritten> {
    let meaning = |word| meaning(word, system).map_err(|fault| Unwritten::new(word, fault));
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
                    return Err(Unwritten::new(word, unknown(word, system)));
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

/// The word at the beginning of a text, `{port}`, and what follows it.
fn single(text: &str) -> Option<(&str, &str)> {
    let (word, after) = text.strip_prefix('{')?.split_once('}')?;
    let of_words = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c);
    let is_word = word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(of_words);
    is_word.then_some((word, after))
}

/// The word at the beginning of a text that only speaks of it, `{{port}}`, and what follows it.
fn doubled(text: &str) -> Option<(&str, &str)> {
    let (word, after) = single(text.strip_prefix('{')?)?;
    Some((word, after.strip_prefix('}')?))
}

/// Returns the meaning of a word; `None` for one that is not known. An error is a word that is known and
/// stands for nothing here.
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
            return Err((format!("`{{{word}}}` names no port"), hint.to_owned()));
        }
        _ => {
            let Some(role) = ROLES.iter().find(|role| role.name == name) else { return Ok(None) };
            let Some(part) = system.parts.get(role.name) else {
                let what = format!("`{{{word}}}` stands for a part that it does not have");
                let hint = format!("add `parts: {{{name}: {{kind: …}}}}`");
                return Err((what, hint));
            };
            let node = match which.map(str::parse::<u32>) {
                None => None,
                Some(Ok(number)) if (1..=part.nodes).contains(&number) => Some(number as usize - 1),
                Some(_) => {
                    let what = format!("`{{{word}}}` is none of the part's nodes");
                    let most = part.nodes;
                    let hint = match most {
                        1 => format!("it has one: write `{{{name}}}`"),
                        _ => format!("it has {most}: `{{{name}:1}}` to `{{{name}:{most}}}`"),
                    };
                    return Err((what, hint));
                }
            };
            Meaning::Part { role: role.name, node }
        }
    }))
}

/// The words that every command may have.
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
        format!("nothing is known that `{written}` stands for"),
        format!(
            "{hint}{} `{{{{{word}}}}}` is the text itself",
            if hint.ends_with('?') { "" } else { ";" }
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::asked;

    fn system() -> study::System {
        let parts = [("backend".to_owned(), asked("process", 2, &[]))].into();
        study::System { parts, ..asked("process", 1, &[]) }
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
        let Unwritten { what, hint, .. } = written(text, &system(), place, &mut show).unwrap_err();
        assert!(what.contains(reply[0]) && hint.contains(reply[1]), "{what}\n{hint}");
    }

    #[test]
    fn a_word_is_written_as_what_it_stands_for() {
        check("--listen=127.0.0.1:{port}", "--listen=127.0.0.1:<client>");
        check("{address}:{port}", "<address>:<client>");
        check("{port:admin}{port:client}", "<admin><client>");
        check("{dir}/{node}.log", "<dir>/<node>.log");
        check("{here}/gateway.yaml", "<here>/gateway.yaml");
        check("{backend} {backend:2}", "<backend None> <backend Some(1)>");
    }

    #[test]
    fn braces_of_a_files_own_stay() {
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
    fn a_doubled_word_is_the_text() {
        check("{{port}} {{port:a}} {{backend}}", "{port} {port:a} {backend}");
        let own = written("{{host}}", &system(), Place::File, &mut show).unwrap();
        assert_eq!(own, "{{host}}", "a template's own");
        let ours = written("{{host}}", &system(), Place::Ours, &mut show).unwrap();
        assert_eq!(ours, "{host}");
    }

    #[test]
    fn a_word_that_stands_for_nothing_is_refused() {
        refused("{prot}", Place::Ours, ["`{prot}`", "did you mean `{port}`? `{{prot}}` is the"]);
        refused("{gateway}", Place::Ours, ["`{gateway}`", "`{dir}`, `{node}`"]);
        let own = written("{remote_host} {prot}", &system(), Place::File, &mut show).unwrap();
        assert_eq!(own, "{remote_host} {prot}");
        for place in [Place::Ours, Place::File] {
            refused("{port:}", place, ["names no port", "{port:admin}"]);
            refused("{backend:3}", place, ["none of the part's nodes", "`{backend:1}` to"]);
        }
        let alone = asked("process", 1, &[]);
        let Unwritten { word, what, hint } =
            written("{backend}", &alone, Place::File, &mut show).unwrap_err();
        assert!(what.contains("does not have") && hint.contains("parts: {backend:"), "{what}");
        assert_eq!(word, "{backend}");
    }
}
