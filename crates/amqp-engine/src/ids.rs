//! Names of the things a connection holds.
//!
//! Invariant: an id that outlives its session or link names nothing; it never names the successor
//! that took over the channel or the handle.

use std::fmt;

/// One session of a connection, named by the channel we send on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SessionId {
    pub(crate) channel: u16,
    pub(crate) generation: u32,
}

impl SessionId {
    /// The channel we send on, for logs.
    pub const fn channel(self) -> u16 {
        self.channel
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.channel)
    }
}

/// One link of a session, named by the handle we send.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkKey {
    pub(crate) session: SessionId,
    pub(crate) handle: u32,
    pub(crate) generation: u32,
}

impl LinkKey {
    /// The session the link belongs to.
    pub const fn session(self) -> SessionId {
        self.session
    }

    /// The handle we send, for logs.
    pub const fn handle(self) -> u32 {
        self.handle
    }
}

impl fmt::Display for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session.channel, self.handle)
    }
}

/// One delivery of a session, in one direction. A serial number (RFC 1982): it wraps, so it has
/// [`precedes`](Self::precedes) and deliberately no `Ord`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct DeliveryId(pub u32);

impl DeliveryId {
    /// Whether this delivery came before `other`.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        serial_distance(self.0, other.0) > 0
    }

    /// The id of the next delivery.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Number of deliveries from this one to `later`; negative when it came before.
    #[inline]
    pub const fn distance_to(self, later: Self) -> i32 {
        serial_distance(self.0, later.0)
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Distance from `from` to `to` in serial number arithmetic (RFC 1982); negative when it is behind.
#[inline]
pub(crate) const fn serial_distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

/// Hands out the generations of sessions and links.
#[derive(Debug, Default)]
pub(crate) struct Generations(u32);

impl Generations {
    /// A number that the last four thousand million sessions and links did not have.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

#[cfg(test)]
mod tests;
