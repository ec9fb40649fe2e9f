//! The hot path allocates nothing. Each case is warmed up once, and is then counted.

use allocation_counter::measure;
use amqp_codec::{
    frame::{FrameHeader, FrameKind, write_frame},
    message::{
        AnnotationValue, MessageBuilder, PropertyChanges, application_properties_with, properties_with,
        write_header, write_lock_token_annotations, write_message_annotations,
    },
    performative::{self, DeliveryState, Disposition, Flow, Performative, Transfer},
    raw::RawMap,
    sections::{Header, PropertyField, Sections},
    types::Role,
};
use bytes::{Bytes, BytesMut};

/// Number of allocations of the second run of `work`.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();
    measure(work).count_total
}

/// The performatives that come and go with messages.
fn performatives() -> [(&'static str, Performative); 5] {
    let transfer = Transfer {
        handle: 3,
        delivery_id: Some(1_000_000),
        delivery_tag: Some([0xa5; 16].into()),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    };
    let disposition = |state| Disposition {
        role: Role::Receiver,
        first: 1_000_000,
        last: Some(1_000_099),
        settled: true,
        state: Some(state),
        batchable: false,
    };
    let flow = Flow {
        next_incoming_id: Some(1_000_000),
        incoming_window: 2048,
        outgoing_window: 2048,
        handle: Some(0),
        delivery_count: Some(1_000_000),
        link_credit: Some(1000),
        ..Flow::default()
    };
    [
        ("transfer", Performative::Transfer(transfer)),
        ("accepted", Performative::Disposition(disposition(DeliveryState::Accepted))),
        ("released", Performative::Disposition(disposition(DeliveryState::Released))),
        ("rejected without error", Performative::Disposition(disposition(DeliveryState::Rejected(None)))),
        ("flow", Performative::Flow(flow)),
    ]
}

fn message() -> Bytes {
    MessageBuilder::new()
        .header(Header { durable: Some(true), ttl: Some(60_000), ..Header::default() })
        .message_annotations(RawMap::with_symbol_keys(&[("x-custom", AnnotationValue::Int(42))]))
        .message_id("0123456789abcdef0123456789abcdef")
        .property(PropertyField::GroupId, AnnotationValue::Str("customer-17"))
        .application_property("region", AnnotationValue::Str("north"))
        .data(&[7; 1024])
        .build()
}

#[test]
fn reading_and_writing_a_performative_of_the_hot_path_allocates_nothing() {
    for (name, performative) in performatives() {
        let mut out = BytesMut::with_capacity(4096);
        let writing = allocations(|| {
            out.clear();
            write_frame(&mut out, FrameKind::Amqp, 1, |out| {
                performative.encode(out);
                out.extend_from_slice(&[0x5a; 1024]);
            });
        });
        assert_eq!(writing, 0, "writing {name}");
        // As after a read from a socket: a piece of a larger buffer.
        let mut frame = out.split().freeze();
        let header = FrameHeader::parse(frame.first_chunk().expect("a header"), 65_536).expect("a frame");
        let body = frame.split_off(header.body_offset());
        let reading = allocations(|| {
            let (read, payload) = performative::decode(&body).expect("a performative");
            assert_eq!(payload.len(), 1024);
            drop((read, payload));
        });
        assert_eq!(reading, 0, "reading {name}");
    }
}

#[test]
fn looking_through_a_message_allocates_nothing() {
    let message = message();
    let count = allocations(|| {
        let sections = Sections::scan(&message).expect("a message");
        sections.check_contents(&message).expect("sound contents");
        assert!(sections.read_header(&message).expect("a header").is_durable());
        let properties = sections.properties_view(&message);
        assert!(properties.get(PropertyField::MessageId).is_some());
        assert!(properties.get(PropertyField::GroupId).is_some());
        assert!(sections.message_annotations_view(&message).get("x-custom").is_some());
    });
    assert_eq!(count, 0);
}

#[test]
fn writing_the_sections_in_front_of_a_delivery_allocates_nothing() {
    let message = message();
    let sections = Sections::scan(&message).expect("a message");
    let ours = [
        ("x-opt-sequence-number", AnnotationValue::Long(123_456_789)),
        ("x-opt-enqueued-time", AnnotationValue::Timestamp(1_750_000_000_000)),
        ("x-opt-locked-until", AnnotationValue::Timestamp(1_750_000_060_000)),
    ];
    let stamps = PropertyChanges {
        message_id: None,
        creation_time: Some(1_750_000_000_000),
        absolute_expiry_time: Some(1_751_209_600_000),
        others: &[],
    };
    let reason = [("DeadLetterReason", AnnotationValue::Str("TTLExpiredException"))];
    let mut out = BytesMut::with_capacity(4096);
    let count = allocations(|| {
        out.clear();
        write_header(&mut out, &Header::default());
        write_lock_token_annotations(&mut out, [7; 16]);
        let theirs = Some(sections.message_annotations.of(&message));
        write_message_annotations(&mut out, theirs, &ours).expect("annotations");
        properties_with(&mut out, Some(sections.properties.of(&message)), &stamps).expect("properties");
        let own = Some(sections.application_properties.of(&message));
        application_properties_with(&mut out, own, &reason).expect("application properties");
    });
    assert_eq!(count, 0);
}

#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
}
