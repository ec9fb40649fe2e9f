//! Link on which the peer sends messages.
//!
//! Invariant: a message goes to the link's target, or to that of its `to` where the link has none.

use std::{collections::BTreeMap, mem};

use amqp_codec::performative::Attach;
use amqp_engine::IncomingDelivery;
use broker_auth::Right;
use broker_core::{
    Command, EntityPath, Message, NodeKind, PublishError, QueueId, QueueInfo, Ticket, Timestamp,
};

use super::{attach_request::takes_rejected, requested_kind};
use crate::{
    address::{AddressError, Node},
    condition::Refusal,
    cx::Cx,
    dialect::Dialect,
    transfer::message_parse::{self, ParseOptions, RequiredFields},
};

/// A link on which the peer sends messages.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Target entity; `None` for the anonymous terminus.
    path: Option<EntityPath>,
    kind: Option<NodeKind>,
    /// The entity it is sent through; a message never shows there.
    via: Option<EntityPath>,
    /// The store, once the core has opened the link; `None` where it is sent through another one.
    queue: Option<QueueId>,
    /// Optional fields that its entity needs of messages.
    required_fields: RequiredFields,
    /// The attach that waits for the core's answer.
    attach: Option<Box<Attach>>,
    /// Largest message, in bytes.
    max_message_bytes: u64,
    /// Whether the peer understands `rejected`; else a refusal detaches the link.
    takes_rejected: bool,
    /// Messages in transactions that the peer waits for an answer to, by the name of their transaction.
    unanswered: BTreeMap<u128, u32>,
}

impl Sender {
    /// A link that the peer asks for.
    pub(super) fn new(
        attach: Box<Attach>,
        path: Option<EntityPath>,
        via: Option<EntityPath>,
        kind: Option<NodeKind>,
        max_message_bytes: u64,
    ) -> Self {
        Self {
            path,
            kind,
            via,
            queue: None,
            required_fields: RequiredFields::ALL,
            takes_rejected: takes_rejected(&attach),
            attach: Some(attach),
            max_message_bytes,
            unanswered: BTreeMap::new(),
        }
    }

    /// The core has opened the link. No message may be larger than `most` bytes.
    pub(super) fn on_opened(&mut self, queue: &QueueInfo, most: u64) {
        // A send via another entity names both, so the link has no queue of its own.
        self.queue = self.via.is_none().then_some(queue.queue);
        self.required_fields = RequiredFields::of(queue);
        self.max_message_bytes = most;
    }

    /// The attach that is to be answered, and the largest message.
    pub(super) fn accept(&mut self) -> Option<(Box<Attach>, u64)> {
        Some((self.attach.take()?, self.max_message_bytes))
    }

    /// Largest message that it takes, in bytes.
    pub(super) const fn max_message_bytes(&self) -> u64 {
        self.max_message_bytes
    }

    /// Whether its attach is answered.
    pub(super) const fn is_open(&self) -> bool {
        self.attach.is_none()
    }

    /// Target entity; `None` for the anonymous terminus.
    pub(crate) const fn path(&self) -> Option<&EntityPath> {
        self.path.as_ref()
    }

    /// The entity that messages are sent through.
    pub(crate) const fn via(&self) -> Option<&EntityPath> {
        self.via.as_ref()
    }

    /// The entity that messages go to first.
    pub(super) fn first_entity(&self) -> Option<&EntityPath> {
        self.via.as_ref().or(self.path.as_ref())
    }

    /// The store of its messages, where no more than their delivery-id is needed to answer for them.
    pub(crate) fn direct_queue(&self) -> Option<QueueId> {
        self.queue.filter(|_| !self.is_tracked())
    }

    /// Whether the answer to a message must find its link, and not only its delivery-id: for the anonymous
    /// terminus, whose errors name the tag, and where a refusal detaches the link.
    pub(crate) const fn is_tracked(&self) -> bool {
        self.path.is_none() || !self.takes_rejected
    }

    /// Whether the peer understands `rejected`.
    pub(crate) const fn takes_rejected(&self) -> bool {
        self.takes_rejected
    }

    /// Options for parsing its messages.
    pub(crate) const fn parse_options(&self, dialect: Dialect, utc: Timestamp) -> ParseOptions {
        ParseOptions { dialect, utc, required_fields: self.required_fields }
    }

    /// Refuses a message that is too large.
    pub(crate) const fn check_size(&self, delivery: &IncomingDelivery) -> Result<(), Refusal> {
        let (bytes, limit) = (delivery.payload.len() as u64, self.max_message_bytes);
        if bytes > limit { Err(Refusal::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Destination of a message: that of its link, else that of its `to`, which may ask for a kind of node.
    pub(crate) fn destination(
        &self,
        delivery: &IncomingDelivery,
        dialect: Dialect,
        cx: &Cx,
    ) -> Result<(EntityPath, Option<NodeKind>), Refusal> {
        if let Some(path) = &self.path {
            return Ok((path.clone(), self.kind));
        }
        let (to, jms_destination) = message_parse::destination(&delivery.payload).ok_or(Refusal::NoTo)?;
        let bad = |error| Refusal::BadTo { to: to.clone(), error };
        let syntax = cx.addresses(dialect);
        let Node::Entity(path) = syntax.parse(&to).map_err(bad)? else {
            return Err(bad(AddressError::NotAQueue));
        };
        cx.claim(&path, false, Right::Send)?;
        if !syntax.may_name(&to, &path.entity) {
            return Err(Refusal::Publish(PublishError::NotFound(path.entity)));
        }
        Ok((path, requested_kind::of_message(&to, jms_destination, syntax)?))
    }

    /// The command that sends messages of a transaction, whose destination is `path`.
    pub(crate) fn transacted_send(
        &self,
        path: EntityPath,
        auto_create: bool,
        messages: Vec<Message>,
        ticket: Option<Ticket>,
    ) -> Command {
        match (self.queue, self.via.clone()) {
            (_, Some(via)) => Command::PublishVia { path, via, messages, ticket },
            (Some(queue), None) => Command::PublishBatch { queue, messages, ticket },
            (None, None) => Command::PublishTo { path, messages, auto_create, ticket },
        }
    }

    /// A message has joined a transaction, and its sender waits for the answer.
    pub(crate) fn on_enlisted(&mut self, transaction: u128) {
        *self.unanswered.entry(transaction).or_default() += 1;
    }

    /// A message in a transaction is answered.
    pub(crate) fn on_answered(&mut self, transaction: u128) {
        if let Some(count) = self.unanswered.get_mut(&transaction) {
            *count -= 1;
            if *count == 0 {
                self.unanswered.remove(&transaction);
            }
        }
    }

    /// Transactions with messages that will get no answer.
    pub(super) fn take_unanswered(&mut self) -> impl Iterator<Item = u128> + use<> {
        mem::take(&mut self.unanswered).into_keys()
    }
}
