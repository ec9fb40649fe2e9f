//! Deliveries that wait get memory of their own where they would keep much that is not theirs.
//!
//! Deliveries handed over are slices of larger buffers: of a stored batch, and of sections of other deliveries.
//! One that is sent at once lets go of it at once. Of those that wait, ten thousand small ones, each from another place,
//! would keep gigabytes.
//!
//! Invariant: the bare messages that wait share a piece of memory only where as many of them as lie closely together have
//! 64 KiB, and their sections where those have 4 KiB: a quarter of the pieces that they come in.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{OutgoingDelivery, Queued};

/// The slices of what was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    sections: Run,
    bare: Run,
}

impl Compaction {
    /// Looks at a delivery that waits, the next one in the queue.
    pub(crate) fn compact(&mut self, queued: &mut Queued) {
        let OutgoingDelivery { sections, bare, .. } = &mut queued.delivery;
        match (self.sections.stays(sections, SECTIONS_WORTH), self.bare.stays(bare, BARE_WORTH)) {
            (true, true) => {}
            (false, true) => *sections = Bytes::copy_from_slice(sections),
            (true, false) => *bare = Bytes::copy_from_slice(bare),
            (false, false) => {
                let mut own = BytesMut::with_capacity(sections.len() + bare.len());
                own.put_slice(sections);
                own.put_slice(bare);
                (*sections, *bare) = (own.freeze(), Bytes::new());
            }
        }
    }
}

/// Slices that lie closely one after the other: they are likely to share memory.
#[derive(Debug, Default)]
struct Run {
    /// The address behind the last one; only ever compared.
    end: usize,
    /// Bytes of all of them.
    bytes: usize,
}

impl Run {
    /// Whether this slice belongs to a run that has so many bytes by now.
    fn stays(&mut self, slice: &[u8], worth: usize) -> bool {
        let start = slice.as_ptr().addr();
        if start.wrapping_sub(self.end) > CLOSE {
            self.bytes = 0;
        }
        self.end = start.wrapping_add(slice.len());
        self.bytes = self.bytes.saturating_add(slice.len());
        self.bytes >= worth
    }
}

/// Bytes of bare messages that are worth the memory which they keep: messages are stored and read in pieces of 256 KiB.
const BARE_WORTH: usize = 64 << 10;
/// The same of sections, which are written in pieces of 16 KiB.
const SECTIONS_WORTH: usize = 4 << 10;
/// Most bytes between two slices that are close: what is stored in front of a message, and short records between.
const CLOSE: usize = 1 << 10;

#[cfg(test)]
mod tests;
