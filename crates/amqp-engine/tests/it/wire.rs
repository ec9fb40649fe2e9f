//! Reads what the engine writes as a strict peer would, and panics at what the protocol forbids.

use std::collections::BTreeMap;

use amqp_codec::frame::{FrameHeader, FrameKind, ProtocolHeader};
use amqp_codec::performative::{Performative, Transfer, decode, decode_sasl};
use bytes::{Buf, Bytes};

/// State of an engine as its peer knows it from the bytes.
#[derive(Debug)]
pub(crate) struct Wire {
    max_frame: usize,
    opened: bool,
    closed: bool,
    sessions: BTreeMap<u16, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// Handles that are attached.
    links: BTreeMap<u32, bool>,
    /// The last delivery-id, and the link it is unfinished on.
    last: Option<(u32, Option<u32>)>,
}

impl Wire {
    pub(crate) fn new(max_frame: u32) -> Self {
        let max_frame = usize::try_from(max_frame).expect("64 bits");
        Self { max_frame, opened: false, closed: false, sessions: BTreeMap::new() }
    }

    /// The peer has told its largest frame, in bytes.
    #[allow(dead_code, reason = "the fuzz targets learn it late")]
    pub(crate) fn limit(&mut self, max_frame: u32) {
        self.max_frame = usize::try_from(max_frame).expect("64 bits");
    }

    /// Reads whole frames.
    pub(crate) fn read(&mut self, mut bytes: Bytes) {
        while bytes.has_remaining() {
            let first = *bytes.first_chunk().expect("whole frames are written");
            if ProtocolHeader::parse(first).is_ok() {
                assert!(!self.opened, "header behind the open");
                bytes.advance(8);
                continue;
            }
            let header = FrameHeader::parse(&first, u32::MAX).expect("a frame");
            let size = header.size as usize;
            assert!(bytes.len() >= size, "a frame is cut short");
            let body = bytes.split_to(size).slice(header.body_offset()..);
            match header.kind {
                FrameKind::Sasl => {
                    assert!(!self.opened, "SASL behind the open");
                    decode_sasl(&body).expect("a SASL frame");
                }
                FrameKind::Amqp if body.is_empty() => assert!(!self.closed, "heartbeat behind the close"),
                FrameKind::Amqp => {
                    let (performative, payload) = decode(&body).expect("a performative");
                    assert!(!self.closed, "{} behind the close", performative.kind());
                    assert!(!self.opened || size <= self.max_frame, "frame of {size} bytes");
                    self.on_frame(header.channel, &performative, &payload);
                }
            }
        }
    }

    fn on_frame(&mut self, channel: u16, performative: &Performative, payload: &Bytes) {
        let is_transfer = matches!(performative, Performative::Transfer(_));
        assert!(is_transfer || payload.is_empty(), "{} with a payload", performative.kind());
        assert_eq!(self.opened, !matches!(performative, Performative::Open(_)), "{performative:?}");
        match performative {
            Performative::Open(_) => self.opened = true,
            Performative::Close(_) => self.closed = true,
            Performative::Begin(begin) => {
                assert!(begin.remote_channel.is_some());
                let old = self.sessions.insert(channel, Session::default());
                assert!(old.is_none(), "begin on channel {channel}, which is in use");
            }
            Performative::End(_) => {
                self.sessions.remove(&channel).expect("end of a session");
            }
            other => {
                let session = self.sessions.get_mut(&channel);
                let session = session.unwrap_or_else(|| panic!("{other:?} without a session"));
                session.on_frame(other);
            }
        }
    }
}

impl Session {
    fn on_frame(&mut self, performative: &Performative) {
        match performative {
            Performative::Attach(attach) => {
                let old = self.links.insert(attach.handle, attach.role.is_receiver());
                assert!(old.is_none(), "attach on handle {}, which is in use", attach.handle);
            }
            Performative::Detach(detach) => {
                self.links.remove(&detach.handle).expect("detach of a link");
                // A delivery that it was in the midst of is over.
                if let Some((_, open)) = &mut self.last {
                    *open = open.filter(|&handle| handle != detach.handle);
                }
            }
            Performative::Flow(flow) => {
                assert!(flow.next_incoming_id.is_some());
                let handle = flow.handle;
                assert!(handle.is_none_or(|handle| self.links.contains_key(&handle)), "{flow:?}");
            }
            Performative::Transfer(transfer) => self.on_transfer(transfer),
            _ => {}
        }
    }

    fn on_transfer(&mut self, transfer: &Transfer) {
        let receives = self.links.get(&transfer.handle).expect("transfer on a link");
        assert!(!receives, "transfer from a receiver");
        let id = transfer.delivery_id.expect("a delivery-id");
        match self.last {
            Some((last, Some(handle))) => {
                assert_eq!((last, handle), (id, transfer.handle), "interleaved deliveries");
            }
            Some((last, None)) => assert_eq!(last.wrapping_add(1), id, "a gap in the delivery-ids"),
            None => {}
        }
        self.last = Some((id, transfer.more.then_some(transfer.handle)));
    }
}
