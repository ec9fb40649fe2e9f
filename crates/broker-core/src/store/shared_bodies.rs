//! Bodies that the copies of a topic's message share.
//!
//! Invariant: a body is released with the last copy that refers to it.

use super::Store;
use crate::{Output, QueueId, id_map::IdMap};

/// A store to change, and with it the topic's store that holds the bodies of its copies, if it has copies.
pub(crate) fn with_bodies(
    stores: &mut IdMap<QueueId, Box<Store>>,
    queue: QueueId,
) -> Option<(&mut Store, Option<&mut Store>)> {
    let topic = stores.get(&queue)?.body_refs.topic();
    let Some(topic) = topic.filter(|topic| *topic != queue) else {
        return Some((stores.get_mut(&queue)?, None));
    };
    let [store, topic] = stores.get_disjoint_mut([&queue, &topic]);
    Some((store?, topic.map(|topic| &mut **topic)))
}

/// Counts one reference less of a body of this store, and removes it with the last. No record is needed, because replay
/// counts the references.
pub(crate) fn release_reference(bodies: &mut Store, sequence: u64, out: &mut impl Output) {
    if let Some(body) = bodies.count_reference(sequence, false) {
        out.release(body.position, body.length);
    }
}
