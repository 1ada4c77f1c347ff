//! Packs a program with its pages: an archive to unpack anywhere, and a Debian package.
//!
//! The same files give the same bytes: times are the epoch, all files belong to root, and lists are sorted.
//!
//! Not here: building the program (`wheel`), its pages (`pages`), container images (`oci`).

use flate2::{Compression, GzBuilder};

use super::VERSION;
use crate::oci::header;

/// A file of a package.
#[derive(Debug, Clone)]
pub(super) struct PackageFile {
    /// The path below the package's root: `bin/bakeoff`.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl PackageFile {
    pub(super) fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>, mode: u32) -> Self {
        Self { path: path.into(), bytes: bytes.into(), mode }
    }
}

/// Packs files below a folder as `.tar.gz`. Folders get entries of their own, as dpkg wants them.
pub(super) fn tar_gz(folder: &str, files: &[PackageFile]) -> Vec<u8> {
    let mut named: Vec<(String, &PackageFile)> =
        files.iter().map(|file| (format!("{folder}/{}", file.path), file)).collect();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    let gz = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut tar = tar::Builder::new(gz);
    let mut folders = Vec::new();
    for (path, file) in named {
        let parts = path.match_indices('/').map(|(at, _)| &path[..=at]);
        for parent in parts.filter(|part| *part != "./") {
            if !folders.iter().any(|known| known == parent) {
                let mut header = header(tar::EntryType::Directory, 0, 0o755);
                append(&mut tar, &mut header, parent, &[]);
                folders.push(parent.to_owned());
            }
        }
        let mut header = header(tar::EntryType::Regular, file.bytes.len() as u64, file.mode);
        append(&mut tar, &mut header, &path, &file.bytes);
    }
    let gz = tar.into_inner().expect("a vector takes all bytes");
    gz.finish().expect("a vector takes all bytes")
}

fn append(
    tar: &mut tar::Builder<flate2::write::GzEncoder<Vec<u8>>>,
    header: &mut tar::Header,
    path: &str,
    bytes: &[u8],
) {
    tar.append_data(header, path, bytes).expect("a vector takes all bytes, and paths are short");
}

/// Packs files as a Debian package for a processor: `deb(5)`. The program is static, so the package needs no other.
pub(super) fn deb(processor: &str, files: &[PackageFile]) -> Vec<u8> {
    let kib = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum::<usize>();
    let control = format!(
        "Package: bakeoff\n\
         Version: {VERSION}\n\
         Architecture: {processor}\n\
         Maintainer: bakeoff maintainers <bakeoff@localhost>\n\
         Installed-Size: {kib}\n\
         Section: utils\n\
         Priority: optional\n\
         Description: compares services under load and proves what it says\n \
         bakeoff starts real servers, loads each the same way, checks that\n \
         acknowledged writes survive a crash, and says which one is faster.\n"
    );
    let control = tar_gz(".", &[PackageFile::new("control", control, 0o644)]);
    let placed: Vec<PackageFile> = files
        .iter()
        .map(|file| PackageFile { path: format!("usr/{}", file.path), ..file.clone() })
        .collect();
    let data = tar_gz(".", &placed);
    let members =
        [("debian-binary", b"2.0\n".to_vec()), ("control.tar.gz", control), ("data.tar.gz", data)];
    // `ar(5)`: a header of 60 characters before each member, and an even length.
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, bytes.len());
        archive.extend(header.into_bytes());
        archive.extend(&bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn files() -> Vec<PackageFile> {
        vec![
            PackageFile::new("share/man/man1/bakeoff.1", "page", 0o644),
            PackageFile::new("bin/bakeoff", "program", 0o755),
        ]
    }

    fn listed(packed: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed));
        let entries = archive.entries().unwrap().map(Result::unwrap);
        entries.map(|entry| entry.path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn archive_holds_folders_before_their_files_in_order() {
        let packed = tar_gz("bakeoff-1", &files());
        let expected = [
            "bakeoff-1/",
            "bakeoff-1/bin/",
            "bakeoff-1/bin/bakeoff",
            "bakeoff-1/share/",
            "bakeoff-1/share/man/",
            "bakeoff-1/share/man/man1/",
            "bakeoff-1/share/man/man1/bakeoff.1",
        ];
        assert_eq!(listed(&packed), expected);
        let turned: Vec<PackageFile> = files().into_iter().rev().collect();
        assert_eq!(packed, tar_gz("bakeoff-1", &turned), "the order of the list is irrelevant");
    }

    #[test]
    fn debian_package_has_its_three_members() {
        let package = deb("amd64", &files());
        let mut rest = package.strip_prefix(b"!<arch>\n").unwrap();
        let mut members = Vec::new();
        while !rest.is_empty() {
            let (header, behind) = rest.split_at(60);
            let header = std::str::from_utf8(header).unwrap();
            let size: usize = header[48..58].trim().parse().unwrap();
            members.push((header[..16].trim().to_owned(), behind[..size].to_vec()));
            rest = &behind[size.next_multiple_of(2)..];
        }
        let names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
        assert!(listed(&members[2].1).contains(&"usr/bin/bakeoff".to_owned()));
        let mut control = String::new();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&members[1].1[..]));
        let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
        entry.read_to_string(&mut control).unwrap();
        assert!(control.contains("Architecture: amd64\n"), "{control}");
    }
}
