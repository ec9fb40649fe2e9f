//! TLS from certificate files.
//!
//! Invariant: a private key is read once, given to rustls, and never logged.

use std::{fs, io, path::Path, sync::Arc};

use broker_auth::LoginRefusal;
use rustls::{
    CertificateError, ClientConfig, PeerMisbehaved, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use crate::{config::TlsFiles, permissions};

/// Why the TLS endpoint cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or holds no usable PEM.
    #[error("`{path}` cannot be used: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// rustls refuses the certificate or key.
    #[error("certificate or key is not usable: {0}")]
    Rustls(#[from] rustls::Error),
    /// The client authorities cannot be used.
    #[error("client authorities are not usable: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// An acceptor for the certificate in `files`.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let certificates = certificates(&files.certificate)?;
    permissions::warn_of_open_key(&files.key);
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

/// The reason of a failed handshake, if it is the client's certificate.
pub(crate) fn refused_certificate(error: &io::Error) -> Option<LoginRefusal> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(reason) = error else { return None };
    Some(match reason {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            LoginRefusal::UntrustedCertificate
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => LoginRefusal::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            LoginRefusal::NotYetValid
        }
        _ => LoginRefusal::BadCertificate,
    })
}

/// Whether a handshake failed because the server name that the client asks for is none.
pub(crate) fn names_no_host(error: &io::Error) -> bool {
    let refused = rustls::Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName);
    error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) == Some(&refused)
}

/// The names of hosts in the first certificate of a PEM file; none where it cannot be read.
pub fn certificate_host_names(path: &Path) -> Vec<String> {
    let certificates = certificates(path).unwrap_or_default();
    certificates.first().map(|first| broker_auth::certificate_host_names(first)).unwrap_or_default()
}

/// How to reach others that these authorities know.
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
