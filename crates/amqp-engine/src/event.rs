//! Events of a connection for the layer above.
//!
//! Invariant: an event names only sessions and links whose begin and attach were told before and
//! whose end was not, but for the end of a link that was detached on our side first.

use amqp_codec::performative::{Attach, DeliveryState, Error, Open, TxnId};
use amqp_codec::raw::RawMap;
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode, Symbol};
use bytes::Bytes;

use crate::ids::{DeliveryId, LinkKey, SessionId};

/// Event of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The peer has chosen a mechanism that we offer. Answer with
    /// [`sasl_challenge`](crate::Connection::sasl_challenge) or
    /// [`sasl_outcome`](crate::Connection::sasl_outcome); no further input is looked at before.
    SaslInit {
        mechanism: Symbol,
        /// Absent is not the same as empty.
        initial_response: Option<Bytes>,
        /// The host the peer wants to reach.
        hostname: Option<String>,
    },
    /// The peer has answered a challenge. Answer as for [`Event::SaslInit`].
    SaslResponse(Bytes),
    /// The peer has opened. Answer with [`accept_open`](crate::Connection::accept_open) or
    /// [`refuse_open`](crate::Connection::refuse_open); no further input is looked at before.
    Opened(Box<Open>),
    /// The peer has begun a session; it is already answered.
    SessionBegun { session: SessionId },
    /// The peer has attached a link. Answer with [`accept_link`](crate::Connection::accept_link)
    /// or [`refuse_link`](crate::Connection::refuse_link). Flows and transfers may come before the
    /// answer is given.
    LinkAttached { link: LinkKey, attach: Box<Attach> },
    /// The receiver of a link we send on tells its credit.
    LinkFlow {
        link: LinkKey,
        /// Total number of deliveries since the attach that the peer allows.
        limit: u64,
        /// Number of them that may still be handed over.
        credit: u32,
        /// Whether credit is to be used up at once, and
        /// [`drained`](crate::Connection::drained) to be called when nothing is left to send.
        drain: bool,
        /// Whether the peer asked for our state; the engine answers.
        echo: bool,
        /// The field `available`, which a receiver may set too.
        available: Option<u32>,
        /// Link state properties, such as the transaction that acquires.
        properties: Option<RawMap>,
    },
    /// A delivery has come in whole.
    Transfer(IncomingDelivery),
    /// An unsettled delivery was larger than its link takes; its bytes are dropped. It counts as
    /// any other and waits for [`settle_incoming`](crate::Connection::settle_incoming). One that
    /// was sent settled detaches the link instead, for nothing else would tell its sender.
    TooLarge {
        link: LinkKey,
        /// The delivery's id in the session.
        delivery_id: DeliveryId,
        /// The sender's name for it.
        tag: DeliveryTag,
        /// The sender's view of its state, such as the transaction it belongs to.
        state: Option<DeliveryState>,
        /// The size of the whole payload, in bytes.
        bytes: u64,
        /// The largest the link takes, in bytes.
        limit: u64,
    },
    /// The peer tells the state of deliveries that we sent. The range lies within what was sent;
    /// ids in it that the layer above does not know, or has settled, mean nothing. It can be wide:
    /// intersect it with what is unsettled, do not count through it.
    Disposition {
        session: SessionId,
        first: DeliveryId,
        last: DeliveryId,
        /// Whether the peer has settled.
        settled: bool,
        state: Option<DeliveryState>,
    },
    /// The peer tells the state of deliveries that it sent itself: the end of a settlement in
    /// rcv-settle-mode second, or a publisher that no longer waits. One event for each run of
    /// deliveries that were unsettled.
    SettledByPeer {
        session: SessionId,
        first: DeliveryId,
        last: DeliveryId,
        /// Whether the peer has settled; when not, they stay unsettled.
        settled: bool,
        state: Option<DeliveryState>,
    },
    /// Deliveries that were handed over will not be sent (to the end): their link, session or
    /// connection is gone, or the peer took its credit back. For lost credit alone those that go out
    /// settled, or are `given`, are not taken back: they are sent.
    Unsent { link: LinkKey, deliveries: Vec<DeliveryId> },
    /// A link is gone. By the peer, it is with everything unsettled on it; what is gone by the engine
    /// may still be settled by the peer until [`Event::DetachAnswered`]. Not told of links that the
    /// layer above has refused or detached itself.
    LinkDetached {
        link: LinkKey,
        /// Whether the link is destroyed rather than suspended.
        closed: bool,
        error: Option<Error>,
        by: Origin,
    },
    /// The peer has detached a link that we sent on and that was detached on our side first: it has
    /// nothing more to say of what it was sent there. Not told of links that were refused, nor of
    /// those whose session or connection ends before.
    DetachAnswered { link: LinkKey },
    /// Work that the peer sent in a transaction is not done, and nothing else says so: a message or an
    /// outcome for a link or session that is gone on our side, or that cost its link or session; or the
    /// front of a message whose link or session goes on our side. The transaction must not succeed
    /// without it (transactions 4.4.1).
    WorkLost {
        /// The transaction that it names.
        txn_id: TxnId,
    },
    /// A session is gone, and with it all its links. Not told of sessions that the layer above has
    /// ended itself.
    SessionEnded { session: SessionId, error: Option<Error>, by: Origin },
    /// The connection is gone, and with it everything on it. Always the last event; not told of
    /// connections that the layer above has closed itself.
    Closed { error: Option<Error>, by: Origin },
}

impl Event {
    /// That work in this state is lost, if it is in a transaction.
    pub(crate) fn work_lost(state: Option<&DeliveryState>) -> Option<Self> {
        match state {
            Some(DeliveryState::Transactional { txn_id, .. }) => {
                Some(Self::WorkLost { txn_id: txn_id.clone() })
            }
            _ => None,
        }
    }
}

/// Side that ended a link, session or connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Origin {
    Peer,
    /// The engine did it, because of a mistake of the peer or a time-out.
    Engine,
    /// The transport was lost without a word.
    Transport,
}

/// A delivery that has come in.
#[derive(Clone, Debug, PartialEq)]
pub struct IncomingDelivery {
    /// The link it came on.
    pub link: LinkKey,
    /// Its id in the session.
    pub delivery_id: DeliveryId,
    /// The sender's name for it.
    pub tag: DeliveryTag,
    /// 0 for a standard message.
    pub message_format: u32,
    /// Whether the sender has already settled, so that nothing is to be answered.
    pub settled: bool,
    /// The sender's view of its state, such as the transaction it belongs to.
    pub state: Option<DeliveryState>,
    /// Whether it resumes an earlier delivery of the same tag.
    pub resume: bool,
    /// Whether the receiver settles at once or after the sender.
    pub rcv_settle_mode: ReceiverSettleMode,
    pub payload: Bytes,
}

impl IncomingDelivery {
    /// The session it came in.
    pub const fn session(&self) -> SessionId {
        self.link.session()
    }
}
