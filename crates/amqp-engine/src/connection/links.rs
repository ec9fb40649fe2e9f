//! Attach and detach of links, begin and end of their sessions.
//!
//! Invariant: a link that leaves takes with it its waiting deliveries, its unfinished delivery and
//! its unsettled ones; nothing of it is counted afterwards.

use amqp_codec::performative::{Attach, Detach, End, Error};
use amqp_codec::types::Role;

use super::Connection;
use crate::command::AttachReply;
use crate::condition::{self, error};
use crate::event::{Event, Origin};
use crate::ids::{DeliveryId, LinkKey, SessionId};
use crate::link::{Link, LinkEnd, LinkState};
use crate::output::shorten;
use crate::session::Fault;

impl Connection {
    pub(super) fn on_attach(&mut self, channel: u16, attach: &Attach) {
        let Some(ours) = self.sessions.local_channel(channel) else {
            return self.fail_unmapped("attach", channel);
        };
        let Some(session) = self.sessions.at(ours).filter(|session| !session.ended) else { return };
        if attach.handle > self.config.handle_max {
            let (handle, max) = (attach.handle, self.config.handle_max);
            return self.fail_framing(format!("handle is {handle}, the highest is {max}"));
        }
        if session.links.local_handle(attach.handle).is_some() {
            let text = format!("attach on handle {}, which has a link", attach.handle);
            return self.on_fault(ours, Fault::session(condition::HANDLE_IN_USE, text));
        }
        // Refused links stay until the peer detaches them, and it may never do so.
        if self.link_count >= self.config.max_links.saturating_mul(2) {
            let text = format!("{} links are attached or wait for a detach", self.link_count);
            return self.on_fault(ours, Fault::session(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        let Some(handle) = session.links.free_handle() else {
            let text = "no handle is left up to the handle-max of the begin";
            return self.on_fault(ours, Fault::session(condition::RESOURCE_LIMIT_EXCEEDED, text));
        };
        let key = LinkKey { session: session.id, handle, generation: self.generations.next() };
        let refusal = self.attach_refusal(attach);
        self.steal(attach);
        let link = Link::new(key, attach, self.config.max_message_size);
        let Some(session) = self.sessions.get_mut(key.session) else { return };
        session.links.insert(link);
        self.link_count += 1;
        match refusal {
            Some(error) => self.refuse_link(key, self.noted(error)),
            None => self.push_event(Event::LinkAttached { link: key, attach: Box::new(attach.clone()) }),
        }
    }

    /// Reason why the engine itself refuses an attach.
    fn attach_refusal(&self, attach: &Attach) -> Option<Error> {
        if attach.role == Role::Sender && attach.initial_delivery_count.is_none() {
            let text = "attach of a sender without initial-delivery-count";
            return Some(error(condition::INVALID_FIELD, text));
        }
        if self.link_count >= self.config.max_links {
            let text = format!("connection has {} links, the most it may have", self.link_count);
            return Some(error(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        None
    }

    /// A link of the same name and direction loses to the new one (2.6.1).
    fn steal(&mut self, attach: &Attach) {
        let stolen = self.sessions.iter().filter(|session| !session.ended).find_map(|session| {
            session.links.iter().find_map(|link| {
                let same = link.is_live() && link.role() != attach.role && *link.name == attach.name;
                same.then_some(link.key)
            })
        });
        if let Some(key) = stolen {
            let text = format!("link `{}` was attached again", attach.name);
            self.fail_link(key, error(condition::STOLEN, text));
        }
    }

    /// Answers [`Event::LinkAttached`]: the link is attached on our side too.
    pub fn accept_link(&mut self, link: LinkKey, reply: AttachReply) {
        let max_message_size = reply.max_message_size.unwrap_or(self.config.max_message_size);
        let Some(found) = self.sessions.link_mut(link) else { return };
        let LinkState::Pending(asked) = std::mem::replace(&mut found.state, LinkState::Attached) else {
            return;
        };
        let settles_second = reply.settles_second;
        let mut answer = answer_to(&asked, found, reply);
        if let LinkEnd::Receiver(receiver) = &mut found.end {
            receiver.max_message_size = max_message_size;
            receiver.only_resumed = answer.incomplete_unsettled;
            receiver.settles_second = settles_second;
        }
        answer.max_message_size = Some(max_message_size);
        let flow_waits = found.flow_due;
        found.flow_due = false;
        if !self.write_setup(link.session.channel, |out| answer.encode(out)) {
            return;
        }
        if flow_waits {
            self.link_flow_due(link);
        }
    }

    /// Answers [`Event::LinkAttached`]: the link is refused, by an attach without termini and a
    /// detach with `error`.
    pub fn refuse_link(&mut self, link: LinkKey, error: Error) {
        self.detach_ours(link, Some(error));
    }

    /// Detaches a link for good. Its waiting deliveries are dropped, with an [`Event::Unsent`].
    pub fn detach(&mut self, link: LinkKey, error: Option<Error>) {
        self.detach_ours(link, error);
    }

    /// The engine detaches a link because of a mistake of the peer.
    #[cold]
    pub(super) fn fail_link(&mut self, link: LinkKey, error: Error) {
        let error = self.noted(error);
        if self.detach_ours(link, Some(error.clone())) {
            self.push_event(Event::LinkDetached {
                link,
                closed: true,
                error: Some(error),
                by: Origin::Engine,
            });
        }
    }

    /// Our detach goes out first. False when the link is already gone.
    fn detach_ours(&mut self, link: LinkKey, error: Option<Error>) -> bool {
        if self.sessions.link(link).is_none() {
            return false;
        }
        self.take_back(link, 0, true);
        if let Some(lost) = self.sessions.link(link).and_then(Link::partial_work) {
            self.push_event(lost);
        }
        self.release_link(link);
        let refused = self.write_missing_attach(link);
        // Either of the two may have ended what the link was part of.
        if self.sessions.link(link).is_none() {
            return false;
        }
        if let Some(found) = self.sessions.link_mut(link) {
            found.state = LinkState::Detached { had_deliveries: !refused && found.role() == Role::Sender };
        }
        self.write_detach(link, true, error);
        true
    }

    pub(super) fn on_detach(&mut self, channel: u16, detach: &Detach) {
        // A second detach, or one behind the end of its session, needs no answer.
        let Some(ours) = self.sessions.local_channel(channel) else { return };
        let Some(session) = self.sessions.at(ours).filter(|session| !session.ended) else { return };
        let Some(handle) = session.links.local_handle(detach.handle) else { return };
        let Some(link) = session.links.get(handle) else { return };
        let key = link.key;
        let answers = matches!(link.state, LinkState::Detached { had_deliveries: true });
        if link.is_live() {
            self.settle_delayed_of_link(key);
            self.take_back(key, 0, true);
            self.release_link(key);
            self.write_missing_attach(key);
            if self.sessions.link(key).is_none() {
                return;
            }
            self.write_detach(key, detach.closed, None);
            self.push_event(Event::LinkDetached {
                link: key,
                closed: detach.closed,
                error: detach.error.clone(),
                by: Origin::Peer,
            });
        }
        if let Some(session) = self.sessions.at_mut(ours) {
            session.links.remove(handle);
        }
        self.link_count -= 1;
        if answers {
            self.push_event(Event::DetachAnswered { link: key });
        }
    }

    /// Tells the peer the outcomes that wait, before the answer to its detach.
    fn settle_delayed_of_link(&mut self, link: LinkKey) {
        if self.delayed.is_empty() {
            return;
        }
        let Some(session) = self.sessions.get(link.session) else { return };
        let unsettled = &session.unsettled;
        let of_link = |delivery: DeliveryId| unsettled.link_of(delivery.0) == Some(link.handle);
        for outcome in self.delayed.take_of(link.session, of_link) {
            self.settle_delayed(outcome);
        }
    }

    /// The same, before the answer to the peer's end.
    pub(super) fn settle_delayed_of_session(&mut self, session: SessionId) {
        if self.delayed.is_empty() {
            return;
        }
        for outcome in self.delayed.take_of(session, |_| true) {
            self.settle_delayed(outcome);
        }
        // The session's end forgets dispositions that are not written.
        self.flush();
    }

    /// The same, before the answer to the peer's close.
    pub(super) fn settle_all_delayed(&mut self) {
        for outcome in self.delayed.take_all() {
            self.settle_delayed(outcome);
        }
    }

    /// An attach that was not answered is answered by one without our terminus (2.6.3), so that a
    /// detach can follow. It has none of the peer's either: go-amqp waits for the detach only then.
    /// True when there was such an attach.
    fn write_missing_attach(&mut self, link: LinkKey) -> bool {
        let Some(found) = self.sessions.link_mut(link) else { return false };
        let LinkState::Pending(asked) = std::mem::replace(&mut found.state, LinkState::Attached) else {
            return false;
        };
        let reply = AttachReply { source: None, target: None, ..AttachReply::echo(&asked) };
        let mut answer = answer_to(&asked, found, reply);
        answer.max_message_size = None;
        self.write_setup(link.session.channel, |out| answer.encode(out));
        true
    }

    fn write_detach(&mut self, link: LinkKey, closed: bool, error: Option<Error>) {
        let short = Detach { handle: link.handle, closed, error: error.as_ref().map(shorten) };
        let detach = Detach { handle: link.handle, closed, error };
        self.write_teardown(link.session.channel, |out| detach.encode(out), |out| short.encode(out));
    }

    /// Takes waiting deliveries of a link back, beyond the first `keep`.
    pub(super) fn take_back(&mut self, link: LinkKey, keep: u32, link_goes: bool) {
        let Some(session) = self.sessions.get_mut(link.session) else { return };
        if session.queue.is_empty() {
            return;
        }
        match session.take_back(link.handle, keep, link_goes) {
            Ok(deliveries) if deliveries.is_empty() => {}
            Ok(deliveries) => self.push_event(Event::Unsent { link, deliveries }),
            Err(_) => {
                let text = "too many deliveries were taken back before they were sent";
                self.fail_session(link.session.channel, error(condition::RESOURCE_LIMIT_EXCEEDED, text));
            }
        }
    }

    /// Forgets what a receiving link holds.
    fn release_link(&mut self, link: LinkKey) {
        let Some(session) = self.sessions.get_mut(link.session) else { return };
        let Some(found) = session.links.get_mut(link.handle) else { return };
        found.flow_due = false;
        let LinkEnd::Receiver(receiver) = &mut found.end else { return };
        self.partial_bytes -= receiver.partial_len();
        receiver.partial = None;
        if receiver.unsettled > 0 {
            receiver.unsettled = 0;
            session.unsettled.forget_link(link.handle);
            self.renew_window(link.session.channel);
        }
    }

    /// Ends a session. Its links go with it; waiting deliveries are dropped, with an
    /// [`Event::Unsent`] for each link.
    pub fn end_session(&mut self, session: SessionId, error: Option<Error>) {
        if self.sessions.get(session).is_some() {
            self.end_ours(session.channel, error);
        }
    }

    /// The engine ends a session because of a mistake of the peer.
    #[cold]
    pub(super) fn fail_session(&mut self, channel: u16, error: Error) {
        let Some(session) = self.sessions.at(channel).filter(|session| !session.ended) else { return };
        let id = session.id;
        let error = self.noted(error);
        self.end_ours(channel, Some(error.clone()));
        self.push_event(Event::SessionEnded { session: id, error: Some(error), by: Origin::Engine });
    }

    fn end_ours(&mut self, channel: u16, error: Option<Error>) {
        self.give_back_session(channel);
        let links = self.sessions.at(channel).into_iter().flat_map(|session| session.links.iter());
        let lost: Vec<Event> = links.filter_map(Link::partial_work).collect();
        for lost in lost {
            self.push_event(lost);
        }
        self.release_session(channel);
        let short = End { error: error.as_ref().map(shorten) };
        let end = End { error };
        self.write_teardown(channel, |out| end.encode(out), |out| short.encode(out));
    }

    /// Forgets what a session holds; it stays as a name until the peer's end.
    pub(super) fn release_session(&mut self, channel: u16) {
        let Some(session) = self.sessions.at_mut(channel) else { return };
        let partial: usize = session.links.iter().map(Link::partial_len).sum();
        self.partial_bytes -= partial;
        self.link_count -= session.links.len();
        session.clear();
    }

    /// Tells of all deliveries of a session that will not be sent.
    pub(super) fn give_back_session(&mut self, channel: u16) {
        let Some(session) = self.sessions.at_mut(channel) else { return };
        let events = session.return_unsent();
        self.events.extend(events);
    }

    /// Tells of all deliveries of the connection that will not be sent.
    pub(super) fn return_all_unsent(&mut self) {
        let channels: Vec<u16> = self.sessions.iter().map(|session| session.id.channel).collect();
        for channel in channels {
            self.give_back_session(channel);
        }
    }
}

/// Our attach, in answer to the peer's.
fn answer_to(asked: &Attach, link: &Link, reply: AttachReply) -> Attach {
    let role = link.role();
    Attach {
        snd_settle_mode: Some(link.snd_settle_mode),
        rcv_settle_mode: Some(link.rcv_settle_mode),
        source: reply.source,
        target: reply.target,
        unsettled: reply.unsettled,
        incomplete_unsettled: reply.incomplete_unsettled,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: reply.max_message_size,
        offered_capabilities: reply.offered_capabilities,
        desired_capabilities: reply.desired_capabilities,
        properties: reply.properties,
        ..Attach::new(asked.name.as_str(), link.key.handle, role)
    }
}
