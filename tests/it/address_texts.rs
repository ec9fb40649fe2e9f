//! Addresses that are any text, from the socket to the disk and in all that an operator looks at (decision 56).

use crate::{
    broker::{Broker, Folder, durable},
    http::ask,
};

const TEXTS: [(&str, &str); 7] = [
    // address, the name in a label of a metric
    ("with spaces, and commas", "with spaces, and commas"),
    ("a#b", "a#b"),
    ("orders::new", "orders::new"),
    ("größe/Ärger", "größe/Ärger"),
    ("注文", "注文"),
    ("app://orders//new?x", "app://orders//new?x"),
    ("\"a\\b\"", "\\\"a\\\\b\\\""),
];

#[test]
fn scripted_texts_keep_their_messages_over_a_restart_and_service_bus_sees_none() {
    let folder = Folder::new();
    let mut config = durable(&folder.0);
    config.auto_create = true;
    let broker = Broker::of(&config);
    let mut client = broker.plain();
    for (handle, (text, _)) in (1..).zip(TEXTS) {
        client.sender(handle, text);
        client.accepted(handle, &[text]);
    }
    client.close();
    drop(broker);
    config.auto_create = false;
    let broker = Broker::of(&config);
    let (status, listed) = ask(broker.address, "GET /$Resources/queues?api-version=2021-05", "");
    let declared = config.entities.len();
    assert!(
        status == 200 && listed.matches("<entry>").count() == declared,
        "only those of the configuration: {listed}"
    );
    let (_, listed) = ask(broker.address, "GET /$Resources/queues?api-version=2021-05&all-names=true", "");
    assert_eq!(listed.matches("<entry>").count(), TEXTS.len() + declared);
    let (status, shown) = ask(broker.address, "GET /gr%C3%B6%C3%9Fe/%C3%84rger?api-version=2021-05", "");
    assert!(status == 200 && shown.contains("<feed") && !shown.contains("<entry"), "{shown}");
    assert_eq!(ask(broker.address, "DELETE /a%23b?api-version=2021-05", "").0, 404);
    let (status, metrics) = ask(broker.address, "GET /metrics", "");
    assert_eq!(status, 200);
    let mut client = broker.plain();
    for (handle, (text, label)) in (1..).zip(TEXTS) {
        let sample = format!(
            "ferrybus_entity_messages{{namespace=\"default\",entity=\"{label}\",kind=\"queue\",state=\"active\"}} 1"
        );
        assert!(metrics.lines().any(|line| line == sample), "{sample} is not in {metrics}");
        client.receiver(handle, text, None);
        let delivery = client.receive(handle, 1).remove(0);
        assert!(delivery.payload.ends_with(text.as_bytes()), "{text}");
    }
    client.close();
}
