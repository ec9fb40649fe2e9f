//! Replies to attaches, once the core has opened or refused a link.
//!
//! Invariant: a reply has the peer's own source and target, but for filters that are not applied.

use amqp_codec::{
    performative::Attach,
    raw::{AnnotationValue, RawMap},
    types::Role,
};
use amqp_engine::AttachReply;
use broker_auth::Right;
use broker_core::{AttachError, LinkId, QueueInfo, SessionGrant};
use tracing::debug;

use super::{
    LinkKind,
    attach::Attacher,
    plain_subscription::{UNBOUNDED, topic_path},
    session_filter,
};
use crate::{condition::Refusal, dialect::Dialect};

/// Largest batch that a client is told to make, in bytes, however large one message may be.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";

impl Attacher<'_> {
    /// The core has opened a link on which the peer sends.
    pub(crate) fn on_sender_opened(&mut self, id: LinkId, queue: &QueueInfo) {
        let most = self.cx.config.max_message_bytes;
        let Some(sender) = self.ends.links.sender_mut(id) else { return };
        sender.on_opened(queue, most);
        self.accept_sender(id);
    }

    pub(super) fn accept_sender(&mut self, id: LinkId) {
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::Sender(sender) = &mut link.kind else { return };
        let Some((attach, limit)) = sender.accept() else { return };
        debug!(parent: &link.span, "attached");
        self.cx.engine.accept_link(link.key, reply_to(&attach, limit, link.dialect));
        self.cx.engine.grant_credit(link.key, self.cx.config.credit_window);
    }

    /// The core has opened a link on which the peer receives.
    pub(crate) fn on_receiver_opened(
        &mut self,
        id: LinkId,
        queue: &QueueInfo,
        session: Option<&SessionGrant>,
    ) {
        let limit = queue.max_message_bytes.min(self.cx.config.max_message_bytes);
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::Receiver(receiver) = &mut link.kind else { return };
        let Some((attach, in_force)) = receiver.on_opened(queue, session.is_some()) else { return };
        debug!(parent: &link.span, "attached");
        let mut reply = reply_to(&attach, limit, link.dialect);
        if in_force.is_some() {
            reply.source = attach.source.clone().map(|source| source.with_filter(in_force));
        }
        if let Some(grant) = session {
            reply.source = attach.source.map(|source| session_filter::with_session(source, grant));
            reply.properties = Some(session_filter::properties(grant));
        }
        self.cx.engine.accept_link(link.key, reply);
    }

    /// The core has found the subscription of a lookup.
    pub(crate) fn on_subscriber_found(&mut self, id: LinkId, subscription: Box<str>, topic: &str) {
        if let Err(refusal) = self.cx.claim(&topic_path(topic), false, Right::Listen) {
            let Some(link) = self.ends.links.remove(id) else { return };
            let error = self.cx.error(&refusal, topic);
            return self.cx.engine.refuse_link(link.key, error);
        }
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::SubscriptionLookup(lookup) = &mut link.kind else { return };
        let Some(reply) = lookup.on_found(subscription, topic) else { return };
        self.cx.engine.accept_link(link.key, reply);
    }

    /// The core has refused a link.
    pub(crate) fn on_refused(&mut self, id: LinkId, error: AttachError) {
        let Some(link) = self.ends.links.remove(id) else { return };
        let refusal = match (&link.kind, error) {
            (LinkKind::SubscriptionLookup(_), AttachError::NotFound(name)) => {
                Refusal::NoSubscription { name: name.into() }
            }
            (_, error) => Refusal::Attach(error),
        };
        debug!(parent: &link.span, condition = refusal.named().condition, "refused");
        let error = self.cx.error(&refusal, link.entity_name());
        self.cx.engine.refuse_link(link.key, error);
    }
}

/// The attach that answers one of the peer's.
pub(super) fn reply_to(attach: &Attach, max_message_bytes: u64, dialect: Dialect) -> AttachReply {
    let source = attach.source.as_ref().map(|source| match &source.filter {
        // An answer must not echo a filter that is not applied (AMQP 1.0 messaging 3.5.3).
        Some(filter) if !filter.is_empty() => source.clone().with_filter(None),
        _ => source.clone(),
    });
    let properties = (dialect == Dialect::ServiceBus && attach.role == Role::Sender).then(|| {
        RawMap::with_symbol_keys(&[(
            BATCH_SIZE,
            AnnotationValue::Ulong(max_message_bytes.min(BATCH_BYTES_MAX)),
        )])
    });
    // The limit is one of what the broker accepts. What it sends has no bound: a stored message grows by what the
    // broker adds, and Microsoft.Azure.Amqp closes a link on which a message exceeds this field.
    let max_message_size = if attach.role == Role::Receiver { UNBOUNDED } else { max_message_bytes };
    AttachReply {
        source,
        target: attach.target.clone(),
        max_message_size: Some(max_message_size),
        // The SDKs for Service Bus ask for mode second and wait for a settled answer.
        settles_second: dialect == Dialect::Plain,
        properties,
        ..AttachReply::default()
    }
}
