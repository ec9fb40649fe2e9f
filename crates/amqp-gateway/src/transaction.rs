//! Transactions of one connection that are not discharged.
//!
//! Invariant: a name stands for one transaction of this connection from its declaration until its discharge; when the
//! link that declared it goes, it is rolled back.

pub(crate) mod coordinator;
pub(crate) mod enlisted;
pub(crate) mod via_entity;

use std::collections::BTreeMap;

use amqp_codec::performative::{DeliveryState, TxnId};
use broker_core::{Command, LinkId, TransactionId};

use self::enlisted::EnlistedDeliveries;
use crate::{condition::Refusal, correlation::SessionNumber, cx::Cx, dialect::Dialect, link::Link};

/// The transactions of a connection that are not discharged.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    begun: BTreeMap<u128, OpenTransaction>,
    next: u64,
    /// Deliveries that their receivers have not settled.
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

impl Transactions {
    /// A link declares a transaction under this name.
    pub(crate) fn declare(
        &mut self,
        name: u128,
        coordinator: LinkId,
        session: SessionNumber,
    ) -> TransactionId {
        let number = TransactionId(self.next);
        self.next += 1;
        self.begun.insert(name, OpenTransaction { number, coordinator, session, entity: None });
        number
    }

    /// The core has not declared a transaction.
    pub(crate) fn on_declaration_refused(&mut self, name: u128) {
        self.begun.remove(&name);
    }

    /// A transaction is to end: it takes no further operation.
    pub(crate) fn discharge(&mut self, name: &TxnId) -> Option<(u128, TransactionId)> {
        let name = read_name(name)?;
        Some((name, self.begun.remove(&name)?.number))
    }

    /// Whether a transaction of this name is open.
    pub(crate) fn knows(&self, name: &TxnId) -> bool {
        read_name(name).is_some_and(|name| self.begun.contains_key(&name))
    }

    /// The open transaction that a delivery names.
    pub(crate) fn named_by(&self, state: Option<&DeliveryState>) -> Option<TxnId> {
        match state {
            Some(DeliveryState::Transactional { txn_id, .. }) if self.knows(txn_id) => Some(txn_id.clone()),
            _ => None,
        }
    }

    /// The transaction that an operation on `entity` over `link` names. Service Bus keeps a transaction to one entity,
    /// unless everything of it goes over one session (cross-entity transactions) or through that entity (send via).
    pub(crate) fn join(
        &mut self,
        name: &TxnId,
        link: &Link,
        entity: &str,
        cx: &mut Cx,
    ) -> Result<TransactionId, Refusal> {
        let begun = read_name(name).and_then(|name| self.begun.get_mut(&name));
        let begun = begun.ok_or(Refusal::NoTransaction)?;
        if link.dialect == Dialect::ServiceBus && link.session != begun.session {
            let entity = via_entity::root(entity);
            if *begun.entity.get_or_insert_with(|| entity.clone()) != entity {
                mark_rollback_only(begun.number, cx);
                return Err(Refusal::SeveralEntities);
            }
        }
        Ok(begun.number)
    }

    /// The gateway refuses an operation of a transaction, so nothing of it may be done.
    pub(crate) fn mark_rollback_only(&self, name: &TxnId, cx: &mut Cx) {
        if let Some(name) = read_name(name) {
            self.mark_named_rollback_only(name, cx);
        }
    }

    /// The same of a transaction whose name was read.
    pub(crate) fn mark_named_rollback_only(&self, name: u128, cx: &mut Cx) {
        if let Some(begun) = self.begun.get(&name) {
            mark_rollback_only(begun.number, cx);
        }
    }

    /// A delivery in this state was lost, so its transaction can only roll back.
    pub(crate) fn on_work_lost(&self, state: Option<&DeliveryState>, cx: &mut Cx) {
        if let Some(DeliveryState::Transactional { txn_id, .. }) = state {
            self.mark_rollback_only(txn_id, cx);
        }
    }

    /// A coordinator link is gone: what it declared is rolled back.
    pub(crate) fn on_coordinator_gone(&mut self, coordinator: LinkId, cx: &mut Cx) {
        let Self { begun, enlisted, .. } = self;
        begun.retain(|name, begun| {
            let stays = begun.coordinator != coordinator;
            if !stays {
                // Nobody has settled one of these: that is known of discharged transactions only.
                enlisted.end(*name);
                cx.commands.push(Command::Discharge { transaction: begun.number, fail: true, ticket: None });
            }
            stays
        });
    }
}

fn mark_rollback_only(transaction: TransactionId, cx: &mut Cx) {
    cx.commands.push(Command::FailTransaction { transaction });
}

/// The name that the wire's bytes are.
pub(crate) fn read_name(name: &TxnId) -> Option<u128> {
    Some(u128::from_be_bytes(name.as_bytes()[..].try_into().ok()?))
}

/// A name as the wire has it.
pub(crate) fn wire_name(name: u128) -> TxnId {
    TxnId::from(&name.to_be_bytes()[..])
}

/// An outcome that waits for a transaction.
pub(crate) fn inside(name: &TxnId, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional { txn_id: name.clone(), outcome: Some(Box::new(outcome)) }
}
