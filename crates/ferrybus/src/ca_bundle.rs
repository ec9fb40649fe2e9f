//! CA bundle of the operating system.
//!
//! Invariant: nothing is changed by looking.

use std::{env, path::PathBuf};

/// The file of the authorities that the machine trusts, if there is one: `$SSL_CERT_FILE`, else the usual places.
pub(crate) fn authorities() -> Option<PathBuf> {
    let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()))
}

const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
