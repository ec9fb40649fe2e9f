use bytes::BufMut;
use proptest::prelude::*;

use super::*;
use crate::raw::{AnnotationValue, RawMap};
use crate::types::{DeliveryTag, Malformed, ReceiverSettleMode, Role, SenderSettleMode, Symbol, TypeKind};

mod any;
mod oracle;
mod refused;

fn encoded(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    write(&mut out);
    out.freeze()
}

fn body(performative: &Performative) -> Bytes {
    encoded(|out| performative.encode(out))
}

/// The number of fields that the list of a performative declares.
fn field_count(body: &Bytes) -> u32 {
    let mut reader = Reader::new(body);
    reader.descriptor().unwrap();
    reader.list().unwrap().left()
}

#[test]
fn an_outgoing_transfer_has_exactly_these_bytes() {
    let transfer = Transfer {
        handle: 1,
        delivery_id: Some(300),
        delivery_tag: Some(DeliveryTag::try_from(&b"tag"[..]).unwrap()),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    };
    let expected = b"\x00\x53\x14\xc0\x15\x0b\
        \x52\x01\x70\x00\x00\x01\x2c\xa0\x03tag\x43\x42\x42\x40\x40\x42\x42\x42";
    assert_eq!(encoded(|out| transfer.encode(out)), &expected[..]);
}

#[test]
fn an_outgoing_disposition_has_exactly_these_bytes() {
    let disposition = Disposition {
        role: Role::Receiver,
        first: 1,
        last: Some(9),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    };
    let expected = b"\x00\x53\x15\xc0\x0c\x06\x41\x52\x01\x52\x09\x41\x00\x53\x24\x45\x42";
    assert_eq!(encoded(|out| disposition.encode(out)), &expected[..]);
}

#[test]
fn the_bytes_behind_a_transfer_are_its_payload() {
    let mut out = BytesMut::new();
    Transfer::default().encode(&mut out);
    out.put_slice(b"payload");
    let body = out.freeze();
    let (performative, payload) = decode(&body).unwrap();
    assert_eq!(performative, Performative::Transfer(Transfer::default()));
    assert_eq!(&payload[..], b"payload");
    assert!(body.as_ptr_range().contains(&payload.as_ptr()), "a slice, not a copy");
    let mut front = body;
    assert_eq!(decode_front(&mut front), Ok(performative));
    assert_eq!(&front[..], b"payload");
}

/// Old Python SDKs index into the lists, so every field is written.
#[test]
fn performatives_are_written_with_all_their_fields() {
    let cases = [
        (Performative::Open(Box::new(Open::new("c"))), 10),
        (Performative::Begin(Box::new(begin())), 8),
        (Performative::Attach(Box::new(Attach::new("l", 0, Role::Sender))), 14),
        (Performative::Flow(Flow::default()), 11),
        (Performative::Transfer(Transfer::default()), 11),
        (Performative::Disposition(disposition(None)), 6),
        (Performative::Detach(Box::default()), 3),
        (Performative::End(Box::default()), 1),
        (Performative::Close(Box::default()), 1),
    ];
    for (performative, fields) in cases {
        let body = body(&performative);
        assert_eq!(body[..2], [0x00, 0x53], "{performative:?}");
        assert_eq!(field_count(&body), fields, "{performative:?}");
        assert_eq!(decode(&body), Ok((performative, Bytes::new())));
    }
}

/// The Python SDK hangs on an error of two fields.
#[test]
fn errors_are_written_with_three_fields_wherever_they_stand() {
    let error = Error { condition: "a:b".into(), description: None, info: None };
    let expected = b"\x00\x53\x1d\xc0\x08\x03\xa3\x03a:b\x40\x40";
    let holders = [
        encoded(|out| Detach { error: Some(error.clone()), ..Detach::default() }.encode(out)),
        encoded(|out| End { error: Some(error.clone()) }.encode(out)),
        encoded(|out| Close { error: Some(error.clone()) }.encode(out)),
        encoded(|out| DeliveryState::Rejected(Some(Box::new(error.clone()))).encode(out)),
    ];
    for holder in holders {
        assert!(holder.ends_with(expected), "{holder:?}");
    }
}

#[test]
fn rejected_without_an_error_has_a_null() {
    let rejected = encoded(|out| DeliveryState::Rejected(None).encode(out));
    assert_eq!(&rejected[..], b"\x00\x53\x25\xc0\x02\x01\x40");
}

#[test]
fn descriptors_by_name_and_by_long_number_mean_the_same() {
    let short = encoded(|out| Transfer::default().encode(out));
    let list = &short[3..];
    let named = [b"\x00\xa3\x12amqp:transfer:list", list].concat();
    let long = [b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x14", list].concat();
    for body in [named, long] {
        let (performative, _) = decode(&body.into()).unwrap();
        assert_eq!(performative, Performative::Transfer(Transfer::default()));
    }
}

#[test]
fn states_read_by_name_too() {
    let cases: [(&str, &[u8], DeliveryState); 4] = [
        ("amqp:accepted:list", &[0x45], DeliveryState::Accepted),
        ("amqp:released:list", &[0xd0, 0, 0, 0, 4, 0, 0, 0, 0], DeliveryState::Released),
        ("amqp:rejected:list", &[0x45], DeliveryState::Rejected(None)),
        ("amqp:modified:list", &[0x45], DeliveryState::Modified(Box::default())),
    ];
    for (name, list, expected) in cases {
        let len = u8::try_from(name.len()).unwrap();
        let bytes = [&[0x00, 0xa3, len], name.as_bytes(), list].concat();
        assert_eq!(DeliveryState::decode(&bytes), Ok(expected), "{name}");
    }
}

#[test]
fn short_lists_and_nulls_read_as_defaults() {
    let (short, _) = decode(&Bytes::from_static(b"\x00\x53\x10\xc0\x04\x01\xa1\x01c")).unwrap();
    assert_eq!(short, Performative::Open(Box::new(Open::new("c"))));
    let nulls = b"\x00\x53\x10\xc0\x0d\x0a\xa1\x01c\x40\x40\x40\x40\x40\x40\x40\x40\x40";
    assert_eq!(decode(&Bytes::from_static(nulls)).unwrap().0, short);
    let (flow, _) = decode(&Bytes::from_static(b"\x00\x53\x13\xc0\x05\x04\x40\x43\x43\x43")).unwrap();
    assert_eq!(flow, Performative::Flow(Flow::default()));
}

#[test]
fn outcomes_are_told_from_states_that_go_on() {
    let txn = |outcome| DeliveryState::Transactional { txn_id: b"t"[..].into(), outcome };
    let cases = [
        (DeliveryState::Accepted, true),
        (DeliveryState::Rejected(None), true),
        (DeliveryState::Released, true),
        (DeliveryState::Modified(Box::default()), true),
        (DeliveryState::Declared { txn_id: b"t"[..].into() }, true),
        (DeliveryState::Received { section_number: 0, section_offset: 0 }, false),
        (txn(None), false),
        (txn(Some(Box::new(DeliveryState::Accepted))), true),
        (DeliveryState::Other(Box::default()), false),
    ];
    for (state, expected) in cases {
        assert_eq!(state.is_outcome(), expected, "{state:?}");
    }
}

#[test]
fn a_state_we_do_not_know_passes_through() {
    let unknown = b"\x00\x80\x00\x00\x01\x37\x00\x00\x00\x63\xc0\x03\x02\x41\x43";
    let state = DeliveryState::decode(unknown).unwrap();
    assert_eq!(state, DeliveryState::Other(Box::new(Bytes::from_static(unknown))));
    assert_eq!(encoded(|out| state.encode(out)), &unknown[..]);
}

/// A source in forms that we would not write ourselves: long encodings, a short list, a capital
/// expiry-policy (the RabbitMQ client for .NET), one outcome without an array.
const FOREIGN_SOURCE: &[u8] = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x28\xd0\x00\x00\x00\x32\x00\x00\x00\x0a\
    \xb1\x00\x00\x00\x02q1\x70\x00\x00\x00\x00\xa3\x0bLINK_DETACH\x43\x56\x00\x40\x40\xc1\x01\x00\x40\
    \xa3\x0aamqp:a:lis";

#[test]
fn a_source_is_echoed_with_the_bytes_it_came_as() {
    let source = Source::decode(FOREIGN_SOURCE).unwrap();
    assert_eq!(source.address.as_ref().and_then(Address::as_str), Some("q1"));
    assert_eq!(source.expiry_policy.as_deref(), Some("LINK_DETACH"));
    assert_eq!(source.outcomes, [Symbol::from("amqp:a:lis")]);
    assert_eq!(encoded(|out| source.encode(out)), FOREIGN_SOURCE);
    assert_eq!(encoded(|out| source.clone().encode(out)), FOREIGN_SOURCE);
}

#[test]
fn a_source_that_was_changed_is_written_anew() {
    let filter = RawMap::with_symbol_keys(&[("session", AnnotationValue::Str("one"))]);
    let changed = Source::decode(FOREIGN_SOURCE).unwrap().with_filter(Some(filter));
    let bytes = encoded(|out| changed.encode(out));
    assert_ne!(bytes, FOREIGN_SOURCE);
    assert_eq!(Source::decode(&bytes), Ok(changed.clone()));
    assert_eq!(changed.expiry_policy.as_deref(), Some("LINK_DETACH"), "the rest stays");
    let named = Source::default().with_dynamic_address("made-up");
    assert!(named.dynamic);
    assert_eq!(Source::decode(&encoded(|out| named.encode(out))), Ok(named));
}

#[test]
fn a_target_is_echoed_with_the_bytes_it_came_as() {
    let foreign = b"\x00\x53\x29\xd0\x00\x00\x00\x0b\x00\x00\x00\x01\xb1\x00\x00\x00\x02q1";
    let target = Target::decode(foreign).unwrap();
    assert_eq!(target, Target::new("q1"), "equal in meaning");
    assert_eq!(encoded(|out| target.encode(out)), &foreign[..]);
    let Target::Terminus(terminus) = target else { panic!("a terminus") };
    let changed = Target::Terminus(terminus.with_dynamic_address("q2"));
    assert_eq!(Target::decode(&encoded(|out| changed.encode(out))), Ok(changed));
}

#[test]
fn a_coordinator_is_no_terminus() {
    let capabilities = vec![Symbol::from("amqp:local-transactions")];
    let target = Target::Coordinator { capabilities };
    assert_eq!(Target::decode(&encoded(|out| target.encode(out))), Ok(target.clone()));
    assert_eq!(target.address(), None);
}

#[test]
fn an_address_of_another_type_is_kept_encoded() {
    let source = Source::decode(b"\x00\x53\x28\xc0\x03\x01\x53\x07").unwrap();
    assert_eq!(source.address, Some(Address::Other(Bytes::from_static(&[0x53, 7]))));
    assert_eq!(source.address.as_ref().and_then(Address::as_str), None);
    let anew = Source { raw: None, ..source };
    let again = Source::decode(&encoded(|out| anew.encode(out))).unwrap();
    assert_eq!(again.address, anew.address);
}

#[test]
fn null_and_empty_termini_differ() {
    let refused = Attach::new("l", 0, Role::Sender);
    let anonymous = Attach {
        source: Some(Source::default()),
        target: Some(Target::Terminus(TargetTerminus::default())),
        ..refused.clone()
    };
    for attach in [refused, anonymous] {
        let performative = Performative::Attach(Box::new(attach));
        assert_eq!(decode(&body(&performative)).unwrap().0, performative);
    }
}

#[test]
fn sasl_mechanisms_are_an_array_even_when_there_is_one() {
    let offer = SaslMechanisms { mechanisms: vec!["PLAIN".into()] };
    assert_eq!(encoded(|out| offer.encode(out)), &b"\x00\x53\x40\xc0\x0b\x01\xe0\x08\x01\xa3\x05PLAIN"[..]);
}

#[test]
fn an_absent_sasl_response_is_not_an_empty_one() {
    for initial_response in [None, Some(Bytes::new()), Some(Bytes::from_static(b"\0a"))] {
        let init = SaslInit { mechanism: "ANONYMOUS".into(), initial_response, hostname: None };
        let frame = SaslFrame::Init(init);
        assert_eq!(decode_sasl(&encoded(|out| frame.encode(out))), Ok(frame));
    }
}

#[test]
fn sasl_codes_map_to_their_numbers_and_back() {
    for code in 0..=4 {
        assert_eq!(SaslCode::from_code(code).map(SaslCode::code), Some(code));
    }
    assert_eq!(SaslCode::from_code(5), None);
}

#[test]
fn declare_and_discharge_read_back() {
    let declare = Declare::default();
    assert_eq!(Declare::decode(&encoded(|out| declare.encode(out))), Ok(declare));
    let discharge = Discharge { txn_id: b"txn"[..].into(), fail: true };
    let bytes = encoded(|out| discharge.encode(out));
    assert_eq!(Discharge::decode(&bytes), Ok(discharge));
    assert!(Declare::decode(&bytes).is_err());
}

/// The offer of the real service, as recorded in a public log.
#[test]
fn the_recorded_offer_of_azure_reads() {
    let head = b"\x00\x53\x40\xc0\x32\x01\xe0\x2f\x04\xb3";
    let mut recorded = head.to_vec();
    for word in ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"] {
        recorded.extend(u32::try_from(word.len()).unwrap().to_be_bytes());
        recorded.extend(word.as_bytes());
    }
    let SaslFrame::Mechanisms(offer) = decode_sasl(&recorded.into()).unwrap() else { panic!("an offer") };
    assert_eq!(offer.mechanisms.len(), 4);
}

fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1,
        outgoing_window: 1,
        handle_max: u32::MAX,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

fn disposition(state: Option<DeliveryState>) -> Disposition {
    Disposition { role: Role::Sender, first: 0, last: None, settled: false, state, batchable: false }
}

proptest! {
    #[test]
    fn a_performative_reads_back_as_it_was_written(
        performative in any::performative(),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut out = BytesMut::new();
        performative.encode(&mut out);
        out.put_slice(&payload);
        let (read, rest) = decode(&out.freeze()).unwrap();
        prop_assert_eq!(read, performative);
        prop_assert_eq!(rest, payload);
    }

    #[test]
    fn a_truncated_performative_is_refused(
        performative in any::performative(),
        cut in any::<prop::sample::Index>(),
    ) {
        let body = body(&performative);
        prop_assert!(decode(&body.slice(..cut.index(body.len()))).is_err());
    }

    #[test]
    fn a_damaged_performative_never_panics(
        performative in any::performative(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = body(&performative).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((read, _)) = decode(&bytes.into()) {
            prop_assert_eq!(decode(&body(&read)).map(|it| it.0), Ok(read));
        }
    }

    #[test]
    fn any_body_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), code in 0x10_u8..0x19) {
        let bytes = Bytes::from([&[0x00, 0x53, code, 0xd0, 0, 0, 0, u8::try_from(bytes.len()).unwrap()], &bytes[..]].concat());
        drop(decode(&bytes));
        drop(decode(&bytes.slice(3..)));
        drop(decode_sasl(&bytes));
    }

    #[test]
    fn any_source_is_echoed(source in any::source()) {
        let bytes = encoded(|out| source.encode(out));
        let read = Source::decode(&bytes).unwrap();
        prop_assert_eq!(&read, &source);
        prop_assert_eq!(encoded(|out| read.encode(out)), bytes);
    }
}
