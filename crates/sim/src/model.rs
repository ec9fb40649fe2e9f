//! Reference model: the promises that the broker made to its clients, and checks that it keeps them.
//!
//! Invariant: the model knows only what clients sent and saw. An oracle that fails names the message and the promise.

mod dead_letters;
mod deferral;
mod entity_lifetime;
mod held;
mod incarnation;
mod messages;
mod observed;
mod partition;
mod send_group;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use dead_letters::DeadLetterTargets;
use deferral::Deferral;
pub(crate) use deferral::Lifetime;
use entity_lifetime::EntityLifetimes;
pub(crate) use incarnation::{Incarnation, Incarnations, SendPath};
use messages::{Message, Messages, Removal};
pub(crate) use observed::{
    Broken, CopyId, EntityIndex, Id, Location, ObservedDelivery, SendGroupId, Session, SettlementKind, broken,
};
use partition::Partitions;
use send_group::Sent;
pub(crate) use send_group::{RollbackEffect, SendGroups};
use session::Sessions;

use crate::plan::SendTarget;

/// A message that has had a sequence number, with the incarnation of its entity where that is known.
type Numbered = (CopyId, Option<Incarnation>);

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) messages: Messages,
    pub(crate) send_groups: SendGroups,
    pub(crate) sessions: Sessions,
    pub(crate) lifetimes: EntityLifetimes,
    /// By whose numbers they are: who had them last.
    sequences: BTreeMap<((Location, EntityIndex), u64), Numbered>,
    dead_letter_targets: DeadLetterTargets,
    partitions: Partitions,
    /// Messages of an entity that were perhaps handed out settled to a connection that broke: gone, and no client saw them.
    may_be_lost: BTreeMap<EntityIndex, u64>,
    /// Schedules that the broker has accepted: what they are, and the numbers by which they can be cancelled.
    pub(crate) schedules: Vec<(SendTarget, SendGroupId, Vec<i64>)>,
    /// Messages sent to entities with duplicate detection, which a client may send again.
    pub(crate) repeats: Vec<(SendTarget, SendGroupId, Bytes)>,
    next_id: Id,
    /// Sends may be refused, because the disk is full or the namespace has a limit.
    pub(crate) may_be_full: bool,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) delivered: u64,
    pub(crate) events: BTreeMap<&'static str, u64>,
}

impl Model {
    /// A model that knows the targets of dead letters, and the entities that have partitions.
    pub(crate) fn new(
        dead_letter_targets: BTreeMap<EntityIndex, EntityIndex>,
        partitioned: BTreeSet<EntityIndex>,
    ) -> Self {
        Self {
            dead_letter_targets: DeadLetterTargets::new(dead_letter_targets),
            partitions: Partitions::new(partitioned),
            ..Self::default()
        }
    }

    /// The same model, whose messages have numbers above `first`: those of each namespace, and of each namespace that had its
    /// name before, are told apart.
    pub(crate) fn with_ids_above(mut self, first: Id) -> Self {
        self.next_id = first;
        self
    }

    /// Counts an event for the report.
    pub(crate) fn count(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// A new message goes into a send group, with a copy for each of these entities; its name is the answer.
    pub(crate) fn sending(
        &mut self,
        group: SendGroupId,
        entities: &[(EntityIndex, Option<Session>, Option<Lifetime>)],
        send_path: SendPath,
    ) -> Id {
        self.next_id += 1;
        for (entity, session, lifetime) in entities {
            let target = self.dead_letter_targets.of(*entity);
            let target_state = target.map(|target| self.lifetimes.state(target)).unwrap_or_default();
            let message = Message::new(group, *session, *lifetime);
            let message = message.with_send_path(send_path, self.lifetimes.state(*entity), target_state);
            self.messages.insert((self.next_id, *entity), message);
            self.send_groups.add_message(group, (self.next_id, *entity));
        }
        self.next_id
    }

    /// A transaction is told to complete a message as well. Without its lock it cannot commit any more.
    ///
    /// An operation that the broker refuses undoes all before it, and then what a plain client has settled is free at once:
    /// from here on only the transaction says that no other client has them, and a client that gets one proves that it
    /// cannot commit.
    pub(crate) fn enlisting(
        &mut self,
        group: SendGroupId,
        copy: CopyId,
        holder: u64,
        rollback: RollbackEffect,
    ) -> Result<(), Broken> {
        let message = self.messages.get_mut(copy);
        let locked = message.and_then(|Message { lock, removal, .. }| {
            let lock = lock.as_mut().filter(|lock| lock.holder == holder)?;
            Some((lock, removal))
        });
        let Some((lock, removal)) = locked else { return self.undone(group) };
        *removal = Removal::Completing(Some(group));
        lock.may_end |= rollback == RollbackEffect::Returned;
        self.send_groups.add_completion(group, copy, rollback);
        Ok(())
    }

    /// A transaction is about to end: the locks of what it completes may end with it, but of what was not settled they end
    /// with a commit alone.
    pub(crate) fn ending(&mut self, group: SendGroupId) {
        for copy in self.send_groups.end(group) {
            // Another client may have it by now, whose lock that is.
            if let Some(message) = self.messages.get_mut(copy)
                && message.removal == Removal::Completing(Some(group))
            {
                message.lock = None;
            }
        }
    }

    /// The broker said `accepted`.
    pub(crate) fn accepted(&mut self, group: SendGroupId) -> Result<(), Broken> {
        let known = self.send_groups.get(group);
        if known.is_some_and(|known| known.sent == Sent::Refused) {
            return broken(group, "a transaction that has lost a lock does not commit", &known);
        }
        self.exists(group);
        self.accepted += 1;
        Ok(())
    }

    /// The broker said `rejected`.
    pub(crate) fn refused(&mut self, group: SendGroupId) -> Result<(), Broken> {
        self.refused += 1;
        self.undone(group)
    }

    /// It was rolled back, or never told to commit.
    pub(crate) fn undone(&mut self, group: SendGroupId) -> Result<(), Broken> {
        for copy in self.send_groups.refuse(group)? {
            if let Some(message) = self.messages.get_mut(copy)
                && message.removal == Removal::Completing(Some(group))
            {
                message.removal = Removal::Open;
            }
        }
        Ok(())
    }

    /// It is known to exist: so do all of its messages, and nothing that it completes.
    fn exists(&mut self, group: SendGroupId) {
        let (messages, completes) = self.send_groups.accept(group);
        for copy in completes {
            if let Some(message) = self.messages.get_mut(copy) {
                (message.removal, message.lock) = (Removal::Gone, None);
            }
        }
        for copy in messages {
            let requested = self.lifetimes.state(copy.1).requested;
            if let Some(message) = self.messages.get_mut(copy) {
                message.arrived(requested);
            }
        }
    }

    /// A client sees a delivery. `Ok(false)`: its lock ended while it travelled, so that others may have seen the
    /// message since, and all promises about it with it.
    pub(crate) fn delivered(&mut self, observed: ObservedDelivery) -> Result<bool, Broken> {
        self.delivered += 1;
        match observed.location {
            Location::Home => {}
            Location::FailedForward(_) => self.count("messages kept back"),
            Location::DeadLetterTarget(_) => self.count("dead letters forwarded"),
            Location::Transfer => self.count("dead letters kept back"),
        }
        let Some(message) = self.messages.get(observed.copy()) else {
            return broken(observed.id, "a message arrives only where it belongs", &observed);
        };
        let (group, session, key) = (message.group, message.session, message.key);
        if self.send_groups.on_observed(group, observed.id, observed.now)? {
            self.exists(group);
        }
        if observed.expired {
            self.count("messages that expired");
        }
        let Some(message) = self.messages.get_mut(observed.copy()) else { return Ok(false) };
        message.lifetime.map_or(Ok(()), |lifetime| lifetime.check(&observed))?;
        message.check_incarnation(&observed)?;
        if self.partitions.check(&observed, key)? {
            self.count("numbers of partitions");
        }
        if observed.locked_until.is_some_and(|until| until <= observed.now) {
            // It is not new any more, though: where its session is renewed meanwhile, the others of it go on coming.
            self.passed_by(&observed);
            return Ok(false);
        }
        self.check_message(&observed)?;
        if let Some(session) = session
            && observed.location == Location::Home
            && !observed.dead_letter
        {
            self.sessions.check(&observed, session, &mut self.messages)?;
        }
        if let Some(message) = self.messages.get_mut(observed.copy()) {
            message.take(&observed);
        }
        Ok(true)
    }

    /// A delivery that its client does not take, because its lock has ended.
    fn passed_by(&mut self, observed: &ObservedDelivery) {
        let holding = observed
            .session
            .and_then(|session| self.sessions.holding(observed.entity, session, observed.holder));
        if let Some(message) = self.messages.get_mut(observed.copy()) {
            message.pass_by(observed, holding);
        }
    }

    /// Whether a delivery fits its message, and its number belongs to no other.
    fn check_message(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(observed.copy()) else { return Ok(()) };
        message.check(observed)?;
        let removal = message.removal;
        let number = (observed.location.numbers(observed.entity), observed.sequence);
        let now = (observed.copy(), message.incarnation());
        let before = self.sequences.insert(number, now);
        if before.is_some_and(|before| before.0 != now.0 && before.1.is_some() && before.1 == now.1) {
            return broken(observed.id, "sequence numbers never repeat", &(observed, before));
        }
        // No other client gets what a transaction holds: it has lost the lock, and so it cannot commit.
        if let Removal::Completing(Some(group)) = removal {
            self.undone(group)?;
        }
        let Some(message) = self.messages.get_mut(observed.copy()) else { return Ok(()) };
        let was_held = message.check_held_at_crash(observed)?;
        message.deferral.check(observed)?;
        if was_held {
            self.count("held messages that came again after a crash");
        }
        Ok(())
    }

    /// The broker said that a session is held for longer, with all messages that its holder has.
    pub(crate) fn session_renewed(&mut self, session: (EntityIndex, Session), holder: u64, until: u64) {
        self.count("sessions renewed");
        if self.sessions.renewed(session, holder, until) {
            self.messages.renewed_in_session(session, holder, until);
        }
    }

    /// The holder gives a session back, or has lost it. A transaction that would complete messages of it, and was not told to
    /// commit before, cannot do so any more.
    pub(crate) fn released(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
    ) -> Result<(), Broken> {
        self.sessions.released((entity, session), holder);
        let of_session =
            |other: EntityIndex, message: &Message| other == entity && message.session == Some(session);
        let lost = self.messages.lose_locks(holder, of_session);
        self.lost(lost, "transactions that lost a session")
    }

    /// The broker detaches a receiving link because its entity is gone: what it held in transactions is gone with it.
    pub(crate) fn detached_by_deletion(
        &mut self,
        entity: EntityIndex,
        incarnations: Incarnations,
        holder: u64,
    ) -> Result<(), Broken> {
        self.count("links detached by deletions");
        self.lifetimes.check_left(entity, incarnations)?;
        let of_entity = |home: EntityIndex, message: &Message| message.received_at(home) == entity;
        let lost = self.messages.lose_locks(holder, of_entity);
        self.lost(lost, "transactions that lost an entity")
    }

    /// These transactions have lost a lock. One whose commit was requested before may have committed.
    fn lost(&mut self, groups: Vec<SendGroupId>, event: &'static str) -> Result<(), Broken> {
        let lost: Vec<SendGroupId> =
            groups.into_iter().filter(|group| !self.send_groups.is_ending(*group)).collect();
        for group in lost {
            self.count(event);
            self.undone(group)?;
        }
        Ok(())
    }

    /// Entity to which a message was sent that is received at this one, and its location then.
    pub(crate) fn home(&self, id: Id, at: EntityIndex) -> (EntityIndex, Location) {
        if self.messages.get((id, at)).is_some() {
            return (at, Location::Home);
        }
        let mut homes = self.dead_letter_targets.sources(at);
        let home = homes.find(|entity| self.messages.get((id, *entity)).is_some());
        home.map_or((at, Location::Home), |entity| (entity, Location::DeadLetterTarget(at)))
    }

    /// Deferred messages that a client may request, with their sequence numbers.
    pub(crate) fn to_fetch(&self, entity: EntityIndex) -> Vec<(CopyId, u64)> {
        let here = self.messages.iter().filter(|((_, home), message)| {
            message.received_at(*home) == entity
                && !self.may_be_deleted(*home, message)
                && message.deferral != Deferral::No
                && message.removal != Removal::Gone
        });
        here.filter_map(|(copy, message)| Some((copy, message.sequence?))).collect()
    }

    /// Whether a message that a transaction would complete may have been deleted.
    pub(crate) fn may_have_lost_an_entity(&self, group: SendGroupId) -> bool {
        let group = self.send_groups.get(group);
        let mut completes = group.into_iter().flat_map(|group| &group.completes);
        completes
            .any(|copy| self.messages.get(*copy).is_some_and(|message| self.may_be_deleted(copy.1, message)))
    }

    fn may_be_deleted(&self, entity: EntityIndex, message: &Message) -> bool {
        self.lifetimes.may_have_deleted(entity, message, self.dead_letter_targets.of(entity))
    }

    /// A receive-and-delete connection broke with `credit` left: as many messages may have gone with it (SET-6).
    pub(crate) fn deleter_gone(&mut self, entity: EntityIndex, credit: u32) {
        *self.may_be_lost.entry(entity).or_default() += u64::from(credit);
    }

    /// The broker restarted: locks are volatile.
    pub(crate) fn restarted(&mut self, now: u64) {
        self.messages.restarted(now);
        self.sessions.restarted();
    }

    /// After everything was drained: whether anything accepted is missing, or anything half done.
    pub(crate) fn check_drained(&self, now: u64) -> Result<(), Broken> {
        let mut may_be_lost = self.may_be_lost.clone();
        for ((id, entity), message) in self.messages.iter() {
            if message.has_faded(now) || self.may_be_deleted(entity, message) {
                continue;
            }
            let exists = self.send_groups.must_arrive(message.group);
            let promise = if exists && message.removal == Removal::Open {
                "an accepted message survives"
            } else if self.half_done(message, now) {
                "a transaction that did not commit has completed nothing"
            } else {
                continue;
            };
            let received_at = self
                .dead_letter_targets
                .locations(entity)
                .find(|received_at| may_be_lost.get(received_at).is_some_and(|left| *left > 0));
            let Some(allowed) = received_at.and_then(|received_at| may_be_lost.get_mut(&received_at)) else {
                return broken(id, promise, &(entity, message, self.send_groups.get(message.group)));
            };
            *allowed -= 1;
        }
        Ok(())
    }

    /// Whether a message is gone that only a transaction can have completed of which nothing was ever seen. Something
    /// of it would have been, but for what may have expired or gone with a connection that deletes.
    fn half_done(&self, message: &Message, now: u64) -> bool {
        let Removal::Completing(Some(group)) = message.removal else { return false };
        let Some(known) = self.send_groups.get(group).filter(|known| known.sent == Sent::Unknown) else {
            return false;
        };
        known.messages.iter().any(|copy| {
            let lasts = |message: &Message| !message.has_faded(now) && !self.may_be_deleted(copy.1, message);
            let lasts = self.messages.get(*copy).is_some_and(lasts);
            let mut locations = self.dead_letter_targets.locations(copy.1);
            lasts && !locations.any(|received_at| self.may_be_lost.contains_key(&received_at))
        })
    }
}

#[cfg(test)]
mod tests;
