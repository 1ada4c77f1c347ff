//! Tests short-lived credentials of databases and message brokers, such as `postgresql_secret`.
//!
//! All types but `rabbitmq_secret` are plugins of the `database` engine. Each has a connection and a role, and each
//! read creates a login.
//!
//! Not here: the set-up (`services`).

use super::services::{Block, Mount, Request, Service};
use crate::vault_benchmark::fields::{Field, flag, switch, text, texts, whole};

const ROOT_ROTATION: &[Field] = &[texts("root_rotation_statements")];
const PASSWORD_POLICY: &[Field] = &[text("password_policy")];
const USERNAME_TEMPLATE: &[Field] = &[text("username_template")];
const URL: &[Field] = &[text("connection_url").required()];
const ESCAPING: &[Field] = &[flag("disable_escaping")];

const POOL: &[Field] = &[
    whole("max_open_connections"),
    whole("max_idle_connections"),
    text("max_connection_lifetime"),
];

const TLS_SERVER: &[Field] = &[text("tls_server_name"), flag("tls_skip_verify")];

/// Lifetime of a login.
const LIFE: &[Field] = &[text("default_ttl"), text("max_ttl")];

const CREATION: &[Field] = &[text("creation_statements").required()];
const REVOCATION: &[Field] = &[text("revocation_statements")];
const ROLLBACKS: &[Field] =
    &[text("rollback_statements"), text("renew_statements"), text("rotation_statements")];

/// Declares a type of the `database` engine: its name in files, the names of its connection and role, its plugin, the
/// prefix of its variables, the options of both blocks besides these, and the service it needs.
macro_rules! database {
    (
        $kind:literal, $connection:literal, $role:literal, $plugin:literal, $variable:literal,
        connection: [$($connection_fields:expr),* $(,)?],
        role: [$($role_fields:expr),* $(,)?],
        needs: $needs:literal $(,)?
    ) => {
        database!(
            $kind, $connection, [$role, $role], $plugin, $variable,
            connection: [$($connection_fields),*],
            role: ["", $($role_fields),*],
            needs: $needs
        )
    };
    (
        $kind:literal, $connection:literal, [$allowed:literal, $role:literal], $plugin:literal,
        $variable:literal,
        connection: [$($connection_fields:expr),* $(,)?],
        role: [$static:literal, $($role_fields:expr),* $(,)?],
        needs: $needs:literal $(,)?
    ) => {
        Service {
            kind: $kind,
            mount: Mount::Engine("database"),
            blocks: &[
                Block {
                    name: "db_connection",
                    path: "config/{db_connection.name}",
                    fields: &[
                        &[
                            text("name").or($connection),
                            text("plugin_name").or(concat!($plugin, "-database-plugin")),
                            texts("allowed_roles").or_texts(&[$allowed]),
                            text("username")
                                .or_variable(concat!("VAULT_BENCHMARK_", $variable, "_USERNAME"))
                                .required(),
                            text("password")
                                .or_variable(concat!("VAULT_BENCHMARK_", $variable, "_PASSWORD"))
                                .required(),
                            text("plugin_version"),
                            switch("verify_connection"),
                        ],
                        $($connection_fields),*
                    ],
                },
                Block {
                    name: "role",
                    path: concat!($static, "roles/{role.name}"),
                    fields: &[
                        &[text("name").or($role), text("db_name").or($connection)],
                        $($role_fields),*
                    ],
                },
            ],
            request: Request::Get(concat!($static, "creds/{role.name}")),
            needs: $needs,
            ..Service::PLAIN
        }
    };
}

const STATIC_USER: &[Field] =
    &[text("rotation_period").or("5m"), text("username").required(), flag("insecure_tls")];

const CASSANDRA: &[Field] = &[
    text("hosts").required(),
    whole("port").or_whole(9042),
    whole("protocol_version").required(),
    switch("tls"),
    flag("insecure_tls"),
    text("pem_bundle"),
    text("pem_hcl"),
    text("tls_server_name"),
    flag("skip_verification"),
    text("connect_timeout"),
    text("local_datacenter"),
    text("socket_keep_alive"),
    text("consistency"),
];

const CASSANDRA_STATEMENTS: &[Field] = &[
    texts("creation_statements").required(),
    texts("revocation_statements"),
    texts("rollback_statements"),
];

const COUCHBASE: &[Field] = &[
    text("hosts").required(),
    flag("tls"),
    flag("insecure_tls"),
    text("base64pem"),
    text("bucket_name").required(),
];

const ELASTICSEARCH: &[Field] = &[
    text("url").required(),
    text("ca_cert"),
    text("ca_path"),
    text("client_cert"),
    text("client_key"),
    text("tls_server_name"),
    flag("insecure").or_flag(true),
    flag("use_old_xpack"),
];

const MONGODB_ROLE: &[Field] = &[
    text("default_ttl").or("1h"),
    text("max_ttl").or("24h"),
    text("creation_statements").or(
        r#"{"db": "admin", "roles": [{ "role": "readWrite" }, {"role": "read", "db": "foo"}] }"#,
    ),
];

const ELASTICSEARCH_ROLE: &[Field] = &[
    text("default_ttl").or("1h"),
    text("max_ttl").or("24h"),
    texts("creation_statements").or_texts(&[
        r#"{"elasticsearch_role_definition": {"indices": [{"names":["*"], "privileges":["read"]}]}}"#,
    ]),
];

const MONGODB: &[Field] = &[text("write_concern"), text("tls_certificate_key"), text("tls_ca")];

// Vault's name is `tls_ca`, OpenBao's `tls_ca_certificate`.
const MYSQL_TLS: &[Field] =
    &[text("tls_certificate_key"), text("tls_ca"), text("tls_ca_certificate")];

const REDIS: &[Field] = &[
    text("host").required(),
    whole("port").required(),
    flag("tls"),
    flag("insecure_tls"),
    text("ca_cert"),
];

pub(super) const TYPES: &[Service] = &[
    database!(
        "postgresql_secret", "benchmark-postgres", "benchmark-role", "postgresql", "POSTGRES",
        connection: [ROOT_ROTATION, PASSWORD_POLICY, URL, POOL, USERNAME_TEMPLATE, ESCAPING],
        role: [LIFE, CREATION, REVOCATION, ROLLBACKS],
        needs: "a PostgreSQL server (`connection_url` in `db_connection`) and a user there who \
                may create roles",
    ),
    database!(
        "redshift_secret", "benchmark-redshift", "benchmark-role", "redshift", "REDSHIFT",
        connection: [ROOT_ROTATION, PASSWORD_POLICY, URL, POOL, USERNAME_TEMPLATE, ESCAPING],
        role: [LIFE, CREATION, REVOCATION, ROLLBACKS],
        needs: "an Amazon Redshift cluster (`connection_url` in `db_connection`)",
    ),
    database!(
        "mysql_secret", "benchmark-mysql", "benchmark-role", "mysql", "MYSQL",
        connection: [
            ROOT_ROTATION, PASSWORD_POLICY, URL, POOL, USERNAME_TEMPLATE, ESCAPING,
            TLS_SERVER, MYSQL_TLS,
        ],
        role: [LIFE, CREATION, REVOCATION],
        needs: "a MySQL or MariaDB server (`connection_url` in `db_connection`) and a user there who may \
         create users",
    ),
    database!(
        "hanadb_secret", "benchmark-hanadb", "benchmark-role", "hana", "HANADB",
        connection: [
            ROOT_ROTATION, PASSWORD_POLICY, URL, POOL, USERNAME_TEMPLATE, ESCAPING, TLS_SERVER,
            &[text("tls_certificate_key"), text("tls_ca_certificate")],
        ],
        role: [LIFE, CREATION, REVOCATION],
        needs: "an SAP HANA server (`connection_url` in `db_connection`)",
    ),
    database!(
        "mssql_secret", "benchmark-mssql", "benchmark-role", "mssql", "MSSQL",
        connection: [
            ROOT_ROTATION, PASSWORD_POLICY, URL, POOL, USERNAME_TEMPLATE, ESCAPING,
            &[flag("contained_db")],
        ],
        role: [LIFE, CREATION, REVOCATION],
        needs: "a Microsoft SQL Server (`connection_url` in `db_connection`)",
    ),
    database!(
        "mongodb_secret", "benchmark-mongo", "benchmark-role", "mongodb", "MONGODB",
        connection: [URL, USERNAME_TEMPLATE, MONGODB],
        role: [MONGODB_ROLE, REVOCATION],
        needs: "a MongoDB server (`connection_url` in `db_connection`)",
    ),
    database!(
        "cassandra_secret", "benchmark-cassandra", "benchmark-role", "cassandra", "CASSANDRADB",
        connection: [ROOT_ROTATION, PASSWORD_POLICY, USERNAME_TEMPLATE, CASSANDRA],
        role: [LIFE, ROOT_ROTATION, CASSANDRA_STATEMENTS],
        needs: "a Cassandra cluster (`hosts` in `db_connection`)",
    ),
    database!(
        "couchbase_secret", "benchmark-database", "benchmark-role", "couchbase", "COUCHBASE",
        connection: [PASSWORD_POLICY, ESCAPING, USERNAME_TEMPLATE, COUCHBASE],
        role: [LIFE, &[texts("creation_statements")]],
        needs: "a Couchbase cluster (`hosts` in `db_connection`)",
    ),
    database!(
        "elasticsearch_secret", "benchmark-elasticsearch", "benchmark-role", "elasticsearch",
        "ELASTICSEARCH",
        connection: [ROOT_ROTATION, PASSWORD_POLICY, USERNAME_TEMPLATE, ELASTICSEARCH],
        role: [ELASTICSEARCH_ROLE],
        needs: "an Elasticsearch server (`url` in `db_connection`)",
    ),
    database!(
        "redis_dynamic_secret", "benchmark-redis-db", ["my-*-role", "my-dynamic-role"], "redis",
        "REDIS",
        connection: [PASSWORD_POLICY, REDIS],
        role: ["", LIFE, CREATION],
        needs: "a Redis server (`host` and `port` in `db_connection`) and a user there who may set ACLs",
    ),
    database!(
        "redis_static_secret", "benchmark-redis-db", ["my-*-role", "my-static-role"], "redis",
        "STATIC_REDIS",
        connection: [PASSWORD_POLICY, REDIS],
        role: ["static-", STATIC_USER],
        needs: "a Redis server (`host` and `port` in `db_connection`) with the user that `role` names",
    ),
    Service {
        kind: "rabbitmq_secret",
        mount: Mount::Engine("rabbitmq"),
        blocks: &[
            Block {
                name: "connection",
                path: "config/connection",
                fields: &[
                    &[
                        text("connection_uri").required(),
                        text("username")
                            .or_variable("VAULT_BENCHMARK_RABBITMQ_USERNAME")
                            .required(),
                        text("password")
                            .or_variable("VAULT_BENCHMARK_RABBITMQ_PASSWORD")
                            .required(),
                        switch("verify_connection"),
                    ],
                    PASSWORD_POLICY,
                    USERNAME_TEMPLATE,
                ],
            },
            Block {
                name: "role",
                path: "roles/{role.name}",
                fields: &[&[
                    text("name").or("benchmark-role"),
                    text("tags"),
                    text("vhosts").or(r#"{"/":{"write": ".*", "read": ".*"}}"#),
                    text("vhost_topics"),
                ]],
            },
        ],
        request: Request::Get("creds/{role.name}"),
        needs: "RabbitMQ with its management interface (`connection_uri` in `connection`)",
        ..Service::PLAIN
    },
];
