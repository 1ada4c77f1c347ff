//! Writes OCI images without a daemon, as a folder in the image layout or as a tar of it.
//!
//! An image has one layer. It is compressed if the image is for distribution, but not if this machine reads it at
//! once. All times in it are fixed, so that equal files give equal digests.
//!
//! Formats: OCI Image Format Specification 1.0, `image-layout.md`, `manifest.md` and `config.md`.
//!
//! Not here: the contents of images, and their users.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek as _, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const LAYER_PACKED: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Digest of an image's manifest: `sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest(String);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Form and path of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout<'a> {
    /// A folder, created if missing, with `oci-layout`, `index.json` and `blobs/`.
    Folder(&'a Path),
    /// A tar of such a folder, for `ctr images import` and `docker load`.
    Tar(&'a Path),
}

/// Reason why an image was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("cannot write the image in `{0}`: {1}")]
    File(PathBuf, io::Error),
    /// The path is empty, has `..`, or has more than one leading slash.
    #[error("`{0}` is not a valid path in an image")]
    Path(String),
}

/// Settings of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// Full name: `localhost/bakeoff:0.1.0`.
    pub(crate) name: &'a str,
    pub(crate) entrypoint: &'a [&'a str],
    /// User and group: `65534:65534`.
    pub(crate) user: &'a str,
    pub(crate) folder: &'a str,
    pub(crate) env: &'a [&'a str],
    pub(crate) labels: &'a [(&'a str, &'a str)],
    /// Processor in OCI's terms: `amd64`.
    pub(crate) architecture: &'a str,
    /// True to compress the layer.
    pub(crate) packed: bool,
}

impl<'a> Settings<'a> {
    /// Returns the settings of an image for this machine.
    pub(crate) fn here(name: &'a str, entrypoint: &'a [&'a str], user: &'a str) -> Self {
        Self {
            name,
            entrypoint,
            user,
            folder: "/",
            env: &["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            labels: &[],
            architecture: architecture(),
            packed: false,
        }
    }
}

/// Writes an image of a few files: `(path in the image, bytes, mode)`. Adds their folders and `/tmp`.
///
/// # Errors
/// When a path is invalid, or a file cannot be written.
pub(crate) fn write_image(
    out: Layout<'_>,
    name: &str,
    files: &[(&str, &[u8], u32)],
    entrypoint: &[&str],
    user: &str,
) -> Result<Digest, ImageError> {
    write_image_of(out, &Settings::here(name, entrypoint, user), files)
}

/// Writes an image of a few files, with these settings.
///
/// # Errors
/// When a path is invalid, or a file cannot be written.
pub(crate) fn write_image_of(
    out: Layout<'_>,
    settings: &Settings<'_>,
    files: &[(&str, &[u8], u32)],
) -> Result<Digest, ImageError> {
    let mut layer = Layer::new(out)?;
    for (path, bytes, mode) in files {
        layer.file(path, bytes, *mode)?;
    }
    layer.finish(out, settings)
}

/// Writes an image of everything below a folder, keeping links. All files belong to root.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn write_tree_image(
    out: Layout<'_>,
    name: &str,
    tree: &Path,
    entrypoint: &[&str],
    user: &str,
) -> Result<Digest, ImageError> {
    let mut layer = Layer::new(out)?;
    layer.tree(tree)?;
    layer.finish(out, &Settings::here(name, entrypoint, user))
}

/// A layer, written into an unnamed file next to the image.
struct Layer {
    tar: tar::Builder<BufWriter<File>>,
    folders: BTreeSet<PathBuf>,
    place: PathBuf,
}

impl Layer {
    fn new(out: Layout<'_>) -> Result<Self, ImageError> {
        let (Layout::Folder(place) | Layout::Tar(place)) = out;
        let file = adjacent(out).map_err(|error| ImageError::File(place.to_owned(), error))?;
        let mut tar = tar::Builder::new(BufWriter::new(file));
        tar.follow_symlinks(false);
        tar.mode(tar::HeaderMode::Deterministic);
        let mut layer = Self { tar, folders: BTreeSet::new(), place: place.to_owned() };
        layer.folder(Path::new("tmp"), 0o1777)?;
        Ok(layer)
    }

    fn cannot(&self) -> impl FnOnce(io::Error) -> ImageError + use<> {
        let place = self.place.clone();
        move |error| ImageError::File(place, error)
    }

    fn folder(&mut self, path: &Path, mode: u32) -> Result<(), ImageError> {
        if path.as_os_str().is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent, 0o755)?;
        }
        let mut header = header(tar::EntryType::Directory, 0, mode);
        self.tar.append_data(&mut header, path, io::empty()).map_err(self.cannot())?;
        self.folders.insert(path.to_owned());
        Ok(())
    }

    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) -> Result<(), ImageError> {
        let inside = Path::new(path.strip_prefix('/').unwrap_or(path));
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if inside.as_os_str().is_empty() || !inside.components().all(is_plain) {
            return Err(ImageError::Path(path.to_owned()));
        }
        if let Some(parent) = inside.parent() {
            self.folder(parent, 0o755)?;
        }
        let mut header = header(tar::EntryType::Regular, bytes.len() as u64, mode);
        self.tar.append_data(&mut header, inside, bytes).map_err(self.cannot())
    }

    fn tree(&mut self, tree: &Path) -> Result<(), ImageError> {
        let mut waiting = vec![PathBuf::new()];
        while let Some(folder) = waiting.pop() {
            let from = tree.join(&folder);
            let cannot = |error| ImageError::File(from.clone(), error);
            let mut items: Vec<_> =
                fs::read_dir(&from).map_err(cannot)?.collect::<Result<_, _>>().map_err(cannot)?;
            items.sort_by_key(fs::DirEntry::file_name);
            for item in items {
                let inside = folder.join(item.file_name());
                let cannot = |error| ImageError::File(item.path(), error);
                let kind = item.file_type().map_err(cannot)?;
                if kind.is_dir() {
                    self.folder(&inside, 0o755)?;
                    waiting.push(inside);
                } else if kind.is_file() || kind.is_symlink() {
                    self.tar.append_path_with_name(item.path(), &inside).map_err(cannot)?;
                }
            }
        }
        Ok(())
    }

    /// Completes the layer and writes the image.
    fn finish(self, out: Layout<'_>, settings: &Settings<'_>) -> Result<Digest, ImageError> {
        let place = self.place.clone();
        let cannot = |error| ImageError::File(place.clone(), error);
        let written = self.tar.into_inner().and_then(|buffer| Ok(buffer.into_inner()?));
        let mut layer = written.map_err(cannot)?;
        layer.rewind().map_err(cannot)?;
        let (unpacked, mut layer_size) = digest_of(&mut layer).map_err(cannot)?;
        let (mut layer_digest, mut media_type) = (unpacked.clone(), LAYER);
        if settings.packed {
            layer = pack(layer, out).map_err(cannot)?;
            (layer_digest, layer_size) = digest_of(&mut layer).map_err(cannot)?;
            media_type = LAYER_PACKED;
        }
        let labels: serde_json::Map<String, Value> =
            settings.labels.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        let config = Blob::new(&json!({
            "created": EPOCH,
            "architecture": settings.architecture,
            "os": "linux",
            "config": {"Entrypoint": settings.entrypoint, "User": settings.user,
                       "WorkingDir": settings.folder, "Env": settings.env, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [unpacked]},
            "history": [{"created": EPOCH, "created_by": "cargo xtask"}],
        }));
        let manifest = Blob::new(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": config.digest, "size": config.bytes.len()},
            "layers": [{"mediaType": media_type, "digest": layer_digest, "size": layer_size}],
        }));
        // The specification uses the tag, containerd the full name.
        let tag = settings.name.rsplit_once(':').map_or(settings.name, |(_, tag)| tag);
        let index = Blob::new(&json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [{
                "mediaType": MANIFEST,
                "digest": manifest.digest,
                "size": manifest.bytes.len(),
                "platform": {"architecture": settings.architecture, "os": "linux"},
                "annotations": {
                    "io.containerd.image.name": settings.name,
                    "org.opencontainers.image.ref.name": tag,
                },
            }],
        }));
        layer.rewind().map_err(cannot)?;
        let mut writer = Writer::new(out).map_err(cannot)?;
        let mut write = || -> io::Result<()> {
            writer.add("oci-layout", LAYOUT.len() as u64, &mut LAYOUT.as_bytes())?;
            writer.add("index.json", index.bytes.len() as u64, &mut index.bytes.as_slice())?;
            writer.add(&blob(&layer_digest), layer_size, &mut layer)?;
            for made in [&config, &manifest] {
                let size = made.bytes.len() as u64;
                writer.add(&blob(&made.digest), size, &mut made.bytes.as_slice())?;
            }
            Ok(())
        };
        write().and_then(|()| writer.end()).map_err(cannot)?;
        Ok(Digest(manifest.digest))
    }
}

/// A JSON document of an image.
struct Blob {
    bytes: Vec<u8>,
    digest: String,
}

impl Blob {
    fn new(value: &Value) -> Self {
        let bytes = value.to_string().into_bytes();
        let digest = named(&Sha256::digest(&bytes));
        Self { bytes, digest }
    }
}

/// Writer for the folder or the tar of an image.
enum Writer {
    Folder(PathBuf),
    Tar(Box<tar::Builder<BufWriter<File>>>),
}

impl Writer {
    fn new(out: Layout<'_>) -> io::Result<Self> {
        match out {
            Layout::Folder(path) => {
                fs::create_dir_all(path.join("blobs/sha256"))?;
                Ok(Self::Folder(path.to_owned()))
            }
            Layout::Tar(path) => {
                let file = BufWriter::new(File::create(path)?);
                Ok(Self::Tar(Box::new(tar::Builder::new(file))))
            }
        }
    }

    fn add(&mut self, name: &str, size: u64, bytes: &mut dyn Read) -> io::Result<()> {
        match self {
            Self::Folder(folder) => {
                io::copy(bytes, &mut File::create(folder.join(name))?).map(drop)
            }
            Self::Tar(tar) => {
                let mut header = header(tar::EntryType::Regular, size, 0o644);
                tar.append_data(&mut header, name, bytes)
            }
        }
    }

    fn end(self) -> io::Result<()> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::Tar(tar) => tar.into_inner()?.flush(),
        }
    }
}

/// Compresses a layer into another unnamed file.
fn pack(mut layer: File, out: Layout<'_>) -> io::Result<File> {
    layer.rewind()?;
    let mut packed = GzEncoder::new(BufWriter::new(adjacent(out)?), Compression::best());
    io::copy(&mut layer, &mut packed)?;
    let mut packed = packed.finish()?.into_inner()?;
    packed.rewind()?;
    Ok(packed)
}

/// Creates an unnamed file next to an image.
fn adjacent(out: Layout<'_>) -> io::Result<File> {
    let (Layout::Folder(place) | Layout::Tar(place)) = out;
    let folder = place.parent().filter(|parent| !parent.as_os_str().is_empty());
    tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))
}

pub(crate) fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn named(hash: &[u8]) -> String {
    format!("sha256:{}", hex(hash))
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 hash in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn digest_of(file: &mut File) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((named(&hash.finalize()), size));
        }
        hash.update(&buffer[..count]);
        size += count as u64;
    }
}

/// Returns this machine's processor in OCI's terms.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &[u8], u32)] =
        &[("/usr/bin/tool", b"a tool", 0o755), ("etc/passwd", b"root", 0o644)];

    fn read(folder: &Path, digest: &str) -> Value {
        let bytes = fs::read(folder.join(blob(digest))).unwrap();
        assert_eq!(named(&Sha256::digest(&bytes)), digest);
        serde_json::from_slice(&bytes).unwrap()
    }

    fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
        value.pointer(pointer).and_then(Value::as_str).unwrap()
    }

    #[test]
    fn index_leads_to_files_by_digests() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("image");
        let out = Layout::Folder(&folder);
        let digest = write_image(out, "localhost/x:1", FILES, &["/usr/bin/tool"], "1:1").unwrap();
        let index = fs::read(folder.join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        assert_eq!(text(&index, "/manifests/0/digest"), digest.to_string());
        let manifest = read(&folder, &digest.to_string());
        let config = read(&folder, text(&manifest, "/config/digest"));
        assert_eq!(text(&config, "/config/User"), "1:1");
        assert_eq!(text(&config, "/config/Entrypoint/0"), "/usr/bin/tool");
        let layer = text(&manifest, "/layers/0/digest");
        assert_eq!(text(&config, "/rootfs/diff_ids/0"), layer);
        let layer = fs::read(folder.join(blob(layer))).unwrap();
        let mut layer = tar::Archive::new(layer.as_slice());
        let entries = layer.entries().unwrap().map(Result::unwrap);
        let found: Vec<_> = entries
            .map(|entry| {
                (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap())
            })
            .collect();
        let path = |(path, mode): &(String, u32)| format!("{path} {mode:o}");
        let found: Vec<_> = found.iter().map(path).collect();
        let expected =
            ["tmp 1777", "usr 755", "usr/bin 755", "usr/bin/tool 755", "etc 755", "etc/passwd 644"];
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_files_give_equal_digests_as_folder_and_tar() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("image"), dir.path().join("image.tar"));
        let write = |out| write_image(out, "localhost/x:1", FILES, &["/x"], "1:1").unwrap();
        let digest = write(Layout::Folder(&folder));
        assert_eq!(digest, write(Layout::Tar(&file)));
        let mut archive = tar::Archive::new(File::open(&file).unwrap());
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            assert_eq!(fs::read(folder.join(entry.path().unwrap())).unwrap(), bytes);
        }
        let other = [("x", &b"another"[..], 0o644)];
        let out = Layout::Folder(&folder);
        assert_ne!(digest, write_image(out, "localhost/x:1", &other, &["/x"], "1:1").unwrap());
    }

    #[test]
    fn compressed_layer_is_listed_with_both_hashes() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, plain) = (dir.path().join("packed"), dir.path().join("plain"));
        let settings = Settings::here("localhost/x:1", &["/x"], "1:1");
        write_image_of(Layout::Folder(&plain), &settings, FILES).unwrap();
        let settings = Settings { packed: true, ..settings };
        let digest = write_image_of(Layout::Folder(&folder), &settings, FILES).unwrap();
        let manifest = read(&folder, &digest.to_string());
        assert!(text(&manifest, "/layers/0/mediaType").ends_with("+gzip"));
        let layer = fs::read(folder.join(blob(text(&manifest, "/layers/0/digest")))).unwrap();
        assert_eq!(named(&Sha256::digest(&layer)), text(&manifest, "/layers/0/digest"));
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&layer[..]).read_to_end(&mut unpacked).unwrap();
        let config = read(&folder, text(&manifest, "/config/digest"));
        let unpacked = named(&Sha256::digest(&unpacked));
        assert_eq!(text(&config, "/rootfs/diff_ids/0"), unpacked);
        assert!(plain.join(blob(&unpacked)).is_file(), "the same layer as without compression");
    }

    #[test]
    fn path_outside_of_the_image_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image.tar");
        for path in ["../x", "/a/../../x", "", "/", "//x"] {
            let files = [(path, &b"x"[..], 0o644)];
            let made = write_image(Layout::Tar(&file), "localhost/x:1", &files, &["/x"], "1:1");
            assert!(matches!(made, Err(ImageError::Path(_))), "{path}");
        }
    }

    #[test]
    fn links_of_a_tree_stay_links() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        std::os::unix::fs::symlink("usr/bin", tree.join("bin")).unwrap();
        fs::write(tree.join("usr/bin/sh"), "a shell").unwrap();
        let folder = dir.path().join("image");
        let out = Layout::Folder(&folder);
        let digest = write_tree_image(out, "localhost/x:1", &tree, &["/bin/sh"], "1:1").unwrap();
        let manifest = read(&folder, &digest.to_string());
        let layer = fs::read(folder.join(blob(text(&manifest, "/layers/0/digest")))).unwrap();
        let mut layer = tar::Archive::new(layer.as_slice());
        let link = layer.entries().unwrap().map(Result::unwrap).find_map(|entry| {
            entry
                .link_name()
                .unwrap()
                .map(|target| (entry.path().unwrap().into_owned(), target.into_owned()))
        });
        assert_eq!(link, Some(("bin".into(), "usr/bin".into())));
    }
}
