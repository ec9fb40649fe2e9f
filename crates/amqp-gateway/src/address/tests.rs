use proptest::prelude::*;

use super::*;

fn main(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::Main }
}

fn transfer(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::TransferDeadLetter }
}

fn dead(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::DeadLetter }
}

#[test]
fn every_spelling_of_an_address_is_understood() {
    let cases = [
        ("orders", Ok(Node::Entity(main("orders")))),
        ("/orders", Ok(Node::Entity(main("orders")))),
        ("orders/", Ok(Node::Entity(main("orders")))),
        ("amqps://localhost:5671/orders", Ok(Node::Entity(main("orders")))),
        ("amqp://[::1]:5672/orders/", Ok(Node::Entity(main("orders")))),
        ("sb://ns.example.net/a/b", Ok(Node::Entity(main("a/b")))),
        ("Orders", Ok(Node::Entity(main("Orders")))),
        ("/queues/orders", Ok(Node::Entity(main("orders")))),
        ("/queues/a%2Fb", Ok(Node::Entity(main("a/b")))),
        ("/queues/a+b", Ok(Node::Entity(main("a+b")))),
        ("/queues/caf%C3%A9", Ok(Node::Entity(main("café")))),
        ("/queues/café", Ok(Node::Entity(main("café")))),
        ("queues/orders", Ok(Node::Entity(main("queues/orders")))),
        ("amqp://host/queues/orders", Ok(Node::Entity(main("queues/orders")))),
        ("with spaces, and commas", Ok(Node::Entity(main("with spaces, and commas")))),
        ("100%", Ok(Node::Entity(main("100%")))),
        ("a%20b", Ok(Node::Entity(main("a b")))),
        ("not a scheme://x/y", Ok(Node::Entity(main("not a scheme://x/y")))),
        ("orders/$DeadLetterQueue", Ok(Node::Entity(dead("orders")))),
        ("orders/$deadletterqueue", Ok(Node::Entity(dead("orders")))),
        ("amqp://h/orders/%24DeadLetterQueue", Ok(Node::Entity(dead("orders")))),
        ("/queues/orders%2F$DeadLetterQueue", Ok(Node::Entity(dead("orders")))),
        ("orders/$management", Ok(Node::Management(main("orders")))),
        ("/orders/$DeadLetterQueue/$Management", Ok(Node::Management(dead("orders")))),
        ("t/Subscriptions/s", Ok(Node::Entity(main("t/Subscriptions/s")))),
        ("t/subscriptions/s", Ok(Node::Entity(main("t/Subscriptions/s")))),
        ("amqps://h:1/a/b/SUBSCRIPTIONS/S", Ok(Node::Entity(main("a/b/Subscriptions/S")))),
        ("/t/subscriptions/s/$DeadLetterQueue", Ok(Node::Entity(dead("t/Subscriptions/s")))),
        ("t/subscriptions/s/$management", Ok(Node::Management(main("t/Subscriptions/s")))),
        ("t/subscriptions/s/$deadletterqueue/$management", Ok(Node::Management(dead("t/Subscriptions/s")))),
        ("/queues/t%2Fsubscriptions%2Fs", Ok(Node::Entity(main("t/Subscriptions/s")))),
        ("subscriptions/s", Ok(Node::Entity(main("subscriptions/s")))),
        ("t/subscriptions", Ok(Node::Entity(main("t/subscriptions")))),
        ("t/subscriptions/s/x", Ok(Node::Entity(main("t/subscriptions/s/x")))),
        ("queue://orders", Ok(Node::Entity(main("orders")))),
        ("topic://a/b", Ok(Node::Entity(main("a/b")))),
        ("topic:///news/", Ok(Node::Entity(main("news")))),
        ("temp-queue://q", Ok(Node::Entity(main("q")))),
        ("temp-topic://t", Ok(Node::Entity(main("t")))),
        ("anycast://orders", Ok(Node::Entity(main("orders")))),
        ("multicast://a%20b", Ok(Node::Entity(main("a b")))),
        ("multicast://100%", Ok(Node::Entity(main("100%")))),
        ("queue://orders/$DeadLetterQueue", Ok(Node::Entity(dead("orders")))),
        ("topic://t/$management", Ok(Node::Management(main("t")))),
        ("queues://host/orders", Ok(Node::Entity(main("orders")))),
        ("jms.topic.news", Ok(Node::Entity(main("jms.topic.news")))),
        ("queue://", Err(AddressError::Empty)),
        ("$cbs", Ok(Node::Cbs)),
        ("amqps://host/$CBS", Ok(Node::Cbs)),
        ("", Err(AddressError::Empty)),
        ("/", Err(AddressError::Empty)),
        ("amqp://host", Err(AddressError::Empty)),
        ("/queues/", Err(AddressError::Empty)),
        ("$management", Err(AddressError::Empty)),
        ("$DeadLetterQueue", Err(AddressError::Empty)),
        ("/queues/q%zz", Err(AddressError::BadEscape)),
        ("/queues/q%2", Err(AddressError::BadEscape)),
        ("/queues/q%ff", Err(AddressError::NotUtf8)),
        ("/exchanges/x/k", Err(AddressError::Exchange)),
        ("orders/$transfer/$DeadLetterQueue", Ok(Node::Entity(transfer("orders")))),
        ("topic/Subscriptions/s/$management", Ok(Node::Management(main("topic/Subscriptions/s")))),
    ];
    for (address, expected) in cases {
        assert_eq!(parse(address), expected, "{address}");
    }
}

#[test]
fn the_resource_of_a_path_names_sub_queue_and_management_node() {
    assert_eq!(resource(&dead("orders"), false), "orders/$DeadLetterQueue");
    assert_eq!(resource(&transfer("orders"), false), "orders/$Transfer/$DeadLetterQueue");
    assert_eq!(resource(&dead("orders"), true), "orders/$DeadLetterQueue/$management");
}

proptest! {
    #[test]
    fn no_address_panics(address in ".{0,60}") {
        let _node = parse(&address);
    }

    #[test]
    fn uri_slash_and_bare_form_agree(name in "[a-z0-9][a-z0-9._/-]{0,20}[a-z0-9]") {
        prop_assume!(!name.starts_with("queues/") && !name.starts_with("exchanges/"));
        let bare = parse(&name);
        prop_assert_eq!(&parse(&format!("/{name}")), &bare);
        prop_assert_eq!(&parse(&format!("amqps://host:1/{name}")), &bare);
        let escaped = format!("/queues/{}", name.replace('/', "%2F"));
        prop_assert_eq!(&parse(&escaped), &bare);
    }
}
