//! Reads the credentials of a system that already runs from the places in its study.
//!
//! They stay in the cluster's memory. Nothing prints or records them.
//!
//! Not here: credentials by kind (`bakeoff_core::study`), their use (`bakeoff_systems`).

use std::io;
use std::path::Path;

use bakeoff_core::secrets;
use bakeoff_core::study::{self, Credentials, SecretSource};
use bakeoff_files as files;
use bakeoff_systems::{ClientToken, Login, Memory};

use bakeoff_fleet::error::FleetError;

/// Maximum bytes of a file with a secret.
const SECRET_MAX: u64 = 64 << 10;

/// Error of a source without a valid secret. Its message never shows the contents.
#[derive(Debug, thiserror::Error)]
enum SecretError {
    /// The variable is missing or not UTF-8.
    #[error("it is not set")]
    NotSet,
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("it is larger than {SECRET_MAX} bytes")]
    TooLarge,
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it is empty")]
    Empty,
    /// Control characters could end the header that carries the secret.
    #[error("it is more than one line")]
    ManyLines,
}

/// Reads a system's credentials into its memory.
pub(super) fn keep(study_system: &study::System, memory: &Memory) -> Result<(), FleetError> {
    let Some(Credentials { user, password, token }) = &study_system.credentials else {
        return Ok(());
    };
    if let (Some(user), Some(password)) = (user, password) {
        let password = fetch(study_system, password)?;
        memory.keep(Login { user: user.clone(), password });
    }
    if let Some(token) = token {
        memory.keep(ClientToken(fetch(study_system, token)?));
    }
    Ok(())
}

fn fetch(study_system: &study::System, source: &SecretSource) -> Result<String, FleetError> {
    let (place, found) = match source {
        SecretSource::Variable(name) => {
            (format!("`${name}`"), std::env::var(name).map_err(|_| SecretError::NotSet))
        }
        SecretSource::File(path) => (format!("file `{path}`"), read(path)),
    };
    let secret = found.and_then(|secret| match secret.trim_end() {
        "" => Err(SecretError::Empty),
        secret if secret.contains(char::is_control) => Err(SecretError::ManyLines),
        secret => Ok(secret.to_owned()),
    });
    if let Ok(secret) = &secret {
        secrets::note(secret);
    }
    secret.map_err(|why| {
        FleetError::input(
            format!(
                "cannot read the credentials of system `{}` from {place}: {why}",
                study_system.name
            ),
            "check `credentials` in the study",
        )
    })
}

fn read(path: &str) -> Result<String, SecretError> {
    let bytes = files::read(Path::new(path), SECRET_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => SecretError::TooLarge,
        _ => SecretError::Unreadable(error),
    })?;
    String::from_utf8(bytes).map_err(|_| SecretError::NotUtf8)
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
    fn secret_from_a_file_loses_its_line_end() {
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
    fn rejects_invalid_secrets_without_showing_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (contents, wording) in [
            (&b"two\nlines"[..], "it is more than one line"),
            (b" \n", "it is empty"),
            (b"\xff\xfe", "it is not UTF-8"),
            (&vec![b'x'; (64 << 10) + 1], "it is larger than 65536 bytes"),
        ] {
            std::fs::write(file.path(), contents).unwrap();
            let source = format!(r#"{{"token":{{"file":"{}"}}}}"#, file.path().display());
            let error = keep(&system(&source), &Memory::default()).unwrap_err().to_string();
            assert!(error.contains(wording) && !error.contains("lines`"), "{error}");
        }
        let unset = r#"{"token":{"variable":"BAKEOFF_NO_SUCH_VARIABLE"}}"#;
        let error = keep(&system(unset), &Memory::default()).unwrap_err().to_string();
        assert!(error.contains("`$BAKEOFF_NO_SUCH_VARIABLE`: it is not set"), "{error}");
    }
}
