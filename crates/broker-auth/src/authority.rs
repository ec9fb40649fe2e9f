//! Judges log-ins and tokens.
//!
//! Invariant: rights come only from a verified key, password or certificate, or from the operator's word that
//! anonymous clients may do everything.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{
    AUDIENCE_BYTES_MAX, Credentials, EntityRule, ForeignHost, Grant, HostNames, Issuer, JwtError, Right,
    SasError, Scope, Secret, TOKEN_BYTES_MAX,
    configuration::{Configuration, Current},
    entity_keys::EntityKeys,
    foreign_host::HostJudge,
    jwt,
    oauth::{self, OAUTHBEARER, XOAUTH2},
    principal::{Basis, Principal},
    sas::{self, SasToken},
    scope::Resource,
};

/// Facts that the transport knows of a peer before its first frame.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PeerFacts {
    pub tls: bool,
    /// The peer is on this machine.
    pub loopback: bool,
    /// The subject of the verified client certificate, if it showed one; see [`crate::certificate_subject`].
    pub certificate_subject: Option<String>,
}

/// Identity of a connection, and the rights that it has without any token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    name: Box<str>,
    /// Principals and keys of entities that the log-in has proved.
    bases: Vec<Basis>,
    /// Seconds since 1970 from which on the log-in is void; `u64::MAX` where it never is.
    expires_at: u64,
}

impl Identity {
    fn of(principal: &Principal) -> Self {
        let bases = vec![Basis::Principal(principal.clone())];
        Self { name: principal.name().into(), bases, expires_at: u64::MAX }
    }

    /// The log-in by a token holds until the token ends.
    fn of_token(grant: Grant) -> Self {
        Self { name: grant.key, bases: grant.bases, expires_at: grant.expires_at }
    }

    /// A client without rights, as every connection is before SASL.
    pub fn nobody() -> Self {
        Self { name: "anonymous".into(), bases: Vec::new(), expires_at: u64::MAX }
    }

    /// Name of the user, key or certificate subject; `anonymous` without one. For logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When the log-in ends, in seconds since 1970: with its token. `None` where it does not.
    pub fn expires_at(&self) -> Option<u64> {
        (self.expires_at != u64::MAX).then_some(self.expires_at)
    }

    /// True if `right` holds at `scope` by the log-in alone, as things are now.
    pub fn allows(&self, scope: &Scope, right: Right) -> bool {
        self.bases.iter().any(|basis| basis.permits(scope, right))
    }
}

/// Reason why a SASL exchange ends with outcome `auth` (code 1, AMQP security 5.3.3.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SaslError {
    /// The client chose a mechanism that was not offered to it.
    #[error("mechanism was not offered")]
    NotOffered,
    /// PLAIN or EXTERNAL without an initial response. A gateway may ask for it with an empty challenge.
    #[error("initial response is missing")]
    MissingResponse,
    /// The response does not have the mechanism's form.
    #[error("response is malformed")]
    Malformed,
    /// No such user, or another password. Deliberately one answer for both.
    #[error("user name or password is wrong")]
    WrongCredentials,
    /// The client's certificate belongs to no configured principal.
    #[error("certificate is not configured")]
    UnknownCertificate,
    /// The token of OAUTHBEARER or XOAUTH2 grants nothing.
    #[error("{0}")]
    Token(JwtError),
}

/// Reason why a token grants nothing. The texts begin as the cloud service's do.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TokenError {
    /// Longer than [`TOKEN_BYTES_MAX`].
    #[error("MalformedToken: the token has {0} bytes, at most {TOKEN_BYTES_MAX} are accepted")]
    TooLong(usize),
    /// The audience is longer than [`AUDIENCE_BYTES_MAX`].
    #[error("InvalidAudience: the audience has {0} bytes, at most {AUDIENCE_BYTES_MAX} are accepted")]
    AudienceTooLong(usize),
    /// A token type that is neither SAS nor JWT.
    #[error(
        "MalformedToken: the token type is not known, expected `servicebus.windows.net:sastoken` or `jwt`"
    )]
    UnknownKind,
    /// No usable SAS token.
    #[error("MalformedToken: {0}")]
    Malformed(#[from] SasError),
    /// No key that is configured, or that the entity of the audience has, has the name in `skn`.
    #[error("InvalidSignature: the token names a key that does not exist")]
    UnknownKey,
    /// Signed with another key, or changed.
    #[error("InvalidSignature: The token has an invalid signature.")]
    WrongSignature,
    #[error(
        "ExpiredToken: The token is expired. Expiration time: {expired_at} (Unix seconds), now it is {now}"
    )]
    Expired {
        /// Seconds since 1970.
        expired_at: u64,
        /// Seconds since 1970.
        now: u64,
    },
    /// Its `sr` is another place than the audience.
    #[error("InvalidAudience: the token is for another place than the audience")]
    WrongAudience,
    /// The same, and its `sr` names no host: a word without a scheme is an entity unless the broker has that name, or a token
    /// for the entity of that name would open the whole namespace.
    #[error(
        "InvalidAudience: the token is for another place than the audience; without a scheme the first word of `sr` is a host only if it is one of the broker's names"
    )]
    NoHost,
    /// Its host, or that of the audience, leads to another namespace.
    #[error("InvalidAudience: {0}")]
    ForeignHost(Box<ForeignHost>),
    /// A good token, whose key has rights elsewhere only.
    #[error("InvalidClaims: the key of the token grants nothing at this place")]
    NoRights,
    /// No usable token of an identity provider.
    #[error(transparent)]
    Jwt(#[from] JwtError),
    /// A token of an identity provider, and none is configured.
    #[error("JWT tokens are refused: no identity provider is configured; use a shared access key")]
    JwtNotConfigured,
}

/// Knows the configured credentials, which may be exchanged while it judges.
#[derive(Debug)]
pub struct Authority {
    pub(crate) configuration: Current,
    /// Tells that a provider's keys are wanted anew.
    keys_wanted: RwLock<Option<KeysWanted>>,
    /// Judges the hosts in tokens.
    pub token_hosts: HostJudge,
    pub(crate) entity_keys: EntityKeys,
}

/// Called when a token names a key that its provider may have got since.
struct KeysWanted(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for KeysWanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeysWanted")
    }
}

impl Authority {
    /// Judges by `credentials` alone.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            configuration: Current::new(Configuration::new(credentials)),
            keys_wanted: RwLock::default(),
            token_hosts: HostJudge::default(),
            entity_keys: EntityKeys::new(),
        }
    }

    /// Takes the tokens of these identity providers too.
    #[must_use]
    pub fn with_issuers(self, issuers: Vec<Issuer>) -> Self {
        self.configuration.exchange(|old| old.with_issuers(issuers));
        self
    }

    /// And knows these names of the broker.
    #[must_use]
    pub fn with_host_names(self, host_names: HostNames) -> Self {
        self.configuration.exchange(|old| old.with_names(host_names));
        self
    }

    /// From now on the broker's certificate has these names, which are the broker's beside those that it was given.
    pub fn set_certified_names(&self, names: HostNames) {
        self.configuration.exchange(|old| old.with_certified_names(names));
    }

    /// From now on the namespace has these host names, which are the broker's beside those that it was given.
    pub fn set_own_names(&self, names: HostNames) {
        if !self.configuration.get().has_own_names(&names) {
            self.configuration.exchange(|old| old.with_own_names(names));
        }
    }

    /// Takes the configuration of `new`; the keys of entities stay, and so do the names of the certificate and of the namespace. A connection keeps what it was let in by if `new`
    /// has that too, with the rights that `new` gives it. True if an entry permits something else or is gone: links
    /// have to be looked at.
    pub fn reconfigure(&self, new: &Self) -> bool {
        let new = Configuration::clone(&new.configuration.get());
        let mut changes = Vec::new();
        self.configuration.exchange(|old| {
            let (next, of_old) = new.following(&old);
            changes = of_old;
            next
        });
        for (principal, access) in &changes {
            principal.permit(Arc::clone(access));
        }
        !changes.is_empty()
    }

    /// The names of the broker, without those that are the namespace's alone.
    pub fn names_of_broker(&self) -> HostNames {
        self.configuration.get().names_of_broker()
    }

    /// All names under which clients reach the namespace.
    pub fn host_names(&self) -> Arc<HostNames> {
        self.configuration.get().host_names()
    }

    /// Whether no secret keeps strangers out: clients without credentials are let in, or the development key is, which
    /// is public knowledge.
    pub fn is_open(&self) -> bool {
        self.configuration.get().is_open()
    }

    /// Whether the configuration has a key or user of this name.
    pub fn has_configured_key(&self, name: &str) -> bool {
        self.configuration.get().has_name(name)
    }

    /// Whether the configuration lets nobody in. Keys of entities and of namespaces are not part of it.
    pub fn is_empty(&self) -> bool {
        let configuration = self.configuration.get();
        configuration.issuers.is_empty() && configuration.is_empty()
    }

    /// The identity providers, to renew their keys.
    pub fn issuers(&self) -> Vec<Issuer> {
        self.configuration.get().issuers.clone()
    }

    /// Has `notify` called whenever a token names a key that its provider may have got since. It must not block. Only
    /// the last call counts.
    pub fn on_keys_wanted(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.keys_wanted.write().unwrap_or_else(PoisonError::into_inner) =
            Some(KeysWanted(Box::new(notify)));
    }

    /// From now on an entity has these keys of its own and no others; one that is gone has none. True if one of them
    /// permits less than before, or is gone: links that it let in have to be looked at.
    pub fn set_entity_rules(&self, entity: &str, rules: Vec<EntityRule>) -> bool {
        let scope = Scope::of_name(entity);
        // No entity is the whole namespace.
        !scope.is_namespace() && self.entity_keys.replace(&scope, rules)
    }

    /// From now on the namespace has these keys beside those of the configuration, and no others. True if one of them permits
    /// less than before, or is gone.
    pub fn set_namespace_rules(&self, rules: Vec<EntityRule>) -> bool {
        self.entity_keys.replace(&Scope::namespace(), rules)
    }

    /// Mechanisms to offer to this peer, in the order of the cloud service. .NET needs `MSSBCBS`, Python and JavaScript
    /// `ANONYMOUS`; both grant nothing yet. `EXTERNAL` is offered to the owner of a certificate only, because
    /// some clients prefer it wherever they see it. `OAUTHBEARER` and `XOAUTH2` are offered where an identity provider is configured.
    pub fn sasl_mechanisms(&self, peer: &PeerFacts) -> Vec<&'static str> {
        let configuration = self.configuration.get();
        let plain = peer.tls || peer.loopback || configuration.plain_without_tls;
        let takes_tokens = plain && !configuration.issuers.is_empty();
        [
            (MSSBCBS, true),
            (PLAIN, plain),
            (ANONYMOUS, true),
            (EXTERNAL, peer.tls && peer.certificate_subject.is_some()),
            // A token is as good as a password while it lasts.
            (OAUTHBEARER, takes_tokens),
            (XOAUTH2, takes_tokens),
        ]
        .into_iter()
        .filter_map(|(name, offered)| offered.then_some(name))
        .collect()
    }

    /// Judges the choice and the initial response of `sasl-init` at `now`, in seconds since 1970.
    pub fn sasl(
        &self,
        peer: &PeerFacts,
        mechanism: &str,
        response: Option<&[u8]>,
        now: u64,
    ) -> Result<Identity, SaslError> {
        if !self.sasl_mechanisms(peer).contains(&mechanism) {
            return Err(SaslError::NotOffered);
        }
        match mechanism {
            PLAIN => self.plain(response.ok_or(SaslError::MissingResponse)?),
            EXTERNAL => self.external(peer, response),
            OAUTHBEARER | XOAUTH2 => {
                let response = response.ok_or(SaslError::MissingResponse)?;
                let token = oauth::token(mechanism, response).ok_or(SaslError::Malformed)?;
                self.verify_jwt(token, None, now).map(Identity::of_token).map_err(SaslError::Token)
            }
            // The response is trace text (RFC 4505); JavaScript puts its key name there.
            ANONYMOUS => Ok(self.configuration.get().anonymous().map_or_else(Identity::nobody, Identity::of)),
            _ => Ok(Identity::nobody()),
        }
    }

    /// RFC 4616: authorisation identity, NUL, name, NUL, password. The name may be a user's or a key's.
    fn plain(&self, response: &[u8]) -> Result<Identity, SaslError> {
        let text = std::str::from_utf8(response).map_err(|_| SaslError::Malformed)?;
        let mut parts = text.split('\0');
        let (Some(acts_as), Some(name), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SaslError::Malformed);
        };
        if !acts_as.is_empty() && acts_as != name {
            return Err(SaslError::WrongCredentials);
        }
        if let Some(principal) = self.configuration.get().with_password(name, password.as_bytes()) {
            return Ok(Identity::of(principal));
        }
        match self.entity_keys.proved(name, password.as_bytes()) {
            held if held.is_empty() => Err(SaslError::WrongCredentials),
            held => {
                let bases = held.into_iter().map(Basis::EntityKey).collect();
                Ok(Identity { name: name.into(), bases, expires_at: u64::MAX })
            }
        }
    }

    /// RFC 4422 A: the response may name whom to act as; empty or absent means the certificate's owner.
    fn external(&self, peer: &PeerFacts, response: Option<&[u8]>) -> Result<Identity, SaslError> {
        let subject = peer.certificate_subject.as_deref().ok_or(SaslError::NotOffered)?;
        if response.is_some_and(|acts_as| !acts_as.is_empty() && acts_as != subject.as_bytes()) {
            return Err(SaslError::WrongCredentials);
        }
        let configuration = self.configuration.get();
        let owner = configuration.with_subject(subject).ok_or(SaslError::UnknownCertificate)?;
        Ok(Identity::of(owner))
    }

    /// Verifies the token of a `put-token` request (AMQP claims-based security 1.0) at `now`, in seconds since 1970.
    ///
    /// `kind` is the request's `type`, empty when absent. It decides nothing for a SAS token, which shows itself.
    /// The grant is for the audience, with the rights of the key.
    pub fn verify_token(
        &self,
        token: &str,
        kind: &str,
        audience: &str,
        now: u64,
    ) -> Result<Grant, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong(token.len()));
        }
        if audience.len() > AUDIENCE_BYTES_MAX {
            return Err(TokenError::AudienceTooLong(audience.len()));
        }
        if !kind.is_empty() && !TOKEN_KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
            return Err(TokenError::UnknownKind);
        }
        let configuration = self.configuration.get();
        let host_names = configuration.host_names();
        let resource = || Resource::parse(audience, &host_names).ok_or(TokenError::WrongAudience);
        if !sas::is_sas(token) {
            if configuration.issuers.is_empty() {
                return Err(TokenError::JwtNotConfigured);
            }
            let audience = resource()?;
            let grant = self.verify_jwt(token, Some(&audience.place), now)?;
            self.token_hosts.judge([&audience.host])?;
            return Ok(grant);
        }
        let token = SasToken::parse(token, &host_names)?;
        self.verify_sas(&configuration, &token, &resource()?, now)
    }

    /// Judges a token for this place, or for all places together. Asks for a provider's keys where the token names one that
    /// it may have got since.
    fn verify_jwt(&self, token: &str, place: Option<&Scope>, now: u64) -> Result<Grant, JwtError> {
        let verified = jwt::verify(&self.configuration.get().issuers, token.trim(), place, now);
        if matches!(verified, Err(JwtError::UnknownKey { refreshable: true }))
            && let Some(wanted) = &*self.keys_wanted.read().unwrap_or_else(PoisonError::into_inner)
        {
            (wanted.0)();
        }
        verified
    }

    fn verify_sas(
        &self,
        configuration: &Configuration,
        token: &SasToken<'_>,
        Resource { place: audience, host }: &Resource,
        now: u64,
    ) -> Result<Grant, TokenError> {
        let mut named = configuration.named_by(token).peekable();
        let of_entity = self.entity_keys.named(token, audience);
        if named.peek().is_none() && of_entity.is_empty() {
            return Err(TokenError::UnknownKey);
        }
        // Every client could sign a token for an empty key.
        let has_signed = |(text, _): &&(Secret, Principal)| !text.is_empty() && token.is_signed_with(text);
        let mut signers = named.filter(has_signed).peekable();
        let mut of_entity = of_entity.into_iter().filter(|held| held.signed(token)).peekable();
        if signers.peek().is_none() && of_entity.peek().is_none() {
            return Err(TokenError::WrongSignature);
        }
        if now >= token.expires_at {
            return Err(TokenError::Expired { expired_at: token.expires_at, now });
        }
        // Nobody but the holder of a good token is told where a host leads.
        self.token_hosts.judge([&token.resource.host, host])?;
        if !token.resource.place.covers(audience) {
            return Err(match token.resource.host {
                Some(_) => TokenError::WrongAudience,
                None => TokenError::NoHost,
            });
        }
        let (scope, expires_at) = (audience.clone(), token.expires_at);
        if let Some((_, principal)) = signers.find(|(_, signer)| signer.access().reaches(audience)) {
            let (key, bases) = (principal.name().into(), vec![Basis::Principal(principal.clone())]);
            return Ok(Grant { scope, expires_at, key, bases });
        }
        let held = of_entity.next().ok_or(TokenError::NoRights)?;
        let (key, bases) = (held.name().into(), vec![Basis::EntityKey(held)]);
        Ok(Grant { scope, expires_at, key, bases })
    }
}

const MSSBCBS: &str = "MSSBCBS";
pub(crate) const PLAIN: &str = "PLAIN";
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// Every spelling of a token type in use; Python says `jwt` for SAS tokens too.
const TOKEN_KINDS: [&str; 4] = ["jwt", "amqp:jwt", "servicebus.windows.net:sastoken", "amqp:sastoken"];

#[cfg(test)]
mod tests;
