//! An access gateway: NGINX that ends TLS and asks Tarantool, for each request, whether its session may
//! have what it asks for, before it passes it to the resource that it protects.
//!
//! Compares connectors: the Lua modules by which NGINX asks. Ours are in `lua/`; a study
//! names others by folder and module. A gate fails closed: what is not certainly granted does not pass, and
//! whether anything did is counted by others than the gate (`account`).
//!
//! Ready is what has loaded its connector and got an answer from Tarantool. A connector that does not load
//! is told with NGINX's own words, and no waiting changes it.
//!
//! Not here: who has which rights (`tarantool`), the protected resource (`nginx`).

mod account;
mod lua;
pub(crate) mod recipe;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bakeoff_core::check::Audit;
use bakeoff_core::record::{Encryption, Guarantees, Setting};
use bakeoff_core::study::{self, Kind, KindOption, Operation, OptionForm, Role, Tier, Workload};
use bakeoff_core::units::parse_duration;
use bakeoff_engine::works::keyed::Keyed;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{Clients, Declaration, GuaranteeRules, Hooks, Origin};
use super::http_requests::OwnField;
use super::nginx::config::{Plan, quoted};
use super::nginx::status::Status;
use super::nginx::workers;
use super::{
    ASKED, Access, Asked, ClusterStatus, Description, NotReady, System, SystemError, http_requests,
    option, setting, tarantool,
};
use account::Witnesses;
use lua::{Connector, Server};

/// The system for the registry.
pub(crate) const SYSTEM: &dyn System = &AccessGateway;

/// NGINX, Lua and a Tarantool that knows the rights.
#[derive(Debug)]
pub(crate) struct AccessGateway;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "connector",
        form: OptionForm::Word(&["pooled", "per-request", "greets-again", "none", "own"]),
        meaning: "how it asks Tarantool: over connections that are kept and were greeted once, over a new \
                  one each time, with the fault of waiting for a greeting again, not at all, or by a module \
                  of your own; pooled when absent",
    },
    KindOption {
        name: "connector.path",
        form: OptionForm::Text,
        meaning: "the folder of a connector of your own, and of what it needs",
    },
    KindOption {
        name: "connector.module",
        form: OptionForm::Text,
        meaning: "its name as for Lua's `require`: resty.tarantool",
    },
    KindOption {
        name: "connector.convention",
        form: OptionForm::Word(&["new", "call", "check"]),
        meaning: "how it is asked: an object by `module:new(options)`, an object by `module(options)`, or \
                  `module.check(session, resource, server)`; by what the module has when absent",
    },
    KindOption {
        name: "workers",
        form: OptionForm::Number,
        meaning: "how many worker processes it has; 1 when absent, as by NGINX's default",
    },
    KindOption {
        name: "socket-timeout",
        form: OptionForm::Duration,
        meaning: "how long it waits for Tarantool; 500ms when absent",
    },
];

const RIGHTS: &str = "rights";
const PROTECTED: &str = "protected";
const ROLES: &[Role] = &[
    Role {
        name: RIGHTS,
        kinds: &["tarantool"],
        tier: Tier::Backend,
        meaning: "who knows which session may have what",
    },
    Role {
        name: PROTECTED,
        kinds: &["nginx"],
        tier: Tier::Backend,
        meaning: "what is passed to those who may have it",
    },
];

const SOCKET_TIMEOUT: Duration = Duration::from_millis(500);
/// Idle connections to the protected resource that each worker keeps.
const UPSTREAM_KEEPALIVE: u32 = 128;
/// Where the gate says whether its connector works, on the port of its status.
const TRY: &str = "/connector";

impl System for AccessGateway {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            clients: Clients { authentication: Some("a session's cookie"), ..Clients::default() },
            hooks: Hooks { account: Some(account), ..Hooks::default() },
            ..Declaration::new(
                Kind {
                    operations: &[Operation::Request, Operation::Denied],
                    options: OPTIONS,
                    roles: ROLES,
                    sound,
                    lacks: |system, operation| {
                        let unchecked = operation == Operation::Denied && !asks(system);
                        unchecked
                            .then(|| "a gate with `connector: none` lets everybody pass".to_owned())
                    },
                    ..Kind::new("access-gateway")
                },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError> {
        let unsound = |problem: &str| HostError::Spec {
            node: asked.node_names().next().unwrap_or_default(),
            problem: problem.to_owned(),
        };
        let installed = asked.installed()?;
        let around = recipe::around(Path::new(&installed.command()[0]));
        let around = around.map_err(|lacking| unsound(&format!("NGINX {lacking}")))?;
        let protected = asked.neighbour(PROTECTED).and_then(|one| one.nodes.first());
        let protected = protected.ok_or_else(|| unsound("there is nothing to protect"))?;
        let rights = asked.neighbour(RIGHTS).map(|one| one.nodes.clone()).unwrap_or_default();
        let servers: Vec<Server> = rights.iter().filter_map(server).collect();
        let timeout = socket_timeout(asked.system);
        let connector = connector(asked.system).filter(|_| !servers.is_empty());
        let seat = asked.seat(0);
        let (client, status) = (ports.take_for(seat)?, ports.take_for(seat)?);

        let mut http = format!(
            "upstream protected {{ server {}; keepalive {UPSTREAM_KEEPALIVE}; }}\n",
            protected.target.address
        );
        let mut server = String::from(
            "location / {\n      \
             proxy_pass http://protected;\n      \
             proxy_http_version 1.1;\n      \
             proxy_set_header Connection \"\";\n",
        );
        let mut status_server = String::new();
        let mut files = Vec::new();
        let mut modules = Vec::new();
        let mut settings = vec![setting(
            "upstream keepalive, proxy_http_version, Connection",
            format!("{UPSTREAM_KEEPALIVE}, 1.1, empty"),
            "each request would make a connection to the protected resource otherwise",
        )];
        if let Some(connector) = &connector {
            let path = package_path(connector, &around.library)
                .map_err(|path| unsound(&path.to_string()))?;
            let wait = timeout.as_millis();
            http.push_str(&format!(
                "  lua_package_path {};\n  \
                 lua_socket_connect_timeout {wait}ms;\n  \
                 lua_socket_send_timeout {wait}ms;\n  \
                 lua_socket_read_timeout {wait}ms;\n",
                quoted(&path)
            ));
            server.push_str("      access_by_lua_block { require(\"bakeoff.gate\").enter() }\n");
            status_server = format!("location = {TRY} {{ content_by_lua_file lua/try.lua; }}");
            files = lua::files(connector, &servers, timeout);
            modules = around.modules;
            settings.extend(settings_of(connector, asked, timeout));
        }
        server.push_str("    }");
        let plan = Plan {
            workers: asked.option("workers").unwrap_or("1"),
            client,
            status,
            tls: true,
            modules: &modules,
            http: &http,
            server: &server,
            status_server: &status_server,
        };
        let mut description = plan.describe(asked, installed, files, settings)?;
        description.between = Some(("plain", Encryption::Plain));
        description.memory.keep(Status::at(seat.at(status)));
        if connector.is_some() {
            description.memory.keep(Witnesses { protected: protected.clone(), rights });
        }
        Ok(description)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        for node in nodes {
            // Nothing is known of one that runs already but that it speaks TLS.
            let Some(status) = node.memory.get::<Status>() else { continue };
            status.requests(node)?;
            if node.memory.get::<Witnesses>().is_none() {
                continue;
            }
            match status.answer(node, TRY)? {
                (200, _) => {}
                (500, why) => {
                    return Err(NotReady::Never {
                        seen: format!("the connector of `{}` {}", node.name, why.trim()),
                        hint: "`connector.path` is the folder that holds the module and what it \
                               needs, `connector.module` its name as for `require`"
                            .to_owned(),
                    });
                }
                (_, why) => {
                    let name = &node.name;
                    return Err(format!("the connector of `{name}` gets no answer: {why}").into());
                }
            }
        }
        Ok(ClusterStatus::default())
    }

    fn prepare(
        &self,
        first: &Access,
        _: &[Access],
        workload: &Workload,
        _: &Keyed,
    ) -> Result<(), SystemError> {
        if let Some(witnesses) = first.memory.get::<Witnesses>() {
            tarantool::fill_sessions(&witnesses.rights, workload.keys.count)?;
        }
        http_requests::prepare(first, workload, Some(COOKIE))
    }
}

/// Says what it guarantees under these options.
fn guarantees(asked: &study::System) -> Guarantees {
    let acknowledged = match asks(asked) {
        true => "what Tarantool granted passes; a refusal is 403, no answer 500 or 503",
        false => "whoever asks passes: nothing is checked",
    };
    Guarantees {
        replication: "none: it has no data".into(),
        acknowledged: acknowledged.into(),
        reads: "what the protected resource answers".into(),
        ..Guarantees::default()
    }
}

/// Holds what was let through against what was granted.
fn account(nodes: &[Access]) -> Option<Box<dyn FnOnce() -> Audit>> {
    let witnesses = nodes.first()?.memory.get::<Witnesses>()?;
    Some(witnesses.account())
}

/// The cookie of a request.
const COOKIE: OwnField = OwnField { name: "Cookie", write: write_session };

/// Appends the session of a request: one that may have what it asks for, or one that may not.
fn write_session(operation: Operation, number: u64, out: &mut Vec<u8>) {
    let session = match operation {
        Operation::Denied => tarantool::stranger_name(number),
        _ => tarantool::session_name(number),
    };
    out.extend_from_slice(b"session=");
    out.extend_from_slice(session.as_bytes());
}

/// A Tarantool to ask, if it is known as whom.
fn server(node: &Access) -> Option<Server> {
    let credentials = node.memory.get::<tarantool::Credentials>()?;
    Some(Server {
        address: node.target.address,
        user: credentials.user.clone(),
        password: credentials.password.clone(),
    })
}

/// Returns the connector that asks Tarantool; `None` for a gate without one.
fn connector(asked: &study::System) -> Option<Connector> {
    let text = |name| option(asked, name).map(str::to_owned);
    match (option(asked, "connector"), text("connector.path"), text("connector.module")) {
        (Some("none"), ..) => None,
        (Some("per-request"), ..) => Some(Connector::PerRequest),
        (Some("greets-again"), ..) => Some(Connector::GreetsAgain),
        (_, Some(path), Some(module)) => {
            Some(Connector::Own { path, module, convention: text("connector.convention") })
        }
        _ => Some(Connector::Pooled),
    }
}

/// Returns whether it asks anybody.
fn asks(asked: &study::System) -> bool {
    option(asked, "connector") != Some("none")
}

fn socket_timeout(asked: &study::System) -> Duration {
    option(asked, "socket-timeout")
        .and_then(|text| parse_duration(text).ok())
        .unwrap_or(SOCKET_TIMEOUT)
}

/// A folder whose name Lua reads as something else.
#[derive(Debug)]
struct UnusableFolder(String);

impl fmt::Display for UnusableFolder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Lua cannot look for modules in `{}`: of that name", self.0)
    }
}

impl std::error::Error for UnusableFolder {}

/// Returns where Lua looks for modules: those of the gate, those of a connector that is somebody else's, those of
/// NGINX's Lua module, and then where it looks by default.
fn package_path(connector: &Connector, library: &Path) -> Result<String, UnusableFolder> {
    let mut patterns = vec![lua::PATTERN.to_owned()];
    let mut add = |folder: &Path| {
        // The node starts in a folder of its own.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = folder.to_string_lossy();
        if folder.contains([';', '?', '$', '\n']) {
            return Err(UnusableFolder(folder.into_owned()));
        }
        patterns.push(format!("{folder}/?.lua"));
        patterns.push(format!("{folder}/?/init.lua"));
        Ok(())
    };
    if let Connector::Own { path, .. } = connector {
        add(Path::new(path))?;
    }
    add(library)?;
    Ok(format!("{};;", patterns.join(";")))
}

fn settings_of(connector: &Connector, asked: &Asked<'_>, timeout: Duration) -> Vec<Setting> {
    let why = match asked.option("socket-timeout") {
        Some(_) => ASKED,
        None => "what was published waited so long; its default is a minute",
    };
    let mut settings = vec![
        setting("access_by_lua", "check_access for each request", "it is what a gate is"),
        setting("lua_socket_*_timeout", format!("{} ms", timeout.as_millis()), why),
    ];
    if let Connector::Own { path, .. } = connector {
        settings.push(setting("lua_package_path", path, ASKED));
    }
    for name in ["connector", "connector.module", "connector.convention"] {
        settings.extend(asked.option(name).map(|value| setting(name, value, ASKED)));
    }
    settings
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    if !system.is_started() {
        return Ok(());
    }
    let set = |name| option(system, name).is_some();
    let (path, module) = (set("connector.path"), set("connector.module"));
    let own = "write `connector: {path: ./connectors, module: resty.tarantool}`";
    if path != module {
        return wrong("a connector of your own needs both a path and a module", own);
    }
    match option(system, "connector") {
        Some("own") if !path => return wrong("it does not say which connector is its own", own),
        Some(word) if word != "own" && path => {
            return wrong(&format!("it has both `connector: {word}` and one of its own"), own);
        }
        _ => {}
    }
    if set("connector.convention") && !path {
        return wrong("only a connector of your own has a convention", own);
    }
    let rights = system.parts.contains_key(RIGHTS);
    if rights != asks(system) {
        return match rights {
            true => wrong("it asks nobody, and has `rights`", "leave `rights` out"),
            false => wrong(
                "nobody knows who may pass",
                "add `parts: {rights: {kind: tarantool}}`, or write `connector: none`",
            ),
        };
    }
    match system.parts.get(PROTECTED) {
        None => wrong("it protects nothing", "add `parts: {protected: {kind: nginx}}`"),
        Some(part) if option(part, "tls") == Some("on") => wrong(
            "it ends TLS, and what it protects speaks it too",
            "leave `tls` of `protected` out",
        ),
        Some(_) => workers(system),
    }
}
