//! Administrators of the installation, who manage namespaces and see all of them.
//!
//! Invariant: where the configuration names an administrator, no credential of a namespace is one.

use std::sync::Arc;

use broker_auth::{Authority, Right};

use crate::namespaces::NamespaceDirectory;

/// Judges who is an administrator.
#[derive(Clone)]
pub(crate) struct Administrators {
    configured: Arc<Authority>,
    namespaces: Arc<NamespaceDirectory>,
}

impl Administrators {
    /// The administrators of the configuration. Without any, those who have a right in the default namespace have it in the
    /// installation: a broker of one team needs no other.
    pub(crate) const fn new(configured: Arc<Authority>, namespaces: Arc<NamespaceDirectory>) -> Self {
        Self { configured, namespaces }
    }

    /// The judge of a client that wants to do `right` in the whole installation, and the right that the client needs with that
    /// judge.
    pub(crate) fn judge(&self, right: Right) -> (Arc<Authority>, Right) {
        if self.configured.is_empty() {
            (Arc::clone(&self.namespaces.of_default().authority), right)
        } else {
            (Arc::clone(&self.configured), Right::Manage)
        }
    }

    /// The authority of the configuration, for a reload.
    pub(crate) const fn configured(&self) -> &Arc<Authority> {
        &self.configured
    }
}
