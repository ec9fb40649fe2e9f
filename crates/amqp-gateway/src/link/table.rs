//! Table of the links of one connection.
//!
//! Invariant: a link is found by its number and by the engine's name for it until it is taken out.

use std::time::{Duration, Instant};

use amqp_engine::{Connection, LinkKey};
use broker_core::{EntityPath, LinkId};
use tracing::debug;

use super::{
    Link, LinkKind, Receiver, Sender,
    claims::{self, ClaimExpiry},
    idle_timeout::IdleLinks,
};
use crate::{condition::Refusal, config::Now, connection::Client, key_index::Index, slab::Slab};

/// The links of one connection, by [`LinkId`].
#[derive(Debug)]
pub(crate) struct LinkTable {
    slots: Slab<Link, 16, 16>,
    /// From the engine's names to ours.
    by_key: Index<LinkKey>,
    /// When the first claim of a link ends.
    pub(crate) claims: ClaimExpiry,
    pub(crate) idle: IdleLinks,
}

impl LinkTable {
    /// Without links.
    pub(crate) fn new() -> Self {
        Self {
            slots: Slab::new(),
            by_key: Index::new(),
            claims: ClaimExpiry::default(),
            idle: IdleLinks::default(),
        }
    }

    /// Adds a link; `None` when there are too many.
    pub(crate) fn insert(&mut self, link: Link, client: &Client) -> Option<LinkId> {
        let key = link.key;
        self.claims.note(&link, client);
        let number = self.slots.insert(link)?;
        self.by_key.insert(key, number);
        Some(LinkId(number))
    }

    /// Takes a link out.
    pub(crate) fn remove(&mut self, id: LinkId) -> Option<Link> {
        let link = self.slots.remove(id.0)?;
        debug!(parent: &link.span, "gone");
        self.by_key.remove(link.key);
        Some(link)
    }

    /// The link that the engine names so.
    #[inline]
    pub(crate) fn find(&mut self, key: LinkKey) -> Option<LinkId> {
        self.by_key.find(key).map(LinkId)
    }

    /// One link.
    #[inline]
    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        self.slots.get(id.0)
    }

    /// One link, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.slots.get_mut(id.0)
    }

    /// Number of links.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// All links.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.slots.iter().map(|(number, link)| (LinkId(number), link))
    }

    /// All links, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.slots.iter_mut()
    }

    /// Links that the broker has not detached.
    pub(crate) fn open(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.iter().filter(|(_, link)| !link.detached_by_broker)
    }

    /// The open links with a claim that does not hold any more, and the reason.
    pub(super) fn lost_claims(&self, client: &Client, now: Now) -> Vec<(LinkId, Refusal)> {
        self.open().filter_map(|(id, link)| Some((id, claims::lost(link, client, now)?))).collect()
    }

    /// Links are gone with their claims: finds when the first of the others ends.
    pub(super) fn find_first_claim_end(&mut self, client: &Client) {
        let slots = &self.slots;
        let open = slots.iter().map(|(_, link)| link).filter(|link| !link.detached_by_broker);
        self.claims.find(open, client);
    }

    /// The links on which nothing has happened for too long; `None` while it is not time to look.
    pub(super) fn check_idle(
        &mut self,
        time_out: Duration,
        engine: &Connection,
        now: Instant,
    ) -> Option<Vec<LinkId>> {
        let links = self.slots.iter().map(|(number, link)| (LinkId(number), link));
        self.idle.check(links, time_out, engine, now)
    }

    /// Idle links are detached: plans the next look.
    pub(super) fn plan_idle_check(&mut self, time_out: Duration, now: Instant) {
        self.idle.plan(self.slots.len() > 0, time_out, now);
    }

    /// The entity or node of a link, as error texts name it.
    pub(crate) fn entity_name(&self, id: LinkId) -> &str {
        self.get(id).map_or("", Link::entity_name)
    }

    /// Largest message that senders of the peer to an entity take, in bytes.
    pub(super) fn largest_sent_to(&self, path: &EntityPath) -> Option<u64> {
        let senders = self.open().filter_map(|(_, link)| match &link.kind {
            LinkKind::Sender(sender) if sender.is_open() => Some(sender),
            _ => None,
        });
        let of_entity = senders
            .filter(|sender| sender.path().is_some_and(|own| own.entity.eq_ignore_ascii_case(&path.entity)));
        of_entity.map(|sender| sender.max_message_bytes()).max()
    }

    /// The session that the receiver of this name was given at this entity.
    pub(crate) fn session_of(&self, receiver: &str, path: &EntityPath) -> Option<&str> {
        let find = |detached| {
            let mut links =
                self.iter().map(|(_, link)| link).filter(|link| link.detached_by_broker == detached);
            links.find_map(|link| match &link.kind {
                LinkKind::Receiver(it) if *link.name == *receiver => it.held_session(path),
                _ => None,
            })
        };
        // One that was detached may have been attached again by the same name.
        find(false).or_else(|| find(true))
    }

    /// Whether the receiver of this name looks on at this entity, and holds no session.
    pub(crate) fn looks_on(&self, receiver: &str, path: &EntityPath) -> bool {
        self.iter().any(|(_, link)| match &link.kind {
            LinkKind::Receiver(it) => *link.name == *receiver && it.looks_on_at(path),
            _ => false,
        })
    }

    /// A link on which the peer sends.
    pub(crate) fn sender_mut(&mut self, id: LinkId) -> Option<&mut Sender> {
        match &mut self.get_mut(id)?.kind {
            LinkKind::Sender(sender) => Some(sender),
            _ => None,
        }
    }

    /// A link on which the peer receives.
    pub(crate) fn receiver_mut(&mut self, id: LinkId) -> Option<&mut Receiver> {
        match &mut self.get_mut(id)?.kind {
            LinkKind::Receiver(receiver) => Some(receiver),
            _ => None,
        }
    }
}
