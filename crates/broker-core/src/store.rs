//! One message store: the messages of a queue, or its dead letters.
//!
//! Invariant: an unlocked active message that can be read is in the retrieval order exactly once; in a store with
//! sessions it is `Ready` in its session instead.

pub(crate) mod activity;
pub(crate) mod append_message;
mod body_refs;
mod counts;
pub(crate) mod deadlines;
pub(crate) mod history;
mod links;
pub(crate) mod load_message;
mod lock_owners;
mod locks;
mod order;
pub(crate) mod partition;
pub(crate) mod reads_in_vain;
mod replay;
pub(crate) mod selection;
pub(crate) mod session_id;
pub(crate) mod sessions;
pub(crate) mod shared_bodies;
pub(crate) mod slot;
pub(crate) mod slots;
mod timers;
mod visible;

pub(crate) use body_refs::BodyRefs;
pub(crate) use counts::Counts;
pub(crate) use links::StoreLinks;
pub(crate) use replay::ReplayedNumbers;
pub(crate) use timers::Timers;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    LockLifetime, Position, QueueId, Timestamp,
    record::{BodyRef, Definition},
};
use activity::Traffic;
use history::History;
use lock_owners::LockOwners;
use order::Order;
use partition::{PartitionId, SequenceCursor};
use reads_in_vain::ReadsInVain;
use selection::Selection;
use sessions::{Session, SessionMessageState, SessionNumber, SessionState, Sessions};
use slot::{ConsumerNumber, Slot, State};
use slots::Slots;
use visible::Visible;

/// Role of a store within its entity.
#[derive(Debug)]
pub(crate) enum Role {
    /// A queue's own messages; carries what concerns the whole entity.
    Main(Box<Entity>),
    /// The dead letters of another store.
    DeadLetter { of: QueueId },
    /// Messages that another store could not forward.
    TransferDeadLetter { of: QueueId },
    /// Seen in the journal, but the definition has not come yet. Only during replay.
    Unknown,
}

/// A queue, topic or subscription.
#[derive(Debug)]
pub(crate) struct Entity {
    pub(crate) definition: Definition,
    pub(crate) position: Position,
    pub(crate) length: u32,
    /// When something was last done to it that counts as use and is no access; zero before the first look.
    pub(crate) used_at: Timestamp,
}

/// Closed consumers, and whether their locks end as failed.
pub(crate) type Holders = BTreeMap<ConsumerNumber, bool>;

/// The messages of a queue, or its dead letters.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) id: QueueId,
    pub(crate) role: Role,
    pub(crate) lock_duration: Duration,
    /// Lifetime of locks that end with their links.
    pub(crate) lock_lifetime: LockLifetime,
    pub(crate) slots: Slots<Slot>,
    visible: Visible,
    pub(crate) body_refs: BodyRefs,
    pub(crate) counts: Counts,
    pub(crate) traffic: Traffic,
    /// The numbers that replay saw.
    pub(crate) replayed: ReplayedNumbers,
    order: Order,
    /// Numbers name a partition.
    pub(crate) has_partitions: bool,
    pub(crate) timers: Timers,
    lock_owners: LockOwners,
    /// Slots that were visited to find the locks of consumers.
    #[cfg(test)]
    pub(crate) slots_visited: usize,
    /// Key of the entity that gets every message of this store.
    pub(crate) forwards: Option<Box<str>>,
    /// Of an entity that detects duplicates.
    pub(crate) history: Option<Box<History>>,
    pub(crate) links: StoreLinks,
    /// Time of the last send, receive, peek, attach or detach of a receiver; zero for none since the start.
    pub(crate) touched_at: Timestamp,
    /// It is in the list of stores to deliver from, or to forward from.
    pub(crate) queued: bool,
    /// Reads for its deliveries, or for what it forwards.
    pub(crate) reads: ReadsInVain,
    /// Reads for its due work.
    pub(crate) due_reads: ReadsInVain,
    /// Its due work waits for the disk: until then it has no deadline.
    pub(crate) due_work_waits: bool,
    /// Its sessions, where the entity has them. There `Slot::holder` is the session's number, and the lock of a message
    /// lasts as long as that of its session.
    pub(crate) sessions: Option<Box<Sessions>>,
}

impl Store {
    pub(crate) fn new(id: QueueId, role: Role, lock_duration: Duration) -> Self {
        Self {
            id,
            role,
            lock_duration,
            lock_lifetime: LockLifetime::default(),
            slots: Slots::default(),
            visible: Visible::default(),
            body_refs: BodyRefs::default(),
            counts: Counts::default(),
            traffic: Traffic::default(),
            replayed: ReplayedNumbers::default(),
            order: Order::default(),
            has_partitions: false,
            timers: Timers::default(),
            lock_owners: LockOwners::default(),
            #[cfg(test)]
            slots_visited: 0,
            forwards: None,
            history: None,
            links: StoreLinks::default(),
            touched_at: Timestamp::default(),
            queued: false,
            reads: ReadsInVain::default(),
            due_reads: ReadsInVain::default(),
            due_work_waits: false,
            sessions: None,
        }
    }

    /// Puts a message in. Its number may lie anywhere. Inlined, so that the slot is written where it stays: one that
    /// was written in small pieces and is copied in large ones makes the processor wait until all it has written
    /// before, the record among it, is out.
    #[expect(clippy::inline_always, reason = "measured: 4 % of a broker's time were that wait")]
    #[inline(always)]
    pub(crate) fn insert(&mut self, sequence: u64, slot: Slot) {
        let replaced = self.slots.insert(sequence, slot);
        debug_assert!(replaced.is_none(), "a sequence number is used once");
        self.visible.note(sequence, slot.state, &self.slots);
        self.counts.add(&slot);
        self.remind(sequence, &slot);
        if slot.is_ready() {
            self.order.put(sequence);
            // Elsewhere what is new comes last.
            if self.is_dead_letter() {
                self.links.note_return(sequence);
            }
        }
        self.update_session_state(sequence);
    }

    /// Takes a message out, locked or not. Of a copy it says as well what it referred to: that has one reference
    /// less, which the caller counts.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<(Slot, Option<BodyRef>)> {
        let slot = self.slots.remove(sequence)?;
        self.counts.subtract(&slot);
        if slot.is_ready() {
            self.order.remove(sequence);
        }
        self.visible.remove(sequence);
        if let Some(sessions) = &mut self.sessions {
            sessions.remove(slot.session(), sequence);
        }
        Some((slot, self.body_refs.remove(sequence)))
    }

    /// The next message of the retrieval order. It stays there until it is taken.
    pub(crate) fn next_ready(&mut self) -> Option<u64> {
        self.order.next(&self.slots)
    }

    /// Takes a message from the retrieval order; it stays in the store.
    pub(crate) fn take(&mut self, sequence: u64) {
        self.order.take(sequence);
    }

    /// When the first of its messages was enqueued, or the earliest first one of its partitions.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let at = |sequence| self.slots.get(sequence).map(Slot::enqueued_at);
        if !self.has_partitions {
            return at(self.slots.next(0)?);
        }
        let starts = PartitionId::all().map(PartitionId::first_number).chain([0]);
        let firsts = starts.filter_map(|start| self.slots.next_before(start, PartitionId::end_of(start)));
        firsts.filter_map(at).min()
    }

    /// The next message for a consumer that visits each one once.
    pub(crate) fn next_to_show(&self, visible: &SequenceCursor) -> Option<u64> {
        visible.next(self.has_partitions, |from, end| self.slots.next_before(from, end))
    }

    /// The entity has partitions, and its numbers name them. Call it before the first message is stored.
    pub(crate) fn set_partitions(&mut self) {
        self.has_partitions = true;
        // The messages of sessions have an order of their own.
        if self.sessions.is_none() {
            self.order.set_partitions();
        }
    }

    /// Takes a message out of the order of its session, for its time is over.
    pub(crate) fn mark_unavailable(&mut self, sequence: u64) {
        if let (Some(sessions), Some(slot)) = (&mut self.sessions, self.slots.get(sequence)) {
            sessions.set_message_state(slot.session(), sequence, SessionMessageState::Unavailable);
        }
    }

    /// A session.
    pub(crate) fn session(&self, number: SessionNumber) -> Option<&Session> {
        self.sessions.as_ref()?.get(number)
    }

    /// The lowest number at or after `from`, among all messages that can be shown or those of one session.
    pub(crate) fn next_of_session(&self, session: Option<&str>, from: u64) -> Option<u64> {
        let Some(id) = session else { return self.visible.next(from, &self.slots) };
        let sessions = self.sessions.as_ref()?;
        sessions.get(sessions.find(id)?)?.next(from)
    }

    /// Sets or clears the state of a session; returns the one that it had.
    pub(crate) fn set_session_state(
        &mut self,
        number: SessionNumber,
        state: Option<SessionState>,
    ) -> Option<SessionState> {
        let sessions = self.sessions.as_mut()?;
        self.counts.bytes -= sessions.state_bytes;
        let before = sessions.set_state(number, state);
        self.counts.bytes += sessions.state_bytes;
        before
    }

    /// Puts a message where it belongs in its session.
    pub(crate) fn update_session_state(&mut self, sequence: u64) {
        let Some(sessions) = &mut self.sessions else { return };
        let Some(slot) = self.slots.get(sequence) else { return };
        let state = if slot.is_locked() {
            SessionMessageState::Delivered
        } else if slot.is_ready() {
            SessionMessageState::Ready
        } else {
            SessionMessageState::Unavailable
        };
        sessions.set_message_state(slot.session(), sequence, state);
    }

    /// Puts an unlocked message back to its place in the retrieval order.
    pub(crate) fn put_back(&mut self, sequence: u64) {
        if self.slots.get(sequence).is_some_and(Slot::is_ready) {
            self.order.put(sequence);
            self.links.note_return(sequence);
        }
        self.update_session_state(sequence);
    }

    /// Sets a message's state, which moves it from one count to another.
    pub(crate) fn set_state(&mut self, sequence: u64, state: State) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        let before = *slot;
        slot.state = state;
        let after = *slot;
        self.counts.subtract(&before);
        self.counts.add(&after);
        self.update_session_state(sequence);
    }

    /// Says that a message lies somewhere else now.
    pub(crate) fn set_position(&mut self, sequence: u64, position: Position, length: u32) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        self.counts.bytes = self.counts.bytes - u64::from(slot.length) + u64::from(length);
        slot.position = position;
        slot.length = length;
    }

    /// Hides a message that cannot be read; it is out of the retrieval order until the next start.
    pub(crate) fn set_damaged(&mut self, sequence: u64) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        let (was_ready, was_damaged) = (slot.is_ready(), slot.is_damaged());
        slot.set_damaged();
        self.counts.damaged += usize::from(!was_damaged);
        if was_ready {
            self.order.remove(sequence);
        }
        self.update_session_state(sequence);
    }

    /// The sessions, made if there were none; `seed` as for [`Sessions::new`].
    pub(crate) fn sessions(&mut self, seed: u64) -> &mut Sessions {
        self.sessions.get_or_insert_with(|| Box::new(Sessions::new(seed)))
    }

    /// The ids that the entity has seen; `seed` as for [`History::new`].
    pub(crate) fn history(&mut self, seed: u64) -> &mut History {
        self.history.get_or_insert_with(|| Box::new(History::new(seed)))
    }

    /// The entity, for a main store.
    pub(crate) fn entity(&self) -> Option<&Entity> {
        if let Role::Main(entity) = &self.role { Some(entity) } else { None }
    }

    /// Whether this is one of the two dead-letter stores: no limit of deliveries and no expiry
    /// (`docs/features/queues.md`, "Dead letters").
    pub(crate) fn is_dead_letter(&self) -> bool {
        matches!(self.role, Role::DeadLetter { .. } | Role::TransferDeadLetter { .. })
    }

    /// Puts a copy in.
    pub(crate) fn insert_copy(&mut self, sequence: u64, slot: Slot, body: BodyRef) {
        self.insert(sequence, slot);
        self.body_refs.insert(sequence, body);
    }

    /// Counts one reference more, or one less, of a body; removes and returns one that no copy refers to any more.
    pub(crate) fn count_reference(&mut self, sequence: u64, more: bool) -> Option<Slot> {
        let slot = self.slots.get_mut(sequence)?;
        let references = slot.references();
        let now = if more { references.saturating_add(1) } else { references.saturating_sub(1) };
        slot.set_references(now);
        if slot.state == State::Body && now == 0 { self.remove(sequence).map(|(slot, _)| slot) } else { None }
    }

    /// Takes a message from the retrieval order, though it need not be the next; it stays in the store.
    pub(crate) fn take_any(&mut self, sequence: u64) {
        self.order.remove(sequence);
    }

    /// Whether a consumer with a selector has passed all messages of the store.
    pub(crate) fn was_looked_through(&self, selection: &Selection) -> bool {
        let selectors = self.links.selectors.as_ref();
        let has_caught_up = selectors.is_none_or(|selectors| selection.has_caught_up(selectors));
        has_caught_up && selection.next(self.has_partitions, &self.slots).is_none()
    }

    /// Sets the timer of a message that is scheduled or may expire.
    #[inline]
    fn remind(&mut self, sequence: u64, slot: &Slot) {
        if let Some(due) = slot.due() {
            self.timers.push_due(due, sequence, &self.slots, &self.counts);
        } else if slot.expires_at != Timestamp::MAX && !self.is_dead_letter() {
            self.timers.push_expiry(slot.dies_at(), sequence, &self.slots, &self.counts);
        }
    }

    /// Puts the store under its earliest deadline in the core's table, if that is earlier than its entry there.
    pub(crate) fn arm(&mut self, table: &mut BTreeSet<(Timestamp, QueueId)>) {
        if self.due_work_waits {
            return;
        }
        let expiries = self.timers.expiries.next();
        let forget = self.history.as_ref().and_then(|history| history.forget_at());
        let sessions = self.sessions.as_ref().and_then(|sessions| sessions.deadline());
        // One by one: an array of them would be written in small pieces and read in large ones, for which the processor
        // waits until all it has written before is out.
        let mut next = self.timers.armed;
        for other in [self.timers.locks.next(), expiries, self.timers.schedule.next(), forget, sessions] {
            next = other.map_or(next, |other| next.min(other));
        }
        self.timers.arm(self.id, next, table);
    }

    /// Takes the store out of the core's table.
    pub(crate) fn disarm(&mut self, table: &mut BTreeSet<(Timestamp, QueueId)>) {
        self.timers.disarm(self.id, table);
    }
}

#[cfg(test)]
mod tests;
