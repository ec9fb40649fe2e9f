//! Detach of links: by the peer, by the broker, or with their session or connection.
//!
//! A receiver that the broker has detached may not know it yet, or have settled before it did: what it settles until its
//! own detach is answered like anything else. The core says what is still locked.
//!
//! Invariant: a link whose detach is out asks the core for nothing more; what is kept of it goes with the peer's detach, or
//! with its session. A transaction of which the broker's own doing leaves a message unanswered cannot be committed.

use amqp_codec::performative::{DeliveryState, Error};
use amqp_engine::{LinkKey, Origin, SessionId};
use broker_core::{AttachError, Command, LinkId};
use tracing::debug;

use crate::{
    condition::Refusal,
    correlation::SessionNumber,
    gateway::Gateway,
    key_index::Index,
    link::{Consumer, Link, LinkRole, Sessions},
};

impl Gateway {
    /// The engine tells that a link is gone.
    pub(crate) fn on_detached(&mut self, key: LinkKey, closed: bool, by: Origin) {
        let Some(number) = self.by_key.find(key) else { return };
        match by {
            Origin::Engine => self.detach_keeping_unsettled(LinkId(number)),
            Origin::Peer | Origin::Transport => self.drop_link_as(LinkId(number), closed),
        }
    }

    /// The peer has detached a link that was detached on our side first.
    pub(crate) fn on_detach_answered(&mut self, key: LinkKey) {
        if let Some(number) = self.by_key.find(key) {
            self.drop_link(LinkId(number));
        }
    }

    /// A session is over, and all its links with it.
    pub(crate) fn on_session_ended(&mut self, id: SessionId, by: Origin) {
        let Some(number) = self.by_session.find(id) else { return };
        // Gone first, so that no link cleans up in its table.
        self.sessions.remove(number);
        self.transactions.enlisted.end_session(SessionNumber(number));
        self.by_session.remove(id);
        self.trace_session_ended(SessionNumber(number));
        let of_session = self.links.iter().filter(|(_, link)| link.session.0 == number);
        let links: Vec<u32> = of_session.map(|(link, _)| link).collect();
        for link in links {
            if by == Origin::Engine {
                self.mark_unanswered_rollback_only(LinkId(link));
            }
            self.drop_link(LinkId(link));
        }
    }

    /// A peer that closes gives its links up, with the sessions that it holds. One that is lost does not: that it is
    /// gone is told by `disconnected` alone.
    pub(crate) fn on_closed(&mut self, by: Origin) {
        self.sessions = Sessions::new();
        self.by_session = Index::new();
        let links: Vec<u32> = self.links.iter().map(|(link, _)| link).collect();
        for link in links {
            if by == Origin::Peer {
                self.drop_link(LinkId(link));
            } else {
                self.remove_link(LinkId(link));
            }
        }
    }

    /// The status of the link's entity does not allow it any more.
    pub(crate) fn on_entity_disabled(&mut self, link: LinkId) {
        let entity = self.links.get(link.0).map(|link| link.entity_name().to_owned()).unwrap_or_default();
        self.detach_link(link, &Refusal::EntityDisabled { entity });
    }

    /// The entity of the link is gone.
    pub(crate) fn on_entity_deleted(&mut self, link: LinkId) {
        let entity = self.links.get(link.0).map(|link| link.entity_name().to_owned()).unwrap_or_default();
        self.detach_link(link, &Refusal::EntityDeleted { entity });
    }

    /// The entity of the link forwards its messages now.
    pub(crate) fn on_entity_forwards(&mut self, link: LinkId) {
        let entity = self.links.get(link.0).map(|link| link.entity_name().to_owned()).unwrap_or_default();
        self.detach_link(link, &Refusal::Attach(AttachError::Forwards(entity.into())));
    }

    /// Detaches a link with an error.
    pub(crate) fn detach_link(&mut self, id: LinkId, refusal: &Refusal) {
        let Some(link) = self.links.get(id.0).filter(|link| !link.detached_by_broker) else { return };
        let place = link.entity_name().to_owned();
        let error = self.error(refusal, &place);
        self.detach_link_with(id, error);
    }

    /// Detaches a link with an error that is already told.
    pub(crate) fn detach_link_with(&mut self, id: LinkId, error: Error) {
        let Some(link) = self.links.get(id.0).filter(|link| !link.detached_by_broker) else { return };
        debug!(parent: &link.span, condition = %error.condition, "detached");
        self.engine.detach(link.key, Some(error));
        self.detach_keeping_unsettled(id);
    }

    /// Transactional sends of this link without an answer will get none, because the broker detaches it: their transactions
    /// must not succeed before the sender knows every outcome (transactions 4.4.1).
    fn mark_unanswered_rollback_only(&mut self, id: LinkId) {
        let Some(Link { role: LinkRole::Producer(producer), .. }) = self.links.get_mut(id.0) else { return };
        for (name, _) in std::mem::take(&mut producer.unanswered) {
            self.mark_named_rollback_only(name);
        }
    }

    /// Our detach is out: the core is told that the link is gone, and what its peer has not settled stays known.
    fn detach_keeping_unsettled(&mut self, id: LinkId) {
        self.mark_unanswered_rollback_only(id);
        let Some(link) = self.links.get_mut(id.0) else { return };
        match &mut link.role {
            LinkRole::Consumer(consumer) if consumer.unsettled > 0 => consumer.stop_credit(),
            _ => return self.drop_link(id),
        }
        link.detached_by_broker = true;
        self.commands.push(Command::CloseConsumer { consumer: id });
    }

    /// Forgets a link and tells the core.
    pub(crate) fn drop_link(&mut self, id: LinkId) {
        self.drop_link_as(id, false);
    }

    /// The same of a link that the peer has closed for good, or not.
    fn drop_link_as(&mut self, id: LinkId, closed: bool) {
        let Some(link) = self.remove_link(id) else { return };
        let ends = link.role.ends(closed);
        match link.role {
            LinkRole::Producer(producer) if producer.path.is_some() => {
                self.commands.push(Command::CloseProducer { producer: id });
            }
            LinkRole::Consumer(consumer) => {
                if consumer.unsettled > 0
                    && let Some(session) = self.sessions.get_mut(link.session.0)
                {
                    session.unsettled.forget(id);
                }
                if !link.detached_by_broker {
                    self.commands.push(Command::CloseConsumer { consumer: id });
                }
            }
            LinkRole::Coordinator { .. } => self.abandon_transactions(id),
            LinkRole::Producer(_)
            | LinkRole::Requests(_)
            | LinkRole::Replies(_)
            | LinkRole::SubscriptionLookup(_) => {}
        }
        if let Some(subscription) = ends {
            self.commands.push(Command::Unsubscribe { subscription });
        }
    }

    /// Takes a link out of all tables.
    pub(crate) fn remove_link(&mut self, id: LinkId) -> Option<Link> {
        let link = self.links.remove(id.0)?;
        debug!(parent: &link.span, "gone");
        self.by_key.remove(link.key);
        Some(link)
    }

    /// Whether what is said of a departed link's delivery is heard: not where the right that the link lived by has
    /// ended. Says so, where an answer is asked for.
    pub(crate) fn may_settle_after_detach(
        &mut self,
        (session, id): (SessionNumber, u32),
        link: LinkId,
        answered: bool,
    ) -> bool {
        let Some((scope, right)) = self.links.get(link.0).and_then(|link| link.claim.as_ref()) else {
            return true;
        };
        let Some(refusal) = self.lost_claim(scope, *right) else { return true };
        if answered {
            let error = self.error(&refusal, "");
            self.settle_sent(session, id, DeliveryState::Rejected(Some(Box::new(error))));
        }
        false
    }
}

impl Consumer {
    /// Nothing more is wanted, whatever is settled: the link is departed.
    fn stop_credit(&mut self) {
        self.announced = u64::MAX;
        self.drains.clear();
        self.plain_subscription = None;
    }
}
