//! Defines the tables that Vault's PostgreSQL storage uses but does not create.
//!
//! Columns, types, keys and the index follow Vault's documentation of that storage. The second table is for
//! `ha_enabled`.

/// Statements that create the tables unless they exist.
pub(crate) const VAULT_TABLES: &str = "
    CREATE TABLE IF NOT EXISTS vault_kv_store (
        parent_path text COLLATE \"C\" NOT NULL,
        path text COLLATE \"C\",
        key text COLLATE \"C\",
        value bytea,
        CONSTRAINT pkey PRIMARY KEY (path, key)
    );
    CREATE INDEX IF NOT EXISTS parent_path_idx ON vault_kv_store (parent_path);
    CREATE TABLE IF NOT EXISTS vault_ha_locks (
        ha_key text COLLATE \"C\" NOT NULL,
        ha_identity text COLLATE \"C\" NOT NULL,
        ha_value text COLLATE \"C\",
        valid_until timestamp with time zone NOT NULL,
        CONSTRAINT ha_key PRIMARY KEY (ha_key)
    );";
