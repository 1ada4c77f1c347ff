//! Builds Go main packages from the module proxy's sources.
//!
//! An empty wrapper module requires the requested one, so Go's own resolution and checksum database decide what is
//! built. bakeoff never disables the database. If a module does not build this way, the wrapper copies its requirements
//! and may add a main package. Go uses the user's caches, as for `go install`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::{RuntimeMissing, SourceError};
use super::refusal::Refusal;
use super::version::{VersionRequest, date_in, version_in};
use super::{FetchedFiles, Host, Job, tool};

/// Returns the version of the machine's Go: `go1.26.8`.
pub(super) fn go_version(host: &Host) -> Result<String, RuntimeMissing> {
    let missing = |seen: String| RuntimeMissing(vec![seen]);
    let Some(go) = tool::on_path("go", host.path.as_deref()) else {
        return Err(missing("this machine has no `go`".to_owned()));
    };
    let output = tool::ask(Command::new(go).arg("version"), Duration::from_secs(20))
        .map_err(|error| missing(error.to_string()))?;
    // `go version go1.26.8 linux/amd64`
    let word = output.split_whitespace().find_map(|word| word.strip_prefix("go1"));
    word.map(|rest| format!("go1{rest}"))
        .ok_or_else(|| missing("`go version` printed no version".to_owned()))
}

/// Main packages to build.
#[derive(Debug, Clone, Copy)]
pub(super) enum Build<'a> {
    /// A main package of the module.
    Package(&'a str),
    /// bakeoff's own main package, which uses the module, and its build tags.
    Main { text: &'a str, tags: &'a str },
    /// Main packages of a module whose versions the proxy names by commits. `stamp` is the variable to set to the
    /// version.
    Programs { packages: &'a [&'a str], commits: &'a [&'a str], stamp: &'a str },
}

/// Builds the program into the job's tree as `bin/NAME`.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    module: &str,
    build: Build<'_>,
    versions: &[&str],
    takes: &str,
) -> Result<FetchedFiles, SourceError> {
    let version = VersionRequest::choose(job.wanted, versions).map_err(SourceError::passed_over)?;
    let go = go_version(job.host).map_err(SourceError::passed_over)?;
    let wrapper = Wrapper { host: job.host, dir: job.scratch.join("wrapper") };
    fs::create_dir_all(&wrapper.dir).map_err(|e| SourceError::io("make", &wrapper.dir, &e))?;
    let published = build.published(&version, versions)?;
    job.watcher
        .say(&format!("{} {version}: building with {go}; this takes about {takes}", job.system));
    let wanted = ModuleBuild { module, build, version: &version, published: &published };
    wrapper.download(job, &wanted)?;
    let files = wrapper.compile(job, &wanted)?;
    wrapper.describe(job, &wanted, files, &go)
}

/// Module and version to build.
struct ModuleBuild<'a> {
    module: &'a str,
    build: Build<'a>,
    version: &'a str,
    /// The proxy's name of the version.
    published: &'a str,
}

impl Build<'_> {
    /// Returns the proxy's name of a version.
    fn published(&self, version: &str, versions: &[&str]) -> Result<String, SourceError> {
        let Build::Programs { commits, .. } = self else { return Ok(version.to_owned()) };
        let known = versions.iter().position(|known| *known == version);
        let commit = known.and_then(|place| commits.get(place)).map(|commit| (*commit).to_owned());
        commit.ok_or_else(|| {
            SourceError::PassedOver(format!("it knows only {}", versions.join(", ")))
        })
    }
}

/// Variables that exempt modules from Go's checksum database.
const CHECKS: [&str; 3] = ["GOSUMDB", "GONOSUMDB", "GOINSECURE"];

/// Describes which of Go's checks are off: `GOSUMDB` if it is `off`, the others if they name any modules. Empty if all
/// are on.
fn unchecked(set: &BTreeMap<String, String>) -> String {
    let is_off = |name: &str| match set.get(name).map(String::as_str) {
        None | Some("") => false,
        Some(value) => name != "GOSUMDB" || value == "off",
    };
    let off: Vec<String> = CHECKS
        .iter()
        .filter(|name| is_off(name))
        .map(|name| format!("{name}={}", set[*name]))
        .collect();
    match off.is_empty() {
        true => String::new(),
        false => format!(", not checked against Go's checksum database ({})", off.join(", ")),
    }
}

/// Longest times for a query, a download and a build.
const BRIEF: Duration = Duration::from_secs(60);
const DOWNLOAD: Duration = Duration::from_secs(1800);
const COMPILE: Duration = Duration::from_secs(3600);

/// Module of bakeoff's that requires the requested one.
struct Wrapper<'a> {
    host: &'a Host,
    dir: PathBuf,
}

impl Wrapper<'_> {
    /// Downloads the module and makes the wrapper require it.
    fn download(&self, job: &mut Job<'_, '_>, wanted: &ModuleBuild<'_>) -> Result<(), SourceError> {
        let ModuleBuild { module, build, version, published } = *wanted;
        let doing = format!("{} {version}: downloading Go modules", job.system);
        job.watcher.say(&doing);
        let got = format!("{module}@v{published}");
        match build {
            Build::Package(_) => {
                self.run(job, "go mod init", &["mod", "init", "wrapper"], BRIEF)?;
                self.run(job, &doing, &["get", &got], DOWNLOAD)
            }
            Build::Main { text, .. } => {
                self.take_over(job, &doing, module, &got)?;
                let main = self.dir.join("main.go");
                fs::write(&main, text).map_err(|e| SourceError::io("write", &main, &e))
            }
            Build::Programs { .. } => self.take_over(job, &doing, module, &got),
        }
    }

    /// Compiles into the job's tree. Returns the executables, the recipe's first.
    fn compile(
        &self,
        job: &mut Job<'_, '_>,
        wanted: &ModuleBuild<'_>,
    ) -> Result<Vec<PathBuf>, SourceError> {
        let version = wanted.version;
        let doing = format!("{} {version}: compiling", job.system);
        job.watcher.say(&doing);
        let name = job.executable.unwrap_or("program");
        let built = PathBuf::from("bin").join(name);
        let linked = match wanted.build {
            Build::Programs { stamp, .. } => format!("-s -w -X {stamp}={version}"),
            _ => "-s -w".to_owned(),
        };
        let mut command = self.command(&["build", "-trimpath", "-ldflags", &linked, "-o"]);
        let mut files = vec![built.clone()];
        match wanted.build {
            Build::Package(package) => command.arg(job.tree.join(&built)).arg(package),
            Build::Main { tags, .. } => {
                command.arg(job.tree.join(&built)).args(["-tags", tags, "."])
            }
            Build::Programs { packages, .. } => {
                // Go names each executable after the last part of its package.
                let bin = job.tree.join("bin");
                fs::create_dir_all(&bin).map_err(|e| SourceError::io("make", &bin, &e))?;
                let others = packages.iter().filter_map(|package| package.rsplit('/').next());
                let others = others.filter(|other| *other != name);
                files.extend(others.map(|other| PathBuf::from("bin").join(other)));
                command.arg(bin).args(packages)
            }
        };
        job.call(&doing, COMPILE).run(&mut command, job.watcher)?;
        Ok(files)
    }

    /// Describes the build from its build information and the date of the module's commit.
    fn describe(
        &self,
        job: &mut Job<'_, '_>,
        wanted: &ModuleBuild<'_>,
        files: Vec<PathBuf>,
        go: &str,
    ) -> Result<FetchedFiles, SourceError> {
        let ModuleBuild { module, build, version, published } = *wanted;
        let built = job.tree.join(&files[0]);
        let info = job
            .call("go version -m", BRIEF)
            .read(self.command(&["version", "-m"]).arg(built), job.watcher)?;
        let Some((built_version, sum)) = built_from(&info, module) else {
            return Err(SourceError::failed(format!(
                "the build information does not name the module {module}"
            )));
        };
        // Programs built from modules print no build date. The module's commit has a time.
        let commit =
            self.read(job, "go list -m", &["list", "-m", "-f", "{{.Time}}", module], BRIEF)?;
        let sum = if sum.is_empty() { String::new() } else { format!(" ({sum})") };
        let main = match build {
            Build::Package(_) => String::new(),
            Build::Main { tags, .. } => {
                format!(" with a main package of bakeoff's and the build tag {tags}")
            }
            Build::Programs { .. } if built_version != published => {
                return Err(SourceError::failed(format!(
                    "the program was built from v{built_version}, not v{published}"
                )));
            }
            Build::Programs { .. } => format!(", which is {version}"),
        };
        let known_as = match build {
            Build::Programs { .. } => version.to_owned(),
            _ => built_version.clone(),
        };
        Ok(FetchedFiles {
            source: format!(
                "Go module {module} v{built_version}{sum}{main}, built with {go}{}",
                self.unchecked(job)?
            ),
            version: known_as.clone(),
            files,
            libraries: Vec::new(),
            vouched: Some(known_as),
            date: date_in(&commit),
        })
    }

    /// Describes which of Go's checks the user's environment or `go env -w` turned off, as text that follows a source.
    /// Empty if all are on.
    fn unchecked(&self, job: &mut Job<'_, '_>) -> Result<String, SourceError> {
        let mut args = vec!["env", "-json"];
        args.extend(CHECKS);
        let text = self.read(job, "go env", &args, BRIEF)?;
        let set: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
        Ok(unchecked(&set))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.host.command("go");
        command.args(args).current_dir(&self.dir);
        command
            .env("CGO_ENABLED", "0")
            // Go leaves gigabytes in its temporary folder if it is killed.
            .env("GOTMPDIR", self.dir.parent().unwrap_or(&self.dir))
            .env("GOWORK", "off")
            .env("GOFLAGS", "-mod=mod -buildvcs=false");
        command.env_remove("GOOS").env_remove("GOARCH");
        command
    }

    fn run(
        &self,
        job: &mut Job<'_, '_>,
        doing: &str,
        args: &[&str],
        limit: Duration,
    ) -> Result<(), SourceError> {
        job.call(doing, limit).run(&mut self.command(args), job.watcher)
    }

    fn read(
        &self,
        job: &mut Job<'_, '_>,
        doing: &str,
        args: &[&str],
        limit: Duration,
    ) -> Result<String, SourceError> {
        job.call(doing, limit).read(&mut self.command(args), job.watcher)
    }

    /// Downloads the module and copies its `go.mod` and `go.sum`, which have the versions that its authors build with.
    /// Modules that they replace with local folders are used as published, in the version that `go.mod` requires.
    fn take_over(
        &self,
        job: &mut Job<'_, '_>,
        doing: &str,
        module: &str,
        got: &str,
    ) -> Result<(), SourceError> {
        let output = self.read(job, doing, &["mod", "download", "-json", got], DOWNLOAD)?;
        let downloaded: ModuleDownload = serde_json::from_str(&output).map_err(|e| {
            SourceError::failed(format!("cannot parse the output of `go mod download`: {e}"))
        })?;
        for name in ["go.mod", "go.sum"] {
            let (from, to) = (downloaded.dir.join(name), self.dir.join(name));
            let copy = || fs::write(&to, fs::read(&from)?); // the original is read-only
            copy().map_err(|e| SourceError::io("copy", &from, &e))?;
        }
        let output = self.read(job, "go mod edit", &["mod", "edit", "-json"], BRIEF)?;
        let edits = edits(&output, module, got)?;
        let edits: Vec<&str> = edits.iter().map(String::as_str).collect();
        self.run(job, "go mod edit", &edits, BRIEF)
    }
}

/// Output of `go mod download -json`; fields used here.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ModuleDownload {
    dir: PathBuf,
}

/// Output of `go mod edit -json`; fields used here.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoMod {
    replace: Option<Vec<Replace>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Replace {
    old: Module,
    new: Module,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Module {
    path: String,
    version: Option<String>,
}

/// Returns the arguments of Go that turn a module's `go.mod` into the wrapper's. They change its name, require the
/// module itself, and drop replacements by folders.
fn edits(output: &str, module: &str, got: &str) -> Result<Vec<String>, SourceError> {
    let go_mod: GoMod = serde_json::from_str(output)
        .map_err(|e| SourceError::failed(format!("cannot parse the go.mod of {module}: {e}")))?;
    let mut edits = vec!["mod".to_owned(), "edit".to_owned(), "-module=wrapper".to_owned()];
    for Replace { old, new } in go_mod.replace.unwrap_or_default() {
        if new.path.starts_with('.') || new.path.starts_with('/') {
            let version = old.version.map_or(String::new(), |version| format!("@{version}"));
            edits.push(format!("-dropreplace={}{version}", old.path));
        }
    }
    edits.push(format!("-require={got}"));
    Ok(edits)
}

/// Reads the version of `module` from the build information in a program. It is text in the format of the package
/// `runtime/debug`: lines of `mod` or `dep`, module, version and checksum, separated by tabs.
pub(super) fn version_within(program: &Path, module: &str) -> Result<String, Refusal> {
    let bytes = fs::read(program).map_err(|e| Refusal::Unreadable(None, e))?;
    // The rest of the program is binary. It is split into lines too, and none of them matches.
    let begins = ["mod", "dep"].map(|kind| format!("{kind}\t{module}\tv"));
    for line in bytes.split(|byte| *byte == b'\n') {
        let rest = begins.iter().find_map(|begin| line.strip_prefix(begin.as_bytes()));
        let version = rest.and_then(|rest| rest.split(|byte| *byte == b'\t').next());
        let version = version.and_then(|version| std::str::from_utf8(version).ok());
        if let Some(version) = version.filter(|text| text.len() <= 64).and_then(version_in) {
            return Ok(version);
        }
    }
    Err(Refusal::NoBuildInformation(module.to_owned()))
}

/// Finds the version and checksum of `module` in the output of `go version -m`.
fn built_from(info: &str, module: &str) -> Option<(String, String)> {
    info.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        if !matches!(kind, "mod" | "dep") || words.next()? != module {
            return None;
        }
        let version = words.next()?.strip_prefix('v')?;
        version_in(version)?;
        Some((version.to_owned(), words.next().unwrap_or("").to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_names_disabled_checks() {
        let set = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let on = set(&[("GOSUMDB", "sum.golang.org"), ("GONOSUMDB", ""), ("GOINSECURE", "")]);
        assert_eq!(unchecked(&on), "");
        let off = set(&[("GOSUMDB", "off"), ("GONOSUMDB", "*"), ("GOINSECURE", "")]);
        let expected = ", not checked against Go's checksum database (GOSUMDB=off, GONOSUMDB=*)";
        assert_eq!(unchecked(&off), expected);
    }

    #[test]
    fn drops_only_replacements_by_folders() {
        let output = r#"{"Module": {"Path": "example.invalid/v"}, "Go": "1.25.1", "Replace": [
            {"Old": {"Path": "example.invalid/v/api"}, "New": {"Path": "./api"}},
            {"Old": {"Path": "a.invalid/b", "Version": "v1.0.0"}, "New": {"Path": "../b"}},
            {"Old": {"Path": "c.invalid/d"}, "New": {"Path": "e.invalid/d", "Version": "v1.2.3"}}]}"#;
        let edits = |output| edits(output, "example.invalid/v", "example.invalid/v@v1.0.0");
        assert_eq!(
            edits(output).unwrap()[2..],
            [
                "-module=wrapper",
                "-dropreplace=example.invalid/v/api",
                "-dropreplace=a.invalid/b@v1.0.0",
                "-require=example.invalid/v@v1.0.0",
            ]
        );
        assert_eq!(edits("{}").unwrap().len(), 4);
        assert!(edits("rubbish").unwrap_err().to_string().contains("cannot parse the go.mod"));
    }

    #[test]
    fn reads_version_from_build_information() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let found = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            version_within(&path, "x.invalid/gcs")
        };
        let start = b"\x7fELF\0\xffmodules\tx.invalid/gcs\tpath\tx.invalid/gcs\n";
        let own = [start, &b"mod\tx.invalid/gcs\tv1.52.3\th1:sum=\n\0"[..]].concat();
        assert_eq!(found(&own).unwrap(), "1.52.3");
        let library =
            [start, &b"mod\tx.invalid/gcs\t(devel)\ndep\tx.invalid/gcs\tv1.2.0\t"[..]].concat();
        assert_eq!(found(&library).unwrap(), "1.2.0");
        for text in [&b"mod\tx.invalid/gcs\t(devel)\t"[..], b"mod\tx.invalid/gcs\tv\xff\t", b""] {
            assert!(found(text).unwrap_err().to_string().contains("no Go build information"));
        }
    }

    #[test]
    fn reads_module_from_go_version_output() {
        let info = "/x/consul: go1.26.8\n\tpath\tgithub.com/hashicorp/consul\n\
                    \tmod\tgithub.com/hashicorp/consul\tv1.20.1\th1:abc=\n\
                    \tdep\tgithub.com/hashicorp/consul/api\tv1.29.4\th1:def=\n";
        let found = built_from(info, "github.com/hashicorp/consul").unwrap();
        assert_eq!(found, ("1.20.1".to_owned(), "h1:abc=".to_owned()));
        assert_eq!(built_from(info, "github.com/hashicorp/vault"), None);
        assert_eq!(built_from("mod x (devel)\nmod\nmod x", "x"), None);
    }
}
