//! Snapshots of entities for administration and metrics.
//!
//! Invariant: a snapshot changes nothing.

use crate::{
    EntityKind, EntitySettings, KeyText, QueueId, Timestamp,
    messages::Messages,
    record::Stores,
    store::{Store, activity::Traffic, session_id::session_key, sessions::Session, slot::Slot},
};

/// One entity and its counts.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityView<'a> {
    pub queue: QueueId,
    pub dead_letter_queue: QueueId,
    /// The store of what it could not send on.
    pub transfer_dead_letter_queue: QueueId,
    pub kind: EntityKind,
    /// As first written.
    pub name: &'a str,
    pub settings: &'a EntitySettings,
    /// Messages in the retrieval order or locked.
    pub active: u64,
    /// Locked messages, deferred ones included. Locks whose end has not been handled yet count.
    pub locked: u64,
    /// Set aside.
    pub deferred: u64,
    /// Not due yet.
    pub scheduled: u64,
    /// In the dead-letter store.
    pub dead_letter: u64,
    /// In the store of what it could not send on.
    pub transfer_dead_letter: u64,
    /// Messages that cannot be read from storage and are hidden until the next start.
    pub damaged: u64,
    /// Stored bytes, dead letters included.
    pub bytes: u64,
    /// When the first of its messages was enqueued; where there are partitions, the first of one of them.
    pub oldest: Option<Timestamp>,
    /// When the oldest of the locks without a timer began, those of dead letters included; `None`: there is none.
    pub held_since: Option<Timestamp>,
    /// The number that the next message gets, where it has no key.
    pub next_sequence: u64,
    /// Producers and consumers, those of the dead-letter stores included.
    pub links: u64,
    /// Message ids that are remembered to detect duplicates.
    pub remembered_ids: u64,
    /// Totals of its messages.
    pub(crate) traffic: Traffic,
    /// Messages that arrived among the dead letters since the start.
    pub(crate) dead_lettered: u64,
    pub created_at: Timestamp,
    /// When its properties were last set.
    pub updated_at: Timestamp,
    /// Time of the last send, receive or peek; zero for never, as far as is known.
    pub accessed_at: Timestamp,
}

/// Shows what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminSnapshot<'a> {
    pub(crate) messages: &'a Messages,
}

impl<'a> AdminSnapshot<'a> {
    pub(crate) fn of(messages: &'a Messages) -> Self {
        Self { messages }
    }

    /// All entities in order of name.
    pub(crate) fn entities(self) -> impl Iterator<Item = EntityView<'a>> {
        self.messages.entities.names.values().filter_map(move |queue| self.view(*queue))
    }

    /// One entity by name.
    pub(crate) fn entity(self, name: &str) -> Option<EntityView<'a>> {
        self.view(*self.messages.entities.names.get(&crate::entity::name::key(name))?)
    }

    pub(crate) fn view(self, queue: QueueId) -> Option<EntityView<'a>> {
        let store = self.messages.store(queue)?;
        let definition = &store.entity()?.definition;
        let Stores { dead_letter, transfer_dead_letter, .. } = definition.stores;
        let dead_letters = self.messages.store(dead_letter)?;
        let transfers = self.messages.store(transfer_dead_letter)?;
        let all = [store, dead_letters, transfers];
        Some(EntityView {
            queue,
            dead_letter_queue: dead_letter,
            transfer_dead_letter_queue: transfer_dead_letter,
            kind: definition.kind,
            name: &definition.name,
            settings: &definition.settings,
            active: store.counts.active as u64,
            locked: store.counts.locked as u64,
            deferred: store.counts.deferred as u64,
            scheduled: store.counts.scheduled as u64,
            dead_letter: dead_letters.slots.len() as u64,
            transfer_dead_letter: transfers.slots.len() as u64,
            damaged: all.iter().map(|store| store.counts.damaged as u64).sum(),
            bytes: all.iter().map(|store| store.counts.bytes).sum(),
            oldest: store.oldest(),
            held_since: all.iter().filter_map(|store| store.oldest_untimed_lock()).min(),
            next_sequence: definition.next_number(),
            links: all.iter().map(|store| store.links.attached.len() as u64).sum(),
            remembered_ids: store.history.as_ref().map_or(0, |history| history.len() as u64),
            traffic: store.traffic,
            dead_lettered: dead_letters.traffic.incoming,
            created_at: definition.created_at,
            updated_at: definition.updated_at,
            accessed_at: self.messages.entities.accessed_at(definition),
        })
    }

    /// A number that two cores share if a restart could not tell them apart: the same queues with the same
    /// messages in the same states. Locks, links, credit and positions in the journal are left out.
    pub(crate) fn digest(self) -> u64 {
        let mut digest = Digest(0xCBF2_9CE4_8422_2325);
        for view in self.entities() {
            digest
                .text(&format!("{} {:?} {:?} {}", view.name, view.queue, view.settings, view.next_sequence));
            for rule in &view.settings.authorization {
                digest.text(rule.primary.reveal());
                digest.text(rule.secondary.as_ref().map_or("", KeyText::reveal));
            }
            let counters =
                self.messages.main_of(view.queue).and_then(|entity| entity.definition.partitions.as_ref());
            counters.iter().flat_map(|counters| counters.counts()).for_each(|count| digest.number(count));
            for id in [view.queue, view.dead_letter_queue, view.transfer_dead_letter_queue] {
                if let Some(store) = self.messages.store(id) {
                    digest.store(store);
                }
            }
        }
        for (key, kept) in self.messages.rules.all() {
            let topic = self.messages.main_of(key.subscription).and_then(|entity| entity.definition.topic);
            let filter = topic.and_then(|topic| self.messages.rules.filter(topic, key));
            let created_at = kept.created_at.as_millis();
            digest.text(&format!("{key:?} {} {filter:?} {:?} {created_at}", kept.name, kept.action));
        }
        digest.0
    }
}

/// FNV-1a.
struct Digest(u64);

impl Digest {
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
        self.byte(0xFF);
    }

    fn number(&mut self, number: u64) {
        number.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
    }

    fn store(&mut self, store: &Store) {
        self.number(u64::from(store.id.0));
        for (sequence, slot) in store.slots.iter() {
            self.slot(sequence, slot);
            if let Some(session) = store.session(slot.session()) {
                self.text(&session_key(session.id()));
            }
            self.number(store.body_refs.get(sequence).map_or(0, |body| body.sequence));
        }
        let mut sessions: Vec<&Session> =
            store.sessions.iter().flat_map(|sessions| sessions.iter()).collect();
        sessions.sort_by_cached_key(|session| session_key(session.id()));
        for session in sessions {
            if let Some(state) = session.state() {
                self.text(&session_key(session.id()));
                self.number(state.updated_at.as_millis());
                self.number(u64::from(state.length));
            }
        }
        for (number, at, ids) in store.history.iter().flat_map(|history| history.runs()) {
            self.number(number);
            self.number(at.as_millis());
            ids.for_each(|id| id.0.into_iter().for_each(|byte| self.byte(byte)));
        }
    }

    fn slot(&mut self, sequence: u64, slot: &Slot) {
        self.number(sequence);
        self.number(slot.enqueued_at().as_millis());
        self.number(slot.expires_at.as_millis());
        self.number(u64::from(slot.delivery_count));
        self.byte(slot.state as u8);
        self.number(u64::from(slot.references()));
    }
}
