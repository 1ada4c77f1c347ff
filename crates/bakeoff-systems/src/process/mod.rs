//! Runs any HTTP service that a command starts, such as a user's own gateway in two versions.
//!
//! The study's `process` gives the command, its environment, its files and its readiness check. The workload's
//! `request` defines the load. The program is looked up before anything starts, or fetched if bakeoff has a source for
//! it, and its SHA-256 is recorded. If the study names a version, the output of `--version` is recorded too; a program
//! that does not know that option might start to serve.
//!
//! The service may listen on other addresses. `cluster` checks that and reports it.
//!
//! Not here: words in braces (`words`), the requests (`http_requests`), a service that already runs (`http`).

pub(crate) mod recipe;
#[cfg(test)]
mod tests;
mod words;

use bakeoff_core::record::Setting;
use bakeoff_core::study::{self, Kind, Operation, ProcessText, Role, Tier, UnknownPlaceholder};
use bakeoff_engine::LoadError;
use bakeoff_engine::tls::{Authority, CaPem, TlsOptions, Trust, client_config};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, Location, NodeFile, NodeSpec};
use bakeoff_install::InstalledProgram;

use super::carried_access::ClientTrust;
use super::declaration::{Declaration, Origin};
use super::exchange;
use super::http_session::ask;
use super::http_status_text;
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, Memory, NotReady, System,
    SystemError, setting, variables,
};
use words::{AddressHalf, CLIENT, Diagnostic, IdentityFile, Meaning, Place, WordProblem, written};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Process;

#[derive(Debug)]
pub(crate) struct Process;

const ROLES: &[Role] = &[Role {
    name: "backend",
    kinds: &["process", "nginx"],
    tier: Tier::Backend,
    meaning: "the server behind it; `{backend}` is its address",
}];

impl System for Process {
    fn declares(&self) -> Declaration {
        Declaration::new(
            Kind {
                operations: &[Operation::Request, Operation::Denied],
                roles: ROLES,
                sound,
                misspelt,
                nodes_max: 9,
                is_process: true,
                ..Kind::new("process")
            },
            Origin::Study(
                "the study's `command`: a path, a name on `PATH`, or a program that bakeoff fetches: \
                 `nginx`, `caddy`, `traefik`, or that of another kind",
            ),
        )
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let unsound =
            |problem: String| HostError::Spec { node: context.system.name.clone(), problem };
        let process = context.system.process.as_ref();
        let process = process.ok_or_else(|| unsound("it has no command".into()))?;
        let installed = context.installed()?;
        let memory = Memory::default();
        memory.keep(Readiness(process.ready.clone()));
        let made = |error: LoadError| unsound(error.to_string());
        let (tls, authority) = match &context.system.tls {
            Some(tls) => {
                let texts = TlsOptions::from(tls).read().map_err(made)?;
                memory.keep(ClientTrust { texts, otherwise: Trust::Machine });
                (Some(client_config(Some(tls), Trust::Machine, &[]).map_err(made)?), None)
            }
            None if wants_identity(context.system, process) => {
                let authority = Authority::new().map_err(made)?;
                memory.keep(CaPem(authority.ca_pem()));
                (Some(authority.client_config(&[]).map_err(made)?), Some(authority))
            }
            None => (None, None),
        };
        let mut nodes = Vec::new();
        for (name, location) in context.located() {
            let mut node = node(context, process, installed, (name, location), ports)?;
            if let Some(authority) = &authority {
                node.files.extend(identity_files(authority, location).map_err(made)?);
            }
            nodes.push(node);
        }
        let settings = settings(process);
        Ok(Description { nodes, settings, memory, tls, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        for node in nodes {
            let ready = node.memory.get::<Readiness>().ok_or("it was not started here")?;
            // Some servers show their own certificate until they have read their configuration.
            let not_yet = |why: SystemError| NotReady::NotYet(why.to_string());
            let Some(path) = &ready.0 else {
                exchange::handshake(node).map_err(|why| not_yet(why.seen()))?;
                continue;
            };
            let (status, body) = ask(node, "GET", path).map_err(not_yet)?;
            if !(200..300).contains(&status) {
                let reply = http_status_text(status, body.as_bytes());
                return Err(format!("`GET {path}` of `{}` returned {reply}", node.name).into());
            }
        }
        Ok(ClusterStatus::default())
    }
}

/// Path that answers with a success once the node can serve. `None`: an accepted connection is enough.
struct Readiness(Option<String>);

/// Returns the study's settings. Values `$NAME` stay unexpanded.
fn settings(process: &study::Process) -> Vec<Setting> {
    let command = [setting("command", process.command.join(" "), ASKED)];
    let environment = process.environment.iter();
    command
        .into_iter()
        .chain(environment.map(|(name, value)| setting(name, value, ASKED)))
        .collect()
}

fn node(
    context: &DescribeContext<'_>,
    process: &study::Process,
    installed: &InstalledProgram,
    (name, location): (String, Location),
    ports: &mut Allocator,
) -> Result<NodeSpec, HostError> {
    let unsound = |problem: String| HostError::Spec { node: name.clone(), problem };
    let here = std::env::current_dir().map_err(|error| {
        unsound(format!("the working directory of bakeoff is unknown: {error}"))
    })?;
    let dir = context.dir.join(&name);
    let dir = std::path::absolute(&dir)
        .map_err(|error| HostError::io("use the node's directory", &dir, error))?;
    let mut own: Vec<(String, u16)> = Vec::new();
    for purpose in purposes(context.system, process) {
        own.push((purpose, ports.take_for(location)?));
    }
    let port = |purpose: &str| own.iter().find(|(name, _)| name == purpose).map_or(0, |one| one.1);
    let mut write = |meaning: Meaning| match meaning {
        Meaning::Port(purpose) => port(&purpose).to_string(),
        Meaning::Address => location.address.to_string(),
        Meaning::Dir => dir.display().to_string(),
        Meaning::Here => here.display().to_string(),
        Meaning::Node => name.clone(),
        Meaning::Identity(file) => dir.join(file.path()).display().to_string(),
        Meaning::Part { role, node } => match node {
            None => authorities(context, role).join(","),
            Some(node) => {
                authorities(context, role).get(node).copied().unwrap_or_default().to_owned()
            }
        },
        Meaning::HalfOf { role, half } => {
            let all = authorities(context, role);
            let (address, port) =
                all.first().and_then(|first| first.rsplit_once(':')).unwrap_or_default();
            match half {
                AddressHalf::Address => address.trim_matches(['[', ']']).to_owned(),
                AddressHalf::Port => port.to_owned(),
            }
        }
    };
    let mut text = |text: &str, place| {
        written(text, context.system, place, &mut write).map_err(|fault| unsound(fault.what))
    };
    let words = process.command.iter().skip(1).map(|word| text(word, Place::Ours));
    let args = words.collect::<Result<Vec<_>, _>>()?;
    let mut env = installed.env();
    for (variable, value) in &process.environment {
        let value = match value.starts_with('$') {
            true => variables::expanded(value).map_err(|unset| unsound(unset.to_string()))?,
            false => text(value, Place::Ours)?,
        };
        env.push((variable.clone(), value));
    }
    let mut files = Vec::new();
    for (path, contents) in &process.files {
        files.push(NodeFile {
            path: path.into(),
            contents: text(contents, Place::File)?.into_bytes(),
            mode: FileMode::Readable,
        });
    }
    Ok(NodeSpec {
        program: (&installed.command()[0]).into(),
        args: args.into_iter().map(Into::into).collect(),
        env,
        files,
        dir,
        location,
        ports: own,
        limits: context.system.limits.clone(),
        name: name.clone(),
        ..NodeSpec::default()
    })
}

/// Returns the addresses of a part's nodes, with their ports.
fn authorities<'a>(context: &'a DescribeContext<'_>, role: &str) -> Vec<&'a str> {
    let nodes = context.neighbour(role).map_or(&[][..], |part| &part.nodes);
    nodes.iter().map(|node| &*node.authority).collect()
}

/// Returns true if a word refers to a certificate that bakeoff generates.
fn wants_identity(system: &study::System, process: &study::Process) -> bool {
    let mut wants = false;
    for (_, text, place) in texts(process) {
        // Reading the study has checked the text.
        let _ = written(text, system, place, &mut |meaning: Meaning| {
            wants |= matches!(meaning, Meaning::Identity(_));
            String::new()
        });
    }
    wants
}

/// Generates a node's certificate and key, in all forms.
fn identity_files(authority: &Authority, location: Location) -> Result<Vec<NodeFile>, LoadError> {
    let identity = authority.server_at(location.address)?;
    let file = |file: IdentityFile| {
        let (mode, text) = match file {
            IdentityFile::Certificate => (FileMode::Readable, identity.cert_pem.clone()),
            IdentityFile::Key => (FileMode::Private, identity.key_pem.clone()),
            IdentityFile::Both => {
                (FileMode::Private, format!("{}{}", identity.cert_pem, identity.key_pem))
            }
        };
        NodeFile { path: file.path().into(), contents: text.into_bytes(), mode }
    };
    Ok(IdentityFile::ALL.map(file).into())
}

/// Returns all texts that may hold words.
fn texts(process: &study::Process) -> impl Iterator<Item = (ProcessText, &str, Place)> {
    let command = process.command.iter().enumerate().skip(1);
    let command =
        command.map(|(place, word)| (ProcessText::Command(place), word.as_str(), Place::Ours));
    let environment = process.environment.iter().filter(|(_, value)| !value.starts_with('$'));
    let environment = environment
        .map(|(name, value)| (ProcessText::Environment(name.clone()), value.as_str(), Place::Ours));
    let files = process.files.iter();
    let files =
        files.map(|(path, text)| (ProcessText::File(path.clone()), text.as_str(), Place::File));
    command.chain(environment).chain(files)
}

/// Returns the first unknown word of each text.
fn misspelt(system: &study::System) -> Vec<UnknownPlaceholder> {
    let one = |(within, text, place): (ProcessText, &str, Place)| {
        let WordProblem { word, what, hint } =
            written(text, system, place, &mut |_| String::new()).err()?;
        let text = match &within {
            ProcessText::Command(_) => "`command`".to_owned(),
            ProcessText::Environment(name) => format!("`{name}`"),
            ProcessText::File(path) => format!("file `{path}`"),
        };
        Some(UnknownPlaceholder { within, word, what: format!("{text}: {what}"), hint })
    };
    system.process.iter().flat_map(texts).filter_map(one).collect()
}

/// Returns the distinct purposes of the ports in a command, that of the clients first.
fn purposes(system: &study::System, process: &study::Process) -> Vec<String> {
    let mut purposes = vec![CLIENT.to_owned()];
    for (_, text, place) in texts(process) {
        // Reading the study has checked the text.
        let _ = written(text, system, place, &mut |meaning: Meaning| {
            if let Meaning::Port(purpose) = meaning
                && !purposes.contains(&purpose)
            {
                purposes.push(purpose);
            }
            String::new()
        });
    }
    purposes
}

fn sound(system: &study::System) -> Result<(), Diagnostic> {
    let diagnostic = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    if !system.is_started() {
        return diagnostic(
            "a service that already runs has no command",
            "write `kind: http`, and leave `process` out",
        );
    }
    if system.program.is_some() {
        return diagnostic(
            "it has a `program`, but its command already starts with one",
            "leave `program` out",
        );
    }
    // Reading the study reports a missing `process`.
    let Some(process) = &system.process else { return Ok(()) };
    let program = process.command.first().map(String::as_str).unwrap_or_default();
    if program.is_empty() || program.contains(['{', '}']) {
        return diagnostic(
            "its command does not start with a program",
            "the first word must be a path or a name on `PATH`; only later words may hold `{here}`",
        );
    }
    if system.tls.is_some() && wants_identity(system, process) {
        return diagnostic(
            "it has `tls`, but `{cert}` or `{key}` makes bakeoff generate a certificate",
            "leave out `tls`: clients trust the certificates that bakeoff generates",
        );
    }
    let mut listens = false;
    for (_, text, place) in texts(process) {
        // Unknown words are reported separately.
        let _ = written(text, system, place, &mut |meaning: Meaning| {
            listens |= meaning == Meaning::Port(CLIENT.to_owned());
            String::new()
        });
    }
    if !listens {
        return diagnostic(
            "no text holds `{port}`, so it cannot know where to listen",
            "write it into the command, the environment or a file: `--listen {address}:{port}`; if it \
             chooses its own port, start it yourself and use kind `http`",
        );
    }
    Ok(())
}
