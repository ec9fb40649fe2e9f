//! Operations that join a transaction are checked and counted against its limits (`docs/features/transactions.md`).
//!
//! Invariant: an operation has no effect before the commit, with two exceptions: a send may create its queue, and
//! scheduled messages get their numbers, which is recorded before the client learns them. A refused operation fails its
//! transaction. A repeated settlement is the same settlement.

use bytes::Bytes;

use super::{
    manager::TransactionManager,
    open::{Cost, Key, Settlement, Work},
};
use crate::{
    Command, Effect, EntityError, EntityPath, LimitScope, LockRef, Message, Outcome, Output,
    PartitionKeyError, PublishError, QueueId, SequenceNumber, SessionError, SettleError, Ticket, Timestamp,
    TransactionError, TransactionId, UnsettledPolicy,
    admin::entities::EntityAdmin,
    call::Cx,
    entity::partition_numbers::SequenceNumbers,
    output_coalescer::Answer,
    publish::{
        checks::PublishChecks, partition_keys::BatchScope, publisher::Publisher, send_size::COPY_BYTES,
    },
    session::requests::SessionRequests,
    settle::{
        lock_release::LockReleases,
        settlements::{Settlements, TokenSet},
    },
};

/// About what an operation takes besides payload and properties, in bytes: in memory, and as a record.
pub(crate) const OPERATION_BYTES: u64 = 256;

/// Target of messages that join a transaction.
enum SendTarget {
    Queue(QueueId),
    Path { path: EntityPath, auto_create: bool },
    Via { path: EntityPath, via: EntityPath },
}

/// Reason for which an operation did not join its transaction.
enum Refused {
    Publish(PublishError),
    Settle(SettleError),
    Cancel(EntityError),
    State(SessionError),
}

impl From<TransactionError> for Refused {
    fn from(error: TransactionError) -> Self {
        Self::Settle(error.into())
    }
}

impl Refused {
    fn effect(self, ticket: Ticket) -> Effect {
        match self {
            Self::Publish(error) => Effect::PublishRefused { ticket, error },
            Self::Settle(error) => Effect::SettleRefused { ticket, error },
            Self::Cancel(error) => Effect::RequestRefused { ticket, error },
            Self::State(error) => Effect::SessionRefused { ticket, error },
        }
    }
}

impl TransactionManager<'_> {
    /// Takes an operation into a transaction. When it is refused, nothing of the transaction will be done.
    pub(crate) fn enlist(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        transaction: TransactionId,
        command: Command,
        settled: bool,
    ) {
        let client = cx.client;
        let key = (client, transaction);
        LockReleases::of(self.state).time_out_late(cx, key);
        let (done, answer, ticket) = match command {
            Command::Publish { queue, message, ticket } => {
                let done = self.enlist_publish(cx, key, SendTarget::Queue(queue), vec![message]);
                (done.map_err(Refused::Publish), Answer::Published, ticket)
            }
            Command::PublishBatch { queue, messages, ticket } => {
                let done = self.enlist_publish(cx, key, SendTarget::Queue(queue), messages);
                (done.map_err(Refused::Publish), Answer::Published, ticket)
            }
            Command::PublishTo { path, messages, auto_create, ticket } => {
                let done = self.enlist_publish(cx, key, SendTarget::Path { path, auto_create }, messages);
                (done.map_err(Refused::Publish), Answer::Published, ticket)
            }
            Command::PublishVia { path, via, messages, ticket } => {
                let done = self.enlist_publish(cx, key, SendTarget::Via { path, via }, messages);
                (done.map_err(Refused::Publish), Answer::Published, ticket)
            }
            Command::Settle { queue, sequence, lock, outcome, ticket } => {
                let lock = LockRef { queue, sequence: sequence.0, lock };
                let done = self.enlist_settlements(cx.now, key, &[lock], &outcome, settled);
                if done.is_err() && self.on_rollback(lock, settled) == UnsettledPolicy::Fail {
                    // No consumer holds it any more.
                    self.state.lock_releases.push(lock, true);
                }
                (done.map_err(Refused::Settle), Answer::Settled, ticket)
            }
            Command::SettleByToken { path, session, tokens, outcome, ticket } => {
                let which = TokenSet { path: &path, session: session.as_deref(), tokens: &tokens };
                let done = self.enlist_tokens(cx.now, key, which, &outcome);
                (done.map_err(Refused::Settle), Answer::Settled, Some(ticket))
            }
            Command::Schedule { path, messages, ticket } => {
                match self.enlist_schedule(cx, key, &path, messages) {
                    Ok(sequences) => {
                        return cx.reply(Effect::Scheduled { ticket, sequences });
                    }
                    Err(error) => (Err(Refused::Publish(error)), Answer::Published, Some(ticket)),
                }
            }
            Command::CancelScheduled { path, sequences, ticket } => {
                let done = self.enlist_cancellation(cx, key, &path, sequences);
                (done, Answer::Settled, Some(ticket))
            }
            Command::SetSessionState { path, session, state, ticket } => {
                let done = self.enlist_state(cx, key, path, session, state);
                (done, Answer::Settled, Some(ticket))
            }
            // Nothing else can be undone, and the gateway enlists nothing else.
            _ => {
                debug_assert!(false, "the gateway enlists what can be rolled back");
                (Err(TransactionError::Failed.into()), Answer::Settled, None)
            }
        };
        if done.is_err() {
            let work = self.state.transactions.fail(key);
            LockReleases::of(self.state).undo(cx, work);
        }
        let Some(ticket) = ticket else { return };
        match done {
            Ok(()) => cx.answer(answer, ticket),
            Err(refused) => cx.reply(refused.effect(ticket)),
        }
    }

    /// The gateway has refused a part of a transaction, so nothing of it may be done.
    pub(crate) fn fail(&mut self, cx: &mut Cx<'_, impl Output>, transaction: TransactionId) {
        let key = (cx.client, transaction);
        LockReleases::of(self.state).time_out_late(cx, key);
        let work = self.state.transactions.fail(key);
        LockReleases::of(self.state).undo(cx, work);
    }

    fn enlist_publish(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        key: Key,
        target: SendTarget,
        mut messages: Vec<Message>,
    ) -> Result<(), PublishError> {
        let cost = cost_of(&messages);
        self.state.transactions.check(key, cost, &self.transaction_limits())?;
        let (queue, via) = match target {
            SendTarget::Queue(queue) => (queue, None),
            SendTarget::Path { path, auto_create } => {
                let found =
                    EntityAdmin::of(&mut self.state.messages).resolve_or_create(cx, &path, auto_create);
                (found.map_err(|error| PublishError::not_created(&path.entity, error))?, None)
            }
            SendTarget::Via { path, via } => {
                let (queue, via) = PublishChecks::of(&self.state.messages).resolve_via(&path, &via)?;
                (queue, Some(via))
            }
        };
        let cost = self.with_copies(key, queue, cost)?;
        PublishChecks::of(&self.state.messages).check_sent(
            cx,
            queue,
            via,
            &messages,
            BatchScope::Transaction,
        )?;
        self.check_same_key(cx.now, key, (queue, via), &messages)?;
        keep(&mut messages);
        self.join(cx.now, key, Work::Publish { queue, messages, via }, cost);
        Ok(())
    }

    /// Takes messages that are to be scheduled, and gives their numbers out.
    fn enlist_schedule(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        key: Key,
        path: &EntityPath,
        mut messages: Vec<Message>,
    ) -> Result<Vec<SequenceNumber>, PublishError> {
        let cost = cost_of(&messages);
        self.state.transactions.check(key, cost, &self.transaction_limits())?;
        let queue = self.state.resolve(path).ok_or_else(|| PublishError::NotFound(path.entity.clone()))?;
        let cost = self.with_copies(key, queue, cost)?;
        PublishChecks::of(&self.state.messages).check_publish(
            cx,
            queue,
            &messages,
            BatchScope::Transaction,
        )?;
        self.check_same_key(cx.now, key, (queue, None), &messages)?;
        let fair = self.state.messages.entities.fair_partition(queue);
        let mut numbers = Vec::with_capacity(messages.len());
        for message in &messages {
            let partition = self.state.messages.entities.partition_of(queue, message, fair);
            numbers.push(SequenceNumbers::of(&mut self.state.messages.entities).take(queue, partition));
        }
        // Recorded before the numbers are told: neither a rollback nor a restart may give one of them out again.
        self.state.messages.entities.rewrite_definition(queue, cx.out);
        let sequences = numbers.iter().copied().map(SequenceNumber).collect();
        keep(&mut messages);
        self.join(cx.now, key, Work::Schedule { queue, messages, numbers }, cost);
        Ok(sequences)
    }

    /// Takes scheduled messages back. Those that this same transaction schedules leave it.
    fn enlist_cancellation(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        key: Key,
        path: &EntityPath,
        mut sequences: Vec<SequenceNumber>,
    ) -> Result<(), Refused> {
        let cost = Cost {
            settlements: sequences.len() as u64,
            bytes: OPERATION_BYTES + 8 * sequences.len() as u64,
            ..Cost::default()
        };
        self.state.transactions.check(key, cost, &self.transaction_limits())?;
        let missing = || EntityError::NotFound(path.entity.clone());
        let queue = self.state.resolve(path).ok_or_else(missing).map_err(Refused::Cancel)?;
        let own = |sequence: &mut SequenceNumber| self.state.transactions.schedules(key, queue, *sequence);
        let own: Vec<_> = sequences.extract_if(.., own).collect();
        Publisher::of(&mut self.state.messages)
            .check_wait(queue, &path.entity, &sequences)
            .map_err(Refused::Cancel)?;
        let visited = self.state.transactions.unschedule(key, queue, &own);
        cx.out.charge(crate::Work::SLOT.times(visited));
        if !sequences.is_empty() {
            let entity = path.entity.clone();
            self.join(cx.now, key, Work::Cancel { queue, entity, sequences }, cost);
        }
        Ok(())
    }

    /// Sets the state of a session.
    fn enlist_state(
        &mut self,
        cx: &Cx<'_, impl Output>,
        key: Key,
        path: EntityPath,
        session: Box<str>,
        state: Option<Bytes>,
    ) -> Result<(), Refused> {
        let bytes = OPERATION_BYTES + state.as_ref().map_or(0, |state| 2 * state.len() as u64);
        let cost = Cost { settlements: 1, bytes, ..Cost::default() };
        self.state.transactions.check(key, cost, &self.transaction_limits())?;
        let checked =
            SessionRequests::of(self.state).check_session_state(cx, &path, &session, state.as_ref());
        checked.map_err(Refused::State)?;
        let state = state.map(|state| Bytes::copy_from_slice(&state));
        self.join(cx.now, key, Work::SetState { path, session, state }, cost);
        Ok(())
    }

    /// Cost of messages with the copies that a topic may make of them.
    fn with_copies(&self, key: Key, queue: QueueId, mut cost: Cost) -> Result<Cost, PublishError> {
        let copies = cost.messages.saturating_mul(self.state.messages.rules.count(queue) as u64);
        cost.bytes = cost.bytes.saturating_add(copies.saturating_mul(COPY_BYTES));
        self.state.transactions.check(key, cost, &self.transaction_limits())?;
        Ok(cost)
    }

    fn enlist_tokens(
        &mut self,
        now: Timestamp,
        key: Key,
        which: TokenSet<'_>,
        outcome: &Outcome,
    ) -> Result<(), SettleError> {
        let mut locks = Settlements::of(self.state).check_tokens(now, which)?;
        locks.sort_unstable_by_key(|lock| (lock.queue, lock.sequence));
        locks.dedup();
        // A client that settles by token holds no delivery on a link: there is only the lock.
        self.enlist_settlements(now, key, &locks, outcome, false)
    }

    /// All or none.
    fn enlist_settlements(
        &mut self,
        now: Timestamp,
        key: Key,
        locks: &[LockRef],
        outcome: &Outcome,
        settled: bool,
    ) -> Result<(), SettleError> {
        let mut new = Vec::with_capacity(locks.len());
        let mut sum = Cost::default();
        for lock in locks.iter().copied() {
            if self.state.transactions.repeats(key, lock, outcome) {
                self.repeat_settlement(now, lock, settled)?;
                continue;
            }
            let length = self.check_settle(now, lock, outcome)?;
            let body = self.state.messages.entities.body_length(lock.queue, lock.sequence);
            let length = length.saturating_add(body);
            // The record read back, and what is appended.
            let bytes = OPERATION_BYTES + 2 * outcome.writes_at_most(u64::from(length));
            let cost = Cost { settlements: 1, bytes, ..Cost::default() };
            sum.settlements += 1;
            sum.bytes += cost.bytes;
            new.push((lock, cost));
        }
        self.state.transactions.check(key, sum, &self.transaction_limits())?;
        for (lock, cost) in new {
            let on_rollback = self.on_rollback(lock, settled);
            let settlement = Settlement { lock, outcome: outcome.clone(), on_rollback };
            self.join(now, key, Work::Settle(settlement), cost);
        }
        Ok(())
    }

    /// The same settlement comes again: its receiver may have settled since.
    pub(crate) fn repeat_settlement(
        &mut self,
        now: Timestamp,
        lock: LockRef,
        settled: bool,
    ) -> Result<(), SettleError> {
        let store = self.state.store(lock.queue).ok_or(SettleError::EntityGone)?;
        store.check_lock(lock.sequence, lock.lock, now)?;
        if settled {
            let on_rollback = self.on_rollback(lock, settled);
            self.state.transactions.set_on_rollback(lock, on_rollback);
        }
        Ok(())
    }

    /// Fate of a lock whose settlement is rolled back. A receiver that has not settled keeps its lock. A message that
    /// it has settled is treated as if its link had closed, and where it returns, the delivery counts as failed:
    /// otherwise a client could roll back the same message for ever.
    pub(crate) fn on_rollback(&self, lock: LockRef, settled: bool) -> UnsettledPolicy {
        if !settled {
            return UnsettledPolicy::KeepLocks;
        }
        // A message of a session stays with its holder.
        let store = self.state.store(lock.queue).filter(|store| store.sessions.is_none());
        let slot = store.and_then(|store| store.slots.get(lock.sequence));
        let consumer = slot.and_then(|slot| self.state.links.consumers.get(&slot.holder()));
        match consumer.map_or(UnsettledPolicy::KeepLocks, |consumer| consumer.unsettled) {
            UnsettledPolicy::KeepLocks => UnsettledPolicy::KeepLocks,
            UnsettledPolicy::Release | UnsettledPolicy::Fail => UnsettledPolicy::Fail,
        }
    }

    pub(crate) fn join(&mut self, now: Timestamp, key: Key, work: Work, cost: Cost) {
        let deadline = now.after(self.state.messages.config.transaction_time_out);
        self.state.transactions.add(key, work, cost, deadline);
    }

    /// Refuses a key that is not that of everything else which a transaction sends to, or through, the same partitioned
    /// entity. `to` is where the messages go, and what they go through.
    pub(crate) fn check_same_key(
        &self,
        now: Timestamp,
        key: Key,
        to: (QueueId, Option<QueueId>),
        messages: &[Message],
    ) -> Result<(), PublishError> {
        let (queue, via) = to;
        for entity in [Some(queue), via.filter(|via| *via != queue)].into_iter().flatten() {
            let Some(partitioned) =
                self.state.main_of(entity).filter(|entity| entity.definition.partitions.is_some())
            else {
                continue;
            };
            let name = || partitioned.definition.name.clone();
            let sent = self.state.transactions.work(key).iter().find_map(|work| work.sends_to(entity));
            let mut first = sent.map(|(to, message)| {
                PublishChecks::of(&self.state.messages).key_at(now, entity, to, message)
            });
            // Only what goes to the entity itself was looked at already.
            let those = if entity == queue { messages.get(..1).unwrap_or_default() } else { messages };
            for message in those {
                let own = PublishChecks::of(&self.state.messages).key_at(now, entity, queue, message);
                if own.is_none() {
                    return Err(PartitionKeyError::Missing(name()).into());
                }
                if *first.get_or_insert_with(|| own.clone()) != own {
                    return Err(PartitionKeyError::SeveralKeys(name()).into());
                }
            }
        }
        Ok(())
    }
}

/// Cost of messages that are sent to a queue.
fn cost_of(messages: &[Message]) -> Cost {
    let bytes = messages.iter().map(|message| message.payload.len() as u64 + OPERATION_BYTES).sum();
    let in_tier = messages.iter().filter(|message| message.limits == LimitScope::Tier).count();
    Cost { messages: messages.len() as u64, in_tier: in_tier as u64, settlements: 0, bytes }
}

/// Copies the payloads: those that were read from a socket share its read buffer and would keep all of it in memory.
fn keep(messages: &mut [Message]) {
    for message in messages {
        message.payload = Bytes::copy_from_slice(&message.payload);
    }
}
