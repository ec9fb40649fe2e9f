//! The state of a link or a session, as the layer above the connection reads it.
//!
//! Invariant: reading changes nothing, and what is gone reads as if it had never been used.

use crate::ids::DeliveryId;
use crate::link::{Link, LinkEnd};
use crate::session::Session;

/// Counters of one link, see [`Connection::link`](crate::Connection::link).
#[derive(Clone, Copy, Debug)]
pub struct LinkView<'a> {
    /// `None` when the link is gone or detached.
    link: Option<&'a Link>,
}

impl<'a> LinkView<'a> {
    #[inline]
    pub(crate) const fn new(link: Option<&'a Link>) -> Self {
        Self { link }
    }

    /// The credit that is left to the peer on a link that we receive on.
    pub fn credit_left(self) -> u32 {
        match self.link.map(|link| &link.end) {
            Some(LinkEnd::Receiver(receiver)) => receiver.credit.credit(),
            _ => 0,
        }
    }

    /// Number of deliveries handed over, or given up by a drain, on a link that we send on.
    #[inline]
    pub fn handed_over(self) -> u64 {
        match self.link.map(|link| &link.end) {
            Some(LinkEnd::Sender(sender)) => sender.credit.handed(),
            _ => 0,
        }
    }

    /// Activity counters of a link: of one that we receive on the deliveries that have begun and the bytes of the
    /// unfinished one, of one that we send on the deliveries that were handed over and the peer's limit. Where both
    /// are what they were, no message has moved on it and no credit was given.
    pub fn counts(self) -> (u64, u64) {
        match self.link.map(|link| &link.end) {
            Some(LinkEnd::Receiver(receiver)) => {
                (receiver.credit.count().into(), receiver.partial_len() as u64)
            }
            Some(LinkEnd::Sender(sender)) => (sender.credit.handed(), sender.credit.limit()),
            None => (0, 0),
        }
    }
}

/// Outgoing deliveries of one session, see [`Connection::session`](crate::Connection::session).
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    /// `None` when the session is gone or has ended.
    session: Option<&'a Session>,
}

impl<'a> SessionView<'a> {
    #[inline]
    pub(crate) const fn new(session: Option<&'a Session>) -> Self {
        Self { session }
    }

    /// Deliveries that were handed over and are not sent whole.
    pub fn unsent_deliveries(self) -> usize {
        self.session.map_or(0, |session| session.send_queue().len())
    }

    /// The id that the next delivery will have; `None` when the session is gone.
    pub fn next_outgoing(self) -> Option<DeliveryId> {
        self.session.map(|session| session.send_queue().next_id())
    }

    /// The first delivery that was handed over and is not sent to its end; `None` when there is none.
    pub fn oldest_unsent(self) -> Option<DeliveryId> {
        self.session?.send_queue().oldest()
    }
}
