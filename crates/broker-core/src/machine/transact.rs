//! Transactions: operations are checked when they join one, and done when it commits (`service-bus-entities` 17).
//!
//! Invariant: a commit does all that its transaction holds, in one call and so in one journal batch, or nothing. Before
//! it, nobody sees anything of a transaction but the messages that it keeps locked.

use std::collections::BTreeMap;

use super::{Core, partitions::Together};
use crate::{
    ClientId, CommitError, Effect, LockId, Message, Output, QueueId, SettleError, Ticket, Timestamp,
    TransactionError, TransactionId, UnsettledPolicy,
    open_transactions::{Key, Limits, Settlement, Work},
    record::OpenRecord,
};

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
        self.time_out_late(now, (client, transaction), out);
        let done = match self.transactions.discharge((client, transaction)) {
            Ok(work) if fail => {
                self.undo(now, work, out);
                Ok(())
            }
            Ok(work) => self.commit(now, client, work, out),
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

    fn commit(
        &mut self,
        now: Timestamp,
        client: ClientId,
        work: Vec<Work>,
        out: &mut impl Output,
    ) -> Result<(), CommitError> {
        let records = match self.prepare(now, client, &work, out) {
            Ok(records) => records,
            Err(error) => {
                self.undo(now, work, out);
                return Err(error);
            }
        };
        self.begin_room();
        let mut records = records.into_iter();
        for work in work {
            match work {
                Work::Publish { queue, messages, through } => {
                    self.store_sent(now, queue, through, &messages, out);
                }
                Work::Schedule { queue, messages, numbers } => {
                    self.store_scheduled(now, queue, &messages, &numbers, out);
                }
                Work::Settle(Settlement { queue, sequence, outcome, .. }) => {
                    let record = records.next().flatten();
                    self.apply(now, queue, sequence, outcome, record, out);
                }
                Work::Cancel { queue, sequences, .. } => self.discard_scheduled(queue, &sequences, out),
                Work::SetState { path, session, state } => {
                    if let Ok((queue, number)) = self.held_session(now, client, &path, &session) {
                        self.store_session_state(now, (queue, number, &session), state, out);
                    }
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
        client: ClientId,
        work: &[Work],
        out: &mut impl Output,
    ) -> Result<Vec<Option<OpenRecord>>, CommitError> {
        // What goes to one queue must fit into it together.
        let mut sent: BTreeMap<(QueueId, Option<QueueId>), Vec<Message>> = BTreeMap::new();
        let mut records = Vec::new();
        for work in work {
            match work {
                Work::Publish { queue, messages, through } => {
                    sent.entry((*queue, *through)).or_default().extend_from_slice(messages);
                }
                Work::Schedule { queue, messages, .. } => {
                    sent.entry((*queue, None)).or_default().extend_from_slice(messages);
                }
                Work::Settle(Settlement { queue, sequence, lock, outcome, .. }) => {
                    self.check_settle(now, (*queue, *sequence, *lock), outcome)?;
                    records.push(self.record_for(*queue, *sequence, outcome, out)?);
                }
                Work::Cancel { queue, entity, sequences } => self.check_wait(*queue, entity, sequences)?,
                Work::SetState { path, session, state } => {
                    self.check_session_state(now, client, (path, session), state.as_ref(), out)?;
                }
            }
        }
        for ((queue, through), messages) in &sent {
            self.check_sent(*queue, *through, messages, Together::Transaction, out)?;
        }
        self.check_amounts(sent.iter().map(|((queue, _), messages)| (*queue, &messages[..])))?;
        Ok(records)
    }

    /// Nothing of this will be done. The receivers hold what they have not settled; what they have, and what nobody holds
    /// any more, returns, unless it has a lock of Service Bus, which runs on.
    pub(super) fn undo(&mut self, now: Timestamp, work: Vec<Work>, out: &mut impl Output) {
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

    /// Rolls a transaction back whose time is over: what time brings may wait for the disk, and its client need not.
    pub(super) fn time_out_late(&mut self, now: Timestamp, key: Key, out: &mut impl Output) {
        if let Some(work) = self.transactions.time_out_of(key, now) {
            self.undo(now, work, out);
        }
    }

    pub(super) fn transaction_limits(&self) -> Limits {
        Limits {
            open: if self.config.profile.has_transactions() {
                self.config.max_transactions_per_client
            } else {
                0
            },
            messages: self.config.max_transaction_messages,
            settlements: self.config.max_transaction_settlements,
            client_bytes: self.config.max_transaction_bytes,
            all_bytes: self.config.max_all_transactions_bytes,
        }
    }
}
