//! Forwarding from end to end.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Source, Target},
    raw::{AnnotationValue, RawMap},
    sections::Header,
    types::{ReceiverSettleMode, Role, TypeKind},
};
use broker_core::{EntityKind, EntitySettings};
use broker_server::EntityPlan;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{dead_letter, modified},
    message::Delivery,
    testing::advance,
};

const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);

#[test]
fn messages_and_dead_letters_arrive_where_they_are_forwarded_to() {
    let settings = EntitySettings {
        max_delivery_count: 1,
        forward_dead_lettered_to: Some("morgue".into()),
        ..EntitySettings::default()
    };
    let forwards = EntitySettings { forward_to: Some(QUEUE.into()), ..EntitySettings::default() };
    let broker = Broker::with(|config| {
        config.entities = vec![
            EntityPlan::queue("morgue", EntitySettings::default()),
            EntityPlan::queue(QUEUE, settings),
            EntityPlan::queue("entrance", forwards),
        ];
    });
    let mut client = broker.plain();
    client.sender(1, "entrance");
    client.accepted(1, &["a", "b"]);
    client.receiver(2, QUEUE, FIRST);
    let got = client.receive(2, 2);
    assert_eq!(got.iter().map(Delivery::text).collect::<Vec<_>>(), ["a", "b"]);
    client.complete(&got[0]);
    client.outcome(0, got[1].id(), modified(Some(true), None));
    client.receiver(3, "morgue", FIRST);
    assert_eq!(client.receive(3, 1)[0].text(), "b");
}

/// What a delivery says: its text, where it died, why, and its number there.
fn death(delivery: &Delivery) -> (String, String, String, i64) {
    let place =
        delivery.annotation("x-opt-deadletter-source", TypeKind::String).as_string().unwrap().to_owned();
    let number = delivery.annotation("x-opt-enqueue-sequence-number", TypeKind::Long).as_i64().unwrap();
    (delivery.text(), place, delivery.property("DeadLetterReason").unwrap_or_default(), number)
}

fn died(text: &str, place: &str, reason: &str, number: i64) -> (String, String, String, i64) {
    (text.into(), place.into(), reason.into(), number)
}

#[test]
fn dead_letters_of_every_kind_are_forwarded_with_where_and_why_they_died() {
    let dead = EntitySettings {
        forward_dead_lettered_to: Some("morgue".into()),
        max_delivery_count: 1,
        dead_letter_on_expiration: true,
        ..EntitySettings::default()
    };
    let copies = "events/Subscriptions/all";
    let entity = |name: &str, kind, settings: &EntitySettings| EntityPlan {
        kind,
        ..EntityPlan::queue(name, settings.clone())
    };
    let plain = EntitySettings::default();
    let broker = Broker::with(|config| {
        config.entities = vec![
            entity("morgue", EntityKind::Queue, &plain),
            entity(QUEUE, EntityKind::Queue, &dead),
            entity("events", EntityKind::Topic, &plain),
            entity(copies, EntityKind::Subscription, &dead),
        ];
    });
    let mut client = broker.plain();
    // Only clients of Service Bus are told where a message died.
    let mut attach = Attach::new("morgue", 9, Role::Receiver);
    (attach.source, attach.target) = (Some(Source::new("morgue")), Some(Target::new("t")));
    attach.rcv_settle_mode = FIRST;
    let own = [("com.microsoft:receiver-name", AnnotationValue::Str("morgue"))];
    attach.properties = Some(RawMap::with_symbol_keys(&own));
    client.attach(0, attach);
    client.sender(1, QUEUE);
    client.accepted(1, &["worn out", "refused"]);
    client.receiver(2, QUEUE, FIRST);
    let got = client.receive(2, 2);
    client.outcome(0, got[0].id(), modified(Some(true), None));
    client.outcome(0, got[1].id(), dead_letter(false));
    client.sender(3, "events");
    client.accepted(3, &["copied"]);
    client.receiver(4, copies, FIRST);
    let copy = client.receive(4, 1).remove(0);
    client.outcome(0, copy.id(), dead_letter(false));
    let short = MessageBuilder::new().header(Header { ttl: Some(60_000), ..Header::default() });
    client.send(1, true, &short.data(b"expired").build());
    let mut arrived = client.receive(9, 3);
    for delivery in &arrived {
        client.complete(delivery);
    }
    // Nobody asks for the last one.
    advance(broker.address, Duration::from_secs(61));
    arrived.extend(client.receive(9, 1));
    client.complete(&arrived[3]);
    let found: Vec<_> = arrived.iter().map(death).collect();
    let expected = [
        died("worn out", QUEUE, "MaxDeliveryCountExceeded", 1),
        died("refused", QUEUE, "broken", 2),
        died("copied", copies, "broken", 1),
        died("expired", QUEUE, "TTLExpiredException", 3),
    ];
    assert_eq!(found, expected);
    for (handle, name) in [(20, QUEUE), (21, copies)] {
        let mut attach = Attach::new(name, handle, Role::Receiver);
        attach.source = Some(Source::new(format!("{name}/$DeadLetterQueue")));
        attach.target = Some(Target::new("t"));
        assert_eq!(client.refused(0, attach).condition, "amqp:not-allowed", "{name}");
    }
    client.close();
}
