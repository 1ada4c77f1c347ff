//! Tests credentials of Consul, Nomad, LDAP and AWS, and logins that an outside service checks: LDAP, GitHub, RADIUS,
//! Okta.
//!
//! Not here: the set-up (`services`), logins that the server checks itself (`logins`).

use super::services::{Block, Body, Mount, Request, Service};
use crate::vault_benchmark::fields::{Field, flag, switch, text, texts, whole};

/// Options for the tokens of a login.
pub(super) const TOKENS: &[Field] = &[
    text("token_ttl"),
    text("token_max_ttl"),
    texts("token_policies"),
    texts("token_bound_cidrs"),
    text("token_explicit_max_ttl"),
    flag("token_no_default_policy"),
    whole("token_num_uses"),
    text("token_period"),
    text("token_type"),
];

/// Policies under their former option name.
pub(super) const POLICIES: &[Field] = &[texts("policies")];

const CLIENT_TLS: &[Field] = &[text("ca_cert"), text("client_cert"), text("client_key")];

const LDAP_ENGINE: &[Field] = &[
    text("binddn").required(),
    text("bindpass").or_variable("VAULT_BENCHMARK_LDAP_BIND_PASS").required(),
    text("url"),
    text("password_policy"),
    text("schema"),
    text("userdn"),
    text("userattr"),
    text("upndomain"),
    whole("connection_timeout"),
    whole("request_timeout"),
    flag("starttls"),
    flag("insecure_tls"),
    text("certificate"),
    text("client_tls_cert"),
    text("client_tls_key"),
];

const LDAP_NEEDS: &str = "an LDAP server (`url` in `secret`) and a user who may write there";

/// Body of a login by name and password.
const PASSWORD: &[(&str, &str)] = &[("password", "{test_user.password}")];

pub(super) const TYPES: &[Service] = &[
    Service {
        kind: "nomad_secret",
        mount: Mount::Engine("nomad"),
        blocks: &[
            Block {
                name: "nomad",
                path: "config/access",
                fields: &[
                    &[
                        text("address").required(),
                        text("token").or_variable("VAULT_BENCHMARK_NOMAD_TOKEN").required(),
                        whole("max_token_name_length"),
                    ],
                    CLIENT_TLS,
                ],
            },
            Block {
                name: "role",
                path: "role/{role.name}",
                fields: &[
                    &[text("name").or("benchmark-role"), flag("global"), text("type")],
                    POLICIES,
                ],
            },
        ],
        request: Request::Get("creds/{role.name}"),
        needs: "a Nomad server with ACLs (`address` in `nomad`) and a management token",
        ..Service::PLAIN
    },
    Service {
        kind: "aws_secret",
        mount: Mount::Engine("aws"),
        blocks: &[
            Block {
                name: "connection",
                path: "config/root",
                fields: &[&[
                    whole("max_retries"),
                    text("access_key").or_variable("VAULT_BENCHMARK_AWS_ACCESS_KEY").required(),
                    text("secret_key").or_variable("VAULT_BENCHMARK_AWS_SECRET_KEY").required(),
                    text("region"),
                    text("iam_endpoint"),
                    text("sts_endpoint"),
                    text("username_template"),
                ]],
            },
            Block {
                name: "role",
                path: "roles/{role.name}",
                fields: &[&[
                    text("name").or("benchmark-role"),
                    text("credential_type").or("iam_user"),
                    text("role_arns"),
                    text("policy_arns"),
                    text("policy_document"),
                    text("iam_groups"),
                    text("iam_tags"),
                    text("default_sts_ttl"),
                    text("max_sts_ttl"),
                    text("user_path"),
                    text("permissions_boundary_arn"),
                ]],
            },
        ],
        request: Request::Get("creds/{role.name}"),
        needs: "an AWS account (`access_key` and `secret_key` in `connection`)",
        ..Service::PLAIN
    },
    Service {
        kind: "ldap_dynamic_secret",
        mount: Mount::Engine("ldap"),
        blocks: &[
            Block { name: "secret", path: "config", fields: &[LDAP_ENGINE] },
            Block {
                name: "role",
                path: "role/{role.role_name}",
                fields: &[&[
                    text("role_name").or("benchmark-role"),
                    text("creation_ldif").required(),
                    text("deletion_ldif").required(),
                    text("rollback_ldif"),
                    text("username_template"),
                    whole("default_ttl"),
                    whole("max_ttl"),
                ]],
            },
        ],
        request: Request::Get("creds/{role.role_name}"),
        needs: LDAP_NEEDS,
        ..Service::PLAIN
    },
    Service {
        kind: "ldap_static_secret",
        mount: Mount::Engine("ldap"),
        blocks: &[
            Block { name: "secret", path: "config", fields: &[LDAP_ENGINE] },
            Block {
                name: "role",
                path: "static-role/{role.username}",
                fields: &[&[
                    text("username").required(),
                    text("dn"),
                    text("rotation_period").required(),
                ]],
            },
        ],
        request: Request::Post("rotate-role/{role.username}", Body::Empty),
        needs: LDAP_NEEDS,
        ..Service::PLAIN
    },
    Service {
        kind: "ldap_auth",
        mount: Mount::Login("ldap"),
        blocks: &[
            Block {
                name: "auth",
                path: "config",
                fields: &[
                    &[
                        text("url").required(),
                        flag("case_sensitive_names"),
                        whole("request_timeout"),
                        flag("starttls"),
                        text("tls_min_version"),
                        text("tls_max_version"),
                        flag("insecure_tls"),
                        text("certificate"),
                        text("client_tls_cert"),
                        text("client_tls_key"),
                        text("binddn"),
                        text("bindpass").or_variable("VAULT_BENCHMARK_LDAP_BIND_PASS").required(),
                        text("userdn"),
                        text("userattr"),
                        text("discoverdn"),
                        switch("deny_null_bind"),
                        text("upndomain"),
                        text("userfilter"),
                        flag("anonymous_group_search"),
                        text("groupfilter"),
                        text("groupdn"),
                        text("groupattr"),
                        flag("username_as_alias"),
                        text("max_page_size"),
                    ],
                    TOKENS,
                ],
            },
            Block {
                name: "test_user",
                path: "",
                fields: &[&[
                    text("username").or_variable("VAULT_BENCHMARK_LDAP_TEST_USERNAME").required(),
                    text("password").or_variable("VAULT_BENCHMARK_LDAP_TEST_PASSWORD").required(),
                ]],
            },
        ],
        request: Request::Post("login/{test_user.username}", Body::Values(PASSWORD)),
        needs: "an LDAP server (`url` in `auth`) that knows the user in `test_user`",
        ..Service::PLAIN
    },
    Service {
        kind: "github_auth",
        mount: Mount::Login("github"),
        blocks: &[
            Block {
                name: "auth",
                path: "config",
                fields: &[&[
                    text("organization").required(),
                    text("organization_id"),
                    text("base_url"),
                    text("token_ttl"),
                    text("token_max_ttl"),
                    text("token_policies"),
                    text("policies"),
                    text("token_bound_cidrs"),
                    text("token_explicit_max_ttl"),
                    flag("token_no_default_policy"),
                    text("token_num_uses"),
                    text("token_period"),
                    text("token_type"),
                ]],
            },
            Block {
                name: "test_user",
                path: "",
                fields: &[&[text("token").or_variable("VAULT_BENCHMARK_GITHUB_TOKEN").required()]],
            },
        ],
        request: Request::Post("login", Body::Values(&[("token", "{test_user.token}")])),
        needs: "GitHub, and the token of a user of the organization",
        ..Service::PLAIN
    },
];
