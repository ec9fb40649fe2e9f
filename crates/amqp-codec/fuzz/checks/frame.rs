//! A stream of frames, cut by their own sizes, as the engine does it.

use amqp_codec::frame::{FrameHeader, FrameKind, HEADER_LEN, ProtocolHeader};
use amqp_codec::performative;
use bytes::{Buf, Bytes};

const LIMIT: u32 = 4096;

/// Panics when the demand is not met.
pub(crate) fn demand(data: &[u8]) {
    if let Some(first) = data.first_chunk::<8>()
        && let Ok(header) = ProtocolHeader::parse(*first)
    {
        assert_eq!(header.to_bytes(), *first);
    }
    let mut stream = Bytes::copy_from_slice(data);
    while let Some(first) = stream.first_chunk::<HEADER_LEN>() {
        let Ok(header) = FrameHeader::parse(first, LIMIT) else { return };
        assert!(header.size <= LIMIT && header.body_offset() <= header.size as usize);
        if stream.len() < header.size as usize {
            return;
        }
        let mut frame = stream.split_to(header.size as usize);
        frame.advance(header.body_offset());
        match header.kind {
            FrameKind::Amqp => drop(performative::decode(&frame)),
            FrameKind::Sasl => drop(performative::decode_sasl(&frame)),
        }
    }
}
