//! Authentication and authorization: shared access keys and their tokens, tokens of identity providers, users, client
//! certificates, and rights per entity.
//!
//! Invariant: an answer depends on the configured credentials, the providers' keys and the arguments alone. The time is an argument,
//! no secret is ever part of a `Debug` or `Display` text, and whatever is not granted is refused.
//!
//! A connection asks [`Authority::sasl_mechanisms`], then [`Authority::sasl`] for its [`Identity`], puts that
//! into its [`Grants`], adds what [`Authority::verify_token`] gives for each `put-token`, and asks
//! [`Grants::allows`] before each link and each management request.

mod authority;
mod certificate;
mod configuration;
mod credentials;
mod entity_keys;
mod foreign_host;
mod grants;
mod host_names;
mod issuer;
mod jwks;
mod jwt;
mod oauth;
mod principal;
mod refused_login;
mod rights;
mod sas;
mod scope;
mod secret;

pub use authority::{Authority, Identity, PeerFacts, SaslError, TokenError};
pub use certificate::{certificate_expiry, certificate_host_names, certificate_subject};
pub use credentials::{Access, Anonymous, ClientCertificate, Credentials, NamedKey, User};
pub use entity_keys::EntityRule;
pub use foreign_host::{ForeignHost, HostJudge};
pub use grants::{Denied, Grant, Grants, TooManyGrants};
pub use host_names::{HostNames, split_authority};
pub use issuer::{ClaimGrant, Issuer, IssuerConfig};
pub use jwks::{KEY_SET_BYTES_MAX, KEYS_MAX, KeySet, KeySetError};
pub use jwt::JwtError;
pub use refused_login::{LoginRefusal, RefusedLogin};
pub use rights::{Right, Rights, UnknownRight};
pub use sas::{SasError, is_sas, sign_token};
pub use scope::Scope;
pub use secret::{SaslResponse, Secret};

/// The name of the built-in development key; the Azure emulator's.
pub const DEVELOPMENT_KEY_NAME: &str = "RootManageSharedAccessKey";

/// The text of the built-in development key; the Azure emulator's. Public knowledge, so it opens nothing but a
/// broker that only its own machine can reach.
pub const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";

/// Longest token in bytes that is looked at. A SAS token is under 2 KiB, a JWT with many claims under 16.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Longest audience in bytes. Entity paths have at most 260 characters, in a URI with host and sub-queue.
pub const AUDIENCE_BYTES_MAX: usize = 2 * 1024;

/// Most audiences that one connection may hold grants for.
pub const GRANTS_MAX: usize = 4096;
