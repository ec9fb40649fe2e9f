//! TLS: the files of a certificate, and the endpoint that shows it.
//!
//! Invariant: a handshake sees a certificate with its own key.

mod endpoint;
mod expiry;
mod files;
mod handshake;
mod stamp;

pub(crate) use endpoint::{TlsEndpoint, watch_files};
pub(crate) use files::client;
pub use files::{TlsError, TlsFiles};
pub(crate) use handshake::{names_no_host, refused_certificate, shake_hands};
