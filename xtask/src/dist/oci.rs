//! Writes a program as an OCI image: a layout in a folder, and the same as an archive.
//!
//! An image is a few JSON files and a tar, each named by its hash. Writing them takes no daemon and no root. Every
//! time is the epoch and every list has one order, so that the same program gives the same digests.
//!
//! Formats: OCI Image Format Specification 1.0, `image-layout.md`, `manifest.md` and `config.md`.
//!
//! Not here: building the program (`dist`), running the image (`dist::check`).

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::Failure;

/// The user and group that the program runs as: `nobody`'s number on most systems.
pub(crate) const USER: u64 = 65534;

const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// An image of one program that needs no library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'a> {
    /// The static program; it becomes `/bakeoff`.
    pub(crate) program: &'a Path,
    pub(crate) version: &'a str,
    /// The processor, as Go names it: `amd64`.
    pub(crate) architecture: &'a str,
    /// The whole name: `localhost/bakeoff:0.1.0`.
    pub(crate) name: &'a str,
}

/// Writes the image's layout to `folder`, which is made anew, and returns the manifest's digest.
pub(crate) fn write_image(image: &Image<'_>, folder: &Path) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(cannot)?;
    let keep = |media_type: &str, bytes: &[u8]| {
        let hash = sha256(bytes);
        fs::write(blobs.join(&hash), bytes).map_err(cannot)?;
        Ok::<_, Failure>(json!({
            "mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len(),
        }))
    };
    let program = fs::read(image.program)
        .map_err(|error| format!("cannot read `{}`: {error}", image.program.display()))?;
    let tar = layer(&program).map_err(|error| format!("cannot make a layer: {error}"))?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(&tar).and_then(|()| packed.finish());
    let packed = packed.map_err(|error| format!("cannot compress a layer: {error}"))?;
    let layer = keep(LAYER_TYPE, &packed)?;
    let config = keep(CONFIG_TYPE, &bytes(&config(image, &sha256(&tar))))?;
    let manifest = keep(
        MANIFEST_TYPE,
        &bytes(&json!({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": [layer],
        })),
    )?;
    let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
    let index = index(manifest, image);
    fs::write(folder.join("index.json"), bytes(&index)).map_err(cannot)?;
    fs::write(folder.join("oci-layout"), bytes(&json!({"imageLayoutVersion": "1.0.0"})))
        .map_err(cannot)?;
    Ok(digest)
}

/// Writes a layout as the one file that `ctr images import` and `podman load` read.
pub(crate) fn write_archive(folder: &Path, file: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", file.display());
    let mut tar = Tar::new();
    for name in ["blobs/", "blobs/sha256/"] {
        tar.folder(name, 0o755).map_err(cannot)?;
    }
    let blobs = fs::read_dir(folder.join("blobs/sha256")).map_err(cannot)?;
    let mut names: Vec<String> = blobs
        .flatten()
        .map(|blob| format!("blobs/sha256/{}", blob.file_name().to_string_lossy()))
        .collect();
    names.sort();
    names.extend(["index.json".to_owned(), "oci-layout".to_owned()]);
    for name in names {
        let content = fs::read(folder.join(&name)).map_err(cannot)?;
        tar.file(&name, 0o644, &content).map_err(cannot)?;
    }
    fs::write(file, tar.finish().map_err(cannot)?).map_err(cannot)
}

/// The layer before compression. Folders and files stand in alphabetical order.
fn layer(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut tar = Tar::new();
    tar.file("bakeoff", 0o755, program)?;
    tar.folder("etc/", 0o755)?;
    let passwd = format!("root:x:0:0::/:/bakeoff\nbakeoff:x:{USER}:{USER}::/tmp:/bakeoff\n");
    tar.file("etc/passwd", 0o644, passwd.as_bytes())?;
    tar.folder("tmp/", 0o1777)?;
    tar.finish()
}

/// How the program is started. It writes to `/tmp` alone: the rest of an image is often read-only.
fn config(image: &Image<'_>, layer: &str) -> Value {
    json!({
        "created": EPOCH,
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin:/"],
            "Entrypoint": ["/bakeoff"],
            "WorkingDir": "/tmp",
            "Labels": {
                "org.opencontainers.image.title": "bakeoff",
                "org.opencontainers.image.version": image.version,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": EPOCH, "created_by": "cargo xtask dist"}],
    })
}

/// Names the one manifest: the tag for those who follow the specification, the whole name for containerd.
fn index(mut manifest: Value, image: &Image<'_>) -> Value {
    let tag = image.name.rsplit_once(':').map_or(image.version, |(_, tag)| tag);
    manifest["platform"] = json!({"architecture": image.architecture, "os": "linux"});
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": tag, "io.containerd.image.name": image.name,
    });
    json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [manifest]})
}

/// The keys come out in alphabetical order, as `serde_json` keeps them sorted.
fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Returns the hash in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A tar in memory whose entries differ in name, mode and content alone.
struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn folder(&mut self, name: &str, mode: u32) -> std::io::Result<()> {
        self.entry(tar::EntryType::Directory, name, mode, &[])
    }

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> std::io::Result<()> {
        self.entry(tar::EntryType::Regular, name, mode, content)
    }

    fn entry(
        &mut self,
        kind: tar::EntryType,
        name: &str,
        mode: u32,
        content: &[u8],
    ) -> std::io::Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        self.0.append_data(&mut header, name, content)
    }

    fn finish(self) -> std::io::Result<Vec<u8>> {
        self.0.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn written(at: &Path, program: &[u8]) -> String {
        fs::write(at.join("program"), program).unwrap();
        let image = Image {
            program: &at.join("program"),
            version: "1.2.3",
            architecture: "amd64",
            name: "localhost/bakeoff:1.2.3",
        };
        let digest = write_image(&image, &at.join("oci")).unwrap();
        write_archive(&at.join("oci"), &at.join("oci.tar")).unwrap();
        digest
    }

    /// Reads the blob that a descriptor names, and checks its hash and its size.
    fn blob(folder: &Path, descriptor: &Value) -> Vec<u8> {
        let hash = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = fs::read(folder.join("blobs/sha256").join(hash)).unwrap();
        assert_eq!(
            (sha256(&bytes).as_str(), json!(bytes.len())),
            (hash, descriptor["size"].clone())
        );
        bytes
    }

    fn read(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn image_holds_what_its_index_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let digest = written(dir.path(), b"a program");
        let folder = dir.path().join("oci");
        let index = read(&fs::read(folder.join("index.json")).unwrap());
        assert_eq!(index["manifests"][0]["digest"], digest);
        let manifest = read(&blob(&folder, &index["manifests"][0]));
        let config = read(&blob(&folder, &manifest["config"]));
        assert_eq!(config["config"]["User"], "65534:65534");
        let mut tar = Vec::new();
        let packed = blob(&folder, &manifest["layers"][0]);
        GzDecoder::new(&packed[..]).read_to_end(&mut tar).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&tar))]));
        let mut entries = BTreeMap::new();
        for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let name = entry.path().unwrap().display().to_string();
            entries.insert(name, (entry.header().mode().unwrap(), content));
        }
        assert_eq!(entries["bakeoff"], (0o755, "a program".to_owned()));
        assert_eq!(entries["tmp/"].0, 0o1777);
        assert!(entries["etc/passwd"].1.contains(":65534:65534:"), "{entries:?}");
    }

    #[test]
    fn same_program_gives_the_same_bytes_and_another_does_not() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [one, again, other] = dirs.each_ref().map(tempfile::TempDir::path);
        let first = written(one, b"a program");
        // Whatever the umask and the time of the file.
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert_eq!(first, written(again, b"a program"));
        let archive = |at: &Path| fs::read(at.join("oci.tar")).unwrap();
        assert_eq!(archive(one), archive(again));
        assert_ne!(first, written(other, b"another"));
    }
}
