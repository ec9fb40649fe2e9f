//! Transactions: operations are checked when they join one, and done when it commits (`service-bus-entities` 17).
//!
//! Invariant: a commit does all that its transaction holds, in one call and so in one journal batch, or nothing. Before
//! it, nobody sees anything of a transaction but the messages that it keeps locked.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Core, partitions::Together};
use crate::{
    ClientId, CommitError, Effect, EntityPath, LockId, LockToken, Message, Operation, Outcome, Output,
    Properties, PropertyValue, PublishError, PublishTarget, QueueId, SettleError, Ticket, Timestamp,
    TransactionError, TransactionId, UnsettledPolicy,
    merge::Answer,
    open_transactions::{Cost, Key, Limits, Settlement, Work},
    record::OpenRecord,
};

/// About what an operation takes besides payload and properties, in bytes: in memory, and as a record.
pub(super) const OPERATION_BYTES: u64 = 256;

/// Why an operation did not join its transaction.
enum Refused {
    Publish(PublishError),
    Settle(SettleError),
}

impl Core {
    pub(super) fn declare(
        &mut self,
        client: ClientId,
        transaction: TransactionId,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        if !self.clients.contains_key(&client) {
            return;
        }
        let limits = self.transaction_limits();
        let effect = match self.transactions.declare((client, transaction), &limits) {
            Ok(()) => Effect::TransactionDone { ticket },
            Err(error) => Effect::TransactionRefused { ticket, error: error.into() },
        };
        self.merge.effect(client, effect, out);
    }

    /// Takes an operation into a transaction. When it is refused, nothing of the transaction will be done.
    pub(super) fn enlist(
        &mut self,
        now: Timestamp,
        client: ClientId,
        transaction: TransactionId,
        operation: Operation,
        out: &mut impl Output,
    ) {
        let key = (client, transaction);
        let (done, answer, ticket) = match operation {
            Operation::Publish { target, messages, ticket } => {
                let done = self.enlist_publish(now, key, target, messages, out);
                (done.map_err(Refused::Publish), Answer::Published, ticket)
            }
            Operation::Settle { queue, sequence, lock, outcome, ticket } => {
                let done = self.enlist_settlements(now, key, &[(queue, sequence.0, lock)], &outcome);
                (done.map_err(Refused::Settle), Answer::Settled, ticket)
            }
            Operation::SettleByToken { path, tokens, outcome, ticket } => {
                let done = self.enlist_tokens(now, key, &path, &tokens, &outcome);
                (done.map_err(Refused::Settle), Answer::Settled, Some(ticket))
            }
            Operation::Refused => {
                let error = SettleError::Transaction(TransactionError::Failed);
                (Err(Refused::Settle(error)), Answer::Settled, None)
            }
        };
        if done.is_err() {
            let work = self.transactions.fail(key);
            self.undo(now, work, out);
        }
        let Some(ticket) = ticket else { return };
        let refusal = match done {
            Ok(()) => return self.merge.answer(client, answer, ticket, out),
            Err(Refused::Publish(error)) => Effect::PublishRefused { ticket, error },
            Err(Refused::Settle(error)) => Effect::SettleRefused { ticket, error },
        };
        self.merge.effect(client, refusal, out);
    }

    fn enlist_publish(
        &mut self,
        now: Timestamp,
        key: Key,
        target: PublishTarget,
        mut messages: Vec<Message>,
        out: &mut impl Output,
    ) -> Result<(), PublishError> {
        let bytes = messages.iter().map(|message| message.payload.len() as u64 + OPERATION_BYTES).sum();
        let cost = Cost { messages: messages.len() as u64, settlements: 0, bytes };
        self.transactions.check(key, cost, &self.transaction_limits())?;
        let queue = match target {
            PublishTarget::Queue(queue) => queue,
            PublishTarget::Path { path, auto_create } => self
                .resolve_or_create(now, &path, auto_create, out)
                .map_err(|_| PublishError::NotFound(path.entity.clone()))?,
        };
        self.check_publish(queue, &messages, Together::Transaction, out)?;
        for message in &mut messages {
            // What was read from a socket keeps all that was read with it.
            message.payload = Bytes::copy_from_slice(&message.payload);
        }
        self.join(now, key, Work::Publish { queue, messages }, cost);
        Ok(())
    }

    fn enlist_tokens(
        &mut self,
        now: Timestamp,
        key: Key,
        path: &EntityPath,
        tokens: &[LockToken],
        outcome: &Outcome,
    ) -> Result<(), SettleError> {
        let mut locks = self.check_tokens(now, path, tokens)?;
        locks.sort_unstable();
        locks.dedup();
        let lock_of = |(queue, sequence)| {
            let slot = self.stores.get(&queue)?.slots.get(sequence)?;
            Some((queue, sequence, slot.lock))
        };
        let locks: Vec<_> = locks.into_iter().filter_map(lock_of).collect();
        self.enlist_settlements(now, key, &locks, outcome)
    }

    /// All or none.
    fn enlist_settlements(
        &mut self,
        now: Timestamp,
        key: Key,
        locks: &[(QueueId, u64, LockId)],
        outcome: &Outcome,
    ) -> Result<(), SettleError> {
        let mut costs = Vec::with_capacity(locks.len());
        let mut sum = Cost::default();
        for (queue, sequence, lock) in locks {
            let length = self.check_settle(now, (*queue, *sequence, *lock), outcome)?;
            let length = length.saturating_add(self.body_length(*queue, *sequence));
            let cost = Cost { messages: 0, settlements: 1, bytes: OPERATION_BYTES + extent(outcome, length) };
            sum.settlements += 1;
            sum.bytes += cost.bytes;
            costs.push(cost);
        }
        self.transactions.check(key, sum, &self.transaction_limits())?;
        for ((queue, sequence, lock), cost) in locks.iter().copied().zip(costs) {
            let otherwise = self.policy_of(queue, sequence);
            let outcome = outcome.clone();
            let settlement = Settlement { queue, sequence, lock, outcome, otherwise };
            self.join(now, key, Work::Settle(settlement), cost);
        }
        Ok(())
    }

    /// Whether a lock permits a settlement; says the length of the message's record in bytes.
    fn check_settle(
        &self,
        now: Timestamp,
        (queue, sequence, lock): (QueueId, u64, LockId),
        outcome: &Outcome,
    ) -> Result<u32, SettleError> {
        let store = self.stores.get(&queue).ok_or(SettleError::EntityGone)?;
        store.check_lock(sequence, lock, now)?;
        let slot = store.slots.get(sequence).ok_or(SettleError::LockLost)?;
        self.check_not_in_use(queue, sequence, lock)?;
        if matches!(outcome, Outcome::DeadLetter(_)) && store.is_dead_letter() {
            return Err(SettleError::AlreadyDeadLetter);
        }
        Ok(slot.length)
    }

    /// Refuses what waits for a transaction.
    pub(super) fn check_not_in_use(
        &self,
        queue: QueueId,
        sequence: u64,
        lock: LockId,
    ) -> Result<(), SettleError> {
        if self.transactions.holds(queue, sequence, lock) {
            return Err(TransactionError::InUse.into());
        }
        Ok(())
    }

    /// What becomes of a lock whose settlement is rolled back: what would become of it without its link.
    fn policy_of(&self, queue: QueueId, sequence: u64) -> UnsettledPolicy {
        // A message of a session stays with its holder.
        let store = self.stores.get(&queue).filter(|store| store.sessions.is_none());
        let slot = store.and_then(|store| store.slots.get(sequence));
        let consumer = slot.and_then(|slot| self.consumers.get(&slot.holder));
        consumer.map_or(UnsettledPolicy::KeepLocks, |consumer| consumer.unsettled)
    }

    fn join(&mut self, now: Timestamp, key: Key, work: Work, cost: Cost) {
        let deadline = now.after(self.config.transaction_time_out);
        self.transactions.add(key, work, cost, deadline);
    }

    /// Commits or rolls back.
    pub(super) fn discharge(
        &mut self,
        now: Timestamp,
        client: ClientId,
        transaction: TransactionId,
        fail: bool,
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        let done = match self.transactions.discharge((client, transaction)) {
            Ok(work) if fail => {
                self.undo(now, work, out);
                Ok(())
            }
            Ok(work) => self.commit(now, work, out),
            // It is rolled back already, which is what was asked.
            Err(TransactionError::Failed | TransactionError::TimedOut) if fail => Ok(()),
            Err(error) => Err(error.into()),
        };
        let Some(ticket) = ticket else { return };
        let effect = match done {
            Ok(()) => Effect::TransactionDone { ticket },
            Err(error) => Effect::TransactionRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    fn commit(&mut self, now: Timestamp, work: Vec<Work>, out: &mut impl Output) -> Result<(), CommitError> {
        let records = match self.prepare(now, &work, out) {
            Ok(records) => records,
            Err(error) => {
                self.undo(now, work, out);
                return Err(error);
            }
        };
        let mut records = records.into_iter();
        for work in work {
            match work {
                Work::Publish { queue, messages } => {
                    let Some(kind) = self.kind_of(queue) else { continue };
                    self.store_checked(now, (queue, kind), &messages, |_| {}, out);
                }
                Work::Settle(Settlement { queue, sequence, outcome, .. }) => {
                    let record = records.next().flatten();
                    self.apply(now, queue, sequence, outcome, record, out);
                }
            }
        }
        Ok(())
    }

    /// Checks everything once more and reads what it needs, so that nothing can fail afterwards. Says the records of
    /// the settlements, in order.
    fn prepare(
        &mut self,
        now: Timestamp,
        work: &[Work],
        out: &mut impl Output,
    ) -> Result<Vec<Option<OpenRecord>>, CommitError> {
        // What goes to one queue must fit into it together.
        let mut sent: BTreeMap<QueueId, Vec<Message>> = BTreeMap::new();
        let mut records = Vec::new();
        for work in work {
            match work {
                Work::Publish { queue, messages } => {
                    sent.entry(*queue).or_default().extend_from_slice(messages);
                }
                Work::Settle(Settlement { queue, sequence, lock, outcome, .. }) => {
                    self.check_settle(now, (*queue, *sequence, *lock), outcome)?;
                    records.push(self.record_for(*queue, *sequence, outcome, out)?);
                }
            }
        }
        for (queue, messages) in sent {
            self.check_publish(queue, &messages, Together::Transaction, out)?;
        }
        Ok(records)
    }

    /// Nothing of this will be done. Locks of Service Bus run on; others end as if their link had gone.
    fn undo(&mut self, now: Timestamp, work: Vec<Work>, out: &mut impl Output) {
        self.give_up(work);
        self.leaving.left = self.work_off_leaving(now, self.leaving.left, out);
    }

    /// Marks the locks that end with a rollback.
    fn give_up(&mut self, work: Vec<Work>) {
        for work in work {
            let Work::Settle(Settlement { queue, sequence, lock, otherwise, .. }) = work else { continue };
            match otherwise {
                UnsettledPolicy::KeepLocks => {}
                UnsettledPolicy::Release => self.leaving.lose(queue, sequence, lock, false),
                UnsettledPolicy::Fail => self.leaving.lose(queue, sequence, lock, true),
            }
        }
    }

    /// Rolls back what a client leaves open.
    pub(super) fn roll_back_all(&mut self, now: Timestamp, client: ClientId, out: &mut impl Output) {
        for (client, transaction) in self.transactions.of(client) {
            self.discharge(now, client, transaction, true, None, out);
        }
    }

    /// Rolls back the transactions whose time is over, until `left` is used up; says how much of that is left.
    pub(super) fn time_out_transactions(&mut self, now: Timestamp, mut left: u32) -> u32 {
        while left > 0
            && let Some(work) = self.transactions.time_out(now)
        {
            left = left.saturating_sub(u32::try_from(work.len()).unwrap_or(u32::MAX).max(1));
            self.give_up(work);
        }
        left
    }

    fn transaction_limits(&self) -> Limits {
        Limits {
            open: self.config.max_transactions_per_client,
            messages: self.config.max_transaction_messages,
            settlements: self.config.max_transaction_settlements,
            client_bytes: self.config.max_transaction_bytes,
            all_bytes: self.config.max_all_transactions_bytes,
        }
    }
}

/// Bytes that an outcome holds in memory and, where it writes the message anew, on disk.
fn extent(outcome: &Outcome, length: u32) -> u64 {
    let size = |Properties(properties): &Properties| -> u64 {
        let one = |(name, value): &(Box<str>, PropertyValue)| {
            name.len()
                + match value {
                    PropertyValue::Text(text) => text.len(),
                    PropertyValue::Encoded(bytes) => bytes.len(),
                    // No client sends these.
                    PropertyValue::Value(_) | PropertyValue::Removed => 0,
                }
        };
        properties.iter().map(one).sum::<usize>() as u64
    };
    match outcome {
        Outcome::Complete => 0,
        Outcome::Abandon(more)
        | Outcome::Release(more)
        | Outcome::Defer(more)
        | Outcome::DeadLetter(more) => {
            // The record read back, and what is appended.
            2 * (u64::from(length) + size(more))
        }
    }
}
