//! Detach of links: by the peer, by the broker, or with their session or connection.
//!
//! A receiver that the broker has detached may not know it yet, or have settled before it did: what it settles until its
//! own detach is answered like anything else. The core says what is still locked.
//!
//! Invariant: a link whose detach is out asks the core for nothing more; what is kept of it goes with the peer's detach, or
//! with its session. A transaction of which the broker's own doing leaves a message unanswered cannot be committed.

use amqp_codec::performative::Error;
use amqp_engine::{LinkKey, Origin, SessionId};
use broker_core::{AttachError, Command, LinkId, SessionError};
use tracing::debug;

use super::{LinkEnd, LinkKind};
use crate::{condition::Refusal, cx::Cx, endpoints::Endpoints, session::SessionTable};

/// Ends the links of one connection.
#[derive(Debug)]
pub(crate) struct Detacher<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
}

impl<'a> Detacher<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints) -> Self {
        Self { cx, ends }
    }

    /// The engine tells that a link is gone.
    pub(crate) fn on_detached(&mut self, key: LinkKey, closed: bool, has_error: bool, by: Origin) {
        let Some(id) = self.ends.links.find(key) else { return };
        let end = LinkEnd::of(closed, has_error);
        match by {
            Origin::Engine => self.detach_keeping_unsettled(id),
            Origin::Peer => self.drop_link_as(id, end, !has_error),
            Origin::Transport => self.drop_link_as(id, end, false),
        }
    }

    /// The peer has detached a link that was detached on our side first.
    pub(crate) fn on_detach_answered(&mut self, key: LinkKey) {
        if let Some(id) = self.ends.links.find(key) {
            self.drop_link(id, true);
        }
    }

    /// A session is over, and all its links with it. The peer ends it in order where it names no error.
    pub(crate) fn on_session_ended(&mut self, id: SessionId, by: Origin, has_error: bool) {
        // Gone first, so that no link cleans up in its table.
        let Some(session) = self.ends.sessions.remove(id) else { return };
        self.ends.transactions.enlisted.end_session(session);
        self.cx.spans.on_session_ended(session);
        let of_session = self.ends.links.iter().filter(|(_, link)| link.session == session);
        let links: Vec<LinkId> = of_session.map(|(link, _)| link).collect();
        for link in links {
            if by == Origin::Engine {
                self.mark_unanswered_rollback_only(link);
            }
            self.drop_link(link, by == Origin::Peer && !has_error);
        }
    }

    /// A peer that closes gives its links up, with the sessions that it holds. One that is lost does not: that it is
    /// gone is told by `disconnected` alone.
    pub(crate) fn on_closed(&mut self, by: Origin, has_error: bool) {
        self.ends.sessions = SessionTable::new();
        let links: Vec<LinkId> = self.ends.links.iter().map(|(link, _)| link).collect();
        for link in links {
            if by == Origin::Peer {
                self.drop_link(link, !has_error);
            } else {
                self.ends.links.remove(link);
            }
        }
    }

    /// The status of the link's entity does not allow it any more.
    pub(crate) fn on_entity_disabled(&mut self, link: LinkId) {
        let entity = self.ends.links.entity_name(link).to_owned();
        self.detach(link, &Refusal::EntityDisabled { entity });
    }

    /// The entity of the link is gone.
    pub(crate) fn on_entity_deleted(&mut self, link: LinkId) {
        let entity = self.ends.links.entity_name(link).to_owned();
        self.detach(link, &Refusal::EntityDeleted { entity });
    }

    /// The entity of the link forwards its messages now.
    pub(crate) fn on_entity_forwards(&mut self, link: LinkId) {
        let entity = self.ends.links.entity_name(link).to_owned();
        self.detach(link, &Refusal::Attach(AttachError::Forwards(entity.into())));
    }

    /// The lock of a receiver's session has ended.
    pub(crate) fn on_session_lost(&mut self, receiver: LinkId) {
        self.detach(receiver, &Refusal::Session(SessionError::LockLost));
    }

    /// Detaches the links whose claim has ended.
    pub(crate) fn drop_expired_claims(&mut self) {
        if self.ends.links.claims.is_due(self.cx.now) {
            self.drop_lost_claims();
        }
    }

    /// Detaches the links whose claim does not hold any more.
    pub(crate) fn drop_lost_claims(&mut self) {
        for (id, refusal) in self.ends.links.lost_claims(&self.cx.client, self.cx.now) {
            self.detach(id, &refusal);
        }
        self.ends.links.find_first_claim_end(&self.cx.client);
    }

    /// Detaches the links on which nothing has happened for too long, if it is time to look.
    pub(crate) fn drop_idle(&mut self) {
        let Some(time_out) = self.cx.config.link_idle_time_out else { return };
        let now = self.cx.now.instant;
        let Some(idle) = self.ends.links.check_idle(time_out, &self.cx.engine, now) else { return };
        for link in idle {
            self.detach(link, &Refusal::Idle { time_out });
        }
        self.ends.links.plan_idle_check(time_out, now);
    }

    /// Detaches a link with an error.
    pub(crate) fn detach(&mut self, id: LinkId, refusal: &Refusal) {
        let Some(link) = self.ends.links.get(id).filter(|link| !link.detached_by_broker) else { return };
        let error = self.cx.error_to(link.dialect, refusal, link.entity_name());
        self.detach_with(id, error);
    }

    /// Detaches a link with an error that is already told.
    pub(crate) fn detach_with(&mut self, id: LinkId, error: Error) {
        let Some(link) = self.ends.links.get(id).filter(|link| !link.detached_by_broker) else { return };
        debug!(parent: &link.span, condition = %error.condition, "detached");
        self.cx.engine.detach(link.key, Some(error));
        self.detach_keeping_unsettled(id);
    }

    /// Transactional sends of this link without an answer will get none, because the broker detaches it: their transactions
    /// must not succeed before the sender knows every outcome (transactions 4.4.1).
    fn mark_unanswered_rollback_only(&mut self, id: LinkId) {
        let Some(sender) = self.ends.links.sender_mut(id) else { return };
        for name in sender.take_unanswered() {
            self.ends.transactions.mark_named_rollback_only(name, self.cx);
        }
    }

    /// Our detach is out: the core is told that the link is gone, and what its peer has not settled stays known.
    fn detach_keeping_unsettled(&mut self, id: LinkId) {
        self.mark_unanswered_rollback_only(id);
        let Some(link) = self.ends.links.get_mut(id) else { return };
        match &mut link.kind {
            LinkKind::Receiver(receiver) if receiver.unsettled() > 0 => receiver.stop_credit(),
            _ => return self.drop_link_as(id, LinkEnd::Failed, false),
        }
        link.detached_by_broker = true;
        self.cx.commands.push(Command::CloseConsumer { consumer: id });
        self.release_dynamic_node(id, LinkEnd::Failed);
    }

    /// Forgets a link and tells the core. `in_order`: the receiver has ended it, and not because of an error.
    fn drop_link(&mut self, id: LinkId, in_order: bool) {
        self.drop_link_as(id, LinkEnd::Detached, in_order);
    }

    /// The same of a link that has ended so.
    fn drop_link_as(&mut self, id: LinkId, end: LinkEnd, in_order: bool) {
        let Some(link) = self.ends.links.remove(id) else { return };
        let ends = link.ends(end == LinkEnd::Closed);
        match link.kind {
            LinkKind::Sender(sender) if sender.path().is_some() => {
                self.cx.commands.push(Command::CloseProducer { producer: id });
            }
            LinkKind::Receiver(receiver) => {
                if receiver.unsettled() > 0
                    && let Some(session) = self.ends.sessions.get_mut(link.session)
                {
                    session.unsettled.forget(id);
                }
                if !link.detached_by_broker {
                    self.cx.commands.push(if in_order {
                        Command::LeaveConsumer { consumer: id }
                    } else {
                        Command::CloseConsumer { consumer: id }
                    });
                }
            }
            LinkKind::Coordinator { .. } => self.ends.transactions.on_coordinator_gone(id, self.cx),
            LinkKind::Sender(_)
            | LinkKind::Request(_)
            | LinkKind::Reply(_)
            | LinkKind::SubscriptionLookup(_) => {}
        }
        if let Some(subscription) = ends {
            self.cx.commands.push(Command::Unsubscribe { subscription });
        }
        self.release_dynamic_node(id, end);
    }

    /// Tells the core where a link no longer exists that has asked for a dynamic node. One that is detached may be attached again.
    fn release_dynamic_node(&mut self, id: LinkId, end: LinkEnd) {
        if let Some(name) = self.ends.dynamic_nodes.on_detached(id)
            && end != LinkEnd::Detached
        {
            self.cx.commands.push(Command::ReleaseDynamicNode { name });
        }
    }
}
