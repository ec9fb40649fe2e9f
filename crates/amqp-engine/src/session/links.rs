//! The links of a session, by our handle and by the peer's.
//!
//! Invariant: a handle of either side names at most one link.

use crate::link::Link;

/// Links by handle. Ours are the lowest free numbers, so they index a short list; the peer's may
/// be any.
#[derive(Debug)]
pub(crate) struct Links {
    slots: Vec<Option<Box<Link>>>,
    /// The peer's handle and ours, in the order of the peer's.
    by_remote: Vec<(u32, u32)>,
    /// The highest handle the peer takes from us.
    handle_max: u32,
}

impl Links {
    pub(crate) const fn new(handle_max: u32) -> Self {
        Self { slots: Vec::new(), by_remote: Vec::new(), handle_max }
    }

    /// The lowest handle that is free, when the peer allows it.
    pub(crate) fn free_handle(&self) -> Option<u32> {
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        u32::try_from(at).ok().filter(|&handle| handle <= self.handle_max)
    }

    /// Adds a link under the handle it has, which must be one that [`Self::free_handle`] gave.
    pub(crate) fn insert(&mut self, link: Link) {
        let (ours, theirs) = (link.key.handle, link.remote_handle);
        let at = ours as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(Box::new(link));
        }
        if let Err(place) = self.place_of(theirs) {
            self.by_remote.insert(place, (theirs, ours));
        }
    }

    /// Removes a link.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Box<Link>> {
        let link = self.slots.get_mut(handle as usize)?.take()?;
        if let Ok(place) = self.place_of(link.remote_handle) {
            self.by_remote.remove(place);
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        Some(link)
    }

    /// Our handle for a handle of the peer.
    #[inline]
    pub(crate) fn local_handle(&self, remote: u32) -> Option<u32> {
        // Most sessions have one or two links.
        if let Some(&(theirs, ours)) = self.by_remote.first()
            && theirs == remote
        {
            return Some(ours);
        }
        self.by_remote.get(self.place_of(remote).ok()?).map(|&(_, ours)| ours)
    }

    #[inline]
    pub(crate) fn get(&self, handle: u32) -> Option<&Link> {
        self.slots.get(handle as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut Link> {
        self.slots.get_mut(handle as usize)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.slots.iter().flatten().map(|link| &**link)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_remote.len()
    }

    pub(crate) fn clear(&mut self) {
        self.slots = Vec::new();
        self.by_remote = Vec::new();
    }

    #[inline]
    fn place_of(&self, remote: u32) -> Result<usize, usize> {
        self.by_remote.binary_search_by_key(&remote, |&(theirs, _)| theirs)
    }
}
