use amqp_codec::frame::{FrameHeader, HEADER_LEN};
use amqp_codec::performative::{Performative, decode_prefix};

use super::{FILLER, STAMP_BYTES, Stamp, Template};

const STAMP: Stamp = Stamp { sender: 3, number: 0x0102_0304_0506, due: 77 };

/// The transfers of `bytes` with their payloads.
fn transfers(mut bytes: &[u8]) -> Vec<(amqp_codec::performative::Transfer, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(first) = bytes.first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::parse(first, u32::MAX).unwrap();
        let (frame, rest) = bytes.split_at(header.size as usize);
        let body = &frame[header.body_offset()..];
        let (Performative::Transfer(transfer), length) = decode_prefix(body).unwrap() else { panic!() };
        all.push((transfer, body[length..].to_vec()));
        bytes = rest;
    }
    all
}

#[test]
fn a_stamp_is_read_as_it_was_written() {
    assert_eq!(Stamp::of(&STAMP.to_bytes()), STAMP);
}

#[test]
fn a_message_gets_its_id_tag_and_stamp_and_keeps_its_filler() {
    let template = Template::new(1_024, true, 65_536).unwrap();
    let mut out = Vec::new();
    template.append(&mut out, 1, STAMP);
    template.append(&mut out, 2, STAMP);
    assert_eq!(out.len(), 2 * template.len());
    let all = transfers(&out);
    for ((transfer, payload), id) in all.iter().zip(1_u32..) {
        assert_eq!(transfer.delivery_id, Some(id));
        assert_eq!(transfer.delivery_tag.as_deref(), Some(&id.to_be_bytes()[..]));
        let (rest, stamp) = payload.split_at(payload.len() - STAMP_BYTES);
        assert_eq!(Stamp::of(stamp.try_into().unwrap()), STAMP);
        assert!(rest.ends_with(&[FILLER; 1_024 - STAMP_BYTES]));
    }
    assert_eq!(all.len(), 2);
}

#[test]
fn a_message_larger_than_a_frame_is_cut_into_frames_that_fit() {
    let template = Template::new(65_536, false, 65_536).unwrap();
    let mut out = Vec::new();
    template.append(&mut out, 9, STAMP);
    let all = transfers(&out);
    assert_eq!(all.iter().map(|(transfer, _)| transfer.more).collect::<Vec<_>>(), [true, false]);
    assert_eq!(all.len(), template.frames as usize);
    assert!(all.iter().all(|(_, payload)| payload.len() + 64 <= 65_536));
    assert_eq!(all[1].0.delivery_id, None);
}

#[test]
fn a_body_without_room_for_the_stamp_is_refused() {
    assert!(Template::new(STAMP_BYTES - 1, false, 512).is_err());
}
