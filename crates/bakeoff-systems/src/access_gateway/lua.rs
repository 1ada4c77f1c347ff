//! Writes the Lua scripts of a gateway, which are in `lua/`, and their settings.
//!
//! Not here: NGINX's own configuration (the kind), the build of its Lua module (`recipe`).

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use bakeoff_host::{FileMode, NodeFile};

/// Lua module that queries Tarantool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Connector {
    /// One of bakeoff's modules.
    Pooled,
    PerRequest,
    GreetsAgain,
    /// Subrequests through Tarantool's module for NGINX.
    Upstream,
    /// The same without Lua: `auth_request` takes each answer for a grant (a fault).
    AuthRequest,
    /// A user's module, in its own folder.
    Own {
        path: String,
        module: String,
        convention: Option<String>,
    },
}

/// A Tarantool node and the credentials for it.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) user: String,
    pub(super) password: String,
}

/// Folder of the scripts, in the node's folder.
const FOLDER: &str = "lua";
/// Search path relative to the node's folder, where NGINX is started.
pub(super) const PATTERN: &str = "lua/?.lua";

const SCRIPTS: [(&str, &str); 9] = [
    ("bakeoff/messagepack.lua", include_str!("lua/messagepack.lua")),
    ("bakeoff/iproto.lua", include_str!("lua/iproto.lua")),
    ("bakeoff/pooled.lua", include_str!("lua/pooled.lua")),
    ("bakeoff/per_request.lua", include_str!("lua/per_request.lua")),
    ("bakeoff/greets_again.lua", include_str!("lua/greets_again.lua")),
    ("bakeoff/upstream.lua", include_str!("lua/upstream.lua")),
    ("bakeoff/foreign.lua", include_str!("lua/foreign.lua")),
    ("bakeoff/gateway.lua", include_str!("lua/gateway.lua")),
    ("try.lua", include_str!("lua/try.lua")),
];

/// Returns all scripts of a gateway.
pub(super) fn files(connector: &Connector, servers: &[Server], timeout: Duration) -> Vec<NodeFile> {
    let file = |name: &str, text: &str, mode| NodeFile {
        path: [FOLDER, name].iter().collect(),
        contents: text.as_bytes().to_vec(),
        mode,
    };
    let settings = settings(connector, servers, timeout);
    let scripts = SCRIPTS.iter().map(|(name, text)| file(name, text, FileMode::Readable));
    // The settings hold passwords.
    scripts.chain([file("bakeoff/settings.lua", &settings, FileMode::Private)]).collect()
}

/// Returns the scripts' settings as a Lua module.
fn settings(connector: &Connector, servers: &[Server], timeout: Duration) -> String {
    let script = match connector {
        Connector::Pooled => "bakeoff.pooled",
        Connector::PerRequest => "bakeoff.per_request",
        Connector::GreetsAgain => "bakeoff.greets_again",
        Connector::Upstream | Connector::AuthRequest => "bakeoff.upstream",
        Connector::Own { .. } => "bakeoff.foreign",
    };
    let mut text = format!("return {{\n  connector = {},\n", quoted(script));
    if let Connector::Own { module, convention, .. } = connector {
        let _ = writeln!(text, "  module = {},", quoted(module));
        if let Some(convention) = convention {
            let _ = writeln!(text, "  convention = {},", quoted(convention));
        }
    }
    text.push_str("  servers = {\n");
    for Server { address, user, password } in servers {
        let _ = writeln!(
            text,
            "    {{ host = {}, port = {}, user = {}, password = {}, timeout = {} }},",
            quoted(&address.ip().to_string()),
            address.port(),
            quoted(user),
            quoted(password),
            timeout.as_millis()
        );
    }
    text.push_str("  },\n}\n");
    text
}

/// Quotes a text as a Lua string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => quoted.push(byte.into()),
            byte => {
                let _ = write!(quoted, "\\{byte:03}");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_a_private_lua_module() {
        let connector = Connector::Own {
            path: "/x".into(),
            module: "resty.tarantool".into(),
            convention: Some("new".into()),
        };
        let server = Server {
            address: ([127, 0, 0, 1], 3301).into(),
            user: "gateway".into(),
            password: "a\"\\\nß".into(),
        };
        let files = files(&connector, &[server], Duration::from_millis(500));
        let settings = files.iter().find(|file| file.path.ends_with("settings.lua")).unwrap();
        assert_eq!(settings.mode, FileMode::Private);
        assert_eq!(
            String::from_utf8(settings.contents.clone()).unwrap(),
            "return {\n  connector = \"bakeoff.foreign\",\n  module = \"resty.tarantool\",\n  \
             convention = \"new\",\n  servers = {\n    { host = \"127.0.0.1\", port = 3301, \
             user = \"gateway\", password = \"a\\034\\092\\010\\195\\159\", timeout = 500 },\n  },\n}\n"
        );
        let secret = files.iter().filter(|file| file.mode == FileMode::Private);
        assert_eq!(secret.count(), 1);
    }
}
