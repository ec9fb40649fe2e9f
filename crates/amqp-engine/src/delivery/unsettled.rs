//! The deliveries of a session that were received and are not settled.
//!
//! Invariant: no two of them that belong to one link have the same tag.

use std::collections::VecDeque;

use amqp_codec::types::DeliveryTag;

use super::tags::{TagIndex, hash_tag};
use crate::ids::serial_distance;

/// Deliveries in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    entries: VecDeque<Entry>,
    tags: TagIndex,
    /// Entries that are not settled; the others wait for those before them.
    open: usize,
    /// The highest id seen, settled or not.
    last: Option<u32>,
}

#[derive(Debug)]
struct Entry {
    id: u32,
    /// Our handle of its link, or [`SETTLED`].
    link: u32,
    /// Hash of link and tag.
    hash: u32,
    tag: DeliveryTag,
}

/// No handle has this number: handles are limited far below it.
const SETTLED: u32 = u32::MAX;

/// Room for this many deliveries is kept when all are settled.
const KEEP_ENTRIES: usize = 1_024;

/// Why a delivery cannot be received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UnsettledError {
    /// Its id does not come after the one before it.
    IdNotNext {
        /// The id of the delivery before it.
        last: u32,
    },
    /// Another unsettled delivery of the link has this tag.
    DuplicateTag,
}

impl Unsettled {
    /// Notes the id of a new delivery: ids only go up.
    #[inline]
    pub(crate) fn note_id(&mut self, id: u32) -> Result<(), UnsettledError> {
        match self.last {
            Some(last) if serial_distance(last, id) <= 0 => Err(UnsettledError::IdNotNext { last }),
            _ => {
                self.last = Some(id);
                Ok(())
            }
        }
    }

    /// Keeps a delivery, whose id was noted last, until it is settled.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        seed: u64,
        link: u32,
        id: u32,
        tag: DeliveryTag,
    ) -> Result<(), UnsettledError> {
        if let Some(front) = self.entries.front()
            && serial_distance(front.id, id) <= 0
        {
            // A delivery is still unsettled after 2^31 others: ids no longer tell their order.
            return Err(UnsettledError::IdNotNext { last: front.id });
        }
        let hash = hash_tag(seed, link, &tag);
        if self.tags.find(hash).any(|other| self.matches(other, link, &tag)) {
            return Err(UnsettledError::DuplicateTag);
        }
        self.tags.insert(hash, id);
        self.entries.push_back(Entry { id, link, hash, tag });
        self.open += 1;
        Ok(())
    }

    /// Settles a delivery; gives its link, or nothing when it is unknown or already settled.
    #[inline]
    pub(crate) fn settle(&mut self, id: u32) -> Option<u32> {
        let at = self.position(id)?;
        let entry = self.entries.get_mut(at)?;
        if entry.link == SETTLED {
            return None;
        }
        let link = std::mem::replace(&mut entry.link, SETTLED);
        let hash = entry.hash;
        self.tags.remove(hash, id);
        self.open -= 1;
        if at == 0 {
            self.drop_settled_front();
        } else if self.entries.len() > KEEP_ENTRIES + 2 * self.open {
            // One delivery that stays unsettled must not keep all that came after it.
            self.entries.retain(|entry| entry.link != SETTLED);
        }
        Some(link)
    }

    /// The link of an unsettled delivery.
    pub(crate) fn link_of(&self, id: u32) -> Option<u32> {
        let entry = self.entries.get(self.position(id)?)?;
        (entry.link != SETTLED).then_some(entry.link)
    }

    /// The unsettled deliveries from `first` to `last`. Costs what is kept between the two,
    /// whatever the width of the range.
    pub(crate) fn range(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let start = self.entries.partition_point(|entry| serial_distance(first, entry.id) < 0);
        self.entries
            .iter()
            .skip(start)
            .take_while(move |entry| serial_distance(entry.id, last) >= 0)
            .filter(|entry| entry.link != SETTLED)
            .map(|entry| entry.id)
    }

    /// Forgets the deliveries of a link.
    pub(crate) fn forget_link(&mut self, link: u32) {
        let ids: Vec<u32> = self.entries.iter().filter(|e| e.link == link).map(|e| e.id).collect();
        for id in ids {
            self.settle(id);
        }
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.tags.shrink();
    }

    /// How many deliveries are unsettled.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    fn matches(&self, id: u32, link: u32, tag: &DeliveryTag) -> bool {
        self.position(id)
            .and_then(|at| self.entries.get(at))
            .is_some_and(|entry| entry.link == link && entry.tag == *tag)
    }

    /// Ids nearly always run without gaps, so the distance to the front is the position.
    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        let front = self.entries.front()?.id;
        let guess = usize::try_from(serial_distance(front, id)).ok()?;
        if self.entries.get(guess).is_some_and(|entry| entry.id == id) {
            return Some(guess);
        }
        self.entries.binary_search_by(|entry| serial_distance(id, entry.id).cmp(&0)).ok()
    }

    #[inline]
    fn drop_settled_front(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.link == SETTLED) {
            self.entries.pop_front();
        }
        if self.entries.is_empty() && self.entries.capacity() > KEEP_ENTRIES {
            self.entries = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
