//! Sessions and links of an open connection.
//!
//! Invariant: a frame for a session that we have ended, or a link that we have detached, changes nothing but the count
//! of frames; the layer above learns of a transaction that it names.

mod links;
mod table;

use std::collections::VecDeque;
use std::time::Instant;

use amqp_codec::performative::{Begin, Disposition, End, Error, Flow, Transfer};
use bytes::BytesMut;

use crate::condition;
use crate::config::Config;
use crate::context::Context;
use crate::delivery::{DelayedOutcome, DelayedOutcomes, PartialBytes, Payload};
use crate::event::{Event, Origin};
use crate::fault::{Failure, Fault};
use crate::gather::GatherBuffer;
use crate::ids::{DeliveryId, Generations, LinkKey, SessionId};
use crate::link::Link;
use crate::output::shorten;
use crate::session::{Session, TransferContext};
use table::SessionTable;

/// Endpoints that a peer has on one connection.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    sessions: SessionTable,
    /// Outcomes that go out later than they are known.
    delayed: DelayedOutcomes,
    generations: Generations,
    /// Bytes of unfinished deliveries.
    partial_bytes: PartialBytes,
}

/// Most unsettled deliveries of a connection whose peer settles them, in those of a session.
const UNSETTLED_WINDOWS: usize = 4;

impl Endpoints {
    /// The session of an id, unless it is gone or has ended.
    pub(crate) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// The session of an id, unless it is gone or has ended.
    #[inline]
    pub(crate) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id)
    }

    /// The link of a key, unless it is gone or detached.
    #[inline]
    pub(crate) fn link(&self, key: LinkKey) -> Option<&Link> {
        self.sessions.link(key)
    }

    /// About the bytes of the dispositions that wait to be written on the sessions of these channels.
    pub(crate) fn disposition_bytes(&self, channels: &[u16]) -> usize {
        let sessions = channels.iter().filter_map(|&channel| self.sessions.at(channel));
        sessions.map(Session::disposition_bytes).sum()
    }

    /// Forgets everything: the connection ends.
    pub(crate) fn clear(&mut self) {
        self.sessions = SessionTable::default();
        self.delayed = DelayedOutcomes::default();
        self.partial_bytes.clear();
    }

    /// Bytes of unfinished deliveries.
    pub(crate) const fn partial_bytes(&self) -> usize {
        self.partial_bytes.held()
    }

    /// Until the next call, unfinished deliveries may have so many bytes at most.
    pub(crate) fn limit_partial_bytes(&mut self, limit: usize) {
        self.partial_bytes.set_limit(limit);
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.sessions.iter_mut().for_each(Session::shrink);
    }

    /// Compacts the deliveries of these sessions that came since the last call and have to wait.
    pub(crate) fn compact_queued(&mut self, channels: impl Iterator<Item = u16>) {
        for channel in channels {
            if let Some(session) = self.sessions.at_mut(channel) {
                session.send_queue_mut().compact();
            }
        }
    }

    /// Writes flows, transfers and dispositions, in this order; transfers only while `gathered` is shorter than
    /// `soft_limit`.
    #[inline]
    pub(crate) fn write(
        &mut self,
        context: &mut Context<'_>,
        gathered: &mut GatherBuffer,
        soft_limit: usize,
    ) {
        self.sessions.write_flows(context.config, context.output, gathered.encoded_mut());
        self.sessions.write_transfers(context.config, context.output, gathered, soft_limit);
        self.sessions.write_dispositions(context.output, gathered.encoded_mut());
    }

    /// Moves what waits behind the set-up frames, so that a close can follow it.
    pub(crate) fn flush(&mut self, context: &mut Context<'_>) {
        self.sessions.flush(context.config, context.output);
    }

    #[inline]
    pub(crate) fn on_transfer(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        transfer: &mut Transfer,
        payload: Payload,
    ) -> Result<Option<Event>, Failure> {
        let Some(ours) = self.sessions.local_channel(channel) else {
            return Err(unmapped("transfer", channel));
        };
        let Some(session) = self.sessions.at_mut(ours) else { return Ok(None) };
        if !session.is_live() {
            return Ok(Event::work_lost(transfer.state.as_ref()));
        }
        let mut limits = TransferContext {
            config: context.config,
            partial_bytes: &mut self.partial_bytes,
            left_to_peer: None,
        };
        let mut result = session.on_transfer(&mut limits, transfer, payload);
        let left_to_peer = limits.left_to_peer;
        session.renew_window(context.config, context.output);
        if let Some(handle) = left_to_peer {
            result = self.check_unsettled(context.config, handle, transfer, result);
        }
        match result {
            Ok(event) => Ok(event),
            Err(fault) => {
                self.on_fault(context, ours, fault)?;
                context.events.extend(Event::work_lost(transfer.state.as_ref()));
                Ok(None)
            }
        }
    }

    /// Refuses a delivery that its peer is to settle when the connection has too many: the peer may never do so, and each
    /// session has a window of its own.
    #[cold]
    fn check_unsettled(
        &self,
        config: &Config,
        handle: u32,
        transfer: &mut Transfer,
        result: Result<Option<Event>, Fault>,
    ) -> Result<Option<Event>, Fault> {
        let most = config.max_unsettled.saturating_mul(UNSETTLED_WINDOWS);
        let unsettled: usize = self.sessions.iter().map(Session::unsettled_incoming).sum();
        if unsettled <= most {
            return result;
        }
        // The handler of the fault reports the transaction.
        match result? {
            Some(Event::Transfer(delivery)) => transfer.state = delivery.state,
            Some(Event::TooLarge { state, .. }) => transfer.state = state,
            _ => {}
        }
        let text =
            format!("connection has {unsettled} unsettled deliveries, the most it may have are {most}");
        Err(Fault::link(handle, condition::RESOURCE_LIMIT_EXCEEDED, text))
    }

    /// Late dispositions of a session that has just ended do no harm.
    #[inline]
    pub(crate) fn on_disposition(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        disposition: &mut Disposition,
    ) -> Option<Event> {
        let ours = self.sessions.local_channel(channel)?;
        self.sessions.at_mut(ours)?.on_disposition(context, disposition)
    }

    pub(crate) fn on_flow(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        flow: &mut Flow,
    ) -> Result<Option<Event>, Failure> {
        let Some(ours) = self.sessions.local_channel(channel) else { return Ok(None) };
        let Some(session) = self.sessions.at_mut(ours).filter(|session| session.is_live()) else {
            return Ok(None);
        };
        match session.on_flow(context, flow) {
            Ok(event) => Ok(event),
            Err(fault) => self.on_fault(context, ours, fault).map(|()| None),
        }
    }

    /// The peer begins a session. `channel_max` is the highest channel that it accepts.
    pub(crate) fn on_begin(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        begin: &Begin,
        channel_max: u16,
    ) -> Result<(), Failure> {
        if begin.remote_channel.is_some() {
            let text = "begin with a remote-channel, though none was begun by us";
            return Err(Failure::close(condition::INVALID_FIELD, text));
        }
        if self.sessions.local_channel(channel).is_some() {
            let text = format!("begin on channel {channel}, which has a session");
            return Err(Failure::close(condition::NOT_ALLOWED, text));
        }
        let Some(ours) = self.sessions.free_channel().filter(|&c| c <= channel_max) else {
            let text = format!("no channel is left up to {channel_max}");
            return Err(Failure::close(condition::RESOURCE_LIMIT_EXCEEDED, text));
        };
        let id = SessionId { channel: ours, generation: self.generations.next() };
        let session = Session::new(id, channel, begin, context.config);
        let answer = session.begin_answer(context.config);
        self.sessions.insert(session);
        self.push_setup(context, ours, |out| answer.encode(out))?;
        context.events.push_back(Event::SessionBegun { session: id });
        Ok(())
    }

    pub(crate) fn on_end(&mut self, context: &mut Context<'_>, channel: u16, end: &End) {
        // A second end, or one for a session that never was, needs no answer.
        let Some(ours) = self.sessions.local_channel(channel) else { return };
        let Some(session) = self.sessions.at(ours) else { return };
        let id = session.id();
        if session.is_live() {
            self.settle_delayed_of_session(context, id);
            self.return_unsent(context, ours);
            self.release_session(ours);
            context.output.push_teardown(ours, |out| End::default().encode(out), |_| {});
            let error = end.error.clone();
            context.events.push_back(Event::SessionEnded { session: id, error, by: Origin::Peer });
        }
        self.sessions.remove(ours);
    }

    /// Ends a session. Its links go with it; waiting deliveries are dropped, with an [`Event::Unsent`] for each link.
    pub(crate) fn end_session(
        &mut self,
        context: &mut Context<'_>,
        session: SessionId,
        error: Option<Error>,
    ) {
        if self.sessions.get(session).is_some() {
            self.end_ours(context, session.channel, error);
        }
    }

    /// Makes a mistake of the peer cost it what it costs.
    #[cold]
    fn on_fault(&mut self, context: &mut Context<'_>, channel: u16, fault: Fault) -> Result<(), Failure> {
        match fault {
            Fault::Link(handle, error) => {
                let link = self.sessions.at(channel).and_then(|session| session.links().get(handle));
                match link.map(|link| link.key) {
                    Some(key) => self.fail_link(context, key, *error),
                    None => Ok(()),
                }
            }
            Fault::Session(error) => {
                self.fail_session(context, channel, *error);
                Ok(())
            }
        }
    }

    /// The engine ends a session because of a mistake of the peer.
    #[cold]
    fn fail_session(&mut self, context: &mut Context<'_>, channel: u16, error: Error) {
        let Some(session) = self.sessions.at(channel).filter(|session| session.is_live()) else { return };
        let id = session.id();
        let error = context.config.with_note(error);
        self.end_ours(context, channel, Some(error.clone()));
        let ended = Event::SessionEnded { session: id, error: Some(error), by: Origin::Engine };
        context.events.push_back(ended);
    }

    fn end_ours(&mut self, context: &mut Context<'_>, channel: u16, error: Option<Error>) {
        self.return_unsent(context, channel);
        if let Some(session) = self.sessions.at(channel) {
            context.events.extend(session.links().iter().filter_map(Link::partial_work));
        }
        self.release_session(channel);
        let short = End { error: error.as_ref().map(shorten) };
        let end = End { error };
        context.output.push_teardown(channel, |out| end.encode(out), |out| short.encode(out));
    }

    /// Forgets what a session holds; it stays as a name until the peer's end.
    fn release_session(&mut self, channel: u16) {
        let Some(session) = self.sessions.at_mut(channel) else { return };
        let partial: usize = session.links().iter().map(Link::partial_len).sum();
        self.partial_bytes.release(partial);
        session.clear();
    }

    /// Tells of all deliveries of a session that will not be sent.
    fn return_unsent(&mut self, context: &mut Context<'_>, channel: u16) {
        if let Some(session) = self.sessions.at_mut(channel) {
            context.events.extend(session.return_unsent());
        }
    }

    /// Tells of all deliveries of the connection that will not be sent.
    pub(crate) fn return_all_unsent(&mut self, events: &mut VecDeque<Event>) {
        events.extend(self.sessions.iter_mut().flat_map(Session::return_unsent));
    }

    /// Queues a begin or an attach.
    fn push_setup(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        write: impl FnOnce(&mut BytesMut),
    ) -> Result<(), Failure> {
        // A channel or handle is taken again only behind the frame that freed it.
        if context.output.has_teardown() {
            self.flush(context);
        }
        context.output.push_setup(channel, write)
    }

    /// Due time of the oldest delayed outcome.
    #[inline]
    pub(crate) fn delayed_deadline(&self) -> Option<Instant> {
        self.delayed.deadline()
    }

    /// Keeps an outcome until it is due. The oldest goes out at once when there are too many.
    pub(crate) fn delay(&mut self, context: &mut Context<'_>, outcome: DelayedOutcome) {
        if self.sessions.get(outcome.session).is_none() {
            return;
        }
        if let Some(oldest) = self.delayed.push(outcome) {
            self.settle_delayed(context, oldest);
        }
    }

    /// Settles what is due at `now`.
    pub(crate) fn settle_due(&mut self, context: &mut Context<'_>, now: Instant) {
        while let Some(outcome) = self.delayed.take_due(now) {
            self.settle_delayed(context, outcome);
        }
    }

    /// The time of a delayed outcome has come.
    fn settle_delayed(&mut self, context: &mut Context<'_>, outcome: DelayedOutcome) {
        if let Some(session) = self.sessions.get_mut(outcome.session) {
            session.settle_incoming(context.config, context.output, outcome.delivery, outcome.state);
        }
    }

    /// Tells the peer the outcomes that wait, before the answer to its detach.
    fn settle_delayed_of_link(&mut self, context: &mut Context<'_>, link: LinkKey) {
        if self.delayed.is_empty() {
            return;
        }
        let Some(session) = self.sessions.get(link.session) else { return };
        let of_link = |delivery: DeliveryId| session.is_unsettled_on(delivery, link.handle);
        for outcome in self.delayed.take_of(link.session, of_link) {
            self.settle_delayed(context, outcome);
        }
    }

    /// The same, before the answer to the peer's end.
    fn settle_delayed_of_session(&mut self, context: &mut Context<'_>, session: SessionId) {
        if self.delayed.is_empty() {
            return;
        }
        for outcome in self.delayed.take_of(session, |_| true) {
            self.settle_delayed(context, outcome);
        }
        // The session's end forgets dispositions that are not written.
        self.flush(context);
    }

    /// The same, before the answer to the peer's close.
    pub(crate) fn settle_all_delayed(&mut self, context: &mut Context<'_>) {
        for outcome in self.delayed.take_all() {
            self.settle_delayed(context, outcome);
        }
    }
}

/// A frame on a channel that has no session.
#[cold]
fn unmapped(what: &str, channel: u16) -> Failure {
    let text = format!("{what} on channel {channel}, which has no session");
    Failure::close(condition::ILLEGAL_STATE, text)
}
