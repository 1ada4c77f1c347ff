//! Checks the documents: links and anchors, length, the table of contents, and questions that readers bring.
//!
//! `cargo xtask book` makes a site of the same pages (`book`).
//!
//! Not here: tables that are generated from code (tests next to that code), and studies in the documents
//! (`crates/bakeoff-systems/src/documented_studies.rs`).

use std::path::{Component, Path, PathBuf};

/// Pages outside of `docs/`.
pub(crate) const ROOT_PAGES: [&str; 4] =
    ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// Table of contents, which is no page.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// Most lines of a page that is written by hand.
const LINES_MAX: usize = 250;

/// Most lines of the README before its list of documents.
const README_LINES_MAX: usize = 60;
const DOCUMENTS: &str = "## Documents";

/// Pages of one generated reference each, which readers search instead of reading.
const REFERENCES: [&str; 5] = [
    "docs/commands.md",
    "docs/commands-load.md",
    "docs/load-json.md",
    "docs/study-fields.md",
    "docs/systems.md",
];

/// A question that readers bring. The README's link text promises the page, or one that links to the page.
struct Question {
    question: &'static str,
    link: &'static str,
    page: &'static str,
    answer: &'static str,
}

const QUESTIONS: [Question; 13] = [
    Question {
        question: "What do I need to install it, and how long does it compile?",
        link: "Install",
        page: "docs/install.md",
        answer: "3 to 6 minutes",
    },
    Question {
        question: "Does my service answer 99 % of 500 requests a second in time?",
        link: "Recipes",
        page: "docs/recipes.md",
        answer: "--rate 500 --for 30s",
    },
    Question {
        question: "My trial is not valid because of `neighbours`. What now?",
        link: "Troubleshooting",
        page: "docs/troubleshooting.md",
        answer: "### `neighbours`",
    },
    Question {
        question: "How long does a study take, and what does it download?",
        link: "Studies that ship",
        page: "docs/shipped-studies.md",
        answer: "| `kv-stores` |",
    },
    Question {
        question: "Which tool should I use instead?",
        link: "Alternatives",
        page: "docs/alternatives.md",
        answer: "## k6",
    },
    Question {
        question: "Which options does etcd take?",
        link: "Systems and their options",
        page: "docs/systems.md",
        answer: "## etcd",
    },
    Question {
        question: "How do I stop a merge that makes my service slower?",
        link: "CI",
        page: "docs/ci.md",
        answer: "bakeoff gate",
    },
    Question {
        question: "What does exit code 7 mean?",
        link: "Commands",
        page: "docs/commands.md",
        answer: "| 7 | compare, gate",
    },
    Question {
        question: "Does a kill prove that a write was on disk?",
        link: "How it measures",
        page: "docs/method/correctness.md",
        answer: "**The kill does not show**",
    },
    Question {
        question: "My first run ended with \"not decided\". What now?",
        link: "Troubleshooting",
        page: "docs/troubleshooting.md",
        answer: "not decided",
    },
    Question {
        question: "How do I make a node fail, and which faults are there?",
        link: "Faults",
        page: "docs/faults.md",
        answer: "kill",
    },
    Question {
        question: "How long is a cluster out when its leader dies?",
        link: "more",
        page: "docs/evidence/outages.md",
        answer: "leader-killed",
    },
    Question {
        question: "What does `schedule lag` mean?",
        link: "Glossary",
        page: "docs/glossary.md",
        answer: "**Schedule lag**",
    },
];

/// A link of a page.
struct Link<'a> {
    text: &'a str,
    target: &'a str,
}

/// Source that names all checks of a trial. Each has an entry in the page on troubleshooting.
const CHECKS: &str = "crates/bakeoff-core/src/verdict/name.rs";
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";

/// Returns paths and texts of all documents.
pub(crate) fn pages(root: &Path) -> Vec<(String, String)> {
    let mut files = super::tracked(root);
    files.retain(|(path, _)| is_page(path));
    files
}

/// Checks the documents alone.
///
/// # Errors
/// When there is a violation.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let complaints = complaints(root, &super::tracked(root));
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n  ")) }
}

/// Returns all violations. `files` holds the paths and texts of the checkout.
pub(super) fn complaints(root: &Path, files: &[(String, String)]) -> Vec<String> {
    let pages: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .filter(|(path, _)| is_page(path))
        .collect();
    let text_of = |path: &str| pages.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
    let mut complaints = Vec::new();
    for (path, text) in &pages {
        let broken = |link: &Link<'_>| match resolve(path, link.target) {
            None => false,
            Some((to, anchor)) => {
                let has = |text: &str| anchor.is_empty() || anchors(text).any(|one| one == anchor);
                !text_of(&to).map_or_else(|| root.join(&to).exists() && anchor.is_empty(), has)
            }
        };
        let broken: Vec<String> = links(text)
            .iter()
            .filter(|link| broken(link))
            .map(|link| format!("{path} has a broken link: {}", link.target))
            .collect();
        complaints.extend(broken);
        complaints.extend(too_long(path, text));
    }
    let linked = |from: &str, text: &str, to: &str| {
        links(text)
            .iter()
            .any(|link| resolve(from, link.target).is_some_and(|(path, _)| path == to))
    };
    if let Some(summary) = text_of(SUMMARY) {
        let missing = pages.iter().filter(|(path, _)| {
            path.starts_with("docs/") && *path != SUMMARY && !linked(SUMMARY, summary, path)
        });
        complaints.extend(missing.map(|(path, _)| format!("{path} is missing in {SUMMARY}")));
    }
    let checks =
        files.iter().find(|(path, _)| path == CHECKS).map_or("", |(_, text)| text.as_str());
    let advice = text_of(TROUBLESHOOTING).unwrap_or_default();
    let missing = check_names(checks).filter(|name| !advice.contains(&format!("### `{name}`\n")));
    complaints.extend(missing.map(|name| format!("{TROUBLESHOOTING} lacks the check `{name}`")));
    if let Some(readme) = text_of("README.md") {
        for Question { question, link, page, answer } in &QUESTIONS {
            let promised = links(readme).into_iter().find(|one| one.text == *link);
            let first = promised.and_then(|one| resolve("README.md", one.target));
            let leads = first.is_some_and(|(first, _)| {
                first == *page || text_of(&first).is_some_and(|text| linked(&first, text, page))
            });
            if !leads {
                complaints.push(format!("README.md: `{link}` does not lead to {page}: {question}"));
            }
            if !text_of(page).is_some_and(|text| text.contains(answer)) {
                complaints.push(format!("{page} lacks `{answer}`: {question}"));
            }
        }
    }
    complaints
}

/// Returns the names of checks in their declaration, of lines such as `Steal = "steal", Machine;`.
fn check_names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" = \"")?;
        let (name, cause) = rest.split_once("\", ")?;
        cause.ends_with(';').then_some(name)
    })
}

/// Returns true for a document: one in `docs/`, or one of the root.
fn is_page(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || ROOT_PAGES.contains(&path))
}

fn too_long(path: &str, text: &str) -> Option<String> {
    let is_generated = REFERENCES.contains(&path) || path.starts_with("docs/record/");
    if is_generated || path == SUMMARY || path == "CHANGELOG.md" {
        return None;
    }
    let (lines, max) = match path {
        "README.md" => {
            (text.lines().take_while(|line| *line != DOCUMENTS).count(), README_LINES_MAX)
        }
        _ => (text.lines().count(), LINES_MAX),
    };
    (lines > max).then(|| format!("{path} has {lines} lines; the limit is {max}"))
}

/// Returns the lines of a page, and true for those of code blocks.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut is_code = false;
    text.lines().map(move |line| {
        is_code ^= line.starts_with("```");
        (line, is_code)
    })
}

/// Returns the links of a page outside of code blocks.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (line, _) in lines(text).filter(|(_, is_code)| !is_code) {
        for (at, _) in line.match_indices("](") {
            let text = line[..at].rsplit('[').next().unwrap_or_default();
            let target = line[at + 2..].split(')').next().unwrap_or_default();
            links.push(Link { text, target });
        }
    }
    links
}

/// Returns the path in the checkout and the anchor that a link leads to; `None` for a link to another site.
pub(crate) fn resolve(page: &str, target: &str) -> Option<(String, String)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => PathBuf::from(page),
        file => Path::new(page).parent().unwrap_or(Path::new("")).join(file),
    };
    Some((normal(&path).to_string_lossy().into_owned(), anchor.to_owned()))
}

/// Returns a path without `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut kept = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = kept.pop(),
            part => kept.push(part),
        }
    }
    kept
}

/// Returns the anchors that GitHub and mdbook give to a page's headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let heading = line.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn broken_links_and_missing_pages_are_reported() {
        let files = [
            page("docs/SUMMARY.md", "- [A](a.md)\n"),
            page(
                "docs/a.md",
                "# A b\n\n[one](#a-b) [two](b.md#x) [three](gone.md)\n```\n[no](no.md)\n```\n",
            ),
            page("docs/b.md", "# B\n"),
        ];
        let found = complaints(Path::new("/nowhere"), &files);
        assert_eq!(
            found,
            [
                "docs/a.md has a broken link: b.md#x",
                "docs/a.md has a broken link: gone.md",
                "docs/b.md is missing in docs/SUMMARY.md",
            ]
        );
    }

    #[test]
    fn long_page_is_reported_unless_it_is_generated() {
        let text = "x\n".repeat(LINES_MAX + 1);
        assert!(too_long("docs/a.md", &text).is_some());
        assert_eq!(too_long("docs/systems.md", &text), None);
        let readme = format!("x\n{DOCUMENTS}\n{}", "- more\n".repeat(90));
        assert_eq!(too_long("README.md", &readme), None);
    }

    #[test]
    fn check_without_advice_is_reported() {
        let declared = "checks! {\n    /// Taken.\n    Steal = \"steal\", Machine;\n}\n";
        let files = [page(CHECKS, declared), page(TROUBLESHOOTING, "### `disk`\n")];
        let found = complaints(Path::new("/nowhere"), &files);
        assert_eq!(found, ["docs/troubleshooting.md lacks the check `steal`"]);
    }

    #[test]
    fn link_leads_out_of_its_folder() {
        let (path, anchor) = resolve("docs/method/a.md", "../b.md#c").unwrap();
        assert_eq!((path.as_str(), anchor.as_str()), ("docs/b.md", "c"));
        assert!(resolve("README.md", "https://example.org/").is_none());
    }
}
