//! Memory for the sections that the broker writes in front of messages, before the engine takes them.
//!
//! Invariant: an idle connection keeps none of it.

use bytes::{Bytes, BytesMut};

/// Size of the new sections of a usual delivery, in bytes.
const SECTIONS_BYTES: usize = 256;
/// Below this much room new memory is taken before the next delivery is written, in bytes.
const LOW: usize = 512;
/// Most memory that is taken at once, in bytes: it is freed when its last delivery is sent.
const CHUNK_MAX: usize = 16 << 10;

/// One piece of memory for the sections of many deliveries.
#[derive(Debug)]
pub(crate) struct SectionBuffer {
    buffer: BytesMut,
    /// Size of the next piece, in bytes.
    chunk: usize,
}

impl SectionBuffer {
    /// Without memory.
    pub(crate) fn new() -> Self {
        Self { buffer: BytesMut::new(), chunk: LOW }
    }

    /// So many deliveries may come.
    pub(crate) fn expect(&mut self, deliveries: usize) {
        self.chunk = deliveries.saturating_mul(SECTIONS_BYTES).clamp(LOW, CHUNK_MAX);
    }

    /// The sections that `write` appends, and its result.
    #[inline]
    pub(crate) fn write<R>(&mut self, write: impl FnOnce(&mut BytesMut) -> R) -> (Bytes, R) {
        if self.buffer.capacity() < LOW {
            self.buffer.reserve(self.chunk);
        }
        let result = write(&mut self.buffer);
        (self.buffer.split().freeze(), result)
    }

    /// Frees the memory of the buffer: no delivery waits to be written.
    pub(crate) fn release(&mut self) {
        self.buffer = BytesMut::new();
    }
}
