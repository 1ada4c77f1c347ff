//! Finds secrets among a command's arguments, which every user of the machine can read in the list of processes.
//!
//! Not here: masking secrets in answers and records (`bakeoff_core::secrets`).

use std::ffi::OsString;

use bakeoff_core::secrets;

use super::Command;

/// A secret among the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretKind {
    Password,
    Header,
    Token,
}

/// Returns a warning for each kind of secret among a command's arguments, with a way that hides it.
pub(crate) fn warnings(command: &Command, args: &[OsString]) -> Vec<String> {
    let is_load = matches!(command, Command::Load(_));
    let is_hey = matches!(command, Command::Hey { .. });
    let is_wrk = matches!(command, Command::Wrk { .. });
    let is_etcd = matches!(command, Command::EtcdBenchmark { .. });
    let is_vault = matches!(command, Command::VaultBenchmark { .. });
    if !is_load && !is_hey && !is_wrk && !is_vault && !is_etcd {
        return Vec::new();
    }
    let mut found = exposed(args);
    found.dedup();
    let text = |one: SecretKind| {
        let (what, way) = match one {
            SecretKind::Password if is_load => (
                "a password",
                "`--user-file FILE` or the variable BAKEOFF_USER=USER:PASSWORD hides it",
            ),
            SecretKind::Password if is_hey || is_etcd => {
                ("a password", "the variable BAKEOFF_USER=USER:PASSWORD hides it")
            }
            SecretKind::Header if is_load => {
                ("the secret in a header", "`--targets FILE` takes headers from a file")
            }
            SecretKind::Header if is_hey => (
                "the secret in a header",
                "`bakeoff load --targets FILE` takes headers from a file",
            ),
            SecretKind::Password | SecretKind::Header => (
                "a secret",
                "a script can set it: `wrk.headers[\"Authorization\"] = os.getenv(\"NAME\")`",
            ),
            SecretKind::Token => ("the token", "the variable VAULT_TOKEN hides it"),
        };
        format!("other users of this machine can read {what} in its list of processes; {way}")
    };
    found.into_iter().map(text).collect()
}

/// Returns the kinds of secrets, in order.
fn exposed(args: &[OsString]) -> Vec<SecretKind> {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let mut found: Vec<SecretKind> = (0..words.len())
        .filter_map(|place| {
            let before = place.checked_sub(1).map_or("", |before| &words[before]);
            in_word(before, &words[place])
        })
        .collect();
    found.sort_by_key(|one| *one as u8);
    found
}

fn in_word(before: &str, word: &str) -> Option<SecretKind> {
    let joined = ["--header=", "-H"].iter().find_map(|flag| word.strip_prefix(flag));
    let header = match before {
        "-H" | "--header" | "-header" => Some(word),
        _ => joined.filter(|rest| !rest.is_empty()),
    };
    if let Some((name, value)) = header.and_then(|header| header.split_once(':')) {
        let is_secret = secrets::is_named_by(name) || name.eq_ignore_ascii_case("cookie");
        return (is_secret && !value.trim().is_empty()).then_some(SecretKind::Header);
    }
    let token = word.trim_start_matches('-').strip_prefix("vault_token=");
    if token.is_some_and(|token| !token.is_empty())
        || before.trim_start_matches('-') == "vault_token"
    {
        return Some(SecretKind::Token);
    }
    // hey's option, and that of etcd's benchmark.
    let user = word.strip_prefix("--user=").or((matches!(before, "-a" | "--user")).then_some(word));
    let is_user = user.and_then(|user| user.split_once(':')).is_some_and(|(_, it)| !it.is_empty());
    (is_user || has_password(word)).then_some(SecretKind::Password)
}

/// Returns true for a URL with a user and a password.
fn has_password(url: &str) -> bool {
    let authority = |rest: &str| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
    let user = url
        .split_once("://")
        .and_then(|(_, rest)| Some(authority(rest).rsplit_once('@')?.0.to_owned()));
    user.is_some_and(|user| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_and_plain_arguments_are_not() {
        let found = |args: &str| exposed(&args.split(' ').map(OsString::from).collect::<Vec<_>>());
        for args in [
            "load http://me:s3cret@h/",
            "hey -a me:s3cret http://h",
            "wrk -x http://me:p@proxy:1 u",
            "etcd-benchmark --user root:s3cret put",
            "etcd-benchmark put --user=root:s3cret",
        ] {
            assert_eq!(found(args), [SecretKind::Password], "{args}");
        }
        for args in [
            "-H Authorization:Bearer",
            "-HX-Vault-Token:abc",
            "--header=Cookie:a=b",
            "--header X-Key:1",
        ] {
            assert_eq!(found(args), [SecretKind::Header], "{args}");
        }
        for args in ["-vault_token=abc", "--vault_token abc"] {
            assert_eq!(found(args), [SecretKind::Token], "{args}");
        }
        for args in [
            "http://me@h/",
            "http://h/a:b@c",
            "http://h/?to=http://x",
            "-H Accept:text/plain",
            "-H Authorization:",
            "-n 5",
            "-vault_token=",
            "--user root",
            "--user=root",
            "user:password@host",
        ] {
            assert_eq!(found(args), [], "{args}");
        }
    }
}
