//! Encoded output as a gathering write wants it: what was encoded, and between it large payloads that stay where they
//! lie.
//!
//! Invariant: read through [`Buf`], in whatever steps, it gives the bytes that were put in, each once and in order.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Output that waits for the socket.
#[derive(Debug)]
pub struct GatherBuffer {
    /// All that was copied.
    encoded: BytesMut,
    payloads: VecDeque<Placed>,
    /// Bytes of `encoded` that lie before the last of the payloads.
    placed: usize,
    /// Bytes of all payloads.
    payload_bytes: usize,
    /// A payload of so many bytes or more stays where it lies.
    gather_from: usize,
}

/// A payload that is not copied.
#[derive(Debug)]
struct Placed {
    /// Bytes of `encoded` between the payload before it and this one.
    before: usize,
    bytes: Bytes,
}

impl Default for GatherBuffer {
    fn default() -> Self {
        Self::new(BytesMut::new(), usize::MAX)
    }
}

impl GatherBuffer {
    /// Goes on behind what `encoded` holds. Payloads of `gather_from` bytes and more are not copied into it:
    /// `usize::MAX` copies all.
    pub fn new(encoded: BytesMut, gather_from: usize) -> Self {
        Self { encoded, payloads: VecDeque::new(), placed: 0, payload_bytes: 0, gather_from }
    }

    /// Bytes that wait in all.
    #[inline]
    pub fn len(&self) -> usize {
        self.encoded.len() + self.payload_bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all that waits lies in one piece: [`Buf::chunk`] gives all of it.
    pub fn is_contiguous(&self) -> bool {
        self.payloads.is_empty()
    }

    /// Copied bytes, without the payloads that are gathered.
    pub fn encoded(&self) -> &BytesMut {
        &self.encoded
    }

    /// The same, to be changed at its end only.
    #[inline]
    pub(crate) fn encoded_mut(&mut self) -> &mut BytesMut {
        &mut self.encoded
    }

    /// Whether a payload of `bytes` bytes stays where it lies.
    #[inline]
    pub fn gathers(&self, bytes: usize) -> bool {
        bytes >= self.gather_from
    }

    /// Puts a copy of bytes behind all that waits.
    pub fn put(&mut self, bytes: &[u8]) {
        self.encoded.extend_from_slice(bytes);
    }

    /// Puts a payload behind all that waits, without a copy.
    pub fn place(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let before = self.encoded.len() - self.placed;
        self.placed += before;
        self.payload_bytes += bytes.len();
        self.payloads.push_back(Placed { before, bytes });
    }

    /// Copies what was encoded into memory of just its size, and gives back that where it was.
    pub fn move_encoded(&mut self) -> BytesMut {
        let own = BytesMut::from(&self.encoded[..]);
        std::mem::replace(&mut self.encoded, own)
    }

    /// Encoded bytes; gathered payloads are dropped.
    pub fn into_encoded(self) -> BytesMut {
        self.encoded
    }
}

impl Buf for GatherBuffer {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        match self.payloads.front() {
            Some(Placed { before: 0, bytes }) => bytes,
            Some(Placed { before, .. }) => self.encoded.get(..*before).unwrap_or_default(),
            None => &self.encoded,
        }
    }

    fn chunks_vectored<'a>(&'a self, parts: &mut [IoSlice<'a>]) -> usize {
        let mut encoded = &self.encoded[..];
        let placed = self.payloads.iter().flat_map(|payload| {
            let (front, rest) = encoded.split_at_checked(payload.before).unwrap_or((encoded, &[]));
            encoded = rest;
            [front, &payload.bytes[..]]
        });
        // The last is not known before the others are taken.
        let last = self.encoded.get(self.placed..).unwrap_or_default();
        let all = placed.chain([last]).filter(|part| !part.is_empty());
        let mut count = 0;
        for (place, part) in parts.iter_mut().zip(all) {
            *place = IoSlice::new(part);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len(), "only what is there can be taken");
        while let Some(first) = self.payloads.front_mut() {
            let front = first.before.min(count);
            self.encoded.advance(front);
            first.before -= front;
            self.placed -= front;
            count -= front;
            let taken = first.bytes.len().min(count);
            first.bytes.advance(taken);
            self.payload_bytes -= taken;
            count -= taken;
            if first.before > 0 || !first.bytes.is_empty() {
                return;
            }
            self.payloads.pop_front();
        }
        self.encoded.advance(count);
    }
}

#[cfg(test)]
mod tests;
