//! Which broker a probe asks, and whose certificate it takes.
//!
//! Invariant: a certificate is taken unseen only from a broker that the configuration on this machine names, by a client that has
//! no log-in to lose.

use std::{env, path::Path, sync::Arc};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::BrokerEndpoint;
use crate::{arguments::ConnectArguments, failure::Failure, settings::probe_address};

/// The broker of the configuration, unless another one is named.
pub(crate) fn probe_target(
    arguments: &ConnectArguments,
    config: Option<&Path>,
) -> Result<BrokerEndpoint, Failure> {
    let ConnectArguments { connection_string, server, address, .. } = arguments;
    let is_named = connection_string.is_some() || server.is_some() || address.is_some();
    let from_environment = env::var_os("FERRYBUS_CONNECTION_STRING").is_some_and(|text| !text.is_empty());
    if is_named || config.is_none() && from_environment {
        return BrokerEndpoint::new(arguments);
    }
    match probe_address(config)? {
        Some(address) => Ok(BrokerEndpoint::of_probe(address, arguments.ca.clone())),
        None => BrokerEndpoint::new(arguments),
    }
}

/// Takes every certificate whose key the server has. A probe asks its own machine's broker by an address, has nothing to hide, and
/// gets nothing but whether the broker works; certificates are made for the names that clients use.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
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
