//! Attach and detach of links.
//!
//! Invariant: a link that leaves takes with it its waiting deliveries, its unfinished delivery and
//! its unsettled ones; nothing of it is counted afterwards.

use amqp_codec::performative::{Attach, Detach, Error};
use amqp_codec::types::Role;

use super::{Endpoints, unmapped};
use crate::command::AttachReply;
use crate::condition::{self, error};
use crate::context::Context;
use crate::event::{Event, Origin};
use crate::fault::{Failure, Fault};
use crate::ids::LinkKey;
use crate::link::{Link, LinkEnd, LinkState, NameDigest};
use crate::output::shorten;

/// Longest name of a link, in bytes. The SDK for Rust has the longest: up to 421.
const LINK_NAME_BYTES_MAX: usize = 4096;

impl Endpoints {
    pub(crate) fn on_attach(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        attach: &Attach,
    ) -> Result<(), Failure> {
        let Some(ours) = self.sessions.local_channel(channel) else {
            return Err(unmapped("attach", channel));
        };
        let Some(session) = self.sessions.at(ours).filter(|session| session.is_live()) else { return Ok(()) };
        if attach.handle > context.config.handle_max {
            let (handle, max) = (attach.handle, context.config.handle_max);
            return Err(Failure::framing(format!("handle is {handle}, the highest is {max}")));
        }
        if session.links().local_handle(attach.handle).is_some() {
            let text = format!("attach on handle {}, which has a link", attach.handle);
            return self.on_fault(context, ours, Fault::session(condition::HANDLE_IN_USE, text));
        }
        // Refused links stay until the peer detaches them, and it may never do so.
        let link_count = self.link_count();
        if link_count >= context.config.max_links.saturating_mul(2) {
            let text = format!("{link_count} links are attached or wait for a detach");
            return self.on_fault(context, ours, Fault::session(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        let Some(handle) = session.links().free_handle() else {
            let text = "no handle is left up to the handle-max of the begin";
            return self.on_fault(context, ours, Fault::session(condition::RESOURCE_LIMIT_EXCEEDED, text));
        };
        let key = LinkKey { session: session.id(), handle, generation: self.generations.next() };
        let refusal = attach_refusal(attach, link_count, context.config.max_links);
        let digest = NameDigest::of(context.config.hash_seed, attach.name.as_str());
        self.steal(context, attach, digest)?;
        let link = Link::new(key, attach, digest, context.config.max_message_size);
        let Some(session) = self.sessions.get_mut(key.session) else { return Ok(()) };
        session.links_mut().insert(link);
        if let Some(error) = refusal {
            let error = context.config.with_note(error);
            return self.detach(context, key, Some(error)).map(|_| ());
        }
        context.events.push_back(Event::LinkAttached { link: key, attach: Box::new(attach.clone()) });
        Ok(())
    }

    /// Links of all sessions, with those that wait for the peer's detach.
    fn link_count(&self) -> usize {
        self.sessions.iter().map(|session| session.links().len()).sum()
    }

    /// A link of the same name and direction loses to the new one (2.6.1).
    fn steal(
        &mut self,
        context: &mut Context<'_>,
        attach: &Attach,
        digest: NameDigest,
    ) -> Result<(), Failure> {
        let name = attach.name.as_str();
        let stolen = self.sessions.iter().filter(|session| session.is_live()).find_map(|session| {
            session.links().iter().find_map(|link| {
                let same = link.is_live() && link.role() != attach.role && link.is_named(name, digest);
                same.then_some(link.key)
            })
        });
        let Some(key) = stolen else { return Ok(()) };
        let text = format!("link `{}` was attached again", attach.name);
        self.fail_link(context, key, error(condition::STOLEN, text))
    }

    /// Attaches a link on our side too.
    pub(crate) fn accept_link(
        &mut self,
        context: &mut Context<'_>,
        link: LinkKey,
        reply: AttachReply,
    ) -> Result<(), Failure> {
        let max_message_size = reply.max_message_size.unwrap_or(context.config.max_message_size);
        let Some(found) = self.sessions.link_mut(link) else { return Ok(()) };
        let LinkState::Pending(asked) = std::mem::replace(&mut found.state, LinkState::Attached) else {
            return Ok(());
        };
        let settles_second = reply.settles_second;
        let mut answer = answer_to(&asked, found, reply);
        if let LinkEnd::Receiver(receiver) = &mut found.end {
            receiver.max_message_size = max_message_size;
            receiver.only_resumed = answer.incomplete_unsettled;
            receiver.settles_second = settles_second;
        }
        answer.max_message_size = Some(max_message_size);
        let flow_waits = std::mem::replace(&mut found.flow_due, false);
        self.push_setup(context, link.session.channel, |out| answer.encode(out))?;
        if flow_waits && let Some(session) = self.sessions.get_mut(link.session) {
            session.request_link_flow(context.output, link.handle);
        }
        Ok(())
    }

    /// The engine detaches a link because of a mistake of the peer.
    #[cold]
    pub(super) fn fail_link(
        &mut self,
        context: &mut Context<'_>,
        link: LinkKey,
        error: Error,
    ) -> Result<(), Failure> {
        let error = Some(context.config.with_note(error));
        if self.detach(context, link, error.clone())? {
            let detached = Event::LinkDetached { link, closed: true, error, by: Origin::Engine };
            context.events.push_back(detached);
        }
        Ok(())
    }

    /// Detaches a link for good; our detach goes out first. False when the link is already gone.
    pub(crate) fn detach(
        &mut self,
        context: &mut Context<'_>,
        link: LinkKey,
        error: Option<Error>,
    ) -> Result<bool, Failure> {
        if self.sessions.link(link).is_none() {
            return Ok(false);
        }
        self.take_back_all(context, link);
        context.events.extend(self.sessions.link(link).and_then(Link::partial_work));
        self.release_link(context, link);
        let refused = self.push_missing_attach(context, link)?;
        // The session has ended where too many deliveries were taken back.
        let Some(found) = self.sessions.link_mut(link) else { return Ok(false) };
        found.state = LinkState::Detached { had_deliveries: !refused && found.role() == Role::Sender };
        // The peer may never answer, and may have attached many links with long names.
        found.name = Box::default();
        push_detach(context, link, true, error);
        Ok(true)
    }

    pub(crate) fn on_detach(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        detach: &Detach,
    ) -> Result<(), Failure> {
        // A second detach, or one behind the end of its session, needs no answer.
        let Some(ours) = self.sessions.local_channel(channel) else { return Ok(()) };
        let Some(session) = self.sessions.at(ours).filter(|session| session.is_live()) else { return Ok(()) };
        let Some(handle) = session.links().local_handle(detach.handle) else { return Ok(()) };
        let Some(link) = session.links().get(handle) else { return Ok(()) };
        let key = link.key;
        let answers = matches!(link.state, LinkState::Detached { had_deliveries: true });
        if link.is_live() {
            self.settle_delayed_of_link(context, key);
            self.take_back_all(context, key);
            self.release_link(context, key);
            self.push_missing_attach(context, key)?;
            if self.sessions.link(key).is_none() {
                return Ok(());
            }
            push_detach(context, key, detach.closed, None);
            context.events.push_back(Event::LinkDetached {
                link: key,
                closed: detach.closed,
                error: detach.error.clone(),
                by: Origin::Peer,
            });
        }
        if let Some(session) = self.sessions.at_mut(ours) {
            session.links_mut().remove(handle);
        }
        if answers {
            context.events.push_back(Event::DetachAnswered { link: key });
        }
        Ok(())
    }

    /// An attach that was not answered is answered by one without our terminus (2.6.3), so that a
    /// detach can follow. It has none of the peer's either: go-amqp waits for the detach only then.
    /// True when there was such an attach.
    fn push_missing_attach(&mut self, context: &mut Context<'_>, link: LinkKey) -> Result<bool, Failure> {
        let Some(found) = self.sessions.link_mut(link) else { return Ok(false) };
        let LinkState::Pending(asked) = std::mem::replace(&mut found.state, LinkState::Attached) else {
            return Ok(false);
        };
        let reply = AttachReply { source: None, target: None, ..AttachReply::echo(&asked) };
        let mut answer = answer_to(&asked, found, reply);
        answer.max_message_size = None;
        self.push_setup(context, link.session.channel, |out| answer.encode(out))?;
        Ok(true)
    }

    /// Takes the waiting deliveries of a link back, which goes.
    fn take_back_all(&mut self, context: &mut Context<'_>, link: LinkKey) {
        let Some(session) = self.sessions.get_mut(link.session) else { return };
        if let Err(error) = session.take_back(context.events, link, 0, true) {
            self.fail_session(context, link.session.channel, *error);
        }
    }

    /// Forgets what a receiving link holds.
    fn release_link(&mut self, context: &mut Context<'_>, link: LinkKey) {
        if let Some(session) = self.sessions.get_mut(link.session) {
            let released = session.release_link(context, link.handle);
            self.partial_bytes.release(released);
        }
    }
}

/// Reason why the engine itself refuses an attach.
fn attach_refusal(attach: &Attach, link_count: usize, max_links: usize) -> Option<Error> {
    if attach.role == Role::Sender && attach.initial_delivery_count.is_none() {
        let text = "attach of a sender without initial-delivery-count";
        return Some(error(condition::INVALID_FIELD, text));
    }
    let bytes = attach.name.as_str().len();
    if bytes > LINK_NAME_BYTES_MAX {
        let text = format!("name of a link has {bytes} bytes, at most {LINK_NAME_BYTES_MAX} are taken");
        return Some(error(condition::INVALID_FIELD, text));
    }
    if link_count >= max_links {
        let text = format!("connection has {link_count} links, the most it may have");
        return Some(error(condition::RESOURCE_LIMIT_EXCEEDED, text));
    }
    None
}

fn push_detach(context: &mut Context<'_>, link: LinkKey, closed: bool, error: Option<Error>) {
    let short = Detach { handle: link.handle, closed, error: error.as_ref().map(shorten) };
    let detach = Detach { handle: link.handle, closed, error };
    let channel = link.session.channel;
    context.output.push_teardown(channel, |out| detach.encode(out), |out| short.encode(out));
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
