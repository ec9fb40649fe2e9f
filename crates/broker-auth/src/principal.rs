//! Principals: the entries of the configuration that let clients in, with the rights that each has now.
//!
//! A connection holds the principals that it has proved to be, and asks them for a right each time, so a change of the
//! configuration counts for every connection at once.
//!
//! Invariant: a principal that the configuration does not have any more permits nothing.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{Access, Right, Rights, Scope, entity_keys::KeyHandle, secret::Seal};

/// The proof by which a client becomes a principal. Principals of two configurations with the same name and proof are
/// the same.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Proof {
    /// Clients without credentials.
    Nothing,
    /// One text of a named key.
    Key(Seal),
    /// The password of a user.
    Password(Seal),
    /// A client certificate with the name as its subject.
    Certificate,
    /// A claim in the tokens of the issuer of that name for these audiences.
    Claim { audiences: Vec<String>, claim: String, value: String },
}

/// One principal. A copy is the same principal.
#[derive(Clone)]
pub(crate) struct Principal(Arc<Configured>);

struct Configured {
    name: Box<str>,
    proof: Proof,
    access: RwLock<Arc<Access>>,
}

impl Principal {
    pub(crate) fn new(name: &str, proof: Proof, access: Access) -> Self {
        Self(Arc::new(Configured { name: name.into(), proof, access: RwLock::new(Arc::new(access)) }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Its rights as they are now.
    pub(crate) fn access(&self) -> Arc<Access> {
        // The rights are exchanged whole, so a panic cannot have left it half-changed.
        Arc::clone(&self.0.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on it may do this and nothing else.
    pub(crate) fn permit(&self, access: Arc<Access>) {
        *self.0.access.write().unwrap_or_else(PoisonError::into_inner) = access;
    }

    pub(crate) fn is_key(&self) -> bool {
        matches!(self.0.proof, Proof::Key(_))
    }

    /// Whether `other` is proved by the same.
    pub(crate) fn is_proved_as(&self, other: &Self) -> bool {
        self.0.name == other.0.name && self.0.proof == other.0.proof
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Principal {}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({}, {:?})", self.0.name, self.access())
    }
}

/// The basis of a right. It is asked each time, for it may permit less than before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Basis {
    /// A principal of the configuration.
    Principal(Principal),
    /// A key of an entity.
    EntityKey(KeyHandle),
}

impl Basis {
    /// Whether it permits `right` at `scope` now.
    pub(crate) fn permits(&self, scope: &Scope, right: Right) -> bool {
        match self {
            Self::Principal(principal) => {
                let access = principal.access();
                access.rights.contains(right) && access.reaches(scope)
            }
            Self::EntityKey(key) => key.permits(scope, right),
        }
    }

    /// Its rights, wherever they hold.
    pub(crate) fn rights(&self) -> Rights {
        match self {
            Self::Principal(principal) => principal.access().rights,
            Self::EntityKey(key) => key.rights(),
        }
    }

    /// Whether it permits nothing any more.
    pub(crate) fn is_void(&self) -> bool {
        self.rights().is_empty()
    }

    pub(crate) const fn is_of_entity(&self) -> bool {
        matches!(self, Self::EntityKey(_))
    }
}
