//! One message store: the messages of a queue, or its dead letters.
//!
//! Invariant: an unlocked active message that can be read is in the retrieval order exactly once; in a store with
//! sessions it is `Ready` in its session instead.

mod body_refs;
mod counts;
mod lock_owners;
mod locks;
mod order;
mod replay;
mod selecting;
mod timers;

pub(crate) use body_refs::BodyRefs;
pub(crate) use counts::Counts;
use lock_owners::LockOwners;
pub(crate) use replay::ReplayedNumbers;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::{
    ClientId, LinkId, LockLifetime, Position, QueueId, Timestamp,
    activity::Traffic,
    deadlines::{Deadlines, Run},
    history::History,
    partition::{PartitionId, SequenceCursor},
    record::{BodyRef, Definition},
    selection::Selectors,
    sessions::{Session, SessionMessageState, SessionNumber, SessionState, Sessions},
    slot::{ConsumerNumber, Slot, State},
    slots::Slots,
    store::order::Order,
};

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

/// Consumers that are gone, and whether their locks end as failed.
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
    /// Numbers of what is no body, there once a body was: a topic has many bodies, and shows none of them.
    visible: Option<BTreeSet<u64>>,
    /// There once a copy of a topic's message was.
    pub(crate) body_refs: Option<Box<BodyRefs>>,
    pub(crate) counts: Counts,
    pub(crate) traffic: Traffic,
    /// The numbers that replay saw.
    pub(crate) replayed: ReplayedNumbers,
    order: Order,
    /// Numbers name a partition.
    pub(crate) has_partitions: bool,
    pub(crate) locks: Deadlines,
    /// Locks without a timer, at the times at which they began: nothing is due then.
    untimed: Deadlines,
    /// Owners of the locks, built when a consumer closes with locks.
    lock_owners: Option<Box<LockOwners>>,
    /// Slots that were looked at for that.
    #[cfg(test)]
    pub(crate) slots_visited: usize,
    pub(crate) expiries: Deadlines,
    pub(crate) schedule: Deadlines,
    /// Key of the entity that gets every message of this store.
    pub(crate) forwards: Option<Box<str>>,
    /// Of an entity that detects duplicates.
    pub(crate) history: Option<Box<History>>,
    /// The deadline under which the core has this store in its table.
    armed: Timestamp,
    /// Consumers with credit, in turn; some of them may be gone.
    pub(crate) ring: VecDeque<ConsumerNumber>,
    /// Browsing consumers with credit, in turn; some of them may be gone.
    pub(crate) browsers: VecDeque<ConsumerNumber>,
    /// Number of closed ones in both.
    pub(crate) stale_consumers: usize,
    /// Consumers that want some of the messages only, where there are any.
    pub(crate) selectors: Option<Box<Selectors>>,
    /// Consumers that wait for `Effect::Drained`, each once; some of them may be gone.
    pub(crate) draining: Vec<ConsumerNumber>,
    /// All producers and consumers.
    pub(crate) links: BTreeSet<(ClientId, LinkId)>,
    /// Number of consumers among them.
    pub(crate) consumers: u64,
    /// Messages expire only while somebody waits to receive.
    pub(crate) lazy_expiry: bool,
    /// When somebody last sent, received or looked, or a receiver came or went; zero when nobody did since the start.
    pub(crate) touched_at: Timestamp,
    /// It is in the core's list of stores to pump.
    pub(crate) queued: bool,
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
            visible: None,
            body_refs: None,
            counts: Counts::default(),
            traffic: Traffic::default(),
            replayed: ReplayedNumbers::default(),
            order: Order::default(),
            has_partitions: false,
            locks: Deadlines::default(),
            untimed: Deadlines::default(),
            lock_owners: None,
            #[cfg(test)]
            slots_visited: 0,
            expiries: Deadlines::default(),
            schedule: Deadlines::default(),
            forwards: None,
            history: None,
            armed: Timestamp::MAX,
            ring: VecDeque::new(),
            browsers: VecDeque::new(),
            stale_consumers: 0,
            selectors: None,
            draining: Vec::new(),
            links: BTreeSet::new(),
            consumers: 0,
            lazy_expiry: false,
            touched_at: Timestamp::default(),
            queued: false,
            sessions: None,
        }
    }

    /// Puts a message in. Its number may lie anywhere. Inlined, so that the slot is written where it stays: one that was
    /// written in small pieces and is copied in large ones makes the processor wait until all it has written before, the
    /// record among it, is out.
    #[expect(clippy::inline_always, reason = "measured: 4 % of a broker's time were that wait")]
    #[inline(always)]
    pub(crate) fn insert(&mut self, sequence: u64, slot: Slot) {
        let replaced = self.slots.insert(sequence, slot);
        debug_assert!(replaced.is_none(), "a sequence number is used once");
        self.note_visible(sequence, slot.state);
        self.count_in(&slot);
        self.remind(sequence, &slot);
        if slot.is_ready() {
            self.order.put(sequence);
            // Elsewhere what is new comes last.
            if self.is_dead_letter() {
                self.note_return(sequence);
            }
        }
        self.update_session_state(sequence);
    }

    /// Takes a message out, locked or not. Of a copy it says as well what it referred to: that has one reference
    /// less, which the caller counts.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<(Slot, Option<BodyRef>)> {
        let slot = self.slots.remove(sequence)?;
        self.count_out(&slot);
        if slot.is_ready() {
            self.order.remove(sequence);
        }
        if let Some(visible) = &mut self.visible {
            visible.remove(&sequence);
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.remove(slot.session(), sequence);
        }
        Some((slot, self.forget_body(sequence)))
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

    /// The next message for somebody who looks at each one once.
    pub(crate) fn next_to_show(&self, visible: &SequenceCursor) -> Option<u64> {
        visible.next(self.has_partitions, |from, end| self.slots.next_before(from, end))
    }

    /// The entity has partitions: its numbers say which. To be said before the first message comes.
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
        let Some(id) = session else {
            let Some(visible) = &self.visible else { return self.slots.next(from) };
            return visible.range(from..).next().copied();
        };
        let sessions = self.sessions.as_ref()?;
        sessions.get(sessions.find(id)?)?.next(from)
    }

    /// Sets or clears the state of a session; gives back the one that it had.
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
            self.note_return(sequence);
        }
        self.update_session_state(sequence);
    }

    /// Sets a message's state, which moves it from one count to another.
    pub(crate) fn set_state(&mut self, sequence: u64, state: State) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        let before = *slot;
        slot.state = state;
        let after = *slot;
        self.count_out(&before);
        self.count_in(&after);
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

    /// A consumer that waits in a ring is gone. Its number stays until its turn comes, or until more than half of the
    /// numbers are such: looking for it each time would cost as much as there are consumers.
    pub(crate) fn leave_ring(&mut self, is_there: impl Fn(ConsumerNumber) -> bool) {
        self.stale_consumers += 1;
        if 2 * self.stale_consumers > self.ring.len() + self.browsers.len() {
            self.ring.retain(|number| is_there(*number));
            self.browsers.retain(|number| is_there(*number));
            self.stale_consumers = 0;
        }
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

    /// Notes what may be shown, once there is something that may not.
    #[inline]
    fn note_visible(&mut self, sequence: u64, state: State) {
        match (&mut self.visible, state) {
            (None, State::Body) => {
                let slots = std::mem::take(&mut self.slots);
                self.list_visible(&slots);
                self.slots = slots;
            }
            (Some(visible), State::Active | State::Deferred | State::Scheduled) => {
                visible.insert(sequence);
            }
            (None, _) | (Some(_), State::Body) => {}
        }
    }

    fn list_visible(&mut self, slots: &Slots<Slot>) {
        let visible = slots.iter().filter(|(_, slot)| slot.state != State::Body);
        self.visible = Some(visible.map(|(number, _)| number).collect());
    }
}

/// Whether any message of a run answers to `test`.
fn any(slots: &Slots<Slot>, run: Run, test: impl Fn(&Slot) -> bool) -> bool {
    let mut from = run.first;
    while let Some(sequence) = slots.next_before(from, run.sequences().end) {
        if slots.get(sequence).is_some_and(&test) {
            return true;
        }
        from = sequence + 1;
    }
    false
}

#[cfg(test)]
mod tests;
