//! Limits of a dialect: a Service Bus client has those of its tier, a plain client those of the broker.

use amqp_codec::{message::MessageBuilder, performative::DeliveryState};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::EntitySettings;
use bytes::Bytes;

use crate::{
    harness::World,
    management::{binary, map, nested},
    transactions::{SENDER, accepted_within, done, within_world},
};
use amqp_codec::value::Value;

const TIER: u64 = 10_000;
const MOST: u64 = 50_000;

fn world() -> World {
    let config =
        GatewayConfig { max_message_bytes: MOST, tier_message_bytes: TIER, ..GatewayConfig::default() };
    World::with(config, Anonymous::Deny)
}

/// A message of exactly this size.
fn sized(bytes: u64) -> Bytes {
    let builder = || MessageBuilder::new().message_id("m").to("q");
    let bytes = usize::try_from(bytes).unwrap();
    let overhead = builder().data(&[0; 9_000]).build().len() - 9_000;
    let message = builder().data(&vec![0; bytes - overhead]).build();
    assert_eq!(message.len(), bytes);
    message
}

/// The largest message that a sender to `target` is told.
fn announced(world: &mut World, client: usize, target: Option<&str>) -> u64 {
    world.script(client).attach_sender(0, 1, "s", target);
    world.run();
    let (attaches, _) = world.link_frames(client);
    attaches[0].max_message_size.unwrap()
}

fn send(world: &mut World, client: usize, message: &Bytes) -> Option<String> {
    world.transfer(client, 1, false, message);
    world.run();
    match world.dispositions(client).remove(0).state.unwrap() {
        DeliveryState::Accepted => None,
        DeliveryState::Rejected(Some(error)) => Some(error.condition.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_dialect_is_told_its_own_largest_message_and_held_to_it() {
    for own in [None, Some(30_000)] {
        for target in [Some("own"), None] {
            for (is_service_bus, limit) in [(true, TIER), (false, MOST)] {
                let mut world = world();
                let settings = EntitySettings { max_message_bytes: own, ..EntitySettings::default() };
                world.create("own", settings);
                let client = if is_service_bus { world.service_bus() } else { world.plain() };
                // The limit of a queue counts for both; the anonymous terminus has none.
                let limit = own.filter(|_| target.is_some()).unwrap_or(limit);
                let case = format!("{own:?} {target:?} {is_service_bus}");
                assert_eq!(announced(&mut world, client, target), limit, "{case}");
                assert_eq!(send(&mut world, client, &sized(limit)), None, "{case}");
                let refused = send(&mut world, client, &sized(limit + 1));
                assert_eq!(refused.as_deref(), Some("amqp:link:message-size-exceeded"), "{case}");
            }
        }
    }
}

#[test]
fn a_message_that_comes_before_the_answer_to_its_attach_has_the_same_limit() {
    for (is_service_bus, limit) in [(true, TIER), (false, MOST)] {
        let mut world = world();
        let client = if is_service_bus { world.service_bus() } else { world.plain() };
        for (size, accepted) in [(limit, true), (limit + 1, false)] {
            world.script(client).attach_sender(0, 1, "s", Some("q"));
            world.transfer(client, 1, false, &sized(size));
            world.run();
            let state = world.dispositions(client).remove(0).state.unwrap();
            assert_eq!(state == DeliveryState::Accepted, accepted, "{is_service_bus} {size}: {state:?}");
            world.script(client).detach(0, 1, true);
            world.run();
        }
    }
}

#[test]
fn a_message_beyond_the_tier_reaches_a_receiver_of_service_bus() {
    let mut world = world();
    let (plain, client) = (world.plain(), world.service_bus());
    assert_eq!(announced(&mut world, plain, Some("q")), MOST);
    let message = sized(MOST);
    assert_eq!(send(&mut world, plain, &message), None);
    let got = world.receive(client, "q", 1);
    let bytes: usize = got.iter().map(|(_, payload)| payload.len()).sum();
    assert!(bytes as u64 >= MOST, "{bytes}");
    world.management(client, "q");
    let body = map(&[("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(9))]);
    let reply = world.request(client, "com.microsoft:peek-message", &body);
    assert!(reply.len() as u64 >= MOST);
}

#[test]
fn a_schedule_has_the_size_of_the_tier() {
    let mut world = world();
    let client = world.service_bus();
    world.management(client, "q");
    for (size, status) in [(TIER, 200), (TIER + 1, 400)] {
        let message = nested(&[("message", binary(&sized(size)))]);
        let body = map(&[("messages", Value::List(vec![message]))]);
        let reply = world.request(client, "com.microsoft:schedule-message", &body);
        assert_eq!(crate::harness::status(&reply, "statusCode"), status, "{size}");
    }
}

#[test]
fn a_plain_client_sends_a_thousand_messages_in_one_transaction_and_an_sdk_a_hundred() {
    for (is_service_bus, most) in [(false, 1_000), (true, 100)] {
        let (mut world, mut peer) = within_world(World::new(), is_service_bus, &[]);
        let txn = peer.declare(&mut world);
        for _ in 0..most {
            assert_eq!(peer.send(&mut world, SENDER, &txn, "m"), accepted_within(&txn));
        }
        if is_service_bus {
            let refused = peer.send(&mut world, SENDER, &txn, "one more");
            assert_eq!(refused.condition(), "amqp:not-allowed");
            assert_eq!(peer.discharge(&mut world, &txn, false).condition(), "amqp:transaction:rollback");
        } else {
            assert_eq!(peer.discharge(&mut world, &txn, false), done());
        }
        assert_eq!(world.active("q"), if is_service_bus { 0 } else { most });
    }
}

#[test]
fn a_request_to_a_management_node_may_have_twice_the_largest_message_of_its_dialect() {
    const BESIDE: u64 = 64 << 10;
    for (is_service_bus, own, largest) in [
        (true, None, TIER),
        // The limit of the queue is known where the client has a sender to it.
        (true, Some(30_000), 30_000),
        (true, Some(5_000), TIER),
        (false, None, MOST),
    ] {
        let mut world = world();
        world.create("own", EntitySettings { max_message_bytes: own, ..EntitySettings::default() });
        let client = if is_service_bus { world.service_bus() } else { world.plain() };
        if own.is_some() {
            announced(&mut world, client, Some("own"));
        }
        world.script(client).attach_sender(0, 2, "requests", Some("own/$management"));
        world.run();
        let (attaches, _) = world.link_frames(client);
        assert_eq!(attaches[0].max_message_size, Some(largest * 2 + BESIDE), "{is_service_bus} {own:?}");
    }
}
