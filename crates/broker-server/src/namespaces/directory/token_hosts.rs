//! Hosts in tokens: a token is for the namespace to which its host leads.
//!
//! Invariant: the host of a token leads where that of a connection does; with one namespace, to that one.

use std::sync::{Arc, PoisonError, RwLock};

use broker_auth::ForeignHost;

use super::{ServedNamespace, Table};
use crate::host_table::HostLookup;

/// Has the authority of a namespace refuse tokens for hosts of another.
pub(super) fn judge_token_hosts(table: &Arc<RwLock<Table>>, served: &ServedNamespace) {
    // The table holds the namespaces, and they their authorities.
    let table = Arc::downgrade(table);
    let here = Arc::clone(&served.name);
    served.authority.token_hosts.judge_by(move |host| {
        let table = table.upgrade()?;
        let table = table.read().unwrap_or_else(PoisonError::into_inner);
        foreign_host(&table, host, &here)
    });
}

/// The namespace to which the host of a token leads, if it is not `here`.
fn foreign_host(table: &Table, host: &str, here: &str) -> Option<Box<ForeignHost>> {
    if table.by_id.len() == 1 {
        return None;
    }
    let leads_to = match table.hosts.lookup(Some(host)) {
        HostLookup::Found(served) | HostLookup::Default(served) => Some(&*served.name),
        HostLookup::Unknown(_) => None,
    };
    (leads_to != Some(here)).then(|| Box::new(ForeignHost::new(host, leads_to, here)))
}
