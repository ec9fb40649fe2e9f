//! Sessions of one store: their locks, their messages that can be delivered, their state (`docs/features/sessions.md`).
//!
//! ```text
//!          accept                     close · until passed
//!   Free ──────────▶ Held (renewed) ───────────────────────▶ Ending
//!     ▲                                                        │
//!     └──────────────── its last delivered message is back ────┘
//! ```
//!
//! Invariant: each message of a session stands in exactly one of `ready`, `delivered` and `unavailable`. A session is
//! in `available` exactly while it is free and something is ready, under its lowest ready number; one that is held and
//! has something ready is in `turn`, unless its holder was found to want nothing, or its next message is read from the disk. A session without messages, state and
//! holder does not exist, but for a place in `turn` that it still has. No call looks at more sessions than it is about,
//! but for a list (`page`): one that finds no order visits all, and says so. A call that drops an order frees a bounded one.

mod acceptors;
mod listing;
mod names;
mod sequence_set;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use super::slot::ConsumerNumber;
use crate::{LockId, Position, Timestamp};
use listing::Listing;
use names::Names;
use sequence_set::SequenceSet;

pub(crate) use acceptors::{Acceptor, AcceptorNumber, Acceptors};

/// A session of one store, while it exists. Used again afterwards.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct SessionNumber(pub(crate) u32);

/// State of a message within its session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SessionMessageState {
    /// The holder may have it.
    Ready,
    Delivered,
    /// Deferred, scheduled, over or unreadable.
    Unavailable,
}

/// Lock of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SessionLock {
    /// Not locked.
    Free,
    Held(Holder),
    /// Not locked, but messages of the last holder have not returned yet.
    Ending,
}

/// The holder of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Holder {
    /// Its consumer; `None` when the connection was lost, and the lock only runs on.
    pub(crate) consumer: Option<ConsumerNumber>,
    /// When the lock ends. The end itself is too late.
    pub(crate) until: Timestamp,
    /// Locks of messages with this id or a later one are this holder's.
    pub(crate) since: LockId,
    /// Deliveries of its consumer at the last time when its lock, at its end, began anew.
    pub(crate) taken: u64,
}

impl Holder {
    /// Whether a lock is this holder's: those are later ones; ids may wrap.
    pub(crate) const fn gave(&self, lock: LockId) -> bool {
        lock.0.wrapping_sub(self.since.0) < 1 << 31
    }
}

/// A session's state, which lies in the journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SessionState {
    pub(crate) position: Position,
    /// Length of the record.
    pub(crate) length: u32,
    pub(crate) updated_at: Timestamp,
}

/// One session. The fields that each message touches are few and adjacent: with ten thousand sessions each of them is a
/// cache miss.
#[derive(Debug)]
pub(crate) struct Session {
    /// In the spelling that came first.
    id: Arc<str>,
    ready: SequenceSet,
    delivered: SequenceSet,
    unavailable: BTreeSet<u64>,
    lock: SessionLock,
    state: Option<Box<SessionState>>,
    /// Its place in `available`.
    listed: Option<u64>,
    in_turn: bool,
}

/// The sessions of one store.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: Names,
    listing: Listing,
    places: Vec<Option<Box<Session>>>,
    /// Numbers that can be used again.
    unused: Vec<SessionNumber>,
    available: BTreeSet<(u64, SessionNumber)>,
    /// Held sessions whose holder may want something.
    turn: VecDeque<SessionNumber>,
    /// Ends of the locks.
    ends: BTreeSet<(Timestamp, SessionNumber)>,
    /// Consumers that wait for a session.
    pub(crate) acceptors: Acceptors,
    /// Record bytes of all states.
    pub(crate) state_bytes: u64,
}

impl Session {
    fn new(id: Arc<str>) -> Self {
        Self {
            id,
            ready: SequenceSet::default(),
            delivered: SequenceSet::default(),
            unavailable: BTreeSet::new(),
            lock: SessionLock::Free,
            state: None,
            listed: None,
            in_turn: false,
        }
    }

    /// Session id, in the spelling that came first.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Its lock.
    pub(crate) fn lock(&self) -> SessionLock {
        self.lock
    }

    /// The holder, if the lock runs at `now`.
    pub(crate) fn holder(&self, now: Timestamp) -> Option<Holder> {
        match self.lock {
            SessionLock::Held(holder) if now < holder.until => Some(holder),
            SessionLock::Held(_) | SessionLock::Free | SessionLock::Ending => None,
        }
    }

    /// When its lock ends, if it is locked.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        if let SessionLock::Held(holder) = self.lock { Some(holder.until) } else { None }
    }

    /// Its state.
    pub(crate) fn state(&self) -> Option<SessionState> {
        self.state.as_deref().copied()
    }

    /// The message that comes next.
    pub(crate) fn first_ready(&self) -> Option<u64> {
        self.ready.first()
    }

    /// The messages that its holder has, in order.
    pub(crate) fn delivered(&self) -> impl Iterator<Item = u64> {
        self.delivered.iter()
    }

    /// Its lowest message at or after `from`, wherever it stands.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let unavailable = self.unavailable.range(from..).next().copied();
        [self.ready.next(from), self.delivered.next(from), unavailable].into_iter().flatten().min()
    }

    fn is_nothing(&self) -> bool {
        let is_empty = self.ready.is_empty() && self.delivered.is_empty() && self.unavailable.is_empty();
        is_empty && self.lock == SessionLock::Free && self.state.is_none() && !self.in_turn
    }
}

impl Sessions {
    /// `seed` decides about the places in a hash table and nothing that shows.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            by_id: Names::new(seed),
            listing: Listing::default(),
            places: Vec::new(),
            unused: Vec::new(),
            available: BTreeSet::new(),
            turn: VecDeque::new(),
            ends: BTreeSet::new(),
            acceptors: Acceptors::default(),
            state_bytes: 0,
        }
    }

    /// Number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.unused.len()
    }

    /// The session of an id, in any case.
    pub(crate) fn find(&self, id: &str) -> Option<SessionNumber> {
        self.by_id.get(id)
    }

    /// A session.
    pub(crate) fn get(&self, number: SessionNumber) -> Option<&Session> {
        self.places.get(number.0 as usize)?.as_deref()
    }

    /// The session of an id, made if it is missing. It must be given something at once.
    pub(crate) fn get_or_create(&mut self, id: &str) -> SessionNumber {
        if let Some(number) = self.find(id) {
            return number;
        }
        let id: Arc<str> = id.into();
        let session = Some(Box::new(Session::new(Arc::clone(&id))));
        let number = if let Some(number) = self.unused.pop() {
            if let Some(place) = self.places.get_mut(number.0 as usize) {
                *place = session;
            }
            number
        } else {
            let number = u32::try_from(self.places.len());
            self.places.push(session);
            SessionNumber(number.expect("four billion sessions do not fit into memory"))
        };
        let key = self.by_id.insert(id, number);
        self.listing.enter(key, number);
        number
    }

    /// Says where a message stands, be it new or not.
    pub(crate) fn set_message_state(
        &mut self,
        number: SessionNumber,
        sequence: u64,
        state: SessionMessageState,
    ) {
        let Some(session) = self.get_mut(number) else { return };
        match state {
            SessionMessageState::Ready => {
                let _found = session.delivered.remove(sequence) || session.unavailable.remove(&sequence);
                session.ready.insert(sequence);
            }
            SessionMessageState::Delivered => {
                let _found = session.ready.remove(sequence) || session.unavailable.remove(&sequence);
                session.delivered.insert(sequence);
            }
            SessionMessageState::Unavailable => {
                let _found = session.ready.remove(sequence) || session.delivered.remove(sequence);
                session.unavailable.insert(sequence);
            }
        }
        self.refresh(number);
    }

    /// Removes a message.
    pub(crate) fn remove(&mut self, number: SessionNumber, sequence: u64) {
        let Some(session) = self.get_mut(number) else { return };
        // Most are removed when they are settled.
        let _found = session.delivered.remove(sequence)
            || session.ready.remove(sequence)
            || session.unavailable.remove(&sequence);
        self.refresh(number);
    }

    /// The next session for an acceptor of any session, and its lowest ready message, which decides that.
    pub(crate) fn next_available(&self) -> Option<(SessionNumber, u64)> {
        self.available.first().map(|(sequence, number)| (*number, *sequence))
    }

    /// Gives a session to a consumer, if it is free.
    pub(crate) fn accept(&mut self, number: SessionNumber, holder: Holder) -> bool {
        let Some(session) = self.get_mut(number).filter(|session| session.lock == SessionLock::Free) else {
            return false;
        };
        session.lock = SessionLock::Held(holder);
        self.ends.insert((holder.until, number));
        self.refresh(number);
        true
    }

    /// Gives a running lock a new end.
    pub(crate) fn renew(&mut self, number: SessionNumber, until: Timestamp) {
        let Some(session) = self.get_mut(number) else { return };
        let SessionLock::Held(holder) = &mut session.lock else { return };
        let before = std::mem::replace(&mut holder.until, until);
        self.ends.remove(&(before, number));
        self.ends.insert((until, number));
        self.refresh(number);
    }

    /// The holder's lock begins anew at its end, after so many deliveries.
    pub(crate) fn go_on(&mut self, number: SessionNumber, until: Timestamp, taken: u64) {
        self.renew(number, until);
        if let Some(Session { lock: SessionLock::Held(holder), .. }) = self.get_mut(number) {
            holder.taken = taken;
        }
    }

    /// The holder's connection is lost: the lock runs on without a consumer.
    pub(crate) fn lose_holder(&mut self, number: SessionNumber) {
        if let Some(Session { lock: SessionLock::Held(holder), .. }) = self.get_mut(number) {
            holder.consumer = None;
        }
    }

    /// Ends a lock. The session is free when no message is delivered any more: at once, or when each of those has
    /// found another standing.
    pub(crate) fn end(&mut self, number: SessionNumber) {
        let Some(session) = self.get_mut(number) else { return };
        if let SessionLock::Held(holder) = session.lock {
            session.lock = SessionLock::Ending;
            self.ends.remove(&(holder.until, number));
            self.refresh(number);
        }
    }

    /// When the first lock ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// A session whose lock has ended by `now`.
    pub(crate) fn first_ended(&self, now: Timestamp) -> Option<SessionNumber> {
        self.ends.first().filter(|(at, _)| *at <= now).map(|(_, number)| *number)
    }

    /// The earliest deadline of a lock or of a waiting acceptor.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let (end, patience) = (self.next_end(), self.acceptors.deadline());
        end.into_iter().chain(patience).min()
    }

    /// The holder of a session may want something.
    pub(crate) fn call(&mut self, number: SessionNumber) {
        if self.get(number).is_some() {
            self.refresh(number);
        }
    }

    /// The next session in turn that is held and has something ready: its number, its holder's consumer and the
    /// message. It comes back in turn when it is called or something about it changes.
    pub(crate) fn next_in_turn(&mut self, now: Timestamp) -> Option<(SessionNumber, ConsumerNumber, u64)> {
        while let Some(number) = self.turn.pop_front() {
            let Some(session) = self.get_mut(number) else { continue };
            session.in_turn = false;
            let consumer = session.holder(now).and_then(|holder| holder.consumer);
            if let (Some(consumer), Some(sequence)) = (consumer, session.first_ready()) {
                return Some((number, consumer, sequence));
            }
            self.forget_nothing(number);
        }
        None
    }

    /// Whether there may be a message to deliver, or a session for a waiting acceptor.
    pub(crate) fn has_work(&self) -> bool {
        !self.turn.is_empty() || (!self.acceptors.is_empty() && !self.available.is_empty())
    }

    /// Sets or clears the state of a session; returns the one that it had.
    pub(crate) fn set_state(
        &mut self,
        number: SessionNumber,
        state: Option<SessionState>,
    ) -> Option<SessionState> {
        let session = self.get_mut(number)?;
        let before = std::mem::replace(&mut session.state, state.map(Box::new)).map(|before| *before);
        self.state_bytes += state.map_or(0, |state| u64::from(state.length));
        self.state_bytes -= before.map_or(0, |state| u64::from(state.length));
        self.refresh(number);
        before
    }

    /// All sessions in order of their numbers, which are reused.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.places.iter().filter_map(Option::as_deref)
    }

    /// Takes out one session of a deleted store.
    pub(crate) fn pop(&mut self) -> Option<Box<Session>> {
        while let Some(place) = self.places.pop() {
            if let Some(session) = place {
                self.by_id.remove(&session.id);
                self.listing.leave(&session.id);
                return Some(session);
            }
        }
        None
    }

    /// The consumers of the sessions that are next in turn, as far as they have one.
    pub(crate) fn consumers_in_turn(&self) -> impl Iterator<Item = ConsumerNumber> {
        self.turn.iter().filter_map(|number| match self.get(*number)?.lock {
            SessionLock::Held(holder) => holder.consumer,
            SessionLock::Free | SessionLock::Ending => None,
        })
    }

    /// Looks at a session everywhere; what it gives means nothing.
    pub(crate) fn prefetch(&self, number: SessionNumber) -> u64 {
        let Some(session) = self.get(number) else { return 0 };
        let numbers =
            session.ready.first().unwrap_or_default() ^ session.delivered.first().unwrap_or_default();
        numbers ^ session.listed.unwrap_or_default() ^ u64::from(session.in_turn)
    }

    fn get_mut(&mut self, number: SessionNumber) -> Option<&mut Session> {
        self.places.get_mut(number.0 as usize)?.as_deref_mut()
    }

    /// Puts a session into the lists it belongs to, after something about it has changed.
    fn refresh(&mut self, number: SessionNumber) {
        let Some(session) = self.places.get_mut(number.0 as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        if session.lock == SessionLock::Ending && session.delivered.is_empty() {
            session.lock = SessionLock::Free;
        }
        let first = session.ready.first();
        let listed = if session.lock == SessionLock::Free { first } else { None };
        if listed != session.listed {
            if let Some(before) = session.listed {
                self.available.remove(&(before, number));
            }
            if let Some(now) = listed {
                self.available.insert((now, number));
            }
            session.listed = listed;
        }
        let is_held = matches!(session.lock, SessionLock::Held(Holder { consumer: Some(_), .. }));
        if is_held && first.is_some() && !session.in_turn {
            session.in_turn = true;
            self.turn.push_back(number);
        }
        self.forget_nothing(number);
    }

    /// Forgets a session that is nothing any more.
    fn forget_nothing(&mut self, number: SessionNumber) {
        let Some(place) = self.places.get_mut(number.0 as usize) else { return };
        if let Some(session) = place.take_if(|session| session.is_nothing()) {
            self.by_id.remove(&session.id);
            self.listing.leave(&session.id);
            self.unused.push(number);
            if self.unused.len() == self.places.len() {
                (self.places, self.unused) = (Vec::new(), Vec::new());
            }
        }
    }
}

#[cfg(test)]
mod tests;
