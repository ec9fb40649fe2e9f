//! Replies to attaches, once the core has opened or refused a link.
//!
//! Invariant: a reply has the peer's own source and target, but for what is not granted.

use broker_auth::Right;
use broker_core::{AttachError, LinkId, QueueInfo, SessionGrant, SessionWanted};
use tracing::debug;

use super::{
    LinkKind, attach::Attacher, attach_request::reply_to, granted, plain_subscription::topic_path,
    session_filter,
};
use crate::condition::Refusal;

impl Attacher<'_> {
    /// The core has opened a link on which the peer sends.
    pub(crate) fn on_sender_opened(&mut self, id: LinkId, queue: &QueueInfo) {
        self.ends.dynamic_nodes.on_opened(id);
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let most = link.dialect.largest_message_to(queue, &self.cx.config);
        let LinkKind::Sender(sender) = &mut link.kind else { return };
        sender.on_opened(queue, most);
        self.accept_sender(id);
    }

    /// The core has opened a link on which the peer receives.
    pub(crate) fn on_receiver_opened(
        &mut self,
        id: LinkId,
        queue: &QueueInfo,
        session: Option<&SessionGrant>,
    ) {
        self.ends.dynamic_nodes.on_opened(id);
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let limit = link.dialect.largest_message_to(queue, &self.cx.config);
        let LinkKind::Receiver(receiver) = &mut link.kind else { return };
        let held = session.map(|grant| grant.id.clone());
        let Some((attach, in_force)) = receiver.on_opened(queue, held) else { return };
        let is_subscriber = receiver.is_subscriber();
        let first = receiver.path().clone();
        debug!(parent: &link.span, "attached");
        if let Some(session) = self.ends.sessions.get_mut(link.session) {
            session.via_entity.on_attached(&first);
        }
        let mut reply = reply_to(&attach, limit, link.dialect);
        reply.source = granted::source(&attach, is_subscriber);
        let mut filter = in_force;
        let named = match session {
            Some(grant) => {
                reply.properties = Some(session_filter::properties(grant));
                Some(grant.id.clone())
            }
            // A link that looks on names a session that nobody has locked for it.
            None => session_filter::requested(&attach).ok().flatten().and_then(|wanted| match wanted {
                SessionWanted::Named(id) => Some(id),
                SessionWanted::Next { .. } => None,
            }),
        };
        if let Some(id) = named {
            filter = attach.source.and_then(|source| session_filter::with_session(source, &id).filter);
        }
        if filter.is_some() {
            reply.source = reply.source.map(|source| source.with_filter(filter));
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
        self.ends.dynamic_nodes.on_refused(id);
        let Some(link) = self.ends.links.remove(id) else { return };
        let refusal = match (&link.kind, error) {
            (LinkKind::SubscriptionLookup(_), AttachError::NotFound(name)) => {
                Refusal::NoSubscription { name: name.into() }
            }
            (_, error) => Refusal::Attach(error),
        };
        debug!(parent: &link.span, condition = refusal.named().condition, "refused");
        let error = self.cx.error_to(link.dialect, &refusal, link.entity_name());
        self.cx.engine.refuse_link(link.key, error);
    }
}
