//! Configured credentials: keys, users and client certificates, each with its rights.
//!
//! Invariant: nothing is open unless it is listed here.

use crate::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Rights, Scope, Secret};

/// Rights and where they hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    pub rights: Rights,
    /// Scopes, each with everything below; empty means the whole namespace.
    pub scopes: Vec<Scope>,
}

impl Access {
    /// Nothing anywhere.
    pub const NONE: Self = Self { rights: Rights::NONE, scopes: Vec::new() };

    /// `rights` in the whole namespace.
    pub const fn namespace(rights: Rights) -> Self {
        Self { rights, scopes: Vec::new() }
    }

    /// True if something may be done at all places of `scope`.
    pub(crate) fn reaches(&self, scope: &Scope) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|ours| ours.covers(scope))
    }
}

/// A shared access rule: a name, two keys so that one can be replaced while the other is in use, and rights.
#[derive(Clone, Debug)]
pub struct NamedKey {
    /// The name that tokens carry as `skn`, compared exactly. Several entities may each have a key of one name.
    pub name: String,
    pub primary: Secret,
    /// The other key, just as good.
    pub secondary: Option<Secret>,
    /// Access of a token signed with it, or of a PLAIN log-in with it.
    pub access: Access,
}

impl NamedKey {
    /// The emulator's key: everything, and known to everybody.
    pub fn development() -> Self {
        Self {
            name: DEVELOPMENT_KEY_NAME.into(),
            primary: Secret::new(DEVELOPMENT_KEY),
            secondary: None,
            access: Access::namespace(Rights::ALL),
        }
    }

    /// Whether the key, or its second one, is the built-in development key, which is public knowledge.
    pub fn is_public(&self) -> bool {
        let mut texts = std::iter::once(&self.primary).chain(&self.secondary);
        texts.any(|text| text.matches(DEVELOPMENT_KEY.as_bytes()))
    }
}

/// A user for SASL PLAIN.
#[derive(Clone, Debug)]
pub struct User {
    /// Compared exactly.
    pub name: String,
    pub password: Secret,
    pub access: Access,
}

/// A client certificate for SASL EXTERNAL. That it is genuine is the TLS layer's business.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate's subject as [`crate::certificate_subject`] writes it, compared exactly.
    pub subject: String,
    /// Access of the owner of the certificate.
    pub access: Access,
}

/// Access of a client that does not authenticate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Anonymous {
    /// Nothing, until `$cbs` grants it.
    #[default]
    Deny,
    /// Everything.
    Allow,
}

/// All that an [`crate::Authority`] judges by. The default opens nothing.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Shared access keys.
    pub keys: Vec<NamedKey>,
    /// Users for PLAIN.
    pub users: Vec<User>,
    /// Certificates for EXTERNAL.
    pub certificates: Vec<ClientCertificate>,
    /// Clients without credentials.
    pub anonymous: Anonymous,
    /// Offer PLAIN, which sends the password as it is, on unencrypted connections from other machines too.
    pub plain_without_tls: bool,
}

impl Credentials {
    /// The built-in credentials of a broker that only its own machine can reach.
    pub fn development(anonymous: Anonymous) -> Self {
        Self { keys: vec![NamedKey::development()], anonymous, ..Self::default() }
    }

    /// True if no client could ever log in.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.users.is_empty()
            && self.certificates.is_empty()
            && self.anonymous == Anonymous::Deny
    }
}
