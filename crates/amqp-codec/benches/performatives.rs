//! Decoding and encoding of the three performatives of the hot path.

use std::hint::black_box;

use amqp_codec::frame::{self, FrameHeader, FrameKind};
use amqp_codec::performative::{self, DeliveryState, Disposition, Flow, Transfer};
use amqp_codec::types::{Reader, Role};
use bytes::{Bytes, BytesMut};
use criterion::{Criterion, criterion_group, criterion_main};

fn transfer() -> Transfer {
    Transfer {
        handle: 3,
        delivery_id: Some(1_000_000),
        delivery_tag: Some([0xa5; 16].into()),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    }
}

fn disposition() -> Disposition {
    Disposition {
        role: Role::Receiver,
        first: 1_000_000,
        last: Some(1_000_099),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    }
}

fn flow() -> Flow {
    Flow {
        next_incoming_id: Some(1_000_000),
        incoming_window: 2048,
        next_outgoing_id: 0,
        outgoing_window: 2048,
        handle: Some(0),
        delivery_count: Some(1_000_000),
        link_credit: Some(1000),
        ..Flow::default()
    }
}

fn encoded(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    write(&mut out);
    out.freeze()
}

fn decoding(c: &mut Criterion) {
    let body = encoded(|out| {
        transfer().encode(out);
        out.extend_from_slice(&[0x5a; 1024]);
    });
    c.bench_function("decode/transfer", |b| {
        b.iter(|| {
            let mut reader = Reader::new(black_box(&body));
            reader.descriptor().ok();
            Transfer::decode_list(&mut reader)
        });
    });
    c.bench_function("decode/transfer_with_payload", |b| {
        b.iter(|| performative::decode(black_box(&body)));
    });
    c.bench_function("decode/transfer_off_the_front", |b| {
        b.iter(|| {
            let mut rest = black_box(&body).clone();
            let performative = performative::decode_front(&mut rest);
            (performative, rest)
        });
    });
    let body = encoded(|out| disposition().encode(out));
    c.bench_function("decode/disposition", |b| {
        b.iter(|| {
            let mut reader = Reader::new(black_box(&body));
            reader.descriptor().ok();
            Disposition::decode_list(&mut reader)
        });
    });
    let body = encoded(|out| flow().encode(out));
    c.bench_function("decode/flow", |b| {
        b.iter(|| {
            let mut reader = Reader::new(black_box(&body));
            reader.descriptor().ok();
            Flow::decode_list(&mut reader)
        });
    });
    let head = [0, 0, 4, 0, 2, 0, 0, 1];
    c.bench_function("decode/frame_header", |b| {
        b.iter(|| FrameHeader::parse(black_box(&head), 65_536));
    });
}

fn encoding(c: &mut Criterion) {
    let mut out = BytesMut::with_capacity(4096);
    let value = transfer();
    c.bench_function("encode/transfer", |b| {
        b.iter(|| {
            out.clear();
            black_box(&value).encode(&mut out);
            black_box(out.len())
        });
    });
    c.bench_function("encode/transfer_frame", |b| {
        b.iter(|| {
            out.clear();
            frame::write_frame(&mut out, FrameKind::Amqp, 1, |out| black_box(&value).encode(out));
            black_box(out.len())
        });
    });
    let value = disposition();
    c.bench_function("encode/disposition", |b| {
        b.iter(|| {
            out.clear();
            black_box(&value).encode(&mut out);
            black_box(out.len())
        });
    });
    let value = flow();
    c.bench_function("encode/flow", |b| {
        b.iter(|| {
            out.clear();
            black_box(&value).encode(&mut out);
            black_box(out.len())
        });
    });
}

criterion_group!(benches, decoding, encoding);
criterion_main!(benches);
