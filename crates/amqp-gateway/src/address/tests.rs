use broker_core::check_name;
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

fn plain() -> AddressSyntax<'static> {
    AddressSyntax::of(Dialect::Plain, AddressPrefixes::built_in())
}

#[test]
fn every_spelling_of_an_address_by_a_client_of_service_bus_is_understood() {
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
        assert_eq!(AddressSyntax::SERVICE_BUS.parse(address), expected, "{address}");
    }
}

#[test]
fn an_address_of_a_plain_client_is_text_but_for_the_forms_that_say_more() {
    let name = |name: &str| Ok(Node::Entity(main(name)));
    let control = |letter| Err(AddressError::Name(NameError::Character(letter)));
    let long = "ö".repeat(512);
    let too_long = format!("{long}x");
    let cases = [
        ("orders", name("orders")),
        ("/orders/", name("orders")),
        ("with spaces, and commas", name("with spaces, and commas")),
        (" a ", name(" a ")),
        ("a#b", name("a#b")),
        ("a::b", name("a::b")),
        ("größe/Ärger", name("größe/Ärger")),
        ("注文", name("注文")),
        ("a//b", name("a//b")),
        ("a?b=c", name("a?b=c")),
        ("a\\b", name("a\\b")),
        ("a%20b", name("a%20b")),
        ("100%", name("100%")),
        ("%ff", name("%ff")),
        ("a+b", name("a+b")),
        (&long, name(&long)),
        // Other schemes are text, since two hosts would be one address.
        ("app://orders/new", name("app://orders/new")),
        ("http://host/orders", name("http://host/orders")),
        ("amqp://host:5672/orders", name("orders")),
        ("AMQPS://[::1]/a%20b", name("a b")),
        ("sb://host/100%", name("100%")),
        ("amqp://host/queue://x", name("queue://x")),
        ("/queues/a%20b%2Fc", name("a b/c")),
        ("/queues/queue:%2F%2Fx", name("queue://x")),
        ("queue://a b", name("a b")),
        ("topic://a%20b", name("a%20b")),
        ("temp-queue:///x/", name("x")),
        ("queue://queue://x", name("queue://x")),
        ("jms.queue.größe x", name("jms.queue.größe x")),
        ("a b/$DeadLetterQueue", Ok(Node::Entity(dead("a b")))),
        ("a b/$Transfer/$deadletterqueue", Ok(Node::Entity(transfer("a b")))),
        ("größe/$management", Ok(Node::Management(main("größe")))),
        ("größe/subscriptions/s", name("größe/Subscriptions/s")),
        ("a/%24DeadLetterQueue", name("a/%24DeadLetterQueue")),
        ("$cbs", Ok(Node::Cbs)),
        ("", Err(AddressError::Empty)),
        ("//", Err(AddressError::Empty)),
        ("queue://", Err(AddressError::Empty)),
        ("amqp://host", Err(AddressError::Empty)),
        ("/queues/%ff", Err(AddressError::NotUtf8)),
        ("/queues/a%", Err(AddressError::BadEscape)),
        ("/exchanges/x", Err(AddressError::Exchange)),
        ("a\nb", control('\n')),
        ("a\0b/$DeadLetterQueue", control('\0')),
        ("/queues/a%00b", control('\0')),
        ("a\u{202e}b", control('\u{202e}')),
        ("a\u{2028}b", control('\u{2028}')),
        (&too_long, Err(AddressError::Name(NameError::TooLong(1_025)))),
    ];
    for (address, expected) in cases {
        assert_eq!(plain().parse(address), expected, "{address:?}");
    }
}

#[test]
fn a_prefix_of_the_configuration_is_read_for_plain_clients_alone() {
    let prefix =
        |text: &str, kind| prefixes::AddressPrefix { text: text.into(), kind, is_part_of_name: false };
    let given = vec![
        prefix("jms.queue.", Some(NodeKind::Queue)),
        prefix("/topic/", Some(NodeKind::Topic)),
        prefix("app:", None),
    ];
    let prefixes = AddressPrefixes::with(&given).unwrap();
    let plain = AddressSyntax::of(Dialect::Plain, &prefixes);
    for (address, kind, name) in [
        ("jms.queue.orders", Some(NodeKind::Queue), "orders"),
        ("/topic/a b", Some(NodeKind::Topic), "a b"),
        ("app:orders", None, "orders"),
        ("topic/a", None, "topic/a"),
        ("topic://a", Some(NodeKind::Topic), "a"),
        ("/queues/jms.queue.orders", None, "jms.queue.orders"),
        ("amqp://host/jms.queue.orders", None, "jms.queue.orders"),
    ] {
        assert_eq!(
            (plain.kind(address), plain.parse(address)),
            (kind, Ok(Node::Entity(main(name)))),
            "{address}"
        );
    }
    assert_eq!(plain.parse("jms.queue."), Err(AddressError::Empty));
    let service_bus = AddressSyntax::of(Dialect::ServiceBus, &prefixes);
    assert_eq!(service_bus.parse("jms.queue.orders"), Ok(Node::Entity(main("jms.queue.orders"))));
    assert_eq!(service_bus.kind("/topic/a"), None);
}

#[test]
fn a_client_of_service_bus_names_what_the_cloud_can_spell() {
    for (address, entity, may) in [
        ("orders", "orders", true),
        ("t/Subscriptions/s", "t/Subscriptions/s", true),
        ("a b", "a b", false),
        ("größe/Subscriptions/s", "größe/Subscriptions/s", false),
        ("/queues/a%20b", "a b", true),
        ("$dynamic/01", "$dynamic/01", true),
    ] {
        assert_eq!(AddressSyntax::SERVICE_BUS.may_name(address, entity), may, "{address}");
        assert!(plain().may_name(address, entity));
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
        for syntax in [AddressSyntax::SERVICE_BUS, plain()] {
            let (_node, _kind) = (syntax.parse(&address), syntax.kind(&address));
        }
    }

    #[test]
    fn uri_slash_and_bare_form_agree(name in "[a-z0-9][a-z0-9._/-]{0,20}[a-z0-9]") {
        prop_assume!(!name.starts_with("queues/") && !name.starts_with("exchanges/"));
        for syntax in [AddressSyntax::SERVICE_BUS, plain()] {
            let bare = syntax.parse(&name);
            prop_assert_eq!(&syntax.parse(&format!("/{name}")), &bare);
            prop_assert_eq!(&syntax.parse(&format!("amqps://host:1/{name}")), &bare);
            let escaped = format!("/queues/{}", name.replace('/', "%2F"));
            prop_assert_eq!(&syntax.parse(&escaped), &bare);
        }
    }

    #[test]
    fn any_name_is_found_by_its_text_and_by_the_forms_that_escape_it(name in "\\PC{1,30}") {
        prop_assume!(check_name(&name).is_ok() && AddressPrefixes::built_in().split(&name).is_none());
        prop_assume!(uri_path(&name).is_none() && !name.eq_ignore_ascii_case("$cbs"));
        let expected = Ok(Node::Entity(main(&name)));
        prop_assert_eq!(&plain().parse(&name), &expected);
        prop_assert_eq!(&plain().parse(&format!("/{name}")), &expected);
        prop_assert_eq!(&plain().parse(&format!("queue://{name}")), &expected);
        let escaped: Vec<String> = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let escaped = escaped.concat();
        prop_assert_eq!(&plain().parse(&format!("/queues/{escaped}")), &expected);
        prop_assert_eq!(&plain().parse(&format!("amqp://host/{escaped}")), &expected);
    }
}
