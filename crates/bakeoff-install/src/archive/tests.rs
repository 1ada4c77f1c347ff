//! Fetches valid and invalid release archives from a server on loopback.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::Host;
use crate::testing::{Answer, Site, machine, sha256, sha512, tar_gz, zip};
use crate::tool::Watcher;

const RELEASE: Release<'_> = Release {
    url: "https://example.invalid/dl/v{version}/tool-{version}.tar.gz",
    packager: None,
    checksums: "https://example.invalid/dl/v{version}/SUMS",
    algorithm: Algorithm::Sha256,
    member: Member::File("tool-{version}/tool"),
    versions: &["1.2.3"],
    pins: &[],
};
const ARCHIVE: &str = "/dl/v1.2.3/tool-1.2.3.tar.gz";
const SUMS: &str = "/dl/v1.2.3/SUMS";
const QUICK: Limits = Limits {
    connect: Duration::from_millis(500),
    silence: Duration::from_millis(500),
    total: Duration::from_secs(20),
    size_bytes: 1 << 20,
};

/// Fetches from the site. Returns the result with the text of its first file, or the error.
fn fetch_from(
    site: &Site,
    release: Release<'_>,
    stop: &AtomicBool,
) -> Result<(FetchedFiles, String), String> {
    fetch_on(site, release, stop, |host| host)
}

/// Fetches as [`fetch_from`], on a machine that `differing` changes. Its mirror and publisher are the site.
fn fetch_on(
    site: &Site,
    release: Release<'_>,
    stop: &AtomicBool,
    differing: impl FnOnce(Host) -> Host,
) -> Result<(FetchedFiles, String), String> {
    let dir = tempfile::tempdir().unwrap();
    let (scratch, tree) = (dir.path().join("scratch"), dir.path().join("tree"));
    fs::create_dir(&scratch).unwrap();
    fs::create_dir(&tree).unwrap();
    let host = differing(machine(dir.path(), Some(&site.url)));
    let mut watcher = Watcher { progress: &mut |_| {}, stop };
    let mut job = Job {
        system: "tool",
        executable: Some("tool"),
        wanted: None,
        host: &host,
        scratch: &scratch,
        tree: &tree,
        log: dir.path(),
        watcher: &mut watcher,
    };
    let fetched = fetch(&mut job, release, QUICK).map_err(|e| e.to_string())?;
    let text = fs::read_to_string(tree.join(&fetched.files[0])).unwrap();
    Ok((fetched, text))
}

fn served(archive: Answer, sums: &str) -> Site {
    Site::serving(vec![(ARCHIVE, archive), (SUMS, Answer::Body(sums.into()))])
}

fn refused(archive: Answer, sums: &str, release: Release<'_>) -> String {
    fetch_from(&served(archive, sums), release, &AtomicBool::new(false)).unwrap_err()
}

fn good() -> Vec<u8> {
    tar_gz(&[("./tool-1.2.3/README", "read"), ("./tool-1.2.3/tool", "the tool")])
}

fn sums_of(bytes: &[u8]) -> String {
    format!("{}  other.tar.gz\n{} *tool-1.2.3.tar.gz\n", sha256(b"other"), sha256(bytes))
}

#[test]
fn valid_archive_is_checked_and_its_program_extracted() {
    let site = served(Answer::Body(good()), &sums_of(&good()));
    let (fetched, text) = fetch_from(&site, RELEASE, &AtomicBool::new(false)).unwrap();
    assert_eq!(text, "the tool");
    assert_eq!(fetched.files, [Path::new("bin/tool")]);
    assert_eq!(fetched.version, "1.2.3");
    assert!(
        fetched.source.contains(&sha256(&good())) && fetched.source.contains(&site.url),
        "{}",
        fetched.source
    );
}

#[test]
fn program_is_extracted_from_a_zip() {
    let bytes = zip(&[("LICENSE", "x"), ("tool", "zipped")]);
    let path = "/tool-1.2.3.zip";
    let sums = format!("{}  tool-1.2.3.zip\n", sha256(&bytes));
    let site = Site::serving(vec![(path, Answer::Body(bytes)), ("/S", Answer::Body(sums.into()))]);
    let release = Release {
        url: "https://example.invalid/tool-{version}.zip",
        checksums: "https://example.invalid/S",
        member: Member::File("tool"),
        ..RELEASE
    };
    assert_eq!(fetch_from(&site, release, &AtomicBool::new(false)).unwrap().1, "zipped");
}

#[test]
fn only_jars_of_the_folder_are_extracted_sorted() {
    let bytes = tar_gz(&[
        ("t/lib/b.jar", "b"),
        ("t/lib/a.jar", "a"),
        ("t/lib/x.txt", ""),
        ("t/lib/c/c.jar", "c"),
        ("d.jar", "d"),
    ]);
    let site =
        served(Answer::Body(bytes.clone()), &format!("{}  tool-1.2.3.tar.gz", sha512(&bytes)));
    let release =
        Release { algorithm: Algorithm::Sha512, member: Member::Jars("t/lib"), ..RELEASE };
    let (fetched, _) = fetch_from(&site, release, &AtomicBool::new(false)).unwrap();
    assert_eq!(fetched.files, [Path::new("jars/a.jar"), Path::new("jars/b.jar")]);
}

#[test]
fn wrong_checksum_is_refused() {
    let error = refused(Answer::Body(good()), &sums_of(b"something else"), RELEASE);
    assert!(error.contains("has checksum") && error.contains("as published"), "{error}");
}

#[test]
fn pinned_archive_ignores_published_checksums() {
    let pinned = |checksum: String| {
        let pins = vec![Pin::of_all("1.2.3", Box::leak(checksum.into_boxed_str()))];
        Release { pins: Box::leak(pins.into_boxed_slice()), ..RELEASE }
    };
    let site = Site::serving(vec![(ARCHIVE, Answer::Body(good()))]);
    let right = pinned(sha256(&good()));
    let (fetched, text) = fetch_from(&site, right, &AtomicBool::new(false)).unwrap();
    assert_eq!(text, "the tool");
    assert!(fetched.source.ends_with(", pinned"), "{}", fetched.source);
    assert_eq!(site.asked(), 1, "only the archive");
    // The mirror's own checksum matches its archive, but the pin does not.
    let evil = tar_gz(&[("tool-1.2.3/tool", "evil")]);
    let error = refused(Answer::Body(evil.clone()), &sums_of(&evil), right);
    assert!(error.contains("as pinned") && error.contains(&sha256(&good())), "{error}");
    let others = pinned(sha256(&good()));
    let others = Release { versions: &["1.2.4"], url: RELEASE.url, ..others };
    let error = refused(Answer::Body(good()), "", others);
    assert!(!error.contains("as pinned"), "another version is not pinned: {error}");
}

#[test]
fn unpinned_archive_takes_no_checksum_from_a_mirror() {
    let site = served(Answer::Body(good()), &sums_of(&good()));
    let (fetched, _) = fetch_from(&site, RELEASE, &AtomicBool::new(false)).unwrap();
    assert!(fetched.source.ends_with(", unpinned"), "{}", fetched.source);
    let asked = site.asked();
    let of_a_mirror = |host: Host| Host { publisher: None, ..host };
    let error = fetch_on(&site, RELEASE, &AtomicBool::new(false), of_a_mirror).unwrap_err();
    assert!(error.contains("GET https://example.invalid/dl/v1.2.3/SUMS"), "{error}");
    assert!(error.contains("takes no checksum from a mirror"), "{error}");
    assert_eq!(site.asked(), asked, "the mirror got a request");
}

#[test]
fn archive_without_a_checksum_is_refused() {
    for sums in ["", "nothing", "<html>", "abcd  tool-1.2.3.tar.gz\n"] {
        let error = refused(Answer::Body(good()), sums, RELEASE);
        assert!(error.contains("holds no checksum"), "{error}");
    }
}

#[test]
fn missing_archive_error_has_the_status() {
    let site = Site::serving(vec![(SUMS, Answer::Body(sums_of(&good()).into()))]);
    let error = fetch_from(&site, RELEASE, &AtomicBool::new(false)).unwrap_err();
    assert!(error.contains(ARCHIVE) && error.contains("returned 404"), "{error}");
}

#[test]
fn incomplete_transfer_is_an_error() {
    let error = refused(Answer::Torn(good()), &sums_of(&good()), RELEASE);
    assert!(error.contains("broke off") || error.contains("ended after"), "{error}");
}

#[test]
fn truncated_archive_with_matching_checksum_is_an_error() {
    for keep in [0, 1, 10, 40, good().len() - 9] {
        let bytes = good()[..keep].to_vec();
        let error = refused(Answer::Body(bytes.clone()), &sums_of(&bytes), RELEASE);
        assert!(error.contains("cannot be") || error.contains("holds no"), "{keep}: {error}");
    }
    let whole = zip(&[("tool", "zipped")]);
    let release = Release {
        url: "https://x.invalid/dl/v{version}/t.zip",
        member: Member::File("tool"),
        ..RELEASE
    };
    let bytes = whole[..whole.len() / 2].to_vec();
    let sums = format!("{}  t.zip", sha256(&bytes));
    let site = Site::serving(vec![
        ("/dl/v1.2.3/t.zip", Answer::Body(bytes)),
        (SUMS, Answer::Body(sums.into())),
    ]);
    let error = fetch_from(&site, release, &AtomicBool::new(false)).unwrap_err();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn archive_with_paths_outside_itself_is_refused() {
    for path in ["../../tool-1.2.3/tool", "/tool-1.2.3/tool", "tool-1.2.3/../tool"] {
        let bytes = tar_gz(&[("tool-1.2.3/tool", "the tool"), (path, "evil")]);
        let error = refused(Answer::Body(bytes.clone()), &sums_of(&bytes), RELEASE);
        assert!(error.contains("points outside the archive"), "{path}: {error}");
    }
}

#[test]
fn link_or_duplicate_at_the_programs_path_is_refused() {
    let mut tar =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "tool-1.2.3/tool", "/bin/sh").unwrap();
    let link = tar.into_inner().unwrap().finish().unwrap();
    let error = refused(Answer::Body(link.clone()), &sums_of(&link), RELEASE);
    assert!(error.contains("not a regular file"), "{error}");
    let twice = tar_gz(&[("tool-1.2.3/tool", "one"), ("tool-1.2.3/tool", "two")]);
    let error = refused(Answer::Body(twice.clone()), &sums_of(&twice), RELEASE);
    assert!(error.contains("cannot be unpacked"), "{error}");
}

#[test]
fn silent_server_times_out() {
    for answer in [Answer::Silent, Answer::Stuck(good())] {
        // The server keeps the connection open for a minute, which bounds the test.
        let error = refused(answer, &sums_of(&good()), RELEASE);
        assert!(error.contains("no data for") || error.contains("timeout"), "{error}");
    }
}

#[test]
fn too_large_archive_is_refused_announced_or_not() {
    let large = vec![0; (QUICK.size_bytes + 1) as usize];
    for answer in [Answer::Body(large.clone()), Answer::Endless] {
        let error = refused(answer, &sums_of(&large), RELEASE);
        assert!(error.contains("limit of"), "{error}");
    }
}

#[test]
fn error_names_a_host_that_refuses_connections() {
    // No other test listens on this address, so the port stays closed.
    let closed = std::net::TcpListener::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
    let mut sink = Vec::new();
    let stop = AtomicBool::new(false);
    let mut watcher = Watcher { progress: &mut |_| {}, stop: &stop };
    let error = download(&format!("http://{closed}/x"), true, QUICK, &mut sink, &mut watcher)
        .unwrap_err()
        .to_string();
    assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn https_url_of_a_plain_http_server_is_an_error() {
    let site = Site::serving(vec![("/x", Answer::Body(b"x".to_vec()))]);
    let url = site.url.replacen("http:", "https:", 1) + "/x";
    let stop = AtomicBool::new(false);
    let mut watcher = Watcher { progress: &mut |_| {}, stop: &stop };
    let mut sink = Vec::new();
    let error = download(&url, true, QUICK, &mut sink, &mut watcher).unwrap_err().to_string();
    assert!(error.contains(&url) && !error.contains("unexpectedly"), "{error}");
    assert!(sink.is_empty());
}

#[test]
fn download_can_be_interrupted() {
    let site = served(Answer::Silent, &sums_of(&good()));
    let stop = AtomicBool::new(true);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(fetch_from(&site, RELEASE, &stop).unwrap_err(), "interrupted");
}

#[test]
fn reads_the_checksum_formats_of_projects() {
    let (sum, long) = (sha256(b"x"), sha512(b"x"));
    let cases = [
        (format!("{sum}  a.zip\n"), Algorithm::Sha256, Some(&sum)),
        (format!("{sum} *./dist/a.zip\r\n"), Algorithm::Sha256, Some(&sum)),
        (format!("{}\n", sum.to_uppercase()), Algorithm::Sha256, Some(&sum)),
        (format!("{sum}  b.zip\n"), Algorithm::Sha256, None),
        (format!("{sum}  a.zip\n"), Algorithm::Sha512, None),
        (format!("{long}  a.zip"), Algorithm::Sha512, Some(&long)),
        (format!("{}  a.zip", "é".repeat(32)), Algorithm::Sha256, None),
    ];
    for (list, algorithm, expected) in cases {
        assert_eq!(published(&list, "a.zip", algorithm).as_ref(), expected, "{list}");
    }
    assert_eq!(mirrored("https://a.b/c/d", Some("http://127.0.0.1:1/")), "http://127.0.0.1:1/c/d");
    assert_eq!(mirrored("https://a.b/c/d", None), "https://a.b/c/d");
}

#[test]
fn template_names_the_processor_as_the_project_does() {
    let cases = [
        ("a_{version}_{arch}", "amd64", "a_1.2_amd64"),
        ("a_{version}_{arch:x86_64}", "amd64", "a_1.2_x86_64"),
        ("{arch:x64}/{arch:x86_64}-{arch}", "arm64", "arm64/arm64-arm64"),
        ("a_{arch:x86_64", "amd64", "a_{arch:x86_64"),
        ("{arch:x86_64|arm_64}", "amd64", "x86_64"),
        ("{arch:x86_64|arm_64}", "arm64", "arm_64"),
        ("{arch:x86_64|arm_64}", "riscv64", "riscv64"),
    ];
    for (template, arch, expected) in cases {
        assert_eq!(filled(template, "1.2", arch), expected);
    }
}

#[test]
fn fuzzed_archives_neither_panic_nor_write_outside_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("tree/bin");
    fs::create_dir_all(&into).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, text) in
        [("tool-1/README", "read"), ("./tool-1/tool", "the tool"), ("tool-1/lib/a.jar", "a")]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let zipped = zip(&[("LICENSE", "x"), ("tool-1/tool", "zipped"), ("tool-1/lib/b.jar", "b")]);
    let wanted = [
        MemberSelection::File { path: "tool-1/tool".into(), name: "tool".into() },
        MemberSelection::Jars { dir: "tool-1/lib".into() },
    ];
    let pieces =
        ["../", "/", "tool-1/tool", "ustar  \0", "\0", "PK\u{1}\u{2}", "PK\u{5}\u{6}", "7777777"];
    bakeoff_fuzz::run("archive", &[&tar, &zipped], &pieces, |input| {
        for wanted in &wanted {
            from_tar(input, wanted, &into).ok();
            from_zip(io::Cursor::new(input), wanted, &into).ok();
        }
        for left in fs::read_dir(&into).unwrap().flatten() {
            assert!(left.file_type().unwrap().is_file(), "{left:?}");
            fs::remove_file(left.path()).unwrap();
        }
        // Extracting all members may create folders and links, all inside the tree.
        from_tar(input, &MemberSelection::All, &into).ok();
        from_zip(io::Cursor::new(input), &MemberSelection::All, &into).ok();
        fs::remove_dir_all(&into).unwrap();
        fs::create_dir(&into).unwrap();
    });
    let names = |dir: &Path| {
        fs::read_dir(dir).unwrap().flatten().map(|item| item.file_name()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(dir.path()), names(&dir.path().join("tree"))),
        (vec!["tree".into()], vec!["bin".into()])
    );
}

#[test]
fn fuzzed_lists_of_checksums_cause_no_panic() {
    let list = format!("{}  a.zip\n{} *./dist/b.zip\r\n", sha256(b"x"), sha512(b"y"));
    bakeoff_fuzz::run("checksums", &[list.as_bytes()], &["  a.zip", "\n", "*", "é"], |input| {
        let list = String::from_utf8_lossy(input);
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let found = published(&list, "a.zip", algorithm);
            assert!(found.is_none_or(|sum| sum.len() == algorithm.hex_digits()));
        }
    });
}

#[test]
fn nested_archive_is_fully_unpacked_with_its_links() {
    // A `.tar.xz` with `bin/tool` (text `nested`), `lib/libx.so.1` and a link `lib/libx.so` to it.
    const GOOD: &[u8] = include_bytes!("tests/nested.tar.xz");
    // A `.tar.xz` with a link to `../../out`.
    const OUTWARD: &[u8] = include_bytes!("tests/outward.tar.xz");
    let fetched = |inner: &[u8], executable| {
        let outer = zip_of_bytes("tool-amd64.txz", inner);
        let sums = format!("{}  tool-1.2.3.jar\n", sha256(&outer));
        let site = Site::serving(vec![
            ("/tool-1.2.3.jar", Answer::Body(outer)),
            ("/S", Answer::Body(sums.into())),
        ]);
        let release = Release {
            url: "https://example.invalid/tool-{version}.jar",
            packager: Some("somebody"),
            checksums: "https://example.invalid/S",
            member: Member::Nested { archive: "tool-{arch:amd64|amd64}.txz", executable },
            ..RELEASE
        };
        fetch_from(&site, release, &AtomicBool::new(false))
    };
    let (found, text) = fetched(GOOD, "bin/tool").unwrap();
    assert_eq!((text.as_str(), &*found.files), ("nested\n", &[PathBuf::from("bin/tool")][..]));
    assert!(found.source.starts_with("archive https://example.invalid/tool-1.2.3.jar"));
    assert!(found.source.contains("repackaged by somebody"), "{}", found.source);
    let refused = fetched(GOOD, "bin/other").unwrap_err();
    assert!(refused.contains("holds no `bin/other`"), "{refused}");
    let refused = fetched(OUTWARD, "bin/tool").unwrap_err();
    assert!(refused.contains("points outside the archive"), "{refused}");
    let refused = fetched(&GOOD[..GOOD.len() / 2], "bin/tool").unwrap_err();
    assert!(refused.contains("cannot be read"), "{refused}");
}

fn zip_of_bytes(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut zip = ::zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    zip.start_file(path, ::zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(bytes).unwrap();
    zip.finish().unwrap().into_inner()
}
