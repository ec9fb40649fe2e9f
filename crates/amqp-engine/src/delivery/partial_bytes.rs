//! Bytes of the unfinished deliveries of a connection, and their limit.
//!
//! Invariant: the bytes are within the limit that held when they were taken.

/// Bytes of unfinished deliveries. 32 bits each: an idle connection holds this too.
#[derive(Debug)]
pub(crate) struct PartialBytes {
    held: u32,
    limit: u32,
}

impl Default for PartialBytes {
    fn default() -> Self {
        Self { held: 0, limit: u32::MAX }
    }
}

impl PartialBytes {
    /// Bytes that are held.
    pub(crate) const fn held(&self) -> usize {
        self.held as usize
    }

    /// From now on so many bytes may be held. What is held already stays.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = u32::try_from(limit).unwrap_or(u32::MAX);
    }

    /// Takes `bytes` more; the limit where that is too much, which is never more than `most`.
    pub(crate) fn take(&mut self, bytes: usize, most: usize) -> Result<(), usize> {
        let limit = most.min(self.limit as usize);
        let total = self.held().saturating_add(bytes);
        if total > limit {
            return Err(limit);
        }
        self.held = u32::try_from(total).map_err(|_| limit)?;
        Ok(())
    }

    /// Gives back bytes that were taken.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Nothing is held any more.
    pub(crate) const fn clear(&mut self) {
        self.held = 0;
    }
}
