//! Transactions: an operation is checked when it joins, and done at the commit (`docs/features/transactions.md`).
//!
//! Invariant: a commit does all that its transaction holds, in one call and so in one journal batch, or nothing. Before
//! it, no client sees any of it, except that the messages that it settles stay locked.

use std::collections::BTreeMap;

use super::open::{Limits, Settlement, Work};
use crate::{
    CommitError, Effect, LockRef, Message, Outcome, Output, QueueId, SettleError, Ticket, Timestamp,
    TransactionError, TransactionId,
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    publish::{checks::PublishChecks, partition_keys::BatchScope, publisher::Publisher, send_size::SendSize},
    record::OpenRecord,
    session::requests::SessionRequests,
    settle::{disposer::Disposer, lock_release::LockReleases},
    store::Entity,
};

/// Declares, fills, commits and rolls back transactions.
#[derive(Debug)]
pub(crate) struct TransactionManager<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> TransactionManager<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl TransactionManager<'_> {
    pub(crate) fn declare(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        transaction: TransactionId,
        ticket: Ticket,
    ) {
        let client = cx.client;
        if !self.state.links.clients.contains_key(&client) {
            return;
        }
        let limits = self.transaction_limits();
        let effect = match self.state.transactions.declare((client, transaction), &limits) {
            Ok(()) => Effect::TransactionDone { ticket },
            Err(error) => Effect::TransactionRefused { ticket, error: error.into() },
        };
        cx.reply(effect);
    }

    /// Commits or rolls back.
    pub(crate) fn discharge(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        transaction: TransactionId,
        fail: bool,
        ticket: Option<Ticket>,
    ) {
        let client = cx.client;
        LockReleases::of(self.state).time_out_late(cx, (client, transaction));
        cx.out.charge(
            crate::Work::COMMAND.times(self.state.transactions.work((client, transaction)).len() as u64),
        );
        let done = match self.state.transactions.discharge((client, transaction)) {
            Ok(work) if fail => {
                LockReleases::of(self.state).undo(cx, work);
                Ok(())
            }
            Ok(work) => self.commit(cx, work),
            // It is rolled back already, which is what was asked.
            Err(TransactionError::Failed | TransactionError::TimedOut) if fail => Ok(()),
            Err(error) => Err(error.into()),
        };
        let Some(ticket) = ticket else { return };
        let effect = match done {
            Ok(()) => Effect::TransactionDone { ticket },
            Err(error) => Effect::TransactionRefused { ticket, error },
        };
        cx.reply(effect);
    }

    pub(crate) fn commit(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        work: Vec<Work>,
    ) -> Result<(), CommitError> {
        let records = match self.prepare(cx, &work) {
            Ok(records) => records,
            Err(error) => {
                LockReleases::of(self.state).undo(cx, work);
                return Err(error);
            }
        };
        cx.begin_step();
        let mut records = records.into_iter();
        for work in work {
            match work {
                Work::Publish { queue, messages, via } => {
                    Publisher::of(&mut self.state.messages).store_sent(cx, queue, via, &messages);
                }
                Work::Schedule { queue, messages, numbers } => {
                    Publisher::of(&mut self.state.messages).store_scheduled(cx, queue, &messages, &numbers);
                }
                Work::Settle(Settlement { lock: LockRef { queue, sequence, .. }, outcome, .. }) => {
                    let record = records.next().flatten();
                    Disposer::of(&mut self.state.messages).apply(cx, queue, sequence, outcome, record);
                }
                Work::Cancel { queue, sequences, .. } => {
                    Publisher::of(&mut self.state.messages).discard_scheduled(cx, queue, &sequences);
                }
                Work::SetState { path, session, state } => {
                    if let Ok((queue, number)) =
                        SessionRequests::of(self.state).held_session(cx.now, cx.client, &path, &session)
                    {
                        SessionRequests::of(self.state)
                            .store_session_state(cx, queue, number, &session, state);
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks everything once more and reads what it needs, so that nothing can fail afterwards. Says the records of
    /// the settlements, in order.
    pub(crate) fn prepare(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        work: &[Work],
    ) -> Result<Vec<Option<OpenRecord>>, CommitError> {
        // Messages that one entity takes must fit into it together, whichever way each of them goes.
        let mut sent: BTreeMap<(QueueId, Option<QueueId>), Vec<Message>> = BTreeMap::new();
        let mut records = Vec::new();
        for work in work {
            match work {
                Work::Publish { queue, messages, via } => {
                    sent.entry(self.destination(*queue, *via)).or_default().extend_from_slice(messages);
                }
                Work::Schedule { queue, messages, .. } => {
                    sent.entry((*queue, None)).or_default().extend_from_slice(messages);
                }
                Work::Settle(Settlement { lock, outcome, .. }) => {
                    self.check_settle(cx.now, *lock, outcome)?;
                    let LockRef { queue, sequence, .. } = *lock;
                    records.push(
                        Disposer::of(&mut self.state.messages)
                            .record_for(queue, sequence, outcome, cx.out)?,
                    );
                }
                Work::Cancel { queue, entity, sequences } => {
                    Publisher::of(&mut self.state.messages).check_wait(*queue, entity, sequences)?;
                }
                Work::SetState { path, session, state } => {
                    SessionRequests::of(self.state).check_session_state(cx, path, session, state.as_ref())?;
                }
            }
        }
        for ((queue, via), messages) in &sent {
            PublishChecks::of(&self.state.messages).check_sent(
                cx,
                *queue,
                *via,
                messages,
                BatchScope::Transaction,
            )?;
        }
        self.check_transfers(&sent, cx.out)?;
        SendSize::of(&self.state.messages)
            .check_amounts(cx.now, sent.iter().map(|((queue, _), messages)| (*queue, &messages[..])))?;
        Ok(records)
    }

    /// Entity that messages are for, and the one between where they would become dead letters of that one instead.
    fn destination(&self, queue: QueueId, via: Option<QueueId>) -> (QueueId, Option<QueueId>) {
        let takes = |entity: &Entity| entity.definition.settings.status.allows(Use::Send);
        (queue, via.filter(|_| !self.state.main_of(queue).is_some_and(takes)))
    }

    /// Messages that become transfer dead letters of an entity must fit into it with all others that it takes.
    fn check_transfers(
        &self,
        sent: &BTreeMap<(QueueId, Option<QueueId>), Vec<Message>>,
        out: &impl Output,
    ) -> Result<(), CommitError> {
        let mut transfers: BTreeMap<QueueId, Vec<Message>> = BTreeMap::new();
        for ((_, via), messages) in sent {
            if let Some(via) = via {
                transfers.entry(*via).or_default().extend_from_slice(messages);
            }
        }
        for (via, mut messages) in transfers {
            messages.extend_from_slice(sent.get(&(via, None)).map_or(&[], Vec::as_slice));
            PublishChecks::of(&self.state.messages).check_room(via, &messages, out)?;
        }
        Ok(())
    }

    /// Rolls back what a client leaves open.
    pub(crate) fn roll_back_all(&mut self, cx: &mut Cx<'_, impl Output>) {
        for (_, transaction) in self.state.transactions.of(cx.client) {
            self.discharge(cx, transaction, true, None);
        }
    }

    pub(crate) fn transaction_limits(&self) -> Limits {
        Limits {
            open: if self.state.messages.config.profile.has_transactions() {
                self.state.messages.config.max_transactions_per_client
            } else {
                0
            },
            messages: self.state.messages.config.max_transaction_messages,
            settlements: self.state.messages.config.max_transaction_settlements,
            client_bytes: self.state.messages.config.max_transaction_bytes,
            all_bytes: self.state.messages.config.max_all_transactions_bytes,
        }
    }

    /// Whether a lock permits a settlement; says the length of the message's record in bytes.
    pub(crate) fn check_settle(
        &self,
        now: Timestamp,
        lock: LockRef,
        outcome: &Outcome,
    ) -> Result<u32, SettleError> {
        let store = self.state.store(lock.queue).ok_or(SettleError::EntityGone)?;
        store.check_lock(lock.sequence, lock.lock, now)?;
        let slot = store.slots.get(lock.sequence).ok_or(SettleError::LockLost)?;
        self.state.transactions.check_not_in_use(lock)?;
        if matches!(outcome, Outcome::DeadLetter(_)) && store.is_dead_letter() {
            return Err(SettleError::AlreadyDeadLetter);
        }
        Ok(slot.length)
    }
}
