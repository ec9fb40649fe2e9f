//! A link to the coordinator, and the transaction that is open over it.
//!
//! Invariant: a transaction that was not told to commit is one that must not happen.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Declare, DeliveryState, Discharge, Source, Target, TxnId},
    raw::RawValue,
    types::{Role, Symbol},
};
use bytes::BytesMut;

use super::{
    amqp_session::{AmqpSession, ClientContext, PendingDelivery},
    receiver::Receiver,
    sender::Sender,
};
use crate::model::{Model, RollbackEffect, SendGroupId};

#[derive(Debug)]
enum LinkState {
    Closed,
    Attaching,
    Idle,
    Declaring,
    Open(TxnId, SendGroupId),
    Ending,
    Detaching,
}

#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) handle: u32,
    link_state: LinkState,
}

impl Coordinator {
    pub(super) const fn new(handle: u32) -> Self {
        Self { handle, link_state: LinkState::Closed }
    }

    /// One step of a transaction over these links.
    pub(super) fn act(
        &mut self,
        amqp: &mut AmqpSession,
        (senders, receivers): (&[Sender], &mut [Receiver]),
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        match &self.link_state {
            LinkState::Closed => self.attach(amqp),
            LinkState::Idle => {
                self.control(amqp, |body| Declare::default().encode(body), PendingDelivery::Declared);
                self.link_state = LinkState::Declaring;
            }
            LinkState::Open(name, group) => {
                let (name, group) = (name.clone(), *group);
                match cx.rng.below(12) {
                    0..=2 => enlist_send(&name, group, amqp, senders, cx),
                    3..=6 => return complete(&name, group, amqp, receivers, cx),
                    7..=9 => self.commit(name, group, amqp, cx),
                    _ => {
                        self.give_up(name, group, amqp, cx)?;
                        // Some do not wait for the answer.
                        if matches!(self.link_state, LinkState::Detaching) || cx.rng.chance(50) {
                            receivers.iter_mut().for_each(Receiver::roll_back);
                        }
                    }
                }
            }
            LinkState::Attaching | LinkState::Declaring | LinkState::Ending | LinkState::Detaching => {}
        }
        Ok(())
    }

    fn attach(&mut self, amqp: &mut AmqpSession) {
        let mut attach = Attach::new(amqp.name(self.handle), self.handle, Role::Sender);
        attach.source = Some(Source::new("here"));
        let capabilities = vec![Symbol::from("amqp:local-transactions")];
        attach.target = Some(Target::Coordinator { capabilities });
        attach.initial_delivery_count = Some(0);
        amqp.attach(attach);
        self.link_state = LinkState::Attaching;
    }

    fn control(&self, amqp: &mut AmqpSession, body: impl FnOnce(&mut BytesMut), waiting: PendingDelivery) {
        let mut bytes = BytesMut::new();
        body(&mut bytes);
        if let Ok(value) = RawValue::first(&bytes) {
            let payload = MessageBuilder::new().body_raw(value).build();
            amqp.transfer(self.handle, None, &payload, Some(waiting));
        }
    }

    fn commit(
        &mut self,
        txn_id: TxnId,
        group: SendGroupId,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) {
        cx.model.ending(group);
        let discharge = Discharge { txn_id, fail: false };
        self.control(amqp, |body| discharge.encode(body), PendingDelivery::Discharged(group));
        self.link_state = LinkState::Ending;
    }

    /// Rolls back, or detaches, which is the same.
    fn give_up(
        &mut self,
        txn_id: TxnId,
        group: SendGroupId,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        cx.model.ending(group);
        cx.model.undone(group).map_err(|broken| broken.to_string())?;
        if cx.rng.chance(60) {
            let discharge = Discharge { txn_id, fail: true };
            self.control(amqp, |body| discharge.encode(body), PendingDelivery::RolledBack);
            self.link_state = LinkState::Ending;
        } else {
            cx.model.count("transactions left behind");
            amqp.script.detach(0, self.handle, true);
            self.link_state = LinkState::Detaching;
        }
        Ok(())
    }

    pub(super) fn on_attach(&mut self) {
        self.link_state = LinkState::Idle;
    }

    pub(super) fn on_detach(&mut self) -> Result<(), String> {
        if !matches!(self.link_state, LinkState::Detaching) {
            return Err("the broker detached the coordinator".into());
        }
        self.link_state = LinkState::Closed;
        Ok(())
    }

    /// The answer to a declare or a discharge.
    pub(super) fn on_answer(
        &mut self,
        waiting: PendingDelivery,
        state: Option<&DeliveryState>,
        model: &mut Model,
    ) -> Result<(), String> {
        let accepted = matches!(state, Some(DeliveryState::Accepted));
        self.link_state = match (waiting, state) {
            (PendingDelivery::Declared, Some(DeliveryState::Declared { txn_id })) => {
                LinkState::Open(txn_id.clone(), model.send_groups.begin())
            }
            (PendingDelivery::Discharged(group), _) if accepted => {
                model.count("transactions committed");
                model.accepted(group).map_err(|broken| broken.to_string())?;
                LinkState::Idle
            }
            (PendingDelivery::Discharged(group), _) => {
                model.count("commits refused");
                if model.may_have_lost_an_entity(group) {
                    model.count("commits that a deletion has spoilt");
                }
                model.undone(group).map_err(|broken| broken.to_string())?;
                LinkState::Idle
            }
            (PendingDelivery::RolledBack, _) if accepted => {
                model.count("transactions rolled back");
                LinkState::Idle
            }
            _ => return Err(format!("the coordinator answered {waiting:?} with {state:?}")),
        };
        Ok(())
    }

    /// The connection is gone, and what was open with it.
    pub(super) fn lost(&self, model: &mut Model) {
        if let LinkState::Open(_, group) = &self.link_state {
            model.ending(*group);
            // Nothing of it can have been seen, so there is nothing to find wrong.
            drop(model.undone(*group));
        }
    }
}

fn enlist_send(
    name: &TxnId,
    group: SendGroupId,
    amqp: &mut AmqpSession,
    senders: &[Sender],
    cx: &mut ClientContext<'_>,
) {
    let index = cx.index(senders.len().max(1));
    if let Some(sender) = senders.get(index).filter(|sender| sender.is_open()) {
        let state = DeliveryState::Transactional { txn_id: name.clone(), outcome: None };
        sender.enlist_send(amqp, cx, group, state);
    }
}

fn complete(
    name: &TxnId,
    group: SendGroupId,
    amqp: &mut AmqpSession,
    receivers: &mut [Receiver],
    cx: &mut ClientContext<'_>,
) -> Result<(), String> {
    let in_session = receivers.iter().position(|receiver| receiver.session.is_some() && receiver.has_held());
    let any = cx.index(receivers.len().max(1));
    let index = in_session.filter(|_| cx.rng.chance(80)).unwrap_or(any);
    let Some(receiver) = receivers.get_mut(index).filter(|receiver| receiver.is_open()) else {
        return Ok(());
    };
    let Some((delivery, copy)) = receiver.pick(cx) else {
        receiver.ask(amqp, cx);
        return Ok(());
    };
    let settled = cx.rng.chance(50);
    receiver.enlist(delivery, settled);
    if receiver.session.is_some() {
        cx.model.count("session messages completed in transactions");
    }
    let rollback = match (settled, amqp.service_bus) {
        (false, _) => RollbackEffect::Held,
        (true, false) => RollbackEffect::Returned,
        (true, true) => RollbackEffect::Uncertain,
    };
    let enlisted = cx.model.enlisting(group, copy, amqp.holder, rollback);
    enlisted.map_err(|broken| broken.to_string())?;
    let outcome = Some(Box::new(DeliveryState::Accepted));
    let state = DeliveryState::Transactional { txn_id: name.clone(), outcome };
    amqp.script.disposition(0, delivery, delivery, settled, Some(state));
    // A session that is given up under its transaction takes that along.
    if receiver.session.is_some() && cx.rng.chance(40) { receiver.detach(amqp, cx) } else { Ok(()) }
}
