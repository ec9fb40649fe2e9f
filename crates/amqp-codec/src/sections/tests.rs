use bytes::{BufMut, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::message::MessageBuilder;
use crate::raw::AnnotationValue;
use crate::types::{self, TypeKind};

mod oracle;

const HEADER: &[u8] = &[0x00, 0x53, 0x70, 0x45];
const DELIVERY: &[u8] = &[0x00, 0x53, 0x71, 0xc1, 1, 0];
const ANNOTATIONS: &[u8] = &[0x00, 0x53, 0x72, 0xc1, 1, 0];
const PROPERTIES: &[u8] = &[0x00, 0x53, 0x73, 0xc0, 1, 0];
const APPLICATION: &[u8] = &[0x00, 0x53, 0x74, 0xd1, 0, 0, 0, 4, 0, 0, 0, 0];
const DATA: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 2, 7, 7];
const SEQUENCE: &[u8] = &[0x00, 0x53, 0x76, 0x45];
const VALUE: &[u8] = &[0x00, 0x53, 0x77, 0x40];
const FOOTER: &[u8] = &[0x00, 0x53, 0x78, 0xc1, 1, 0];

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn all_sections_are_found_where_they_are() {
    let payload = joined(&[HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, DATA, FOOTER]);
    let found = Sections::scan(&payload).unwrap();
    assert_eq!(found.header.of(&payload), HEADER);
    assert_eq!(found.delivery_annotations.of(&payload), DELIVERY);
    assert_eq!(found.message_annotations.of(&payload), ANNOTATIONS);
    assert_eq!(found.properties.of(&payload), PROPERTIES);
    assert_eq!(found.application_properties.of(&payload), APPLICATION);
    assert_eq!(found.body.of(&payload), joined(&[DATA, DATA]));
    assert_eq!(found.footer.of(&payload), FOOTER);
    assert_eq!(found.body_kind, BodyKind::Data);
    assert_eq!(found.bare().of(&payload), joined(&[PROPERTIES, APPLICATION, DATA, DATA, FOOTER]));
}

#[test]
fn order_repetition_and_mixture_follow_the_specification() {
    use Section as S;
    use SectionError as E;
    type Case<'a> = (&'a [&'a [u8]], Result<BodyKind, SectionError>);
    let cases: &[Case<'_>] = &[
        (&[], Ok(BodyKind::None)),
        (&[HEADER, PROPERTIES], Ok(BodyKind::None)),
        (&[DATA], Ok(BodyKind::Data)),
        (&[DATA, DATA, DATA], Ok(BodyKind::Data)),
        (&[SEQUENCE, SEQUENCE], Ok(BodyKind::Sequence)),
        (&[VALUE], Ok(BodyKind::Value)),
        (&[VALUE, FOOTER], Ok(BodyKind::Value)),
        (&[HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION, VALUE, FOOTER], Ok(BodyKind::Value)),
        (&[VALUE, VALUE], Err(E::Duplicate { section: S::AmqpValue })),
        (&[DATA, SEQUENCE], Err(E::MixedBody { section: S::AmqpSequence })),
        (&[SEQUENCE, DATA], Err(E::MixedBody { section: S::Data })),
        (&[DATA, VALUE], Err(E::MixedBody { section: S::AmqpValue })),
        (&[HEADER, HEADER], Err(E::Duplicate { section: S::Header })),
        (&[FOOTER, FOOTER], Err(E::Duplicate { section: S::Footer })),
        (&[PROPERTIES, ANNOTATIONS], Err(E::OutOfOrder { section: S::MessageAnnotations })),
        (&[DATA, PROPERTIES], Err(E::OutOfOrder { section: S::Properties })),
        (&[FOOTER, DATA], Err(E::OutOfOrder { section: S::Data })),
        (&[DATA, FOOTER, DATA], Err(E::Duplicate { section: S::Data })),
        (&[VALUE, DELIVERY], Err(E::OutOfOrder { section: S::DeliveryAnnotations })),
    ];
    for case @ (parts, expected) in cases {
        let payload = joined(parts);
        assert_eq!(Sections::scan(&payload).map(|it| it.body_kind), *expected, "{case:02x?}");
    }
}

#[test]
fn the_tolerant_scan_accepts_any_order_but_no_repetition() {
    // One Python client writes delivery-annotations after the footer.
    let payload = joined(&[PROPERTIES, APPLICATION, VALUE, FOOTER, DELIVERY]);
    let found = Sections::scan_tolerant(&payload).unwrap();
    assert_eq!(found.delivery_annotations.of(&payload), DELIVERY);
    assert_eq!(found.body.of(&payload), VALUE);
    assert_eq!(found.bare().of(&payload), joined(&[PROPERTIES, APPLICATION, VALUE, FOOTER]));
    for twice in [&[HEADER, VALUE, HEADER][..], &[VALUE, VALUE], &[DATA, FOOTER, DATA]] {
        assert!(Sections::scan_tolerant(&joined(twice)).is_err(), "{twice:02x?}");
    }
    assert!(Sections::scan_tolerant(&joined(&[DATA, VALUE])).is_err());
}

#[test]
fn each_section_must_be_of_its_type() {
    let wrong = |expected, found| Malformed::Unexpected { expected, found };
    let cases: &[(&[u8], Section, Malformed)] = &[
        (&[0x00, 0x53, 0x70, 0xc1, 1, 0], Section::Header, wrong(TypeKind::List, 0xc1)),
        (&[0x00, 0x53, 0x72, 0x45], Section::MessageAnnotations, wrong(TypeKind::Map, 0x45)),
        (&[0x00, 0x53, 0x74, 0xc1, 2, 1, 0x43], Section::ApplicationProperties, Malformed::OddMap(1)),
        (&[0x00, 0x53, 0x75, 0xa1, 0], Section::Data, wrong(TypeKind::Binary, 0xa1)),
        (&[0x00, 0x53, 0x75, 0xb0, 0xff, 0xff, 0xff, 0xff], Section::Data, Malformed::Truncated),
        (&[0x00, 0x53, 0x76, 0x40], Section::AmqpSequence, wrong(TypeKind::List, 0x40)),
        (&[0x00, 0x53, 0x77], Section::AmqpValue, Malformed::Truncated),
    ];
    for case @ (payload, section, problem) in cases {
        let expected = SectionError::Malformed { section: *section, problem: *problem };
        assert_eq!(Sections::scan(payload), Err(expected), "{case:02x?}");
    }
}

#[test]
fn bytes_that_are_no_section_are_refused_with_their_offset() {
    let cases: &[(&[u8], Malformed)] = &[
        (&[0x00, 0x53, 0x24, 0x45], Malformed::UnexpectedDescriptor),
        (&[0x00, 0x53, 0x79, 0x45], Malformed::UnexpectedDescriptor),
        (&[0x40], Malformed::Unexpected { expected: TypeKind::Described, found: 0x40 }),
        (&[0x00], Malformed::Truncated),
        (b"\x00\xa3\x03foo\x45", Malformed::UnexpectedDescriptor),
    ];
    for case @ (tail, problem) in cases {
        let payload = joined(&[HEADER, tail]);
        let expected = SectionError::NotASection { offset: HEADER.len(), problem: *problem };
        assert_eq!(Sections::scan(&payload), Err(expected), "{case:02x?}");
    }
}

#[test]
fn sections_may_be_described_by_name_and_by_long_number() {
    for section in Section::ALL {
        let value: &[u8] = match section {
            Section::Header | Section::Properties | Section::AmqpSequence => &[0x45],
            Section::Data => &[0xa0, 0],
            Section::AmqpValue => &[0x40],
            _ => &[0xc1, 1, 0],
        };
        let symbol = section.symbol();
        let len = u8::try_from(symbol.len()).unwrap();
        let named = joined(&[&[0x00, 0xa3, len], symbol.as_bytes(), value]);
        let numbered = joined(&[&[0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, section.code()], value]);
        for payload in [named, numbered] {
            assert!(Sections::scan(&payload).is_ok(), "{section}");
        }
    }
}

#[test]
fn a_header_is_written_with_all_fields_even_a_count_of_zero() {
    let mut out = BytesMut::new();
    Header::default().encode(&mut out);
    assert_eq!(out, [0x00, 0x53, 0x70, 0xc0, 6, 5, 0x40, 0x40, 0x40, 0x40, 0x43][..]);
    out.clear();
    Header { durable: Some(false), first_acquirer: Some(true), ..Header::default() }.encode(&mut out);
    assert_eq!(out, [0x00, 0x53, 0x70, 0xc0, 6, 5, 0x42, 0x40, 0x40, 0x41, 0x43][..]);
}

#[test]
fn a_header_reads_with_its_defaults() {
    assert_eq!(Header::decode(&[]), Ok(Header::default()));
    assert_eq!(Header::decode(HEADER), Ok(Header::default()));
    assert_eq!(Header::default().priority_or_default(), 4);
    let two = [0x00, 0x53, 0x70, 0xc0, 4, 2, 0x41, 0x50, 9];
    let expected = Header { durable: Some(true), priority: Some(9), ..Header::default() };
    assert_eq!(Header::decode(&two), Ok(expected));
    let seven = [0x00, 0x53, 0x70, 0xc0, 8, 7, 0x40, 0x40, 0x40, 0x40, 0x43, 0x41, 0x41];
    assert_eq!(Header::decode(&seven), Ok(Header::default()), "fields beyond the fifth");
}

#[test]
fn properties_read_field_by_field() {
    let id = AnnotationValue::Ulong(7);
    let payload = MessageBuilder::new()
        .property(PropertyField::MessageId, id)
        .property(PropertyField::UserId, AnnotationValue::Binary(b"me"))
        .to("to")
        .subject("subject")
        .reply_to("reply-to")
        .property(PropertyField::CorrelationId, AnnotationValue::Uuid([3; 16]))
        .property(PropertyField::ContentType, AnnotationValue::Symbol(&"text/plain".into()))
        .property(PropertyField::ContentEncoding, AnnotationValue::Symbol(&"gzip".into()))
        .property(PropertyField::AbsoluteExpiryTime, AnnotationValue::Timestamp(20))
        .property(PropertyField::CreationTime, AnnotationValue::Timestamp(10))
        .property(PropertyField::GroupId, AnnotationValue::Str("group"))
        .property(PropertyField::GroupSequence, AnnotationValue::Uint(5))
        .property(PropertyField::ReplyToGroupId, AnnotationValue::Str("reply-group"))
        .body_null()
        .build();
    let sections = Sections::scan(&payload).unwrap();
    let properties = sections.properties_view(&payload);
    assert_eq!(properties.message_id().and_then(RawValue::as_u64), Some(7));
    assert_eq!(properties.user_id(), Some(&b"me"[..]));
    assert_eq!(properties.to().and_then(RawValue::as_str), Some("to"));
    assert_eq!(properties.subject(), Some("subject"));
    assert_eq!(properties.reply_to().and_then(RawValue::as_str), Some("reply-to"));
    assert_eq!(properties.correlation_id().and_then(RawValue::as_uuid), Some([3; 16]));
    assert_eq!(properties.content_type(), Some("text/plain"));
    assert_eq!(properties.content_encoding(), Some("gzip"));
    assert_eq!(properties.absolute_expiry_time(), Some(20));
    assert_eq!(properties.creation_time(), Some(10));
    assert_eq!(properties.group_id(), Some("group"));
    assert_eq!(properties.group_sequence(), Some(5));
    assert_eq!(properties.reply_to_group_id(), Some("reply-group"));
    assert_eq!(properties.check(), Ok(()));
    for field in PropertyField::ALL {
        assert_eq!(properties.get(field), properties.to_array()[field.index()], "{field:?}");
    }
    assert_eq!(sections.check_contents(&payload), Ok(()));
}

#[test]
fn absent_properties_read_as_absent() {
    for section in [&[][..], PROPERTIES, &[0x00, 0x53, 0x73, 0xc0, 3, 2, 0x40, 0x40]] {
        let properties = PropertiesView::new(section).unwrap();
        assert_eq!(properties.to_array(), [None; 13]);
        assert_eq!(properties.message_id(), None);
        assert_eq!(properties.group_id(), None);
    }
}

#[test]
fn contents_that_the_scan_passed_over_are_checked_on_request() {
    let with = |section: Section, value: &[u8]| {
        let mut out = BytesMut::new();
        types::write_descriptor(&mut out, section.code().into());
        out.put_slice(value);
        out.freeze()
    };
    let cases: &[(Section, &[u8], Malformed)] = &[
        (
            Section::Header,
            &[0xc0, 2, 1, 0x43],
            Malformed::Unexpected { expected: TypeKind::Boolean, found: 0x43 },
        ),
        (Section::MessageAnnotations, b"\xc1\x05\x02\xa3\x01\xff\x43", Malformed::NotAscii),
        (Section::ApplicationProperties, b"\xc1\x05\x02\xa1\x01\xff\x43", Malformed::NotUtf8),
        (
            Section::Properties,
            &[0xc0, 2, 1, 0x41],
            Malformed::Unexpected { expected: TypeKind::String, found: 0x41 },
        ),
        (
            Section::Properties,
            &[0xc0, 3, 2, 0x40, 0x41],
            Malformed::Unexpected { expected: TypeKind::Binary, found: 0x41 },
        ),
        (Section::Footer, &[0xc1, 3, 2, 0x43, 0x99], Malformed::UnknownConstructor(0x99)),
    ];
    for case @ (section, value, problem) in cases {
        let payload = with(*section, value);
        let sections = Sections::scan(&payload).unwrap();
        let expected = SectionError::Malformed { section: *section, problem: *problem };
        assert_eq!(sections.check_contents(&payload), Err(expected), "{case:02x?}");
    }
}

#[test]
fn the_body_value_is_found_without_its_descriptor() {
    let sections = Sections::scan(VALUE).unwrap();
    assert!(sections.body_value(VALUE).unwrap().is_null());
    assert_eq!(Sections::scan(DATA).unwrap().body_value(DATA), None);
}

#[test]
fn a_span_of_another_payload_is_empty() {
    assert_eq!(ByteRange { start: 4, end: 9 }.of(&[1, 2, 3]), &[] as &[u8]);
    assert_eq!(ByteRange { start: 1, end: 3 }.len(), 2);
}

fn part() -> impl Strategy<Value = &'static [u8]> {
    prop_oneof![
        Just(HEADER),
        Just(DELIVERY),
        Just(ANNOTATIONS),
        Just(PROPERTIES),
        Just(APPLICATION),
        Just(DATA),
        Just(SEQUENCE),
        Just(VALUE),
        Just(FOOTER),
    ]
}

proptest! {
    #[test]
    fn scanned_sections_cover_the_payload_in_order(parts in proptest::collection::vec(part(), 0..7)) {
        let payload = parts.concat();
        if let Ok(it) = Sections::scan(&payload) {
            let spans = [
                it.header, it.delivery_annotations, it.message_annotations, it.properties,
                it.application_properties, it.body, it.footer,
            ];
            let covered: Vec<u8> = spans.iter().flat_map(|span| span.of(&payload).to_vec()).collect();
            prop_assert_eq!(covered, payload);
        }
    }

    #[test]
    fn the_tolerant_scan_agrees_with_the_strict_one(parts in proptest::collection::vec(part(), 0..7)) {
        let payload = parts.concat();
        if let Ok(strict) = Sections::scan(&payload) {
            prop_assert_eq!(Sections::scan_tolerant(&payload), Ok(strict));
        }
    }

    #[test]
    fn a_header_reads_back_as_it_was_written(
        durable: Option<bool>, priority: Option<u8>, ttl: Option<u32>, first_acquirer: Option<bool>, delivery_count: u32,
    ) {
        let header = Header { durable, priority, ttl, first_acquirer, delivery_count };
        let mut out = BytesMut::new();
        header.encode(&mut out);
        prop_assert_eq!(Header::decode(&out), Ok(header));
        prop_assert_eq!(Sections::scan(&out).unwrap().header.len(), out.len());
    }

    #[test]
    fn any_payload_is_scanned_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let results = [Sections::scan(&bytes), Sections::scan_tolerant(&bytes)];
        for sections in results.into_iter().flatten() {
            prop_assert!(sections.bare().range().end <= bytes.len());
            _ = sections.check_contents(&bytes);
        }
    }

    #[test]
    fn a_damaged_message_never_panics(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        let mut payload = MessageBuilder::new()
            .header(Header::default())
            .message_id("id")
            .application_property("key", AnnotationValue::Str("value"))
            .data(b"body")
            .build()
            .to_vec();
        let at = at.index(payload.len());
        payload[at] = byte;
        payload.truncate(cut.index(payload.len()) + 1);
        if let Ok(sections) = Sections::scan(&payload) {
            _ = sections.check_contents(&payload);
            _ = sections.properties_view(&payload).to_array();
            _ = sections.application_properties_view(&payload).get("key");
        }
    }
}
