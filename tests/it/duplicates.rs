//! Duplicate detection from end to end.

use amqp_codec::{
    message::MessageBuilder, performative::DeliveryState, raw::AnnotationValue, sections::PropertyField,
    types::ReceiverSettleMode,
};
use broker_core::EntitySettings;
use broker_server::EntityPlan;

use crate::{
    broker::{Broker, Folder, QUEUE, durable},
    client::Client,
    message::Delivery,
};

fn detecting() -> EntitySettings {
    EntitySettings { requires_duplicate_detection: true, ..EntitySettings::default() }
}

fn send(client: &mut Client, id: AnnotationValue<'_>, body: &str) {
    let message = MessageBuilder::new().property(PropertyField::MessageId, id).data(body.as_bytes()).build();
    client.send(1, false, &message);
    let answer = client.wire.disposed().unwrap();
    assert_eq!(answer.state, Some(DeliveryState::Accepted), "{body}");
}

fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::text).collect()
}

#[test]
fn ids_of_every_type_are_compared_by_their_text() {
    let broker = Broker::with_queue(detecting());
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    send(&mut client, AnnotationValue::Str("5"), "text");
    send(&mut client, AnnotationValue::Ulong(5), "number");
    send(&mut client, AnnotationValue::Str("six"), "another");
    send(&mut client, AnnotationValue::Str("six"), "another again");
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    assert_eq!(bodies(&client.receive(2, 2)), ["text", "another"]);
    client.nothing_on(2);
}

#[test]
fn a_restart_does_not_forget_ids_whose_messages_are_gone() {
    let folder = Folder::new();
    let mut config = durable(&folder.0);
    config.entities = vec![EntityPlan::queue(QUEUE, detecting())];
    let broker = Broker::of(&config);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    send(&mut client, AnnotationValue::Str("id"), "first");
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    let first = client.receive(2, 1).remove(0);
    client.complete(&first);
    drop(client);
    broker.stop();
    let broker = Broker::of(&config);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    send(&mut client, AnnotationValue::Str("id"), "second");
    send(&mut client, AnnotationValue::Str("other"), "third");
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    assert_eq!(bodies(&client.receive(2, 1)), ["third"]);
    client.nothing_on(2);
}
