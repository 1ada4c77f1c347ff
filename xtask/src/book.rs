//! Makes a site of the documents: `cargo xtask book`.
//!
//! mdbook renders the pages in the order of `docs/SUMMARY.md`, with search. They link to sources and schemas outside of
//! `docs/`, so the site gets copies of these, and works offline from any folder. Nothing is published.
//!
//! Not here: links and anchors of the pages' sources, which are checked first (`tidy::documents`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::peers::fetch::{self, Program};
use super::tidy::documents::{ROOT_PAGES, SUMMARY, lines, normal, pages, resolve};
use super::{Failure, root, run};

/// Version of mdbook that is installed if none is on `PATH`.
const MDBOOK: &str = "0.5.4";

/// Folder of the site and of the pages that it is made of.
const FOLDER: &str = "target/book";

/// Writes the site.
///
/// # Errors
/// When a link of a page or of the site is broken, or mdbook fails.
pub(crate) fn build() -> Result<(), Failure> {
    let root = root();
    super::tidy::documents::check(&root)?;
    let folder = root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| cannot("remove", &folder, &error))?;
    }
    stage(&root, &folder.join("src"))?;
    let mut mdbook = mdbook()?.command();
    // The staged pages are next to the settings, and the site is next to the pages.
    mdbook.env("MDBOOK_BOOK__SRC", "src").env("MDBOOK_BUILD__BUILD_DIR", "html");
    fs::copy(root.join("book.toml"), folder.join("book.toml"))
        .map_err(|error| cannot("copy", &root.join("book.toml"), &error))?;
    mdbook.arg("build").arg(&folder);
    run(mdbook)?;
    let site = folder.join("html");
    let broken = broken(&site)?;
    if !broken.is_empty() {
        return Err(format!(
            "{} broken links in the site:\n  {}",
            broken.len(),
            broken.join("\n  ")
        ));
    }
    println!("{}", site.join("index.html").display());
    Ok(())
}

fn mdbook() -> Result<Program, Failure> {
    match fetch::on_path("mdbook") {
        Some(path) => Ok(Program::at(path, "as installed")),
        None => fetch::from_crate("mdbook", MDBOOK),
    }
}

/// Copies the pages and the files that they link to. Links of the copies lead to copies.
fn stage(root: &Path, to: &Path) -> Result<(), Failure> {
    let mut linked = BTreeSet::new();
    for (path, text) in pages(root) {
        let mut text = relinked(&path, &text, &mut linked);
        if path == SUMMARY {
            text = with_root_pages(&text);
        }
        // HTML of the README.
        text = text.replace("=\"docs/", "=\"");
        write(&to.join(staged(&path)), text.as_bytes())?;
    }
    for extra in ["docs/images/report-dark.png", "docs/images/report-light.png"] {
        linked.insert(extra.to_owned());
    }
    for path in linked.iter().filter(|path| root.join(path).is_file()) {
        let from = root.join(path);
        let bytes = fs::read(&from).map_err(|error| cannot("read", &from, &error))?;
        write(&to.join(staged(path)), &bytes)?;
    }
    Ok(())
}

/// Adds the pages of the root to the table of contents.
fn with_root_pages(summary: &str) -> String {
    let (title, rest) = summary.split_once('\n').unwrap_or((summary, ""));
    let [readme, more @ ..] = ROOT_PAGES;
    let more =
        more.map(|page| format!("[{}]({page})\n", page.trim_end_matches(".md").to_lowercase()));
    format!("{title}\n\n[bakeoff]({readme})\n{rest}\n---\n\n{}", more.join("\n"))
}

/// Returns a file's path in the site's sources.
fn staged(path: &str) -> &str {
    path.strip_prefix("docs/").unwrap_or(path)
}

/// Returns a page whose links lead to staged files. Adds those files to `linked`, unless they are pages.
fn relinked(page: &str, text: &str, linked: &mut BTreeSet<String>) -> String {
    let up = "../".repeat(staged(page).matches('/').count());
    let mut moved = String::new();
    for (line, is_code) in lines(text) {
        let mut rest = line;
        while let Some((before, (target, after))) = rest
            .split_once("](")
            .filter(|_| !is_code)
            .and_then(|(before, after)| Some((before, after.split_once(')')?)))
        {
            let target = match resolve(page, target) {
                None => target.to_owned(),
                Some((path, anchor)) => {
                    let hash = if anchor.is_empty() { "" } else { "#" };
                    // mdbook renders a README as the index of its folder, and follows only the table of contents to it.
                    let file = match staged(&path).strip_suffix("README.md") {
                        Some(folder) if page != SUMMARY => format!("{folder}index.md"),
                        _ => staged(&path).to_owned(),
                    };
                    let target = format!("{up}{file}{hash}{anchor}");
                    if !path.ends_with(".md") {
                        linked.insert(path);
                    }
                    target
                }
            };
            moved.push_str(&format!("{before}]({target})"));
            rest = after;
        }
        moved.push_str(rest);
        moved.push('\n');
    }
    moved
}

/// Returns the links of the site's pages that lead nowhere.
fn broken(site: &Path) -> Result<Vec<String>, Failure> {
    let mut broken = Vec::new();
    let mut files = Vec::new();
    html(site, &mut files)?;
    for (path, text) in &files {
        let folder = path.parent().unwrap_or(site);
        let links = ["href=\"", "src=\""].map(|name| text.split(name).skip(1));
        for link in links.into_iter().flatten().filter_map(|rest| rest.split('"').next()) {
            if link.contains(':') || link.contains('%') {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { path.clone() } else { normal(&folder.join(file)) };
            let page = files.iter().find(|(path, _)| *path == to).map(|(_, text)| text);
            let has_anchor = anchor.is_empty()
                || page.is_some_and(|text| text.contains(&format!("id=\"{anchor}\"")));
            if !to.exists() || !has_anchor {
                broken
                    .push(format!("{}: {link}", path.strip_prefix(site).unwrap_or(path).display()));
            }
        }
    }
    broken.sort();
    broken.dedup();
    Ok(broken)
}

/// Collects the site's pages. `404.html` has absolute links, for a server.
fn html(folder: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).map_err(|error| cannot("read", folder, &error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_page = path.extension().is_some_and(|extension| extension == "html")
            && path.file_name().is_some_and(|name| name != "404.html");
        if path.is_dir() {
            html(&path, files)?;
        } else if is_page {
            let text = fs::read_to_string(&path).map_err(|error| cannot("read", &path, &error))?;
            files.push((path, text));
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|error| cannot("write", path, &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    format!("cannot {what} `{}`: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_staged_pages_lead_to_staged_files() {
        let mut linked = BTreeSet::new();
        let text =
            "[a](../faults.md#x) [b](../../schema/s.json) [c](https://d/)\n```\n[e](f)\n```\n";
        let moved = relinked("docs/method/m.md", text, &mut linked);
        assert_eq!(moved, text.replace("../../schema", "../schema"));
        assert_eq!(linked.into_iter().collect::<Vec<_>>(), ["schema/s.json"]);
        let text = "[a](docs/a.md) [b](docs/b/README.md)\n";
        let moved = relinked("README.md", text, &mut BTreeSet::new());
        assert_eq!(moved, "[a](a.md) [b](b/index.md)\n");
    }

    #[test]
    fn pages_of_the_root_surround_the_table_of_contents() {
        let summary = with_root_pages("# Summary\n\n- [A](a.md)\n");
        assert!(summary.starts_with("# Summary\n\n[bakeoff](README.md)\n\n- [A](a.md)\n"));
        assert!(summary.ends_with("[security](SECURITY.md)\n"), "{summary}");
    }
}
