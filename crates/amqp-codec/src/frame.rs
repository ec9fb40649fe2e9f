//! Frames and protocol headers (transport 2.2 and 2.3): how long, which kind, which channel.
//!
//! Invariant: a frame that passes is at least as long as its own header and at most as long as
//! the limit it was checked against.

use bytes::{BufMut, BytesMut};

/// Length of a frame's fixed header, in bytes.
pub const HEADER_LEN: usize = 8;

/// The smallest limit for the size of a frame that a peer may ask for, in bytes (transport 2.7.1).
pub const MIN_MAX_FRAME_SIZE: u32 = 512;

/// Type of a frame (transport 2.3.1).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FrameKind {
    /// Type 0: a performative, or nothing (a heartbeat).
    Amqp,
    /// Type 1: part of a SASL negotiation.
    Sasl,
}

impl FrameKind {
    const fn code(self) -> u8 {
        match self {
            Self::Amqp => 0,
            Self::Sasl => 1,
        }
    }
}

/// The fixed header of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameHeader {
    /// Length of the whole frame, in bytes, this header included.
    pub size: u32,
    /// Data offset: start of the body, in units of four bytes.
    pub doff: u8,
    pub kind: FrameKind,
    /// The channel of an AMQP frame. Without meaning for SASL, where it is 0.
    pub channel: u16,
}

/// A frame that cannot be read on. The peer is to blame: `amqp:connection:framing-error`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than its own header.
    #[error("frame size is {size}, at least 8 bytes are needed")]
    TooSmall {
        /// The declared size, in bytes.
        size: u32,
    },
    /// Longer than allowed.
    #[error("frame size is {size}, at most {limit} bytes are allowed")]
    TooLarge {
        /// The declared size, in bytes.
        size: u32,
        /// The limit, in bytes.
        limit: u32,
    },
    /// The body starts inside of the header or behind the end.
    #[error("data offset is {doff} words in a frame of {size} bytes")]
    BadOffset {
        /// The declared offset, in units of four bytes.
        doff: u8,
        /// The declared size, in bytes.
        size: u32,
    },
    /// Neither AMQP nor SASL.
    #[error("frame type is {0}, expected 0 or 1")]
    UnknownKind(u8),
}

impl FrameHeader {
    /// Reads and checks the first eight bytes of a frame against the largest size we accept.
    #[inline]
    pub fn parse(first: &[u8; HEADER_LEN], max_frame_size: u32) -> Result<Self, FrameError> {
        let [a, b, c, d, doff, kind, high, low] = *first;
        let size = u32::from_be_bytes([a, b, c, d]);
        if size < 8 {
            return Err(FrameError::TooSmall { size });
        }
        if size > max_frame_size {
            return Err(FrameError::TooLarge { size, limit: max_frame_size });
        }
        if doff < 2 || u32::from(doff) * 4 > size {
            return Err(FrameError::BadOffset { doff, size });
        }
        let (kind, channel) = match kind {
            0 => (FrameKind::Amqp, u16::from_be_bytes([high, low])),
            1 => (FrameKind::Sasl, 0),
            other => return Err(FrameError::UnknownKind(other)),
        };
        Ok(Self { size, doff, kind, channel })
    }

    /// Start of the body, in bytes from the start of the frame: after the extended header.
    #[inline]
    pub const fn body_offset(&self) -> usize {
        self.doff as usize * 4
    }
}

/// The eight bytes that start a protocol layer (transport 2.2).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ProtocolHeader {
    /// Id 0: AMQP itself.
    Amqp,
    /// Id 2: TLS, negotiated inside of the connection.
    Tls,
    /// Id 3: SASL.
    Sasl,
}

/// Eight bytes that start no layer we know, or one of another version.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unsupported protocol header {0:02x?}")]
pub struct UnsupportedHeader(pub [u8; 8]);

impl ProtocolHeader {
    /// Reads a header; only version 1.0.0 is supported.
    pub const fn parse(bytes: [u8; 8]) -> Result<Self, UnsupportedHeader> {
        match bytes {
            [b'A', b'M', b'Q', b'P', 0, 1, 0, 0] => Ok(Self::Amqp),
            [b'A', b'M', b'Q', b'P', 2, 1, 0, 0] => Ok(Self::Tls),
            [b'A', b'M', b'Q', b'P', 3, 1, 0, 0] => Ok(Self::Sasl),
            other => Err(UnsupportedHeader(other)),
        }
    }

    /// The header as it is written.
    pub const fn to_bytes(self) -> [u8; 8] {
        let id = match self {
            Self::Amqp => 0,
            Self::Tls => 2,
            Self::Sasl => 3,
        };
        [b'A', b'M', b'Q', b'P', id, 1, 0, 0]
    }
}

/// Writes one frame: its header, then what `body` writes, then its size into the header.
///
/// # Panics
/// If `body` writes more than 4 GiB, which only our own bug can do.
#[inline]
pub fn write_frame(out: &mut BytesMut, kind: FrameKind, channel: u16, body: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind.code(), high, low]);
    body(out);
    patch_size(out, start, 0);
}

/// Writes the front of a frame whose last `apart` bytes are sent behind it from elsewhere.
///
/// # Panics
/// If the frame is longer than 4 GiB, which only our own bug can do.
#[inline]
pub fn write_frame_front(
    out: &mut BytesMut,
    kind: FrameKind,
    channel: u16,
    apart: usize,
    front: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind.code(), high, low]);
    front(out);
    patch_size(out, start, apart);
}

/// Writes the frame without a body that tells the peer we are alive.
pub fn write_heartbeat(out: &mut BytesMut) {
    out.put_slice(&[0, 0, 0, 8, 2, 0, 0, 0]);
}

/// Sets the size of the frame that starts at `start` and ends `apart` bytes behind the end of `out`.
#[inline]
fn patch_size(out: &mut BytesMut, start: usize, apart: usize) {
    let size = crate::types::wire_len(out.len() - start + apart);
    if let Some(place) = out.get_mut(start..).and_then(|frame| frame.first_chunk_mut()) {
        *place = size.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
