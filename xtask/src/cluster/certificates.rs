//! Creates the secrets of a cluster: its authority, the API server's certificate and keys, the administrator's token.
//!
//! All are new for each cluster, readable only by root, and never passed as arguments.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

use super::error::ClusterError;
use super::network::{API_SERVICE, CONTROL};
use super::run::Run;

/// Writes all files in `pki/`, and the kubeconfig.
pub(super) fn write(run: &Run) -> Result<(), ClusterError> {
    run.make_folder("pki")?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, run.name());
    run.write("pki/ca.crt", &params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);

    let names =
        [CONTROL, API_SERVICE, "kubernetes.default.svc", "kubernetes.default", "kubernetes"];
    let purpose = ExtendedKeyUsagePurpose::ServerAuth;
    certificate(run, "api", &names, ("kube-apiserver", ""), purpose, &issuer)?;
    // Certificate with which the API server connects to kubelets.
    let subject = ("kube-apiserver-kubelet-client", "system:masters");
    let purpose = ExtendedKeyUsagePurpose::ClientAuth;
    certificate(run, "kubelet-client", &[], subject, purpose, &issuer)?;

    let accounts = KeyPair::generate()?;
    run.write("pki/accounts.key", &accounts.serialize_pem())?;
    run.write("pki/accounts.pub", &accounts.public_key_pem())?;

    let token = random_token()?;
    run.write("pki/tokens.csv", &format!("{token},admin,1,\"system:masters\"\n"))?;
    run.write("kubeconfig", &kubeconfig(&run.path("pki/ca.crt"), &token))?;
    Ok(())
}

fn certificate(
    run: &Run,
    file: &str,
    names: &[&str],
    (name, group): (&str, &str),
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(), ClusterError> {
    let key = KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    if !group.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![purpose];
    run.write(&format!("pki/{file}.crt"), &params.signed_by(&key, issuer)?.pem())?;
    run.write(&format!("pki/{file}.key"), &key.serialize_pem())?;
    Ok(())
}

/// Returns 32 random bytes in hexadecimal.
fn random_token() -> Result<String, ClusterError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(ClusterError::file("read", source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn kubeconfig(authority: &Path, token: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: bakeoff\n  cluster: {{server: \"https://{CONTROL}:6443\", certificate-authority: {authority:?}}}\n\
         users:\n\
         - name: admin\n  user: {{token: {token}}}\n\
         contexts:\n\
         - name: bakeoff\n  context: {{cluster: bakeoff, user: admin}}\n\
         current-context: bakeoff\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_are_private_to_root_and_differ_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let run = Run::at(dir.path());
        let made = || {
            write(&run).unwrap();
            std::fs::read_to_string(run.path("pki/tokens.csv")).unwrap()
        };
        let (one, other) = (made(), made());
        assert_ne!(one, other);
        let token = other.split(',').next().unwrap();
        assert_eq!(token.len(), 64);
        assert!(std::fs::read_to_string(run.kubeconfig()).unwrap().contains(token));
        let mut files = vec![run.kubeconfig()];
        files.extend(std::fs::read_dir(run.path("pki")).unwrap().map(|item| item.unwrap().path()));
        assert!(files.len() > 8);
        for file in files {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", file.display());
        }
    }
}
