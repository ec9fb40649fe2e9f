//! Scanning a message and writing what goes in front of it on delivery.

use std::hint::black_box;

use amqp_codec::message::{
    AnnotationValue, MessageBuilder, PropertyChanges, application_properties_with, properties_with,
    write_header, write_lock_token_annotations, write_message_annotations,
};
use amqp_codec::raw::RawMap;
use amqp_codec::sections::{Header, PropertyField, Sections};
use bytes::{Bytes, BytesMut};
use criterion::{Criterion, criterion_group, criterion_main};

const TTL: Header = Header {
    durable: Some(true),
    priority: None,
    ttl: Some(1_209_600_000),
    first_acquirer: Some(true),
    delivery_count: 0,
};

fn small() -> Bytes {
    MessageBuilder::new().message_id("c0ffee").data(&[7; 1024]).build()
}

fn typical() -> Bytes {
    MessageBuilder::new()
        .header(TTL)
        .message_annotations(RawMap::with_symbol_keys(&[
            ("x-opt-partition-key", AnnotationValue::Str("orders")),
            ("x-custom", AnnotationValue::Int(42)),
        ]))
        .message_id("0123456789abcdef0123456789abcdef")
        .subject("order.created")
        .property(PropertyField::GroupId, AnnotationValue::Str("customer-17"))
        .application_property("region", AnnotationValue::Str("north"))
        .application_property("attempt", AnnotationValue::Int(1))
        .data(&[7; 1024])
        .build()
}

fn broker_annotations() -> [(&'static str, AnnotationValue<'static>); 4] {
    [
        ("x-opt-sequence-number", AnnotationValue::Long(123_456_789)),
        ("x-opt-enqueued-time", AnnotationValue::Timestamp(1_750_000_000_000)),
        ("x-opt-enqueue-sequence-number", AnnotationValue::Long(123_456_789)),
        ("x-opt-locked-until", AnnotationValue::Timestamp(1_750_000_060_000)),
    ]
}

fn scanning(c: &mut Criterion) {
    let message = small();
    c.bench_function("scan/properties_and_data", |b| {
        b.iter(|| Sections::scan(black_box(&message)));
    });
    let message = typical();
    c.bench_function("scan/all_sections", |b| {
        b.iter(|| Sections::scan(black_box(&message)));
    });
    let sections = Sections::scan(&message).unwrap_or_default();
    c.bench_function("check_contents/all_sections", |b| {
        b.iter(|| sections.check_contents(black_box(&message)));
    });
    c.bench_function("read/header", |b| b.iter(|| sections.read_header(black_box(&message))));
    c.bench_function("read/group_id", |b| {
        b.iter(|| sections.properties_view(black_box(&message)).group_id().map(str::len));
    });
    c.bench_function("read/all_properties", |b| {
        b.iter(|| sections.properties_view(black_box(&message)).to_array());
    });
    c.bench_function("read/annotation", |b| {
        b.iter(|| sections.message_annotations_view(black_box(&message)).get("x-custom").is_some());
    });
}

fn delivering(c: &mut Criterion) {
    let mut out = BytesMut::with_capacity(4096);
    c.bench_function("write/header", |b| {
        b.iter(|| {
            out.clear();
            write_header(&mut out, black_box(&TTL));
            black_box(out.len())
        });
    });
    c.bench_function("write/lock_token", |b| {
        b.iter(|| {
            out.clear();
            write_lock_token_annotations(&mut out, black_box([7; 16]));
            black_box(out.len())
        });
    });
    let entries = broker_annotations();
    c.bench_function("write/preamble", |b| {
        b.iter(|| {
            out.clear();
            write_header(&mut out, black_box(&TTL));
            write_lock_token_annotations(&mut out, black_box([7; 16]));
            write_message_annotations(&mut out, None, black_box(&entries)).ok();
            black_box(out.len())
        });
    });
    let message = typical();
    let sections = Sections::scan(&message).unwrap_or_default();
    let annotations = sections.message_annotations.of(&message);
    c.bench_function("write/preamble_merged", |b| {
        b.iter(|| {
            out.clear();
            write_header(&mut out, black_box(&TTL));
            write_lock_token_annotations(&mut out, black_box([7; 16]));
            write_message_annotations(&mut out, Some(black_box(annotations)), &entries).ok();
            black_box(out.len())
        });
    });
    let properties = sections.properties.of(&message);
    let changes = PropertyChanges {
        message_id: None,
        creation_time: Some(1_750_000_000_000),
        absolute_expiry_time: Some(1_751_209_600_000),
        others: &[],
    };
    c.bench_function("write/properties_stamped", |b| {
        b.iter(|| {
            out.clear();
            properties_with(&mut out, Some(black_box(properties)), &changes).ok();
            black_box(out.len())
        });
    });
    let application = sections.application_properties.of(&message);
    let reason = [("DeadLetterReason", AnnotationValue::Str("TTLExpiredException"))];
    c.bench_function("write/application_properties_added", |b| {
        b.iter(|| {
            out.clear();
            application_properties_with(&mut out, Some(black_box(application)), &reason).ok();
            black_box(out.len())
        });
    });
}

criterion_group!(benches, scanning, delivering);
criterion_main!(benches);
