use fe2o3_amqp_types::{
    messaging::{Data, Footer, Priority, Properties},
    primitives::{Binary, SimpleValue},
};

use super::*;

fn key(name: &str) -> OwnedKey {
    OwnedKey::Symbol(Symbol::from(name))
}

fn dead() -> Received {
    let mut annotations = OrderedMap::new();
    for name in BROKERS_OWN {
        annotations.insert(key(name), Value::Long(1));
    }
    annotations.insert(key("x-opt-partition-key"), Value::String("p".into()));
    annotations.insert(key("x-own"), Value::Bool(true));
    let mut footer = OrderedMap::new();
    footer.insert(key("sum"), Value::Long(9));
    let mut properties = OrderedMap::new();
    for (name, text) in [(REASON, "cold"), (DESCRIPTION, "very"), ("colour", "red")] {
        properties.insert(name.to_owned(), SimpleValue::String(text.into()));
    }
    let header = Header {
        durable: true,
        priority: Priority(7),
        ttl: Some(5_000),
        first_acquirer: false,
        delivery_count: 10,
    };
    Message {
        header: Some(header),
        delivery_annotations: None,
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(
            Properties::builder()
                .message_id("m-1".to_owned())
                .group_id("s".to_owned())
                .subject("tea")
                .build(),
        ),
        application_properties: Some(ApplicationProperties(properties)),
        body: Body::Data(vec![Data(Binary::from(vec![0, 255]))].into()),
        footer: Some(Footer(footer)),
    }
}

#[test]
fn a_resubmitted_message_is_as_it_was_but_for_its_delivery_state() {
    let before = dead();
    let after = again(&before, false);
    let header = after.header.unwrap();
    assert_eq!(
        (header.durable, header.priority, header.ttl, header.delivery_count),
        (true, Priority(7), Some(5_000), 0)
    );
    let annotations = after.message_annotations.unwrap().0;
    assert_eq!(annotations.len(), 2);
    assert!(annotations.contains_key(&key("x-opt-partition-key")) && annotations.contains_key(&key("x-own")));
    let properties = after.application_properties.unwrap().0;
    assert_eq!(properties.len(), 1);
    assert!(properties.contains_key("colour"));
    assert_eq!((after.properties, after.body, after.footer), (before.properties, before.body, before.footer));
}

#[test]
fn a_new_id_is_the_only_other_change_that_is_asked_for() {
    let ids: Vec<_> = (0..2).map(|_| again(&dead(), true).properties.unwrap()).collect();
    assert_ne!(ids[0].message_id, ids[1].message_id);
    assert_eq!(ids[0].group_id.as_deref(), Some("s"));
}

#[test]
fn nobody_sends_to_a_subscription_by_accident() {
    assert_eq!(destination("orders", None).unwrap(), "orders");
    assert_eq!(destination("orders", Some("/audit/")).unwrap(), "audit");
    assert_eq!(destination("events/Subscriptions/audit", Some("events")).unwrap(), "events");
    let failure = destination("a/events/subscriptions/audit", None).unwrap_err().to_string();
    assert!(failure.contains("`--to a/events`"), "{failure}");
}
