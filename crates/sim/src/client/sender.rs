//! A link that sends to one target.
//!
//! Invariant: the model knows a message before the wire does.

use amqp_codec::performative::{Attach, DeliveryState, Detach, Source, Target};
use amqp_codec::types::Role;

use bytes::Bytes;

use super::amqp_session::{AmqpSession, Batched, ClientContext, PendingDelivery, check_departure};
use crate::{
    model::{EntityIndex, Incarnation, Incarnations, SendGroupId},
    plan::SendTarget,
};

const UNANSWERED_MAX: usize = 40;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LinkState {
    Closed,
    /// The first entity that it may find.
    Attaching(Incarnation),
    /// The broker has refused the attach, and is about to detach.
    Refused,
    /// Which entity it has found.
    Open(Incarnations),
}

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) handle: u32,
    pub(super) target: SendTarget,
    link_state: LinkState,
}

impl Sender {
    /// A link that is being attached.
    pub(super) fn new(
        amqp: &mut AmqpSession,
        handle: u32,
        target: SendTarget,
        cx: &ClientContext<'_>,
    ) -> Self {
        let mut sender = Self { handle, target, link_state: LinkState::Closed };
        sender.attach(amqp, cx);
        sender
    }

    /// Asks for the link, where there is none.
    pub(super) fn attach(&mut self, amqp: &mut AmqpSession, cx: &ClientContext<'_>) {
        if self.link_state != LinkState::Closed {
            return;
        }
        let address = cx.topology.target_address(self.target);
        let mut attach = Attach::new(amqp.name(self.handle), self.handle, Role::Sender);
        attach.source = Some(Source::new("here"));
        attach.target = Some(Target::new(address.as_str()));
        attach.initial_delivery_count = Some(0);
        amqp.attach(attach);
        let first = self.entity().map_or(0, |entity| cx.model.lifetimes.first_incarnation(entity));
        self.link_state = LinkState::Attaching(first);
    }

    fn entity(&self) -> Option<EntityIndex> {
        if let SendTarget::Queue(entity) = self.target { Some(entity) } else { None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.link_state, LinkState::Open(_))
    }

    pub(super) fn on_attach(&mut self, attach: &Attach, cx: &ClientContext<'_>) -> Result<(), String> {
        let LinkState::Attaching(first) = self.link_state else {
            return Err("an attach that nobody asked for".into());
        };
        self.link_state = match self.entity() {
            _ if attach.target.is_none() && cx.topology.is_recreated_target(self.target) => {
                LinkState::Refused
            }
            _ if attach.target.is_none() => return Err("the broker refused the link".into()),
            Some(entity) => LinkState::Open(cx.model.lifetimes.incarnations_since(entity, first)),
            None => LinkState::Open(Incarnations::default()),
        };
        Ok(())
    }

    /// The broker has detached the link, because its entity is gone.
    pub(super) fn on_detach(
        &mut self,
        detach: &Detach,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        let Some(entity) = self.entity().filter(|entity| cx.topology.is_recreated(*entity)) else {
            return Err(format!("the broker detached the link: {:?}", detach.error));
        };
        check_departure(detach, self.is_open())?;
        amqp.script.detach(0, self.handle, true);
        amqp.forget(self.handle);
        let LinkState::Open(incarnations) = std::mem::replace(&mut self.link_state, LinkState::Closed) else {
            return Ok(());
        };
        cx.model.count("links detached by deletions");
        cx.model.lifetimes.check_left(entity, incarnations).map_err(|broken| broken.to_string())
    }

    /// Whether the link has outlived its entity.
    pub(super) fn check(&self, cx: &ClientContext<'_>) -> Result<(), String> {
        match (self.entity(), self.link_state) {
            (Some(entity), LinkState::Open(incarnations)) => {
                cx.model.lifetimes.check_link(entity, incarnations).map_err(|broken| broken.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Which entity what is sent can reach.
    fn incarnations(&self) -> Option<Incarnations> {
        if let (Some(_), LinkState::Open(incarnations)) = (self.entity(), self.link_state) {
            Some(incarnations)
        } else {
            None
        }
    }

    /// Some messages, each by itself.
    pub(super) fn publish(&self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        for _ in 0..=cx.rng.below(6) {
            if amqp.unanswered.len() >= UNANSWERED_MAX {
                return;
            }
            let (group, payload) = self.repeat(cx).unwrap_or_else(|| self.fresh(cx));
            let waiting = (!cx.rng.chance(10)).then_some(PendingDelivery::Sent(group));
            amqp.transfer(self.handle, None, &payload, waiting);
        }
    }

    fn fresh(&self, cx: &mut ClientContext<'_>) -> (SendGroupId, Bytes) {
        let group = cx.model.send_groups.begin();
        let payload = cx.new_message(group, self.target, None, (self.incarnations(), Batched::No));
        if cx.topology.drops_duplicates(self.target) {
            cx.model.repeats.push((self.target, group, payload.clone()));
        }
        (group, payload)
    }

    /// Something that was sent before, where that changes nothing.
    fn repeat(&self, cx: &mut ClientContext<'_>) -> Option<(SendGroupId, Bytes)> {
        if !cx.topology.drops_duplicates(self.target) || cx.rng.chance(70) {
            return None;
        }
        let index = cx.index(cx.model.repeats.len().max(1));
        let (target, group, payload) = cx.model.repeats.get(index)?.clone();
        let again = target == self.target && cx.model.send_groups.sending_again(group);
        if again {
            cx.model.count("duplicates sent");
        }
        again.then_some((group, payload))
    }

    /// A message in a transaction.
    pub(super) fn enlist_send(
        &self,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
        group: SendGroupId,
        state: DeliveryState,
    ) {
        let payload = cx.new_message(group, self.target, None, (self.incarnations(), Batched::Yes));
        let waiting = (!cx.rng.chance(10)).then_some(PendingDelivery::Enlisted);
        amqp.transfer(self.handle, Some(state), &payload, waiting);
    }
}
