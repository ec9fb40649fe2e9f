//! What each property that can be changed over HTTP does to links that are open, and to what waits.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Detach, Source},
    raw::AnnotationValue,
    types::{ReceiverSettleMode, Role, TypeKind},
};

use crate::{
    administration::{DOTNET, fresh, host_of},
    broker::Broker,
    client::Client,
    dialect::modified,
    message::{Delivery, message},
    testing::advance,
};

const LOCKS: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// The handles of most tests.
const INTO: u32 = 1;
const FROM: u32 = 2;

fn body(element: &str, inside: &str) -> String {
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><{element} \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\">{inside}</{element}></content></entry>"
    )
}

const QUEUE: &str = "QueueDescription";
const TOPIC: &str = "TopicDescription";
const SUBSCRIPTION: &str = "SubscriptionDescription";
const RULE: &str = "RuleDescription";

/// A broker that is changed over HTTP.
struct Changed {
    broker: Broker,
}

impl Changed {
    fn new() -> Self {
        Self { broker: fresh() }
    }

    fn put(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let target = format!("http://{}/", host_of(&self.broker));
        let line = format!("PUT /{path}?api-version=2024-05");
        DOTNET.request(&self.broker, &line, (headers, &[&target, &target]), body)
    }

    fn create(&self, path: &str, element: &str, inside: &str) {
        let (status, text) = self.put(path, &[], &body(element, inside));
        assert_eq!(status, 201, "{path}: {text}");
    }

    fn update(&self, path: &str, element: &str, inside: &str) {
        let (status, text) = self.put(path, &[("If-Match", "*")], &body(element, inside));
        assert_eq!(status, 200, "{path}: {text}");
    }

    fn delete(&self, path: &str) {
        let line = format!("DELETE /{path}?api-version=2024-05");
        assert_eq!(DOTNET.request(&self.broker, &line, (&[], &[]), "").0, 200, "{path}");
    }

    /// A client that sends to `entity` and receives from it, or from `source`.
    fn client(&self, entity: &str, source: &str) -> Client {
        let mut client = self.broker.plain();
        client.sender(INTO, entity);
        client.receiver(FROM, source, LOCKS);
        client
    }
}

/// Handles and conditions of that many detaches, by handle. The broker counts its own from 0, as links come; the tests do
/// so from 1.
fn detached(client: &mut Client, count: usize) -> Vec<(u32, String)> {
    let mut told: Vec<(u32, String)> = (0..count)
        .map(|_| {
            let Detach { handle, closed, error } = client.wire.detached().unwrap();
            assert!(closed);
            (handle + 1, error.expect("a reason").condition.to_string())
        })
        .collect();
    told.sort();
    told
}

fn told(handles: &[u32], condition: &str) -> Vec<(u32, String)> {
    handles.iter().map(|handle| (*handle, condition.to_owned())).collect()
}

fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::text).collect()
}

/// When the lock of a delivery ends, in milliseconds.
fn locked_until(delivery: &Delivery) -> i64 {
    delivery.annotation("x-opt-locked-until", TypeKind::Timestamp).as_timestamp().unwrap()
}

fn receiver_of(source: &str) -> Attach {
    let mut attach = Attach::new("another", FROM + 10, Role::Receiver);
    attach.source = Some(Source::new(source));
    attach.target = Some(amqp_codec::performative::Target::new("here"));
    attach
}

#[test]
fn a_status_takes_the_links_along_that_it_forbids_and_leaves_the_others() {
    let cases: [(&str, &[u32]); 3] =
        [("SendDisabled", &[INTO]), ("ReceiveDisabled", &[FROM]), ("Disabled", &[INTO, FROM])];
    for (status, gone) in cases {
        let it = Changed::new();
        it.create("q", QUEUE, "");
        let mut client = it.client("q", "q");
        client.accepted(INTO, &["kept"]);
        it.update("q", QUEUE, &format!("<Status>{status}</Status>"));
        assert_eq!(
            detached(&mut client, gone.len()),
            told(gone, "com.microsoft:entity-disabled"),
            "{status}"
        );
        if !gone.contains(&INTO) {
            client.accepted(INTO, &["also"]);
        }
        if !gone.contains(&FROM) {
            let kept = client.receive(FROM, 1).remove(0);
            assert_eq!(kept.text(), "kept");
            client.complete(&kept);
        }
        for handle in gone {
            let refused = match *handle {
                INTO => {
                    let mut attach = Attach::new("again", INTO + 20, Role::Sender);
                    attach.source = Some(Source::new("here"));
                    attach.target = Some(amqp_codec::performative::Target::new("q"));
                    attach.initial_delivery_count = Some(0);
                    client.refused(0, attach)
                }
                _ => client.refused(0, receiver_of("q")),
            };
            assert_eq!(refused.condition, "com.microsoft:entity-disabled", "{status}");
        }
        it.update("q", QUEUE, "<Status>Active</Status>");
        let mut after = it.client("q", "q");
        after.accepted(INTO, &["new"]);
        let left = match status {
            "SendDisabled" => vec!["new"],
            "ReceiveDisabled" => vec!["kept", "also", "new"],
            _ => vec!["kept", "new"],
        };
        let count = u32::try_from(left.len()).unwrap();
        assert_eq!(texts(&after.receive(FROM, count)), left, "{status}");
    }
}

#[test]
fn a_disabled_topic_takes_nothing_more_and_a_disabled_subscription_keeps_what_it_gets() {
    let it = Changed::new();
    it.create("t", TOPIC, "");
    it.create("t/Subscriptions/s", SUBSCRIPTION, "");
    let mut client = it.client("t", "t/Subscriptions/s");
    it.update("t/Subscriptions/s", SUBSCRIPTION, "<Status>ReceiveDisabled</Status>");
    assert_eq!(detached(&mut client, 1), told(&[FROM], "com.microsoft:entity-disabled"));
    client.accepted(INTO, &["kept"]);
    it.update("t", TOPIC, "<Status>Disabled</Status>");
    assert_eq!(detached(&mut client, 1), told(&[INTO], "com.microsoft:entity-disabled"));
    it.update("t/Subscriptions/s", SUBSCRIPTION, "<Status>Active</Status>");
    client.receiver(FROM + 1, "t/Subscriptions/s", LOCKS);
    assert_eq!(texts(&client.receive(FROM + 1, 1)), ["kept"]);
}

#[test]
fn another_lock_duration_is_for_later_deliveries() {
    let it = Changed::new();
    // The updates leave the element `Hold` out, and keep what it said.
    it.create("q", QUEUE, "<LockDuration>PT5M</LockDuration><Hold>Lock</Hold>");
    let mut client = it.client("q", "q");
    client.accepted(INTO, &["long", "short"]);
    let long = client.receive(FROM, 1).remove(0);
    it.update("q", QUEUE, "<LockDuration>PT10S</LockDuration>");
    let short = client.receive(FROM, 1).remove(0);
    assert!(locked_until(&long) > locked_until(&short) + 200_000, "five minutes and ten seconds");
    advance(it.broker.http_address(), Duration::from_secs(100));
    let again = client.receive(FROM, 1).remove(0);
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("short", 1));
    client.nothing_on(FROM);
    // The update has not taken away the lock that was there.
    client.complete(&long);
    client.complete(&again);
}

#[test]
fn another_delivery_count_is_for_messages_that_are_out_already() {
    let it = Changed::new();
    it.create("q", QUEUE, "");
    let mut client = it.client("q", "q");
    client.accepted(INTO, &["poison"]);
    for count in 0..2 {
        let delivery = client.receive(FROM, 1).remove(0);
        assert_eq!(delivery.header().delivery_count, count);
        if count == 1 {
            it.update("q", QUEUE, "<MaxDeliveryCount>2</MaxDeliveryCount>");
        }
        client.outcome(0, delivery.id(), modified(Some(true), None));
    }
    client.nothing_on(FROM);
    client.receiver(FROM + 1, "q/$DeadLetterQueue", LOCKS);
    let letter = client.receive(FROM + 1, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("MaxDeliveryCountExceeded"));
}

#[test]
fn another_time_to_live_is_for_later_messages() {
    let it = Changed::new();
    it.create("q", QUEUE, "");
    let mut client = it.client("q", "q");
    client.accepted(INTO, &["for ever"]);
    it.update(
        "q",
        QUEUE,
        "<DefaultMessageTimeToLive>PT10S</DefaultMessageTimeToLive>\
         <DeadLetteringOnMessageExpiration>true</DeadLetteringOnMessageExpiration>",
    );
    client.accepted(INTO, &["for a while"]);
    advance(it.broker.http_address(), Duration::from_secs(11));
    assert_eq!(texts(&client.receive(FROM, 1)), ["for ever"]);
    client.nothing_on(FROM);
    client.receiver(FROM + 1, "q/$DeadLetterQueue", LOCKS);
    let letter = client.receive(FROM + 1, 1).remove(0);
    assert_eq!(
        (letter.text().as_str(), letter.property("DeadLetterReason").as_deref()),
        ("for a while", Some("TTLExpiredException"))
    );
}

#[test]
fn a_deletion_takes_all_links_along_and_a_topics_those_of_its_subscriptions() {
    let it = Changed::new();
    it.create("q", QUEUE, "");
    it.create("other", QUEUE, "");
    let mut client = it.client("q", "q");
    client.receiver(FROM + 1, "q/$DeadLetterQueue", LOCKS);
    client.sender(INTO + 10, "other");
    it.delete("q");
    assert_eq!(detached(&mut client, 3), told(&[INTO, FROM, FROM + 1], "amqp:resource-deleted"));
    client.accepted(INTO + 10, &["the others stay"]);
    assert_eq!(client.refused(0, receiver_of("q")).condition, "amqp:not-found");

    it.create("t", TOPIC, "");
    it.create("t/Subscriptions/s", SUBSCRIPTION, "");
    it.create("t/Subscriptions/r", SUBSCRIPTION, "");
    let mut client = it.client("t", "t/Subscriptions/s");
    client.receiver(FROM + 1, "t/Subscriptions/r", LOCKS);
    it.delete("t/Subscriptions/r");
    assert_eq!(detached(&mut client, 1), told(&[FROM + 1], "amqp:resource-deleted"));
    client.accepted(INTO, &["m"]);
    assert_eq!(texts(&client.receive(FROM, 1)), ["m"]);
    it.delete("t");
    assert_eq!(detached(&mut client, 2), told(&[INTO, FROM], "amqp:resource-deleted"));
}

#[test]
fn an_entity_of_the_same_name_is_another_one() {
    let it = Changed::new();
    it.create("q", QUEUE, "<LockDuration>PT5M</LockDuration><Hold>Lock</Hold>");
    let mut client = it.client("q", "q");
    client.accepted(INTO, &["old", "older"]);
    let locked = client.receive(FROM, 1).remove(0);
    assert_eq!(locked.sequence_number(), 1);
    it.delete("q");
    it.create("q", QUEUE, "<RequiresSession>false</RequiresSession><Hold>Lock</Hold>");
    assert_eq!(detached(&mut client, 2), told(&[INTO, FROM], "amqp:resource-deleted"));
    let mut after = it.client("q", "q");
    after.accepted(INTO, &["new"]);
    let new = after.receive(FROM, 1).remove(0);
    assert_eq!((new.text().as_str(), new.sequence_number()), ("new", 1));
    assert!(locked_until(&new) < locked_until(&locked) - 100_000, "a minute again");
    after.complete(&new);
    after.nothing_on(FROM);
    client.close();
}

fn order(text: &str, colour: &str) -> bytes::Bytes {
    MessageBuilder::new()
        .message_id(text)
        .application_property("colour", AnnotationValue::Str(colour))
        .data(text.as_bytes())
        .build()
}

fn sql(expression: &str) -> String {
    format!("<Filter i:type=\"SqlFilter\"><SqlExpression>{expression}</SqlExpression></Filter>")
}

#[test]
fn a_rule_that_came_changed_or_went_is_for_the_next_message() {
    let it = Changed::new();
    it.create("t", TOPIC, "");
    it.create("t/Subscriptions/s", SUBSCRIPTION, "");
    let mut client = it.client("t", "t/Subscriptions/s");
    let send = |client: &mut Client, text: &str, colour: &str| {
        let id = client.send(INTO, false, &order(text, colour));
        let answer = client.wire.disposed().unwrap();
        assert_eq!((answer.first, answer.state), (id, Some(DeliveryState::Accepted)));
    };
    let rule = |name: &str| format!("t/Subscriptions/s/Rules/{name}");
    send(&mut client, "1", "blue");
    it.create(&rule("red"), RULE, &sql("colour = 'red'"));
    it.delete(&rule("$Default"));
    send(&mut client, "2", "blue");
    send(&mut client, "3", "red");
    it.update(&rule("red"), RULE, &sql("colour = 'green'"));
    send(&mut client, "4", "red");
    send(&mut client, "5", "green");
    let action =
        "<Action i:type=\"SqlRuleAction\"><SqlExpression>SET shade = 'dark'</SqlExpression></Action>";
    it.update(&rule("red"), RULE, &format!("{}{action}", sql("colour = 'green'")));
    send(&mut client, "6", "green");
    it.delete(&rule("red"));
    send(&mut client, "7", "green");
    let got = client.receive(FROM, 4);
    let seen: Vec<(String, Option<String>)> =
        got.iter().map(|each| (each.text(), each.property("shade"))).collect();
    let plain = |text: &str| (text.to_owned(), None);
    assert_eq!(seen, [plain("1"), plain("3"), plain("5"), ("6".to_owned(), Some("dark".to_owned()))]);
    client.nothing_on(FROM);
}

#[test]
fn a_subscription_that_came_or_went_is_for_the_next_message() {
    let it = Changed::new();
    it.create("t", TOPIC, "");
    let mut client = it.broker.plain();
    client.sender(INTO, "t");
    client.accepted(INTO, &["before"]);
    it.create("t/Subscriptions/s", SUBSCRIPTION, "");
    client.accepted(INTO, &["with"]);
    client.receiver(FROM, "t/Subscriptions/s", LOCKS);
    assert_eq!(texts(&client.receive(FROM, 1)), ["with"]);
    it.delete("t/Subscriptions/s");
    assert_eq!(detached(&mut client, 1), told(&[FROM], "amqp:resource-deleted"));
    client.accepted(INTO, &["without"]);
    it.create("t/Subscriptions/s", SUBSCRIPTION, "");
    client.receiver(FROM + 1, "t/Subscriptions/s", LOCKS);
    client.nothing_on(FROM + 1);
}

#[test]
fn forwarding_that_is_set_sends_receivers_away_and_messages_on() {
    let it = Changed::new();
    it.create("target", QUEUE, "");
    it.create("q", QUEUE, "");
    let mut client = it.client("q", "q");
    client.accepted(INTO, &["locked", "waits"]);
    let locked = client.receive(FROM, 1).remove(0);
    it.update("q", QUEUE, "<ForwardTo>target</ForwardTo>");
    assert_eq!(detached(&mut client, 1), told(&[FROM], "amqp:not-allowed"));
    client.accepted(INTO, &["new"]);
    client.receiver(FROM + 1, "target", LOCKS);
    // What a link of plain AMQP held is free when it closes.
    assert_eq!(locked.text(), "locked");
    assert_eq!(texts(&client.receive(FROM + 1, 3)), ["locked", "waits", "new"]);
    assert_eq!(client.refused(0, receiver_of("q")).condition, "amqp:not-allowed");
    // Without it the queue gives its messages out itself again.
    it.update("q", QUEUE, "");
    client.accepted(INTO, &["stays"]);
    client.receiver(FROM + 2, "q", LOCKS);
    let stays = client.receive(FROM + 2, 1).remove(0);
    assert_eq!(stays.text(), "stays");
    client.complete(&stays);
}

#[test]
fn a_smaller_limit_of_messages_is_for_the_next_one() {
    let it = Changed::new();
    it.create("q", QUEUE, "");
    let mut client = it.client("q", "q");
    let large = message(&"x".repeat(3_000));
    client.send(INTO, false, &large);
    assert_eq!(client.wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
    it.update("q", QUEUE, "<MaxMessageSizeInKilobytes>2</MaxMessageSizeInKilobytes>");
    client.send(INTO, false, &large);
    let Some(DeliveryState::Rejected(Some(error))) = client.wire.disposed().unwrap().state else { panic!() };
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    client.accepted(INTO, &["small"]);
    assert_eq!(client.receive(FROM, 2).len(), 2, "what was taken stays");
}
