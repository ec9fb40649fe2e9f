//! Endpoints of one connection: its sessions and links, its transactions, and the answers that they wait for.
//!
//! Invariant: each part has private state; what a handler changes in several of them, it changes in one call.

use crate::{
    dynamic::table::DynamicNodeTable, link::table::LinkTable, pending::PendingAnswers, session::SessionTable,
    transaction::Transactions,
};

/// State that the links of one connection share.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) sessions: SessionTable,
    pub(crate) links: LinkTable,
    pub(crate) transactions: Transactions,
    pub(crate) pending: PendingAnswers,
    pub(crate) dynamic_nodes: DynamicNodeTable,
}

impl Endpoints {
    /// Of a connection that has just been accepted.
    pub(crate) fn new() -> Self {
        Self {
            sessions: SessionTable::new(),
            links: LinkTable::new(),
            transactions: Transactions::default(),
            pending: PendingAnswers::default(),
            dynamic_nodes: DynamicNodeTable::default(),
        }
    }
}
