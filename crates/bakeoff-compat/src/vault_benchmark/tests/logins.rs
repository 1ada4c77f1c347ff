//! Tests logins that the server checks itself: `approle_auth`, `userpass_auth`, `jwt_auth`, `cert_auth`.
//!
//! Generates their credentials: a password, a key that signs tokens, a certificate. They stay in memory and end with
//! the run.
//!
//! Not here: logins that an outside service checks (`directories`).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rand::RngExt as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

use super::directories::{POLICIES, TOKENS};
use super::services::{Block, Body, Mount, Ready, Request, Service};
use super::{Fields, Identity, Stage, Template, TestType, Trouble};
use crate::vault_benchmark::fields::{Field, any, flag, map, switch, text, texts, whole};
use crate::vault_benchmark::trouble::Kind;

/// Reads several lists of options into one body.
fn read(fields: &Fields, lists: &[&[Field]]) -> Map<String, Value> {
    lists.iter().flat_map(|list| fields.read(list)).collect()
}

/// Returns an option that has a default, as text.
fn name_in(options: &Map<String, Value>, name: &str) -> String {
    options.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the request of a login, with its body spaced as in vault-benchmark.
fn login(stage: &Stage<'_>, path: String, values: &[(&str, &str)]) -> Template {
    let value = |(name, value): &(&str, &str)| format!("\"{name}\": {}", Value::from(*value));
    let values: Vec<String> = values.iter().map(value).collect();
    let body = if values.is_empty() { String::new() } else { format!("{{{}}}", values.join(", ")) };
    Template::fixed("POST", path, body).with(stage.client.headers())
}

/// Returns the error for an answer without the field `what`.
fn lacks(what: &str) -> Trouble {
    Trouble::new(Kind::Refused, format!("the server answered without {what}"))
}

pub(super) const TYPES: &[Service] = &[
    Service {
        kind: "approle_auth",
        mount: Mount::Login("approle"),
        blocks: &[
            Block {
                name: "role",
                path: "role/{role.role_name}",
                fields: &[
                    &[
                        text("role_name").or("benchmark-role"),
                        switch("bind_secret_id"),
                        texts("secret_id_bound_cidrs"),
                        whole("secret_id_num_uses"),
                        text("secret_id_ttl"),
                        flag("local_secret_ids"),
                    ],
                    TOKENS,
                    POLICIES,
                ],
            },
            Block {
                name: "secret_id",
                path: "",
                fields: &[&[
                    text("metadata"),
                    texts("cidr_list"),
                    whole("num_uses"),
                    text("ttl"),
                    texts("token_bound_cidrs"),
                ]],
            },
        ],
        request: Request::Post(
            "login",
            Body::Login(&[("role_id", "{made.role_id}"), ("secret_id", "{made.secret_id}")]),
        ),
        before_load: make_secret_id,
        ..Service::PLAIN
    },
    Service {
        kind: "consul_secret",
        mount: Mount::Engine("consul"),
        blocks: &[
            Block {
                name: "consul",
                path: "config/access",
                fields: &[&[
                    text("address").required(),
                    text("scheme"),
                    text("token").or_variable("VAULT_BENCHMARK_CONSUL_TOKEN").required(),
                    text("ca_cert"),
                    text("client_cert"),
                    text("client_key"),
                ]],
            },
            Block {
                name: "role",
                path: "roles/{role.name}",
                fields: &[&[
                    text("name").or("benchmark-role"),
                    text("partition"),
                    texts("node_identities"),
                    text("consul_namespace"),
                    texts("service_identities"),
                    texts("consul_roles"),
                    text("token_type"),
                    text("policy"),
                    texts("policies"),
                    texts("consul_policies"),
                    flag("local"),
                    text("ttl"),
                    text("max_ttl"),
                    text("lease"),
                ]],
            },
        ],
        request: Request::Get("creds/{role.name}"),
        needs: "a Consul server with ACLs (`address` in `consul`) and a management token",
        complete: leave_out_what_is_newer,
        ..Service::PLAIN
    },
    Service {
        kind: "userpass_auth",
        mount: Mount::Login("userpass"),
        blocks: &[Block {
            name: "",
            path: "users/{.username}",
            fields: &[&[text("username").or("benchmark-user"), text("password")], TOKENS],
        }],
        request: Request::Post("login/{.username}", Body::Login(&[("password", "{.password}")])),
        complete: |ready, _| {
            ready.block("").entry("password").or_insert_with(|| password().into());
        },
        ..Service::PLAIN
    },
];

fn make_secret_id(ready: &mut Ready, stage: &mut Stage<'_>, mount: &str) -> Result<(), Trouble> {
    let path = format!("{mount}/{}", ready.filled("role/{role.role_name}"));
    let role = stage.client.read(&format!("{path}/role-id"))?;
    let role = role.data("role_id").ok_or_else(|| lacks("a role's id"))?;
    let secret = stage.write(&format!("{path}/secret-id"), ready.body("secret_id"))?;
    let secret = secret.data("secret_id").ok_or_else(|| lacks("a secret id"))?;
    ready.block("made").insert("role_id".into(), role.into());
    ready.block("made").insert("secret_id".into(), secret.into());
    Ok(())
}

/// Removes options that the Consul version given in the file does not support yet.
fn leave_out_what_is_newer(ready: &mut Ready, fields: &Fields) {
    const SINCE: [(&str, (u64, u64)); 4] = [
        ("node_identities", (1, 8)),
        ("consul_namespace", (1, 8)),
        ("service_identities", (1, 5)),
        ("consul_roles", (1, 5)),
    ];
    let version = fields.text("version").unwrap_or_else(|| "1.14.0".to_owned());
    let Some(version) = version_parts(&version) else {
        let hint = "write it as `version = \"1.14.0\"`";
        return fields.diagnostic("version", "`version` is Consul's and must be a version", hint);
    };
    for (name, _) in SINCE.iter().filter(|(_, since)| version < *since) {
        ready.block("role").remove(*name);
    }
}

/// Returns 64 random letters and digits, about 380 bits.
fn password() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut random = rand::rng();
    (0..64).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])).collect()
}

/// Test type `jwt_auth`.
struct Jwt {
    auth: Map<String, Value>,
    role: Map<String, Value>,
}

pub(super) fn jwt(fields: &Fields) -> Box<dyn TestType> {
    let auth = [
        text("oidc_discovery_url"),
        text("oidc_discovery_ca_pem"),
        text("oidc_client_id"),
        text("oidc_client_secret"),
        text("oidc_response_mode"),
        texts("oidc_response_types"),
        text("jwks_url"),
        text("jwks_ca_pem"),
        texts("jwt_validation_pubkeys"),
        text("bound_issuer"),
        texts("jwt_supported_algs"),
        text("default_role"),
        text("provider_config"),
        switch("namespace_in_state"),
    ];
    let role = [
        text("name").or("benchmark-role"),
        text("role_type").or("jwt"),
        texts("bound_audiences").or_texts(&["https://vault.plugin.auth.jwt.test"]),
        text("user_claim").or(USER_CLAIM),
        text("user_claim_json_pointer"),
        whole("clock_skew_leeway"),
        whole("expiration_leeway"),
        whole("not_before_leeway"),
        text("bound_subject"),
        any("bound_claims"),
        text("bound_claims_type"),
        text("groups_claim"),
        map("claim_mappings"),
        texts("oidc_scopes"),
        texts("allowed_redirect_uris"),
        flag("verbose_oidc_logging"),
        whole("max_age"),
    ];
    let block = fields.block("role");
    Box::new(Jwt {
        auth: fields.block("auth").read(&auth),
        role: read(&block, &[&role, TOKENS, POLICIES]),
    })
}

/// Claim that names the user. vault-benchmark puts it into each token.
const USER_CLAIM: &str = "https://vault/user";
const GROUPS_CLAIM: &str = "https://vault/groups";

/// Lifetime of a token, longer than any load. vault-benchmark's tokens have no end, for which servers assume 150 s.
const TOKEN_LIFE_SECONDS: f64 = 7.0 * 86_400.0;

impl TestType for Jwt {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let mount = format!("auth/{}", stage.name);
        stage.enable_auth(&stage.name.clone(), "jwt", json!({}))?;
        let key = Signer::new()?;
        let mut auth = self.auth.clone();
        let elsewhere = ["jwt_validation_pubkeys", "jwks_url", "oidc_discovery_url"];
        if !elsewhere.iter().any(|name| auth.contains_key(*name)) {
            auth.insert("jwt_validation_pubkeys".into(), json!([key.public_pem()]));
        }
        stage.write(&format!("{mount}/config"), auth)?;
        let role = name_in(&self.role, "name");
        stage.write(&format!("{mount}/role/{role}"), self.role.clone())?;
        let token = key.token(&self.claims(bakeoff_clock::wall::seconds()))?;
        let values = [("role", &*role), ("jwt", &*token)];
        Ok(login(stage, format!("/v1/{mount}/login"), &values))
    }
}

impl Jwt {
    /// Returns the claims of the token. `now` is in seconds since 1970.
    fn claims(&self, now: f64) -> Value {
        let mut claims = Map::new();
        let mut put = |name: &str, value: Option<&Value>| {
            value.map(|value| claims.insert(name.to_owned(), value.clone()))
        };
        put("sub", self.role.get("bound_subject"));
        put("iss", self.auth.get("bound_issuer"));
        put("aud", self.role.get("bound_audiences"));
        put("nbf", Some(&json!((now - 5.0) as u64)));
        put("exp", Some(&json!((now + TOKEN_LIFE_SECONDS) as u64)));
        put(USER_CLAIM, self.role.get("user_claim"));
        put(GROUPS_CLAIM, Some(self.role.get("groups_claim").unwrap_or(&"".into())));
        Value::Object(claims)
    }
}

/// Signs JSON Web Tokens with ES256 (RFC 7518, 3.4).
struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    fn new() -> Result<Self, Trouble> {
        let cannot = |what: &dyn std::fmt::Display| {
            Trouble::new(Kind::Failed, format!("no key could be made: {what}"))
        };
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|e| cannot(&e))?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random)
            .map_err(|error| cannot(&error))?;
        Ok(Self { key, random })
    }

    /// Returns the public key as a `SubjectPublicKeyInfo` (RFC 5480) in PEM.
    fn public_pem(&self) -> String {
        // SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING }, to be followed by the point.
        const HEAD: [u8; 26] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        let der = [&HEAD, self.key.public_key().as_ref()].concat();
        let encoded = STANDARD.encode(der);
        let lines: Vec<&str> = (0..encoded.len())
            .step_by(64)
            .map(|at| &encoded[at..encoded.len().min(at + 64)])
            .collect();
        let lines = lines.join("\n");
        format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n")
    }

    fn token(&self, claims: &Value) -> Result<String, Trouble> {
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","typ":"JWT"}"#);
        let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(&self.random, signed.as_bytes()).map_err(|error| {
            Trouble::new(Kind::Failed, format!("the token could not be signed: {error}"))
        })?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Test type `cert_auth`.
struct Cert {
    role: Map<String, Value>,
    /// Generated, unless the file has a certificate. The client then shows its own.
    identity: Option<Identity>,
}

pub(super) fn cert(fields: &Fields) -> Box<dyn TestType> {
    let role = [
        text("name").or("benchmark-vault"),
        text("certificate"),
        text("allowed_names"),
        texts("allowed_common_names"),
        texts("allowed_dns_sans"),
        texts("allowed_email_sans"),
        texts("allowed_uri_sans"),
        texts("allowed_organizational_units"),
        texts("required_extensions"),
        texts("allowed_metadata_extensions"),
        text("display_name"),
    ];
    let mut role = read(fields, &[&role, TOKENS, POLICIES]);
    let mut identity = None;
    if !role.contains_key("certificate") {
        match made_up() {
            Ok(made) => {
                role.insert("certificate".into(), made.certificate.clone().into());
                identity = Some(made);
            }
            Err(error) => fields.diagnostic(
                "certificate",
                format!("no certificate could be made: {error}"),
                "give one in `certificate`, and show it by `VAULT_CLIENT_CERT`",
            ),
        }
    }
    Box::new(Cert { role, identity })
}

/// Generates a client certificate, signed by an authority made for it alone.
fn made_up() -> Result<Identity, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "bakeoff");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let mut client = CertificateParams::new(vec!["localhost".to_owned()])?;
    client.distinguished_name.push(DnType::CommonName, "localhost");
    client.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = client.signed_by(&key, &issuer)?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
}

impl TestType for Cert {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        if !stage.client.address().starts_with("https:") {
            let what = "cannot set up `cert_auth`, which needs a server with TLS: a certificate is \
                        shown when a connection is made";
            return Err(Trouble::new(Kind::Input, what));
        }
        let mount = format!("auth/{}", stage.name);
        stage.enable_auth(&stage.name.clone(), "cert", json!({}))?;
        let path = format!("{mount}/certs/{}", name_in(&self.role, "name"));
        stage.write(&path, self.role.clone())?;
        Ok(login(stage, format!("/v1/{mount}/login"), &[]))
    }

    fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }
}

/// Returns the major and minor version.
fn version_parts(version: &str) -> Option<(u64, u64)> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next().unwrap_or("0").parse().ok()?))
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::super::build;
    use super::*;
    use crate::vault_benchmark::config::Config;
    use crate::vault_benchmark::fields::Environment;

    fn config(lines: &str) -> Config {
        let text = format!("test \"k\" \"t\" {{\nweight = 100\nconfig {{\n{lines}\n}}\n}}\n");
        Config::parse("t.hcl", &text, Environment::default()).unwrap()
    }

    #[test]
    fn token_verifies_with_the_published_key() {
        let signer = Signer::new().unwrap();
        let token = signer.token(&json!({"sub": "me"})).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert_eq!(signature.len(), 64);
        let pem = signer.public_pem();
        let lines: Vec<&str> = pem.lines().collect();
        assert_eq!(lines[0], "-----BEGIN PUBLIC KEY-----");
        assert!(lines.iter().all(|line| line.len() <= 64));
        let der = STANDARD.decode(lines[1..lines.len() - 1].concat()).unwrap();
        assert_eq!((der.len(), usize::from(der[1])), (91, 89));
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &der[26..]);
        key.verify(signed.as_bytes(), &signature).unwrap();
        assert!(key.verify(b"something else", &signature).is_err());
        let claims = signed.split_once('.').unwrap().1;
        assert_eq!(URL_SAFE_NO_PAD.decode(claims).unwrap(), br#"{"sub":"me"}"#);
    }

    #[test]
    fn token_has_the_claims_that_the_role_binds() {
        let role = json!({"user_claim": "u", "bound_subject": "s", "bound_audiences": ["a"]});
        let jwt = Jwt {
            auth: json!({"bound_issuer": "i"}).as_object().unwrap().clone(),
            role: role.as_object().unwrap().clone(),
        };
        let claims = jwt.claims(1000.5);
        assert_eq!((&claims["sub"], &claims["iss"]), (&json!("s"), &json!("i")));
        assert_eq!((&claims["aud"], &claims[USER_CLAIM]), (&json!(["a"]), &json!("u")));
        assert_eq!((&claims["nbf"], &claims[GROUPS_CLAIM]), (&json!(995), &json!("")));
        assert_eq!(claims["exp"], json!(1000 + 7 * 86_400));
    }

    #[test]
    fn generated_certificate_is_for_clients_and_matches_its_key() {
        let config = config("");
        let made = cert(&config.tests[0].config);
        let made = made.identity().unwrap();
        assert!(made.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        config.finish().unwrap();
        let own = self::config("certificate = \"x\"");
        assert!(cert(&own.tests[0].config).identity().is_none());
    }

    #[test]
    fn passwords_are_long_and_differ() {
        assert_eq!(password().len(), 64);
        assert_ne!(password(), password());
        assert!(password().bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn versions_have_a_major_and_a_minor_part() {
        assert_eq!(version_parts("1.14.0"), Some((1, 14)));
        assert_eq!(version_parts("v1.4.0-rc1"), Some((1, 4)));
        assert_eq!(version_parts("2"), Some((2, 0)));
        assert_eq!((version_parts("x"), version_parts("")), (None, None));
        let config = config("version = \"new\"\nconsul {\naddress = \"a\"\ntoken = \"t\"\n}");
        build("consul_secret", &config.tests[0].config).unwrap();
        assert!(config.finish().unwrap_err().to_string().contains("must be a version"));
    }

    #[test]
    fn every_option_of_a_login_is_known() {
        let logins: [(&str, &str); 3] = [
            (
                "approle_auth",
                "role {\ntoken_type = \"batch\"\npolicies = []\n}\nsecret_id {\nttl = \"1m\"\n}",
            ),
            ("userpass_auth", "username = \"u\"\npassword = \"p\"\ntoken_ttl = \"1m\""),
            ("jwt_auth", "auth {\nbound_issuer = \"i\"\n}\nrole {\nbound_claims = { a = [1] }\n}"),
        ];
        for (kind, lines) in logins {
            let config = config(lines);
            build(kind, &config.tests[0].config).unwrap();
            config.finish().unwrap();
            let wrong = self::config(&format!("{lines}\ntypo = 1"));
            build(kind, &wrong.tests[0].config).unwrap();
            assert!(wrong.finish().unwrap_err().to_string().contains("`typo`"));
        }
    }
}
