//! Debian's packages, on made-up machines and on this one.

use super::*;

/// A machine whose package sources have one series of a server, with a library.
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
/// The server says its version only when it is started with its library.
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
fn a_debian_server_comes_in_the_series_that_is_there_and_is_started_with_its_libraries() {
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
    assert!(world.told().contains("server-15 15.2-0+deb12u1 and 2 libraries"), "{}", world.told());
    assert_eq!(fetched.version, "15.2");
    assert_eq!(fetched.sha256, sha256(&fs::read(binary(&fetched)).unwrap()));
    let tool = fetched.beside("tool").unwrap();
    assert_eq!(tool.parent(), binary(&fetched).canonicalize().unwrap().parent());
    assert_eq!(fetched.beside("absent"), None);
    let [(name, folders)] = &fetched.env()[..] else { panic!("{:?}", fetched.env()) };
    assert_eq!(name, "LD_LIBRARY_PATH");
    let library = Path::new(folders).join("libtwo.so.1");
    assert_eq!(fs::read_to_string(&library).unwrap(), "two\n", "not one folder: {folders}");
    assert_eq!(world.install(&SERVER, Some("15"), None).unwrap(), fetched);
    // A library that is not what was fetched is noticed like the program itself.
    fs::write(&library, "TWO\n").unwrap();
    assert_eq!(world.install(&SERVER, None, None).unwrap(), fetched);
    assert!(world.told().contains("is not what was fetched"), "{}", world.told());
    let error = world.install(&SERVER, Some("17"), None).unwrap_err().to_string();
    assert!(error.contains("passed over: it has 15.2-0+deb12u1"), "{error}");
    script(&world.bin(), "apt-cache", "#!/bin/sh\n");
    let error = world.install(&SERVER, Some("16"), None).unwrap_err().to_string();
    assert!(error.contains("Debian package server: passed over: this machine's package sources have no `server-17|15`"), "{error}");
}

/// One program under two names, as Debian has Redis: what it does depends on how it is called.
const LINKING_DPKG: &str = r#"#!/bin/sh
mkdir -p $3/usr/bin
printf '#!/bin/sh\n[ ${0##*/} = store ] && echo store v=15.2 sha=0 || echo no such file: --version\n' > $3/usr/bin/check
chmod +x $3/usr/bin/check; ln -s check $3/usr/bin/store
"#;

#[test]
fn a_debian_program_that_is_a_link_is_started_by_the_name_of_the_link() {
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
    assert_eq!(world.install(&STORE, None, None).unwrap(), fetched, "it was not found again");
}

/// Uses the machine's package sources, where it has any; says what it skipped.
#[test]
fn a_small_debian_package_is_unpacked_without_root() {
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
            // Only a machine without apt, or without its sources, may lack it.
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

/// Tells whoever runs the tests what was not tested.
fn skipped(reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
