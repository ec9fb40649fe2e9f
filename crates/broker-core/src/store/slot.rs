//! Entry of one queued message: 48 bytes in memory; the payload stays in the journal.
//!
//! Invariant: while `LOCKED` is set, `until` is the end of the lock, or the time at which it began where `UNTIMED` is
//! set as well; else it is a due time exactly while the state is `Scheduled`, else meaningless.

use super::sessions::SessionNumber;
pub(crate) use crate::ids::ConsumerNumber;
use crate::{LockId, Position, SettleError, Timestamp};

/// State of a message, as Service Bus names it in `x-opt-message-state`. A lock is an attribute, not a state.
///
/// ```text
///  Scheduled ── due ──▶ (gone; a new Active message)
///  Active ── defer (under a lock) ──▶ Deferred ── settle (under a lock) ──▶ gone
///    └── complete · dead-letter (under a lock), expiry (without) ──▶ gone
///  Body ── its last copy is gone ──▶ gone
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum State {
    /// In the retrieval order.
    Active = 0,
    /// Set aside; fetched by number only.
    Deferred = 1,
    /// Not yet enqueued.
    Scheduled = 2,
    /// No message of its own: what the copies of a topic's message share.
    Body = 3,
}

/// Entry of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Its record in the journal.
    pub(crate) position: Position,
    /// [`Timestamp::MAX`]: never.
    pub(crate) expires_at: Timestamp,
    /// See the module's invariant.
    until: Timestamp,
    /// Length of its record.
    pub(crate) length: u32,
    /// Failed deliveries so far.
    pub(crate) delivery_count: u32,
    /// Id of the lock last granted; of a body, which is never locked, the number of copies that refer to it.
    lock_or_references: u32,
    /// Number of the consumer that got that lock; in a store with sessions, the number of the message's session.
    holder_or_session: u32,
    pub(crate) state: State,
    flags: u8,
    /// 48 bits of milliseconds last until the year 10889.
    enqueued: [u8; 6],
}

/// A lock runs.
const LOCKED: u8 = 1;
/// It was handed out at least once since the process started.
const ACQUIRED: u8 = 2;
/// Its record could not be read: it is hidden until the next start.
const DAMAGED: u8 = 4;
/// The lock that runs has no end of its own: it ends with the link that holds the message.
const UNTIMED: u8 = 8;

impl Slot {
    /// A message that was never delivered.
    #[inline]
    pub(crate) fn new(
        position: Position,
        length: u32,
        enqueued_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        let mut enqueued = [0; 6];
        for (place, byte) in enqueued.iter_mut().zip(enqueued_at.as_millis().to_le_bytes()) {
            *place = byte;
        }
        Self {
            position,
            expires_at,
            until: Timestamp::MAX,
            length,
            delivery_count: 0,
            lock_or_references: 0,
            holder_or_session: 0,
            state: State::Active,
            flags: 0,
            enqueued,
        }
    }

    /// When its time to live ends, if it has one.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        Some(self.expires_at).filter(|at| *at != Timestamp::MAX)
    }

    /// When the broker took it.
    pub(crate) fn enqueued_at(&self) -> Timestamp {
        let mut millis = [0; 8];
        for (place, byte) in millis.iter_mut().zip(self.enqueued) {
            *place = byte;
        }
        Timestamp::from_millis(u64::from_le_bytes(millis))
    }

    /// First instant at which it may not be handed out any more. A time to live of zero leaves it the millisecond
    /// in which it arrived, so that a waiting consumer still gets it (`docs/features/queues.md`, "Time to live").
    pub(crate) fn dies_at(&self) -> Timestamp {
        if self.expires_at == self.enqueued_at() {
            Timestamp::from_millis(self.expires_at.as_millis().saturating_add(1))
        } else {
            self.expires_at
        }
    }

    /// Whether its time to live has passed.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at != Timestamp::MAX && now >= self.dies_at()
    }

    /// Whether it may not be handed out, for its time is over. Nothing expires among the dead letters.
    pub(crate) fn is_over(&self, in_dead_letters: bool, now: Timestamp) -> bool {
        !in_dead_letters && self.is_expired(now)
    }

    /// Whether a consumer may have it, expiry aside.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Active && self.flags & (LOCKED | DAMAGED) == 0
    }

    /// Whether a lock runs, or has expired and its timer was not handled yet.
    pub(crate) fn is_locked(&self) -> bool {
        self.flags & LOCKED != 0
    }

    /// Whether it was handed out before.
    pub(crate) fn is_acquired(&self) -> bool {
        self.flags & ACQUIRED != 0
    }

    /// Whether its record could not be read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.flags & DAMAGED != 0
    }

    /// Notes that it was handed out before.
    pub(crate) fn set_acquired(&mut self) {
        self.flags |= ACQUIRED;
    }

    /// Id of the lock that runs, or of the last one.
    pub(crate) fn lock(&self) -> LockId {
        LockId(self.lock_or_references)
    }

    /// The consumer that got that lock. Not for a store with sessions.
    pub(crate) fn holder(&self) -> ConsumerNumber {
        ConsumerNumber(self.holder_or_session)
    }

    /// The session of a message, in a store with sessions.
    pub(crate) fn session(&self) -> SessionNumber {
        SessionNumber(self.holder_or_session)
    }

    /// The message belongs to this session.
    pub(crate) fn set_session(&mut self, session: SessionNumber) {
        self.holder_or_session = session.0;
    }

    /// The end of the lock that runs, or the time at which it began where it has no timer.
    pub(crate) fn lock_time(&self) -> Option<Timestamp> {
        self.is_locked().then_some(self.until)
    }

    /// The time at which a scheduled message is due.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        (self.state == State::Scheduled).then_some(self.until)
    }

    /// Sets the time at which a scheduled message is due; `None` for any other.
    pub(crate) fn set_due(&mut self, due: Option<Timestamp>) {
        self.until = due.unwrap_or(Timestamp::MAX);
    }

    /// Starts a lock.
    pub(crate) fn start_lock(&mut self, lock: LockId, holder: ConsumerNumber, until: Timestamp) {
        self.holder_or_session = holder.0;
        self.start_lock_in_session(lock, until);
    }

    /// Starts a lock whose holder is the one of the message's session.
    pub(crate) fn start_lock_in_session(&mut self, lock: LockId, until: Timestamp) {
        self.lock_or_references = lock.0;
        self.until = until;
        self.flags = (self.flags | LOCKED | ACQUIRED) & !UNTIMED;
    }

    /// Starts a lock that ends with its holder's link and not by time.
    pub(crate) fn start_untimed_lock(&mut self, lock: LockId, holder: ConsumerNumber, now: Timestamp) {
        self.start_lock(lock, holder, now);
        self.flags |= UNTIMED;
    }

    /// Gives a running lock a new end. A lock without a timer keeps none.
    pub(crate) fn renew_lock(&mut self, until: Timestamp) {
        if self.flags & UNTIMED == 0 {
            self.until = until;
        }
    }

    /// Ends the lock.
    pub(crate) fn end_lock(&mut self) {
        self.until = Timestamp::MAX;
        self.flags &= !(LOCKED | UNTIMED);
    }

    /// Whether a lock runs whose time is over.
    pub(crate) fn is_lock_over(&self, now: Timestamp) -> bool {
        self.flags & (LOCKED | UNTIMED) == LOCKED && now >= self.until
    }

    /// The time at which the lock began, of a lock without a timer.
    pub(crate) fn held_since(&self) -> Option<Timestamp> {
        (self.flags & (LOCKED | UNTIMED) == LOCKED | UNTIMED).then_some(self.until)
    }

    /// Hides it: its record cannot be read.
    pub(crate) fn set_damaged(&mut self) {
        self.flags |= DAMAGED;
    }

    /// Number of copies that refer to this body.
    pub(crate) fn references(&self) -> u32 {
        if self.state == State::Body { self.lock_or_references } else { 0 }
    }

    /// Notes how many copies refer to this body.
    pub(crate) fn set_references(&mut self, references: u32) {
        if self.state == State::Body {
            self.lock_or_references = references;
        }
    }

    /// Whether `lock` still permits to settle. The end of the lock itself is too late.
    pub(crate) fn check_lock(&self, lock: LockId, now: Timestamp) -> Result<(), SettleError> {
        if self.is_locked() && self.lock() == lock && !self.is_lock_over(now) {
            Ok(())
        } else {
            Err(SettleError::LockLost)
        }
    }
}

#[cfg(test)]
mod tests;
