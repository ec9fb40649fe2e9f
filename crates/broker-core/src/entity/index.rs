//! Entities by kind and in order of name, each found by its place among them.
//!
//! Invariant: every entity that has a name is in the list of its kind, but for dynamic nodes, and a subscription in that of its
//! topic; one that Service Bus can spell is in a second list of such entities alone. What a place costs to find grows with the number of
//! pieces, not of entities.

use super::{dynamic::is_dynamic_name, name};
use crate::{EntityKind, NameScope, PageStart, QueueId, id_map::IdMap, record::Definition};

/// Entities in one piece; a piece that grows beyond is split.
const PIECE_MAX: usize = 512;

/// The lists of all kinds.
#[derive(Debug, Default)]
pub(crate) struct EntityIndex {
    queues: OfKind,
    topics: OfKind,
    /// By topic; none is empty.
    subscriptions: IdMap<QueueId, Ordered>,
}

/// The queues, or the topics.
#[derive(Debug, Default)]
struct OfKind {
    all: Ordered,
    /// Those that Service Bus can spell. A list of its own, so that a place in it is found without a look at the others.
    service_bus: Ordered,
}

impl OfKind {
    fn insert(&mut self, name: &str, queue: QueueId) {
        if name::is_service_bus_name(name) {
            self.service_bus.insert(name::key(name), queue);
        }
        self.all.insert(name::key(name), queue);
    }

    fn remove(&mut self, key: &str) {
        self.service_bus.remove(key);
        self.all.remove(key);
    }

    const fn in_scope(&self, names: NameScope) -> &Ordered {
        match names {
            NameScope::ServiceBus => &self.service_bus,
            NameScope::All => &self.all,
        }
    }
}

impl EntityIndex {
    /// Takes in an entity, or finds it there. Dynamic nodes are left out: they are not administered.
    pub(crate) fn enter(&mut self, definition: &Definition) {
        let (name, queue) = (&definition.name, definition.stores.queue);
        match (definition.kind, definition.topic) {
            (EntityKind::Queue | EntityKind::Topic, _) if is_dynamic_name(name) => {}
            (EntityKind::Queue, _) => self.queues.insert(name, queue),
            (EntityKind::Topic, _) => self.topics.insert(name, queue),
            (EntityKind::Subscription, Some(topic)) => {
                self.subscriptions.entry(topic).or_default().insert(name::key(name), queue);
            }
            (EntityKind::Subscription, None) => {}
        }
    }

    /// Leaves an entity out.
    pub(crate) fn leave(&mut self, kind: EntityKind, topic: Option<QueueId>, name: &str) {
        let key = name::key(name);
        match kind {
            EntityKind::Queue => self.queues.remove(&key),
            EntityKind::Topic => self.topics.remove(&key),
            EntityKind::Subscription => {
                let Some(topic) = topic else { return };
                let Some(list) = self.subscriptions.get_mut(&topic) else { return };
                list.remove(&key);
                if list.len == 0 {
                    self.subscriptions.remove(&topic);
                }
            }
        }
    }

    /// The queues, or the topics, whose names are in the scope.
    pub(crate) fn of_kind(&self, kind: EntityKind, names: NameScope) -> Option<&Ordered> {
        match kind {
            EntityKind::Queue => Some(self.queues.in_scope(names)),
            EntityKind::Topic => Some(self.topics.in_scope(names)),
            EntityKind::Subscription => None,
        }
    }

    /// The subscriptions of a topic; `None`: it has none.
    pub(crate) fn of_topic(&self, topic: QueueId) -> Option<&Ordered> {
        self.subscriptions.get(&topic)
    }
}

/// Entities in order of the keys of their names.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    /// None is empty.
    pieces: Vec<Vec<(Box<str>, QueueId)>>,
    len: usize,
}

impl Ordered {
    /// Number of entities in the list.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Those from a place on.
    pub(crate) fn from(&self, start: &PageStart) -> impl Iterator<Item = QueueId> {
        let (piece, place) = match start {
            PageStart::Skip(count) => self.skip(usize::try_from(*count).unwrap_or(usize::MAX)),
            PageStart::Behind(name) => self.behind(&name::key(name)),
        };
        let rest = self.pieces.get(piece..).unwrap_or_default();
        let first = rest.first().and_then(|first| first.get(place..)).unwrap_or_default();
        let others = rest.iter().skip(1).flatten();
        first.iter().chain(others).map(|(_, queue)| *queue)
    }

    fn insert(&mut self, key: Box<str>, queue: QueueId) {
        let piece = self.piece_of(&key);
        let Some(entries) = self.pieces.get_mut(piece) else {
            self.pieces.push(vec![(key, queue)]);
            self.len += 1;
            return;
        };
        match entries.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => {
                if let Some(entry) = entries.get_mut(place) {
                    entry.1 = queue;
                }
                return;
            }
            Err(place) => entries.insert(place, (key, queue)),
        }
        self.len += 1;
        if entries.len() > PIECE_MAX {
            let half = entries.split_off(PIECE_MAX / 2);
            self.pieces.insert(piece + 1, half);
        }
    }

    fn remove(&mut self, key: &str) {
        let piece = self.piece_of(key);
        let Some(entries) = self.pieces.get_mut(piece) else { return };
        let Ok(place) = entries.binary_search_by(|(other, _)| (**other).cmp(key)) else { return };
        entries.remove(place);
        self.len -= 1;
        if entries.is_empty() {
            self.pieces.remove(piece);
        }
    }

    /// The piece that has this key or would have it; the first where there is none.
    fn piece_of(&self, key: &str) -> usize {
        let begins_before =
            |piece: &Vec<(Box<str>, QueueId)>| piece.first().is_some_and(|(first, _)| **first <= *key);
        self.pieces.partition_point(begins_before).saturating_sub(1)
    }

    /// Piece and place of the one with so many in front.
    fn skip(&self, mut count: usize) -> (usize, usize) {
        for (number, piece) in self.pieces.iter().enumerate() {
            match count.checked_sub(piece.len()) {
                None => return (number, count),
                Some(rest) => count = rest,
            }
        }
        (self.pieces.len(), 0)
    }

    /// Piece and place of the first with a later key.
    fn behind(&self, key: &str) -> (usize, usize) {
        let piece = self.piece_of(key);
        let place =
            self.pieces.get(piece).map(|entries| entries.partition_point(|(other, _)| **other <= *key));
        (piece, place.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
