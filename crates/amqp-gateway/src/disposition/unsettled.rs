//! Unsettled deliveries of one session, by delivery-id.
//!
//! Delivery-ids count up by one, so a ring indexed by id finds a delivery without hashing. Where a few old
//! deliveries stay open while many newer ones come and go, the old ones move to a tree, so that memory follows
//! the number of open deliveries and not the distance between them.
//!
//! Invariant: an entry is found by its id until it is taken, exactly once; memory is within a constant factor
//! of the entries held.

use std::collections::{BTreeMap, VecDeque};

use broker_core::{LinkId, LockId, QueueId, SequenceNumber};

use crate::disposition::given_up::GivenUp;

/// Message and lock behind one unsettled delivery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct UnsettledDelivery {
    /// The link it went out on.
    pub(crate) consumer: LinkId,
    /// The store it came from.
    pub(crate) queue: QueueId,
    pub(crate) sequence: SequenceNumber,
    /// Its lock; `None` for a copy that a browser was shown.
    pub(crate) lock: Option<LockId>,
    /// When it was delivered, in seconds since 1970 by the broker's time: enough to find a client that hangs.
    pub(crate) since_seconds: u32,
}

/// Unvisited rest of a range of delivery-ids, in serial number arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryIdRange {
    next: Option<u32>,
    last: u32,
}

impl DeliveryIdRange {
    /// The ids `first..=last`, across the wrap if need be.
    pub(crate) const fn new(first: u32, last: u32) -> Self {
        Self { next: Some(first), last }
    }
}

/// The unsettled deliveries of one session, by delivery-id.
#[derive(Debug, Default)]
pub(crate) struct UnsettledDeliveries {
    /// The delivery-id of the first place of `ring`.
    base: u32,
    /// Places for consecutive ids; the first is full.
    ring: VecDeque<Option<UnsettledDelivery>>,
    /// Entries older than the ring.
    old: BTreeMap<u32, UnsettledDelivery>,
    /// Number of occupied entries of the ring.
    ring_held: usize,
    /// The ids of each link, while links leave deliveries behind.
    by_link: Option<Box<ByLink>>,
    /// Deliveries that links took with them, or that have lost their locks.
    given_up: GivenUp,
    /// Places that were looked at for that.
    #[cfg(test)]
    looked_at: usize,
}

/// Which deliveries are whose. Made in one walk when the first link leaves some behind, and given up once as many
/// deliveries were noted as the walk took: so they pay for the next one, and a link that leaves costs what it leaves.
/// It may name deliveries that are taken.
#[derive(Debug)]
struct ByLink {
    ids: BTreeMap<LinkId, Vec<u32>>,
    /// Number of further deliveries that may be listed.
    left: usize,
}

/// Below this many places the ring is not worth thinning out.
const RING_SMALL: usize = 1024;
/// A ring with fewer than one full place in this many is thinned out.
const RING_SPARSE: usize = 4;

impl UnsettledDeliveries {
    /// Number of unsettled deliveries.
    pub(crate) fn len(&self) -> usize {
        self.ring_held + self.old.len()
    }

    /// Remembers a delivery. Ids come in ascending order; one that is skipped was sent settled.
    pub(crate) fn insert(&mut self, id: u32, entry: UnsettledDelivery) {
        // After 2^32 deliveries an id comes round again; whoever still held it has lost the right to answer.
        self.old.remove(&id);
        if self.ring.is_empty() {
            self.base = id;
        }
        let mut place = id.wrapping_sub(self.base) as usize;
        if place < self.ring.len() || place > self.ring.len() + RING_SMALL {
            // Not the next id: a run of pre-settled deliveries lies between. Start the ring anew here.
            self.retire_ring();
            self.base = id;
            place = 0;
        }
        while self.ring.len() < place {
            self.ring.push_back(None);
        }
        self.ring.push_back(Some(entry));
        self.ring_held += 1;
        if self.by_link.is_some() {
            self.note(id, entry.consumer);
        }
        self.thin_out();
    }

    fn note(&mut self, id: u32, consumer: LinkId) {
        match self.by_link.take() {
            Some(mut by_link) if by_link.left > 0 => {
                by_link.left -= 1;
                by_link.ids.entry(consumer).or_default().push(id);
                self.by_link = Some(by_link);
            }
            _ => {}
        }
    }

    /// Forgets a delivery and says what was behind it.
    pub(crate) fn take(&mut self, id: u32) -> Option<UnsettledDelivery> {
        let place = id.wrapping_sub(self.base) as usize;
        match self.ring.get_mut(place) {
            Some(entry) => {
                let entry = entry.take()?;
                self.ring_held -= 1;
                self.trim();
                Some(entry)
            }
            None => self.old.remove(&id),
        }
    }

    /// The oldest open delivery.
    pub(crate) fn oldest(&self) -> Option<u32> {
        // Ids of the tree are older than the ring's first; those above it came before the wrap.
        let wrapped = self.old.range(self.base..).next();
        let old = wrapped.or_else(|| self.old.first_key_value()).map(|(id, _)| *id);
        old.or_else(|| (self.ring_held > 0).then_some(self.base))
    }

    /// When the oldest open delivery went out, in seconds since 1970.
    pub(crate) fn oldest_since(&self) -> Option<u32> {
        self.get(self.oldest()?).map(|entry| entry.since_seconds)
    }

    /// Takes the first open delivery of a range and moves the range past it. A whole range costs what is open
    /// plus the ring's empty places, whatever its ends are.
    pub(crate) fn take_next(&mut self, range: &mut DeliveryIdRange) -> Option<(u32, UnsettledDelivery)> {
        let id = self.step(range)?;
        self.take(id).map(|entry| (id, entry))
    }

    /// The same, and leaves the delivery open.
    pub(crate) fn next(&self, range: &mut DeliveryIdRange) -> Option<(u32, UnsettledDelivery)> {
        let id = self.step(range)?;
        self.get(id).map(|entry| (id, *entry))
    }

    fn step(&self, range: &mut DeliveryIdRange) -> Option<u32> {
        let next = range.next?;
        let found = self.oldest_in(next, range.last).or_else(|| self.first_in_ring(next, range.last));
        let Some(id) = found else {
            range.next = None;
            return None;
        };
        range.next = (id != range.last).then(|| id.wrapping_add(1));
        Some(id)
    }

    /// A delivery that is not open any more was refused its settlement: a transaction that has another is not done.
    pub(crate) fn give_up(&mut self, id: u32) {
        self.given_up.add(id);
    }

    /// Whether a delivery of `first..=last` was open when its link was forgotten, or was refused its settlement.
    /// A single one that is open is neither.
    pub(crate) fn gave_up(&self, first: u32, last: u32) -> bool {
        self.given_up.meets(first, last) && (first != last || self.get(first).is_none())
    }

    /// The first id of the tree in the serial range.
    fn oldest_in(&self, first: u32, last: u32) -> Option<u32> {
        if self.old.is_empty() {
            return None;
        }
        let first_between = |from: u32, to: u32| self.old.range(from..=to).next().map(|(id, _)| *id);
        if first <= last {
            first_between(first, last)
        } else {
            first_between(first, u32::MAX).or_else(|| first_between(0, last))
        }
    }

    /// The first full place of the ring in the serial range.
    fn first_in_ring(&self, first: u32, last: u32) -> Option<u32> {
        let length = u32::try_from(self.ring.len()).ok()?;
        let (start, span) = (first.wrapping_sub(self.base), last.wrapping_sub(first));
        let (from, to) = if start < length {
            (start, start.saturating_add(span))
        } else {
            // The range begins before the ring and may still reach into it; else it overflows nothing.
            (0, start.checked_add(span).map_or_else(|| start.wrapping_add(span), |_| u32::MAX))
        };
        if start >= length && to == u32::MAX {
            return None;
        }
        let to = to.min(length.checked_sub(1)?);
        let mut places = self.ring.range(from as usize..=to as usize);
        let offset = places.position(Option::is_some)?;
        Some(self.base.wrapping_add(from).wrapping_add(u32::try_from(offset).ok()?))
    }

    /// Forgets all deliveries of one link, which gets no more.
    pub(crate) fn forget(&mut self, consumer: LinkId) {
        let mut by_link = self.by_link.take().unwrap_or_else(|| Box::new(self.list_links()));
        for id in by_link.ids.remove(&consumer).unwrap_or_default() {
            #[cfg(test)]
            {
                self.looked_at += 1;
            }
            // An id that has come round again may be another link's.
            if self.get(id).is_some_and(|entry| entry.consumer == consumer) {
                self.take(id);
                self.given_up.add(id);
            }
        }
        self.by_link = Some(by_link).filter(|by_link| !by_link.ids.is_empty());
    }

    /// The open deliveries of all links, in one walk.
    fn list_links(&mut self) -> ByLink {
        let mut ids: BTreeMap<LinkId, Vec<u32>> = BTreeMap::new();
        let in_ring = (0u32..)
            .zip(&self.ring)
            .filter_map(|(place, entry)| Some((self.base.wrapping_add(place), entry.as_ref()?.consumer)));
        for (id, consumer) in self.old.iter().map(|(id, entry)| (*id, entry.consumer)).chain(in_ring) {
            ids.entry(consumer).or_default().push(id);
        }
        let walk = self.old.len() + self.ring.len();
        #[cfg(test)]
        {
            self.looked_at += walk;
        }
        ByLink { ids, left: walk + RING_SMALL }
    }

    /// Message and lock of a delivery.
    pub(crate) fn get(&self, id: u32) -> Option<&UnsettledDelivery> {
        match self.ring.get(id.wrapping_sub(self.base) as usize) {
            Some(entry) => entry.as_ref(),
            None => self.old.get(&id),
        }
    }

    /// Drops empty places at both ends, and the ring's memory with its last entry when it was large.
    fn trim(&mut self) {
        if self.ring_held == 0 {
            self.ring.clear();
            if self.ring.capacity() > RING_SMALL {
                self.ring = VecDeque::new();
            }
            return;
        }
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base = self.base.wrapping_add(1);
        }
        self.thin_out();
    }

    /// Moves the oldest entries to the tree while the ring is mostly empty.
    fn thin_out(&mut self) {
        while self.ring.len() > RING_SMALL && self.ring.len() / RING_SPARSE > self.ring_held {
            if let Some(Some(entry)) = self.ring.pop_front() {
                self.old.insert(self.base, entry);
                self.ring_held -= 1;
            }
            self.base = self.base.wrapping_add(1);
        }
    }

    /// Moves everything to the tree.
    fn retire_ring(&mut self) {
        for (place, entry) in (0u32..).zip(self.ring.drain(..)) {
            if let Some(entry) = entry {
                self.old.insert(self.base.wrapping_add(place), entry);
            }
        }
        self.ring_held = 0;
    }
}

#[cfg(test)]
mod tests;
