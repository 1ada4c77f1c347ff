//! Fetches the secrets of a system that runs already, from where its study says that they are.
//!
//! They live in the memory of the cluster alone: nothing prints that, and no record has it.
//!
//! Not here: which credentials a kind takes (`bakeoff_core::study`), how they are shown to servers (`systems`).

use std::fs::File;
use std::io::Read;

use bakeoff_core::secrets;
use bakeoff_core::study::{self, Credentials, SecretSource};

use crate::failure::Failure;
use crate::systems::{ClientToken, Login, Memory};

/// The largest file of a secret, in bytes.
const SECRET_MAX: u64 = 64 << 10;

/// Puts a system's credentials into its memory.
pub(super) fn keep(asked: &study::System, memory: &Memory) -> Result<(), Failure> {
    let Some(Credentials { user, password, token }) = &asked.credentials else { return Ok(()) };
    if let (Some(user), Some(password)) = (user, password) {
        let password = fetch(asked, password)?;
        memory.keep(Login { user: user.clone(), password });
    }
    if let Some(token) = token {
        memory.keep(ClientToken(fetch(asked, token)?));
    }
    Ok(())
}

fn fetch(asked: &study::System, source: &SecretSource) -> Result<String, Failure> {
    let (place, found) = match source {
        SecretSource::Variable(name) => {
            (format!("`${name}`"), std::env::var(name).map_err(|_| "it is not set".to_owned()))
        }
        SecretSource::File(path) => (format!("file `{path}`"), read(path)),
    };
    let secret = found.and_then(|secret| match secret.trim_end() {
        "" => Err("it is empty".to_owned()),
        // It would end the header that it is sent in.
        secret if secret.contains(char::is_control) => Err("it is more than one line".to_owned()),
        secret => Ok(secret.to_owned()),
    });
    if let Ok(secret) = &secret {
        secrets::note(secret);
    }
    secret.map_err(|why| {
        Failure::input(
            format!("the credentials of system `{}` are not in {place}: {why}", asked.name),
            "look at `credentials` in the study",
        )
    })
}

fn read(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SECRET_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > SECRET_MAX {
        return Err(format!("it is larger than {SECRET_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(credentials: &str) -> study::System {
        let text = format!(
            r#"{{"name":"kv","kind":"etcd","nodes":1,"endpoints":[],"credentials":{credentials}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn secrets_of_files_lose_their_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\r\n").unwrap();
        let source =
            format!(r#"{{"user":"me","password":{{"file":"{}"}}}}"#, file.path().display());
        let memory = Memory::default();
        keep(&system(&source), &memory).unwrap();
        let login = memory.get::<Login>().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("me", "s3cret"));
    }

    #[test]
    fn impossible_secrets_are_refused_unseen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (contents, wording) in [
            (&b"two\nlines"[..], "it is more than one line"),
            (b" \n", "it is empty"),
            (b"\xff\xfe", "it is not UTF-8"),
            (&vec![b'x'; (64 << 10) + 1], "it is larger than 65536 bytes"),
        ] {
            std::fs::write(file.path(), contents).unwrap();
            let source = format!(r#"{{"token":{{"file":"{}"}}}}"#, file.path().display());
            let told = keep(&system(&source), &Memory::default()).unwrap_err().to_string();
            assert!(told.contains(wording) && !told.contains("lines`"), "{told}");
        }
        let unset = r#"{"token":{"variable":"BAKEOFF_NO_SUCH_VARIABLE"}}"#;
        let told = keep(&system(unset), &Memory::default()).unwrap_err().to_string();
        assert!(told.contains("`$BAKEOFF_NO_SUCH_VARIABLE`: it is not set"), "{told}");
    }
}
