//! Writes the configuration that all NGINX nodes share.
//!
//! A node writes only into its folder, stays in the foreground, logs errors to its log, and reports its counters on a
//! separate port. `Plan::settings` lists the differences from NGINX's defaults, with reasons.
//!
//! Not here: the servers of each kind (`nginx`, `access_gateway`).

use std::fmt::Write as _;
use std::path::PathBuf;

use bakeoff_core::record::Setting;
use bakeoff_engine::LoadError;
use bakeoff_engine::tls::{Authority, CaPem};
use bakeoff_host::{FileMode, HostError, Location, NodeFile, NodeSpec};
use bakeoff_install::InstalledProgram;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::{ASKED, DescribeContext, Description, Memory, setting};

/// Most connections per worker, if the machine allows as many files.
const CONNECTIONS_MAX: u64 = 10_000;
/// Files per worker besides connections.
const OTHER_FILES: u64 = 64;
/// First version with an error log option on the command line. Older versions try to write to their built-in path
/// before they read the configuration.
const ERROR_LOG_SINCE: [u64; 3] = [1, 19, 5];
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";
/// Lines for the certificate and for resuming TLS sessions.
const TLS: &str = "ssl_certificate server.crt;\n    ssl_certificate_key server.key;\n    \
                   ssl_session_cache shared:tls:10m;";

/// Settings of one NGINX node.
pub(crate) struct Plan<'a> {
    pub(crate) workers: &'a str,
    pub(crate) client: u16,
    pub(crate) status: u16,
    pub(crate) tls: bool,
    /// Paths of the modules to load.
    pub(crate) modules: &'a [PathBuf],
    /// Lines of `http`, before all servers.
    pub(crate) http: &'a str,
    /// Lines of the server that clients use.
    pub(crate) server: &'a str,
    /// Lines of the status server.
    pub(crate) status_server: &'a str,
}

impl Plan<'_> {
    /// Returns the `nginx.conf` of a node in its location.
    pub(super) fn configuration(&self, location: Location) -> String {
        let Self { workers, http, server, status_server, .. } = self;
        let (client, status) = (location.at(self.client), location.at(self.status));
        let mut text = String::new();
        for module in self.modules {
            let _ = writeln!(text, "load_module {};", quoted(&module.to_string_lossy()));
        }
        if geteuid().is_root() {
            text.push_str("user root;\n");
        }
        let (connections, files) = connections();
        let (ssl, tls) = if self.tls { (" ssl", TLS) } else { ("", "") };
        let _ = write!(
            text,
            "daemon off;\n\
             pid nginx.pid;\n\
             error_log stderr;\n\
             worker_processes {workers};\n\
             worker_rlimit_nofile {files};\n\
             events {{ worker_connections {connections}; }}\n\
             http {{\n  \
               access_log off;\n  \
               client_body_temp_path tmp/body;\n  \
               proxy_temp_path tmp/proxy;\n  \
               fastcgi_temp_path tmp/fastcgi;\n  \
               uwsgi_temp_path tmp/uwsgi;\n  \
               scgi_temp_path tmp/scgi;\n  \
               {http}\n  \
               server {{\n    \
                 listen {client}{ssl};\n    \
                 {tls}\n    \
                 {server}\n  \
               }}\n  \
               server {{\n    \
                 listen {status};\n    \
                 location = /status {{ stub_status; }}\n    \
                 {status_server}\n  \
               }}\n\
             }}\n"
        );
        text
    }

    /// Describes the node with its additional files. The description holds the clients' TLS settings.
    pub(crate) fn describe(
        &self,
        context: &DescribeContext<'_>,
        installed: &InstalledProgram,
        mut files: Vec<NodeFile>,
        own: Vec<Setting>,
    ) -> Result<Description, HostError> {
        let name = context.node_names().next().unwrap_or_default();
        let location = context.location(0);
        let readable = |path: &str, contents: String| NodeFile {
            path: path.into(),
            contents: contents.into_bytes(),
            mode: FileMode::Readable,
        };
        let (mut tls, memory) = (None, Memory::default());
        if self.tls {
            let unmade =
                |why: LoadError| HostError::Spec { node: name.clone(), problem: why.to_string() };
            let authority = Authority::new().map_err(unmade)?;
            let identity = authority.server_at(location.address).map_err(unmade)?;
            tls = Some(authority.client_config(&[]).map_err(unmade)?);
            memory.keep(CaPem(authority.ca_pem()));
            let key = readable(KEY, identity.key_pem.clone());
            files.push(NodeFile { mode: FileMode::Private, ..key });
            files.push(readable(CERTIFICATE, identity.cert_pem));
        }
        files.push(readable("nginx.conf", self.configuration(location)));
        let mut args = vec!["-p", "./", "-c", "nginx.conf"];
        if at_least(&installed.version, ERROR_LOG_SINCE) {
            args.extend(["-e", "stderr"]);
        }
        let node = NodeSpec {
            program: (&installed.command()[0]).into(),
            args: args.into_iter().map(Into::into).collect(),
            env: installed.env(),
            files,
            location,
            ports: vec![("client".into(), self.client), ("status".into(), self.status)],
            limits: context.system.limits.clone(),
            dir: context.dir.join(&name),
            name,
            // SIGTERM drops open requests, which is right after a load.
            ..NodeSpec::default()
        };
        let settings = self.settings(context).into_iter().chain(own).collect();
        Ok(Description { nodes: vec![node], settings, tls, memory, ..Description::default() })
    }

    /// Returns the differences from NGINX's defaults that all nodes share.
    fn settings(&self, context: &DescribeContext<'_>) -> Vec<Setting> {
        let (connections, files) = connections();
        let mut settings = vec![
            setting(
                "daemon, error_log, pid, *_temp_path",
                "off, stderr, in its folder",
                "bakeoff watches and stops it, and it writes only into its folder",
            ),
            setting("access_log", "off", "logging each request would be most of its work"),
            setting("stub_status", "on a separate port", "it counts the served requests"),
            setting(
                "worker_connections, worker_rlimit_nofile",
                format!("{connections}, {files}"),
                "the default of 512 is less than a load's clients may be",
            ),
        ];
        if geteuid().is_root() {
            let reason = "bakeoff runs as root, and other users cannot enter its folders";
            settings.push(setting("user", "root", reason));
        }
        if let Some(workers) = context.option("workers") {
            settings.push(setting("worker_processes", workers, ASKED));
        }
        if self.tls {
            settings.extend([
                setting(
                    "ssl_certificate",
                    "ECDSA P-256, generated at the start",
                    "it has none by default",
                ),
                setting(
                    "ssl_session_cache",
                    "shared:tls:10m",
                    "by default a client without tickets cannot resume its session",
                ),
            ]);
        }
        settings
    }
}

/// Returns the connections and files of a worker.
fn connections() -> (u64, u64) {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let files = files.min(CONNECTIONS_MAX + OTHER_FILES);
    (files.saturating_sub(OTHER_FILES).max(128), files)
}

/// Quotes a text as one word of a configuration.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn at_least(version: &str, least: [u64; 3]) -> bool {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let version = [(); 3].map(|()| numbers.next().flatten().unwrap_or(0));
    version >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, newer) in [
            ("1.18.0", false),
            ("1.19.4", false),
            ("1.19.5", true),
            ("1.22.1", true),
            ("1.9.99", false),
            ("2", true),
            ("", false),
        ] {
            assert_eq!(at_least(version, ERROR_LOG_SINCE), newer, "{version}");
        }
    }

    #[test]
    fn quoting_keeps_the_text() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
    }
}
