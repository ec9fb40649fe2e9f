//! Addresses that are any text, as clients of other brokers write them (decision 56).

use std::sync::Arc;

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Source},
};
use amqp_gateway::{AddressPrefix, AddressPrefixes, GatewayConfig};
use broker_auth::{Access, Anonymous, Authority, Credentials, Right, Rights, Scope, Secret, User};
use broker_core::{EntityKind, EntitySettings, NodeKind};

use crate::{
    harness::{World, texts},
    node_kinds::attach_sender,
    subscribers::{attach, take},
};

const TEXTS: [&str; 10] = [
    "with spaces",
    "a, b",
    "a#b",
    "orders::new",
    "größe/Ärger",
    "注文",
    "a//b",
    "app://orders/new",
    "what?x=1&y",
    "50%20off\\",
];

fn world(auto_create: bool) -> World {
    World::with(GatewayConfig { auto_create, ..GatewayConfig::default() }, Anonymous::Deny)
}

/// Attaches a sender and takes the link away again.
fn sender(world: &mut World, client: usize, address: &str) -> Result<(), String> {
    let attached = attach_sender(world, client, Some(address), &[]);
    if attached.is_ok() {
        world.script(client).detach(0, 1, true);
        world.run();
        world.received(client);
    }
    attached
}

fn receiver(world: &mut World, client: usize, address: &str) -> Result<(), String> {
    let attached = attach(world, client, 5, "r", Some(Source::new(address))).map(drop);
    world.script(client).detach(0, 5, true);
    world.run();
    world.received(client);
    attached
}

#[test]
fn each_text_is_sent_to_and_received_from() {
    for auto_create in [true, false] {
        let mut world = world(auto_create);
        let client = world.plain();
        for (number, text) in TEXTS.into_iter().enumerate() {
            if !auto_create {
                assert_eq!(sender(&mut world, client, text), Err("amqp:not-found".to_owned()), "{text}");
                world.create(text, EntitySettings::default());
            }
            world.send(client, text, &[text]);
            assert_eq!(world.active(text), 1, "{text}");
            attach_sender(&mut world, client, None, &[]).unwrap();
            let message = MessageBuilder::new().to(text).message_id("m").data(b"by to").build();
            world.transfer(client, 1, false, &message);
            world.run();
            assert_eq!(world.dispositions(client).remove(0).state, Some(DeliveryState::Accepted), "{text}");
            world.script(client).detach(0, 1, true);
            let received = texts(&world.receive(client, text, 10));
            assert_eq!(received, [text, "by to"], "{text}");
            world.script(client).detach(0, 2, true);
            world.run();
            assert_eq!(world.entities(), number + 2, "no two texts are one queue");
        }
    }
}

#[test]
fn a_topic_of_any_text_has_subscribers() {
    let mut world = world(true);
    let client = world.plain();
    for text in TEXTS {
        let address = format!("topic://{text}");
        for handle in [5, 6] {
            attach(&mut world, client, handle, &format!("r{handle}"), Some(Source::new(address.as_str())))
                .unwrap();
        }
        world.send(client, text, &["m"]);
        for handle in [5, 6] {
            assert_eq!(take(&mut world, client, handle), ["m"], "{text}");
            world.script(client).detach(0, handle, true);
        }
        world.run();
        world.received(client);
    }
}

#[test]
fn a_text_that_is_no_name_is_refused_with_its_reason() {
    for auto_create in [true, false] {
        let mut world = world(auto_create);
        let client = world.plain();
        let reserved = if auto_create { "amqp:invalid-field" } else { "amqp:not-found" };
        let long = "x".repeat(1_025);
        for (address, condition) in [
            ("a\nb", "amqp:invalid-field"),
            ("a\0", "amqp:invalid-field"),
            ("a\u{202e}b", "amqp:invalid-field"),
            (&*long, "amqp:invalid-field"),
            ("/queues/%ff", "amqp:invalid-field"),
            ("//", "amqp:invalid-field"),
            ("$orders", reserved),
            ("orders/$new", reserved),
        ] {
            let refused = Err(condition.to_owned());
            assert_eq!(sender(&mut world, client, address), refused, "{address:?}");
            assert_eq!(receiver(&mut world, client, address), refused, "{address:?}");
            attach_sender(&mut world, client, None, &[]).unwrap();
            world.transfer(
                client,
                1,
                false,
                &MessageBuilder::new().to(address).message_id("m").data(b"m").build(),
            );
            world.run();
            let state = world.dispositions(client).remove(0).state;
            assert!(matches!(state, Some(DeliveryState::Rejected(Some(_)))), "{address:?}: {state:?}");
            world.script(client).detach(0, 1, true);
            world.run();
            world.received(client);
        }
        assert_eq!(world.entities(), 1);
    }
}

#[test]
fn a_client_of_service_bus_finds_none_that_the_cloud_cannot_spell() {
    for (auto_create, refused) in [(false, "amqp:not-found"), (true, "amqp:invalid-field")] {
        let mut world = world(auto_create);
        world.create_kind("a topic", EntityKind::Topic, EntitySettings::default());
        world.create_kind("a topic/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
        for text in TEXTS {
            world.create(text, EntitySettings::default());
        }
        let client = world.service_bus();
        let entities = world.entities();
        // Those of these texts that are a URI to it, or have an escape, name something else.
        for text in TEXTS.into_iter().filter(|text| !text.contains("://") && !text.contains('%')) {
            assert_eq!(sender(&mut world, client, text), Err(refused.to_owned()), "{text}");
            assert_eq!(receiver(&mut world, client, text), Err(refused.to_owned()), "{text}");
            assert_eq!(receiver(&mut world, client, &format!("{text}/$management")), Err(refused.to_owned()));
            attach_sender(&mut world, client, None, &[]).unwrap();
            world.transfer(
                client,
                1,
                false,
                &MessageBuilder::new().to(text).message_id("m").data(b"m").build(),
            );
            world.run();
            let state = world.dispositions(client).remove(0).state;
            let Some(DeliveryState::Rejected(Some(error))) = state else { panic!("{text}: {state:?}") };
            assert_eq!(error.condition, "amqp:not-found", "{text}");
            world.script(client).detach(0, 1, true);
            world.run();
            world.received(client);
            assert_eq!(world.active(text), 0);
        }
        let missing = Err("amqp:not-found".to_owned());
        assert_eq!(receiver(&mut world, client, "a topic/Subscriptions/s"), missing);
        assert_eq!(world.entities(), entities, "nothing was created");
        // The form of RabbitMQ names any, as the command line does.
        assert_eq!(sender(&mut world, client, "/queues/with%20spaces"), Ok(()));
    }
}

#[test]
fn a_right_at_one_name_is_none_at_a_name_that_has_it_as_a_part() {
    let mut world = world(true);
    let mut credentials = Credentials::development(Anonymous::Deny);
    credentials.users.push(User {
        name: "limited".into(),
        password: Secret::new("secret"),
        access: Access {
            rights: Rights::NONE.with(Right::Send),
            scopes: ["what", "new", "a b", "what?y"].map(Scope::of_configured).to_vec(),
        },
    });
    world.authority = Arc::new(Authority::new(credentials));
    let client = world.accept();
    world.script(client).sasl_plain("limited", "secret").open("test").begin(0);
    world.run();
    world.received(client);
    let refused = || Err("amqp:unauthorized-access".to_owned());
    for (address, expected) in [
        ("what", Ok(())),
        ("what?x", refused()),
        ("what?y", Ok(())),
        ("what#x", refused()),
        ("app://new", refused()),
        ("app://orders/new", refused()),
        ("amqp://orders/new", Ok(())),
        ("a b", Ok(())),
        ("a%20b", refused()),
        ("/queues/a%20b", Ok(())),
        ("new//x", Ok(())),
    ] {
        assert_eq!(sender(&mut world, client, address), expected, "{address}");
    }
}

#[test]
fn a_prefix_of_the_configuration_names_the_kind_and_is_cut_off() {
    let prefix =
        |text: &str, kind| AddressPrefix { text: text.into(), kind: Some(kind), is_part_of_name: false };
    let given = vec![prefix("jms.queue.", NodeKind::Queue), prefix("/topic/", NodeKind::Topic)];
    let address_prefixes = AddressPrefixes::with(&given).unwrap();
    let config = GatewayConfig { auto_create: true, address_prefixes, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.plain();
    world.send(client, "jms.queue.großer Auftrag", &["m"]);
    assert_eq!(world.active("großer Auftrag"), 1);
    let refused = sender(&mut world, client, "/topic/q");
    assert_eq!(refused, Err("amqp:not-allowed".to_owned()), "a queue, and it asks for a topic");
    attach(&mut world, client, 5, "r", Some(Source::new("/topic/news"))).unwrap();
    world.send(client, "news", &["n"]);
    assert_eq!(take(&mut world, client, 5), ["n"]);
    let service_bus = world.service_bus();
    world.send(service_bus, "jms.queue.orders", &["m"]);
    assert_eq!(world.active("jms.queue.orders"), 1);
}
