//! Compares every request of every type, set-up included, with the file `requests.txt`.
//!
//! A test server answers everything with the same object, which has all fields that a set-up reads. Values generated
//! in each run (keys, passwords, tokens) are masked by their length.
//!
//! `BLESS=1` rewrites the file. Not here: whether a real server accepts the requests
//! (`crates/bakeoff/tests/servers/vault_benchmark.rs`).

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use super::super::client::Client;
use super::super::config::Config;
use super::super::fields::Environment;
use super::super::request::{Draw, MessageOne};
use super::super::server::{Server, TlsSettings};
use super::*;

/// Answer to every request.
const ANSWER: &str = r#"{"data":{"role_id":"the-role-id","secret_id":"the-secret-id","csr":"the-csr","certificate":"the-certificate","issuing_ca":"the-issuer","signature":"the-signature","ciphertext":"the-ciphertext"}}"#;

/// `config` blocks that each type is set up with, besides those of [`services::examples`].
const CONFIGS: &[(&str, &[&str])] = &[
    ("acl_policy_list", &[""]),
    ("acl_policy_read", &["policies = 2\npaths = 11\npath_length = 2\ncapabilities = [\"read\"]"]),
    ("acl_policy_write", &["policies = 1"]),
    (
        "approle_auth",
        &[
            "",
            "role {\nrole_name = \"r\"\nbind_secret_id = false\ntoken_ttl = \"1m\"\n\
             policies = [\"p\"]\nlocal_secret_ids = true\n}\n\
             secret_id {\nnum_uses = 3\ncidr_list = [\"10.0.0.0/8\"]\n}",
        ],
    ),
    (
        "cert_auth",
        &["", "name = \"n\"\ncertificate = \"c\"\ntoken_ttl = \"1m\"\npolicies = [\"p\"]"],
    ),
    (
        "consul_secret",
        &[
            "consul {\naddress = \"a\"\ntoken = \"t\"\n}",
            "version = \"1.4.9\"\nconsul {\naddress = \"a\"\nscheme = \"https\"\ntoken = \"t\"\n}\n\
             role {\nname = \"n\"\nconsul_roles = [\"x\"]\npolicies = [\"y\"]\nlocal = true\n}",
            "version = \"v1.7\"\nconsul {\naddress = \"a\"\ntoken = \"t\"\n}\n\
             role {\nconsul_roles = [\"x\"]\nnode_identities = [\"y\"]\n}",
        ],
    ),
    ("cubbyhole_read", &["", "path = \"/a/b/\""]),
    ("cubbyhole_write", &["path = \"\""]),
    ("ha_status", &[""]),
    ("health", &[""]),
    (
        "jwt_auth",
        &[
            "",
            "auth {\nbound_issuer = \"i\"\njwks_url = \"j\"\n}\n\
             role {\nname = \"n\"\nbound_claims = { a = [1] }\ntoken_policies = [\"p\"]\n}",
        ],
    ),
    ("kvv1_list", &["numkvs = 1"]),
    ("kvv1_read", &["numkvs = 2\nkvsize = 3"]),
    ("kvv1_write", &["numkvs = 2\nkvsize = 3"]),
    ("kvv2_list", &["numkvs = 1", "numkvs = 1\ndetailed = true"]),
    ("kvv2_read", &["numkvs = 2\nkvsize = 3"]),
    ("kvv2_write", &["numkvs = 2\nkvsize = 0"]),
    ("leader", &[""]),
    ("metrics", &[""]),
    ("mount", &["", "mount_type = \"auth\"\nplugin = \"userpass\""]),
    ("namespace", &["", "namespace_prefix = \"n\""]),
    (
        "pki_issue",
        &[
            "setup_delay = \"0s\"",
            "setup_delay = \"1ms\"\nroot_ca {\ntype = \"exported\"\ncommon_name = \"c\"\n}\n\
             intermediate_csr {\ntype = \"existing\"\nkey_bits = 4096\n}\n\
             intermediate_ca {\nttl = \"1h\"\n}\n\
             role {\nname = \"n\"\nallowed_domain_template = true\nallow_any_name = false\n}\n\
             issue {\nname = \"x\"\ncommon_name = \"d\"\n}",
        ],
    ),
    (
        "pki_sign",
        &[
            "setup_delay = \"0s\"",
            "setup_delay = \"0s\"\nsign {\nremove_root_from_chain = true\n\
             csr = \"-----BEGIN CERTIFICATE REQUEST-----\\nMAA=\\n-----END CERTIFICATE REQUEST-----\"\n}",
        ],
    ),
    ("seal_status", &[""]),
    (
        "ssh_issue",
        &[
            "",
            "ca {\nkey_type = \"ed25519\"\ngenerate_signing_key = false\n}\n\
             role {\nname = \"n\"\nallowed_users = [\"a\", \"b\"]\n}\n\
             issued_cert {\nname = \"x\"\nextensions = { permit-pty = \"\" }\n}",
        ],
    ),
    (
        "ssh_sign",
        &[
            "",
            "key_signing {\npublic_key = \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA\"\nttl = \"1m\"\n}",
        ],
    ),
    ("totp_create", &["", "key_name = \"k\"\ndigits = 8\ngenerate = true"]),
    ("totp_generate", &["key_name = \"k\""]),
    ("totp_read", &["issuer = \"i\""]),
    (
        "transit_decrypt",
        &["", "keys {\nname = \"k\"\nderived = true\n}\ndecrypt {\nname = \"d\"\n}"],
    ),
    (
        "transit_encrypt",
        &["payload_len = 50", "keys {\nderived = true\n}\nencrypt {\nkey_version = 2\n}"],
    ),
    ("transit_sign", &["", "sign {\ninput = \"aGk=\"\nprehashed = true\n}"]),
    (
        "transit_verify",
        &["", "verify {\ninput = \"aGk=\"\n}", "verify {\nbatch_input = [{ input = \"aGk=\" }]\n}"],
    ),
    ("userpass_auth", &["", "username = \"u\"\npassword = \"p\"\ntoken_ttl = \"1m\""]),
];

/// Invalid options of all types that check them.
const WRONG: &[(&str, &str)] = &[
    ("acl_policy_read", "paths = 100000000"),
    ("approle_auth", "role_name = \"r\"\nrole {\nrole_nme = \"r\"\n}"),
    ("consul_secret", "version = \"new\"\nconsul {\nscheme = []\n}"),
    ("kvv1_read", "detailed = true\nnumkvs = 0"),
    ("kvv2_write", "kvsize = 100000000\nnumkv = 1"),
    ("mount", "mount_type = \"x\""),
    ("pki_sign", "setup_delay = 5\nsign {\ncsr = \"x\"\ntype = 1\n}"),
    ("ssh_sign", "key_signing {\npublic_key = \"x\"\n}\nissued_cert { }"),
    ("totp_create", "generate = false\nkeyname = \"x\""),
    ("transit_sign", "payload_len = 100000000\nkeys {\nnam = \"x\"\n}"),
    ("userpass_auth", "user = \"u\"\nusername = []\ntoken_ttl { }"),
    ("postgresql_secret", "db_connection {\nconnecton_url = \"x\"\npassword = []\n}\nrole = 1"),
    ("ldap_auth", "auth {\nurl = {}\n}\nauth { }\ntest_user {\nusername = null\n}"),
];

/// Accepts requests, gives all of them the same answer, and records them.
fn listen(requests: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let requests = Arc::clone(&requests);
            thread::spawn(move || serve(stream.unwrap(), &requests));
        }
    });
    address
}

fn serve(mut stream: TcpStream, requests: &Mutex<Vec<String>>) {
    let mut held = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some((request, length)) = request(&held) {
            held.drain(..length);
            requests.lock().unwrap().push(request);
            let length = ANSWER.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{ANSWER}");
            stream.write_all(answer.as_bytes()).ok();
        } else {
            match stream.read(&mut piece) {
                Ok(read) if read > 0 => held.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
    }
}

/// Returns the first request in the buffer as method, path and body, and its length.
fn request(held: &[u8]) -> Option<(String, usize)> {
    let text = str::from_utf8(held).ok()?;
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length = length.map_or(0, |length| length.parse().unwrap());
    let body = rest.get(..length)?;
    let line = head.split_once(" HTTP/1.1").map_or(head, |(line, _)| line);
    Some((format!("{line} {body}"), head.len() + 4 + length))
}

/// Replaces generated texts: long quoted texts without a space that are not in the file.
fn masked(text: &str) -> String {
    let mask = |piece: &str| {
        let longest = piece.split([' ', '\\']).map(str::len).max().unwrap_or(0);
        if longest >= 44 { "<made up>".to_owned() } else { piece.to_owned() }
    };
    text.split('"').map(mask).collect::<Vec<_>>().join("\"")
}

fn config(kind: &str, lines: &str) -> Config {
    let text = format!("test \"{kind}\" \"t\" {{\nweight = 100\nconfig {{\n{lines}\n}}\n}}\n");
    Config::parse("t.hcl", &text, Environment::default()).unwrap()
}

#[test]
fn requests_of_all_types_stay_byte_for_byte_the_same() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let address = listen(Arc::clone(&requests));
    let mut server = Server::find(&address, &TlsSettings::default()).unwrap();
    // An https address makes `cert_auth` set up its certificate.
    server.address = "https://vault.test".to_owned();
    let server = Arc::new(server);
    let mut text = String::new();
    let others =
        services::examples().filter(|(kind, _)| CONFIGS.iter().all(|(own, _)| own != kind));
    let own = CONFIGS.iter().map(|(kind, configs)| (*kind, configs.iter().map(|c| (*c).into())));
    let own = own.map(|(kind, configs)| (kind, configs.collect::<Vec<String>>()));
    for (kind, configs) in own.chain(others) {
        for lines in configs {
            let config = config(kind, &lines);
            let built = build(kind, &config.tests[0].config).unwrap();
            config.finish().unwrap_or_else(|diagnostics| panic!("{kind}: {diagnostics}"));
            let interrupts = Arc::default();
            let (token, namespace) = ("the-token".to_owned(), "the-namespace".to_owned());
            let mut client = Client::new(Arc::clone(&server), token, namespace, interrupts);
            let mut ledger = Ledger::default();
            let mut lines_shown = Vec::new();
            let template = built
                .set_up(&mut Stage {
                    client: &mut client,
                    ledger: &mut ledger,
                    name: "m".to_owned(),
                    progress: &mut |line| lines_shown.push(line),
                })
                .unwrap_or_else(|trouble| panic!("{kind}: {}", trouble.what));
            let mut message = Vec::new();
            MessageOne::new(&template, "h:1", true).write(&Draw::new(7, 1), &mut message);
            let message = String::from_utf8(message).unwrap();
            let agent = super::super::request::USER_AGENT;
            let message = message.replace("\r\n", "\n").replace(agent, "<agent>");
            // The length follows from the body, and generated bodies vary by some bytes.
            let varies = masked(&message).contains("<made up>");
            let kept = |line: &&str| !(varies && line.starts_with("Content-Length"));
            let message = message.lines().filter(kept).collect::<Vec<_>>().join("\n");
            text.push_str(&format!("== {kind}\n{lines}\n--\n"));
            for request in requests.lock().unwrap().drain(..) {
                text.push_str(&format!("{}\n", masked(&request)));
            }
            text.push_str(&format!("-- made: {}\n", ledger.shown()));
            text.push_str(&format!("-- progress: {}\n", lines_shown.join("; ")));
            text.push_str(&format!("-- must hold: {:?}\n", template.holds));
            text.push_str(&format!("{}\n\n", masked(&message)));
        }
    }
    // The mount of a root authority would look like a user's folder.
    held("requests.txt", &text.replace(&["", "root", ""].join("/"), "/(root)/"));
}

#[test]
fn diagnostics_of_all_types_stay_the_same() {
    let mut text = String::new();
    for (kind, lines) in WRONG {
        let config = config(kind, lines);
        build(kind, &config.tests[0].config).unwrap();
        text.push_str(&format!("== {kind}\n{}\n\n", config.finish().unwrap_err()));
    }
    held("diagnostics.txt", &text);
}

#[track_caller]
fn held(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vault_benchmark/tests").join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (line, expected)) in (1..).zip(text.lines().zip(expected.lines())) {
        assert_eq!(line, expected, "{file}:{number}");
    }
    assert_eq!(text.len(), expected.len(), "{file}");
}
