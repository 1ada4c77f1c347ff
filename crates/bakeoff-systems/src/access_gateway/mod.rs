//! Runs an access gateway: NGINX that terminates TLS, asks Tarantool whether each request's session has access, and
//! then passes the request to the protected resource.
//!
//! Compares connectors: the Lua modules with which NGINX asks. bakeoff's are in `lua/`; a study names others by folder
//! and module. One of them asks through Tarantool's own module for NGINX, nginx_upstream_module, written in C. A gateway fails closed: a request passes only with a grant. The protected resource and Tarantool count the
//! requests independently of the gateway (`account`).
//!
//! A gateway is ready once it has loaded its connector and got an answer from Tarantool. A connector that does not load
//! fails at once with NGINX's own message.
//!
//! Not here: the access rights (`tarantool`), the protected resource (`nginx`).

mod account;
mod lua;
pub(crate) mod recipe;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_core::check::Audit;
use bakeoff_core::record::{Encryption, Guarantees, Setting};
use bakeoff_core::study::{self, Kind, KindOption, Operation, OptionForm, Role, Tier, Workload};
use bakeoff_core::units::parse_duration;
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{Clients, Declaration, GuaranteeRules, Hooks, Origin};
use super::http_requests::OwnField;
use super::nginx::config::{Plan, quoted};
use super::nginx::status::Status;
use super::nginx::workers;
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, NotReady, System, SystemError,
    http_requests, option, setting, tarantool,
};
use account::Witnesses;
use lua::{Connector, Server};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &AccessGateway;

#[derive(Debug)]
pub(crate) struct AccessGateway;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "connector",
        form: OptionForm::Word(&[
            "pooled",
            "per-request",
            "greets-again",
            UPSTREAM,
            AUTH_REQUEST,
            "none",
            "own",
        ]),
        meaning: "how it asks Tarantool: `pooled` keeps connections, `per-request` opens one each time, \
                  `greets-again` waits for a second greeting on a kept connection (a fault), `upstream` sends \
                  subrequests through nginx_upstream_module, `auth-request` does so without reading the \
                  answer (a fault), `none` does not ask, `own` is a module of yours; pooled when absent",
    },
    KindOption {
        name: UPSTREAM_MODULE,
        form: OptionForm::Text,
        meaning: "file of nginx_upstream_module, built for your NGINX: /opt/ngx_http_tnt_module.so; the one \
                  next to NGINX when absent",
    },
    KindOption {
        name: "connector.path",
        form: OptionForm::Text,
        meaning: "folder of your own connector and its dependencies",
    },
    KindOption {
        name: "connector.module",
        form: OptionForm::Text,
        meaning: "its module name for Lua's `require`: resty.tarantool",
    },
    KindOption {
        name: "connector.convention",
        form: OptionForm::Word(&["new", "call", "check"]),
        meaning: "how your module is called: `module:new(options)`, `module(options)` or \
                  `module.check(session, resource, server)`; detected when absent",
    },
    KindOption {
        name: "workers",
        form: OptionForm::Number,
        meaning: "number of worker processes; 1 when absent, NGINX's default",
    },
    KindOption {
        name: "socket-timeout",
        form: OptionForm::Duration,
        meaning: "longest wait for Tarantool; 500ms when absent",
    },
];

/// Connectors that ask through Tarantool's module for NGINX.
const UPSTREAM: &str = "upstream";
const AUTH_REQUEST: &str = "auth-request";
const UPSTREAM_MODULE: &str = "upstream-module";

const RIGHTS: &str = "rights";
const PROTECTED: &str = "protected";
const ROLES: &[Role] = &[
    Role {
        name: RIGHTS,
        kinds: &["tarantool"],
        tier: Tier::Backend,
        meaning: "the access rights of the sessions",
    },
    Role {
        name: PROTECTED,
        kinds: &["nginx"],
        tier: Tier::Backend,
        meaning: "the resource that granted requests reach",
    },
];

const SOCKET_TIMEOUT: Duration = Duration::from_millis(500);
/// Idle connections to the protected resource, per worker.
const UPSTREAM_KEEPALIVE: u32 = 128;
/// Idle connections of nginx_upstream_module to Tarantool, per worker.
const RIGHTS_KEEPALIVE: u32 = 256;
/// Path of the connector's self-test, on the status port.
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
                        unchecked.then(|| {
                            "a gateway with `connector: none` lets every request pass".to_owned()
                        })
                    },
                    ..Kind::new("access-gateway")
                },
                Origin::Recipes {
                    all: &[&recipe::RECIPE, &recipe::WITH_UPSTREAM_MODULE],
                    select: |system| {
                        let builds =
                            uses_module(system) && option(system, UPSTREAM_MODULE).is_none();
                        builds.then_some(recipe::WITH_UPSTREAM_MODULE.system)
                    },
                },
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let unsound = |problem: &str| HostError::Spec {
            node: context.node_names().next().unwrap_or_default(),
            problem: problem.to_owned(),
        };
        let installed = context.installed()?;
        let around = recipe::around(Path::new(&installed.command()[0]));
        let around = around.map_err(|lacking| unsound(&format!("NGINX {lacking}")))?;
        let protected = context.neighbour(PROTECTED).and_then(|one| one.nodes.first());
        let protected = protected.ok_or_else(|| unsound("it has no protected resource"))?;
        let rights = context.neighbour(RIGHTS).map(|one| one.nodes.clone()).unwrap_or_default();
        let servers: Vec<Server> = rights.iter().filter_map(server).collect();
        let timeout = socket_timeout(context.system);
        let connector = connector(context.system).filter(|_| !servers.is_empty());
        let location = context.location(0);
        let (client, status) = (ports.take_for(location)?, ports.take_for(location)?);

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
        let (mut locations, mut status_server) = (String::new(), String::new());
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
            server.push_str(match connector {
                Connector::AuthRequest => "      auth_request /bakeoff/authorize;\n",
                _ => "      access_by_lua_block { require(\"bakeoff.gateway\").enter() }\n",
            });
            status_server = format!("location = {TRY} {{ content_by_lua_file lua/try.lua; }}");
            files = lua::files(connector, &servers, timeout);
            modules = around.modules;
            if uses_module(context.system) {
                // Nodes run in their own folder, so make the path absolute.
                let given = context.option(UPSTREAM_MODULE).map(PathBuf::from);
                let given = given.map(|path| std::path::absolute(&path).unwrap_or(path));
                modules.push(given.or(around.upstream_module).ok_or_else(|| {
                    unsound("NGINX has no `ngx_http_tnt_module.so` next to its other modules")
                })?);
                http.push_str(&format!("  {}\n", rights_upstream(&servers)));
                let location = check_access_location(timeout);
                status_server.push_str(&format!("\n    {location}"));
                locations.push_str(&format!("\n    {location}"));
                if *connector == Connector::AuthRequest {
                    locations.push_str(&format!("\n    {}", authorize_location(timeout)));
                }
            }
            settings.extend(settings_of(connector, context, timeout));
        }
        server.push_str("    }");
        server.push_str(&locations);
        let plan = Plan {
            workers: context.option("workers").unwrap_or("1"),
            client,
            status,
            tls: true,
            modules: &modules,
            http: &http,
            server: &server,
            status_server: &status_server,
        };
        let mut description = plan.describe(context, installed, files, settings)?;
        description.between = Some(("plain", Encryption::Plain));
        description.memory.keep(Status::at(location.at(status)));
        if connector.is_some() {
            description.memory.keep(Witnesses { protected: protected.clone(), rights });
        }
        Ok(description)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        for node in nodes {
            // A cluster that bakeoff did not start gives no status; its TLS handshake has to do.
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
                               needs, `connector.module` its name for `require`"
                            .to_owned(),
                    });
                }
                (_, why) => {
                    let name = &node.name;
                    return Err(format!("the connector of `{name}` got no answer: {why}").into());
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
        _: &KeyedState,
    ) -> Result<(), SystemError> {
        if let Some(witnesses) = first.memory.get::<Witnesses>() {
            tarantool::fill_sessions(&witnesses.rights, workload.keys.count)?;
        }
        http_requests::prepare(first, workload, Some(COOKIE))
    }
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    let acknowledged = match asks(system) {
        true => "a request passes if Tarantool grants it; a refusal is 403, no answer 500 or 503",
        false => "every request passes unchecked",
    };
    Guarantees {
        replication: "none: it has no data".into(),
        acknowledged: acknowledged.into(),
        reads: "the protected resource's answer".into(),
        ..Guarantees::default()
    }
}

/// Starts the comparison of served with granted requests.
fn account(nodes: &[Access]) -> Option<Box<dyn FnOnce() -> Audit>> {
    let witnesses = nodes.first()?.memory.get::<Witnesses>()?;
    Some(witnesses.account())
}

/// Cookie header with the session of a request.
const COOKIE: OwnField = OwnField { name: "Cookie", write: write_session };

/// Appends the session of a request: a granted one, or an unknown one for `denied`.
fn write_session(operation: Operation, number: u64, out: &mut Vec<u8>) {
    let session = match operation {
        Operation::Denied => tarantool::stranger_name(number),
        _ => tarantool::session_name(number),
    };
    out.extend_from_slice(b"session=");
    out.extend_from_slice(session.as_bytes());
}

/// Returns a Tarantool node with its credentials, if they are known.
fn server(node: &Access) -> Option<Server> {
    let credentials = node.memory.get::<tarantool::Credentials>()?;
    Some(Server {
        address: node.target.address,
        user: credentials.user.clone(),
        password: credentials.password.clone(),
    })
}

/// Returns the connector that asks Tarantool, or `None` for a gateway without one.
fn connector(system: &study::System) -> Option<Connector> {
    let text = |name| option(system, name).map(str::to_owned);
    match (option(system, "connector"), text("connector.path"), text("connector.module")) {
        (Some("none"), ..) => None,
        (Some("per-request"), ..) => Some(Connector::PerRequest),
        (Some("greets-again"), ..) => Some(Connector::GreetsAgain),
        (Some(UPSTREAM), ..) => Some(Connector::Upstream),
        (Some(AUTH_REQUEST), ..) => Some(Connector::AuthRequest),
        (_, Some(path), Some(module)) => {
            Some(Connector::Own { path, module, convention: text("connector.convention") })
        }
        _ => Some(Connector::Pooled),
    }
}

/// Returns true if the gateway asks Tarantool.
fn asks(system: &study::System) -> bool {
    option(system, "connector") != Some("none")
}

/// Returns true if the gateway asks through nginx_upstream_module.
fn uses_module(system: &study::System) -> bool {
    matches!(option(system, "connector"), Some(UPSTREAM | AUTH_REQUEST))
}

/// Returns the `upstream` block of the Tarantool nodes.
fn rights_upstream(servers: &[Server]) -> String {
    let servers: String =
        servers.iter().map(|server| format!("server {}; ", server.address)).collect();
    format!("upstream rights {{ {servers}keepalive {RIGHTS_KEEPALIVE}; }}")
}

/// Returns the location that calls the function named in the JSON body of a request.
fn check_access_location(timeout: Duration) -> String {
    format!("location = /bakeoff/check-access {{ internal; {}tnt_pass rights; }}", waits(timeout))
}

/// Returns the location that passes the request's own session and path to `check_request`.
fn authorize_location(timeout: Duration) -> String {
    format!(
        "location = /bakeoff/authorize {{\n      \
         internal;\n      \
         set $args \"session=$cookie_session&resource=$uri\";\n      \
         tnt_http_rest_methods all;\n      \
         tnt_pass_http_request on parse_args;\n      \
         tnt_method check_request;\n      \
         {}tnt_pass rights;\n    }}",
        waits(timeout)
    )
}

/// Returns the module's time limits.
fn waits(timeout: Duration) -> String {
    let wait = timeout.as_millis();
    ["connect", "send", "read"].map(|step| format!("tnt_{step}_timeout {wait}ms; ")).concat()
}

fn socket_timeout(system: &study::System) -> Duration {
    option(system, "socket-timeout")
        .and_then(|text| parse_duration(text).ok())
        .unwrap_or(SOCKET_TIMEOUT)
}

/// A folder whose name has a special meaning in a Lua search path.
#[derive(Debug, thiserror::Error)]
#[error("Lua cannot search for modules in `{0}`: its name holds `;`, `?`, `$` or a line break")]
struct UnusableFolder(String);

/// Returns Lua's search path: the gateway's modules, the user's connector, NGINX's Lua library, and Lua's default path.
fn package_path(connector: &Connector, library: &Path) -> Result<String, UnusableFolder> {
    let mut patterns = vec![lua::PATTERN.to_owned()];
    let mut add = |folder: &Path| {
        // Nodes run in their own folder, so make the path absolute.
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

fn settings_of(
    connector: &Connector,
    context: &DescribeContext<'_>,
    timeout: Duration,
) -> Vec<Setting> {
    let why = match context.option("socket-timeout") {
        Some(_) => ASKED,
        None => "published measurements use this value; the default is a minute",
    };
    let mut settings = vec![
        setting("access_by_lua", "check_access for each request", "this check makes it a gateway"),
        setting("lua_socket_*_timeout", format!("{} ms", timeout.as_millis()), why),
    ];
    if uses_module(context.system) {
        settings.push(setting(
            "upstream rights keepalive",
            RIGHTS_KEEPALIVE,
            "the module would connect for each request otherwise",
        ));
        settings.push(setting("tnt_*_timeout", format!("{} ms", timeout.as_millis()), why));
    }
    if let Connector::Own { path, .. } = connector {
        settings.push(setting("lua_package_path", path, ASKED));
    }
    for name in ["connector", "connector.module", "connector.convention", UPSTREAM_MODULE] {
        settings.extend(context.option(name).map(|value| setting(name, value, ASKED)));
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
        Some("own") if !path => return wrong("`connector: own` needs a path and a module", own),
        Some(word) if word != "own" && path => {
            return wrong(
                &format!("it has both `connector: {word}` and a connector of your own"),
                own,
            );
        }
        _ => {}
    }
    if set("connector.convention") && !path {
        return wrong("only a connector of your own has a convention", own);
    }
    if set(UPSTREAM_MODULE) && !uses_module(system) {
        return wrong(
            "its connector does not use nginx_upstream_module",
            "write `connector: upstream`, or leave `upstream-module` out",
        );
    }
    let rights = system.parts.contains_key(RIGHTS);
    if rights != asks(system) {
        return match rights {
            true => wrong(
                "it asks nothing of `rights`, because of `connector: none`",
                "leave `rights` out",
            ),
            false => wrong(
                "it has no `rights` to ask",
                "add `parts: {rights: {kind: tarantool}}`, or write `connector: none`",
            ),
        };
    }
    if uses_module(system) && !system.parts.get(RIGHTS).is_some_and(tarantool::allows_guests) {
        return wrong(
            "nginx_upstream_module does not log in, and `rights` wants a login",
            "write `rights: {kind: tarantool, options: {guest-access: on}}`",
        );
    }
    match system.parts.get(PROTECTED) {
        None => wrong("it protects nothing", "add `parts: {protected: {kind: nginx}}`"),
        Some(part) if option(part, "tls") == Some("on") => wrong(
            "the gateway terminates TLS, but `protected` uses TLS too",
            "leave `tls` out of `protected`",
        ),
        Some(_) => workers(system),
    }
}
