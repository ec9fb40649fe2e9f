//! Grants of one connection: those of its log-in, and those of its tokens.
//!
//! Invariant: a grant counts until the second it expires and never after; their number is bounded.

use std::collections::{BTreeMap, BTreeSet};

use crate::{GRANTS_MAX, Identity, Right, Rights, Scope, principal::Basis};

/// Rights that one verified token gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// Scope of the rights, with everything below.
    pub scope: Scope,
    /// Seconds since 1970 from which on it is void.
    pub expires_at: u64,
    /// Name of the key that signed. For logs.
    pub key: Box<str>,
    /// Principals or the key of an entity that the token has proved; they decide what is permitted.
    pub(crate) bases: Vec<Basis>,
}

impl Grant {
    /// Whether the token permits `right` at `scope`, which lies at or below its own.
    pub fn permits(&self, scope: &Scope, right: Right) -> bool {
        self.bases.iter().any(|basis| basis.permits(scope, right))
    }

    /// All that the token permits somewhere.
    pub fn rights(&self) -> Rights {
        self.bases.iter().fold(Rights::NONE, |rights, basis| rights.union(basis.rights()))
    }

    fn is_void(&self, now: u64) -> bool {
        now >= self.expires_at || self.bases.iter().all(Basis::is_void)
    }

    fn is_of_key(&self, other: &Self) -> bool {
        let is_of_entity = |grant: &Self| grant.bases.iter().any(Basis::is_of_entity);
        self.key == other.key && is_of_entity(self) == is_of_entity(other)
    }
}

/// Reason why an operation is denied.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Denied {
    /// Neither the log-in nor any token gives the right there.
    #[error("Unauthorized access. '{right}' claim(s) are required to perform this operation on {scope}.")]
    Missing {
        /// Missing right.
        right: Right,
        scope: Scope,
    },
    /// A token gave it, but its time is over.
    #[error("ExpiredToken: the token for {scope} expired at {expired_at} (Unix seconds), put a new one")]
    Expired {
        scope: Scope,
        /// Seconds since 1970.
        expired_at: u64,
    },
}

/// The connection holds [`GRANTS_MAX`] grants that have not expired.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the connection holds tokens for {GRANTS_MAX} audiences, no more are accepted")]
pub struct TooManyGrants;

/// The rights of one connection.
#[derive(Clone, Debug)]
pub struct Grants {
    identity: Identity,
    /// By place, then by key: a new token of a key for a place replaces the old one. A connection has few keys.
    by_scope: BTreeMap<Box<str>, Vec<Grant>>,
    count: usize,
}

impl Grants {
    /// Grants of the log-in. Before SASL: [`Identity::nobody`].
    pub const fn new(identity: Identity) -> Self {
        Self { identity, by_scope: BTreeMap::new(), count: 0 }
    }

    /// Identity of the connection.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// True without the grant of any token.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names of the keys whose tokens were put, each once.
    pub fn keys(&self) -> BTreeSet<&str> {
        self.by_scope.values().flatten().map(|grant| &*grant.key).collect()
    }

    /// Adds the grant of a token, or renews the one it replaces.
    pub fn add(&mut self, grant: Grant, now: u64) -> Result<(), TooManyGrants> {
        let at_scope = self.by_scope.get_mut(grant.scope.as_str());
        if let Some(old) = at_scope.and_then(|all| all.iter_mut().find(|old| old.is_of_key(&grant))) {
            *old = grant;
            return Ok(());
        }
        if self.count >= GRANTS_MAX {
            self.forget_void(now);
        }
        if self.count >= GRANTS_MAX {
            return Err(TooManyGrants);
        }
        self.by_scope.entry(grant.scope.as_str().into()).or_default().push(grant);
        self.count += 1;
        Ok(())
    }

    /// Answers whether `right` holds at `scope` at `now`, in seconds since 1970.
    pub fn allows(&self, scope: &Scope, right: Right, now: u64) -> Result<(), Denied> {
        match self.valid_until(scope, right) {
            Some(end) if now < end => Ok(()),
            Some(expired_at) => Err(Denied::Expired { scope: scope.clone(), expired_at }),
            None => Err(Denied::Missing { right, scope: scope.clone() }),
        }
    }

    /// Name, for logs, of the log-in or of the first token that gives `right` at `scope`. Where none does, the name of a token
    /// for the scope.
    pub fn who(&self, scope: &Scope, right: Right) -> &str {
        if self.identity.allows(scope, right) {
            return self.identity.name();
        }
        let grants = || scope.ancestry().filter_map(|place| self.by_scope.get(place)).flatten();
        let grant = grants().find(|grant| grant.permits(scope, right)).or_else(|| grants().next());
        grant.map_or(self.identity.name(), |grant| &grant.key)
    }

    /// Seconds since 1970 until which `right` holds at `scope`: for ever (`u64::MAX`) by a log-in without a token, else as
    /// long as the longest of the tokens. `None` if it never did.
    pub fn valid_until(&self, scope: &Scope, right: Right) -> Option<u64> {
        let by_login = self.identity.allows(scope, right).then(|| self.identity.expires_at());
        if by_login == Some(None) {
            return Some(u64::MAX);
        }
        let put = scope.ancestry().filter_map(|place| self.by_scope.get(place)).flatten();
        let put = put.filter(|grant| grant.permits(scope, right)).map(|grant| grant.expires_at);
        put.chain(by_login.flatten()).max()
    }

    fn forget_void(&mut self, now: u64) {
        self.by_scope.retain(|_, grants| {
            grants.retain(|grant| !grant.is_void(now));
            !grants.is_empty()
        });
        self.count = self.by_scope.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests;
