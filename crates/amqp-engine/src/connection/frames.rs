//! Handlers of an open connection for each performative of the peer.
//!
//! Invariant: a frame for a session that we have ended, or a link that we have detached, changes
//! nothing but the count of frames; a transaction that it names is told of.

use amqp_codec::frame::{FrameError, FrameHeader, FrameKind};
use amqp_codec::performative::{Begin, Close, Disposition, End, Flow, Performative, Transfer, decode_prefix};
use amqp_codec::types::Role;
use bytes::BytesMut;

use super::Connection;
use crate::condition;
use crate::delivery::Payload;
use crate::event::{Event, Origin};
use crate::ids::{DeliveryId, LinkKey, SessionId};
use crate::link::LinkEnd;
use crate::session::{Fault, Session, TransferContext, unattached};

impl Connection {
    /// A whole frame has come in, or bytes that are none. What it tells is returned when it is one
    /// event, and queued otherwise.
    #[inline]
    pub(super) fn on_frame(&mut self, frame: Result<(FrameHeader, BytesMut), FrameError>) -> Option<Event> {
        let (header, frame) = match frame {
            Ok(frame) => frame,
            Err(problem) => {
                self.fail_framing(problem.to_string());
                return None;
            }
        };
        if header.kind != FrameKind::Amqp || header.channel > self.config.channel_max {
            self.refuse_frame(header);
            return None;
        }
        let body = frame.get(header.body_offset()..).unwrap_or_default();
        if body.is_empty() {
            return None;
        }
        let whole = body.len();
        // The hot three are looked at where they lie: moving them about costs more than they do.
        match &mut decode_prefix(body) {
            Ok((Performative::Transfer(transfer), length)) => {
                let payload = Payload::new(frame, header.body_offset() + *length);
                self.on_transfer(header.channel, transfer, payload)
            }
            Ok((Performative::Disposition(disposition), length)) if *length == whole => {
                self.on_disposition(header.channel, disposition)
            }
            Ok((Performative::Flow(flow), length)) if *length == whole => self.on_flow(header.channel, flow),
            Ok((other, length)) => {
                self.on_cold(header.channel, other, *length < whole);
                None
            }
            Err(problem) => {
                self.fail(condition::DECODE_ERROR, problem.to_string());
                None
            }
        }
    }

    #[cold]
    fn refuse_frame(&mut self, header: FrameHeader) {
        let (channel, max) = (header.channel, self.config.channel_max);
        if header.kind == FrameKind::Amqp {
            self.fail_framing(format!("frame on channel {channel}, the highest is {max}"));
        } else {
            self.fail_framing("SASL frame after the AMQP header");
        }
    }

    #[cold]
    fn on_cold(&mut self, channel: u16, performative: &Performative, has_payload: bool) {
        if has_payload {
            let text = format!("{} with a payload", performative.kind());
            return self.fail(condition::DECODE_ERROR, text);
        }
        match performative {
            Performative::Begin(begin) => self.on_begin(channel, begin),
            Performative::Attach(attach) => self.on_attach(channel, attach),
            Performative::Detach(detach) => self.on_detach(channel, detach),
            Performative::End(end) => self.on_end(channel, end),
            Performative::Close(close) => self.on_close(close),
            Performative::Open(_) => self.fail(condition::ILLEGAL_STATE, "second open"),
            Performative::Flow(_) | Performative::Transfer(_) | Performative::Disposition(_) => {}
        }
    }

    #[inline]
    fn on_transfer(&mut self, channel: u16, transfer: &mut Transfer, payload: Payload) -> Option<Event> {
        let Some(ours) = self.sessions.local_channel(channel) else {
            self.fail_unmapped("transfer", channel);
            return None;
        };
        let session = self.sessions.at_mut(ours)?;
        if session.ended {
            return Event::work_lost(transfer.state.as_ref());
        }
        let mut context = TransferContext { config: &self.config, partial_bytes: &mut self.partial_bytes };
        let result = session.on_transfer(&mut context, transfer, payload);
        if session.windows.incoming_is_low() && session.may_renew_window(&self.config) {
            self.session_flow_due(ours);
        }
        match result {
            Ok(event) => event,
            Err(fault) => {
                self.on_fault(ours, fault);
                if let Some(lost) = Event::work_lost(transfer.state.as_ref()) {
                    self.push_event(lost);
                }
                None
            }
        }
    }

    #[inline]
    fn on_disposition(&mut self, channel: u16, disposition: &mut Disposition) -> Option<Event> {
        // Late dispositions of a session that has just ended do no harm.
        let ours = self.sessions.local_channel(channel)?;
        let session = self.sessions.at_mut(ours)?;
        let Disposition { role, first, last, settled, .. } = *disposition;
        if session.ended {
            return Event::work_lost(disposition.state.as_ref().filter(|_| role == Role::Receiver));
        }
        let last = last.unwrap_or(first);
        let state = disposition.state.take();
        if role == Role::Sender {
            let runs = session.peer_settles(first, last, settled);
            let id = session.id;
            self.events.extend(runs.into_iter().map(|(first, last)| Event::SettledByPeer {
                session: id,
                first,
                last,
                settled,
                state: state.clone(),
            }));
            self.renew_window(ours);
            return None;
        }
        let (first, last) = session.numbering.sent_part(first, last)?;
        Some(Event::Disposition {
            session: session.id,
            first: DeliveryId(session.numbering.local_of(first)),
            last: DeliveryId(session.numbering.local_of(last)),
            settled,
            state,
        })
    }

    fn on_flow(&mut self, channel: u16, flow: &mut Flow) -> Option<Event> {
        let ours = self.sessions.local_channel(channel)?;
        let session = self.sessions.at_mut(ours).filter(|session| !session.ended)?;
        if let Err(problem) = session.windows.on_flow(flow, self.config.strict_ids) {
            self.on_fault(ours, Fault::session(condition::WINDOW_VIOLATION, problem.to_string()));
            return None;
        }
        let handle = flow.handle.map(|remote| (remote, session.links.local_handle(remote)));
        let event = match handle {
            Some((_, Some(handle))) => self.on_link_flow(ours, handle, flow),
            Some((remote, None)) => {
                self.on_fault(ours, unattached("flow", remote));
                None
            }
            None => {
                if flow.echo {
                    self.session_flow_due(ours);
                }
                None
            }
        };
        self.take_send_turn(ours);
        event
    }

    /// The link's half of a flow.
    fn on_link_flow(&mut self, channel: u16, handle: u32, flow: &mut Flow) -> Option<Event> {
        let session = self.sessions.at_mut(channel)?;
        let link = session.links.get_mut(handle).filter(|link| link.is_live())?;
        let key = link.key;
        let mut lowered = None;
        let event = match &mut link.end {
            LinkEnd::Receiver(receiver) => {
                if let Some(count) = flow.delivery_count {
                    receiver.credit.sender_is_at(count);
                }
                None
            }
            LinkEnd::Sender(sender) => {
                sender.drain = flow.drain;
                if let Some(credit) = flow.link_credit {
                    let on_wire = sender.on_wire();
                    sender.credit.update(on_wire, flow.delivery_count, credit);
                    lowered = sender.beyond_credit();
                }
                Some(())
            }
        };
        if flow.echo {
            self.link_flow_due(key);
        }
        if let Some(keep) = lowered {
            self.take_back(key, keep, false);
        }
        event.and_then(|()| self.link_flow_event(key, flow))
    }

    fn link_flow_event(&mut self, link: LinkKey, flow: &mut Flow) -> Option<Event> {
        let sender = self.sessions.link_mut(link)?.sender_mut()?;
        let event = Event::LinkFlow {
            link,
            limit: sender.credit.limit(),
            credit: sender.credit.available(),
            drain: flow.drain,
            echo: flow.echo,
            available: flow.available,
            properties: flow.properties.take(),
        };
        if self.events.is_empty() {
            return Some(event);
        }
        self.events.push_back(event);
        None
    }

    fn on_begin(&mut self, channel: u16, begin: &Begin) {
        if begin.remote_channel.is_some() {
            let text = "begin with a remote-channel, though none was begun by us";
            return self.fail(condition::INVALID_FIELD, text);
        }
        if self.sessions.local_channel(channel).is_some() {
            let text = format!("begin on channel {channel}, which has a session");
            return self.fail(condition::NOT_ALLOWED, text);
        }
        let Some(ours) = self.sessions.free_channel().filter(|&c| c <= self.peer.channel_max) else {
            let text = format!("no channel is left up to {}", self.peer.channel_max);
            return self.fail(condition::RESOURCE_LIMIT_EXCEEDED, text);
        };
        let id = SessionId { channel: ours, generation: self.generations.next() };
        let session = Session::new(id, channel, begin, &self.config);
        let answer = session.begin_answer(&self.config);
        self.sessions.insert(session);
        self.write_setup(ours, |out| answer.encode(out));
        self.push_event(Event::SessionBegun { session: id });
    }

    fn on_end(&mut self, channel: u16, end: &End) {
        // A second end, or one for a session that never was, needs no answer.
        let Some(ours) = self.sessions.local_channel(channel) else { return };
        let Some(session) = self.sessions.at(ours) else { return };
        let (id, ended) = (session.id, session.ended);
        if !ended {
            self.settle_delayed_of_session(id);
            self.give_back_session(ours);
            self.release_session(ours);
            self.write_teardown(ours, |out| End::default().encode(out), |_| {});
            self.push_event(Event::SessionEnded { session: id, error: end.error.clone(), by: Origin::Peer });
        }
        self.sessions.remove(ours);
    }

    fn on_close(&mut self, close: &Close) {
        self.return_all_unsent();
        self.settle_all_delayed();
        self.write_close(None);
        self.phase = super::Phase::Closed;
        self.reader.clear();
        self.events.push_back(Event::Closed { error: close.error.clone(), by: Origin::Peer });
    }

    /// A frame on a channel that has no session.
    #[cold]
    pub(super) fn fail_unmapped(&mut self, what: &str, channel: u16) {
        let text = format!("{what} on channel {channel}, which has no session");
        self.fail(condition::ILLEGAL_STATE, text);
    }

    /// Makes a mistake of the peer cost it what it costs.
    #[cold]
    pub(super) fn on_fault(&mut self, channel: u16, fault: Fault) {
        match fault {
            Fault::Link(handle, error) => {
                let key = self.sessions.at(channel).and_then(|s| s.links.get(handle)).map(|l| l.key);
                if let Some(key) = key {
                    self.fail_link(key, *error);
                }
            }
            Fault::Session(error) => self.fail_session(channel, *error),
        }
    }
}
