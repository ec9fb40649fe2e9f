//! Order of the sessions of a store by their ids, for lists (`docs/features/sessions.md`).
//!
//! No order is kept in normal operation, in which sessions come and go with messages. The first list makes it, of all
//! sessions in one walk, and the lists after it find their place in it. Sessions that come or go meanwhile are entered
//! and removed. Once as many of them were as the walk visited, the order is dropped: they pay for the next walk, so the
//! cost of a session stays constant.
//!
//! Of more than [`KEPT_MAX`] sessions no order is made, and one that would grow beyond them is dropped. Each list walks
//! all of them, selects its page, which takes a few comparisons for each, and sorts that page alone.
//!
//! Invariant: while there is an order, it holds each session once, under its key, and [`KEPT_MAX`] of them at the most.
//! The keys alone decide about each page, so it is the same either way and behind a restart.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use super::{Session, SessionNumber, Sessions};
use crate::store::session_id::session_key;

/// Sessions that come and go at least before an order is dropped.
const CHANGES_MIN: usize = 64;

/// Most sessions of an order. It is made in one call, and dropped in one that is about a single session, while all
/// others wait. That takes about three milliseconds and a quarter of one; of a million sessions, 600 and 50.
const KEPT_MAX: usize = 16_384;

/// The order, while there is one.
#[derive(Debug)]
pub(super) struct Listing {
    ordered: Option<Box<Ordered>>,
    /// Most sessions of an order.
    kept_max: usize,
}

#[derive(Debug)]
struct Ordered {
    by_key: BTreeMap<Arc<str>, SessionNumber>,
    /// Number of sessions that may still come and go.
    left: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Self { ordered: None, kept_max: KEPT_MAX }
    }
}

impl Listing {
    /// A session has come, with this key.
    pub(super) fn enter(&mut self, key: Arc<str>, number: SessionNumber) {
        let kept_max = self.kept_max;
        let Some(ordered) = self.change() else { return };
        if ordered.by_key.len() < kept_max {
            ordered.by_key.insert(key, number);
        } else {
            self.ordered = None;
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
        let left = self.ordered.as_ref()?.left.checked_sub(1);
        let Some(left) = left else {
            self.ordered = None;
            return None;
        };
        let ordered = self.ordered.as_deref_mut()?;
        ordered.left = left;
        Some(ordered)
    }

    /// Whether there is an order.
    #[cfg(test)]
    pub(super) const fn is_kept(&self) -> bool {
        self.ordered.is_some()
    }

    /// Keeps an order of so many sessions at the most.
    #[cfg(test)]
    pub(super) const fn keep_at_most(&mut self, sessions: usize) {
        self.kept_max = sessions;
    }
}

impl Sessions {
    /// The sessions that a list has, by their ids; those behind an id, if one is given, be there such a session or not.
    /// Of these it leaves out the first `skip` and gives `top` at the most. Says as well how many were visited.
    pub(crate) fn page(
        &mut self,
        after: Option<&str>,
        (skip, top): (usize, usize),
        mut is_listed: impl FnMut(&Session) -> bool,
    ) -> (u64, Vec<&Session>) {
        let mut visited = 0;
        let key = after.map(session_key);
        let key = key.as_deref();
        if self.by_id.len() > self.listing.kept_max {
            let all = self.by_id.iter().inspect(|_| visited += 1);
            let behind = all.filter(|(id, _)| key.is_none_or(|key| &***id > key));
            let found = behind.filter_map(|(id, number)| {
                let session = self.get(number)?;
                is_listed(session).then_some((id, number))
            });
            let page = page_of(found.collect(), skip, top);
            let sessions = page.into_iter().filter_map(|(_, number)| self.get(number)).collect();
            return (visited, sessions);
        }
        let ordered = self.listing.ordered.get_or_insert_with(|| {
            let by_key: BTreeMap<_, _> =
                self.by_id.iter().map(|(key, number)| (Arc::clone(key), number)).collect();
            visited = by_key.len() as u64;
            let left = by_key.len() + CHANGES_MIN;
            Box::new(Ordered { by_key, left })
        });
        let range = ordered.by_key.range::<str, _>((key.map_or(Unbounded, Excluded), Unbounded));
        let sessions = range.filter_map(|(_, number)| self.places.get(number.0 as usize)?.as_deref());
        let listed = sessions.inspect(|_| visited += 1).filter(|session| is_listed(session));
        let page = listed.skip(skip).take(top).collect();
        (visited, page)
    }
}

/// Members that the list would have behind its first `skip` if it were sorted, `top` at the most.
fn page_of<T: Ord>(mut list: Vec<T>, skip: usize, top: usize) -> Vec<T> {
    let end = skip.saturating_add(top);
    if end < list.len() {
        list.select_nth_unstable(end);
        list.truncate(end);
    }
    if skip >= list.len() {
        return Vec::new();
    }
    list.select_nth_unstable(skip);
    let mut page = list.split_off(skip);
    page.sort_unstable();
    page
}

#[cfg(test)]
mod tests;
