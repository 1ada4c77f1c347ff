//! Short-lived credentials of databases and message brokers: `postgresql_secret` and its kin.
//!
//! All but `rabbitmq_secret` are plugins of the `database` engine: a connection, a role, and a
//! login made for each read.
//!
//! Not here: how they are set up (`services`).

use super::services::{Block, Mount, Request, Service};
use crate::vault_benchmark::fields::{Field, flag, switch, text, texts, whole};

/// What every connection has.
const CONNECTION: &[Field] = &[text("plugin_version"), switch("verify_connection")];

const ROOT_ROTATION: &[Field] = &[texts("root_rotation_statements")];
const PASSWORD_POLICY: &[Field] = &[text("password_policy")];
const USERNAME_TEMPLATE: &[Field] = &[text("username_template")];
const URL: &[Field] = &[text("connection_url").required()];
const ESCAPING: &[Field] = &[flag("disable_escaping")];

/// A pool of connections.
const POOL: &[Field] = &[
    whole("max_open_connections"),
    whole("max_idle_connections"),
    text("max_connection_lifetime"),
];

const TLS_SERVER: &[Field] = &[text("tls_server_name"), flag("tls_skip_verify")];

/// How long a login is good for.
const LIFE: &[Field] = &[text("default_ttl"), text("max_ttl")];

const CREATION: &[Field] = &[text("creation_statements").required()];
const REVOCATION: &[Field] = &[text("revocation_statements")];
const ROLLBACKS: &[Field] =
    &[text("rollback_statements"), text("renew_statements"), text("rotation_statements")];

/// What a connection is called, and with whose rights it is made.
macro_rules! connection_as {
    ($name:literal, $plugin:literal, $role:literal, $user:literal, $password:literal) => {
        &[
            text("name").or($name),
            text("plugin_name").or($plugin),
            texts("allowed_roles").or_texts(&[$role]),
            text("username").or_variable($user).required(),
            text("password").or_variable($password).required(),
        ]
    };
}

/// What a role is called, and whose it is.
macro_rules! role_of {
    ($database:literal, $role:literal) => {
        &[text("name").or($role), text("db_name").or($database)]
    };
}

/// A type of the `database` engine.
const fn database(kind: &'static str, blocks: &'static [Block; 2], needs: &'static str) -> Service {
    let request = Request::Get("creds/{role.name}");
    Service { kind, mount: Mount::Engine("database"), blocks, request, needs }
}

const fn connection(fields: &'static [&'static [Field]]) -> Block {
    Block { name: "db_connection", path: "config/{db_connection.name}", fields }
}

const fn role(fields: &'static [&'static [Field]]) -> Block {
    Block { name: "role", path: "roles/{role.name}", fields }
}

const REDIS: &[Field] = &[
    text("host").required(),
    whole("port").required(),
    flag("tls"),
    flag("insecure_tls"),
    text("ca_cert"),
];

pub(super) const TYPES: &[Service] = &[
    database(
        "postgresql_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-postgres",
                    "postgresql-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_POSTGRES_USERNAME",
                    "VAULT_BENCHMARK_POSTGRES_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                URL,
                POOL,
                USERNAME_TEMPLATE,
                ESCAPING,
            ]),
            role(&[
                role_of!("benchmark-postgres", "benchmark-role"),
                LIFE,
                CREATION,
                REVOCATION,
                ROLLBACKS,
            ]),
        ],
        "a PostgreSQL server (`connection_url` in `db_connection`) and a user there who may create \
         roles",
    ),
    database(
        "redshift_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-redshift",
                    "redshift-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_REDSHIFT_USERNAME",
                    "VAULT_BENCHMARK_REDSHIFT_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                URL,
                POOL,
                USERNAME_TEMPLATE,
                ESCAPING,
            ]),
            role(&[
                role_of!("benchmark-redshift", "benchmark-role"),
                LIFE,
                CREATION,
                REVOCATION,
                ROLLBACKS,
            ]),
        ],
        "an Amazon Redshift cluster (`connection_url` in `db_connection`)",
    ),
    database(
        "mysql_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-mysql",
                    "mysql-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_MYSQL_USERNAME",
                    "VAULT_BENCHMARK_MYSQL_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                URL,
                POOL,
                USERNAME_TEMPLATE,
                ESCAPING,
                TLS_SERVER,
                // The one of Vault's tool, the other of OpenBao's.
                &[text("tls_certificate_key"), text("tls_ca"), text("tls_ca_certificate")],
            ]),
            role(&[role_of!("benchmark-mysql", "benchmark-role"), LIFE, CREATION, REVOCATION]),
        ],
        "a MySQL or MariaDB server (`connection_url` in `db_connection`) and a user there who may \
         create users",
    ),
    database(
        "hanadb_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-hanadb",
                    "hana-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_HANADB_USERNAME",
                    "VAULT_BENCHMARK_HANADB_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                URL,
                POOL,
                USERNAME_TEMPLATE,
                ESCAPING,
                TLS_SERVER,
                &[text("tls_certificate_key"), text("tls_ca_certificate")],
            ]),
            role(&[role_of!("benchmark-hanadb", "benchmark-role"), LIFE, CREATION, REVOCATION]),
        ],
        "an SAP HANA server (`connection_url` in `db_connection`)",
    ),
    database(
        "mssql_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-mssql",
                    "mssql-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_MSSQL_USERNAME",
                    "VAULT_BENCHMARK_MSSQL_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                URL,
                POOL,
                USERNAME_TEMPLATE,
                ESCAPING,
                &[flag("contained_db")],
            ]),
            role(&[role_of!("benchmark-mssql", "benchmark-role"), LIFE, CREATION, REVOCATION]),
        ],
        "a Microsoft SQL Server (`connection_url` in `db_connection`)",
    ),
    database(
        "mongodb_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-mongo",
                    "mongodb-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_MONGODB_USERNAME",
                    "VAULT_BENCHMARK_MONGODB_PASSWORD"
                ),
                CONNECTION,
                URL,
                USERNAME_TEMPLATE,
                &[text("write_concern"), text("tls_certificate_key"), text("tls_ca")],
            ]),
            role(&[
                role_of!("benchmark-mongo", "benchmark-role"),
                &[
                    text("default_ttl").or("1h"),
                    text("max_ttl").or("24h"),
                    text("creation_statements").or(
                        r#"{"db": "admin", "roles": [{ "role": "readWrite" }, {"role": "read", "db": "foo"}] }"#,
                    ),
                ],
                REVOCATION,
            ]),
        ],
        "a MongoDB server (`connection_url` in `db_connection`)",
    ),
    database(
        "cassandra_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-cassandra",
                    "cassandra-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_CASSANDRADB_USERNAME",
                    "VAULT_BENCHMARK_CASSANDRADB_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                USERNAME_TEMPLATE,
                &[
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
                ],
            ]),
            role(&[
                role_of!("benchmark-cassandra", "benchmark-role"),
                LIFE,
                ROOT_ROTATION,
                &[
                    texts("creation_statements").required(),
                    texts("revocation_statements"),
                    texts("rollback_statements"),
                ],
            ]),
        ],
        "a Cassandra cluster (`hosts` in `db_connection`)",
    ),
    database(
        "couchbase_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-database",
                    "couchbase-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_COUCHBASE_USERNAME",
                    "VAULT_BENCHMARK_COUCHBASE_PASSWORD"
                ),
                CONNECTION,
                PASSWORD_POLICY,
                ESCAPING,
                USERNAME_TEMPLATE,
                &[
                    text("hosts").required(),
                    flag("tls"),
                    flag("insecure_tls"),
                    text("base64pem"),
                    text("bucket_name").required(),
                ],
            ]),
            role(&[
                role_of!("benchmark-database", "benchmark-role"),
                LIFE,
                &[texts("creation_statements")],
            ]),
        ],
        "a Couchbase cluster (`hosts` in `db_connection`)",
    ),
    database(
        "elasticsearch_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-elasticsearch",
                    "elasticsearch-database-plugin",
                    "benchmark-role",
                    "VAULT_BENCHMARK_ELASTICSEARCH_USERNAME",
                    "VAULT_BENCHMARK_ELASTICSEARCH_PASSWORD"
                ),
                CONNECTION,
                ROOT_ROTATION,
                PASSWORD_POLICY,
                USERNAME_TEMPLATE,
                &[
                    text("url").required(),
                    text("ca_cert"),
                    text("ca_path"),
                    text("client_cert"),
                    text("client_key"),
                    text("tls_server_name"),
                    flag("insecure").or_flag(true),
                    flag("use_old_xpack"),
                ],
            ]),
            role(&[
                role_of!("benchmark-elasticsearch", "benchmark-role"),
                &[
                    text("default_ttl").or("1h"),
                    text("max_ttl").or("24h"),
                    texts("creation_statements").or_texts(&[
                        r#"{"elasticsearch_role_definition": {"indices": [{"names":["*"], "privileges":["read"]}]}}"#,
                    ]),
                ],
            ]),
        ],
        "an Elasticsearch server (`url` in `db_connection`)",
    ),
    database(
        "redis_dynamic_secret",
        &[
            connection(&[
                connection_as!(
                    "benchmark-redis-db",
                    "redis-database-plugin",
                    "my-*-role",
                    "VAULT_BENCHMARK_REDIS_USERNAME",
                    "VAULT_BENCHMARK_REDIS_PASSWORD"
                ),
                CONNECTION,
                PASSWORD_POLICY,
                REDIS,
            ]),
            role(&[role_of!("benchmark-redis-db", "my-dynamic-role"), LIFE, CREATION]),
        ],
        "a Redis server (`host` and `port` in `db_connection`) and a user there who may set ACLs",
    ),
    Service {
        kind: "redis_static_secret",
        mount: Mount::Engine("database"),
        blocks: &[
            connection(&[
                connection_as!(
                    "benchmark-redis-db",
                    "redis-database-plugin",
                    "my-*-role",
                    "VAULT_BENCHMARK_STATIC_REDIS_USERNAME",
                    "VAULT_BENCHMARK_STATIC_REDIS_PASSWORD"
                ),
                CONNECTION,
                PASSWORD_POLICY,
                REDIS,
            ]),
            Block {
                name: "role",
                path: "static-roles/{role.name}",
                fields: &[
                    role_of!("benchmark-redis-db", "my-static-role"),
                    &[
                        text("rotation_period").or("5m"),
                        text("username").required(),
                        flag("insecure_tls"),
                    ],
                ],
            },
        ],
        request: Request::Get("static-creds/{role.name}"),
        needs: "a Redis server (`host` and `port` in `db_connection`) with the user that `role` names",
    },
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
                        text("username").or_variable("VAULT_BENCHMARK_RABBITMQ_USERNAME").required(),
                        text("password").or_variable("VAULT_BENCHMARK_RABBITMQ_PASSWORD").required(),
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
    },
];
