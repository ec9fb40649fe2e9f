//! Reads of the disk that brought nothing to the one who waited for them.
//!
//! Invariant: whoever has read so often in vain waits for the disk the next time, so that it always gets on.

use std::mem;

use super::load_message::DiskAccess;

/// One that found nothing at hand after so many reads waits for the disk: what was read for it went to make room for others each
/// time, before it was its turn.
pub(crate) const READS_IN_VAIN_MAX: u8 = 8;

/// Reads after which a message was not at hand, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadsInVain {
    /// A read is done, and nothing was asked for since.
    was_read: bool,
    count: u8,
}

impl ReadsInVain {
    /// A read that was waited for is done.
    pub(crate) fn on_read(&mut self) {
        self.was_read = true;
    }

    /// Messages are asked for. A read that was done before is in vain unless one of them is at hand.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.count = self.count.saturating_add(mem::take(&mut self.was_read).into());
    }

    /// A message was at hand.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.count = 0;
    }

    /// Whether the next message may be asked for without waiting.
    #[inline]
    pub(crate) fn disk_access(self) -> DiskAccess {
        if self.count >= READS_IN_VAIN_MAX { DiskAccess::Wait } else { DiskAccess::Later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_waited_for_after_reads_in_vain_alone() {
        let mut reads = ReadsInVain::default();
        for _ in 0..3 {
            for _ in 0..READS_IN_VAIN_MAX {
                assert_eq!(reads.disk_access(), DiskAccess::Later);
                reads.on_read();
                reads.begin();
                // Nothing was read since.
                reads.begin();
            }
            assert_eq!(reads.disk_access(), DiskAccess::Wait);
            reads.found();
        }
    }
}
