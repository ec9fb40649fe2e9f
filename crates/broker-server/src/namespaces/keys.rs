//! Key sets of the identity providers of namespaces.
//!
//! Invariant: a namespace takes the keys of its own providers alone.

use std::{collections::BTreeMap, sync::Arc};

use broker_auth::Authority;
use tokio::runtime::Handle;

use crate::{
    config::NamespacePlan,
    jwks_refresh::{Fetcher, KeyRefreshers, KeySource},
    remote::RemoteError,
};

/// Key sets of the providers of namespaces, each for its own.
pub(crate) struct NamespaceKeys {
    runtime: Handle,
    by_namespace: BTreeMap<Box<str>, KeyRefreshers>,
}

/// The ways to the key sets of one namespace.
pub(crate) type NamespaceFetchers = (Box<str>, Vec<(KeySource, Fetcher)>);

impl NamespaceKeys {
    /// None yet.
    pub(crate) const fn new(runtime: Handle) -> Self {
        Self { runtime, by_namespace: BTreeMap::new() }
    }

    /// The ways to the key sets of all these namespaces.
    pub(crate) fn fetchers(plans: &[NamespacePlan]) -> Result<Vec<NamespaceFetchers>, RemoteError> {
        plans.iter().map(|plan| Ok((plan.entry().0, Fetcher::all(&plan.key_sources)?))).collect()
    }

    /// See [`KeyRefreshers::hand_over`].
    pub(crate) fn hand_over(&self, plans: &[NamespacePlan]) {
        for plan in plans {
            let (key, authority) = plan.entry();
            if let Some(refreshers) = self.by_namespace.get(&key) {
                refreshers.hand_over(&plan.key_sources, &authority.issuers());
            }
        }
    }

    /// Keeps the keys of these providers from now on, and of no others.
    pub(crate) fn keep(
        &mut self,
        fetchers: Vec<NamespaceFetchers>,
        authority: impl Fn(&str) -> Option<Arc<Authority>>,
    ) {
        let mut before = std::mem::take(&mut self.by_namespace);
        for (key, fetchers) in fetchers {
            let Some(authority) = authority(&key) else { continue };
            // A namespace that was deleted and created again has another authority.
            let mut refreshers = match before.remove(&key) {
                Some(known) => {
                    known.serve(&authority);
                    known
                }
                None => KeyRefreshers::new(&authority, self.runtime.clone()),
            };
            refreshers.keep(fetchers, &authority.issuers());
            self.by_namespace.insert(key, refreshers);
        }
        for mut gone in before.into_values() {
            gone.keep(Vec::new(), &[]);
        }
    }
}

#[cfg(test)]
mod tests;
