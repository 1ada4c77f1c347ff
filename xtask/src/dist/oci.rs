//! bakeoff's own image: the program, a user who is nobody, and a folder that it may write to.
//!
//! Not here: the format of images (`crate::oci`), building the program (`dist`), running the image (`dist::check`).

use std::fs;
use std::path::Path;

use super::archive::PackageFile;
use crate::Failure;
use crate::oci::{Layout, Settings, write_image_of};

/// The user and group that the program runs as: `nobody`'s number on most systems.
pub(crate) const USER: u64 = 65534;

/// Writes an image of a static program with its pages: as a folder, which is replaced, and as an archive for `ctr images
/// import` and `podman load`. `files` are below `/usr`. Returns the manifest's digest.
pub(super) fn write(
    files: &[PackageFile],
    processor: &str,
    version: &str,
    folder: &Path,
    archive: &Path,
) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    let passwd = format!("root:x:0:0::/:/bakeoff\nbakeoff:x:{USER}:{USER}::/tmp:/bakeoff\n");
    let placed = |file: &PackageFile| match &*file.path {
        "bin/bakeoff" => "/bakeoff".to_owned(),
        path => format!("/usr/{path}"),
    };
    let paths: Vec<String> = files.iter().map(placed).collect();
    let mut entries: Vec<(&str, &[u8], u32)> =
        paths.iter().zip(files).map(|(path, file)| (&**path, &*file.bytes, file.mode)).collect();
    entries.push(("/etc/passwd", passwd.as_bytes(), 0o644));
    let (name, user) = (format!("localhost/bakeoff:{version}"), format!("{USER}:{USER}"));
    // It writes to `/tmp` alone: the rest of an image is often read-only.
    let settings = Settings {
        folder: "/tmp",
        env: &["HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin:/"],
        labels: &[
            ("org.opencontainers.image.title", "bakeoff"),
            ("org.opencontainers.image.version", version),
            ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
        ],
        architecture: processor,
        packed: true,
        ..Settings::here(&name, &["/bakeoff"], &user)
    };
    let write = |out| write_image_of(out, &settings, &entries).map_err(|error| error.to_string());
    let digest = write(Layout::Folder(folder))?;
    write(Layout::Tar(archive))?;
    Ok(digest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_program_gives_the_same_bytes_and_another_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, archive) = (dir.path().join("oci"), dir.path().join("oci.tar"));
        let written = |bytes: &[u8]| {
            let files = [PackageFile::new("bin/bakeoff", bytes, 0o755)];
            let digest = write(&files, "amd64", "1.2.3", &folder, &archive).unwrap();
            (digest, fs::read(&archive).unwrap())
        };
        let first = written(b"a program");
        let other = written(b"another");
        assert_ne!(first.0, other.0);
        assert_eq!(first, written(b"a program"));
        let blobs = fs::read_dir(folder.join("blobs/sha256")).unwrap().count();
        assert_eq!(blobs, 3, "nothing of the image before is left");
        let text = String::from_utf8_lossy(&first.1).into_owned();
        assert!(text.contains("65534:65534") && text.contains("localhost/bakeoff:1.2.3"));
    }
}
