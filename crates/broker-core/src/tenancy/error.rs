//! Refusals of changes of namespaces.
//!
//! Invariant: a change that is refused has changed nothing.

use crate::{NamespaceNameError, QuotaError};

/// Reason why a namespace was not changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NamespaceError {
    #[error(transparent)]
    Name(#[from] NamespaceNameError),
    #[error("the namespace `{0}` does not exist")]
    NotFound(Box<str>),
    #[error("the namespace `{0}` exists already")]
    AlreadyExists(Box<str>),
    /// Its entities are being deleted.
    #[error("the namespace `{0}` is being deleted")]
    Deleting(Box<str>),
    /// The default namespace cannot be deleted.
    #[error("the default namespace cannot be deleted")]
    Default,
    /// A host name leads to one namespace only.
    #[error("the host name `{hostname}` leads to the namespace `{namespace}` already")]
    Hostname { hostname: Box<str>, namespace: Box<str> },
    /// The broker has no room for another one.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaError),
    /// Every slot is taken.
    #[error("the shard has {limit} namespaces, and takes no more")]
    Full { limit: u64 },
    #[error("the namespace `{namespace}` has no key `{key}`")]
    NoKey { namespace: Box<str>, key: Box<str> },
    #[error("the namespace `{namespace}` has {limit} keys, and takes no more")]
    TooManyKeys { namespace: Box<str>, limit: u64 },
}
