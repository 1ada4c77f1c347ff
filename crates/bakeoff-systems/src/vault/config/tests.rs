//! Checks the configuration of each storage, and invalid systems.

use std::path::Path;

use bakeoff_engine::transport::Target;
use bakeoff_install::{InstalledProgram, Program};

use super::super::storage::COMPONENTS;
use super::*;
use serde_json::Value;

use crate::testing::study_system;
use crate::{Access, by_kind};
use crate::{COMPOSITE, postgresql};

/// Returns a system with these options and a storage part of this kind.
fn on(part: Option<&str>, nodes: u32, options: &[(&str, &str)]) -> study::System {
    let mut system = study_system("vault", nodes, options);
    if let Some(kind) = part {
        system.parts.insert("storage".into(), study_system(kind, 1, &[]));
    }
    system
}

#[track_caller]
fn unsound(product: Product, system: &study::System, what: &str, hint: &str) {
    let (configured, tried) = sound(product, system).expect_err("it is not sound");
    assert!(configured.contains(what), "no `{what}` in `{configured}`");
    assert!(tried.contains(hint), "no `{hint}` in `{tried}`");
}

#[test]
fn the_storage_follows_from_the_part() {
    let storage = |part, options: &[(&str, &str)]| Storage::configured(&on(part, 1, options)).name;
    assert_eq!(storage(None, &[]), "raft");
    assert_eq!(storage(None, &[("storage", "file")]), "file");
    for kind in &*COMPONENTS {
        assert_eq!(storage(Some(kind), &[]), kind.trim_end_matches("-emulator"));
    }
}

#[test]
fn refuses_unsound_systems_with_a_hint() {
    use Product::{OpenBao, Vault};
    for system in [
        on(None, 3, &[]),
        on(None, 1, &[("storage", "inmem")]),
        on(Some("consul"), 3, &[("storage", "consul")]),
        on(None, 1, &[("storage", "gcs"), ("bucket", "b"), ("credentials", "c.json")]),
        on(None, 3, &[("storage", "dynamodb"), ("table", "t"), ("region", "r")]),
        on(None, 3, &[("storage", "raft"), ("raft-multiplier", "1")]),
    ] {
        assert_eq!(sound(Vault, &system), Ok(()), "{system:?}");
    }
    unsound(
        Vault,
        &on(Some("consul"), 1, &[("storage", "raft")]),
        "`raft`",
        "follows from the part",
    );
    unsound(
        Vault,
        &on(None, 1, &[("storage", "postgresql")]),
        "it has no part with it",
        "kind: postgresql",
    );
    let pooled = [("max-idle-connections", "32")];
    unsound(Vault, &on(None, 1, &pooled), "does not keep data in PostgreSQL", "leave it out");
    unsound(Vault, &on(None, 1, &[("storage", "gcs"), ("bucket", "b")]), "`gcs`", "`credentials`");
    unsound(
        Vault,
        &on(None, 1, &[("storage", "dynamodb"), ("table", "t")]),
        "`dynamodb`",
        "`region`",
    );
    unsound(Vault, &on(None, 2, &[("storage", "inmem")]), "2 nodes", "`nodes: 1`");
    unsound(Vault, &on(None, 2, &[("storage", "file")]), "2 nodes", "another storage");
    unsound(
        Vault,
        &on(Some("consul"), 3, &[("raft-multiplier", "1")]),
        "not keep data by Raft",
        "",
    );

    let bao = |version: Option<&str>| study::System {
        version: version.map(Into::into),
        ..study_system("openbao", 3, &[(STANDBY_READS, "on")])
    };
    unsound(OpenBao, &bao(Some("2.4.4")), "needs version 2.5 or newer", "2.5");
    for version in [None, Some("2.5"), Some("2.10.0"), Some("3")] {
        assert_eq!(sound(OpenBao, &bao(version)), Ok(()), "{version:?}");
    }
    // A cluster that bakeoff did not start is not checked.
    let mut running = on(None, 2, &[("storage", "consul")]);
    let endpoint = study::Endpoint { host: "127.0.0.1".into(), port: 8200, tls: false };
    running.servers = study::Servers::Running(vec![endpoint]);
    running.nodes = 1;
    assert_eq!(sound(Vault, &running), Ok(()));
}

/// Returns the configuration of each node, and the description.
fn described(product: Product, system: &study::System) -> (Vec<Value>, Description) {
    let program = InstalledProgram {
        system: "vault".into(),
        version: "1.21.0".into(),
        source: "a test".into(),
        program: Program::Binary("/bin/true".into()),
        library_path: Vec::new(),
        sha256: String::new(),
        date: None,
        folder: None,
    };
    let mut ports = Allocator::new(None);
    let neighbours: Vec<Neighbour> = system
        .parts
        .iter()
        .map(|(role, part)| {
            let memory = Memory::default();
            memory.keep(postgresql::Credentials {
                user: "bakeoff".into(),
                password: "secret-of-the-database".into(),
                database: "postgres".into(),
            });
            let node = |number: u16| Access {
                name: format!("part-{number}"),
                authority: format!("127.0.0.1:{number}"),
                target: Target { address: ([127, 0, 0, 1], number).into(), tls: None },
                memory: memory.clone(),
            };
            let kind = by_kind(&part.kind).unwrap();
            Neighbour { role: role.clone(), system: kind, nodes: vec![node(1), node(2)] }
        })
        .collect();
    let context = DescribeContext {
        system,
        role: COMPOSITE,
        composite: system,
        program: Some(&program),
        dir: Path::new("/data"),
        locations: &[bakeoff_host::Location::HERE],
        members: &[],
        seed: 0,
        neighbours: &neighbours,
    };
    let description = describe(product, &context, &mut ports).unwrap();
    let config = |node: &NodeSpec| {
        let file = node.files.iter().find(|file| file.path.ends_with("config.json")).unwrap();
        assert_eq!(file.mode, FileMode::Private);
        serde_json::from_slice(&file.contents).unwrap()
    };
    (description.nodes.iter().map(config).collect(), description)
}

#[test]
fn each_storage_gets_the_address_of_its_data() {
    let storage = |part: Option<&str>, nodes, options: &[(&str, &str)]| {
        let (configs, description) = described(Product::Vault, &on(part, nodes, options));
        (
            configs.into_iter().map(|config| config["storage"].clone()).collect::<Vec<_>>(),
            description,
        )
    };
    let (alone, _) = storage(None, 1, &[("raft-multiplier", "1")]);
    let raft =
        json!({"path": "/data/vault-1", "node_id": "vault-1", "performance_multiplier": "1"});
    assert_eq!(alone, [json!({ "raft": raft })]);

    let (three, description) = storage(None, 3, &[]);
    for (index, configured) in three.iter().enumerate() {
        let join = configured["raft"]["retry_join"].as_array().unwrap();
        let own = format!("http://127.0.0.1:{}", description.nodes[index].port("client"));
        assert_eq!(join.len(), 2);
        assert!(join.iter().all(|other| other["leader_api_addr"] != own.as_str()), "{join:?}");
    }
    let (consul, _) = storage(Some("consul"), 3, &[]);
    let at: Vec<_> = consul.iter().map(|configured| &configured["consul"]["address"]).collect();
    assert_eq!(at, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"], "one each, as far as they go");

    let (database, description) = storage(Some("postgresql"), 2, &[]);
    let configured = &database[1]["postgresql"];
    assert!(
        configured["connection_url"]
            .as_str()
            .unwrap()
            .contains("secret-of-the-database@127.0.0.1:1/")
    );
    assert_eq!(configured["ha_enabled"], "true");
    for node in &description.nodes {
        let public = format!("{:?} {:?}", node.args, node.env);
        assert!(!public.contains("secret-of-the-database"), "{public}");
    }
    for setting in &description.settings {
        assert!(!setting.value.contains("secret"), "{setting:?}");
    }
    assert!(configured.get("max_idle_connections").is_none(), "Vault's own default");
    let (pooled, description) = storage(Some("postgresql"), 2, &[("max-idle-connections", "32")]);
    assert_eq!(pooled[1]["postgresql"]["max_idle_connections"], "32");
    let named = |set: &Setting| set.name == "storage.postgresql.max_idle_connections";
    assert!(description.settings.iter().any(named), "{:?}", description.settings);
    let (one, _) = storage(Some("postgresql"), 1, &[]);
    assert_eq!(one[0]["postgresql"]["ha_enabled"], "false");

    let env = |description: &Description, name: &str| {
        let found = description.nodes[0].env.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let (gcs, description) = storage(Some("gcs-emulator"), 1, &[]);
    assert_eq!(gcs[0]["gcs"], json!({"bucket": "vault", "ha_enabled": "false"}));
    // The last node is the one with the latency.
    assert_eq!(env(&description, "STORAGE_EMULATOR_HOST").unwrap(), "http://127.0.0.1:2");
    let real = [("storage", "gcs"), ("bucket", "mine"), ("credentials", "/etc/key.json")];
    let (gcs, description) = storage(None, 1, &real);
    assert_eq!(gcs[0]["gcs"]["bucket"], "mine");
    assert_eq!(env(&description, "STORAGE_EMULATOR_HOST"), None);
    assert_eq!(env(&description, "GOOGLE_APPLICATION_CREDENTIALS").unwrap(), "/etc/key.json");

    let (dynamo, _) = storage(Some("dynamodb-emulator"), 1, &[]);
    let configured = &dynamo[0]["dynamodb"];
    assert_eq!(
        (&configured["endpoint"], &configured["table"]),
        (&json!("http://127.0.0.1:2"), &json!("vault"))
    );
    let (file, _) = storage(None, 1, &[("storage", "file")]);
    assert_eq!(file[0]["file"]["path"], "/data/vault-1/data");
    let (inmem, _) = storage(None, 1, &[("storage", "inmem")]);
    assert_eq!(inmem[0], json!({"inmem": {}}));
}

#[test]
fn nodes_use_tls_if_requested_and_keep_keys_private() {
    let (configs, description) = described(Product::Vault, &on(None, 3, &[("tls", "on")]));
    assert!(description.tls.is_some());
    for (config, node) in configs.iter().zip(&description.nodes) {
        let listener = &config["listener"][0]["tcp"];
        assert!(listener.get("tls_disable").is_none(), "{listener}");
        assert!(config["api_addr"].as_str().unwrap().starts_with("https://"));
        assert!(config["storage"]["raft"]["retry_join"][0]["leader_ca_cert_file"].is_string());
        let key = node.files.iter().find(|file| file.path.ends_with("server.key")).unwrap();
        assert_eq!(key.mode, FileMode::Private);
    }
    let (configs, description) = described(Product::Vault, &on(None, 1, &[]));
    assert!(description.tls.is_none());
    assert_eq!(configs[0]["listener"][0]["tcp"]["tls_disable"], true);
}

#[test]
fn each_product_gets_its_own_settings() {
    let (configs, _) = described(Product::Vault, &on(None, 1, &[]));
    assert_eq!(configs[0]["disable_mlock"], true);
    let off = study_system("openbao", 3, &[(STANDBY_READS, "off")]);
    let (configs, description) = described(Product::OpenBao, &off);
    assert!(configs.iter().all(|config| config["disable_standby_reads"] == true));
    assert!(configs[0].get("disable_mlock").is_none());
    let configured =
        description.settings.iter().find(|configured| configured.name == "disable_standby_reads");
    assert_eq!(configured.unwrap().reason, ASKED);
    for options in [&[][..], &[(STANDBY_READS, "on")]] {
        let (configs, _) = described(Product::OpenBao, &study_system("openbao", 3, options));
        assert!(configs[0].get("disable_standby_reads").is_none());
    }
}

#[test]
fn credentials_are_found_relative_to_the_users_folder() {
    let options = [("storage", "gcs"), ("bucket", "b"), ("credentials", "./key.json")];
    let system = crate::testing::study_system("vault", 1, &options);
    let dir = Path::new("/nodes");
    let (role, program) = (COMPOSITE, None);
    let composite = &system;
    let context = DescribeContext {
        system: composite,
        role,
        composite,
        program,
        dir,
        locations: &[bakeoff_host::Location::HERE],
        members: &[],
        seed: 7,
        neighbours: &[],
    };
    let mut env = Vec::new();
    let (component, index, name, api) = (None, 0, "vault", &[][..]);
    let node = NodeStorage { context: &context, component, index, name, dir, api, tls: false };
    let storage = Storage::configured(&system);
    let configured = (storage.name, (storage.config)(&node, &mut env));
    assert_eq!(configured, ("gcs", json!({"bucket": "b", "ha_enabled": "false"})));
    let file = std::env::current_dir().unwrap().join("key.json").display().to_string();
    assert_eq!(env, [("GOOGLE_APPLICATION_CREDENTIALS".to_owned(), file)]);
}
