//! What changes over HTTP do to links that are open: at once, and nothing else.

use amqp_codec::{
    performative::{DeliveryState, Modified, Performative},
    types::ReceiverSettleMode,
};

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    http::ask,
};

/// Creates or updates what has this description.
fn put(broker: &Broker, path: &str, (element, inside): (&str, &str), exists: bool) -> String {
    let body = format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><{element} \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\">{inside}</{element}></content></entry>"
    );
    // The header of an update stands behind the version.
    let condition = if exists { " HTTP/1.1\r\nIf-Match: *\r\nX-Rest:" } else { "" };
    let (status, text) = ask(broker.http_address(), &format!("PUT /{path}{condition}"), &body);
    assert_eq!(status, if exists { 200 } else { 201 }, "{text}");
    text
}

pub(crate) fn update(broker: &Broker, inside: &str) -> String {
    put(broker, QUEUE, ("QueueDescription", inside), true)
}

/// The condition of a link's end that was not asked for.
fn detached(client: &mut Client) -> (u32, String) {
    let detach = client.wire.detached().unwrap();
    assert!(detach.closed);
    (detach.handle, detach.error.unwrap().condition.to_string())
}

/// Those of the next links to end, in the order of their handles.
fn all_detached(client: &mut Client, count: usize) -> Vec<(u32, String)> {
    let mut all: Vec<_> = (0..count).map(|_| detached(client)).collect();
    all.sort();
    all
}

#[test]
fn switching_an_entity_off_ends_its_links_and_no_others() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    // The broker's own numbers: the sender was attached first.
    let cases = [("Disabled", &[0, 1][..]), ("SendDisabled", &[0]), ("ReceiveDisabled", &[1])];
    for (status, ended) in cases {
        let mut client = broker.plain();
        client.sender(1, QUEUE);
        client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
        update(&broker, &format!("<Status>{status}</Status>"));
        let disabled = |handle: &u32| (*handle, "com.microsoft:entity-disabled".to_owned());
        let expected: Vec<_> = ended.iter().map(disabled).collect();
        assert_eq!(all_detached(&mut client, ended.len()), expected, "{status}");
        // What may go on does.
        match status {
            "SendDisabled" => client.nothing_on(2),
            "ReceiveDisabled" => client.accepted(1, &["taken all the while"]),
            _ => {}
        }
        update(&broker, "");
    }
    let mut client = broker.plain();
    client.receiver(1, QUEUE, Some(ReceiverSettleMode::First));
    let delivery = client.receive(1, 1).remove(0);
    assert_eq!(delivery.text(), "taken all the while");
    client.complete(&delivery);
    innocent.works();
}

#[test]
fn deleting_an_entity_ends_its_links_and_no_others() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    let (status, text) = ask(broker.http_address(), &format!("DELETE /{QUEUE}"), "");
    assert_eq!(status, 200, "{text}");
    let deleted = |handle| (handle, "amqp:resource-deleted".to_owned());
    assert_eq!(all_detached(&mut client, 2), [deleted(0), deleted(1)]);
    innocent.works();
}

#[test]
fn an_update_leaves_locks_alone() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    client.accepted(1, &["first", "second"]);
    let held = client.receive(2, 2);
    update(&broker, "<LockDuration>PT5S</LockDuration><MaxDeliveryCount>1</MaxDeliveryCount>");
    client.complete(&held[0]);
    let failed = Modified { delivery_failed: Some(true), ..Modified::default() };
    // And what is set counts at once: this was the last delivery there may be.
    client.outcome(0, held[1].id(), DeliveryState::Modified(Box::new(failed)));
    let text = ask(broker.http_address(), &format!("GET /{QUEUE}"), "").1;
    let count = |name: &str, count: u32| text.contains(&format!(":{name}>{count}<"));
    assert!(count("ActiveMessageCount", 0) && count("DeadLetterMessageCount", 1), "{text}");
}

#[test]
fn a_rule_that_is_changed_counts_for_the_next_message_of_an_open_link() {
    let broker = Broker::start();
    put(&broker, "events", ("TopicDescription", ""), false);
    let subscription = "events/Subscriptions/all";
    put(&broker, subscription, ("SubscriptionDescription", ""), false);
    let mut client = broker.plain();
    client.sender(1, "events");
    client.receiver(2, subscription, Some(ReceiverSettleMode::First));
    client.accepted(1, &["let in"]);
    assert_eq!(client.receive(2, 1)[0].text(), "let in");
    let rule = |kind: &str| format!("<Filter i:type=\"{kind}\"/><Name>$Default</Name>");
    let path = format!("{subscription}/Rules/$Default");
    put(&broker, &path, ("RuleDescription", &rule("FalseFilter")), true);
    client.accepted(1, &["kept out"]);
    put(&broker, &path, ("RuleDescription", &rule("TrueFilter")), true);
    client.accepted(1, &["let in again"]);
    assert_eq!(client.receive(2, 1)[0].text(), "let in again");
    client.wire.script.detach(0, 2, true);
    client.wire.until(|performative| matches!(performative, Performative::Detach(_))).unwrap();
}
