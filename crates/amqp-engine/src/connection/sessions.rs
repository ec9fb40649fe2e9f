//! The sessions of a connection, by our channel and by the peer's.
//!
//! Invariant: a channel of either side names at most one session.

use crate::ids::{LinkKey, SessionId};
use crate::link::Link;
use crate::session::Session;

/// Sessions by channel. Ours are the lowest free numbers, so they index a short list.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    /// The peer's channel and ours, in the order of the peer's.
    by_remote: Vec<(u16, u16)>,
}

impl Sessions {
    /// The lowest channel that is free.
    pub(super) fn free_channel(&self) -> Option<u16> {
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        u16::try_from(at).ok()
    }

    /// Adds a session under the channel it has, which must be one that [`Self::free_channel`] gave.
    pub(super) fn insert(&mut self, session: Session) {
        let (ours, theirs) = (session.id.channel, session.remote_channel);
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
        if let Ok(place) = self.place_of(session.remote_channel) {
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
        self.at(id.channel).filter(|session| session.id == id && !session.ended)
    }

    /// The session of an id, unless it is gone or has ended.
    #[inline]
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.at_mut(id.channel).filter(|session| session.id == id && !session.ended)
    }

    /// The link of a key with its session, unless it is gone or detached.
    #[inline]
    pub(super) fn link(&self, key: LinkKey) -> Option<&Link> {
        let link = self.get(key.session)?.links.get(key.handle)?;
        (link.key == key && link.is_live()).then_some(link)
    }

    /// The link of a key, unless it is gone or detached.
    #[inline]
    pub(super) fn link_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        let link = self.get_mut(key.session)?.links.get_mut(key.handle)?;
        (link.key == key && link.is_live()).then_some(link)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().flatten().map(|session| &**session)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().flatten().map(|session| &mut **session)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[inline]
    fn place_of(&self, remote: u16) -> Result<usize, usize> {
        self.by_remote.binary_search_by_key(&remote, |&(theirs, _)| theirs)
    }
}
