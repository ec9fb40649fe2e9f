//! Certificates and keys from PEM files.
//!
//! Invariant: a private key is read, given to rustls, and never logged.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use broker_auth::HostNames;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use super::stamp::Stamps;

/// Files of the TLS endpoint.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate chain, leaf first.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities whose client certificates are trusted for SASL EXTERNAL.
    pub client_authorities: Option<PathBuf>,
    /// Time between two checks whether one of them has changed.
    pub check_every: Duration,
}

impl TlsFiles {
    /// Whether these are the same files.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let files = |of: &Self| (of.certificate.clone(), of.key.clone(), of.client_authorities.clone());
        files(self) == files(other)
    }
}

/// Reason why the TLS endpoint cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or holds no usable PEM.
    #[error("`{path}` cannot be used: {reason}")]
    File { path: String, reason: String },
    /// rustls refuses the certificate or key.
    #[error("certificate or key is not usable: {0}")]
    Rustls(#[from] rustls::Error),
    /// The client authorities cannot be used.
    #[error("client authorities are not usable: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The content of the files of a TLS endpoint.
pub(crate) struct Loaded {
    pub(super) files: TlsFiles,
    pub(super) acceptor: TlsAcceptor,
    /// Seconds since 1970; `None` where the certificate does not say it in a way that is understood.
    pub(super) expires_at: Option<u64>,
    pub(super) host_names: HostNames,
    /// Attributes of the files from before they were read.
    pub(super) stamps: Stamps,
}

/// Reads all files of a TLS endpoint.
pub(crate) fn load(files: &TlsFiles) -> Result<Loaded, TlsError> {
    let stamps = stamps(files);
    let certificates = certificates(&files.certificate)?;
    let first = certificates.first();
    let names = first.map(|first| broker_auth::certificate_host_names(first)).unwrap_or_default();
    let expires_at = first.and_then(|first| broker_auth::certificate_expiry(first));
    let acceptor = acceptor(files, certificates)?;
    Ok(Loaded { files: files.clone(), acceptor, expires_at, host_names: names.into_iter().collect(), stamps })
}

/// Attributes of the files as they are now.
pub(super) fn stamps(files: &TlsFiles) -> Stamps {
    Stamps::of([Some(&files.certificate), Some(&files.key), files.client_authorities.as_ref()])
}

/// An acceptor for the certificates in `files`.
fn acceptor(files: &TlsFiles, certificates: Vec<CertificateDer<'static>>) -> Result<TlsAcceptor, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|error| bad(&files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates(path)? {
                roots.add(certificate)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            // A client without a certificate may still log in by another mechanism.
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
        }
    };
    Ok(TlsAcceptor::from(Arc::new(builder.with_single_cert(certificates, key)?)))
}

/// Client configuration that trusts these authorities.
pub(crate) fn client(authorities: &Path) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(authorities)?);
    if added == 0 {
        return Err(bad(authorities, &"it holds no usable certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|error| bad(path, &error))?;
    if certificates.is_empty() {
        return Err(bad(path, &"it holds no certificate"));
    }
    Ok(certificates)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| bad(path, &error))
}

fn bad(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.display().to_string(), reason: reason.to_string() }
}
