//! What the clients were promised, and whether the broker keeps it.
//!
//! Invariant: the model knows only what clients sent and saw. An oracle that fails names the message and the promise.

mod deferral;
mod grave;
mod ground;
mod parcel;
mod partition;
mod session;

use std::{collections::BTreeMap, fmt::Debug};

use bytes::Bytes;

use deferral::Deferral;
pub(crate) use deferral::Life;
use ground::Ground;
pub(crate) use ground::{Age, Course, Span};
use parcel::Parcel;
pub(crate) use parcel::ParcelId;
use partition::Partitions;
pub(crate) use session::Session;
use session::Sessions;

use crate::plan::Target;

/// A message's name in the model; it travels in the body.
pub(crate) type Id = u64;
/// Index of an entity from which messages are received.
pub(crate) type Place = usize;

/// What the receivers know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// Nobody has finished with it.
    Open,
    /// A completion was sent and not confirmed, perhaps in a transaction: it may be gone or not.
    Completing(Option<ParcelId>),
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

/// A message at one place.
#[derive(Clone, Debug)]
struct Message {
    parcel: ParcelId,
    session: Option<Session>,
    fate: Fate,
    /// It may have left its order for the dead letters.
    aside: bool,
    deferral: Deferral,
    life: Option<Life>,
    lock: Option<Lock>,
    delivery_count: u32,
    sequence: Option<u64>,
    /// How often it was seen, or asked to go away.
    visits: u32,
    /// The last holder of its session that saw it.
    holding: u64,
    /// Where it was seen last, or will be.
    shelf: Shelf,
    /// In which entity of its place it is.
    span: Span,
    /// In which entity of the place to which dead letters are forwarded it is, or will be.
    onward: Span,
    /// The first number that it had.
    origin: Option<u64>,
    /// What says to which partition it belongs.
    key: Option<Session>,
    /// It arrives later than it is accepted.
    late: bool,
    /// There was an entity for it to come to.
    sure: bool,
}

/// Where a message stands that was to come to a place.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Shelf {
    /// There, or among its dead letters.
    #[default]
    Own,
    /// Among the dead letters of the queue that should have forwarded it.
    Kept(usize),
    /// At the place to which its dead letters are forwarded.
    Grave(Place),
    /// Among its transfer dead letters: there was no place to forward to.
    Transfer,
}

impl Shelf {
    /// What says for whom numbers are different.
    fn numbers(self, place: Place) -> (Self, Place) {
        match self {
            Self::Own | Self::Transfer => (Self::Own, place),
            Self::Kept(_) => (self, place),
            Self::Grave(grave) => (Self::Own, grave),
        }
    }
}

impl Message {
    fn new(parcel: ParcelId, session: Option<Session>, life: Option<Life>) -> Self {
        Self {
            parcel,
            session,
            fate: Fate::Open,
            aside: false,
            deferral: Deferral::No,
            life,
            lock: None,
            delivery_count: 0,
            sequence: None,
            visits: 0,
            holding: 0,
            shelf: Shelf::Own,
            span: Span::default(),
            onward: Span::default(),
            origin: None,
            key: None,
            late: false,
            sure: true,
        }
    }

    /// Whether its time may have been over before now, so that it went without a trace.
    fn has_faded(&self, now: u64) -> bool {
        self.life.is_some_and(|life| !life.dead_letters && now >= life.since + life.ttl)
    }
}

/// A delivery as a client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) id: Id,
    pub(crate) place: Place,
    pub(crate) shelf: Shelf,
    /// Which entity of the place the client has found.
    pub(crate) span: Span,
    pub(crate) dead_letter: bool,
    /// It was not the link's turn: it was asked for by number.
    pub(crate) by_number: bool,
    /// It is said to be dead because its time was over.
    pub(crate) expired: bool,
    /// When the broker took it in, in milliseconds.
    pub(crate) enqueued: u64,
    /// When the broker handed it out, where that is known, in milliseconds.
    pub(crate) handed_out: Option<u64>,
    /// Which the link holds.
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

/// What a client does with a message that it holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Deed {
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
    /// Which promise.
    pub(crate) promise: &'static str,
    /// What was seen.
    pub(crate) detail: String,
}

fn broken<T>(id: u64, promise: &'static str, detail: &impl Debug) -> Result<T, Broken> {
    Err(Broken { id, promise, detail: format!("{detail:?}") })
}

/// A message that has had a number, and in which entity of its place, where that is sure.
type Numbered = ((Id, Place), Option<Age>);

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// By name and place: a topic's message has a copy in each subscription that wants it.
    messages: BTreeMap<(Id, Place), Message>,
    parcels: BTreeMap<ParcelId, Parcel>,
    /// By whose numbers they are: who had them last.
    sequences: BTreeMap<((Shelf, Place), u64), Numbered>,
    sessions: Sessions,
    grounds: BTreeMap<Place, Ground>,
    /// Where the dead letters of a place are forwarded to.
    graves: BTreeMap<Place, Place>,
    partitions: Partitions,
    /// Messages of a place that were perhaps handed out settled to a connection that broke: gone, and nobody saw them.
    may_be_lost: BTreeMap<Place, u64>,
    /// Schedules that the broker has accepted: what they are, and the numbers by which they can be cancelled.
    pub(crate) schedules: Vec<(Target, ParcelId, Vec<i64>)>,
    /// What was sent to entities that drop duplicates, and may be sent again.
    pub(crate) repeats: Vec<(Target, ParcelId, Bytes)>,
    next_parcel: ParcelId,
    next_id: Id,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) delivered: u64,
    /// How often what happened.
    pub(crate) events: BTreeMap<&'static str, u64>,
}

impl Model {
    /// Notes that something happened that a run is made for.
    pub(crate) fn count(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// A client sees a delivery. `Ok(false)`: its lock ended while it travelled, so that others may have seen the
    /// message since, and all promises about it with it.
    pub(crate) fn delivered(&mut self, seen: Seen) -> Result<bool, Broken> {
        self.delivered += 1;
        match seen.shelf {
            Shelf::Own => {}
            Shelf::Kept(_) => self.count("messages kept back"),
            Shelf::Grave(_) => self.count("dead letters forwarded"),
            Shelf::Transfer => self.count("dead letters kept back"),
        }
        let Some(message) = self.messages.get(&(seen.id, seen.place)) else {
            return broken(seen.id, "a message arrives only where it belongs", &seen);
        };
        let (parcel, session) = (message.parcel, message.session);
        self.found(parcel, seen.id, seen.now)?;
        self.check_life(&seen)?;
        self.check_ground(&seen)?;
        self.check_partition(&seen)?;
        if seen.locked_until.is_some_and(|until| until <= seen.now) {
            // It is not new any more, though: where its session is renewed meanwhile, the others of it go on coming.
            self.passed_by(&seen);
            return Ok(false);
        }
        self.check_message(&seen)?;
        self.check_way(&seen)?;
        if let Some(session) = session
            && seen.shelf == Shelf::Own
            && !seen.dead_letter
        {
            self.check_session(&seen, session)?;
        }
        if let Some(message) = self.messages.get_mut(&(seen.id, seen.place)) {
            message.sequence = Some(seen.sequence);
            message.origin = message.origin.or(seen.origin);
            message.delivery_count = seen.delivery_count;
            message.fate = if seen.locked_until.is_some() { Fate::Open } else { Fate::Gone };
            message.aside = seen.dead_letter || seen.shelf != Shelf::Own;
            message.visits += 1;
            message.lock = seen.locked_until.map(|until| Lock { holder: seen.holder, until, may_end: false });
        }
        Ok(true)
    }

    /// A delivery that its client does not take, because its lock has ended.
    fn passed_by(&mut self, seen: &Seen) {
        let holding =
            seen.session.and_then(|session| self.sessions.holding(seen.place, session, seen.holder));
        if let Some(message) = self.messages.get_mut(&(seen.id, seen.place)) {
            if message.may_move_to(seen.shelf) {
                message.move_to(seen.shelf);
            }
            message.sequence.get_or_insert(seen.sequence);
            message.holding = holding.unwrap_or(message.holding);
        }
    }

    fn check_message(&mut self, seen: &Seen) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(&(seen.id, seen.place)) else { return Ok(()) };
        let broken = |promise| broken(seen.id, promise, &(seen, &*message));
        if message.fate == Fate::Gone {
            return broken("settled stays settled");
        }
        if message.lock.as_ref().is_some_and(|lock| lock.until > seen.now && !lock.may_end) {
            return broken("no message has two live locks");
        }
        if message.shelf != seen.shelf {
            if !message.may_move_to(seen.shelf) {
                return broken("a message is in one place");
            }
            message.move_to(seen.shelf);
        }
        let broken = |promise| self::broken(seen.id, promise, &(seen, &*message));
        if seen.delivery_count < message.delivery_count {
            return broken("delivery counts never fall");
        }
        if message.sequence.is_some_and(|sequence| sequence != seen.sequence) {
            return broken("there is one copy at each place, and it keeps its sequence number");
        }
        if message.origin.zip(seen.origin).is_some_and(|(origin, told)| origin != told) {
            return broken("a message keeps its first number");
        }
        let fate = message.fate;
        let number = (seen.shelf.numbers(seen.place), seen.sequence);
        let now = ((seen.id, seen.place), message.age());
        let before = self.sequences.insert(number, now);
        if before.is_some_and(|before| before.0 != now.0 && before.1.is_some() && before.1 == now.1) {
            return self::broken(seen.id, "sequence numbers never repeat", &(seen, before));
        }
        // Nobody else gets what a transaction holds: it has lost the lock, and so it cannot commit.
        match fate {
            Fate::Completing(Some(parcel)) => self.undone(parcel),
            _ => Ok(()),
        }
    }

    /// A client gives the message back or asks for its removal: from here on its lock may be gone.
    pub(crate) fn settling(&mut self, (id, place): (Id, Place), holder: u64, deed: Deed) {
        let Some(message) = self.messages.get_mut(&(id, place)) else { return };
        message.lock.take_if(|lock| lock.holder == holder);
        message.visits += u32::from(deed == Deed::Complete);
        match deed {
            Deed::Complete if message.fate == Fate::Open => message.fate = Fate::Completing(None),
            Deed::DeadLetter => message.aside = true,
            Deed::Defer => message.deferral = Deferral::Perhaps,
            _ => {}
        }
    }

    /// The broker said that a lock lasts longer: so long nobody else may get the message, unless it was given back since.
    pub(crate) fn renewed(&mut self, (id, place): (Id, Place), holder: u64, until: u64) {
        self.count("locks renewed");
        let lock = self.messages.get_mut(&(id, place)).and_then(|message| message.lock.as_mut());
        if let Some(lock) = lock.filter(|lock| lock.holder == holder) {
            lock.until = lock.until.max(until);
        }
    }

    /// The broker confirmed a completion.
    pub(crate) fn completed(&mut self, id: Id, place: Place) {
        if let Some(message) = self.messages.get_mut(&(id, place)) {
            message.fate = Fate::Gone;
        }
    }

    /// The connection behind `holder` is gone, and its locks may be, too.
    pub(crate) fn holder_gone(&mut self, holder: u64) {
        for message in self.messages.values_mut() {
            message.lock.take_if(|lock| lock.holder == holder);
        }
    }

    /// A receive-and-delete connection broke with `credit` left: as many messages may have gone with it (SET-6).
    pub(crate) fn deleter_gone(&mut self, place: Place, credit: u32) {
        *self.may_be_lost.entry(place).or_default() += u64::from(credit);
    }

    /// The broker restarted: locks are volatile.
    pub(crate) fn restarted(&mut self) {
        self.messages.values_mut().for_each(|message| message.lock = None);
        self.sessions.restarted();
    }

    /// After everything was drained: whether anything accepted is missing, or anything half done.
    pub(crate) fn check_drained(&self, now: u64) -> Result<(), Broken> {
        let mut may_be_lost = self.may_be_lost.clone();
        for (&(id, place), message) in &self.messages {
            if message.has_faded(now) || self.may_be_buried(place, message) {
                continue;
            }
            let exists = self.must_arrive(message.parcel);
            let promise = if exists && message.fate == Fate::Open {
                "an accepted message survives"
            } else if self.half_done(message, now) {
                "a transaction that did not commit has completed nothing"
            } else {
                continue;
            };
            let spots = [Some(place), self.graves.get(&place).copied()];
            let spot =
                spots.into_iter().flatten().find(|spot| may_be_lost.get(spot).is_some_and(|left| *left > 0));
            let Some(allowed) = spot.and_then(|spot| may_be_lost.get_mut(&spot)) else {
                return broken(id, promise, &(place, message, self.parcels.get(&message.parcel)));
            };
            *allowed -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
