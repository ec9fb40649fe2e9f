//! Table of the sessions of a connection, by our channel and by the peer's, and the frames that they owe.
//!
//! Invariant: a channel of either side names at most one session.

use amqp_codec::frame::{FrameKind, write_frame};
use bytes::BytesMut;

use crate::config::Config;
use crate::gather::GatherBuffer;
use crate::ids::{LinkKey, SessionId};
use crate::link::Link;
use crate::output::{FlowDue, Output};
use crate::session::Session;

/// Sessions by channel. Ours are the lowest free numbers, so they index a short list.
#[derive(Debug, Default)]
pub(super) struct SessionTable {
    slots: Vec<Option<Box<Session>>>,
    /// The peer's channel and ours, in the order of the peer's.
    by_remote: Vec<(u16, u16)>,
}

impl SessionTable {
    /// The lowest channel that is free.
    pub(super) fn free_channel(&self) -> Option<u16> {
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        u16::try_from(at).ok()
    }

    /// Adds a session under the channel it has, which must be one that [`Self::free_channel`] gave.
    pub(super) fn insert(&mut self, session: Session) {
        let (ours, theirs) = (session.id().channel, session.remote_channel());
        let at = usize::from(ours);
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(Box::new(session));
        }
        if let Err(place) = self.place_of(theirs) {
            self.by_remote.insert(place, (theirs, ours));
        }
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, channel: u16) -> Option<Box<Session>> {
        let session = self.slots.get_mut(usize::from(channel))?.take()?;
        if let Ok(place) = self.place_of(session.remote_channel()) {
            self.by_remote.remove(place);
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        Some(session)
    }

    /// Our channel for a channel of the peer.
    #[inline]
    pub(super) fn local_channel(&self, remote: u16) -> Option<u16> {
        if let Some(&(theirs, ours)) = self.by_remote.first()
            && theirs == remote
        {
            return Some(ours);
        }
        self.by_remote.get(self.place_of(remote).ok()?).map(|&(_, ours)| ours)
    }

    #[inline]
    pub(super) fn at(&self, channel: u16) -> Option<&Session> {
        self.slots.get(usize::from(channel))?.as_deref()
    }

    #[inline]
    pub(super) fn at_mut(&mut self, channel: u16) -> Option<&mut Session> {
        self.slots.get_mut(usize::from(channel))?.as_deref_mut()
    }

    /// The session of an id, unless it is gone or has ended.
    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.at(id.channel).filter(|session| session.id() == id && session.is_live())
    }

    /// The session of an id, unless it is gone or has ended.
    #[inline]
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.at_mut(id.channel).filter(|session| session.id() == id && session.is_live())
    }

    /// The link of a key with its session, unless it is gone or detached.
    #[inline]
    pub(super) fn link(&self, key: LinkKey) -> Option<&Link> {
        let link = self.get(key.session)?.links().get(key.handle)?;
        (link.key == key && link.is_live()).then_some(link)
    }

    /// The link of a key, unless it is gone or detached.
    #[inline]
    pub(super) fn link_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.get_mut(key.session)?.link_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().flatten().map(|session| &**session)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().flatten().map(|session| &mut **session)
    }

    /// Writes the flows that are due.
    pub(super) fn write_flows(&mut self, config: &Config, output: &mut Output, out: &mut BytesMut) {
        for FlowDue { channel, handle } in output.drain_flows() {
            // A flow may have gone out for another reason, and the link may be gone.
            if let Some(session) = self.at_mut(channel).filter(|session| session.is_flow_due(handle)) {
                write_flow(session, config, handle, out);
            }
        }
    }

    /// Writes transfers while `out` is shorter than `soft_limit`. Sessions take turns.
    #[inline]
    pub(super) fn write_transfers(
        &mut self,
        config: &Config,
        output: &mut Output,
        out: &mut GatherBuffer,
        soft_limit: usize,
    ) {
        let mut drained = Vec::new();
        for _ in 0..output.sending_count() {
            if out.len() >= soft_limit {
                break;
            }
            let Some(channel) = output.next_sending() else { break };
            let Some(session) = self.at_mut(channel) else { continue };
            session.write_transfers(output, soft_limit, out, &mut drained);
            for handle in drained.drain(..) {
                write_drain_answer(session, config, handle, out.encoded_mut());
            }
        }
    }

    /// Writes the dispositions that wait.
    #[inline]
    pub(super) fn write_dispositions(&mut self, output: &mut Output, out: &mut BytesMut) {
        let max_frame = output.max_frame();
        for channel in output.drain_disposing() {
            if let Some(session) = self.at_mut(channel) {
                session.write_dispositions(max_frame, out);
            }
        }
    }

    /// Moves flows, dispositions and teardown that wait behind the set-up frames, so that a frame of set-up that is
    /// queued next comes behind them.
    pub(super) fn flush(&mut self, config: &Config, output: &mut Output) {
        let mut setup = output.take_setup();
        self.write_flows(config, output, &mut setup);
        self.write_dispositions(output, &mut setup);
        output.restore_setup(setup);
    }

    #[inline]
    fn place_of(&self, remote: u16) -> Result<usize, usize> {
        self.by_remote.binary_search_by_key(&remote, |&(theirs, _)| theirs)
    }
}

fn write_flow(session: &mut Session, config: &Config, handle: Option<u32>, out: &mut BytesMut) {
    let flow = session.flow(config, handle);
    write_frame(out, FrameKind::Amqp, session.id().channel, |out| flow.encode(out));
}

#[cold]
fn write_drain_answer(session: &mut Session, config: &Config, handle: u32, out: &mut BytesMut) {
    if session.end_drain(handle) {
        write_flow(session, config, Some(handle), out);
    }
}
