//! Reference model: the promises that the broker made to its clients, and checks that it keeps them.
//!
//! Invariant: the model knows only what clients sent and saw. An oracle that fails names the message and the promise.

mod dead_letters;
mod deferral;
mod entity_lifetime;
mod held;
mod partition;
mod send_group;
mod session;

use std::{collections::BTreeMap, fmt::Debug};

use bytes::Bytes;

use deferral::Deferral;
pub(crate) use deferral::Lifetime;
use entity_lifetime::DeletionState;
pub(crate) use entity_lifetime::{Incarnation, Incarnations, SendPath};
use held::HeldAtCrash;
use partition::Partitions;
use send_group::SendGroup;
pub(crate) use send_group::{RollbackEffect, SendGroupId};
pub(crate) use session::Session;
use session::Sessions;

use crate::plan::SendTarget;

/// A message's name in the model; it travels in the body.
pub(crate) type Id = u64;
/// Index of an entity from which messages are received.
pub(crate) type EntityIndex = usize;

/// Removal of a message, as far as its receivers know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Removal {
    /// Nobody has finished with it.
    Open,
    /// A completion was sent and not confirmed, perhaps in a transaction: it may be gone or not.
    Completing(Option<SendGroupId>),
    /// The broker confirmed the completion, or handed it out settled: it must never appear again.
    Gone,
}

#[derive(Clone, Debug)]
struct Lock {
    holder: u64,
    until: u64,
    /// It may end before, with a transaction of which its holder has yet to hear that it is undone.
    may_end: bool,
}

/// A message at one entity.
#[derive(Clone, Debug)]
struct Message {
    group: SendGroupId,
    session: Option<Session>,
    removal: Removal,
    /// It may have left its order for the dead letters.
    aside: bool,
    deferral: Deferral,
    lifetime: Option<Lifetime>,
    lock: Option<Lock>,
    held_at_crash: Option<HeldAtCrash>,
    delivery_count: u32,
    sequence: Option<u64>,
    /// Number of deliveries and of requested completions.
    visits: u32,
    /// The last holder of its session that saw it.
    holding: u64,
    /// Location of the last delivery, or the expected one.
    location: Location,
    /// Incarnation of its entity in which it is.
    incarnations: Incarnations,
    /// Incarnation of the target of its dead letters in which it is or will be.
    onward: Incarnations,
    /// The first number that it had.
    origin: Option<u64>,
    /// Partition key; the session where there is one.
    key: Option<Session>,
    /// It arrives later than it is accepted.
    late: bool,
    /// There was an entity for it to come to.
    sure: bool,
}

/// Location of a message relative to the entity that it was sent to.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Location {
    /// There, or among its dead letters.
    #[default]
    Home,
    /// Among the dead letters of the queue that should have forwarded it.
    FailedForward(usize),
    /// At the entity to which its dead letters are forwarded.
    DeadLetterTarget(EntityIndex),
    /// Among its transfer dead letters: there was no entity to forward to.
    Transfer,
}

impl Location {
    /// Scope of sequence numbers: two messages of one scope never share one.
    fn numbers(self, entity: EntityIndex) -> (Self, EntityIndex) {
        match self {
            Self::Home | Self::Transfer => (Self::Home, entity),
            Self::FailedForward(_) => (self, entity),
            Self::DeadLetterTarget(dead_letter_target) => (Self::Home, dead_letter_target),
        }
    }
}

impl Message {
    fn new(group: SendGroupId, session: Option<Session>, lifetime: Option<Lifetime>) -> Self {
        Self {
            group,
            session,
            removal: Removal::Open,
            aside: false,
            deferral: Deferral::No,
            lifetime,
            lock: None,
            held_at_crash: None,
            delivery_count: 0,
            sequence: None,
            visits: 0,
            holding: 0,
            location: Location::Home,
            incarnations: Incarnations::default(),
            onward: Incarnations::default(),
            origin: None,
            key: None,
            late: false,
            sure: true,
        }
    }

    /// Whether its time may have been over before now, so that it went without a trace.
    fn has_faded(&self, now: u64) -> bool {
        self.lifetime.is_some_and(|lifetime| !lifetime.dead_letters && now >= lifetime.since + lifetime.ttl)
    }
}

/// A delivery as a client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedDelivery {
    pub(crate) id: Id,
    pub(crate) entity: EntityIndex,
    pub(crate) location: Location,
    /// Incarnation of the entity that the client has found.
    pub(crate) incarnations: Incarnations,
    pub(crate) dead_letter: bool,
    /// It was not the link's turn: it was asked for by number.
    pub(crate) by_number: bool,
    /// It is said to be dead because its time was over.
    pub(crate) expired: bool,
    /// Time of acceptance by the broker, in milliseconds.
    pub(crate) enqueued: u64,
    /// Time of delivery by the broker, if it is known, in milliseconds.
    pub(crate) handed_out: Option<u64>,
    pub(crate) session: Option<Session>,
    pub(crate) sequence: u64,
    /// Its first number, where that is told.
    pub(crate) origin: Option<u64>,
    pub(crate) delivery_count: u32,
    /// End of the lock in milliseconds; `None`: handed out settled.
    pub(crate) locked_until: Option<u64>,
    /// Which link of which connection.
    pub(crate) holder: u64,
    pub(crate) now: u64,
}

/// Settlement of a message by the client that holds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SettlementKind {
    /// It shall go away.
    Complete,
    /// It shall leave its order for the dead letters.
    DeadLetter,
    /// It shall wait until it is asked for by number.
    Defer,
    /// It shall come again.
    Return,
}

/// A promise was broken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{id}: {promise} ({detail})")]
pub(crate) struct Broken {
    /// Which message, transaction or session.
    pub(crate) id: u64,
    pub(crate) promise: &'static str,
    pub(crate) detail: String,
}

fn broken<T>(id: u64, promise: &'static str, detail: &impl Debug) -> Result<T, Broken> {
    Err(Broken { id, promise, detail: format!("{detail:?}") })
}

/// A message that has had a sequence number, with the incarnation of its entity where that is known.
type Numbered = ((Id, EntityIndex), Option<Incarnation>);

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// By name and entity: a topic's message has a copy in each subscription that wants it.
    messages: BTreeMap<(Id, EntityIndex), Message>,
    groups: BTreeMap<SendGroupId, SendGroup>,
    /// By whose numbers they are: who had them last.
    sequences: BTreeMap<((Location, EntityIndex), u64), Numbered>,
    sessions: Sessions,
    deletion_states: BTreeMap<EntityIndex, DeletionState>,
    /// Entity to which an entity forwards its dead letters.
    dead_letter_targets: BTreeMap<EntityIndex, EntityIndex>,
    partitions: Partitions,
    /// Messages of an entity that were perhaps handed out settled to a connection that broke: gone, and nobody saw them.
    may_be_lost: BTreeMap<EntityIndex, u64>,
    /// Schedules that the broker has accepted: what they are, and the numbers by which they can be cancelled.
    pub(crate) schedules: Vec<(SendTarget, SendGroupId, Vec<i64>)>,
    /// Messages sent to entities with duplicate detection, which a client may send again.
    pub(crate) repeats: Vec<(SendTarget, SendGroupId, Bytes)>,
    next_send_group: SendGroupId,
    next_id: Id,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) delivered: u64,
    pub(crate) events: BTreeMap<&'static str, u64>,
}

impl Model {
    /// Notes that something happened that a run is made for.
    pub(crate) fn count(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
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
        let Some(message) = self.messages.get(&(observed.id, observed.entity)) else {
            return broken(observed.id, "a message arrives only where it belongs", &observed);
        };
        let (group, session) = (message.group, message.session);
        self.found(group, observed.id, observed.now)?;
        self.check_life(&observed)?;
        self.check_incarnation(&observed)?;
        self.check_partition(&observed)?;
        if observed.locked_until.is_some_and(|until| until <= observed.now) {
            // It is not new any more, though: where its session is renewed meanwhile, the others of it go on coming.
            self.passed_by(&observed);
            return Ok(false);
        }
        self.check_message(&observed)?;
        self.check_held_at_crash(&observed)?;
        self.check_way(&observed)?;
        if let Some(session) = session
            && observed.location == Location::Home
            && !observed.dead_letter
        {
            self.check_session(&observed, session)?;
        }
        if let Some(message) = self.messages.get_mut(&(observed.id, observed.entity)) {
            message.sequence = Some(observed.sequence);
            message.origin = message.origin.or(observed.origin);
            message.delivery_count = observed.delivery_count;
            message.removal = if observed.locked_until.is_some() { Removal::Open } else { Removal::Gone };
            message.aside = observed.dead_letter || observed.location != Location::Home;
            message.visits += 1;
            message.lock =
                observed.locked_until.map(|until| Lock { holder: observed.holder, until, may_end: false });
        }
        Ok(true)
    }

    /// A delivery that its client does not take, because its lock has ended.
    fn passed_by(&mut self, observed: &ObservedDelivery) {
        let holding = observed
            .session
            .and_then(|session| self.sessions.holding(observed.entity, session, observed.holder));
        if let Some(message) = self.messages.get_mut(&(observed.id, observed.entity)) {
            if message.may_move_to(observed.location) {
                message.move_to(observed.location);
            }
            message.sequence.get_or_insert(observed.sequence);
            message.holding = holding.unwrap_or(message.holding);
        }
    }

    fn check_message(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(&(observed.id, observed.entity)) else { return Ok(()) };
        let broken = |promise| broken(observed.id, promise, &(observed, &*message));
        if message.removal == Removal::Gone {
            return broken("settled stays settled");
        }
        if message.lock.as_ref().is_some_and(|lock| lock.until > observed.now && !lock.may_end) {
            return broken("no message has two live locks");
        }
        if message.location != observed.location {
            if !message.may_move_to(observed.location) {
                return broken("a message is in one place");
            }
            message.move_to(observed.location);
        }
        let broken = |promise| self::broken(observed.id, promise, &(observed, &*message));
        if observed.delivery_count < message.delivery_count {
            return broken("delivery counts never fall");
        }
        if message.sequence.is_some_and(|sequence| sequence != observed.sequence) {
            return broken("there is one copy at each place, and it keeps its sequence number");
        }
        if message.origin.zip(observed.origin).is_some_and(|(origin, told)| origin != told) {
            return broken("a message keeps its first number");
        }
        let removal = message.removal;
        let number = (observed.location.numbers(observed.entity), observed.sequence);
        let now = ((observed.id, observed.entity), message.incarnation());
        let before = self.sequences.insert(number, now);
        if before.is_some_and(|before| before.0 != now.0 && before.1.is_some() && before.1 == now.1) {
            return self::broken(observed.id, "sequence numbers never repeat", &(observed, before));
        }
        // Nobody else gets what a transaction holds: it has lost the lock, and so it cannot commit.
        match removal {
            Removal::Completing(Some(group)) => self.undone(group),
            _ => Ok(()),
        }
    }

    /// A client gives the message back or asks for its removal: from here on its lock may be gone.
    pub(crate) fn settling(
        &mut self,
        (id, entity): (Id, EntityIndex),
        holder: u64,
        settlement_kind: SettlementKind,
    ) {
        let Some(message) = self.messages.get_mut(&(id, entity)) else { return };
        message.lock.take_if(|lock| lock.holder == holder);
        message.visits += u32::from(settlement_kind == SettlementKind::Complete);
        match settlement_kind {
            SettlementKind::Complete if message.removal == Removal::Open => {
                message.removal = Removal::Completing(None);
            }
            SettlementKind::DeadLetter => message.aside = true,
            SettlementKind::Defer => message.deferral = Deferral::Perhaps,
            _ => {}
        }
    }

    /// The broker said that a lock lasts longer: so long nobody else may get the message, unless it was given back since.
    pub(crate) fn renewed(&mut self, (id, entity): (Id, EntityIndex), holder: u64, until: u64) {
        self.count("locks renewed");
        let lock = self.messages.get_mut(&(id, entity)).and_then(|message| message.lock.as_mut());
        if let Some(lock) = lock.filter(|lock| lock.holder == holder) {
            lock.until = lock.until.max(until);
        }
    }

    /// The broker confirmed a completion.
    pub(crate) fn completed(&mut self, id: Id, entity: EntityIndex) {
        if let Some(message) = self.messages.get_mut(&(id, entity)) {
            message.removal = Removal::Gone;
        }
    }

    /// The connection behind `holder` is gone, and its locks may be, too.
    pub(crate) fn holder_gone(&mut self, holder: u64) {
        for message in self.messages.values_mut() {
            message.lock.take_if(|lock| lock.holder == holder);
        }
    }

    /// A receive-and-delete connection broke with `credit` left: as many messages may have gone with it (SET-6).
    pub(crate) fn deleter_gone(&mut self, entity: EntityIndex, credit: u32) {
        *self.may_be_lost.entry(entity).or_default() += u64::from(credit);
    }

    /// The broker restarted: locks are volatile.
    pub(crate) fn restarted(&mut self, now: u64) {
        for message in self.messages.values_mut() {
            message.held_at_crash = HeldAtCrash::of(message, now).or(message.held_at_crash);
            message.lock = None;
        }
        self.sessions.restarted();
    }

    /// After everything was drained: whether anything accepted is missing, or anything half done.
    pub(crate) fn check_drained(&self, now: u64) -> Result<(), Broken> {
        let mut may_be_lost = self.may_be_lost.clone();
        for (&(id, entity), message) in &self.messages {
            if message.has_faded(now) || self.may_be_deleted(entity, message) {
                continue;
            }
            let exists = self.must_arrive(message.group);
            let promise = if exists && message.removal == Removal::Open {
                "an accepted message survives"
            } else if self.half_done(message, now) {
                "a transaction that did not commit has completed nothing"
            } else {
                continue;
            };
            let locations = [Some(entity), self.dead_letter_targets.get(&entity).copied()];
            let received_at = locations
                .into_iter()
                .flatten()
                .find(|received_at| may_be_lost.get(received_at).is_some_and(|left| *left > 0));
            let Some(allowed) = received_at.and_then(|received_at| may_be_lost.get_mut(&received_at)) else {
                return broken(id, promise, &(entity, message, self.groups.get(&message.group)));
            };
            *allowed -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
