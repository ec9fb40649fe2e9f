//! Performatives that must be refused, and the errors that say so.

use super::*;

fn refusal(body: &'static [u8]) -> DecodeError {
    decode(&Bytes::from_static(body)).unwrap_err()
}

#[test]
fn each_mandatory_field_that_is_missing_is_named() {
    let cases: [(&'static [u8], &str); 14] = [
        (b"\x00\x53\x10\x45", "open.container-id"),
        (b"\x00\x53\x11\x45", "begin.next-outgoing-id"),
        (b"\x00\x53\x11\xc0\x03\x02\x40\x43", "begin.incoming-window"),
        (b"\x00\x53\x11\xc0\x04\x03\x40\x43\x43", "begin.outgoing-window"),
        (b"\x00\x53\x12\x45", "attach.name"),
        (b"\x00\x53\x12\xc0\x04\x01\xa1\x01l", "attach.handle"),
        (b"\x00\x53\x12\xc0\x05\x02\xa1\x01l\x43", "attach.role"),
        (b"\x00\x53\x13\x45", "flow.incoming-window"),
        (b"\x00\x53\x13\xc0\x04\x03\x40\x43\x40", "flow.next-outgoing-id"),
        (b"\x00\x53\x14\x45", "transfer.handle"),
        (b"\x00\x53\x14\xc0\x02\x01\x40", "transfer.handle"),
        (b"\x00\x53\x15\x45", "disposition.role"),
        (b"\x00\x53\x15\xc0\x02\x01\x41", "disposition.first"),
        (b"\x00\x53\x16\x45", "detach.handle"),
    ];
    for (body, expected) in cases {
        let error = refusal(body);
        assert_eq!(error.problem, Malformed::Missing, "{expected}");
        assert_eq!(format!("{}.{}", error.composite, error.field), expected);
        assert_eq!(error.performative.map(PerformativeKind::name), expected.split('.').next());
    }
}

#[test]
fn the_innermost_composite_is_named() {
    // A close whose error has a string where its condition belongs.
    let error = refusal(b"\x00\x53\x18\xc0\x0a\x01\x00\x53\x1d\xc0\x04\x01\xa1\x01x");
    assert_eq!((error.composite, error.field), ("error", "condition"));
    assert_eq!(error.performative, Some(PerformativeKind::Close));
    assert_eq!(error.to_string(), "close: error.condition: expected symbol, found constructor 0xa1");
    // An attach whose source has a wrong expiry-policy.
    let error =
        refusal(b"\x00\x53\x12\xc0\x11\x06\xa1\x01l\x43\x41\x40\x40\x00\x53\x28\xc0\x04\x03\x40\x40\x41");
    assert_eq!((error.composite, error.field), ("source", "expiry-policy"));
    assert_eq!(error.performative, Some(PerformativeKind::Attach));
}

#[test]
fn a_performatives_own_field_is_named_once() {
    let error = refusal(b"\x00\x53\x14\xc0\x02\x01\x41");
    assert_eq!(error.to_string(), "transfer.handle: expected uint, found constructor 0x41");
    let error = refusal(b"\x00\x53\x17\xc0\x03\x02\x40\x40");
    assert_eq!(error.to_string(), "end: 2 fields are more than are defined");
}

#[test]
fn values_out_of_their_range_are_refused() {
    let attach = |tail: &[u8]| {
        let mut out = BytesMut::new();
        out.put_slice(b"\x00\x53\x12\xc0");
        let list = [&[5, 0xa1, 1, b'l', 0x43, 0x41], tail].concat();
        out.put_u8(u8::try_from(list.len()).unwrap());
        out.put_slice(&list);
        decode(&out.freeze()).unwrap_err()
    };
    let error = attach(&[0x50, 3, 0x40]);
    assert_eq!((error.field, error.problem), ("snd-settle-mode", Malformed::OutOfRange(3)));
    let error = attach(&[0x40, 0x50, 2]);
    assert_eq!((error.field, error.problem), ("rcv-settle-mode", Malformed::OutOfRange(2)));
    let long_tag = [b"\x00\x53\x14\xc0\x46\x03\x43\x43\xa0\x41".as_slice(), &[0; 65]].concat();
    let error = decode(&long_tag.into()).unwrap_err();
    assert_eq!((error.field, error.problem), ("delivery-tag", Malformed::TagTooLong(65)));
    let error = decode_sasl(&Bytes::from_static(b"\x00\x53\x44\xc0\x03\x01\x50\x05")).unwrap_err();
    assert_eq!((error.composite, error.problem), ("sasl-outcome", Malformed::OutOfRange(5)));
}

#[test]
fn bytes_that_are_no_performative_are_refused() {
    let cases: [(&'static [u8], Malformed); 7] = [
        (b"", Malformed::Truncated),
        (b"\x00", Malformed::Truncated),
        (b"\x00\x53\x19\x45", Malformed::UnexpectedDescriptor),
        (b"\x00\x53\x24\x45", Malformed::UnexpectedDescriptor),
        (b"\x00\xa3\x04open\x45", Malformed::UnexpectedDescriptor),
        (b"\x45", Malformed::Unexpected { expected: TypeKind::Described, found: 0x45 }),
        (b"\x00\x53\x14\xc1\x01\x00", Malformed::Unexpected { expected: TypeKind::List, found: 0xc1 }),
    ];
    for case @ (body, problem) in cases {
        assert_eq!(refusal(body).problem, problem, "{case:?}");
    }
}

#[test]
fn nesting_in_a_state_or_in_properties_is_refused_before_it_is_followed() {
    // A transactional-state whose outcome is a transactional-state, and so on.
    let mut state = encoded(|out| DeliveryState::Accepted.encode(out));
    for _ in 0..2_000 {
        let inner = state;
        state = encoded(|out| {
            out.put_slice(b"\x00\x53\x34");
            crate::types::write_list(out, 2, |out| {
                out.put_slice(b"\xa0\x01t");
                out.put_slice(&inner);
            });
        });
    }
    let error = DeliveryState::decode(&state).unwrap_err();
    assert_eq!(error.problem, Malformed::TooDeep);
    let mut body = BytesMut::new();
    body.put_slice(b"\x00\x53\x15");
    crate::types::write_list(&mut body, 5, |out| {
        out.put_slice(b"\x41\x43\x40\x41");
        out.put_slice(&state);
    });
    let error = decode(&body.freeze()).unwrap_err();
    assert_eq!(
        (error.performative, error.problem),
        (Some(PerformativeKind::Disposition), Malformed::TooDeep)
    );
    // Flow properties of 45 KB of described values.
    let mut map = BytesMut::new();
    crate::types::write_map(&mut map, 2, |out| {
        out.put_u8(0x43);
        out.put_slice(&[0x00, 0x44].repeat(22_000));
        out.put_u8(0x43);
    });
    let mut body = BytesMut::new();
    body.put_slice(b"\x00\x53\x13");
    crate::types::write_list(&mut body, 11, |out| {
        out.put_slice(b"\x40\x43\x43\x43\x40\x40\x40\x40\x40\x40");
        out.put_slice(&map);
    });
    let error = decode(&body.freeze()).unwrap_err();
    assert_eq!((error.field, error.problem), ("properties", Malformed::TooDeep));
}

#[test]
fn a_map_with_half_an_entry_is_refused() {
    let error = refusal(b"\x00\x53\x13\xc0\x0f\x0b\x40\x43\x43\x43\x40\x40\x40\x40\x40\x40\xc1\x02\x01\x43");
    assert_eq!((error.field, error.problem), ("properties", Malformed::OddMap(1)));
}

#[test]
fn sasl_bodies_end_with_their_list() {
    let body = Bytes::from_static(b"\x00\x53\x43\xc0\x03\x01\xa0\x00\x00");
    assert_eq!(decode_sasl(&body).unwrap_err().problem, Malformed::SizeMismatch);
    assert!(decode_sasl(&body.slice(..8)).is_ok());
}

#[test]
fn a_terminus_of_an_unknown_kind_is_refused() {
    let error = Target::decode(b"\x00\x53\x28\x45").unwrap_err();
    assert_eq!(error.problem, Malformed::UnexpectedDescriptor);
    let error = Source::decode(b"\x00\x53\x29\x45").unwrap_err();
    assert_eq!(error.problem, Malformed::UnexpectedDescriptor);
}
