//! Reasons of failed TLS handshakes.
//!
//! Invariant: a reason is read from the error of rustls, never from its text.

use std::io;

use broker_auth::LoginRefusal;
use rustls::{CertificateError, PeerMisbehaved};

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
