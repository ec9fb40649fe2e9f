//! The deliveries of a session that were received and are not settled.
//!
//! Invariant: each has an id of its own here, which goes up, whatever ids the peer gives out; where the peer is held to
//! the specification, no two of one link have the same tag.

use std::collections::VecDeque;

use amqp_codec::types::DeliveryTag;

use super::tags::{TagIndex, hash_tag};
use crate::ids::serial_distance;

/// Deliveries in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    entries: VecDeque<Entry>,
    /// Only where the peer is held to the specification; else nobody looks for a tag.
    tags: TagIndex,
    /// Entries that are not settled; the others wait for those before them.
    open: usize,
    /// The highest id seen, settled or not.
    last: Option<u32>,
    /// Some that are kept may have another id here than on the wire.
    renamed: bool,
}

#[derive(Debug)]
struct Entry {
    id: u32,
    /// Its id for the peer.
    wire: u32,
    /// Our handle of its link, with [`SETTLED_BY_PEER`] where that applies; or [`SETTLED`].
    link: u32,
    /// Hash of link and tag, by which the index has it.
    hash: u32,
    tag: DeliveryTag,
}

/// No handle has this number: handles are limited far below it.
const SETTLED: u32 = u32::MAX;
/// The peer settles the delivery, once it is told the outcome. A bit above those of handles, because a field of its own would
/// make each entry eight bytes larger.
const SETTLED_BY_PEER: u32 = 1 << 31;

impl Entry {
    const fn is_settled(&self) -> bool {
        self.link == SETTLED
    }

    /// Our handle of its link; `None` once it is settled.
    const fn handle(&self) -> Option<u32> {
        if self.is_settled() { None } else { Some(self.link & !SETTLED_BY_PEER) }
    }
}

/// Room for this many deliveries is kept when all are settled.
const KEEP_ENTRIES: usize = 1_024;

/// Reason why a delivery cannot be received.
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
    /// Notes the peer's id of a new delivery and says its id here. Ids only go up. One that does not is refused when
    /// `strict`; else the delivery has the next id here, and its own for the peer.
    #[inline]
    pub(crate) fn note_id(&mut self, wire: u32, strict: bool) -> Result<u32, UnsettledError> {
        let id = match self.last {
            Some(last) if serial_distance(last, wire) <= 0 => {
                if strict {
                    return Err(UnsettledError::IdNotNext { last });
                }
                self.renamed = true;
                last.wrapping_add(1)
            }
            _ => wire,
        };
        self.last = Some(id);
        Ok(id)
    }

    /// Keeps a delivery, whose id was noted last, until it is settled. A tag that is in use is refused when `strict`.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        seed: u64,
        link: u32,
        (id, wire): (u32, u32),
        tag: DeliveryTag,
        strict: bool,
    ) -> Result<(), UnsettledError> {
        if let Some(front) = self.entries.front()
            && serial_distance(front.id, id) <= 0
        {
            // A delivery is still unsettled after 2^31 others: ids no longer tell their order.
            return Err(UnsettledError::IdNotNext { last: front.id });
        }
        let mut hash = 0;
        if strict {
            hash = hash_tag(seed, link, &tag);
            if self.tags.find(hash).any(|other| self.matches(other, link, &tag)) {
                return Err(UnsettledError::DuplicateTag);
            }
            self.tags.insert(hash, id);
        }
        self.entries.push_back(Entry { id, wire, link, hash, tag });
        self.open += 1;
        Ok(())
    }

    /// Settles a delivery; gives its link and its id for the peer, or nothing when it is unknown or already settled.
    #[inline]
    pub(crate) fn settle(&mut self, id: u32) -> Option<(u32, u32)> {
        let at = self.position(id)?;
        let entry = self.entries.get_mut(at)?;
        let link = entry.handle()?;
        entry.link = SETTLED;
        let (hash, wire) = (entry.hash, entry.wire);
        self.tags.remove(hash, id);
        self.open -= 1;
        if at == 0 {
            self.drop_settled_front();
        } else if self.entries.len() > KEEP_ENTRIES + 2 * self.open {
            // One delivery that stays unsettled must not keep all that came after it.
            self.entries.retain(|entry| !entry.is_settled());
        }
        Some((link, wire))
    }

    /// The id of an unsettled delivery for the peer.
    pub(crate) fn wire_of(&self, id: u32) -> Option<u32> {
        let entry = self.entries.get(self.position(id)?)?;
        (!entry.is_settled()).then_some(entry.wire)
    }

    /// The peer settles this delivery, which was inserted last, once it is told the outcome (rcv-settle-mode second).
    pub(crate) fn leave_to_peer(&mut self, id: u32) {
        if let Some(entry) = self.entries.back_mut().filter(|entry| entry.id == id && !entry.is_settled()) {
            entry.link |= SETTLED_BY_PEER;
        }
    }

    /// Whether an unsettled delivery is left to the peer to settle.
    #[inline]
    pub(crate) fn is_left_to_peer(&self, id: u32) -> bool {
        let entry = self.position(id).and_then(|at| self.entries.get(at));
        entry.is_some_and(|entry| !entry.is_settled() && entry.link & SETTLED_BY_PEER != 0)
    }

    /// Our handle of the link that an unsettled delivery came on.
    pub(crate) fn link_of(&self, id: u32) -> Option<u32> {
        let entry = self.entries.get(self.position(id)?)?;
        entry.handle()
    }

    /// The unsettled deliveries that the peer calls `first` to `last`. Costs what is kept between the two,
    /// whatever the width of the range; all that is kept where the peer's ids do not go up.
    pub(crate) fn range(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let renamed = self.renamed;
        let start = self.entries.partition_point(|entry| !renamed && serial_distance(first, entry.id) < 0);
        let within = move |id| serial_distance(first, id) >= 0 && serial_distance(id, last) >= 0;
        self.entries
            .iter()
            .skip(start)
            .take_while(move |entry| renamed || serial_distance(entry.id, last) >= 0)
            .filter(move |entry| !entry.is_settled() && (!renamed || within(entry.wire)))
            .map(|entry| entry.id)
    }

    /// Forgets the deliveries of a link.
    pub(crate) fn forget_link(&mut self, link: u32) {
        let ids: Vec<u32> = self.entries.iter().filter(|e| e.handle() == Some(link)).map(|e| e.id).collect();
        for id in ids {
            self.settle(id);
        }
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.tags.shrink();
    }

    /// Number of unsettled deliveries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    fn matches(&self, id: u32, link: u32, tag: &DeliveryTag) -> bool {
        self.position(id)
            .and_then(|at| self.entries.get(at))
            .is_some_and(|entry| entry.handle() == Some(link) && entry.tag == *tag)
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
        while self.entries.front().is_some_and(Entry::is_settled) {
            self.entries.pop_front();
        }
        self.renamed &= !self.entries.is_empty();
        if self.entries.is_empty() && self.entries.capacity() > KEEP_ENTRIES {
            self.entries = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
