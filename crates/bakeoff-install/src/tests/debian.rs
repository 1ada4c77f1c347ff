//! Installs Debian packages, on invented machines and on this one.

use super::*;

/// An `apt-cache` with one series of a server and two libraries.
const APT_CACHE: &str = r#"#!/bin/sh
for last; do :; done
case "$*" in
*madison*server-15) echo ' server-15 | 15.2-0+deb12u1 | http://x.invalid bookworm/main amd64 Packages' ;;
*madison*) ;;
*show*) printf 'Package: server-15\nSection: database\nDepends: libone, gone | libtwo, perl\n\nPackage: libone\nSection: libs\n\nPackage: libtwo\nSection: libs\n\nPackage: perl\nSection: perl\n' ;;
esac
"#;
const APT_GET: &str = r#"#!/bin/sh
case "$*" in *download*)
  while [ "$1" != download ]; do shift; done; shift
  for package; do touch "${package%%=*}.deb"; done ;;
esac
"#;
/// A `dpkg` that unpacks a server. It prints its version only if it is started with its library.
const DPKG: &str = r#"#!/bin/sh
bin=$3/usr/lib/server/15/bin lib=$3/usr/lib/x86_64-linux-gnu
case $2 in
*server-15.deb)
  mkdir -p $bin
  printf '#!/bin/sh\nfor dir in $(echo $LD_LIBRARY_PATH | tr : " "); do [ -f $dir/libone.so.1 ] && echo server 15.2-0+deb12u1; done\n' > $bin/server
  echo '#!/bin/sh' > $bin/tool; chmod +x $bin/server $bin/tool ;;
*libone.deb) mkdir -p $lib; echo one > $lib/libone.so.1 ;;
*libtwo.deb) mkdir -p $lib; echo two > $lib/libtwo.so.1 ;;
*) exit 7 ;;
esac
"#;

#[test]
fn debian_server_uses_the_available_series_and_its_libraries() {
    const SERVER: Recipe = Recipe {
        system: "server",
        shape: Shape::Binary { executable: "server", version_args: &[] },
        sources: &[Source::Debian {
            packages: &["server-{series}"],
            files: &["usr/lib/server/{series}/bin/server", "usr/lib/server/{series}/bin/tool"],
            series: &["17", "15"],
            libraries: Libraries::Unpacked,
        }],
    };
    let world = World::new(None);
    let tools = std::env::var("PATH").unwrap();
    for (name, text) in [("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("dpkg", DPKG)] {
        script(&world.bin(), name, &text.replacen('\n', &format!("\nPATH={tools}\n"), 1));
    }
    let fetched = world.install(&SERVER, None, None).unwrap();
    assert!(
        world.messages().contains("server-15 15.2-0+deb12u1 and 2 libraries"),
        "{}",
        world.messages()
    );
    assert_eq!(fetched.version, "15.2");
    assert_eq!(fetched.sha256, sha256(&fs::read(binary(&fetched)).unwrap()));
    let tool = fetched.adjacent("tool").unwrap();
    assert_eq!(tool.parent(), binary(&fetched).canonicalize().unwrap().parent());
    assert_eq!(fetched.adjacent("absent"), None);
    let [(name, folders)] = &fetched.env()[..] else { panic!("{:?}", fetched.env()) };
    assert_eq!(name, "LD_LIBRARY_PATH");
    let library = Path::new(folders).join("libtwo.so.1");
    assert_eq!(fs::read_to_string(&library).unwrap(), "two\n", "not one folder: {folders}");
    assert_eq!(world.install(&SERVER, Some("15"), None).unwrap(), fetched);
    // A changed library counts as damage, like a changed program.
    fs::write(&library, "TWO\n").unwrap();
    assert_eq!(world.install(&SERVER, None, None).unwrap(), fetched);
    assert!(world.messages().contains("has changed since it was fetched"), "{}", world.messages());
    let error = world.install(&SERVER, Some("17"), None).unwrap_err().to_string();
    assert!(error.contains("skipped: it only has 15.2-0+deb12u1"), "{error}");
    script(&world.bin(), "apt-cache", "#!/bin/sh\n");
    let error = world.install(&SERVER, Some("16"), None).unwrap_err().to_string();
    assert!(
        error.contains(
            "Debian package server: skipped: this machine's package sources have no `server-17|15`"
        ),
        "{error}"
    );
}

/// A `dpkg` that unpacks one program under two names, like Debian's Redis. Its behaviour depends on the name.
const LINKING_DPKG: &str = r#"#!/bin/sh
mkdir -p $3/usr/bin
printf '#!/bin/sh\n[ ${0##*/} = store ] && echo store v=15.2 sha=0 || echo no such file: --version\n' > $3/usr/bin/check
chmod +x $3/usr/bin/check; ln -s check $3/usr/bin/store
"#;

#[test]
fn debian_program_is_started_by_the_name_of_its_link() {
    const STORE: Recipe = Recipe {
        system: "store",
        shape: Shape::Binary { executable: "store-of-no-path", version_args: &["--version"] },
        sources: &[Source::Debian {
            packages: &["server-15"],
            files: &["usr/bin/store"],
            series: &[],
            libraries: Libraries::Named,
        }],
    };
    let world = World::new(None);
    let tools = std::env::var("PATH").unwrap();
    for (name, text) in [("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("dpkg", LINKING_DPKG)] {
        script(&world.bin(), name, &text.replacen('\n', &format!("\nPATH={tools}\n"), 1));
    }
    let fetched = world.install(&STORE, None, None).unwrap();
    assert_eq!(fetched.version, "15.2");
    assert_eq!(binary(&fetched).file_name().unwrap(), "store");
    assert_eq!(fetched.sha256, sha256(&fs::read(binary(&fetched)).unwrap()));
    assert_eq!(world.install(&STORE, None, None).unwrap(), fetched, "not found in the cache");
}

#[test]
fn file_built_from_a_pinned_archive_joins_the_packages() {
    const BUILD: SourceBuild = SourceBuild {
        name: "module",
        version: "1.2",
        archive: "http://unreachable.invalid/module/{version}.tar.gz",
        sha256: "",
        packages: &["libone"],
        runs_with: &["libone"],
        tools: &["sh"],
        script: "cat \"$DEVELOPMENT\"/usr/lib/*/libone.so.1 module-1.2/text >\"$TREE/built\"",
        takes: "a moment",
    };
    let recipe = |build: SourceBuild| Recipe {
        system: "server",
        shape: Shape::Binary { executable: "server", version_args: &[] },
        sources: vec![Source::DebianAndBuild {
            packages: &["server-15"],
            files: &["usr/lib/server/15/bin/server"],
            build,
        }]
        .leak(),
    };
    let archive = tar_gz(&[("module-1.2/text", "two\n"), ("module-1.2/more", "")]);
    let site = Site::serving(vec![("/module/1.2.tar.gz", Answer::Body(archive))]);
    let world = World::new(Some(&site.url));
    let tools = std::env::var("PATH").unwrap();
    for (name, text) in [("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("dpkg", DPKG)] {
        script(&world.bin(), name, &text.replacen('\n', &format!("\nPATH={tools}\n"), 1));
    }
    std::os::unix::fs::symlink("/bin/sh", world.bin().join("sh")).unwrap();
    let error = world.install(&recipe(BUILD), None, None).unwrap_err().to_string();
    assert!(error.contains("not  as pinned"), "{error}");

    let mut lines = [
        format!("{}  module-1.2/more\n", sha256(b"")),
        format!("{}  module-1.2/text\n", sha256(b"two\n")),
    ];
    lines.sort();
    let pinned = SourceBuild { sha256: sha256(lines.concat().as_bytes()).leak(), ..BUILD };
    let fetched = world.install(&recipe(pinned), None, None).unwrap();
    assert!(fetched.source.ends_with("with module 1.2 built here"), "{}", fetched.source);
    let built = fetched.folder.as_ref().unwrap().join("built");
    assert_eq!(fs::read_to_string(built).unwrap(), "one\ntwo\n");

    let without = SourceBuild { tools: &["compiler-of-no-machine"], script: "true", ..pinned };
    let error = world.install(&recipe(without), None, None).unwrap_err().to_string();
    assert!(error.contains("this machine has no `compiler-of-no-machine`"), "{error}");
}

/// Uses the machine's package sources. A machine without them skips the test and reports that.
#[test]
fn small_debian_package_is_unpacked_without_root() {
    let world = World { host: Host::from_environment(), ..World::new(None) };
    let recipe = Recipe {
        system: "pv",
        shape: Shape::Binary { executable: "pv-of-no-path", version_args: &["--version"] },
        sources: &[Source::Debian {
            packages: &["pv"],
            files: &["usr/bin/pv"],
            series: &[],
            libraries: Libraries::Named,
        }],
    };
    match world.install(&recipe, None, None) {
        Ok(pv) => {
            assert!(pv.source.starts_with("Debian package pv "), "{pv:?}");
            assert!(pv.date.as_ref().is_some_and(|date| date.starts_with("20")), "{pv:?}");
        }
        Err(error @ InstallError::NoSource { .. }) => {
            // Only a machine without apt or without package sources may lack the package.
            let text = error.to_string();
            let closed = [
                "this machine has no `apt-get`",
                "apt-get update failed",
                "sources have no `pv`",
                "apt-get download failed",
            ];
            assert!(closed.iter().any(|reason| text.contains(reason)), "{text}");
            skipped(&format!("no Debian package could be fetched: {text}"));
        }
        Err(error) => panic!("{error}"),
    }
}

/// Reports to the developer that a test was skipped.
fn skipped(reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
