//! Messages and settlements that are part of a transaction, and what they are answered with.
//!
//! Invariant: what the core has taken into a transaction is answered with that transaction and the outcome in it; what is
//! refused is answered with a plain `rejected`, which every client understands, and spoils its transaction.

use amqp_codec::performative::{DeliveryState, TxnId};
use amqp_engine::IncomingDelivery;
use broker_core::{Command, LinkId, LockId, NodeKind, Operation, Outcome, PublishTarget};

use crate::{
    asked_kind::asking,
    condition::Refusal,
    coordinator::read_name,
    gateway::Gateway,
    intake::Intake,
    link::{Link, LinkRole, TrackedPublish},
    locks::Held,
    management::{self, Ask},
    requests::{Caller, Pending},
};

impl Gateway {
    /// A message whose transfer names a transaction.
    pub(crate) fn publish_transacted(
        &mut self,
        id: LinkId,
        delivery: &mut IncomingDelivery,
        intake: Intake,
        name: TxnId,
    ) {
        let joined = self.join_publish(id, delivery, &name);
        let (transaction, target, kind) = match joined {
            Ok(joined) => joined,
            Err(refusal) => {
                self.spoil(&name);
                if delivery.settled && refusal == Refusal::NoTransaction {
                    // Nothing else would tell its sender.
                    return self.detach_link(id, &refusal);
                }
                return self.refuse_message(id, delivery, &refusal);
            }
        };
        let Some(messages) = self.take_in(id, delivery, intake) else { return self.spoil(&name) };
        let Some(session) = self.links.get(id.0).map(|link| link.session) else { return };
        let (settled, tag) = (delivery.settled, delivery.tag);
        let ticket = (!settled).then(|| {
            self.note_unanswered(id, &name);
            let delivery = delivery.delivery_id.0;
            let transaction = Some(name);
            let tracked = TrackedPublish { link: id, session, delivery, tag, settled, transaction };
            self.await_answer(Pending::Publish(tracked))
        });
        let operation = Box::new(Operation::Publish { target, messages, ticket });
        self.commands.push(asking(kind, Command::Enlist { transaction, operation }));
    }

    /// A message has joined a transaction, and its sender waits for the answer.
    fn note_unanswered(&mut self, id: LinkId, name: &TxnId) {
        let Some(Link { role: LinkRole::Producer(producer), .. }) = self.links.get_mut(id.0) else { return };
        if let Some(name) = read_name(name) {
            *producer.unanswered.entry(name).or_default() += 1;
        }
    }

    /// The core has answered for a message in a transaction.
    pub(crate) fn note_answered(&mut self, tracked: &TrackedPublish) {
        let Some(name) = tracked.transaction.as_ref().and_then(read_name) else { return };
        if let Some(Link { role: LinkRole::Producer(producer), .. }) = self.links.get_mut(tracked.link.0) {
            producer.answered(name);
        }
    }

    /// What is in this state is not done: nor is the rest of its transaction.
    pub(crate) fn lose_work(&mut self, state: Option<&DeliveryState>) {
        if let Some(DeliveryState::Transactional { txn_id, .. }) = state {
            self.spoil(txn_id);
        }
    }

    /// The transaction that a message joins, and where it goes.
    fn join_publish(
        &mut self,
        id: LinkId,
        delivery: &IncomingDelivery,
        name: &TxnId,
    ) -> Result<(broker_core::TransactionId, PublishTarget, Option<NodeKind>), Refusal> {
        if !self.knows_transaction(name) {
            return Err(Refusal::NoTransaction);
        }
        let (path, kind) = self.destination(id, delivery)?;
        let link = self.links.get(id.0).ok_or(Refusal::Unexpected)?;
        let LinkRole::Producer(producer) = &link.role else { return Err(Refusal::Unexpected) };
        let (bytes, limit) = (delivery.payload.len() as u64, producer.max_message_bytes);
        if bytes > limit {
            return Err(Refusal::TooLarge { bytes, limit });
        }
        let queue = producer.queue;
        let via = producer.via.clone();
        let entity = via.as_ref().map_or_else(|| path.entity.clone(), |via| via.entity.clone());
        let transaction = self.transaction(name, id, &entity)?;
        let auto_create = self.config.auto_create;
        let target = match (queue, via) {
            (_, Some(through)) => PublishTarget::Through { path, through },
            (Some(queue), None) => PublishTarget::Queue(queue),
            (None, None) => PublishTarget::Path { path, auto_create },
        };
        Ok((transaction, target, kind))
    }

    /// A receiver has settled a delivery, in a transaction which exists.
    pub(crate) fn settle_transacted(&mut self, name: &TxnId, held: &Held, lock: LockId, outcome: Outcome) {
        let entity = self.links.get(held.consumer.0).map(|link| link.place().to_owned()).unwrap_or_default();
        let Ok(transaction) = self.transaction(name, held.consumer, &entity) else { return self.spoil(name) };
        let (queue, sequence) = (held.queue, held.sequence);
        let operation = Operation::Settle { queue, sequence, lock, outcome, settled: true, ticket: None };
        self.commands.push(Command::Enlist { transaction, operation: Box::new(operation) });
    }

    /// Gives a request to the core, as part of the transaction that it names if it can be one. What cannot is done at
    /// once, but that which takes messages away is refused in a transaction: a rollback would not bring them back.
    pub(crate) fn ask(
        &mut self,
        caller: Caller,
        operation: management::Operation,
        ask: Ask,
        in_transaction: bool,
    ) {
        let transaction = caller.transaction.clone();
        let entity = caller.node.place().to_owned();
        let ticket = self.await_answer(Pending::Request(Box::new(caller), operation));
        let command = ask(ticket);
        self.note_subject(ticket, &command);
        let takes_away =
            matches!(command, Command::ReceiveDeferred { delete: true, .. } | Command::DeleteMessages { .. });
        if in_transaction && takes_away {
            return self.on_request_refused(ticket, &Refusal::NotInTransaction);
        }
        let Some((link, name)) = transaction else { return self.give(command) };
        let operation = match command {
            Command::SettleByToken { path, session, tokens, outcome, ticket } => {
                Operation::SettleByToken { path, session, tokens, outcome, ticket }
            }
            Command::Schedule { path, messages, ticket } => Operation::Schedule { path, messages, ticket },
            Command::CancelScheduled { path, sequences, ticket } => {
                Operation::CancelScheduled { path, sequences, ticket }
            }
            Command::SetSessionState { path, session, state, ticket } => {
                Operation::SetSessionState { path, session, state, ticket }
            }
            command => return self.give(command),
        };
        match self.transaction(&name, link, &entity) {
            Ok(transaction) => {
                self.commands.push(Command::Enlist { transaction, operation: Box::new(operation) });
            }
            Err(refusal) => self.on_request_refused(ticket, &refusal),
        }
    }

    /// Gives the core what a request asks for, when it is its turn.
    fn give(&mut self, command: Command) {
        match command {
            Command::Peek { ticket, .. } | Command::ReceiveDeferred { ticket, .. } => {
                self.look_up(ticket, command);
            }
            command => self.commands.push(command),
        }
    }
}

/// An outcome that waits for a transaction.
pub(crate) fn inside(name: &TxnId, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional { txn_id: name.clone(), outcome: Some(Box::new(outcome)) }
}
