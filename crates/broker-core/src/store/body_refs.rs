//! References of copies to the bodies that they share with the other copies of a topic's message.
//!
//! Invariant: all copies of a store are of one topic. A body is there as long as a copy refers to it, and its slot
//! counts the references.

use super::slots::Slots;
use crate::{QueueId, record::BodyRef};

/// References of the copies in a store. Nothing is allocated before the first copy, for most stores have none.
#[derive(Debug, Default)]
pub(crate) struct BodyRefs(Option<Box<References>>);

#[derive(Debug)]
struct References {
    /// The main store of the topic, which holds the bodies.
    topic: QueueId,
    /// Number of the copy → number of its body.
    bodies: Slots<u64>,
}

impl BodyRefs {
    /// Notes the body of a copy.
    pub(crate) fn insert(&mut self, sequence: u64, body: BodyRef) {
        let new = || Box::new(References { topic: body.topic, bodies: Slots::default() });
        self.0.get_or_insert_with(new).bodies.insert(sequence, body.sequence);
    }

    /// Body of a copy; `None` for a message that is no copy.
    pub(crate) fn get(&self, sequence: u64) -> Option<BodyRef> {
        let references = self.0.as_ref()?;
        Some(BodyRef { topic: references.topic, sequence: *references.bodies.get(sequence)? })
    }

    /// Forgets a copy, and returns its body.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<BodyRef> {
        let references = self.0.as_mut()?;
        Some(BodyRef { topic: references.topic, sequence: references.bodies.remove(sequence)? })
    }

    /// The store that holds the bodies, once there was a copy.
    pub(crate) fn topic(&self) -> Option<QueueId> {
        self.0.as_ref().map(|references| references.topic)
    }

    /// The number of each copy, and that of its body.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().flat_map(|references| references.bodies.iter().map(|(copy, body)| (copy, *body)))
    }
}
