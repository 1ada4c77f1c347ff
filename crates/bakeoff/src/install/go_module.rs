//! Go main packages, built here from the module proxy's sources.
//!
//! A module with nothing in it requires the wanted one, so that Go's own resolution and checksum
//! database decide what is built; the database is never switched off. Go's caches are the user's,
//! as for any `go install`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::error::RungError;
use super::version::{VersionRequest, said_date, said_version};
use super::{Fetched, Host, Job, tool};

/// The Go that is here, or why there is none.
pub(super) fn go_version(host: &Host) -> Result<String, String> {
    let Some(go) = tool::on_path("go", host.path.as_deref()) else {
        return Err("this machine has no `go`".to_owned());
    };
    let said = tool::ask(Command::new(go).arg("version"), Duration::from_secs(20))?;
    // `go version go1.26.8 linux/amd64`
    let word = said.split_whitespace().find_map(|word| word.strip_prefix("go1"));
    word.map(|rest| format!("go1{rest}")).ok_or_else(|| "`go version` named no version".to_owned())
}

/// Builds the package into the job's tree as `bin/NAME`.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    module: &str,
    package: &str,
    versions: &[&str],
    takes: &str,
) -> Result<Fetched, RungError> {
    let version = VersionRequest::choose(job.wanted, versions).map_err(RungError::PassedOver)?;
    let go = go_version(job.host).map_err(RungError::PassedOver)?;
    let wrapper = job.scratch.join("wrapper");
    fs::create_dir_all(&wrapper).map_err(|e| RungError::io("make", &wrapper, &e))?;
    let name = job.executable.unwrap_or("program");
    let built = PathBuf::from("bin").join(name);
    let host = job.host;
    let go_command = |args: &[&str]| {
        let mut command = host.command("go");
        command.args(args).current_dir(&wrapper);
        command
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .env("GOFLAGS", "-mod=mod -buildvcs=false");
        command.env_remove("GOOS").env_remove("GOARCH");
        command
    };
    job.watcher.say(&format!(
        "{} {version}: building it with {go}, which takes about {takes}",
        job.system
    ));
    let doing = "go mod init";
    job.call(doing, Duration::from_secs(60))
        .run(&mut go_command(&["mod", "init", "wrapper"]), job.watcher)?;
    let doing = format!("{} {version}: downloading Go modules", job.system);
    job.watcher.say(&doing);
    let get = format!("{module}@v{version}");
    job.call(&doing, Duration::from_secs(1800))
        .run(&mut go_command(&["get", &get]), job.watcher)?;
    let doing = format!("{} {version}: compiling", job.system);
    job.watcher.say(&doing);
    let mut build = go_command(&["build", "-trimpath", "-ldflags", "-s -w", "-o"]);
    build.arg(job.tree.join(&built)).arg(package);
    job.call(&doing, Duration::from_secs(3600)).run(&mut build, job.watcher)?;
    let info = job
        .call("go version -m", Duration::from_secs(60))
        .read(go_command(&["version", "-m"]).arg(job.tree.join(&built)), job.watcher)?;
    let Some((built_version, sum)) = built_from(&info, module) else {
        return Err(RungError::failed(format!(
            "the build does not say that it is of module {module}"
        )));
    };
    // Programs built from modules do not say when they were; the module's commit has a time.
    let commit = job
        .call("go list -m", Duration::from_secs(60))
        .read(&mut go_command(&["list", "-m", "-f", "{{.Time}}", module]), job.watcher)?;
    let sum = if sum.is_empty() { String::new() } else { format!(" ({sum})") };
    Ok(Fetched {
        source: format!("Go module {module} v{built_version}{sum}, built with {go}"),
        version: built_version.clone(),
        files: vec![built],
        vouched: Some(built_version),
        date: said_date(&commit),
    })
}

/// The version and checksum of `module` in what `go version -m` prints of a program.
fn built_from(info: &str, module: &str) -> Option<(String, String)> {
    info.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        if !matches!(kind, "mod" | "dep") || words.next()? != module {
            return None;
        }
        let version = words.next()?.strip_prefix('v')?;
        said_version(version)?;
        Some((version.to_owned(), words.next().unwrap_or("").to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_that_a_program_was_built_from_is_read_from_its_build_information() {
        let info = "/x/consul: go1.26.8\n\tpath\tgithub.com/hashicorp/consul\n\
                    \tmod\tgithub.com/hashicorp/consul\tv1.20.1\th1:abc=\n\
                    \tdep\tgithub.com/hashicorp/consul/api\tv1.29.4\th1:def=\n";
        let found = built_from(info, "github.com/hashicorp/consul").unwrap();
        assert_eq!(found, ("1.20.1".to_owned(), "h1:abc=".to_owned()));
        assert_eq!(built_from(info, "github.com/hashicorp/vault"), None);
        assert_eq!(built_from("mod x (devel)\nmod\nmod x", "x"), None);
    }
}
