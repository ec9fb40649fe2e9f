//! Transactional sends and settlements, and their answers.
//!
//! Invariant: what the core has taken into a transaction is answered with that transaction and the outcome in it; what is
//! refused is answered with a plain `rejected`, which every client understands, and spoils its transaction.

use amqp_codec::performative::{DeliveryState, TxnId};
use amqp_engine::IncomingDelivery;
use broker_core::{Command, LinkId, LockId, NodeKind, Operation, Outcome, PublishTarget};

use crate::{
    condition::Refusal,
    coordinator::read_name,
    gateway::Gateway,
    link::{Link, LinkRole, TrackedPublish},
    management::{self, CommandBuilder},
    message_parse::ParseOptions,
    requested_kind::asking,
    requests::{Caller, Pending},
    unsettled::UnsettledDelivery,
};

impl Gateway {
    /// A message whose transfer names a transaction.
    pub(crate) fn publish_transacted(
        &mut self,
        id: LinkId,
        delivery: &mut IncomingDelivery,
        options: ParseOptions,
        name: TxnId,
    ) {
        let joined = self.join_publish(id, delivery, &name);
        let (transaction, target, kind) = match joined {
            Ok(joined) => joined,
            Err(refusal) => {
                self.mark_rollback_only(&name);
                if delivery.settled && refusal == Refusal::NoTransaction {
                    // Nothing else would tell its sender.
                    return self.detach_link(id, &refusal);
                }
                return self.refuse_message(id, delivery, &refusal);
            }
        };
        let Some(messages) = self.take_in(id, delivery, options) else {
            return self.mark_rollback_only(&name);
        };
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

    /// A delivery in this state was lost, so its transaction can only roll back.
    pub(crate) fn on_enlisted_work_lost(&mut self, state: Option<&DeliveryState>) {
        if let Some(DeliveryState::Transactional { txn_id, .. }) = state {
            self.mark_rollback_only(txn_id);
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
            (_, Some(via)) => PublishTarget::Via { path, via },
            (Some(queue), None) => PublishTarget::Queue(queue),
            (None, None) => PublishTarget::Path { path, auto_create },
        };
        Ok((transaction, target, kind))
    }

    /// A receiver has settled a delivery, in a transaction which exists.
    pub(crate) fn settle_transacted(
        &mut self,
        name: &TxnId,
        entry: &UnsettledDelivery,
        lock: LockId,
        outcome: Outcome,
    ) {
        let entity =
            self.links.get(entry.consumer.0).map(|link| link.entity_name().to_owned()).unwrap_or_default();
        let Ok(transaction) = self.transaction(name, entry.consumer, &entity) else {
            return self.mark_rollback_only(name);
        };
        let (queue, sequence) = (entry.queue, entry.sequence);
        let operation = Operation::Settle { queue, sequence, lock, outcome, settled: true, ticket: None };
        self.commands.push(Command::Enlist { transaction, operation: Box::new(operation) });
    }

    /// Gives a request to the core, as part of the transaction that it names if it can be one. What cannot is done at
    /// once, but that which takes messages away is refused in a transaction: a rollback would not bring them back.
    pub(crate) fn ask(
        &mut self,
        caller: Caller,
        operation: management::Operation,
        ask: CommandBuilder,
        in_transaction: bool,
    ) {
        let transaction = caller.transaction.clone();
        let entity = caller.node.entity_name().to_owned();
        let ticket = self.await_answer(Pending::Request(Box::new(caller), operation));
        let command = ask(ticket);
        self.record_audit_subject(ticket, &command);
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
                self.request_large_reply(ticket, command);
            }
            command => self.commands.push(command),
        }
    }
}

/// An outcome that waits for a transaction.
pub(crate) fn inside(name: &TxnId, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional { txn_id: name.clone(), outcome: Some(Box::new(outcome)) }
}
