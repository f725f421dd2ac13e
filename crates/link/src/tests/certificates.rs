//! Which servers a client accepts.

use std::sync::Arc;

use lastword_store::Catalog;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::setup::{SERVER, Served};
use crate::{Identity, Link, Remote, Timing, Trust};

#[tokio::test]
async fn another_certificate_is_refused_with_both_fingerprints() {
    let served = Served::start().await;
    let expected = Identity::make().unwrap().fingerprint();
    let remote = Remote { trust: Trust::Fingerprints(vec![expected]), ..served.remote(SERVER) };
    let words = Link::connect(remote).await.err().expect("it is refused").to_string();
    let found = served.fingerprint;
    let said = format!("its certificate has the fingerprint {found}, and {expected} was expected");
    assert!(words.contains(&said), "{words}");
}

/// Certificates are public: an impostor shows the right one and has another key.
#[tokio::test]
async fn a_copied_certificate_without_its_key_is_refused() {
    #[derive(Debug)]
    struct Copied(Arc<CertifiedKey>);

    impl ResolvesServerCert for Copied {
        fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(Arc::clone(&self.0))
        }
    }

    let served = Served::start().await;
    let copied = served.raw().await.get_ref().1.peer_certificates().unwrap().to_vec();
    let other = rcgen::KeyPair::generate().unwrap().serialize_der();
    let key = any_supported_type(&PrivatePkcs8KeyDer::from(other).into()).unwrap();
    let mut config = Identity::make().unwrap().config().unwrap();
    config.cert_resolver = Arc::new(Copied(Arc::new(CertifiedKey::new(copied, key))));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = vec![listener.local_addr().unwrap().to_string()];
    let impostor = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(Arc::new(config)).accept(stream).await.is_ok()
    });
    let words =
        Link::connect(Remote { servers, ..served.remote(SERVER) }).await.err().expect("it is refused");
    assert!(words.to_string().contains("BadSignature"), "{words}");
    assert!(!impostor.await.unwrap(), "no token was sent");
}

/// An authority that did not sign it is none; a certificate of our own names no host.
#[tokio::test]
async fn a_certificate_that_no_authority_signed_is_refused() {
    let served = Served::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority("localhost").0).unwrap();
    let remote = Remote { trust: Trust::authorities(&file).unwrap(), ..served.remote(SERVER) };
    let words = Link::connect(remote).await.err().expect("it is refused").to_string();
    assert!(words.contains("invalid peer certificate"), "{words}");
}

/// Returns a self-signed certificate of a name as PEM, and what serves under it.
fn authority(name: &str) -> (String, Identity) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let der = made.cert.der().clone();
    let text = base64(&der);
    let identity = Identity::of_parts(der, made.signing_key.serialize_der());
    (format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"), identity)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let number = chunk.iter().fold(0u32, |number, byte| (number << 8) | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        let digit = move |place: usize| match place > chunk.len() {
            true => '=',
            false => char::from(DIGITS[(number >> (18 - 6 * place)) as usize & 63]),
        };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[tokio::test]
async fn a_certificate_of_a_known_authority_is_accepted_for_its_name() {
    let (pem, identity) = authority("localhost");
    let served = Served::of(Timing::default(), super::stuck::Stuck::new(1), "here", identity, 8).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, pem).unwrap();
    let trust = Trust::authorities(&file).unwrap();
    let port = served.address.port();
    let remote = |host: &str| Remote {
        servers: vec![format!("{host}:{port}")],
        trust: trust.clone(),
        ..served.remote(SERVER)
    };
    let link = Link::connect(remote("localhost")).await.expect("it is known");
    assert!(link.counts().await.is_ok());
    let words = Link::connect(remote("127.0.0.1")).await.err().expect("it has another name").to_string();
    assert!(words.contains("not valid for name"), "{words}");
}

#[tokio::test]
async fn each_server_that_cannot_be_used_is_named() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let served = Served::start().await;
    let servers = vec![address.clone(), "nowhere".to_owned(), served.address.to_string()];
    let remote = Remote { servers, ..served.remote("eve") };
    let words = Link::connect(remote).await.err().expect("none can be used").to_string();
    assert!(words.starts_with("no server can be used: "), "{words}");
    for part in [
        format!("{address}: Connection refused"),
        "nowhere: it is not `host:port`".to_owned(),
        format!("{}: the token is not known to this server", served.address),
    ] {
        assert!(words.contains(&part), "{part} in {words}");
    }
}
