//! Topics, their subscriptions and rules, through the real server, in the dialect of each SDK.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{Descriptor, Role, TypeKind},
    value::Value,
};
use broker_core::{EntityKind, EntitySettings};
use broker_server::EntityPlan;
use bytes::Bytes;

use crate::{
    broker::Broker,
    dialect::{Dialect, RECEIVER, Sdk},
    message::{Delivery, message, peek},
    numbers::{map, outcome},
};

const TOPIC: &str = "events";
const TRUE_FILTER: u64 = 0x0000_0013_7000_0007;
const SQL_FILTER: u64 = 0x0000_0013_7000_0006;
const CORRELATION_FILTER: u64 = 0x0000_0013_7000_0009;
const RULE: u64 = 0x0000_0137_0000_0004;
const NO_ACTION: u64 = 0x0000_0137_0000_0005;
const SQL_ACTION: u64 = 0x0000_0137_0000_0006;

fn subscription(name: &str) -> String {
    format!("{TOPIC}/Subscriptions/{name}")
}

/// A topic with subscriptions that let everything in.
fn broker(subscriptions: &[&str]) -> Broker {
    let plan = |name: String, kind| EntityPlan { kind, ..EntityPlan::queue(name, EntitySettings::default()) };
    let mut entities = vec![plan(TOPIC.into(), EntityKind::Topic)];
    entities.extend(subscriptions.iter().map(|name| plan(subscription(name), EntityKind::Subscription)));
    Broker::with(|config| config.entities = entities)
}

/// Sends messages to the topic.
fn publish(sdk: &mut Sdk<'_>, messages: &[Bytes]) {
    let channel = sdk.sender(TOPIC);
    for message in messages {
        sdk.send(channel, 0, message);
    }
}

/// Receives what a subscription has, and completes it.
fn take(sdk: &mut Sdk<'_>, entity: &str, handle: u32, count: u32) -> Vec<Delivery> {
    let channel = sdk.receiver(entity, handle, sdk.dialect.locking);
    let taken = sdk.receive(channel, handle, count);
    for delivery in &taken {
        sdk.settle(channel, delivery, DeliveryState::Accepted);
    }
    assert!(sdk.client.drain(channel, handle, 1).is_empty(), "{entity} has more than {count}");
    taken
}

/// Each subscription has its own copy, with its own number, settlement and dead letters.
pub(crate) fn settles_copies_apart(dialect: &Dialect) {
    let broker = broker(&["complete", "abandon", "dead-letter"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    publish(&mut sdk, &[message("m")]);
    for (handle, name) in [(10, "complete"), (11, "abandon"), (12, "dead-letter")] {
        let entity = subscription(name);
        let channel = sdk.receiver(&entity, handle, dialect.locking);
        let delivery = sdk.receive(channel, handle, 1).remove(0);
        delivery.is_locked_for_service_bus(0);
        assert_eq!((delivery.text().as_str(), delivery.sequence_number()), ("m", 1), "{name}");
        let state = match name {
            "complete" => DeliveryState::Accepted,
            "abandon" => (dialect.abandon)(),
            _ => (dialect.dead_letter)(),
        };
        sdk.settle(channel, &delivery, state);
        sdk.client.wire.script.detach(channel, handle, true);
        sdk.client.wire.detached().unwrap();
    }
    take(&mut sdk, &subscription("complete"), 20, 0);
    let again = take(&mut sdk, &subscription("abandon"), 21, 1).remove(0);
    assert_eq!(again.header().delivery_count, 1);
    take(&mut sdk, &subscription("dead-letter"), 22, 0);
    let letter =
        take(&mut sdk, &format!("{}/$deadletterqueue", subscription("dead-letter")), 23, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    assert_eq!(letter.property("DeadLetterErrorDescription").as_deref(), Some("cannot be read"));

    for (role, entity) in [(Role::Receiver, TOPIC.to_owned()), (Role::Sender, subscription("complete"))] {
        let channel = sdk.session();
        let mut attach = Attach::new("wrong", RECEIVER, role);
        let address = (dialect.address)(&entity);
        (attach.source, attach.target) = (Some(Source::new(address.as_str())), Some(Target::new(address)));
        attach.initial_delivery_count = Some(0);
        assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:not-allowed", "{entity}");
    }
    sdk.client.close();
}

/// The body of `add-rule`, with a name in both places and null where nothing is meant, as .NET writes it.
fn rule(name: &str, filter: (&str, Value), action: Option<&str>) -> RawMap {
    let action = action.map_or(Value::Null, |expression| {
        map(&[("expression", Value::String(expression.to_owned()))]).to_value()
    });
    let name = Value::String(name.to_owned());
    let description = [filter, ("sql-rule-action", action), ("rule-name", name.clone())];
    map(&[("rule-name", name), ("rule-description", map(&description).to_value())])
}

fn sql(expression: &str) -> (&'static str, Value) {
    ("sql-filter", map(&[("expression", Value::String(expression.to_owned()))]).to_value())
}

fn correlation(colour: &str) -> (&'static str, Value) {
    let properties = map(&[("colour", Value::String(colour.to_owned()))]).to_value();
    let fields = [("correlation-id", Value::Null), ("label", Value::Null), ("properties", properties)];
    ("correlation-filter", map(&fields).to_value())
}

fn code(descriptor: Descriptor<'_>) -> u64 {
    let Descriptor::Code(code) = descriptor else { panic!("{descriptor:?}") };
    code
}

/// Name, filter and action of a rule: the latter by their descriptors, with the first field of each.
type Listed = (String, u64, Option<String>, u64, Option<String>);

/// The rules of an answer.
fn rules(answer: &Delivery) -> Vec<Listed> {
    let body = answer.body();
    let rules = body.get("rules").unwrap().as_list().expect("a list, never an array");
    let rule = |entry: RawValue<'_>| {
        let (descriptor, fields) =
            entry.as_map().unwrap().get("rule-description").unwrap().described().unwrap();
        assert_eq!(descriptor, Descriptor::Code(RULE));
        let fields: Vec<_> = fields.as_list().unwrap().collect();
        let part = |index: usize| {
            let (descriptor, inner) = fields[index].described().unwrap();
            let first = inner.as_list().unwrap().next();
            (code(descriptor), first.and_then(RawValue::as_string).map(str::to_owned))
        };
        let ((filter, expression), (action, change)) = (part(0), part(1));
        assert_eq!(fields[3].kind(), Some(TypeKind::Timestamp), "created at");
        (fields[2].as_string().unwrap().to_owned(), filter, expression, action, change)
    };
    rules.map(rule).collect()
}

fn order(text: &str, amount: i32, colour: &str) -> Bytes {
    MessageBuilder::new()
        .message_id(text)
        .application_property("amount", AnnotationValue::Int(amount))
        .application_property("colour", AnnotationValue::Str(colour))
        .data(text.as_bytes())
        .build()
}

/// Rules are added, listed and removed on a subscription's management node, and hold for later messages.
pub(crate) fn manages_rules(dialect: &Dialect) {
    let broker = broker(&["all", "chosen"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let node = sdk.management_of(&subscription("chosen"));
    let page =
        RawMap::with_string_keys(&[("top", AnnotationValue::Int(100)), ("skip", AnnotationValue::Int(0))]);
    let text = |text: &str| Some(text.to_owned());
    let first = rules(&sdk.manage(node, "com.microsoft:enumerate-rules", &page));
    assert_eq!(first, [("$Default".to_owned(), TRUE_FILTER, None, NO_ACTION, None)]);

    let large = rule("large", sql("amount > 100"), Some("SET priority = 'high'"));
    let red = rule("red", correlation("red"), None);
    let exists = (409, text("com.microsoft:entity-already-exists"));
    for (body, expected) in [(&large, (200, None)), (&red, (200, None)), (&red, exists)] {
        assert_eq!(outcome(&sdk.manage(node, "com.microsoft:add-rule", body)), expected);
    }
    let (status, _) =
        outcome(&sdk.manage(node, "com.microsoft:add-rule", &rule("bad", sql("amount >"), None)));
    assert_eq!(status, 400, "an expression that breaks off");
    let remove = RawMap::with_string_keys(&[("rule-name", AnnotationValue::Str("$Default"))]);
    for expected in [(200, None), (404, text("amqp:not-found"))] {
        assert_eq!(outcome(&sdk.manage(node, "com.microsoft:remove-rule", &remove)), expected);
    }
    let left = rules(&sdk.manage(node, "com.microsoft:enumerate-rules", &page));
    let expected = [
        ("large".to_owned(), SQL_FILTER, text("amount > 100"), SQL_ACTION, text("SET priority = 'high'")),
        ("red".to_owned(), CORRELATION_FILTER, None, NO_ACTION, None),
    ];
    assert_eq!(left, expected);

    publish(
        &mut sdk,
        &[order("small red", 1, "red"), order("large blue", 101, "blue"), order("no", 100, "blue")],
    );
    let all: Vec<_> = take(&mut sdk, &subscription("all"), 10, 3).iter().map(Delivery::text).collect();
    assert_eq!(all, ["small red", "large blue", "no"]);
    let peeked = sdk.manage(node, "com.microsoft:peek-message", &peek(1, 9));
    assert_eq!(peeked.body().get("messages").unwrap().as_list().unwrap().count(), 2);
    let chosen = take(&mut sdk, &subscription("chosen"), 11, 2);
    let seen: Vec<_> = chosen.iter().map(|each| (each.text(), each.property("priority"))).collect();
    assert_eq!(seen, [("small red".to_owned(), None), ("large blue".to_owned(), text("high"))]);
    assert_eq!(chosen[1].property("RuleName").as_deref(), Some("large"));
    sdk.client.close();
}
