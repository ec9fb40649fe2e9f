//! One link: who speaks, how it settles, and how far its life has come.
//!
//! ```text
//!            LinkAttached          accept_link            detach (theirs, answered)
//!   (none) ───────────────▶ Pending ──────────▶ Attached ─────────────────────────▶ gone
//!                             │                    │                                  ▲
//!                             │ refuse_link        │ detach (ours)   detach (theirs,  │
//!                             └────────▶ Detached ◀┘ ───────────────  swallowed) ─────┘
//! ```
//!
//! Invariant: one detach goes out for each link, whoever asked for it first.

mod credit;
mod name;
mod receiver;
mod sender;

use amqp_codec::performative::Attach;
use amqp_codec::types::{ReceiverSettleMode, Role, SenderSettleMode};

pub(crate) use name::NameDigest;
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use crate::event::Event;
use crate::ids::LinkKey;

/// A link, seen from our side.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) key: LinkKey,
    /// The handle the peer sends.
    pub(crate) remote_handle: u32,
    pub(crate) name: Box<str>,
    pub(crate) name_digest: NameDigest,
    pub(crate) state: LinkState,
    pub(crate) end: LinkEnd,
    pub(crate) snd_settle_mode: SenderSettleMode,
    pub(crate) rcv_settle_mode: ReceiverSettleMode,
    /// Whether a flow of this link is due.
    pub(crate) flow_due: bool,
}

/// State of a link.
#[derive(Debug)]
pub(crate) enum LinkState {
    /// The peer has attached; the layer above has yet to answer. Holds the peer's attach.
    Pending(Box<Attach>),
    /// Both have attached.
    Attached,
    /// We have detached; what still comes is ignored until the peer's own detach.
    Detached {
        /// Deliveries may have gone out on it, which the peer can settle until then.
        had_deliveries: bool,
    },
}

/// Our end of the link.
#[derive(Debug)]
pub(crate) enum LinkEnd {
    /// We send.
    Sender(Sender),
    /// We receive.
    Receiver(Receiver),
}

impl Link {
    /// Our end of a link that the peer attaches.
    pub(crate) fn new(key: LinkKey, attach: &Attach, name_digest: NameDigest, max_message_size: u64) -> Self {
        let end = match attach.role {
            Role::Sender => {
                LinkEnd::Receiver(Receiver::new(attach.initial_delivery_count.unwrap_or(0), max_message_size))
            }
            Role::Receiver => LinkEnd::Sender(Sender::default()),
        };
        Self {
            key,
            remote_handle: attach.handle,
            name: attach.name.as_str().into(),
            name_digest,
            state: LinkState::Pending(Box::new(attach.clone())),
            end,
            snd_settle_mode: attach.snd_settle_mode.unwrap_or_default(),
            rcv_settle_mode: attach.rcv_settle_mode.unwrap_or_default(),
            flow_due: false,
        }
    }

    /// Our role.
    pub(crate) const fn role(&self) -> Role {
        match self.end {
            LinkEnd::Sender(_) => Role::Sender,
            LinkEnd::Receiver(_) => Role::Receiver,
        }
    }

    /// Whether this is its name.
    pub(crate) fn is_named(&self, name: &str, digest: NameDigest) -> bool {
        name::is_same((self.name_digest, &self.name), (digest, name))
    }

    /// Whether our detach is not yet out.
    #[inline]
    pub(crate) const fn is_live(&self) -> bool {
        !matches!(self.state, LinkState::Detached { .. })
    }

    /// Event for the unfinished delivery when the link drops it.
    pub(crate) fn partial_work(&self) -> Option<Event> {
        match &self.end {
            LinkEnd::Receiver(Receiver { partial: Some(partial), .. }) => {
                Event::work_lost(partial.state.as_ref())
            }
            LinkEnd::Receiver(_) | LinkEnd::Sender(_) => None,
        }
    }

    /// Bytes of the delivery that is being gathered.
    pub(crate) fn partial_len(&self) -> usize {
        match &self.end {
            LinkEnd::Receiver(receiver) => receiver.partial_len(),
            LinkEnd::Sender(_) => 0,
        }
    }

    /// Our sending end, when that is what it is.
    #[inline]
    pub(crate) const fn sender_mut(&mut self) -> Option<&mut Sender> {
        match &mut self.end {
            LinkEnd::Sender(sender) => Some(sender),
            LinkEnd::Receiver(_) => None,
        }
    }

    /// Our receiving end, when that is what it is.
    #[inline]
    pub(crate) const fn receiver_mut(&mut self) -> Option<&mut Receiver> {
        match &mut self.end {
            LinkEnd::Receiver(receiver) => Some(receiver),
            LinkEnd::Sender(_) => None,
        }
    }
}
