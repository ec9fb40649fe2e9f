//! Forwarding from end to end.

use amqp_codec::types::ReceiverSettleMode;
use broker_core::EntitySettings;
use broker_server::EntityPlan;

use crate::{
    broker::{Broker, QUEUE},
    dialect::modified,
    message::Delivery,
};

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
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    let got = client.receive(2, 2);
    assert_eq!(got.iter().map(Delivery::text).collect::<Vec<_>>(), ["a", "b"]);
    client.complete(&got[0]);
    client.outcome(0, got[1].id(), modified(Some(true), None));
    client.receiver(3, "morgue", Some(ReceiverSettleMode::First));
    assert_eq!(client.receive(3, 1)[0].text(), "b");
}
