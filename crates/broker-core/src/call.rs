//! One call of the core: its time, the client that it serves, its budgets, and the way out for records and effects.
//!
//! Invariant: the time of a call does not change. Replies, removals and message ids that are gathered during a call are
//! written when it ends: replies and removals by [`Cx::finish`], message ids by the core before that.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use bytes::Bytes;

use crate::{
    ClientId, CoreConfig, Effect, EntityError, Output, PublishError, QueueId, Ticket, Timestamp, Work,
    output_coalescer::{Answer, OutputCoalescer, Removal},
};

/// The client of a call that no client asked for: the broker itself, as time passes. It waits for no answer.
pub(crate) const NO_CLIENT: ClientId = ClientId(u64::MAX);

/// The context of one call of the core.
#[derive(Debug)]
pub(crate) struct Cx<'a, O> {
    /// The time of the call.
    pub(crate) now: Timestamp,
    /// The client that sent the command: replies go to it.
    pub(crate) client: ClientId,
    /// Takes records and effects, and reads stored records.
    pub(crate) out: &'a mut O,
    /// Bytes that the actions of rules may still write in the current step.
    pub(crate) write_budget: WriteBudget,
    /// Number of locks, records and sessions of closed links and deleted entities that the call may still release.
    release_budget: u32,
    /// Session states that this call has written and cannot read back yet.
    pub(crate) new_states: BTreeMap<(QueueId, u32), Bytes>,
    /// Stores whose histories have something to record.
    pub(crate) dirty_histories: Vec<QueueId>,
    /// Stores that have lost a message, a link or a subscription; `None`: nobody asks for them.
    changed: Option<BTreeSet<QueueId>>,
    coalescer: OutputCoalescer,
    write_limit: u64,
}

/// Copying so many bytes counts as much as one more message, so that one call appends about as many bytes as it may
/// treat kilobyte messages.
pub(crate) const BYTES_LIKE_A_MESSAGE: u32 = 1 << 10;

/// Bytes that the actions of rules may still write in one step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WriteBudget {
    /// In bytes.
    pub(crate) left: u64,
    /// Something did not fit.
    pub(crate) was_short: bool,
}

impl WriteBudget {
    pub(crate) const fn of(left: u64) -> Self {
        Self { left, was_short: false }
    }

    /// Takes what is needed, if it is there.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let rest = self.left.checked_sub(bytes);
        self.left = rest.unwrap_or(self.left);
        self.was_short |= rest.is_none();
        rest.is_some()
    }
}

impl<'a, O: Output> Cx<'a, O> {
    /// A call begins. `coalescer` is what an earlier call gave back: empty, with buffers to be used again.
    pub(crate) fn new(
        now: Timestamp,
        client: ClientId,
        config: &CoreConfig,
        coalescer: OutputCoalescer,
        out: &'a mut O,
    ) -> Self {
        let write_limit = config.send_bytes_max();
        Self {
            now,
            client,
            out,
            write_limit,
            write_budget: WriteBudget::of(write_limit),
            release_budget: config.deliver_messages_max.max(1),
            new_states: BTreeMap::new(),
            dirty_histories: Vec::new(),
            changed: None,
            coalescer,
        }
    }

    /// Answers one ticket of the client.
    #[inline]
    pub(crate) fn answer(&mut self, answer: Answer, ticket: Ticket) {
        self.coalescer.answer(self.client, answer, ticket, self.out);
    }

    /// Tells the client something, after what was gathered.
    pub(crate) fn reply(&mut self, effect: Effect) {
        self.tell(self.client, effect);
    }

    /// Tells any client something, after what was gathered.
    pub(crate) fn tell(&mut self, client: ClientId, effect: Effect) {
        self.coalescer.effect(client, effect, self.out);
    }

    /// Answers a request that concerns an entity.
    pub(crate) fn answer_request(&mut self, ticket: Ticket, done: Result<(), EntityError>) {
        self.reply(match done {
            Ok(()) => Effect::EntityDone { ticket },
            Err(error) => Effect::RequestRefused { ticket, error },
        });
    }

    /// Tells the client why its messages were refused, if it waits for an answer.
    pub(crate) fn refuse_publish(&mut self, ticket: Option<Ticket>, error: PublishError) {
        if let Some(ticket) = ticket {
            self.reply(Effect::PublishRefused { ticket, error });
        }
    }

    /// From now on the stores are noted that lose a message, a link or a subscription.
    pub(crate) fn watch_stores(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// A store has lost a message, a link or a subscription.
    #[inline]
    pub(crate) fn note_change(&mut self, store: QueueId) {
        if let Some(changed) = &mut self.changed {
            changed.insert(store);
        }
    }

    /// Takes the stores that were noted.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<QueueId> {
        self.changed.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Records the removal of a message.
    #[inline]
    pub(crate) fn removed(&mut self, queue: QueueId, sequence: u64, removal: Removal) {
        self.note_change(queue);
        self.coalescer.removed(queue, sequence, removal, self.out);
    }

    /// Writes the removals that were gathered.
    pub(crate) fn flush_removed(&mut self) {
        self.coalescer.flush_removed(self.out);
    }

    /// Writes the removals and gives the answers that were gathered.
    pub(crate) fn flush(&mut self) {
        self.coalescer.flush(self.out);
    }

    /// Number of locks, records and sessions that may be released now. What a client asks for ends with the work of its
    /// round; two may be released at least.
    pub(crate) fn release_room(&self) -> u32 {
        self.release_budget.min(messages_within(self.out.work_left(), u32::MAX))
    }

    /// `left` of this room was not needed: the rest was done, and is charged.
    pub(crate) fn use_room(&mut self, room: u32, left: u32) {
        let released = room.saturating_sub(left);
        self.release_budget = self.release_budget.saturating_sub(released);
        self.out.charge(Work::MESSAGE.times(released.into()));
    }

    /// A step begins whose messages may reach topics.
    pub(crate) fn begin_step(&mut self) {
        self.write_budget = WriteBudget::of(self.write_limit);
    }

    /// Cost of the bytes that the actions of the last step wrote, in messages.
    pub(crate) fn changes_cost(&mut self) -> u32 {
        let written = self.write_limit.saturating_sub(self.write_budget.left);
        self.begin_step();
        u32::try_from(written / u64::from(BYTES_LIKE_A_MESSAGE)).unwrap_or(u32::MAX)
    }

    /// The call ends. Returns the buffers for the next one.
    pub(crate) fn finish(mut self) -> OutputCoalescer {
        self.flush();
        mem::take(&mut self.coalescer)
    }
}

/// Messages that are within this work, at most `most`: two at least, one of which may be forwarded.
pub(crate) fn messages_within(work: Work, most: u32) -> u32 {
    u32::try_from(work.0 / Work::MESSAGE.0).unwrap_or(u32::MAX).min(most).max(2)
}

/// Cost of handling a message of `length` bytes, more if it was moved.
pub(crate) fn cost(moved: bool, length: u32) -> u32 {
    1 + if moved { length / BYTES_LIKE_A_MESSAGE } else { 0 }
}
