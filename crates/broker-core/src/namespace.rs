//! All that one namespace keeps in memory, each part in a type of its own.
//!
//! Invariant: there is no other state, and none of it is shared between namespaces.

use std::collections::VecDeque;

use crate::{
    ClientId, CoreConfig, Delivery, EntityPath, QueueId,
    deliver::pending_read::PendingRead,
    entity::deletion_queue::DeletionQueue,
    link::table::LinkTable,
    messages::Messages,
    settle::lock_release_queue::LockReleaseQueue,
    store::{Entity, Store},
    transaction::open::Transactions,
};

/// The state of one namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) messages: Messages,
    pub(crate) links: LinkTable,
    pub(crate) transactions: Transactions,
    /// Locks that end.
    pub(crate) lock_releases: LockReleaseQueue,
    /// Stores of deleted entities.
    pub(crate) deletions: DeletionQueue,
    /// Requests that wait for the next `deliver`.
    pub(crate) pending_reads: VecDeque<PendingRead>,
    /// Deliveries that remove their messages; empty between calls.
    pub(crate) held: Vec<(ClientId, Delivery)>,
    pub(crate) next_lock: u32,
}

impl Namespace {
    /// A message store.
    #[inline]
    pub(crate) fn store(&self, id: QueueId) -> Option<&Store> {
        self.messages.store(id)
    }

    /// A message store, to change it.
    #[inline]
    pub(crate) fn store_mut(&mut self, id: QueueId) -> Option<&mut Store> {
        self.messages.store_mut(id)
    }

    /// The entity that a store belongs to.
    pub(crate) fn main_of(&self, id: QueueId) -> Option<&Entity> {
        self.messages.main_of(id)
    }

    /// The store of a path.
    pub(crate) fn resolve(&self, path: &EntityPath) -> Option<QueueId> {
        self.messages.resolve(path)
    }

    pub(crate) fn new(config: CoreConfig) -> Self {
        Self {
            messages: Messages::new(config),
            links: LinkTable::default(),
            transactions: Transactions::default(),
            lock_releases: LockReleaseQueue::default(),
            deletions: DeletionQueue::default(),
            pending_reads: VecDeque::new(),
            held: Vec::new(),
            next_lock: 1,
        }
    }
}
