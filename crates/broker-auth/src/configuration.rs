//! Credentials and rights of the operator's files, and their replacement by a reload.
//!
//! Invariant: a principal that two configurations in a row have is one principal, so its connections stay open.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{
    Access, Anonymous, Credentials, DEVELOPMENT_KEY, HostNames, Issuer, NamedKey, Rights, Secret,
    principal::{Principal, Proof},
    sas::SasToken,
};

/// The configuration that counts now.
#[derive(Debug)]
pub(crate) struct Current(RwLock<Arc<Configuration>>);

impl Current {
    pub(crate) fn new(configuration: Configuration) -> Self {
        Self(RwLock::new(Arc::new(configuration)))
    }

    pub(crate) fn get(&self) -> Arc<Configuration> {
        // The configuration is exchanged whole, so a panic cannot have left it half-changed.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in its place.
    pub(crate) fn exchange(&self, change: impl FnOnce(Configuration) -> Configuration) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(change(Configuration::clone(&current)));
    }
}

/// The rules of an authority, without the keys of entities.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Users with their passwords, then each text of each key.
    secrets: Vec<(Secret, Principal)>,
    certificates: Vec<Principal>,
    /// Clients without credentials, if they are let in.
    anonymous: Option<Principal>,
    pub(crate) plain_without_tls: bool,
    pub(crate) issuers: Vec<Issuer>,
    names: Names,
}

/// Names of the broker.
#[derive(Clone, Debug, Default)]
struct Names {
    /// Those that the operator gives.
    given: HostNames,
    /// Those in the broker's certificate, which has files of its own.
    certified: HostNames,
    /// Those of the namespace alone.
    own: HostNames,
    all: Arc<HostNames>,
}

impl Names {
    fn new(given: HostNames, certified: HostNames, own: HostNames) -> Self {
        let all = Arc::new(given.and(&certified).and(&own));
        Self { given, certified, own, all }
    }
}

/// The new rights of a principal of the old configuration.
pub(crate) type Change = (Principal, Arc<Access>);

impl Configuration {
    pub(crate) fn new(credentials: Credentials) -> Self {
        let Credentials { keys, users, certificates, anonymous, plain_without_tls } = credentials;
        let each_text = |NamedKey { name, primary, secondary, access }: NamedKey| {
            std::iter::once(primary).chain(secondary).map(move |text| {
                let proof = Proof::Key(text.seal());
                (text, Principal::new(&name, proof, access.clone()))
            })
        };
        let users = users.into_iter().map(|user| {
            let principal = Principal::new(&user.name, Proof::Password(user.password.seal()), user.access);
            (user.password, principal)
        });
        let certificates = certificates
            .into_iter()
            .map(|known| Principal::new(&known.subject, Proof::Certificate, known.access));
        let everything = || Principal::new("anonymous", Proof::Nothing, Access::namespace(Rights::ALL));
        Self {
            secrets: users.chain(keys.into_iter().flat_map(each_text)).collect(),
            certificates: certificates.collect(),
            anonymous: (anonymous == Anonymous::Allow).then(everything),
            plain_without_tls,
            issuers: Vec::new(),
            names: Names::default(),
        }
    }

    /// With these issuers.
    pub(crate) fn with_issuers(self, issuers: Vec<Issuer>) -> Self {
        Self { issuers, ..self }
    }

    /// With these names that the operator gives.
    pub(crate) fn with_names(self, given: HostNames) -> Self {
        Self { names: Names::new(given, self.names.certified, self.names.own), ..self }
    }

    /// With a certificate that has these names.
    pub(crate) fn with_certified_names(self, certified: HostNames) -> Self {
        Self { names: Names::new(self.names.given, certified, self.names.own), ..self }
    }

    /// With a namespace that has these names.
    pub(crate) fn with_own_names(self, own: HostNames) -> Self {
        Self { names: Names::new(self.names.given, self.names.certified, own), ..self }
    }

    /// Whether the namespace has these names.
    pub(crate) fn has_own_names(&self, names: &HostNames) -> bool {
        self.names.own == *names
    }

    /// The given names and those of the certificate.
    pub(crate) fn names_of_broker(&self) -> HostNames {
        self.names.given.and(&self.names.certified)
    }

    /// All names.
    pub(crate) fn host_names(&self) -> Arc<HostNames> {
        Arc::clone(&self.names.all)
    }

    /// Whether it has no principal.
    pub(crate) fn is_empty(&self) -> bool {
        self.principals().next().is_none()
    }

    /// Clients without credentials, if they are let in.
    pub(crate) const fn anonymous(&self) -> Option<&Principal> {
        self.anonymous.as_ref()
    }

    /// Whether no secret keeps strangers out: clients without credentials are let in, or the development key is, which
    /// is public knowledge.
    pub(crate) fn is_open(&self) -> bool {
        let is_known =
            |(text, key): &(Secret, Principal)| key.is_key() && text.matches(DEVELOPMENT_KEY.as_bytes());
        self.anonymous.is_some() || self.secrets.iter().any(is_known)
    }

    /// The user, or else the key, of this name and text.
    pub(crate) fn with_password(&self, name: &str, password: &[u8]) -> Option<&Principal> {
        let mut named = self.secrets.iter().filter(|(_, principal)| principal.name() == name);
        // An empty secret is never a password.
        named.find(|(text, _)| !text.is_empty() && text.matches(password)).map(|(_, principal)| principal)
    }

    /// Whether a user or a key has this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.secrets.iter().any(|(_, principal)| principal.name() == name)
    }

    /// The owner of the certificate with this subject.
    pub(crate) fn with_subject(&self, subject: &str) -> Option<&Principal> {
        self.certificates.iter().find(|known| known.name() == subject)
    }

    /// Texts of the keys that have the name in the token.
    pub(crate) fn named_by<'c>(
        &'c self,
        token: &'c SasToken<'_>,
    ) -> impl Iterator<Item = &'c (Secret, Principal)> {
        self.secrets.iter().filter(|(_, principal)| principal.is_key() && token.is_by(principal.name()))
    }

    fn principals(&self) -> impl Iterator<Item = &Principal> {
        let with_text = self.secrets.iter().map(|(_, principal)| principal);
        let claims = self.issuers.iter().flat_map(Issuer::principals);
        with_text.chain(&self.certificates).chain(&self.anonymous).chain(claims)
    }

    fn principals_mut(&mut self) -> impl Iterator<Item = &mut Principal> {
        let with_text = self.secrets.iter_mut().map(|(_, principal)| principal);
        let claims = self.issuers.iter_mut().flat_map(Issuer::principals_mut);
        with_text.chain(&mut self.certificates).chain(&mut self.anonymous).chain(claims)
    }

    /// This configuration with the principals of `old` that it goes on to have, and the new rights of those whose
    /// rights change or end.
    pub(crate) fn following(self, old: &Self) -> (Self, Vec<Change>) {
        let Names { certified, own, .. } = old.names.clone();
        let mut new = self.with_certified_names(certified).with_own_names(own);
        let mut left: Vec<Principal> = old.principals().cloned().collect();
        let mut changes = Vec::new();
        let mut new_or_changed = Vec::new();
        // Two tables may have the same name and text: first those that stay as they are.
        for principal in new.principals_mut() {
            let stays = |old: &Principal| old.is_proved_as(principal) && old.access() == principal.access();
            match left.iter().position(stays) {
                Some(at) => *principal = left.swap_remove(at),
                None => new_or_changed.push(principal),
            }
        }
        for principal in new_or_changed {
            if let Some(at) = left.iter().position(|old| old.is_proved_as(principal)) {
                let old = left.swap_remove(at);
                changes.push((old.clone(), principal.access()));
                *principal = old;
            }
        }
        changes.extend(left.into_iter().map(|gone| (gone, Arc::new(Access::NONE))));
        (new, changes)
    }
}

#[cfg(test)]
mod tests;
