//! Locks end: settlement, renewal, return.
//!
//! Invariant: a refused settlement changes nothing. A lock is checked to the millisecond, whether or not its
//! deadline has been handled.

use super::disposer::Disposer;
use crate::{
    Effect, EntityPath, LockRef, LockToken, Outcome, Output, QueueId, Renewed, SequenceNumber, SettleError,
    Ticket, Timestamp,
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    output_coalescer::{Answer, Removal},
    record::OpenRecord,
    session::holders::SessionHolders,
};

/// Settles messages and renews their locks.
#[derive(Debug)]
pub(crate) struct Settlements<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> Settlements<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

/// Lock tokens of one request to a management node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenSet<'a> {
    /// The entity that the management node belongs to.
    pub(crate) path: &'a EntityPath,
    /// The session that the receiver says the messages are of.
    pub(crate) session: Option<&'a str>,
    pub(crate) tokens: &'a [LockToken],
}

impl Settlements<'_> {
    pub(crate) fn settle(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        lock: LockRef,
        outcome: Outcome,
        ticket: Option<Ticket>,
    ) {
        // Without an answer no client learns when the removal is durable, so no effect has to wait for the record.
        let removal = if ticket.is_some() { Removal::Awaited } else { Removal::Unawaited };
        let completes = outcome == Outcome::Complete;
        let done = self.try_settle(cx, lock, outcome, removal);
        match (done, ticket) {
            (Ok(()), Some(ticket)) => cx.answer(Answer::Settled, ticket),
            (Err(error), Some(ticket)) => {
                // The holder hears that its session is lost before it hears that its settlement came too late.
                if error == SettleError::SessionLockLost {
                    SessionHolders::of(self.state).end_lapsed_of(cx, lock.queue, lock.sequence);
                }
                cx.reply(Effect::SettleRefused { ticket, error });
            }
            (Err(error), None) if completes => self.completed_too_late(cx, lock, error),
            (_, None) => {}
        }
    }

    /// The receiver believes that it has completed the message, which is delivered again: an operator has to hear of
    /// it.
    fn completed_too_late(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        LockRef { queue, sequence, .. }: LockRef,
        error: SettleError,
    ) {
        let Some(entity) = self.state.main_of(queue).map(|entity| entity.definition.name.clone()) else {
            return;
        };
        if let Some(store) = self.state.store_mut(queue) {
            store.traffic.late_completions += 1;
        }
        cx.reply(Effect::CompletedTooLate { entity, sequence: SequenceNumber(sequence), error });
    }

    fn try_settle(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        lock: LockRef,
        outcome: Outcome,
        removal: Removal,
    ) -> Result<(), SettleError> {
        let LockRef { queue, sequence, .. } = lock;
        let store = self.state.store(queue).ok_or(SettleError::EntityGone)?;
        store.check_lock(sequence, lock.lock, cx.now)?;
        self.state.transactions.check_not_in_use(lock)?;
        let record = Disposer::of(&mut self.state.messages).record_for(queue, sequence, &outcome, cx.out)?;
        if outcome == Outcome::Complete {
            self.state.messages.entities.complete(cx, queue, sequence, removal);
        } else {
            Disposer::of(&mut self.state.messages).apply(cx, queue, sequence, outcome, record);
        }
        Ok(())
    }

    /// All or none.
    pub(crate) fn settle_by_token(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        which: TokenSet<'_>,
        outcome: &Outcome,
        ticket: Ticket,
    ) {
        match self.prepare_tokens(cx, which, outcome) {
            Ok(prepared) => {
                for (LockRef { queue, sequence, .. }, record) in prepared {
                    Disposer::of(&mut self.state.messages).apply(
                        cx,
                        queue,
                        sequence,
                        outcome.clone(),
                        record,
                    );
                }
                cx.answer(Answer::Settled, ticket);
            }
            Err(error) => cx.reply(Effect::SettleRefused { ticket, error }),
        }
    }

    /// Checks each token and reads what its outcome needs, so that nothing can fail afterwards.
    fn prepare_tokens(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        which: TokenSet<'_>,
        outcome: &Outcome,
    ) -> Result<Vec<(LockRef, Option<OpenRecord>)>, SettleError> {
        let mut locks = self.check_tokens(cx.now, which)?;
        // A token given twice settles once.
        locks.sort_unstable_by_key(|lock| (lock.queue, lock.sequence));
        locks.dedup();
        self.check_rewritten(&locks, outcome)?;
        let mut prepared = Vec::with_capacity(locks.len());
        for lock in locks {
            self.state.transactions.check_not_in_use(lock)?;
            let LockRef { queue, sequence, .. } = lock;
            let record =
                Disposer::of(&mut self.state.messages).record_for(queue, sequence, outcome, cx.out)?;
            prepared.push((lock, record));
        }
        Ok(prepared)
    }

    /// All that one request writes anew is written in one step. Messages may be larger than those that are taken today.
    fn check_rewritten(&self, locks: &[LockRef], outcome: &Outcome) -> Result<(), SettleError> {
        let limit = self.state.messages.config.max_rewritten_bytes;
        if locks.len() < 2 || *outcome == Outcome::Complete {
            return Ok(());
        }
        let length = |LockRef { queue, sequence, .. }: &LockRef| {
            let own =
                self.state.store(*queue).and_then(|store| store.slots.get(*sequence)).map(|slot| slot.length);
            let length = u64::from(own.unwrap_or_default())
                + u64::from(self.state.messages.entities.body_length(*queue, *sequence));
            outcome.writes_at_most(length)
        };
        let bytes: u64 = locks.iter().map(length).sum();
        if bytes > limit { Err(SettleError::TooMuchAtOnce { limit }) } else { Ok(()) }
    }

    /// The messages that tokens prove the lock of, in the order of the tokens.
    pub(crate) fn check_tokens(
        &self,
        now: Timestamp,
        TokenSet { path, session, tokens }: TokenSet<'_>,
    ) -> Result<Vec<LockRef>, SettleError> {
        let addressed = self.state.resolve(path).ok_or(SettleError::EntityGone)?;
        let definition = &self.state.main_of(addressed).ok_or(SettleError::EntityGone)?.definition;
        if !definition.settings.status.allows(Use::Receive) {
            return Err(SettleError::EntityDisabled);
        }
        let entity = definition.stores.queue;
        let check = |token: &LockToken| {
            let (queue, lock, sequence) = self.state.messages.tokens.open(*token);
            // Clients settle dead letters through the management node of the queue as well.
            let owner = self.state.main_of(queue).ok_or(SettleError::LockLost)?;
            if owner.definition.stores.queue != entity {
                return Err(SettleError::LockLost);
            }
            let store = self.state.store(queue).ok_or(SettleError::LockLost)?;
            store.check_lock(sequence.0, lock, now).map_err(|error| {
                // The session of a removed message is known from the request only.
                let held = session.is_some_and(|id| store.is_held_since(id, lock, now));
                let is_gone = store.slots.get(sequence.0).is_none();
                if is_gone && held { SettleError::LockLost } else { error }
            })?;
            Ok(LockRef { queue, sequence: sequence.0, lock })
        };
        tokens.iter().map(check).collect()
    }

    pub(crate) fn renew_locks(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        tokens: &[LockToken],
        ticket: Ticket,
    ) {
        let effect = match self
            .check_tokens(cx.now, TokenSet { path, session: None, tokens })
            .and_then(|locks| self.check_own_locks(locks))
        {
            Err(error) => Effect::SettleRefused { ticket, error },
            Ok(locks) => {
                let until =
                    locks.into_iter().map(|lock| self.renew(cx.now, lock.queue, lock.sequence)).collect();
                Effect::Renewed(Renewed { ticket, until })
            }
        };
        cx.reply(effect);
    }

    /// A message of a session has no lock of its own.
    fn check_own_locks(&self, locks: Vec<LockRef>) -> Result<Vec<LockRef>, SettleError> {
        let in_session = |id: &QueueId| self.state.store(*id).is_some_and(|store| store.sessions.is_some());
        if locks.iter().any(|lock| in_session(&lock.queue)) {
            return Err(SettleError::LockedBySession);
        }
        Ok(locks)
    }

    pub(crate) fn renew(&mut self, now: Timestamp, queue: QueueId, sequence: u64) -> Timestamp {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return now };
        let until = now.after(store.lock_duration);
        store.touched_at = now;
        store.renew(sequence, until);
        self.state.messages.entities.agenda.arm(store);
        until
    }
}
