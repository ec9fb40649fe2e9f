//! Locks end: settlement, renewal, return.
//!
//! Invariant: a refused settlement changes nothing. A lock is checked to the millisecond, whether or not its
//! deadline has been treated.

use super::{Core, pump::release_reference, status::Use, wake};
use crate::{
    ClientId, Effect, EntityPath, LockId, LockToken, Outcome, Output, Properties, PropertyValue, QueueId,
    Renewed, SequenceNumber, SettleError, Ticket, Timestamp,
    merge::{Answer, Removal},
    record::{BodyRef, OpenRecord, encode_changed},
    slot::{Slot, State},
};

/// What a settlement adds to a message: the properties, and the record to write them to. The record is there
/// whenever properties are.
#[derive(Debug, Default)]
pub(super) struct Addition {
    pub(super) properties: Properties,
    pub(super) record: Option<OpenRecord>,
}

impl Outcome {
    /// Whether the message's record is read and written anew.
    fn writes_anew(&self) -> bool {
        match self {
            Self::Complete => false,
            Self::Abandon(properties) | Self::Release(properties) | Self::Defer(properties) => {
                !properties.0.is_empty()
            }
            Self::DeadLetter(_) => true,
        }
    }

    /// Bytes that it may write of a message with so many. Whoever gives a message back may find that it has been
    /// delivered too often or that its time is over, and then it is written anew among the dead letters.
    pub(super) fn writes_at_most(&self, length: u64) -> u64 {
        match self {
            Self::Complete => 0,
            Self::Abandon(more) | Self::Release(more) | Self::Defer(more) | Self::DeadLetter(more) => {
                length + size_of(more)
            }
        }
    }
}

/// Bytes of properties as a client sent them.
fn size_of(properties: &Properties) -> u64 {
    let one = |(name, value): &(Box<str>, PropertyValue)| {
        name.len()
            + match value {
                PropertyValue::Text(text) => text.len(),
                PropertyValue::Encoded(bytes) => bytes.len(),
                // No client sends these.
                PropertyValue::Value(_) | PropertyValue::Removed => 0,
            }
    };
    properties.0.iter().map(one).sum::<usize>() as u64
}

/// Tokens, the entity whose management node they are given to, and the session that its receiver says they are of.
pub(super) type Tokens<'a> = (&'a EntityPath, Option<&'a str>, &'a [LockToken]);

impl Core {
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        client: ClientId,
        (queue, sequence, lock): (QueueId, SequenceNumber, LockId),
        outcome: Outcome,
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        // Without an answer nobody learns when the message is gone for good.
        let removal = if ticket.is_some() { Removal::Awaited } else { Removal::Unawaited };
        let done = self.try_settle(now, (queue, sequence.0, lock), outcome, removal, out);
        match (done, ticket) {
            (Ok(()), Some(ticket)) => self.merge.answer(client, Answer::Settled, ticket, out),
            (Err(error), Some(ticket)) => {
                self.merge.effect(client, Effect::SettleRefused { ticket, error }, out);
            }
            (_, None) => {}
        }
    }

    fn try_settle(
        &mut self,
        now: Timestamp,
        (queue, sequence, lock): (QueueId, u64, LockId),
        outcome: Outcome,
        removal: Removal,
        out: &mut impl Output,
    ) -> Result<(), SettleError> {
        let store = self.stores.get(&queue).ok_or(SettleError::EntityGone)?;
        store.check_lock(sequence, lock, now)?;
        self.check_not_in_use(queue, sequence, lock)?;
        let record = self.record_for(queue, sequence, &outcome, out)?;
        if outcome == Outcome::Complete {
            self.complete(queue, sequence, removal, out);
        } else {
            self.apply(now, queue, sequence, outcome, record, out);
        }
        Ok(())
    }

    /// All or none.
    pub(super) fn settle_by_token(
        &mut self,
        now: Timestamp,
        client: ClientId,
        which: Tokens<'_>,
        outcome: &Outcome,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        match self.prepare_tokens(now, which, outcome, out) {
            Ok(prepared) => {
                for (queue, sequence, record) in prepared {
                    self.apply(now, queue, sequence, outcome.clone(), record, out);
                }
                self.merge.answer(client, Answer::Settled, ticket, out);
            }
            Err(error) => self.merge.effect(client, Effect::SettleRefused { ticket, error }, out),
        }
    }

    /// Checks each token and reads what its outcome needs, so that nothing can fail afterwards.
    fn prepare_tokens(
        &mut self,
        now: Timestamp,
        which: Tokens<'_>,
        outcome: &Outcome,
        out: &mut impl Output,
    ) -> Result<Vec<(QueueId, u64, Option<OpenRecord>)>, SettleError> {
        let mut locks = self.check_tokens(now, which)?;
        // A token given twice settles once.
        locks.sort_unstable();
        locks.dedup();
        self.check_rewritten(&locks, outcome)?;
        let mut prepared = Vec::with_capacity(locks.len());
        for (queue, sequence) in locks {
            let slot = self.stores.get(&queue).and_then(|store| store.slots.get(sequence));
            self.check_not_in_use(queue, sequence, slot.ok_or(SettleError::LockLost)?.lock)?;
            prepared.push((queue, sequence, self.record_for(queue, sequence, outcome, out)?));
        }
        Ok(prepared)
    }

    /// All that one request writes anew is written in one step. Messages may be larger than those that are taken today.
    fn check_rewritten(&self, locks: &[(QueueId, u64)], outcome: &Outcome) -> Result<(), SettleError> {
        let limit = self.config.max_rewritten_bytes;
        if locks.len() < 2 || *outcome == Outcome::Complete {
            return Ok(());
        }
        let length = |(queue, sequence): &(QueueId, u64)| {
            let own =
                self.stores.get(queue).and_then(|store| store.slots.get(*sequence)).map(|slot| slot.length);
            let length = u64::from(own.unwrap_or_default()) + u64::from(self.body_length(*queue, *sequence));
            outcome.writes_at_most(length)
        };
        let bytes: u64 = locks.iter().map(length).sum();
        if bytes > limit { Err(SettleError::TooMuchAtOnce { limit }) } else { Ok(()) }
    }

    /// The messages that tokens prove the lock of, in the order of the tokens.
    pub(super) fn check_tokens(
        &self,
        now: Timestamp,
        (path, session, tokens): Tokens<'_>,
    ) -> Result<Vec<(QueueId, u64)>, SettleError> {
        let addressed = self.resolve(path).ok_or(SettleError::EntityGone)?;
        let definition = &self.main_of(addressed).ok_or(SettleError::EntityGone)?.definition;
        if !definition.settings.status.allows(Use::Receive) {
            return Err(SettleError::EntityDisabled);
        }
        let entity = definition.stores.queue;
        let check = |token: &LockToken| {
            let (queue, lock, sequence) = self.tokens.open(*token);
            // Clients settle dead letters through the management node of the queue as well.
            let owner = self.main_of(queue).ok_or(SettleError::LockLost)?;
            if owner.definition.stores.queue != entity {
                return Err(SettleError::LockLost);
            }
            let store = self.stores.get(&queue).ok_or(SettleError::LockLost)?;
            store.check_lock(sequence.0, lock, now).map_err(|error| {
                // Of a message that is gone nobody knows its session but whoever says it.
                let held = session.is_some_and(|id| store.is_held_since(id, lock, now));
                let is_gone = store.slots.get(sequence.0).is_none();
                if is_gone && held { SettleError::LockLost } else { error }
            })?;
            Ok((queue, sequence.0))
        };
        tokens.iter().map(check).collect()
    }

    pub(super) fn renew_locks(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        tokens: &[LockToken],
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let effect = match self
            .check_tokens(now, (path, None, tokens))
            .and_then(|locks| self.check_own_locks(locks))
        {
            Err(error) => Effect::SettleRefused { ticket, error },
            Ok(locks) => {
                let until =
                    locks.into_iter().map(|(queue, sequence)| self.renew(now, queue, sequence)).collect();
                Effect::Renewed(Renewed { ticket, until })
            }
        };
        self.merge.effect(client, effect, out);
    }

    /// A message of a session has no lock of its own.
    fn check_own_locks(&self, locks: Vec<(QueueId, u64)>) -> Result<Vec<(QueueId, u64)>, SettleError> {
        let in_session = |id: &QueueId| self.stores.get(id).is_some_and(|store| store.sessions.is_some());
        if locks.iter().any(|(queue, _)| in_session(queue)) {
            return Err(SettleError::LockedBySession);
        }
        Ok(locks)
    }

    fn renew(&mut self, now: Timestamp, queue: QueueId, sequence: u64) -> Timestamp {
        let Some(store) = self.stores.get_mut(&queue) else { return now };
        let until = now.after(store.lock_duration);
        store.touched_at = now;
        store.renew(sequence, until);
        store.arm(&mut self.timers);
        until
    }

    /// Reads the record where the outcome has to write it anew, and refuses what cannot be done.
    pub(super) fn record_for(
        &mut self,
        queue: QueueId,
        sequence: u64,
        outcome: &Outcome,
        out: &mut impl Output,
    ) -> Result<Option<OpenRecord>, SettleError> {
        let is_dead = || self.stores.get(&queue).is_some_and(|store| store.is_dead_letter());
        if matches!(outcome, Outcome::DeadLetter(_)) && is_dead() {
            return Err(SettleError::AlreadyDeadLetter);
        }
        if !outcome.writes_anew() {
            return Ok(None);
        }
        let record = self.read_message(queue, sequence, out).map_err(|_| SettleError::Storage)?;
        record.properties().map_err(|_| SettleError::Storage)?;
        Ok(Some(record))
    }

    /// Does what was checked.
    pub(super) fn apply(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: u64,
        outcome: Outcome,
        record: Option<OpenRecord>,
        out: &mut impl Output,
    ) {
        if outcome != Outcome::Complete {
            self.touch(queue);
        }
        match outcome {
            Outcome::Complete => self.complete(queue, sequence, Removal::Awaited, out),
            Outcome::Release(properties) => {
                self.give_back(now, queue, sequence, false, Addition { properties, record }, out);
            }
            Outcome::Abandon(properties) => {
                self.give_back(now, queue, sequence, true, Addition { properties, record }, out);
            }
            Outcome::DeadLetter(properties) => {
                self.dead_letter(queue, sequence, Addition { properties, record }, out);
            }
            Outcome::Defer(properties) => self.defer(queue, sequence, Addition { properties, record }, out),
        }
    }

    /// A message was processed.
    fn complete(&mut self, queue: QueueId, sequence: u64, removal: Removal, out: &mut impl Output) {
        let now = self.now;
        let removed = self.stores.get_mut(&queue).and_then(|store| {
            store.touched_at = now;
            store.traffic.completed += 1;
            store.remove(sequence)
        });
        self.removed(queue, sequence, removed, removal, out);
    }

    /// A message is gone for good.
    pub(super) fn discard(&mut self, queue: QueueId, sequence: u64, out: &mut impl Output) {
        let removed = self.stores.get_mut(&queue).and_then(|store| store.remove(sequence));
        self.removed(queue, sequence, removed, Removal::Awaited, out);
    }

    fn removed(
        &mut self,
        queue: QueueId,
        sequence: u64,
        removed: Option<(Slot, Option<BodyRef>)>,
        removal: Removal,
        out: &mut impl Output,
    ) {
        if let Some((slot, body)) = removed {
            self.merge.removed(queue, sequence, removal, out);
            out.release(slot.position, slot.length);
            if let Some(body) = body {
                self.drop_reference(body, out);
            }
        }
    }

    /// One copy more refers to a body.
    pub(super) fn add_reference(&mut self, body: BodyRef) {
        if let Some(bodies) = self.stores.get_mut(&body.topic) {
            bodies.count_reference(body.sequence, true);
        }
    }

    /// One copy less refers to a body.
    pub(super) fn drop_reference(&mut self, body: BodyRef, out: &mut impl Output) {
        if let Some(bodies) = self.stores.get_mut(&body.topic) {
            release_reference(bodies, body.sequence, out);
        }
    }

    /// A lock ends without a decision: the message returns to its place, unless it was delivered too often or its
    /// time is over. The limit of deliveries goes first, for it keeps the message.
    pub(super) fn give_back(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: u64,
        failed: bool,
        addition: Addition,
        out: &mut impl Output,
    ) {
        let Some(store) = self.stores.get_mut(&queue) else { return };
        let Some(slot) = store.slots.get_mut(sequence) else { return };
        // A lock that ran out before it was given up counts as failed, whoever comes first.
        let failed = failed || slot.is_lock_over(now);
        if failed {
            slot.delivery_count = slot.delivery_count.saturating_add(1);
        }
        let (count, state, expired) = (slot.delivery_count, slot.state, slot.is_expired(now));
        store.traffic.failed += u64::from(failed);
        store.unlock(sequence);
        if let Some(entity) = store.entity() {
            let limit = entity.definition.settings.max_delivery_count;
            if failed && count >= limit {
                return self.dead_letter_delivered(queue, sequence, limit, addition, out);
            }
            if expired && state == State::Active {
                return self.expire(queue, sequence, addition, out);
            }
        }
        self.store_change(queue, sequence, addition, failed, out);
        if let Some(store) = self.stores.get_mut(&queue) {
            store.put_back(sequence);
            wake(store, &mut self.active);
        }
    }

    fn defer(&mut self, queue: QueueId, sequence: u64, addition: Addition, out: &mut impl Output) {
        let Some(store) = self.stores.get_mut(&queue) else { return };
        store.unlock(sequence);
        store.set_state(sequence, State::Deferred);
        self.store_change(queue, sequence, addition, true, out);
    }

    /// Records the count and state that a message has now, and its new properties if there are any.
    fn store_change(
        &mut self,
        queue: QueueId,
        sequence: u64,
        addition: Addition,
        changed: bool,
        out: &mut impl Output,
    ) {
        if let Some(record) = addition.record {
            return self.rewrite(queue, sequence, addition.properties, &record, out);
        }
        let Some(slot) = self.stores.get(&queue).and_then(|store| store.slots.get(sequence)) else { return };
        if changed {
            let (position, length) =
                out.record(&encode_changed(queue, sequence, slot.delivery_count, slot.state), &[]);
            // It lies behind its message, which the journal forgets or moves first, with all it says: nobody needs
            // to carry it.
            out.release(position, length);
        }
    }

    /// Puts a store under its earliest deadline.
    pub(super) fn rearm(&mut self, queue: QueueId) {
        if let Some(store) = self.stores.get_mut(&queue) {
            store.arm(&mut self.timers);
        }
    }
}
