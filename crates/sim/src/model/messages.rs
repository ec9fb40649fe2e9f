//! Messages of the model: each copy with its lock, its removal and its location.
//!
//! Invariant: a message is at one location: its entity, the target of its dead letters, or the dead letters of the entity
//! that could not forward it.

use std::collections::BTreeMap;

use super::deferral::{Deferral, Lifetime};
use super::held::HeldAtCrash;
use super::incarnation::{DeletionState, Incarnation, Incarnations, SendPath};
use super::observed::{
    Broken, CopyId, EntityIndex, Id, Location, ObservedDelivery, SendGroupId, Session, SettlementKind, broken,
};

/// Removal of a message, as far as its receivers know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Removal {
    /// No receiver has finished with it.
    Open,
    /// A completion was sent and not confirmed, perhaps in a transaction: it may be gone or not.
    Completing(Option<SendGroupId>),
    /// The broker confirmed the completion, or handed it out settled: it must never appear again.
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) holder: u64,
    pub(super) until: u64,
    /// It may end before, with a transaction of which its holder has yet to hear that it is undone.
    pub(super) may_end: bool,
}

/// A message at one entity.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) group: SendGroupId,
    pub(super) session: Option<Session>,
    pub(super) removal: Removal,
    /// It may have left its order for the dead letters.
    pub(super) aside: bool,
    pub(super) deferral: Deferral,
    pub(super) lifetime: Option<Lifetime>,
    pub(super) lock: Option<Lock>,
    held_at_crash: Option<HeldAtCrash>,
    delivery_count: u32,
    pub(super) sequence: Option<u64>,
    /// Number of deliveries and of requested completions.
    visits: u32,
    /// The last holder of its session that saw it.
    pub(super) holding: u64,
    /// Location of the last delivery, or the expected one.
    pub(super) location: Location,
    /// Incarnation of its entity in which it is.
    pub(super) incarnations: Incarnations,
    /// Incarnation of the target of its dead letters in which it is or will be.
    pub(super) target_incarnations: Incarnations,
    /// The first number that it had.
    origin: Option<u64>,
    /// Partition key; the session where there is one.
    pub(super) key: Option<Session>,
    /// It arrives later than it is accepted.
    late: bool,
    /// There was an entity for it to come to.
    pub(super) sure: bool,
}

impl Message {
    pub(super) fn new(group: SendGroupId, session: Option<Session>, lifetime: Option<Lifetime>) -> Self {
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
            target_incarnations: Incarnations::default(),
            origin: None,
            key: None,
            late: false,
            sure: true,
        }
    }

    /// `deletion_state` is that of its entity, `target_state` that of the target of its dead letters.
    pub(super) fn with_send_path(
        mut self,
        send_path: SendPath,
        deletion_state: DeletionState,
        target_state: DeletionState,
    ) -> Self {
        self.incarnations =
            Incarnations { first: deletion_state.done, last: send_path.link.and_then(|link| link.last) };
        self.target_incarnations = Incarnations { first: target_state.done, last: None };
        self.late = send_path.late;
        // In a transaction what is sent on a link that was of a deleted entity is overlooked, and the rest may be committed.
        let may_be_late = send_path.link.is_some_and(|link| link.first < deletion_state.done);
        self.sure = !(may_be_late || send_path.copies && deletion_state.missing);
        self
    }

    /// Whether its time may have been over before now, so that it went without a trace.
    pub(super) fn has_faded(&self, now: u64) -> bool {
        self.lifetime.is_some_and(|lifetime| !lifetime.dead_letters && now >= lifetime.since + lifetime.ttl)
    }

    /// Whether it can be found there next.
    fn may_move_to(&self, next: Location) -> bool {
        let may_die = self.location == Location::Home
            && matches!(next, Location::DeadLetterTarget(_) | Location::Transfer);
        may_die || self.sequence.is_none()
    }

    /// It is found there for the first time; what is forwarded arrives like new.
    fn move_to(&mut self, next: Location) {
        if self.location == next {
            return;
        }
        self.location = next;
        self.deferral = Deferral::No;
        self.held_at_crash = None;
        if next != Location::Transfer {
            (self.sequence, self.delivery_count) = (None, 0);
        }
        // It has left its order, and its session.
        (self.aside, self.session) = (true, None);
    }

    /// Entity from which it is received.
    pub(super) fn received_at(&self, entity: EntityIndex) -> EntityIndex {
        if let Location::DeadLetterTarget(dead_letter_target) = self.location {
            dead_letter_target
        } else {
            entity
        }
    }

    /// Incarnation of its entity, where that is known.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        match self.location {
            Location::Home | Location::Transfer => self.incarnations.single(),
            Location::DeadLetterTarget(_) => self.target_incarnations.single(),
            Location::FailedForward(_) => Some(0),
        }
    }

    /// It exists, and so it has arrived, if it arrives at once: before the deletions that are requested by now are over.
    pub(super) fn arrived(&mut self, requested: Incarnation) {
        if !self.late {
            let last = self.incarnations.last.map_or(requested, |last| last.min(requested));
            self.incarnations.last = Some(last);
        }
    }

    /// Whether it is in the incarnation of its entity in which it is seen.
    pub(super) fn check_incarnation(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let incarnations = match observed.location {
            Location::Home | Location::Transfer => &mut self.incarnations,
            Location::DeadLetterTarget(_) => &mut self.target_incarnations,
            Location::FailedForward(_) => return Ok(()),
        };
        let Some(common) = incarnations.intersection(observed.incarnations) else {
            return broken(observed.id, "nothing of a deleted entity comes again", &(observed, self));
        };
        *incarnations = common;
        Ok(())
    }

    /// Whether a delivery fits the lock, the location and the numbers of the message.
    pub(super) fn check(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let promise = if self.removal == Removal::Gone {
            "settled stays settled"
        } else if self.lock.as_ref().is_some_and(|lock| lock.until > observed.now && !lock.may_end) {
            "no message has two live locks"
        } else if self.location != observed.location && !self.may_move_to(observed.location) {
            "a message is in one place"
        } else {
            self.move_to(observed.location);
            if observed.delivery_count < self.delivery_count {
                "delivery counts never fall"
            } else if self.sequence.is_some_and(|sequence| sequence != observed.sequence) {
                "there is one copy at each place, and it keeps its sequence number"
            } else if self.origin.zip(observed.origin).is_some_and(|(origin, told)| origin != told) {
                "a message keeps its first number"
            } else {
                return Ok(());
            }
        };
        broken(observed.id, promise, &(observed, self))
    }

    /// Compares the first delivery after a crash with the message at the crash; false where it says nothing.
    pub(super) fn check_held_at_crash(&mut self, observed: &ObservedDelivery) -> Result<bool, Broken> {
        self.held_at_crash.take().map_or(Ok(false), |held| held.check(observed))
    }

    /// A client takes the delivery.
    pub(super) fn take(&mut self, observed: &ObservedDelivery) {
        self.sequence = Some(observed.sequence);
        self.origin = self.origin.or(observed.origin);
        self.delivery_count = observed.delivery_count;
        self.removal = if observed.locked_until.is_some() { Removal::Open } else { Removal::Gone };
        self.aside = observed.dead_letter || observed.location != Location::Home;
        self.visits += 1;
        self.lock =
            observed.locked_until.map(|until| Lock { holder: observed.holder, until, may_end: false });
    }

    /// A delivery that its client does not take, because its lock has ended; `holding` is that of its session.
    pub(super) fn pass_by(&mut self, observed: &ObservedDelivery, holding: Option<u64>) {
        if self.may_move_to(observed.location) {
            self.move_to(observed.location);
        }
        self.sequence.get_or_insert(observed.sequence);
        self.holding = holding.unwrap_or(self.holding);
    }

    /// Takes the lock of a holder. Gives the transaction that was to complete the message.
    fn lose_lock(&mut self, holder: u64) -> Option<SendGroupId> {
        self.lock.take_if(|lock| lock.holder == holder)?;
        if let Removal::Completing(group) = self.removal { group } else { None }
    }

    /// The broker restarted: locks are volatile. A message that has a timer, or that a transaction has, is not compared.
    fn restart(&mut self, now: u64) {
        let is_held = self.lock.take().is_some_and(|lock| lock.until == u64::MAX && !lock.may_end);
        if is_held {
            self.held_at_crash = Some(HeldAtCrash { delivery_count: self.delivery_count, at: now });
        }
    }
}

/// All messages, by name and entity: a topic's message has a copy in each subscription that wants it.
#[derive(Debug, Default)]
pub(crate) struct Messages(BTreeMap<CopyId, Message>);

impl Messages {
    pub(super) fn insert(&mut self, copy: CopyId, message: Message) {
        self.0.insert(copy, message);
    }

    pub(super) fn get(&self, copy: CopyId) -> Option<&Message> {
        self.0.get(&copy)
    }

    pub(super) fn get_mut(&mut self, copy: CopyId) -> Option<&mut Message> {
        self.0.get_mut(&copy)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CopyId, &Message)> {
        self.0.iter().map(|(copy, message)| (*copy, message))
    }

    /// A message has this key, at all of its entities.
    pub(crate) fn keyed(&mut self, id: Id, key: Session) {
        for (_, message) in self.0.range_mut((id, EntityIndex::MIN)..=(id, EntityIndex::MAX)) {
            message.key = Some(key);
        }
    }

    /// Whether a message that a client received at this entity was seen at another one since.
    pub(crate) fn has_moved_from(&self, copy: CopyId, entity: EntityIndex) -> bool {
        self.get(copy).is_some_and(|message| message.received_at(copy.1) != entity)
    }

    /// A client gives the message back or asks for its removal: from here on its lock may be gone.
    pub(crate) fn settling(&mut self, copy: CopyId, holder: u64, settlement_kind: SettlementKind) {
        let Some(message) = self.0.get_mut(&copy) else { return };
        message.lock.take_if(|lock| lock.holder == holder);
        message.visits += u32::from(settlement_kind == SettlementKind::Complete);
        match settlement_kind {
            SettlementKind::Complete if message.removal == Removal::Open => {
                message.removal = Removal::Completing(None);
            }
            SettlementKind::DeadLetter => message.aside = true,
            SettlementKind::Defer => message.deferral = Deferral::Perhaps(holder),
            _ => {}
        }
    }

    /// The broker said that a lock lasts longer: so long no other client may get the message, unless it was given back since.
    pub(crate) fn renewed(&mut self, copy: CopyId, holder: u64, until: u64) {
        let lock = self.0.get_mut(&copy).and_then(|message| message.lock.as_mut());
        if let Some(lock) = lock.filter(|lock| lock.holder == holder) {
            lock.until = lock.until.max(until);
        }
    }

    /// The same of all messages of a session that its holder has.
    pub(super) fn renewed_in_session(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        until: u64,
    ) {
        let copies = self
            .0
            .iter()
            .filter(|((_, other), message)| *other == entity && message.session == Some(session));
        for copy in copies.map(|(copy, _)| *copy).collect::<Vec<_>>() {
            self.renewed(copy, holder, until);
        }
    }

    /// The broker confirmed a completion.
    pub(crate) fn completed(&mut self, copy: CopyId) {
        if let Some(message) = self.0.get_mut(&copy) {
            message.removal = Removal::Gone;
        }
    }

    /// The broker confirmed to a holder that a message is deferred. Where another one has asked for it since, the message was
    /// handed out again, and this is old.
    pub(crate) fn deferred(&mut self, copy: CopyId, holder: u64) {
        if let Some(message) = self.0.get_mut(&copy)
            && message.deferral == Deferral::Perhaps(holder)
        {
            message.deferral = Deferral::Yes;
        }
    }

    /// It is being received for good by number: the answer may be lost. Gives the number of deliveries and requested
    /// completions before.
    pub(crate) fn taking(&mut self, copy: CopyId) -> Option<u32> {
        let message = self.0.get_mut(&copy).filter(|message| message.removal == Removal::Open)?;
        message.removal = Removal::Completing(None);
        Some(message.visits)
    }

    /// There was nothing under its number, so that it was not received; whoever had it meanwhile may have completed it.
    pub(crate) fn not_taken(&mut self, copy: CopyId, visits: u32) {
        let message = self.0.get_mut(&copy);
        if let Some(message) = message.filter(|message| message.visits == visits)
            && message.removal == Removal::Completing(None)
        {
            message.removal = Removal::Open;
        }
    }

    /// The connection behind `holder` is gone, and its locks may be, too.
    pub(crate) fn holder_gone(&mut self, holder: u64) {
        for message in self.0.values_mut() {
            message.lock.take_if(|lock| lock.holder == holder);
        }
    }

    /// A holder has lost its locks on these messages. Gives the transactions that were to complete some of them.
    pub(super) fn lose_locks(
        &mut self,
        holder: u64,
        lost: impl Fn(EntityIndex, &Message) -> bool,
    ) -> Vec<SendGroupId> {
        let messages = self.0.iter_mut().filter(|((_, entity), message)| lost(*entity, message));
        messages.filter_map(|(_, message)| message.lose_lock(holder)).collect()
    }

    /// Whether an open transaction is to complete something of an entity.
    pub(crate) fn is_enlisted(&self, entity: EntityIndex) -> bool {
        self.0.iter().any(|((_, other), message)| {
            message.received_at(*other) == entity
                && message.lock.is_some()
                && matches!(message.removal, Removal::Completing(Some(_)))
        })
    }

    /// The broker restarted.
    pub(super) fn restarted(&mut self, now: u64) {
        self.0.values_mut().for_each(|message| message.restart(now));
    }
}
