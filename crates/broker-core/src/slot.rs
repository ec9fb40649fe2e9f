//! What the core remembers of one queued message: 48 bytes, the payload stays in the journal.
//!
//! Invariant: while `LOCKED` is set, `until` is the end of the lock, or the time at which it began where `UNTIMED` is
//! set as well; else it is a due time exactly while the state is `Scheduled`, else meaningless.

use crate::{LockId, Position, SettleError, Timestamp};

/// One attachment of a consumer, over all clients. Names the holder of a lock; never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ConsumerNumber(pub(crate) u32);

/// Where a message stands (`service-bus-entities` 3). A lock is an attribute, not a state.
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

/// What the core remembers of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Its record in the journal.
    pub(crate) position: Position,
    /// [`Timestamp::MAX`]: never.
    pub(crate) expires_at: Timestamp,
    /// See the module's invariant.
    pub(crate) until: Timestamp,
    /// Length of its record.
    pub(crate) length: u32,
    /// Failed deliveries so far.
    pub(crate) delivery_count: u32,
    /// The lock last granted. Of a body, which is never locked: how many copies refer to it.
    pub(crate) lock: LockId,
    /// Who got that lock.
    pub(crate) holder: ConsumerNumber,
    /// Where the message stands.
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
    /// A message that nobody has seen yet.
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
            lock: LockId(0),
            holder: ConsumerNumber(0),
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
    /// in which it arrived, so that a waiting consumer still gets it (`service-bus-entities` 5.4, 5.5).
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

    /// Whether a consumer may have it, expiry aside.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Active && self.flags & (LOCKED | DAMAGED) == 0
    }

    /// Whether a lock runs (or has run out without anybody having noticed yet).
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

    /// Starts a lock.
    pub(crate) fn start_lock(&mut self, lock: LockId, holder: ConsumerNumber, until: Timestamp) {
        self.lock = lock;
        self.holder = holder;
        self.until = until;
        self.flags = (self.flags | LOCKED | ACQUIRED) & !UNTIMED;
    }

    /// Starts a lock that ends with its holder's link, whatever the time is.
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

    /// How many copies refer to this body.
    pub(crate) fn references(&self) -> u32 {
        if self.state == State::Body { self.lock.0 } else { 0 }
    }

    /// Notes how many copies refer to this body.
    pub(crate) fn set_references(&mut self, references: u32) {
        if self.state == State::Body {
            self.lock = LockId(references);
        }
    }

    /// Whether `lock` still permits to settle. The end of the lock itself is too late.
    pub(crate) fn check_lock(&self, lock: LockId, now: Timestamp) -> Result<(), SettleError> {
        if self.is_locked() && self.lock == lock && !self.is_lock_over(now) {
            Ok(())
        } else {
            Err(SettleError::LockLost)
        }
    }
}

#[cfg(test)]
mod tests;
