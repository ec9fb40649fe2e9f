//! Partitions, as the numbers of messages tell them.
//!
//! Invariant: a number says to which partition of its entity it belongs, and messages of one key belong to one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Id, Model, Place, Seen, Session, Shelf, broken};

/// Bits of a number below those of its partition (SEQ-2).
const COUNT_BITS: u32 = 48;
/// How many partitions there are; they are counted from 1.
const PARTITIONS: u64 = 16;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// The places that have some.
    places: BTreeSet<Place>,
    /// To which one a key belongs at a place, for as long as the place is called so.
    of_keys: BTreeMap<(Place, Session), u64>,
}

impl Model {
    /// The same model, knowing which places have partitions.
    pub(crate) fn with_partitions(mut self, places: BTreeSet<Place>) -> Self {
        self.partitions.places = places;
        self
    }

    /// A message has this key, at all of its places.
    pub(crate) fn keyed(&mut self, id: Id, key: Session) {
        for (_, message) in self.messages.range_mut((id, Place::MIN)..=(id, Place::MAX)) {
            message.key = Some(key);
        }
    }

    /// Whether the number of a message is one of its partition.
    pub(super) fn check_partition(&mut self, seen: &Seen) -> Result<(), Broken> {
        let partition = seen.sequence >> COUNT_BITS;
        let (whose, place) = seen.shelf.numbers(seen.place);
        if whose != Shelf::Own || !self.partitions.places.contains(&place) {
            return match partition {
                0 => Ok(()),
                _ => broken(seen.id, "a number has a partition only where there are some", seen),
            };
        }
        if !(1..=PARTITIONS).contains(&partition) {
            return broken(seen.id, "a number says its partition", seen);
        }
        self.count("numbers of partitions");
        let message = self.messages.get(&(seen.id, seen.place));
        let Some(key) = message.and_then(|message| message.key) else { return Ok(()) };
        let known = *self.partitions.of_keys.entry((place, key)).or_insert(partition);
        if known == partition { Ok(()) } else { broken(seen.id, "one key, one partition", &(seen, known)) }
    }
}
