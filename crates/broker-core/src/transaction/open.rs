//! Transactions that are open: what each will do at its end, and which locks wait for it.
//!
//! ```text
//!  Open ── an operation is refused ──▶ Failed
//!   │  └── two minutes after its first operation ──▶ TimedOut
//!   └────────────── discharge, from every phase ──▶ gone
//! ```
//!
//! Invariant: a lock is held by at most one open transaction; what a client's transactions hold is the sum over them,
//! and is 0 once they are gone. Nothing here is recorded: a restart rolls everything back.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    ClientId, EntityPath, LockId, LockRef, Message, Outcome, QueueId, SequenceNumber, SettleError, Timestamp,
    TransactionError, TransactionId, UnsettledPolicy,
};

/// A transaction among those of all clients.
pub(crate) type Key = (ClientId, TransactionId);

/// Operation that a transaction does when it commits.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Enqueue, with consecutive numbers.
    Publish {
        queue: QueueId,
        /// In order; their payloads are copies of their own.
        messages: Vec<Message>,
        /// The entity they are sent through.
        via: Option<QueueId>,
    },
    /// Enqueue when their time has come.
    Schedule {
        queue: QueueId,
        /// As above.
        messages: Vec<Message>,
        /// The numbers that the client knows.
        numbers: Vec<u64>,
    },
    /// End a lock.
    Settle(Settlement),
    /// Take scheduled messages back.
    Cancel {
        queue: QueueId,
        /// Its entity, for what a refusal says.
        entity: Box<str>,
        sequences: Vec<SequenceNumber>,
    },
    /// Set the state of a session.
    SetState {
        path: EntityPath,
        session: Box<str>,
        /// Bytes of its own; `None` clears the state.
        state: Option<Bytes>,
    },
}

impl Work {
    /// Target and first message of a send, if the target or the transfer entity is `entity`.
    pub(crate) fn sends_to(&self, entity: QueueId) -> Option<(QueueId, &Message)> {
        let (queue, via, messages) = match self {
            Self::Publish { queue, messages, via } => (*queue, *via, messages),
            Self::Schedule { queue, messages, .. } => (*queue, None, messages),
            Self::Settle(_) | Self::Cancel { .. } | Self::SetState { .. } => return None,
        };
        messages.first().filter(|_| queue == entity || via == Some(entity)).map(|first| (queue, first))
    }
}

/// A settlement that waits for its transaction.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) lock: LockRef,
    pub(crate) outcome: Outcome,
    /// Fate of the lock when the transaction rolls back.
    pub(crate) on_rollback: UnsettledPolicy,
}

/// Limits of one transaction, and of all together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Open transactions of one client.
    pub(crate) open: u64,
    /// Messages within the limits of the tier sent in one transaction.
    pub(crate) messages: u64,
    /// Settlements in one transaction.
    pub(crate) settlements: u64,
    /// Bytes of all open transactions of one client.
    pub(crate) client_bytes: u64,
    /// Bytes of all open transactions.
    pub(crate) all_bytes: u64,
}

/// Cost of an operation, counted against the limits of its transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Messages sent.
    pub(crate) messages: u64,
    /// Those of them that are within the limits of the tier.
    pub(crate) in_tier: u64,
    /// Messages settled.
    pub(crate) settlements: u64,
    /// Bytes held in memory, and bytes that the commit will write, together.
    pub(crate) bytes: u64,
}

/// State of a transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Open,
    /// An operation was refused: it can only be rolled back.
    Failed,
    TimedOut,
}

/// One transaction.
#[derive(Debug)]
struct Transaction {
    phase: Phase,
    work: Vec<Work>,
    /// Messages that it would schedule, and their place in `work`.
    scheduled: BTreeMap<(QueueId, u64), usize>,
    cost: Cost,
    /// When it is rolled back; [`Timestamp::MAX`] before its first operation.
    deadline: Timestamp,
}

/// Usage of the transactions of one client.
#[derive(Debug, Default)]
struct Usage {
    open: u64,
    bytes: u64,
}

/// All transactions that were declared and not discharged.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    all: BTreeMap<Key, Transaction>,
    clients: BTreeMap<ClientId, Usage>,
    /// Locks whose settlement waits, for which transaction, and its place in the transaction's work.
    enlisted: BTreeMap<(QueueId, u64), (LockId, Key, usize)>,
    deadlines: BTreeSet<(Timestamp, Key)>,
    bytes: u64,
}

impl Transactions {
    /// Begins a transaction.
    pub(crate) fn declare(&mut self, key: Key, limits: &Limits) -> Result<(), TransactionError> {
        // Checked first: a client that is refused gets no entry in the tables.
        if self.clients.get(&key.0).map_or(0, |usage| usage.open) >= limits.open {
            let limit = limits.open;
            return Err(TransactionError::LimitReached { what: "open transactions per connection", limit });
        }
        if self.all.contains_key(&key) {
            return Err(TransactionError::AlreadyDeclared);
        }
        self.clients.entry(key.0).or_default().open += 1;
        let cost = Cost::default();
        self.all.insert(
            key,
            Transaction {
                phase: Phase::Open,
                work: Vec::new(),
                scheduled: BTreeMap::new(),
                cost,
                deadline: Timestamp::MAX,
            },
        );
        Ok(())
    }

    /// Whether an operation of this cost may join the transaction.
    pub(crate) fn check(&self, key: Key, more: Cost, limits: &Limits) -> Result<(), TransactionError> {
        let transaction = self.all.get(&key).ok_or(TransactionError::Unknown)?;
        transaction.phase.check()?;
        let cost = transaction.cost;
        if cost.in_tier + more.in_tier > limits.messages {
            return Err(TransactionError::TooManyMessages { limit: limits.messages });
        }
        let reached = |what, limit| Err(TransactionError::LimitReached { what, limit });
        if cost.settlements + more.settlements > limits.settlements {
            return reached("settlements in a transaction", limits.settlements);
        }
        let held = self.clients.get(&key.0).map_or(0, |usage| usage.bytes);
        if held.saturating_add(more.bytes) > limits.client_bytes {
            return reached("bytes in the open transactions of a connection", limits.client_bytes);
        }
        if self.bytes.saturating_add(more.bytes) > limits.all_bytes {
            return reached("bytes in all open transactions", limits.all_bytes);
        }
        Ok(())
    }

    /// Adds what [`Self::check`] has allowed. The transaction's time runs from its first operation.
    pub(crate) fn add(&mut self, key: Key, work: Work, cost: Cost, deadline: Timestamp) {
        let Some(transaction) = self.all.get_mut(&key) else { return };
        if transaction.deadline == Timestamp::MAX {
            transaction.deadline = deadline;
            self.deadlines.insert((deadline, key));
        }
        transaction.cost.messages += cost.messages;
        transaction.cost.in_tier += cost.in_tier;
        transaction.cost.settlements += cost.settlements;
        transaction.cost.bytes += cost.bytes;
        self.bytes += cost.bytes;
        self.clients.entry(key.0).or_default().bytes += cost.bytes;
        let place = transaction.work.len();
        match &work {
            Work::Settle(settlement) => {
                let LockRef { queue, sequence, lock } = settlement.lock;
                self.enlisted.insert((queue, sequence), (lock, key, place));
            }
            Work::Schedule { queue, numbers, .. } => {
                transaction.scheduled.extend(numbers.iter().map(|number| ((*queue, *number), place)));
            }
            Work::Publish { .. } | Work::Cancel { .. } | Work::SetState { .. } => {}
        }
        transaction.work.push(work);
    }

    /// Operations of a transaction so far.
    pub(crate) fn work(&self, key: Key) -> &[Work] {
        self.all.get(&key).map_or(&[], |transaction| &transaction.work)
    }

    /// Refuses what waits for a transaction.
    pub(crate) fn check_not_in_use(&self, lock: LockRef) -> Result<(), SettleError> {
        if self.holds(lock) {
            return Err(TransactionError::InUse.into());
        }
        Ok(())
    }

    /// Whether the settlement under this lock waits for a transaction.
    pub(crate) fn holds(&self, LockRef { queue, sequence, lock }: LockRef) -> bool {
        !self.enlisted.is_empty()
            && self.enlisted.get(&(queue, sequence)).is_some_and(|(enlisted, ..)| *enlisted == lock)
    }

    /// Whether this very settlement is in this transaction already.
    pub(crate) fn repeats(&self, key: Key, lock: LockRef, outcome: &Outcome) -> bool {
        let LockRef { queue, sequence, lock } = lock;
        let found = self.enlisted.get(&(queue, sequence)).filter(|(held, by, _)| (*held, *by) == (lock, key));
        let work = found.and_then(|(.., place)| self.work(key).get(*place));
        matches!(work, Some(Work::Settle(settlement)) if settlement.outcome == *outcome)
    }

    /// Whether a transaction would schedule the message with this number.
    pub(crate) fn schedules(&self, key: Key, queue: QueueId, number: SequenceNumber) -> bool {
        self.all.get(&key).is_some_and(|transaction| transaction.scheduled.contains_key(&(queue, number.0)))
    }

    /// A transaction schedules these messages no more. Says how many messages were looked at: those that were scheduled
    /// together with one of them.
    pub(crate) fn unschedule(&mut self, key: Key, queue: QueueId, cancelled: &[SequenceNumber]) -> u64 {
        let Some(Transaction { work, scheduled, .. }) = self.all.get_mut(&key) else { return 0 };
        let places: BTreeSet<usize> =
            cancelled.iter().filter_map(|number| scheduled.remove(&(queue, number.0))).collect();
        let mut visited = 0;
        for place in places {
            let Some(Work::Schedule { messages, numbers, .. }) = work.get_mut(place) else { continue };
            visited += numbers.len() as u64;
            let stays = |number: &u64| scheduled.contains_key(&(queue, *number));
            let mut kept = numbers.iter().map(stays);
            messages.retain(|_| kept.next().unwrap_or(true));
            numbers.retain(stays);
        }
        visited
    }

    /// Changes the fate of a lock when its transaction rolls back. A delivery that counts as failed does so in any
    /// case.
    pub(crate) fn set_on_rollback(&mut self, lock: LockRef, on_rollback: UnsettledPolicy) {
        let LockRef { queue, sequence, lock } = lock;
        let found = self.enlisted.get(&(queue, sequence)).filter(|(held, ..)| *held == lock);
        let work = found.and_then(|(_, key, place)| self.all.get_mut(key)?.work.get_mut(*place));
        if let Some(Work::Settle(settlement)) = work
            && settlement.on_rollback != UnsettledPolicy::Fail
        {
            settlement.on_rollback = on_rollback;
        }
    }

    /// An operation was refused: nothing of the transaction will be done. Says what it would have done.
    pub(crate) fn fail(&mut self, key: Key) -> Vec<Work> {
        self.end(key, Phase::Failed)
    }

    /// Forgets a transaction and says what it would do.
    pub(crate) fn discharge(&mut self, key: Key) -> Result<Vec<Work>, TransactionError> {
        let phase = self.all.get(&key).ok_or(TransactionError::Unknown)?.phase;
        let work = self.end(key, Phase::Failed);
        self.all.remove(&key);
        if let Some(usage) = self.clients.get_mut(&key.0) {
            usage.open -= 1;
            if usage.open == 0 {
                self.clients.remove(&key.0);
            }
        }
        phase.check().map(|()| work)
    }

    /// When the first transaction runs out of time.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends a transaction whose time is over, and says what it would have done.
    pub(crate) fn time_out(&mut self, now: Timestamp) -> Option<Vec<Work>> {
        let (_, key) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
        Some(self.end(key, Phase::TimedOut))
    }

    /// The same of one transaction.
    pub(crate) fn time_out_of(&mut self, key: Key, now: Timestamp) -> Option<Vec<Work>> {
        self.all.get(&key).filter(|transaction| transaction.deadline <= now)?;
        Some(self.end(key, Phase::TimedOut))
    }

    /// The transactions of one client.
    pub(crate) fn of(&self, client: ClientId) -> Vec<Key> {
        let keys = self.all.range((client, TransactionId(0))..=(client, TransactionId(u64::MAX)));
        keys.map(|(key, _)| *key).collect()
    }

    /// Number of open transactions.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes that all of them hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes everything out of a transaction.
    fn end(&mut self, key: Key, phase: Phase) -> Vec<Work> {
        let Some(transaction) = self.all.get_mut(&key) else { return Vec::new() };
        if transaction.phase == Phase::Open {
            transaction.phase = phase;
        }
        self.deadlines.remove(&(transaction.deadline, key));
        transaction.deadline = Timestamp::MAX;
        let bytes = std::mem::take(&mut transaction.cost).bytes;
        self.bytes -= bytes;
        if let Some(usage) = self.clients.get_mut(&key.0) {
            usage.bytes -= bytes;
        }
        transaction.scheduled.clear();
        let work = std::mem::take(&mut transaction.work);
        for work in &work {
            let Work::Settle(Settlement { lock: LockRef { queue, sequence, .. }, .. }) = work else {
                continue;
            };
            // After a lost lock the message may wait for another transaction by now.
            if self.enlisted.get(&(*queue, *sequence)).is_some_and(|(_, holder, _)| *holder == key) {
                self.enlisted.remove(&(*queue, *sequence));
            }
        }
        work
    }
}

impl Phase {
    fn check(self) -> Result<(), TransactionError> {
        match self {
            Self::Open => Ok(()),
            Self::Failed => Err(TransactionError::Failed),
            Self::TimedOut => Err(TransactionError::TimedOut),
        }
    }
}

#[cfg(test)]
mod tests;
