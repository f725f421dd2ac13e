//! A connection of the link that an attacker speaks by itself: TLS to whatever is there, then frames as it likes.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// The protocol, as TLS negotiates it.
const PROTOCOL: &[u8] = b"lastword-link/1";

/// Kinds of frames.
pub(super) const HELLO: u8 = 1;
pub(super) const REQUEST: u8 = 4;
pub(super) const BEAT: u8 = 8;

/// The body of a frame, at most.
pub(super) const FRAME_MAX: usize = 64 << 10;

/// A connection.
pub(super) struct Raw(TlsStream<TcpStream>);

impl Raw {
    /// Connects, and says nothing yet.
    pub(super) async fn connect(address: &str) -> io::Result<Raw> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("lastword").map_err(io::Error::other)?;
        Ok(Raw(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }

    /// Connects, and proves to be the worker of a token.
    pub(super) async fn enter(address: &str, token: &str) -> io::Result<Raw> {
        let mut raw = Raw::connect(address).await?;
        let hello = serde_json::json!({ "token": token }).to_string();
        raw.frame(HELLO, true, 0, hello.as_bytes()).await?;
        // The welcome: a header, and its body.
        let mut header = [0; 14];
        raw.0.read_exact(&mut header).await?;
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let mut body = vec![0; length.min(FRAME_MAX)];
        raw.0.read_exact(&mut body).await?;
        match header[4] {
            2 => Ok(raw),
            kind => Err(io::Error::other(format!("kind {kind}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Writes a header that announces a body of this length.
    pub(super) async fn header(
        &mut self,
        length: u32,
        kind: u8,
        is_last: bool,
        stream: u64,
    ) -> io::Result<()> {
        let mut header = [0; 14];
        header[..4].copy_from_slice(&length.to_be_bytes());
        header[4] = kind;
        header[5] = is_last.into();
        header[6..].copy_from_slice(&stream.to_be_bytes());
        self.bytes(&header).await
    }

    /// Writes a frame.
    pub(super) async fn frame(
        &mut self,
        kind: u8,
        is_last: bool,
        stream: u64,
        body: &[u8],
    ) -> io::Result<()> {
        self.header(body.len() as u32, kind, is_last, stream).await?;
        self.bytes(body).await
    }

    /// Writes a message in frames.
    pub(super) async fn message(&mut self, stream: u64, body: &[u8]) -> io::Result<()> {
        let count = body.chunks(FRAME_MAX).count();
        for (number, piece) in body.chunks(FRAME_MAX).enumerate() {
            self.frame(REQUEST, number + 1 == count, stream, piece).await?;
        }
        Ok(())
    }

    pub(super) async fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    /// Reads until the other side ends the connection.
    pub(super) async fn end(&mut self) {
        let mut piece = [0; 4096];
        while matches!(self.0.read(&mut piece).await, Ok(1..)) {}
    }
}

/// Accepts every certificate: an attacker does not mind.
#[derive(Debug)]
struct Any(Arc<CryptoProvider>);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
