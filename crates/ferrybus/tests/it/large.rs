//! Much of everything through the real process: a queue beyond its memory, the largest message, a folder that must not
//! grow.

use std::fs;

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Flow, Performative, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    types::ReceiverSettleMode,
};
use bytes::{Bytes, BytesMut};
use testkit::{Script, Wire};

use crate::{
    memory::{ALLOWANCE, KIB, MIB, address, log_in, of_process},
    support::{Broker, Folder},
};

const CONFIGURATION: &str = "durability = \"os\"\nlisten = [\"127.0.0.1:0\"]\n\
    [limits]\nmax_message_bytes = \"100 MiB\"\nshutdown_time_out = \"0s\"\n\
    [journal]\ncache_bytes = \"1 MiB\"\nsegment_bytes = \"4 MiB\"\n[[queue]]\nname = \"orders\"\n";

fn start(folder: &Folder) -> Broker {
    folder.write("ferrybus.toml", CONFIGURATION);
    Broker::start(&folder.0, &[])
}

/// A client whose session has no end, with a sender on handle 1 and a receiver on handle 2.
fn client(broker: &Broker) -> Wire {
    let mut wire = log_in(address(broker));
    wire.sender(1, "in", "orders").unwrap();
    wire.receiver(2, "out", "orders", Some(ReceiverSettleMode::First)).unwrap();
    wire
}

/// Asks for so many messages, once, before anything is sent.
fn credit(wire: &mut Wire, link_credit: u32) {
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: u32::MAX >> 1,
        next_outgoing_id: 0,
        outgoing_window: u32::MAX >> 1,
        handle: Some(2),
        delivery_count: Some(0),
        link_credit: Some(link_credit),
        ..Flow::default()
    };
    wire.script.flow(0, flow);
    wire.flush().unwrap();
}

/// Sends one message in frames of at most 60,000 bytes of payload.
fn send(wire: &mut Wire, id: u32, payload: &[u8]) {
    let mut pieces = payload.chunks(60_000).peekable();
    while let Some(piece) = pieces.next() {
        let more = pieces.peek().is_some();
        wire.script.transfer_with(0, Transfer { more, ..Script::transfer_frame(1, id, false) }, piece);
        wire.flush().unwrap();
    }
    let answer = wire.disposed().unwrap();
    assert_eq!((answer.first, answer.state), (id, Some(DeliveryState::Accepted)));
}

/// The payload of the next message, which is completed.
fn receive(wire: &mut Wire) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut id = None;
    loop {
        let received = wire.transferred().unwrap();
        let Performative::Transfer(transfer) = received.performative else { panic!() };
        id = id.or(transfer.delivery_id);
        payload.extend_from_slice(&received.payload);
        if !transfer.more {
            break;
        }
    }
    let id = id.unwrap();
    wire.script.disposition(0, id, id, true, Some(DeliveryState::Accepted));
    wire.flush().unwrap();
    payload
}

/// A body that tells its number at both ends.
fn body(number: u32, bytes: usize) -> Vec<u8> {
    let mut body = vec![b'x'; bytes];
    body[..4].copy_from_slice(&number.to_be_bytes());
    body[bytes - 4..].copy_from_slice(&number.to_be_bytes());
    body
}

fn peak(broker: &Broker) -> u64 {
    of_process(broker, "VmHWM:") - of_process(broker, "RssFile:")
}

fn size_of(folder: &Folder) -> u64 {
    let files = fs::read_dir(folder.0.join("ferrybus-data")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// Demands that the files are no larger than `bound` once the broker has had some turns to clean them.
fn shrinks_to(folder: &Folder, broker: &Broker, bound: u64) {
    let mut wire = client(broker);
    for number in 0..10_000 {
        if size_of(folder) < bound {
            return;
        }
        send(&mut wire, number, &testkit::data(b"one more"));
    }
    panic!("{} KiB", size_of(folder) / KIB);
}

#[test]
fn a_queue_larger_than_memory_is_filled_found_again_and_drained_within_the_cache() {
    const COUNT: u32 = 1_000;
    const BODY: usize = 100_000;
    let folder = Folder::new("larger-than-memory");
    let broker = start(&folder);
    let mut wire = client(&broker);
    for number in 0..COUNT {
        send(&mut wire, number, &testkit::data(&body(number, BODY)));
    }
    assert!(size_of(&folder) > u64::from(COUNT) * BODY as u64);
    let filled = peak(&broker);
    broker.kill();

    let broker = start(&folder);
    let mut wire = client(&broker);
    credit(&mut wire, COUNT);
    for number in 0..COUNT {
        assert!(receive(&mut wire).ends_with(&body(number, BODY)), "message {number}");
    }
    let drained = peak(&broker);
    // 100 MB passed twice; what is kept of a message beyond the cache is about 60 bytes.
    let bound = ALLOWANCE + 20 * MIB;
    assert!(filled < bound && drained < bound, "{} and {} KiB", filled / KIB, drained / KIB);
    // All is completed, and the files shrink to what the journal keeps ready.
    shrinks_to(&folder, &broker, 40 * MIB);
    assert!(broker.stop().success());
}

#[test]
fn a_message_of_a_hundred_mebibytes_goes_in_and_out_whole_and_survives_a_kill() {
    let folder = Folder::new("largest-message");
    let broker = start(&folder);
    let mut wire = client(&broker);
    let overhead = testkit::data(&[0; 1_000]).len() - 1_000;
    let large = testkit::data(&body(7, (100 << 20) - overhead));
    assert_eq!(large.len() as u64, 100 * MIB);
    send(&mut wire, 0, &large);
    let sent = peak(&broker);
    broker.kill();

    let broker = start(&folder);
    let mut wire = client(&broker);
    credit(&mut wire, 2);
    assert!(receive(&mut wire).ends_with(&large), "it comes back byte for byte, behind what the broker adds");
    let received = peak(&broker);
    // In: the frames of the message, the message in one piece, and in the journal's hand; out: likewise.
    let bound = ALLOWANCE + 400 * MIB;
    assert!(sent < bound && received < bound, "{} and {} KiB", sent / KIB, received / KIB);
    // Completed messages are compacted away; the definition of the queue, which lay before them, is kept.
    send(&mut client(&broker), 0, &large);
    assert!(receive(&mut wire).ends_with(&large));
    shrinks_to(&folder, &broker, 150 * MIB);
    assert!(broker.stop().success());
}

/// A request for the first message of the queue.
fn peek() -> Bytes {
    let ask = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(1)),
    ]);
    MessageBuilder::new()
        .message_id("peek")
        .application_property("operation", AnnotationValue::Str("com.microsoft:peek-message"))
        .body_raw(RawValue::first(ask.bytes()).unwrap())
        .build()
}

#[test]
fn large_answers_are_read_one_after_another_by_each_reader() {
    const PEEKS: u32 = 24;
    const BODY: usize = 20 << 20;
    let folder = Folder::new("large-answers");
    let broker = start(&folder);
    let mut wire = client(&broker);
    send(&mut wire, 0, &testkit::data(&body(0, BODY)));
    // The broker's memory holds no message any more, and nothing of its way in.
    broker.kill();
    let broker = start(&folder);
    let mut wire = client(&broker);
    let mut innocent = client(&broker);
    let before = peak(&broker);
    wire.sender(3, "ask", "orders/$management").unwrap();
    wire.receiver(4, "answers", "orders/$management", None).unwrap();
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: u32::MAX >> 1,
        next_outgoing_id: 0,
        outgoing_window: u32::MAX >> 1,
        handle: Some(4),
        delivery_count: Some(0),
        link_credit: Some(PEEKS),
        ..Flow::default()
    };
    wire.script.flow(0, flow);
    for id in 0..PEEKS {
        wire.script.transfer(0, 3, id, true, &peek());
    }
    wire.flush().unwrap();
    // Questions are answered in turn: when others have had theirs, so would these.
    for id in 0..50 {
        send(&mut innocent, id, &testkit::data(b"still here"));
    }
    for number in 0..PEEKS {
        let mut answer = BytesMut::new();
        while {
            let received = wire.transferred().unwrap();
            let Performative::Transfer(transfer) = received.performative else { panic!() };
            answer.extend_from_slice(&received.payload);
            transfer.more
        } {}
        assert!(answer.len() > BODY && answer.ends_with(&body(0, BODY)[BODY - 4..]), "answer {number}");
    }
    // One message as it was read, the answer that is made of it, in which it moves, and the answer before it, whose last bytes are on
    // their way.
    let grown = peak(&broker) - before;
    assert!(grown <= ALLOWANCE + 4 * BODY as u64, "{} KiB more", grown / KIB);
    assert!(broker.stop().success());
}
