//! Copies programs to machines: the files of this machine's cache that theirs lack.
//!
//! A cached program is a folder of hashed files. It goes to the same place in the other machine's cache. A program from
//! elsewhere is sent as a single file. A cached runtime (Java) is sent like a program; one of this machine (Java, Node.js)
//! must be installed there.
//!
//! Not here: finding programs on this machine (`bakeoff_install`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bakeoff_agent::transfer::Meter;
use bakeoff_agent::{AgentError, FileStamp, Request, own_machine};
use bakeoff_core::study;
use bakeoff_host::HostError;
use bakeoff_install::{
    InstalledProgram, Program, Runtime, RuntimeFound, RuntimeMissing, Shape, sha256_of,
};
use bakeoff_systems as systems;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::order::{Order, duty};
use super::{Machine, Machines};
use crate::error::FleetError;

/// Bytes per read of a file.
const PART: usize = 256 << 10;

/// Rejects a machine whose runtime for a program is missing or too old.
fn check_runtime(
    is_pod: bool,
    machine: &Machine,
    program: &InstalledProgram,
    (runtime, least): (Runtime, u32),
) -> Result<(), FleetError> {
    let path = match &program.program {
        Program::Binary(_) => return Ok(()),
        Program::Java { java: path, .. } | Program::Node { node: path, .. } => path.clone(),
    };
    let order = Order::Runtime { runtime, program: path, least };
    let found: Result<RuntimeFound, RuntimeMissing> = duty(&machine.agent, &order)?;
    found.map(drop).map_err(|seen| {
        let (name, system) = (machine.agent.machine(), &program.system);
        FleetError::input(
            format!(
                "`{system}` needs {} {least} or newer, which `{name}` lacks: {seen}",
                runtime.name()
            ),
            match is_pod {
                false => format!("install it on `{name}`, or assign `{system}` to other machines"),
                true => {
                    format!("set `image`, or `images: {{{system}: …}}`, to an image that has it")
                }
            },
        )
    })
}

/// Returns the folder of the runtime that runs a program, below the cache, if the cache has it.
fn runtime_folder(cache: Option<&Path>, program: &InstalledProgram) -> Option<PathBuf> {
    let Program::Java { java, .. } = &program.program else { return None };
    // `CACHE/java/25.0.2-pypi-…/…/bin/java`
    Some(java.strip_prefix(cache?).ok()?.iter().take(2).collect())
}

/// Runs a copied program once to print its version. This reveals missing libraries before a trial.
fn start_once(
    machines: &Machines,
    machine: &Machine,
    (kind, program): (&str, &InstalledProgram),
    there: PathBuf,
) -> Result<(), FleetError> {
    let cache = &machine.agent.hello().cache;
    let moved = |path: &PathBuf| {
        let below = machines.cache.as_ref().and_then(|own| path.strip_prefix(own).ok());
        below.map_or_else(|| path.clone(), |below| cache.join(below))
    };
    let libraries = program.library_path.iter().map(moved).collect();
    let order = Order::Starts { kind: kind.to_owned(), program: there, libraries };
    duty::<()>(&machine.agent, &order).map_err(|error| match &error {
        AgentError::Refused { refusal, .. } => {
            let name = machine.agent.machine();
            let first = refusal.text.lines().next().unwrap_or_default();
            FleetError::input(
                format!("the program of `{kind}` was copied to `{name}` but does not start there: {first}"),
                machines.remedy(kind, || format!("install what it needs on `{name}`")),
            )
        }
        _ => error.into(),
    })
}

/// Rejects a machine whose processor a program was not built for.
fn check_processor(
    machines: &Machines,
    machine: &Machine,
    (kind, program): (&str, &InstalledProgram),
) -> Result<(), FleetError> {
    let (ours, theirs) = (own_machine(), &machine.agent.hello().machine);
    let is_sent = program.folder.is_some() || !is_accompanied(kind);
    let is_built = matches!(program.program, Program::Binary(_))
        || runtime_folder(machines.cache.as_deref(), program).is_some();
    if ours == *theirs || !is_sent || !is_built {
        return Ok(());
    }
    let name = machine.agent.machine();
    Err(FleetError::input(
        format!("the program of `{kind}` on this machine is for {ours}, but `{name}` is {theirs}"),
        machines.remedy(kind, || {
            format!(
                "run bakeoff on a machine like `{name}`, or assign its servers to {ours} machines"
            )
        }),
    ))
}

/// Returns true if a kind's program only works with the files around it.
fn is_accompanied(kind: &str) -> bool {
    systems::recipe_of(kind).is_some_and(|recipe| matches!(recipe.shape, Shape::Accompanied { .. }))
}

/// Sends a program to a machine that lacks it. Returns the path of the executable there, if the program is one.
fn send_one(
    machines: &Machines,
    machine: &Machine,
    (kind, program): (&str, &InstalledProgram),
) -> Result<Option<PathBuf>, FleetError> {
    let cache = &machine.agent.hello().cache;
    let own = machines.cache.as_deref();
    let below = program
        .folder
        .as_deref()
        .and_then(|folder| Some((folder, folder.strip_prefix(own?).ok()?)));
    match (below, &program.program) {
        (Some((folder, below)), whole) => {
            let to = cache.join(below);
            send_folder(machine, kind, folder, &to)?;
            let Program::Binary(path) = whole else { return Ok(None) };
            Ok(path.strip_prefix(folder).ok().map(|below| to.join(below)))
        }
        (None, Program::Binary(path)) if is_accompanied(kind) => {
            let found: Option<PathBuf> =
                machine.agent.ask(&Request::Find { program: path.clone() })?;
            let name = machine.agent.machine();
            match found.filter(|found| found == path) {
                Some(there) => Ok(Some(there)),
                None => Err(FleetError::input(
                    format!(
                        "`{kind}` is `{}` on this machine, which `{name}` lacks; it only works with the files around it",
                        path.display()
                    ),
                    machines.remedy(kind, || {
                        format!("install it there, or run `bakeoff install {kind}` for one that can be sent")
                    }),
                )),
            }
        }
        (None, Program::Binary(path)) => {
            // A path into our cache maps to the same path in the other cache, like all cached files.
            let below = own.and_then(|own| path.strip_prefix(own).ok());
            let to = below.map_or_else(
                || sent_path(machine, path, &program.sha256),
                |below| cache.join(below),
            );
            send_files(machine, kind, &[(path.clone(), to.clone())])?;
            Ok(Some(to))
        }
        // Jars and scripts from outside the cache must already be there.
        (None, _) => Ok(None),
    }
}

/// Returns the destination of a program from outside the cache.
fn sent_path(machine: &Machine, path: &Path, sha256: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    machine.agent.hello().cache.join("sent").join(sha256).join(name)
}

impl Machines {
    /// Returns the hint for a missing program of a kind; `elsewhere` for machines that are not pods.
    fn remedy(&self, kind: &str, elsewhere: impl FnOnce() -> String) -> String {
        match self.places.kubernetes {
            None => elsewhere(),
            Some(_) => format!("set `images: {{{kind}: …}}` to an image that has it"),
        }
    }

    /// Sends the program of a component to all machines that take its servers, at once. `needed`: the runtime that it
    /// needs, and the oldest usable major version.
    ///
    /// # Errors
    /// When sending fails, or the runtime is missing.
    pub fn send_program(
        &self,
        role: &str,
        kind: &str,
        program: &InstalledProgram,
        needed: Option<(Runtime, u32)>,
    ) -> Result<(), FleetError> {
        let mut places = BTreeSet::new();
        for home in self.places.servers_of(role, kind) {
            let is_there = !systems::goes_next_to(kind);
            places.extend(is_there.then_some(home));
            places.extend(systems::runs_next_to(kind).then(|| self.adjacent(home)));
        }
        let sent: Vec<Result<(), FleetError>> = std::thread::scope(|scope| {
            let send = |place| scope.spawn(move || self.send_to(place, (kind, program), needed));
            let each: Vec<_> = places.into_iter().map(send).collect();
            each.into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        sent.into_iter().collect()
    }

    /// Sends a program to one machine and tests that it starts there.
    fn send_to(
        &self,
        place: usize,
        (kind, program): (&str, &InstalledProgram),
        needed: Option<(Runtime, u32)>,
    ) -> Result<(), FleetError> {
        let machine = &self.each[place];
        // A kind's own image provides a runtime for a program that is sent, or the program itself.
        let in_image = self.places.machines[place].kind.is_some();
        let runtime = runtime_folder(self.cache.as_deref(), program);
        if let (None, Some(needed)) = (&runtime, needed) {
            check_runtime(self.places.kubernetes.is_some(), machine, program, needed)?;
        }
        if in_image && matches!(program.program, Program::Binary(_)) {
            return Ok(());
        }
        check_processor(self, machine, (kind, program))?;
        if let (Some(own), Some(below)) = (&self.cache, runtime) {
            let to = machine.agent.hello().cache.join(&below);
            send_folder(machine, &format!("the runtime of {kind}"), &own.join(&below), &to)?;
        }
        if let Some(there) = send_one(self, machine, (kind, program))? {
            start_once(self, machine, (kind, program), there)?;
        }
        Ok(())
    }

    /// Returns the program in a kind's own image; `None` if the program must be sent.
    ///
    /// # Errors
    /// When the image lacks it, or the machines have different ones.
    pub(crate) fn program_of_image(
        &self,
        study_system: &study::System,
    ) -> Result<Option<InstalledProgram>, FleetError> {
        let images = self.places.kubernetes.iter().flat_map(|kubernetes| &kubernetes.images);
        let Some((kind, image)) = images.into_iter().find(|(kind, _)| *kind == study_system.kind)
        else {
            return Ok(None);
        };
        let Some(recipe) = systems::recipe_for(study_system) else { return Ok(None) };
        let (product, shape) = (recipe.system.to_owned(), recipe.shape);
        let machines = self.each.iter().zip(&self.places.machines);
        let own = machines.filter(|(_, place)| place.kind.as_ref() == Some(kind));
        let mut found: Option<InstalledProgram> = None;
        for (machine, place) in own {
            let order =
                Order::Program { kind: product.clone(), version: study_system.version.clone() };
            let there: Option<InstalledProgram> = duty(&machine.agent, &order)?;
            if matches!(shape, Shape::Java { .. } | Shape::Node { .. }) {
                // The runtime was checked already, and the program for it is sent.
                continue;
            }
            let there = there.ok_or_else(|| {
                FleetError::input(
                    format!("the image `{image}` has no `{kind}` program on its `PATH`"),
                    format!("set another image in `images`, or remove `{kind}` there; bakeoff then sends the program"),
                )
            })?;
            if found.as_ref().is_some_and(|first| first.sha256 != there.sha256) {
                return Err(FleetError::input(
                    format!(
                        "`{}` has a different `{kind}` than other pods of `{image}`",
                        place.name
                    ),
                    "give the image by its digest, and select nodes with one architecture: `node-selector: \
                     {kubernetes.io/arch: arm64}`",
                ));
            }
            found = Some(there);
        }
        Ok(found.map(|there| InstalledProgram { source: format!("image {image}"), ..there }))
    }

    /// Returns the program paths that differ on a machine, as pairs: runtimes, and programs outside the cache.
    pub(super) fn sent_programs(
        &self,
        machine: &Machine,
        program: &Path,
    ) -> Result<Vec<(PathBuf, PathBuf)>, HostError> {
        let elsewhere = |error: AgentError| HostError::Elsewhere { text: error.to_string() };
        let in_cache = self.cache.as_ref().is_some_and(|cache| program.starts_with(cache));
        // A program that is missing here comes from an image.
        let elsewhere_only = !program.exists();
        if program == self.own || in_cache || !program.is_absolute() || elsewhere_only {
            return Ok(Vec::new());
        }
        let sha256 =
            sha256_of(program).map_err(|error| HostError::io("read a program", program, error))?;
        let sent = sent_path(machine, program, &sha256);
        let request = Request::Find { program: sent.clone() };
        let found: Option<PathBuf> = machine.agent.ask(&request).map_err(elsewhere)?;
        let found = match found.filter(|found| *found == sent) {
            Some(sent) => Some(sent),
            None => {
                let request = Request::Find { program: program.to_owned() };
                machine.agent.ask(&request).map_err(elsewhere)?
            }
        };
        Ok(found.map(|found| (program.to_owned(), found)).into_iter().collect())
    }
}

/// Sends the files and links of a folder that a machine lacks. `what`: name of the program that they belong to.
fn send_folder(machine: &Machine, what: &str, folder: &Path, to: &Path) -> Result<(), FleetError> {
    let (mut files, mut links) = (Vec::new(), Vec::new());
    walk(folder, &mut files, &mut links)
        .map_err(|error| FleetError::file("read", folder, &error))?;
    let moved = |path: &Path| to.join(path.strip_prefix(folder).unwrap_or(path));
    let files: Vec<(PathBuf, PathBuf)> =
        files.into_iter().map(|path| (path.clone(), moved(&path))).collect();
    send_files(machine, what, &files)?;
    for (path, target) in links {
        machine.agent.ask::<()>(&Request::Link { path: moved(&path), to: target })?;
    }
    Ok(())
}

type Link = (PathBuf, PathBuf);

fn walk(folder: &Path, files: &mut Vec<PathBuf>, links: &mut Vec<Link>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        match entry? {
            kind if kind.is_symlink() => links.push((path.clone(), fs::read_link(&path)?)),
            kind if kind.is_dir() => walk(&path, files, links)?,
            _ => files.push(path),
        }
    }
    Ok(())
}

/// Sends the files that a machine lacks. `what`: name of the program that they belong to.
fn send_files(
    machine: &Machine,
    what: &str,
    files: &[(PathBuf, PathBuf)],
) -> Result<(), FleetError> {
    let stamp = |(path, to): &(PathBuf, PathBuf)| -> std::io::Result<FileStamp> {
        Ok(FileStamp { path: to.clone(), size: path.metadata()?.len(), sha256: sha256_of(path)? })
    };
    let stamps = files.iter().map(stamp).collect::<Result<Vec<_>, _>>();
    let stamps =
        stamps.map_err(|error| FleetError::machine(format!("cannot read a program: {error}")))?;
    let lacks: Vec<FileStamp> = machine.agent.ask(&Request::Lacks { files: stamps })?;
    if lacks.is_empty() {
        return Ok(());
    }
    let total = lacks.iter().map(|file| file.size).sum();
    let mut meter = Meter::begin(machine.agent.machine(), what, total);
    for file in lacks {
        let Some((path, _)) = files.iter().find(|(_, to)| *to == file.path) else { continue };
        let unread = |error: std::io::Error| FleetError::file("read", path, &error);
        let mode = path.metadata().map_err(unread)?.permissions().mode();
        let exchange = machine.agent.open(&Request::Put { file, mode })?;
        let mut from = File::open(path).map_err(unread)?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        let mut part = vec![0; PART];
        loop {
            let read = from.read(&mut part).map_err(unread)?;
            if read == 0 {
                break;
            }
            packed.write_all(&part[..read]).map_err(unread)?;
            let bytes = std::mem::take(packed.get_mut());
            exchange.data(&bytes)?;
            meter.sent(read as u64, bytes.len() as u64);
        }
        let rest = packed.finish().map_err(unread)?;
        exchange.data(&rest)?;
        meter.sent(0, rest.len() as u64);
        exchange.end()?;
        exchange.answer::<()>()?;
    }
    meter.end();
    Ok(())
}
