//! One session: its windows, its links, its deliveries in both directions.
//!
//! Invariant: delivery-ids that go out run without gaps, and no transfer goes out that the peer's
//! window has no room for.

mod dispositions;
mod incoming;
mod links;
mod numbering;
mod outgoing;
mod send_queue;
mod window;

use amqp_codec::performative::{Begin, Flow};
use bytes::BytesMut;

use crate::condition;
use crate::config::Config;
use crate::context::Context;
use crate::delivery::Unsettled;
use crate::event::Event;
use crate::fault::Fault;
use crate::ids::{LinkKey, SessionId};
use crate::link::{Link, LinkEnd, LinkState};
use crate::output::{FlowDue, Output};
use dispositions::Dispositions;
pub(crate) use incoming::TransferContext;
use links::Links;
use send_queue::SendQueue;
use window::Windows;

/// A session, seen from our side.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    /// The channel the peer sends on.
    remote_channel: u16,
    /// Whether our end is out; what still comes is ignored until the peer's own.
    ended: bool,
    windows: Windows,
    links: Links,
    /// Deliveries received and not settled.
    unsettled: Unsettled,
    /// Deliveries to send.
    send_queue: SendQueue,
    dispositions: Dispositions,
    /// Whether a flow of the session itself is due.
    flow_due: bool,
    /// Whether the session waits for its turn to send.
    in_send_turn: bool,
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
            send_queue: SendQueue::new(config.initial_outgoing_id),
            dispositions: Dispositions::default(),
            flow_due: false,
            in_send_turn: false,
        }
    }

    #[inline]
    pub(crate) const fn id(&self) -> SessionId {
        self.id
    }

    /// The channel the peer sends on.
    pub(crate) const fn remote_channel(&self) -> u16 {
        self.remote_channel
    }

    /// Whether our end is not yet out.
    #[inline]
    pub(crate) const fn is_live(&self) -> bool {
        !self.ended
    }

    #[inline]
    pub(crate) const fn links(&self) -> &Links {
        &self.links
    }

    pub(crate) const fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// The link of a key, unless it is gone or detached.
    #[inline]
    pub(crate) fn link_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.links.get_mut(key.handle).filter(|link| link.key == key && link.is_live())
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
    fn may_renew_window(&self, config: &Config) -> bool {
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

    /// The peer's flow, of the session and perhaps of a link.
    pub(crate) fn on_flow(
        &mut self,
        context: &mut Context<'_>,
        flow: &mut Flow,
    ) -> Result<Option<Event>, Fault> {
        if let Err(problem) = self.windows.on_flow(flow, context.config.strict_ids) {
            return Err(Fault::session(condition::WINDOW_VIOLATION, problem.to_string()));
        }
        let mut event = None;
        if let Some(remote) = flow.handle {
            let handle = self.links.local_handle(remote).ok_or_else(|| unattached("flow", remote))?;
            event = self.on_link_flow(context, handle, flow)?;
        } else if flow.echo {
            self.request_flow(context.output);
        }
        self.take_send_turn(context.output);
        Ok(event)
    }

    /// The link's half of a flow.
    fn on_link_flow(
        &mut self,
        context: &mut Context<'_>,
        handle: u32,
        flow: &mut Flow,
    ) -> Result<Option<Event>, Fault> {
        let Some(link) = self.links.get_mut(handle).filter(|link| link.is_live()) else { return Ok(None) };
        let key = link.key;
        let mut lowered = None;
        match &mut link.end {
            LinkEnd::Receiver(receiver) => {
                if let Some(count) = flow.delivery_count {
                    receiver.credit.sender_is_at(count);
                }
            }
            LinkEnd::Sender(sender) => {
                sender.drain = flow.drain;
                if let Some(credit) = flow.link_credit {
                    let on_wire = sender.on_wire();
                    sender.credit.update(on_wire, flow.delivery_count, credit);
                    lowered = sender.beyond_credit();
                }
            }
        }
        if flow.echo {
            self.request_link_flow(context.output, handle);
        }
        if let Some(keep) = lowered {
            self.take_back(context.events, key, keep, false).map_err(Fault::Session)?;
        }
        let Some(sender) = self.links.get_mut(handle).and_then(Link::sender_mut) else { return Ok(None) };
        let event = Event::LinkFlow {
            link: key,
            limit: sender.credit.limit(),
            credit: sender.credit.available(),
            drain: flow.drain,
            echo: flow.echo,
            available: flow.available,
            properties: flow.properties.take(),
        };
        if context.events.is_empty() {
            return Ok(Some(event));
        }
        context.events.push_back(event);
        Ok(None)
    }

    /// Makes a flow of the session due.
    #[inline]
    pub(crate) fn request_flow(&mut self, output: &mut Output) {
        if !std::mem::replace(&mut self.flow_due, true) {
            output.push_flow(FlowDue { channel: self.id.channel, handle: None });
        }
    }

    /// Makes a flow of a link due: now, or once its attach is answered.
    pub(crate) fn request_link_flow(&mut self, output: &mut Output, handle: u32) {
        let Some(link) = self.links.get_mut(handle).filter(|link| link.is_live()) else { return };
        let was_due = std::mem::replace(&mut link.flow_due, true);
        if !was_due && matches!(link.state, LinkState::Attached) {
            output.push_flow(FlowDue { channel: self.id.channel, handle: Some(handle) });
        }
    }

    /// Whether a flow of the session, or of the link of this handle, still has to go out.
    pub(crate) fn is_flow_due(&self, handle: Option<u32>) -> bool {
        let due = match handle {
            None => self.flow_due,
            Some(handle) => self.links.get(handle).is_some_and(|link| link.flow_due && link.is_live()),
        };
        due && !self.ended
    }

    /// Makes a flow due when the peer may run out of window soon and it can be renewed.
    #[inline]
    pub(crate) fn renew_window(&mut self, config: &Config, output: &mut Output) {
        if self.windows.incoming_is_low() && self.may_renew_window(config) {
            self.request_flow(output);
        }
    }

    /// Lets the peer send `credit` deliveries from here on, on a link that we receive on.
    pub(crate) fn grant_credit(&mut self, output: &mut Output, link: LinkKey, credit: u32) {
        let Some(receiver) = self.link_mut(link).and_then(Link::receiver_mut) else { return };
        receiver.credit.grant(credit);
        self.request_link_flow(output, link.handle);
    }

    /// About the bytes of the dispositions that wait to be written.
    pub(crate) fn disposition_bytes(&self) -> usize {
        self.dispositions.bytes()
    }

    /// Appends the dispositions that wait to `out`, in frames of at most `max_frame` bytes.
    #[inline]
    pub(crate) fn write_dispositions(&mut self, max_frame: u32, out: &mut BytesMut) {
        self.dispositions.write(self.id.channel, max_frame, out);
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.send_queue.shrink();
        self.dispositions.shrink();
        self.unsettled.shrink();
    }

    /// Frees everything but the session's name: nothing goes out any more.
    pub(crate) fn clear(&mut self) {
        self.ended = true;
        self.links.clear();
        self.unsettled = Unsettled::default();
        self.send_queue.clear();
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

/// Input for a handle that no link has.
#[cold]
fn unattached(performative: &str, handle: u32) -> Fault {
    let text = format!("{performative} on handle {handle}, which is not attached");
    Fault::session(condition::UNATTACHED_HANDLE, text)
}
