//! Order of the sessions of a store by their ids, for lists (`docs/features/sessions.md`).
//!
//! No order is kept in normal operation, in which sessions come and go with messages. The first list makes it, of all
//! sessions in one walk, and the lists after it find their place in it. Sessions that come or go meanwhile are entered
//! and removed. Once as many of them were as the walk visited, the order is dropped: they pay for the next walk, so the
//! cost of a session stays constant.
//!
//! Invariant: while there is an order, it holds each session once, under its key. The keys alone decide about it, so it
//! is the same behind a restart.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use super::{Session, SessionNumber, Sessions};
use crate::store::session_id::session_key;

/// Sessions that come and go at least before an order is dropped.
const CHANGES_MIN: usize = 64;

/// The order, while there is one.
#[derive(Debug, Default)]
pub(super) struct Listing(Option<Box<Ordered>>);

#[derive(Debug)]
struct Ordered {
    by_key: BTreeMap<Arc<str>, SessionNumber>,
    /// Number of sessions that may still come and go.
    left: usize,
}

impl Listing {
    /// A session has come, with this key.
    pub(super) fn enter(&mut self, key: Arc<str>, number: SessionNumber) {
        if let Some(ordered) = self.change() {
            ordered.by_key.insert(key, number);
        }
    }

    /// A session has gone.
    pub(super) fn leave(&mut self, id: &str) {
        if let Some(ordered) = self.change() {
            ordered.by_key.remove(&*session_key(id));
        }
    }

    /// The order, if it outlives one change more.
    fn change(&mut self) -> Option<&mut Ordered> {
        let left = self.0.as_ref()?.left.checked_sub(1);
        let Some(left) = left else {
            self.0 = None;
            return None;
        };
        let ordered = self.0.as_deref_mut()?;
        ordered.left = left;
        Some(ordered)
    }

    /// Whether there is an order.
    #[cfg(test)]
    pub(super) const fn is_kept(&self) -> bool {
        self.0.is_some()
    }
}

impl Sessions {
    /// The sessions by their ids; those behind an id, if one is given, be there such a session or not. Says as well how
    /// many were visited to make the order.
    pub(crate) fn list_after(&mut self, id: Option<&str>) -> (usize, impl Iterator<Item = &Session>) {
        let mut visited = 0;
        if self.listing.0.is_none() {
            let by_key: BTreeMap<_, _> = self.by_id.iter().collect();
            visited = by_key.len();
            self.listing.0 = Some(Box::new(Ordered { by_key, left: visited + CHANGES_MIN }));
        }
        let key = id.map(session_key);
        let from = key.as_deref().map_or(Unbounded, Excluded);
        let range = self.listing.0.as_ref().map(|ordered| ordered.by_key.range::<str, _>((from, Unbounded)));
        let place = |number: SessionNumber| self.places.get(number.0 as usize)?.as_deref();
        (visited, range.into_iter().flatten().filter_map(move |(_, number)| place(*number)))
    }
}
