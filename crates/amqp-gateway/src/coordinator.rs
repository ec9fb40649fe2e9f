//! Coordinator links, and the transactions that they declared.
//!
//! Invariant: a name stands for one transaction of this connection from its declaration until its discharge; when the
//! link that declared it goes, it is rolled back.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::{Attach, Declare, DeliveryState, Discharge, Target, TxnId},
    raw::RawValue,
    sections::Sections,
    types::Symbol,
};
use amqp_engine::{AttachReply, IncomingDelivery, LinkKey};
use broker_core::{Command, CommitError, LinkId, Operation, Ticket, TransactionId};

use crate::{
    attach::{NODE_MESSAGE_BYTES, REQUEST_CREDIT},
    attach_request::takes_rejected,
    condition::Refusal,
    correlation::{Correlation, SessionNumber},
    enlisted::EnlistedDeliveries,
    gateway::Gateway,
    link::LinkRole,
    requests::Pending,
    settlement_rules::{Dialect, WireOutcome},
};

/// Capabilities of the coordinator (transactions 4.5.1).
const CAPABILITIES: [&str; 3] =
    ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];

/// The transactions of a connection that are not discharged.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    begun: BTreeMap<u128, OpenTransaction>,
    next: u64,
    /// What their receivers have not settled.
    pub(crate) enlisted: EnlistedDeliveries,
}

/// One of them.
#[derive(Debug)]
struct OpenTransaction {
    /// The core's name for it.
    number: TransactionId,
    /// The link that declared it.
    coordinator: LinkId,
    /// That link's session.
    session: SessionNumber,
    /// The entity that its first operation was on, in lower case, where the client speaks Service Bus.
    entity: Option<Box<str>>,
}

/// A message to the coordinator that waits for the core's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    /// The link it came on.
    link: LinkId,
    session: SessionNumber,
    delivery: u32,
    /// Whether the peer has settled it.
    settled: bool,
}

/// A settlement whose delivery stays open until the core has answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedSettlement {
    /// The session of the delivery.
    pub(crate) session: SessionNumber,
    pub(crate) delivery: u32,
    /// Its outcome, which the answer repeats.
    pub(crate) outcome: WireOutcome,
    /// The transaction; `None` where it is settled outside of one, while one may have it.
    pub(crate) transaction: Option<u128>,
}

impl Transactions {
    fn number(&self, name: &TxnId) -> Option<TransactionId> {
        Some(self.begun.get(&read_name(name)?)?.number)
    }
}

impl Gateway {
    /// The peer attaches a link to the coordinator. Any client may: what it does in a transaction needs the same rights
    /// as outside of one.
    pub(crate) fn attach_coordinator(
        &mut self,
        key: LinkKey,
        attach: &Attach,
        dialect: Dialect,
    ) -> Result<(), Refusal> {
        let role = LinkRole::Coordinator { takes_rejected: takes_rejected(attach) };
        self.add_link(key, attach.name.as_str().into(), dialect, None, role)?;
        let capabilities = CAPABILITIES.map(Symbol::from_static).to_vec();
        let reply = AttachReply {
            source: attach.source.clone(),
            target: Some(Target::Coordinator { capabilities }),
            max_message_size: Some(NODE_MESSAGE_BYTES),
            settles_second: dialect == Dialect::Plain,
            ..AttachReply::default()
        };
        self.engine.accept_link(key, reply);
        self.engine.grant_credit(key, REQUEST_CREDIT);
        Ok(())
    }

    /// The peer declares or discharges a transaction.
    pub(crate) fn on_control(&mut self, id: LinkId, delivery: &IncomingDelivery) {
        let Some(session) = self.links.get(id.0).map(|link| link.session) else { return };
        let control =
            Control { link: id, session, delivery: delivery.delivery_id.0, settled: delivery.settled };
        let body = match body(&delivery.payload) {
            Ok(body) => body,
            Err(refusal) => return self.refuse_control(&control, &refusal),
        };
        if let Ok(declare) = Declare::decode(body) {
            self.declare(&control, &declare);
        } else if let Ok(discharge) = Discharge::decode(body) {
            self.discharge(control, &discharge);
        } else {
            let what = "a coordinator takes declare and discharge, in a body that is a value".to_owned();
            self.refuse_control(&control, &Refusal::Malformed(what));
        }
    }

    fn declare(&mut self, control: &Control, declare: &Declare) {
        if declare.global_id.is_some() {
            return self.refuse_control(control, &Refusal::GlobalTransaction);
        }
        if control.settled {
            // Nobody would learn the name.
            return self.detach_link(control.link, &Refusal::SettledDeclare);
        }
        let name = self.tracking.next_id();
        let number = TransactionId(self.transactions.next);
        self.transactions.next += 1;
        let (coordinator, session) = (control.link, control.session);
        self.transactions.begun.insert(name, OpenTransaction { number, coordinator, session, entity: None });
        let ticket = self.await_answer(Pending::Declare(*control, name));
        self.commands.push(Command::Declare { transaction: number, ticket });
    }

    fn discharge(&mut self, control: Control, discharge: &Discharge) {
        let name = read_name(&discharge.txn_id);
        let begun = name.and_then(|name| Some((name, self.transactions.begun.remove(&name)?)));
        let Some((name, begun)) = begun else {
            return self.refuse_control(&control, &Refusal::NoTransaction);
        };
        let (transaction, fail) = (begun.number, discharge.fail);
        let ticket = Some(self.await_answer(Pending::Discharge(control, name, fail)));
        self.commands.push(Command::Discharge { transaction, fail, ticket });
    }

    /// The core has declared or discharged a transaction.
    pub(crate) fn on_transaction_done(&mut self, ticket: Ticket) {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return };
        match self.pending.remove(&number) {
            Some(Pending::Declare(control, name)) => {
                let state = DeliveryState::Declared { txn_id: TxnId::from(&name.to_be_bytes()[..]) };
                self.settle_received(control.session, control.delivery, state);
            }
            Some(Pending::Discharge(control, name, fail)) => {
                // Whoever reads that the transaction has ended has read what became of its deliveries.
                if fail {
                    self.leave_enlisted(name);
                } else {
                    self.settle_enlisted(name);
                }
                if !control.settled {
                    self.settle_received(control.session, control.delivery, DeliveryState::Accepted);
                }
            }
            _ => {}
        }
    }

    /// The core has not declared a transaction, or not committed it.
    pub(crate) fn on_transaction_refused(&mut self, ticket: Ticket, error: CommitError) {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return };
        let control = match self.pending.remove(&number) {
            Some(Pending::Declare(control, name)) => {
                self.transactions.begun.remove(&name);
                control
            }
            Some(Pending::Discharge(control, name, _)) => {
                self.leave_enlisted(name);
                control
            }
            _ => return,
        };
        self.refuse_control(&control, &Refusal::Commit(error));
    }

    /// Rejects a message to the coordinator, or detaches its link where `rejected` cannot be said.
    fn refuse_control(&mut self, control: &Control, refusal: &Refusal) {
        let Some(link) = self.links.get(control.link.0) else { return };
        let LinkRole::Coordinator { takes_rejected } = link.role else { return };
        if control.settled || !takes_rejected {
            return self.detach_link(control.link, refusal);
        }
        let error = self.error(refusal, "");
        let state = DeliveryState::Rejected(Some(Box::new(error)));
        self.settle_received(control.session, control.delivery, state);
    }

    /// A coordinator link is gone: what it declared is rolled back.
    pub(crate) fn abandon_transactions(&mut self, coordinator: LinkId) {
        let commands = &mut self.commands;
        let Transactions { begun, enlisted, .. } = &mut self.transactions;
        begun.retain(|name, begun| {
            let stays = begun.coordinator != coordinator;
            if !stays {
                // Nobody has settled one of these: that is known of discharged transactions only.
                enlisted.end(*name);
                commands.push(Command::Discharge { transaction: begun.number, fail: true, ticket: None });
            }
            stays
        });
    }

    /// The transaction that an operation on `entity` over `link` names. Service Bus keeps a transaction to one entity,
    /// unless everything of it goes over one session (cross-entity transactions) or through that entity (send via).
    pub(crate) fn transaction(
        &mut self,
        name: &TxnId,
        link: LinkId,
        entity: &str,
    ) -> Result<TransactionId, Refusal> {
        let link = self.links.get(link.0).ok_or(Refusal::Unexpected)?;
        let begun = read_name(name).and_then(|name| self.transactions.begun.get_mut(&name));
        let begun = begun.ok_or(Refusal::NoTransaction)?;
        if link.dialect == Dialect::ServiceBus && link.session != begun.session {
            let entity = root(entity);
            if *begun.entity.get_or_insert_with(|| entity.clone()) != entity {
                let number = begun.number;
                self.mark_number_rollback_only(number);
                return Err(Refusal::SeveralEntities);
            }
        }
        Ok(begun.number)
    }

    /// The gateway refuses an operation of a transaction, so nothing of it may be done.
    pub(crate) fn mark_rollback_only(&mut self, name: &TxnId) {
        if let Some(name) = read_name(name) {
            self.mark_named_rollback_only(name);
        }
    }

    /// The same of a transaction whose name was read.
    pub(crate) fn mark_named_rollback_only(&mut self, name: u128) {
        if let Some(begun) = self.transactions.begun.get(&name) {
            self.mark_number_rollback_only(begun.number);
        }
    }

    fn mark_number_rollback_only(&mut self, transaction: TransactionId) {
        let operation = Box::new(Operation::Refused);
        self.commands.push(Command::Enlist { transaction, operation });
    }

    /// Whether a transaction of this name is open.
    pub(crate) fn knows_transaction(&self, name: &TxnId) -> bool {
        self.transactions.number(name).is_some()
    }
}

/// The name that the wire's bytes are.
pub(crate) fn read_name(name: &TxnId) -> Option<u128> {
    Some(u128::from_be_bytes(name.as_bytes()[..].try_into().ok()?))
}

/// The entity that a transaction counts as one: the topic, for a subscription.
fn root(entity: &str) -> Box<str> {
    let mut entity = entity.to_ascii_lowercase();
    if let Some(end) = entity.find("/subscriptions/") {
        entity.truncate(end);
    }
    entity.into()
}

/// The value in the body of a message, encoded with its descriptor.
fn body(payload: &[u8]) -> Result<&[u8], Refusal> {
    let malformed = |error: &dyn std::fmt::Display| Refusal::Malformed(error.to_string());
    let sections = Sections::scan_tolerant(payload).map_err(|error| malformed(&error))?;
    let body = RawValue::first(sections.body.of(payload)).map_err(|error| malformed(&error))?;
    Ok(body.described().map_or(&[][..], |(_, value)| value.bytes()))
}

#[cfg(test)]
mod tests;
