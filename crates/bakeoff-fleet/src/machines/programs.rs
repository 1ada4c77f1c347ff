//! Brings programs to machines: from this machine's cache into theirs, whatever they lack of it.
//!
//! A program of the cache is a folder whose files are hashed; it goes to the same place below their cache. One
//! from elsewhere goes by itself. A runtime (Java, Node.js) is the machine's own, and has to be there.
//!
//! Not here: finding programs on this machine (`bakeoff_install`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bakeoff_agent::{AgentError, FileStamp, Request, own_machine};
use bakeoff_core::study;
use bakeoff_host::HostError;
use bakeoff_install::{
    Installed, Program, Runtime, RuntimeFound, RuntimeMissing, Shape, sha256_of,
};
use bakeoff_systems as systems;

use super::order::{Order, duty};
use super::{Machine, Machines};
use crate::error::FleetError;

/// Bytes of a file that are read at once.
const PART: usize = 256 << 10;

/// Refuses a machine that lacks the runtime of a program, or has one that is too old.
fn check_runtime(
    is_pod: bool,
    machine: &Machine,
    program: &Installed,
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
                "`{system}` needs {} {least} or newer, and `{name}` has none: {seen}",
                runtime.name()
            ),
            match is_pod {
                false => format!("install it on `{name}`, or keep it from `{system}`"),
                true => {
                    format!("name an image that has it as `image`, or as `images: {{{system}: …}}`")
                }
            },
        )
    })
}

/// Has a program that was sent say its version, so that a library that is missing there is told of before a trial.
fn start_once(
    machines: &Machines,
    machine: &Machine,
    (kind, program): (&str, &Installed),
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
                format!("the program of `{kind}` was brought to `{name}` and does not start there: {first}"),
                machines.remedy(kind, || format!("install what it needs on `{name}`")),
            )
        }
        _ => error.into(),
    })
}

/// Refuses to send a program to a machine whose processor it was not built for.
fn check_processor(
    machines: &Machines,
    machine: &Machine,
    (kind, program): (&str, &Installed),
) -> Result<(), FleetError> {
    let (ours, theirs) = (own_machine(), &machine.agent.hello().machine);
    let is_sent = program.folder.is_some() || !is_accompanied(kind);
    if ours == *theirs || !is_sent || !matches!(program.program, Program::Binary(_)) {
        return Ok(());
    }
    let name = machine.agent.machine();
    Err(FleetError::input(
        format!("the program of `{kind}` on this machine is for {ours}, and `{name}` is {theirs}"),
        machines.remedy(kind, || {
            format!("run bakeoff on a machine like `{name}`, or have machines of {ours} take its servers")
        }),
    ))
}

/// Returns whether a kind's program is of use only with the files around it.
fn is_accompanied(kind: &str) -> bool {
    systems::recipe_of(kind).is_some_and(|recipe| matches!(recipe.shape, Shape::Accompanied { .. }))
}

/// Sends a program to a machine that lacks it. Returns where the executable is there, where it is one.
fn send_one(
    machines: &Machines,
    machine: &Machine,
    (kind, program): (&str, &Installed),
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
            send_folder(machine, folder, &to)?;
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
                        "`{kind}` is `{}` here, which `{name}` has not; it is of use only with files around it",
                        path.display()
                    ),
                    machines.remedy(kind, || {
                        format!("install it there, or have `bakeoff install {kind}` fetch one that can be sent")
                    }),
                )),
            }
        }
        (None, Program::Binary(path)) => {
            // One that PATH leads into the cache is looked up there, as all of the cache is.
            let below = own.and_then(|own| path.strip_prefix(own).ok());
            let to = below.map_or_else(
                || sent_path(machine, path, &program.sha256),
                |below| cache.join(below),
            );
            send_files(machine, &[(path.clone(), to.clone())])?;
            Ok(Some(to))
        }
        // Jars and scripts from elsewhere are taken to be there.
        (None, _) => Ok(None),
    }
}

/// Returns where a program goes that is in no cache.
fn sent_path(machine: &Machine, path: &Path, sha256: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    machine.agent.hello().cache.join("sent").join(sha256).join(name)
}

impl Machines {
    /// Returns the words that mend a kind's program that is missing: `elsewhere` where machines are no pods.
    fn remedy(&self, kind: &str, elsewhere: impl FnOnce() -> String) -> String {
        match self.places.kubernetes {
            None => elsewhere(),
            Some(_) => format!("name an image that has it as `images: {{{kind}: …}}`"),
        }
    }

    /// Sends the program of a component to all machines that take its servers, at once. `needed`: the runtime that it
    /// needs, and its oldest major version that will do.
    ///
    /// # Errors
    /// When it cannot be sent, or its runtime is not there.
    pub fn send_program(
        &self,
        role: &str,
        kind: &str,
        program: &Installed,
        needed: Option<(Runtime, u32)>,
    ) -> Result<(), FleetError> {
        let mut places = BTreeSet::new();
        for home in self.places.servers_of(role, kind) {
            let is_there = !systems::goes_beside(kind);
            places.extend(is_there.then_some(home));
            places.extend(systems::runs_beside(kind).then(|| self.beside(home)));
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

    /// Sends a program to one machine, and has it start there once.
    fn send_to(
        &self,
        place: usize,
        (kind, program): (&str, &Installed),
        needed: Option<(Runtime, u32)>,
    ) -> Result<(), FleetError> {
        let machine = &self.each[place];
        // A runtime of its own image runs what is sent; a program of it is there.
        let in_image = self.places.machines[place].kind.is_some();
        if let Some(needed) = needed {
            check_runtime(self.places.kubernetes.is_some(), machine, program, needed)?;
        }
        if in_image && matches!(program.program, Program::Binary(_)) {
            return Ok(());
        }
        check_processor(self, machine, (kind, program))?;
        if let Some(there) = send_one(self, machine, (kind, program))? {
            start_once(self, machine, (kind, program), there)?;
        }
        Ok(())
    }

    /// Returns the program of a kind that has an image of its own, as that image has it; `None` where it is to be sent.
    ///
    /// # Errors
    /// When the image lacks it, or not all machines have the same.
    pub(crate) fn program_of_image(
        &self,
        asked: &study::System,
    ) -> Result<Option<Installed>, FleetError> {
        let images = self.places.kubernetes.iter().flat_map(|kubernetes| &kubernetes.images);
        let Some((kind, image)) = images.into_iter().find(|(kind, _)| *kind == asked.kind) else {
            return Ok(None);
        };
        let Some(recipe) = systems::recipe_for(asked) else { return Ok(None) };
        let (product, shape) = (recipe.system.to_owned(), recipe.shape);
        let machines = self.each.iter().zip(&self.places.machines);
        let own = machines.filter(|(_, place)| place.kind.as_ref() == Some(kind));
        let mut found: Option<Installed> = None;
        for (machine, place) in own {
            let order = Order::Program { kind: product.clone(), version: asked.version.clone() };
            let there: Option<Installed> = duty(&machine.agent, &order)?;
            if matches!(shape, Shape::Java { .. } | Shape::Node { .. }) {
                // The image has the runtime, or that was told; what runs on it is sent.
                continue;
            }
            let there = there.ok_or_else(|| {
                FleetError::input(
                    format!("the image `{image}` has no program of `{kind}` on its `PATH`"),
                    format!("name another in `images`, or leave out `{kind}` there: it is sent"),
                )
            })?;
            if found.as_ref().is_some_and(|first| first.sha256 != there.sha256) {
                return Err(FleetError::input(
                    format!("`{}` has another `{kind}` than other pods of `{image}`", place.name),
                    "name the image by its digest, and select nodes of one processor: `node-selector: \
                     {kubernetes.io/arch: arm64}`",
                ));
            }
            found = Some(there);
        }
        Ok(found.map(|there| Installed { source: format!("image {image}"), ..there }))
    }

    /// Returns which paths of programs are others on a machine: runtimes, and what is in no cache.
    pub(super) fn sent_programs(
        &self,
        machine: &Machine,
        program: &Path,
    ) -> Result<Vec<(PathBuf, PathBuf)>, HostError> {
        let elsewhere = |error: AgentError| HostError::Elsewhere { text: error.to_string() };
        let in_cache = self.cache.as_ref().is_some_and(|cache| program.starts_with(cache));
        // One that is not here is of an image.
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

/// Sends what a machine lacks of a folder, its links too.
fn send_folder(machine: &Machine, folder: &Path, to: &Path) -> Result<(), FleetError> {
    let (mut files, mut links) = (Vec::new(), Vec::new());
    walk(folder, &mut files, &mut links)
        .map_err(|error| FleetError::file("read", folder, &error))?;
    let moved = |path: &Path| to.join(path.strip_prefix(folder).unwrap_or(path));
    let files: Vec<(PathBuf, PathBuf)> =
        files.into_iter().map(|path| (path.clone(), moved(&path))).collect();
    send_files(machine, &files)?;
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

/// Sends the files that a machine lacks.
fn send_files(machine: &Machine, files: &[(PathBuf, PathBuf)]) -> Result<(), FleetError> {
    let stamp = |(path, to): &(PathBuf, PathBuf)| -> std::io::Result<FileStamp> {
        Ok(FileStamp { path: to.clone(), size: path.metadata()?.len(), sha256: sha256_of(path)? })
    };
    let stamps = files.iter().map(stamp).collect::<Result<Vec<_>, _>>();
    let stamps = stamps
        .map_err(|error| FleetError::machine(format!("a program cannot be read: {error}")))?;
    let lacks: Vec<FileStamp> = machine.agent.ask(&Request::Lacks { files: stamps })?;
    for file in lacks {
        let Some((path, _)) = files.iter().find(|(_, to)| *to == file.path) else { continue };
        let unread = |error: std::io::Error| FleetError::file("read", path, &error);
        let mode = path.metadata().map_err(unread)?.permissions().mode();
        let exchange = machine.agent.open(&Request::Put { file, mode })?;
        let mut from = File::open(path).map_err(unread)?;
        let mut part = vec![0; PART];
        loop {
            let read = from.read(&mut part).map_err(unread)?;
            if read == 0 {
                break;
            }
            exchange.data(&part[..read])?;
        }
        exchange.end()?;
        exchange.answer::<()>()?;
    }
    Ok(())
}
