//! Memory that deliveries keep which wait for their client and lie far apart in the journal.

use amqp_codec::performative::{DeliveryState, Flow};
use testkit::Wire;

use crate::memory::{MIB, Scene, log_in};

const MESSAGES: u32 = 400;
/// Records between two of them: less than the journal's read-ahead of a sequential reader.
const BETWEEN: u32 = 4;
const BETWEEN_BYTES: usize = 50_000;

/// Sends a flow: credit of link 1, and the incoming window of its session. Returns the messages that were on their way
/// when the broker answered.
fn wants(wire: &mut Wire, window: u32) -> u32 {
    wants_so_many(wire, MESSAGES, window)
}

fn wants_so_many(wire: &mut Wire, messages: u32, window: u32) -> u32 {
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: window,
        outgoing_window: 1,
        handle: Some(1),
        delivery_count: Some(0),
        link_credit: Some(messages),
        echo: true,
        ..Flow::default()
    };
    wire.script.flow(0, flow);
    wire.flowed().unwrap().available.unwrap()
}

/// Sends the messages to `orders`, each with what lies behind it to `others`, and waits until that is stored.
fn fill(scene: &Scene) {
    let mut sender = log_in(scene.address());
    sender.sender(1, "s", "orders").unwrap();
    sender.sender(2, "o", "others").unwrap();
    let large = testkit::data(&vec![b'x'; BETWEEN_BYTES]);
    for first in (0..MESSAGES).map(|number| number * (1 + BETWEEN)) {
        sender.script.transfer(0, 1, first, false, &testkit::data(b"small"));
        for id in first + 1..=first + BETWEEN {
            sender.script.transfer(0, 2, id, false, &large);
        }
        let mut answered = first;
        while answered <= first + BETWEEN {
            let disposition = sender.disposed().unwrap();
            assert_eq!(disposition.state, Some(DeliveryState::Accepted));
            answered = disposition.last.unwrap_or(disposition.first) + 1;
        }
    }
}

/// Waits until all messages are on their way to this client, which takes none of them.
fn await_all_handed_out(reader: &mut Wire) {
    while wants(reader, 0) < MESSAGES {}
}

#[test]
fn small_messages_that_wait_for_a_client_keep_none_of_the_bytes_between_them() {
    let mut scene = Scene::with("memory-sparse", "[[queue]]\nname = \"others\"\n");
    fill(&scene);
    scene.measure();
    let mut reader = log_in(scene.address());
    reader.receiver(1, "r", "orders", None).unwrap();
    // They are handed out, and none of them may be sent.
    await_all_handed_out(&mut reader);
    for _ in 0..20 {
        scene.innocent_works();
    }
    wants(&mut reader, u32::MAX >> 1);
    for _ in 0..MESSAGES {
        reader.transferred().unwrap();
    }
    // 80 MiB lie between them.
    scene.bounded_by(4 * MIB);
}

#[test]
fn small_messages_that_wait_while_others_come_keep_nothing_of_those() {
    let mut scene = Scene::with("memory-sparse-live", "[[queue]]\nname = \"others\"\n");
    let mut reader = log_in(scene.address());
    reader.receiver(1, "r", "orders", None).unwrap();
    wants(&mut reader, 0);
    scene.measure();
    // Each is handed out at once, while it is the latest.
    fill(&scene);
    await_all_handed_out(&mut reader);
    wants(&mut reader, u32::MAX >> 1);
    for _ in 0..MESSAGES {
        reader.transferred().unwrap();
    }
    scene.bounded_by(4 * MIB);
}

#[test]
fn the_shortest_messages_that_wait_cost_no_more_than_longer_ones() {
    const TINY: u32 = 100_000;
    const AT_ONCE: u32 = 1_000;
    let mut scene = Scene::with("memory-tiny", "");
    let mut sender = log_in(scene.address());
    sender.sender(1, "s", "orders").unwrap();
    let tiny = testkit::data(b"");
    for first in (0..TINY).step_by(AT_ONCE as usize) {
        for id in first..first + AT_ONCE {
            sender.script.transfer(0, 1, id, false, &tiny);
        }
        let mut answered = first;
        while answered < first + AT_ONCE {
            let disposition = sender.disposed().unwrap();
            answered = disposition.last.unwrap_or(disposition.first) + 1;
        }
    }
    scene.measure();
    let mut reader = log_in(scene.address());
    reader.receiver(1, "r", "orders", None).unwrap();
    wants_so_many(&mut reader, TINY, 0);
    for _ in 0..200 {
        scene.innocent_works();
    }
    // All of them have half a megabyte, but 40 with what is known of each.
    scene.bounded_by(4 * MIB);
}
