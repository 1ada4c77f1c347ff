//! Defines the types that work alike: mount an engine or method, configure it with blocks of options, and repeat one
//! request. Most need a service besides the server, which the user supplies.
//!
//! A type is data: its mount, the paths of its blocks, and its request. Paths refer to values of blocks in braces:
//! `roles/{role.name}`.
//!
//! Not here: the lists of options (`databases`, `directories`), logins with generated credentials (`logins`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Fields, Stage, Template, TestType, Trouble, body_of, databases, directories, logins, ssh, totp,
    transit,
};
use crate::vault_benchmark::fields::Field;
use crate::vault_benchmark::hcl::is_secret;
use crate::vault_benchmark::request::Piece;

/// A type of test.
pub(super) struct Service {
    /// Name in files.
    pub(super) kind: &'static str,
    pub(super) mount: Mount,
    pub(super) blocks: &'static [Block],
    pub(super) request: Request,
    /// Service that the server has to reach and the option that locates it; empty if there is none.
    pub(super) needs: &'static str,
    /// Completes the options, and refuses invalid ones.
    pub(super) complete: fn(&mut Ready, &Fields),
    /// Requests values from the server that the load's request needs, after the blocks were written.
    pub(super) before_load: fn(&mut Ready, &mut Stage<'_>, mount: &str) -> Result<(), Trouble>,
}

impl Service {
    /// A type without special steps, as a base for rows.
    pub(super) const PLAIN: Self = Self {
        kind: "",
        mount: Mount::Engine(""),
        blocks: &[],
        request: Request::Get(""),
        needs: "",
        complete: |_, _| {},
        before_load: |_, _, _| Ok(()),
    };
}

/// Engine or method, by the server's name.
pub(super) enum Mount {
    Engine(&'static str),
    /// An engine whose leases may last ten years.
    LastingEngine(&'static str),
    Login(&'static str),
}

pub(super) struct Block {
    /// Name; empty for the options in `config` itself.
    pub(super) name: &'static str,
    /// Path below the mount; empty if the block is not written.
    pub(super) path: &'static str,
    pub(super) fields: &'static [&'static [Field]],
}

pub(super) enum Request {
    /// `GET` of a path below the mount.
    Get(&'static str),
    /// `POST` to a path below the mount.
    Post(&'static str, Body),
}

pub(super) enum Body {
    Empty,
    /// An object with these names and values.
    Values(&'static [(&'static str, &'static str)]),
    /// The same in this order, spaced like the logins of vault-benchmark.
    Login(&'static [(&'static str, &'static str)]),
    /// The options of a block.
    Block(&'static str),
}

/// Engines that accept a connection without trying it. Set-up therefore makes one request before the load.
const TAKEN_UNTRIED: &[&str] = &["aws", "consul", "nomad"];

/// Returns every type, in no particular order.
fn all() -> impl Iterator<Item = &'static Service> {
    [databases::TYPES, directories::TYPES, logins::TYPES, ssh::TYPES, totp::TYPES, transit::TYPES]
        .into_iter()
        .flatten()
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|service| service.kind)
}

/// Reads the options of a test of this type; `None` for a type that is not in this module.
pub(super) fn build(kind: &str, config: &Fields) -> Option<Box<dyn TestType>> {
    let service = all().find(|service| service.kind == kind)?;
    let read = |block: &'static Block| {
        let fields = if block.name.is_empty() { config.clone() } else { config.block(block.name) };
        let read = block.fields.iter().flat_map(|fields_of| fields.read(fields_of)).collect();
        (block.name, read)
    };
    let blocks = service.blocks.iter().map(read).collect();
    let mut ready = Ready { service, blocks, must_hold: None };
    (service.complete)(&mut ready, config);
    Some(Box::new(ready))
}

/// A type with its options. Holds passwords: never print it.
#[derive(Clone)]
pub(super) struct Ready {
    service: &'static Service,
    blocks: BTreeMap<&'static str, Map<String, Value>>,
    /// Text that an answer must hold besides its status.
    pub(super) must_hold: Option<&'static str>,
}

impl Ready {
    pub(super) fn block(&mut self, name: &'static str) -> &mut Map<String, Value> {
        self.blocks.entry(name).or_default()
    }

    /// Returns the options of a block that belong in a body.
    pub(super) fn body(&self, name: &str) -> Map<String, Value> {
        let mut body = self.blocks.get(name).cloned().unwrap_or_default();
        let fields = self.fields().filter(|(block, field)| *block == name && field.is_in_path());
        fields.for_each(|(_, field)| drop(body.remove(field.name())));
        body
    }

    /// Returns all options of the type, with their blocks.
    fn fields(&self) -> impl Iterator<Item = (&'static str, &'static Field)> {
        let blocks = self.service.blocks.iter();
        blocks.flat_map(|block| block.fields.iter().copied().flatten().map(|f| (block.name, f)))
    }

    /// Splits a path into pieces and fills the placeholders in braces.
    fn path(&self, template: &str) -> Vec<Piece> {
        match template.split_once("{unique}") {
            Some((before, _)) => vec![Piece::Text(self.filled(before)), Piece::Unique],
            None => vec![Piece::Text(self.filled(template))],
        }
    }

    /// Fills the placeholders in braces.
    pub(super) fn filled(&self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            text.push_str(before);
            text.push_str(self.value(name));
            rest = after;
        }
        text + rest
    }

    /// Returns the value of `block.option`, or an empty text.
    fn value(&self, name: &str) -> &str {
        let (block, option) = name.split_once('.').unwrap_or(("", name));
        let value = self.blocks.get(block).and_then(|options| options.get(option)?.as_str());
        value.unwrap_or_default()
    }

    fn request_body(&self, body: &Body) -> String {
        let value =
            |(name, value): &(&str, &str)| ((*name).to_owned(), Value::from(self.filled(value)));
        match body {
            Body::Empty => String::new(),
            Body::Values(values) => body_of(values.iter().map(value).collect()),
            Body::Login(values) => {
                let spaced =
                    values.iter().map(value).map(|(name, value)| format!("\"{name}\": {value}"));
                format!("{{{}}}", spaced.collect::<Vec<_>>().join(", "))
            }
            Body::Block(name) => body_of(self.body(name)),
        }
    }

    /// Names the type and the service that it needs.
    fn cannot_set_up(&self, trouble: Trouble) -> Trouble {
        let Service { kind, needs, blocks, .. } = self.service;
        let mut doing = format!("cannot set up `{kind}`");
        if !needs.is_empty() {
            doing.push_str(&format!(", which needs {needs}"));
        }
        let fields = blocks.iter().flat_map(|block| block.fields).copied().flatten();
        let given = fields.filter_map(|field| {
            Some(format!("`{}` is in the file or in `{}`", field.name(), field.variable()?))
        });
        let given = given.collect::<Vec<_>>().join(", ");
        if !given.is_empty() {
            doing.push_str(&format!("; {given}"));
        }
        self.without_secrets(trouble.while_doing(&doing))
    }

    /// Masks secrets, because a server's error may repeat them.
    fn without_secrets(&self, mut trouble: Trouble) -> Trouble {
        let options = self.blocks.values().flatten();
        let secrets = options.filter(|(name, _)| is_secret(name)).filter_map(|(_, v)| v.as_str());
        for secret in secrets.filter(|secret| secret.len() > 2) {
            trouble.what = trouble.what.replace(secret, "***");
        }
        trouble
    }
}

impl TestType for Ready {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let mut ready = self.clone();
        let name = stage.name.clone();
        let mount = match self.service.mount {
            Mount::Engine(engine) => {
                stage.mount(&name, engine, json!({}))?;
                name
            }
            Mount::LastingEngine(engine) => {
                stage.mount(&name, engine, json!({ "config": { "max_lease_ttl": "87600h" } }))?;
                name
            }
            Mount::Login(method) => {
                stage.enable_auth(&name, method, json!({}))?;
                format!("auth/{name}")
            }
        };
        for block in self.service.blocks.iter().filter(|block| !block.path.is_empty()) {
            let path = format!("{mount}/{}", self.filled(block.path));
            stage
                .write(&path, self.body(block.name))
                .map_err(|trouble| self.cannot_set_up(trouble))?;
        }
        if let (Mount::Engine(engine), Request::Get(path)) =
            (&self.service.mount, &self.service.request)
            && TAKEN_UNTRIED.contains(engine)
        {
            stage
                .client
                .read(&format!("{mount}/{}", self.filled(path)))
                .map_err(|trouble| self.cannot_set_up(trouble))?;
        }
        (self.service.before_load)(&mut ready, stage, &mount)
            .map_err(|trouble| self.cannot_set_up(trouble))?;
        let (method, path, body) = match &self.service.request {
            Request::Get(path) => ("GET", path, String::new()),
            Request::Post(path, body) => ("POST", path, ready.request_body(body)),
        };
        let path = ready.path(&format!("/v1/{mount}/{path}"));
        Ok(Template {
            path,
            holds: ready.must_hold,
            ..Template::fixed(method, String::new(), body)
        }
        .with(stage.client.headers()))
    }
}

/// Returns each type with two `config` blocks: one with all options, and one with the required ones.
#[cfg(test)]
pub(super) fn examples() -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let both = |service| vec![written(service, |_| true), written(service, Field::is_required)];
    all().map(move |service| (service.kind, both(service)))
}

/// Returns the `config` of a test with the selected options.
#[cfg(test)]
fn written(service: &Service, which: impl Fn(&Field) -> bool) -> String {
    let block = |block: &Block| {
        let fields = block.fields.iter().copied().flatten().filter(|field| which(field));
        let lines: String = fields.map(Field::example).collect();
        match block.name {
            "" => lines,
            name => format!("{name} {{\n{lines}}}\n"),
        }
    };
    service.blocks.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault_benchmark::config::Config;
    use crate::vault_benchmark::fields::Environment;
    use crate::vault_benchmark::trouble::Kind;

    fn build_one(kind: &str, config: &str) -> (Option<Box<dyn TestType>>, Config) {
        let text = format!("test \"{kind}\" \"t\" {{\nweight = 100\nconfig {{\n{config}\n}}\n}}\n");
        let environment = Environment::from([("VAULT_BENCHMARK_POSTGRES_PASSWORD", "pw")]);
        let config = Config::parse("t.hcl", &text, environment).unwrap();
        (build(kind, &config.tests[0].config), config)
    }

    #[test]
    fn every_placeholder_is_an_option() {
        for service in all() {
            let mut places: Vec<&str> = service.blocks.iter().map(|block| block.path).collect();
            match service.request {
                Request::Get(path) | Request::Post(path, Body::Empty | Body::Block(_)) => {
                    places.push(path);
                }
                Request::Post(path, Body::Values(values) | Body::Login(values)) => {
                    places.push(path);
                    places.extend(values.iter().map(|(_, value)| *value));
                }
            }
            for place in places {
                for name in place.split('{').skip(1) {
                    let name = name.split_once('}').unwrap().0;
                    let (block, option) = name.split_once('.').unwrap_or_default();
                    // The types fill in these values themselves.
                    if block == "made" || (block, option) == ("", "") {
                        continue;
                    }
                    let block = service.blocks.iter().find(|known| known.name == block).unwrap();
                    let mut fields = block.fields.iter().copied().flatten();
                    assert!(fields.any(|f| f.name() == option), "{}: {name}", service.kind);
                }
            }
        }
    }

    #[test]
    fn no_option_is_listed_twice() {
        for block in all().flat_map(|service| service.blocks) {
            let mut names: Vec<_> =
                block.fields.iter().copied().flatten().map(Field::name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }

    #[test]
    fn every_option_is_accepted_and_required_options_suffice() {
        for service in all().filter(|service| !service.needs.is_empty()) {
            for config in [written(service, |_| true), written(service, Field::is_required)] {
                let (_, config) = build_one(service.kind, &config);
                config.finish().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            }
            let (_, config) =
                build_one(service.kind, &written(service, |field| !field.is_required()));
            let diagnostics = config.finish().unwrap_err();
            let fields = service.blocks.iter().flat_map(|block| block.fields).copied().flatten();
            let needed = fields.filter(|field| field.is_required());
            // One of them comes from the environment of these tests.
            let given = usize::from(service.kind == "postgresql_secret");
            assert_eq!(
                diagnostics.0.len() + given,
                needed.count(),
                "{}: {diagnostics}",
                service.kind
            );
        }
    }

    #[test]
    fn the_documentation_has_every_type_and_every_option() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vault-benchmark.md");
        let docs = std::fs::read_to_string(path).unwrap();
        for service in all().filter(|service| !service.needs.is_empty()) {
            let heading = format!("- **`{}`** needs ", service.kind);
            let text = docs.split_once(&heading).unwrap_or_else(|| panic!("{heading}")).1;
            let end = text.find("\n- **").or_else(|| text.find("\n#")).unwrap();
            for block in service.blocks {
                let written = text[..end].split_once(&format!("  - `{}`: ", block.name)).unwrap().1;
                let written = written.split_once("\n  - ").map_or(written, |(this, _)| this);
                for field in block.fields.iter().copied().flatten() {
                    let option = format!("`{}`", field.name());
                    assert!(written.contains(&option), "{} {} {option}", service.kind, block.name);
                }
            }
        }
        for kind in super::super::names().iter().chain(super::super::ELSEWHERE) {
            assert!(docs.contains(&format!("`{kind}`")), "{kind}");
        }
    }

    #[test]
    fn missing_options_come_from_the_environment_or_are_reported_with_their_line() {
        let role = "role {\ncreation_statements = \"x\"\n}";
        let (_, config) = build_one("postgresql_secret", role);
        let diagnostics = config.finish().unwrap_err().to_string();
        assert!(diagnostics.contains("needs `connection_url`"), "{diagnostics}");
        assert!(diagnostics.contains("`VAULT_BENCHMARK_POSTGRES_USERNAME`"), "{diagnostics}");
        assert!(!diagnostics.contains("needs `password`"), "{diagnostics}");
        let connection = "db_connection {\nconnection_url = \"c\"\nusername = \"u\"\n}";
        let (_, config) = build_one("postgresql_secret", &format!("{role}\n{connection}"));
        config.finish().unwrap();
    }

    #[test]
    fn options_go_into_their_requests() {
        let config = "db_connection {\nname = \"db\"\nconnection_url = \"postgres://h\"\n\
                      username = \"u\"\npassword = \"hunter2\"\n}\n\
                      role {\nname = \"r\"\ncreation_statements = \"x\"\n}";
        let (built, _) = build_one("postgresql_secret", config);
        assert!(built.is_some());
        let service = all().find(|service| service.kind == "postgresql_secret").unwrap();
        let block = |name: &'static str, options: Value| {
            (name, options.as_object().cloned().unwrap_or_default())
        };
        let ready = Ready {
            service,
            blocks: BTreeMap::from([
                block("db_connection", json!({"name": "db", "password": "hunter2"})),
                block("role", json!({"name": "r"})),
            ]),
            must_hold: None,
        };
        assert_eq!(ready.filled("config/{db_connection.name}"), "config/db");
        assert_eq!(ready.filled("creds/{role.name}/x"), "creds/r/x");
        let trouble = Trouble::new(Kind::Refused, "no: `hunter2` at db");
        assert_eq!(ready.without_secrets(trouble).what, "no: `***` at db");
    }
}
