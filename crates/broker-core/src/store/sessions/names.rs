//! Sessions by their ids, whose case does not matter.
//!
//! Invariant: behaves as a map whose keys are [`session_key`]s. No answer depends on the order of the table, and a client
//! that does not know the seed cannot choose ids that collide.

use std::{
    borrow::Cow,
    hash::{BuildHasher, DefaultHasher, Hasher},
    sync::Arc,
};

use super::SessionNumber;
use crate::store::session_id::session_key;

/// Room beyond eight times what is used that is always tolerated.
const SLACK: usize = 64;

/// Map from id to number. A tree would compare a dozen ids that lie apart, for ten thousand sessions.
#[derive(Debug)]
pub(super) struct Names(Table);

#[expect(
    clippy::disallowed_types,
    reason = "what iterates over it sorts or selects by key, so its order does not show"
)]
type Table = std::collections::HashMap<Arc<str>, SessionNumber, Seeded>;

impl Names {
    /// `seed` decides about the places in the table and nothing that shows.
    pub(super) fn new(seed: u64) -> Self {
        Self(Table::with_hasher(Seeded(seed)))
    }

    pub(super) fn get(&self, id: &str) -> Option<SessionNumber> {
        self.0.get(&*session_key(id)).copied()
    }

    /// Enters a session that is not there yet.
    pub(super) fn insert(&mut self, id: Arc<str>, number: SessionNumber) -> Arc<str> {
        let key = match session_key(&id) {
            Cow::Borrowed(_) => id,
            Cow::Owned(key) => key.into(),
        };
        self.0.insert(Arc::clone(&key), number);
        key
    }

    /// All keys, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, SessionNumber)> {
        self.0.iter().map(|(key, number)| (key, *number))
    }

    /// Gives up room that is not needed any more, too.
    pub(super) fn remove(&mut self, id: &str) {
        self.0.remove(&*session_key(id));
        if self.0.capacity() > 8 * self.0.len() + SLACK {
            self.0.shrink_to(2 * self.0.len());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The standard library's hash of what peers choose, begun with a number that they do not know.
#[derive(Clone, Copy, Debug)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

#[cfg(test)]
mod tests;
