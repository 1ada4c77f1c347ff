//! Builds bakeoff's image: the program, an unprivileged user, and a writable folder.
//!
//! Not here: the format of images (`crate::oci`), building the program (`dist`), running the image (`dist::check`).

use std::fs;
use std::path::Path;

use crate::Failure;
use crate::oci::{Layout, Settings, write_image_of};

/// User and group of the program: the id of `nobody` on most systems.
pub(crate) const USER: u64 = 65534;

/// Writes an image of a static x86-64 program as a folder, which is replaced, and as an archive for `ctr images
/// import` and `podman load`. Returns the manifest's digest.
pub(crate) fn write(
    program: &Path,
    version: &str,
    folder: &Path,
    archive: &Path,
) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    let bytes = fs::read(program)
        .map_err(|error| format!("cannot read `{}`: {error}", program.display()))?;
    let passwd = format!("root:x:0:0::/:/bakeoff\nbakeoff:x:{USER}:{USER}::/tmp:/bakeoff\n");
    let files = [("/bakeoff", &bytes[..], 0o755), ("/etc/passwd", passwd.as_bytes(), 0o644)];
    let (name, user) = (format!("localhost/bakeoff:{version}"), format!("{USER}:{USER}"));
    // The program writes only to `/tmp`: the rest of a container is often read-only.
    let settings = Settings {
        folder: "/tmp",
        env: &["HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin:/"],
        labels: &[
            ("org.opencontainers.image.title", "bakeoff"),
            ("org.opencontainers.image.version", version),
            ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
        ],
        architecture: "amd64",
        packed: true,
        ..Settings::here(&name, &["/bakeoff"], &user)
    };
    let write = |out| write_image_of(out, &settings, &files).map_err(|error| error.to_string());
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
        let program = dir.path().join("program");
        let (folder, archive) = (dir.path().join("oci"), dir.path().join("oci.tar"));
        let written = |bytes: &[u8]| {
            fs::write(&program, bytes).unwrap();
            let digest = write(&program, "1.2.3", &folder, &archive).unwrap();
            (digest, fs::read(&archive).unwrap())
        };
        let first = written(b"a program");
        let other = written(b"another");
        assert_ne!(first.0, other.0);
        // The result must not depend on the file's time.
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert_eq!(first, written(b"a program"));
        let blobs = fs::read_dir(folder.join("blobs/sha256")).unwrap().count();
        assert_eq!(blobs, 3, "nothing of the image before is left");
        let text = String::from_utf8_lossy(&first.1).into_owned();
        assert!(text.contains("65534:65534") && text.contains("localhost/bakeoff:1.2.3"));
    }
}
