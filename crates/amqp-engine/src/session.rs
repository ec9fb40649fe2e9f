//! One session: its windows, its links, its deliveries in both directions.
//!
//! Invariant: delivery-ids that go out run without gaps, and no transfer goes out that the peer's
//! window has no room for.

mod dispositions;
mod incoming;
mod links;
mod numbering;
mod outgoing;
mod window;

use std::collections::VecDeque;

use amqp_codec::performative::{Begin, Error, Flow};
use amqp_codec::types::Symbol;

pub(crate) use dispositions::Dispositions;
pub(crate) use incoming::{TransferContext, unattached};
pub(crate) use links::Links;
pub(crate) use numbering::Numbering;
pub(crate) use window::Windows;

use crate::condition::error;
use crate::config::Config;
use crate::delivery::{Compaction, Queued, Unsettled};
use crate::ids::SessionId;
use crate::link::{Link, LinkEnd};

/// A session, seen from our side.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The channel the peer sends on.
    pub(crate) remote_channel: u16,
    /// Whether our end is out; what still comes is ignored until the peer's own.
    pub(crate) ended: bool,
    pub(crate) windows: Windows,
    pub(crate) links: Links,
    /// Deliveries received and not settled.
    pub(crate) unsettled: Unsettled,
    /// Ids of the deliveries we send.
    pub(crate) numbering: Numbering,
    /// Deliveries to send.
    pub(crate) queue: VecDeque<Queued>,
    /// Largest length since the buffer was last shrunk, as a capacity hint.
    pub(crate) queue_most: usize,
    pub(crate) queue_before: usize,
    /// So many of them, the last, came since it was looked at what waits.
    pub(crate) uncompacted: usize,
    pub(crate) compaction: Compaction,
    pub(crate) dispositions: Dispositions,
    /// Whether a flow of the session itself is due.
    pub(crate) flow_due: bool,
    /// Whether the session waits for its turn to send.
    pub(crate) in_send_turn: bool,
}

/// Consequence of a peer's mistake: the end of its link or session.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// The link of this handle of ours.
    Link(u32, Box<Error>),
    Session(Box<Error>),
}

impl Fault {
    /// One that costs the session.
    #[cold]
    pub(crate) fn session(condition: Symbol, description: impl Into<String>) -> Self {
        Self::Session(Box::new(error(condition, description)))
    }
}

impl Session {
    /// The session that `begin` asks for.
    pub(crate) fn new(id: SessionId, remote_channel: u16, begin: &Begin, config: &Config) -> Self {
        Self {
            id,
            remote_channel,
            ended: false,
            windows: Windows::new(begin, config),
            links: Links::new(begin.handle_max),
            unsettled: Unsettled::default(),
            numbering: Numbering::new(config.initial_outgoing_id),
            queue: VecDeque::new(),
            queue_most: 0,
            queue_before: 0,
            uncompacted: 0,
            compaction: Compaction::default(),
            dispositions: Dispositions::default(),
            flow_due: false,
            in_send_turn: false,
        }
    }

    /// Our answer to the peer's begin.
    pub(crate) fn begin_answer(&self, config: &Config) -> Begin {
        Begin {
            remote_channel: Some(self.remote_channel),
            next_outgoing_id: self.windows.next_outgoing_id(),
            incoming_window: self.windows.incoming_left(),
            outgoing_window: config.session_outgoing_window,
            handle_max: config.handle_max,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    /// Whether more transfers may be asked for.
    #[inline]
    pub(crate) fn may_renew_window(&self, config: &Config) -> bool {
        self.unsettled.len() < config.max_unsettled
    }

    /// The state of the session, and of a link when one is given, as a flow.
    pub(crate) fn flow(&mut self, config: &Config, handle: Option<u32>) -> Flow {
        if self.may_renew_window(config) {
            self.windows.renew_incoming();
        }
        self.flow_due = false;
        let mut flow = Flow {
            next_incoming_id: Some(self.windows.next_incoming_id()),
            incoming_window: self.windows.incoming_left(),
            next_outgoing_id: self.windows.next_outgoing_id(),
            outgoing_window: config.session_outgoing_window,
            ..Flow::default()
        };
        if let Some(link) = handle.and_then(|handle| self.links.get_mut(handle)) {
            add_link_state(&mut flow, link);
        }
        flow
    }

    /// Whether a transfer can go out now.
    #[inline]
    pub(crate) fn can_send(&self) -> bool {
        !self.queue.is_empty() && self.windows.outgoing_left() > 0
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
        self.dispositions.shrink();
        self.unsettled.shrink();
    }

    /// Frees everything but the session's name: nothing goes out any more.
    pub(crate) fn clear(&mut self) {
        self.ended = true;
        self.links.clear();
        self.unsettled = Unsettled::default();
        self.queue = VecDeque::new();
        self.dispositions = Dispositions::default();
        self.flow_due = false;
    }
}

/// Adds the link's half to a flow, and marks it as told.
fn add_link_state(flow: &mut Flow, link: &mut Link) {
    link.flow_due = false;
    flow.handle = Some(link.key.handle);
    match &link.end {
        LinkEnd::Sender(sender) => {
            flow.delivery_count = Some(sender.delivery_count());
            flow.link_credit = Some(sender.link_credit());
            flow.available = Some(sender.queued);
            flow.drain = sender.drain;
        }
        LinkEnd::Receiver(receiver) => {
            flow.delivery_count = Some(receiver.credit.count());
            flow.link_credit = Some(receiver.credit.credit());
        }
    }
}
