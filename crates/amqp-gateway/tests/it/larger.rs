//! Messages larger than a receiver says it takes, and the drains that they must not lose.

use amqp_codec::{
    performative::{Attach, Flow, Performative, Source, Target},
    types::{Role, SenderSettleMode},
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;

use crate::harness::{World, property, text, texts};

/// What the receivers of this page take, in bytes.
const LIMIT: u64 = 1000;

fn large() -> String {
    "large ".repeat(500)
}

/// A world whose connections hold at most that many bytes on their way.
fn world_with_window(bytes: u64) -> World {
    World::with(GatewayConfig { deliver_window_bytes: bytes, ..GatewayConfig::default() }, Anonymous::Deny)
}

/// Attaches a receiver that takes [`LIMIT`] bytes.
fn attach(world: &mut World, client: usize, handle: u32, address: &str) {
    attach_as(world, client, handle, address, SenderSettleMode::Unsettled, None);
}

fn attach_as(
    world: &mut World,
    client: usize,
    handle: u32,
    address: &str,
    mode: SenderSettleMode,
    distribution: Option<&'static str>,
) {
    let mut attach = Attach::new(format!("limited {handle}"), handle, Role::Receiver);
    attach.snd_settle_mode = Some(mode);
    attach.max_message_size = Some(LIMIT);
    let distribution_mode = distribution.map(Into::into);
    attach.source = Some(Source { distribution_mode, ..Source::new(address) });
    attach.target = Some(Target::new("here"));
    world.script(client).attach(0, attach);
    world.run();
    world.received(client);
}

/// A flow of a client that has sent so many transfers; for the receiver on handle 2, its count and its credit.
fn flow(sent: u32, link: Option<(u32, u32)>, drain: bool) -> Flow {
    let (delivery_count, link_credit) = link.unzip();
    let handle = link.map(|_| 2);
    let (incoming_window, outgoing_window) = (u32::MAX >> 1, 65_536);
    Flow {
        incoming_window,
        next_outgoing_id: sent,
        outgoing_window,
        handle,
        delivery_count,
        link_credit,
        drain,
        ..Flow::default()
    }
}

/// What came: the texts of messages, and of each answer to a drain the delivery-count and the credit.
fn came(world: &mut World, client: usize) -> (Vec<String>, Vec<(u32, u32)>) {
    let (mut messages, mut drained) = (Vec::new(), Vec::new());
    for frame in world.frames(client) {
        match frame.performative {
            Performative::Transfer(_) => messages.push(text(&frame.payload)),
            Performative::Flow(flow) if flow.drain => {
                drained.push((flow.delivery_count.unwrap(), flow.link_credit.unwrap()));
            }
            _ => {}
        }
    }
    (messages, drained)
}

fn dead_letters(world: &mut World, client: usize) -> Vec<(String, Option<String>)> {
    let letters = world.receive(client, "q/$DeadLetterQueue", 10);
    letters.iter().map(|(_, payload)| (text(payload), property(payload, "DeadLetterReason"))).collect()
}

#[test]
fn what_is_larger_than_the_receiver_takes_is_dead_lettered_and_costs_no_credit() {
    for window in [1, 1 << 20] {
        let mut world = world_with_window(window);
        let (client, other) = (world.plain(), world.plain());
        world.send(client, "q", &["a", &large(), "b", "c"]);
        attach(&mut world, client, 2, "q");
        world.credit(client, 0, 2, 0, 2, false);
        world.run();
        assert_eq!(came(&mut world, client), (vec!["a".into(), "b".into()], vec![]));
        assert_eq!(dead_letters(&mut world, other), [(large(), Some("MessageSizeExceeded".into()))]);
        world.credit(client, 0, 2, 2, 1, false);
        world.run();
        assert_eq!(came(&mut world, client).0, ["c"]);
    }
}

#[test]
fn a_drain_is_answered_once_whatever_is_dead_lettered_meanwhile() {
    let large = large();
    let cases = [
        // in the queue, credit, what comes
        (vec![large.as_str()], 1, vec![]),
        (vec![&large, "a"], 1, vec!["a"]),
        (vec![&large, "a"], 5, vec!["a"]),
        (vec!["a", &large, &large, "b"], 5, vec!["a", "b"]),
        (vec!["a", &large, "b"], 2, vec!["a", "b"]),
        (vec![&large, &large, &large], 2, vec![]),
    ];
    for (queued, credit, expected) in cases {
        // With the small window the core waits for the gateway after each message; with the large one it has answered
        // the drain before the gateway sees the first.
        for window in [1, 1 << 20] {
            let case = format!("{} messages, credit {credit}, window {window}", queued.len());
            let mut world = world_with_window(window);
            let (client, other) = (world.plain(), world.plain());
            world.send(client, "q", &queued);
            attach(&mut world, client, 2, "q");
            world.credit(client, 0, 2, 0, credit, true);
            world.run();
            let expected: Vec<String> = expected.iter().copied().map(str::to_owned).collect();
            assert_eq!(came(&mut world, client), (expected, vec![(credit, 0)]), "{case}");
            // No credit is left behind: what comes next is anybody's.
            world.send(other, "q", &["next", "last"]);
            assert_eq!(texts(&world.receive(other, "q", 1)), ["next"], "{case}");
            // And none is missing.
            world.credit(client, 0, 2, credit, 1, false);
            world.run();
            assert_eq!(came(&mut world, client), (vec!["last".into()], vec![]), "{case}");
        }
    }
}

#[test]
fn a_drain_that_is_taken_back_is_not_asked_for_again() {
    let mut world = world_with_window(1);
    let (client, other) = (world.plain(), world.plain());
    world.send(client, "q", &[&large()]);
    attach(&mut world, client, 2, "q");
    // Both in one write: the message is found too large when only the second counts.
    let asked = flow(1, Some((0, 5)), true);
    world.script(client).flow(0, asked).flow(0, flow(1, Some((0, 5)), false));
    world.run();
    assert_eq!(came(&mut world, client), (vec![], vec![]));
    world.send(other, "q", &["a"]);
    world.run();
    assert_eq!(came(&mut world, client), (vec!["a".into()], vec![]));
}

#[test]
fn a_drain_that_takes_back_what_waits_for_the_session_window_is_answered() {
    let mut world = World::new();
    let (client, other) = (world.plain(), world.plain());
    world.send(client, "q", &["a", "b", "c"]);
    attach(&mut world, client, 2, "q");
    let windowed = |window, link, drain| Flow { incoming_window: window, ..flow(3, link, drain) };
    world.script(client).flow(0, windowed(1, Some((0, 3)), false));
    world.run();
    assert_eq!(came(&mut world, client), (vec!["a".into()], vec![]));
    world.script(client).flow(0, windowed(1, Some((1, 1)), true));
    world.run();
    assert_eq!(came(&mut world, client), (vec![], vec![]), "b waits for the window");
    assert_eq!(texts(&world.receive(other, "q", 1)), ["c"], "given back");
    world.script(client).flow(0, windowed(10, None, false));
    world.run();
    assert_eq!(came(&mut world, client), (vec!["b".into()], vec![(2, 0)]));
}

#[test]
fn a_dead_letter_larger_than_the_receiver_takes_is_sent_all_the_same() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &[&large()]);
    attach(&mut world, client, 2, "q");
    world.credit(client, 0, 2, 0, 1, true);
    world.run();
    assert_eq!(came(&mut world, client), (vec![], vec![(1, 0)]));
    attach(&mut world, client, 3, "q/$DeadLetterQueue");
    world.credit(client, 0, 3, 0, 5, true);
    world.run();
    assert_eq!(came(&mut world, client), (vec![large()], vec![(5, 0)]));
}

#[test]
fn copies_and_what_is_deleted_as_it_is_sent_come_at_any_size() {
    for distribution in [Some("copy"), None] {
        let mut world = World::new();
        let client = world.plain();
        world.send(client, "q", &[&large()]);
        attach_as(&mut world, client, 2, "q", SenderSettleMode::Settled, distribution);
        world.credit(client, 0, 2, 0, 5, true);
        world.run();
        assert_eq!(came(&mut world, client), (vec![large()], vec![(5, 0)]), "{distribution:?}");
    }
}
