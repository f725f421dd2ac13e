//! TLS: the server's certificate, made at its first start, and how a client knows it again.
//!
//! A fleet needs no certificate authority: a client is given the fingerprint (SHA-256 of the certificate) and accepts exactly that one.
//! With an authority, names and dates are checked as usual. TLS 1.3 only.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::wire::PROTOCOL;

/// The name in a certificate of our own. Clients compare the fingerprint, not the name.
const NAME: &str = "lastword";

const CERTIFICATE: &str = "link.crt";
const KEY: &str = "link.key";

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 64 characters of 0-9 and a-f; the server prints its own when it starts")]
pub struct NotAFingerprint;

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Fingerprint, NotAFingerprint> {
        let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut bytes = [0; 32];
        for (place, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * place..2 * place + 2).filter(|_| is_hex).ok_or(NotAFingerprint)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAFingerprint)?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// The certificate of a server and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Makes a new one.
    pub fn make() -> io::Result<Identity> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        Ok(Identity::of_parts(made.cert.der().clone(), made.signing_key.serialize_der()))
    }

    /// Returns that of a certificate and its key in PKCS #8.
    pub(crate) fn of_parts(certificate: CertificateDer<'static>, key: Vec<u8>) -> Identity {
        Identity { certificate, key: PrivatePkcs8KeyDer::from(key).into() }
    }

    /// Reads the one in a folder, or makes it at the first start. The key is readable for its owner alone.
    pub fn in_folder(folder: &Path) -> io::Result<Identity> {
        match std::fs::read(folder.join(CERTIFICATE)) {
            Ok(certificate) => {
                let key = std::fs::read(folder.join(KEY))?;
                Ok(Identity::of_parts(certificate.into(), key))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Identity::make()?;
                // The certificate is written last: it says that the key is there.
                write_private(folder, KEY, made.key.secret_der())?;
                write_private(folder, CERTIFICATE, &made.certificate)?;
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns what clients are given to know it again.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Returns what a server needs.
    pub(crate) fn config(&self) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

/// Writes a file so that it is whole or not there.
fn write_private(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(new, folder.join(name))
}

/// How a client knows a server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Its certificate has one of these fingerprints: those of the servers of one fleet, each of which serves the same.
    Fingerprints(Vec<Fingerprint>),
    /// One of these authorities signed its certificate, for its name.
    Authorities(Arc<RootCertStore>),
}

impl Trust {
    /// Reads the certificates of authorities from a PEM file.
    pub fn authorities(file: &Path) -> io::Result<Trust> {
        let shown = file.display();
        let unreadable = |error: &dyn fmt::Display| io::Error::other(format!("{shown}: {error}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
            let certificate = certificate.map_err(|error| unreadable(&error))?;
            roots.add(certificate).map_err(|error| unreadable(&error))?;
        }
        if roots.is_empty() {
            return Err(unreadable(&"it has no certificate"));
        }
        Ok(Trust::Authorities(Arc::new(roots)))
    }

    /// Returns what a client needs.
    pub(crate) fn config(&self) -> io::Result<ClientConfig> {
        let verifier: Arc<dyn ServerCertVerifier> = match self {
            Trust::Fingerprints(fingerprints) => {
                Arc::new(Pinned { fingerprints: fingerprints.clone(), provider: provider() })
            }
            Trust::Authorities(roots) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), provider());
                verifier.build().map_err(io::Error::other)?
            }
        };
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Accepts the certificates with these fingerprints. The signature of the handshake is checked: a certificate is public, its key is not.
#[derive(Debug)]
struct Pinned {
    fingerprints: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = Fingerprint::of(certificate);
        if self.fingerprints.contains(&found) {
            return Ok(ServerCertVerified::assertion());
        }
        let expected: Vec<String> = self.fingerprints.iter().map(Fingerprint::to_string).collect();
        let expected = expected.join(" or ");
        Err(rustls::Error::General(format!(
            "its certificate has the fingerprint {found}, and {expected} was expected: either it is another server, or its state folder is new"
        )))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_fingerprint_reads_back() {
        let fingerprint = Identity::make().unwrap().fingerprint();
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        assert_eq!(fingerprint.to_string().to_uppercase().parse(), Ok(fingerprint));
        for text in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(text.parse::<Fingerprint>(), Err(NotAFingerprint), "{text}");
        }
    }

    #[test]
    fn an_identity_is_made_once_and_its_key_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let made = Identity::in_folder(folder.path()).unwrap().fingerprint();
        assert_eq!(Identity::in_folder(folder.path()).unwrap().fingerprint(), made);
        let key = std::fs::metadata(folder.path().join(KEY)).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        // A certificate without its key is not replaced: clients know it.
        std::fs::remove_file(folder.path().join(KEY)).unwrap();
        Identity::in_folder(folder.path()).unwrap_err();
    }

    #[test]
    fn a_file_without_certificates_is_no_authority() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "nothing\n").unwrap();
        let error = Trust::authorities(&file).unwrap_err().to_string();
        assert!(error.ends_with("ca.pem: it has no certificate"), "{error}");
    }
}
