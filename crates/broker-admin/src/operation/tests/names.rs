//! Entities whose names Service Bus cannot spell (decision 56).

use broker_core::NameScope;

use super::*;

const TEXTS: [(&str, &str); 7] = [
    // name, path
    ("a b", "/a%20b"),
    ("größe", "/gr%C3%B6%C3%9Fe"),
    ("a#b", "/a%23b"),
    ("a::b, c", "/a::b,%20c"),
    ("a//b", "/a%2F%2Fb"),
    ("50%?", "/50%25%3F"),
    (" <&> ", "/%20%3C&%3E%20"),
];

fn with_texts() -> Broker {
    let mut broker = Broker::new();
    broker.configure("plain", EntitySettings::default());
    for (name, _) in TEXTS {
        broker.configure(name, EntitySettings::default());
    }
    broker
}

#[test]
fn the_administration_of_service_bus_shows_none_of_them() {
    let mut broker = with_texts();
    assert_eq!(titles(&broker.get("/$Resources/queues")), ["plain"]);
    assert_eq!(titles(&broker.get("/$Resources/queues?$skip=1")), Vec::<&str>::new());
    let full = broker.get("/$Resources/queues?$top=1");
    assert!(!full.text().contains("rel=\"next\""), "{full:?}");
    for (name, path) in TEXTS.into_iter().filter(|(name, _)| !name.contains("//")) {
        let shown = broker.get(path);
        assert!(
            shown.status == 200 && shown.etag.is_none() && titles(&shown).is_empty(),
            "{name}: {shown:?}"
        );
        assert_eq!(broker.delete(path).status, 404, "{name}");
        assert_eq!(broker.update(path, Q, "").status, 404, "{name}");
        let made = broker.create(path, Q, "");
        assert!(detail(&made).1.contains("is not a valid entity name"), "{made:?}");
    }
    assert_eq!(Route::parse("/a//b", NameScope::ServiceBus), Err(crate::RouteError::Unknown));
    assert_eq!(broker.report("a b").name, "a b".into());
}

#[test]
fn subscriptions_and_rules_of_such_a_topic_are_missing_too() {
    let mut broker = Broker::new();
    assert_eq!(broker.create("/a%20t?all-names=true", T, "").status, 201);
    assert_eq!(broker.create("/a%20t/Subscriptions/s?all-names=true", S, "").status, 201);
    assert!(titles(&broker.get("/$Resources/topics")).is_empty());
    for path in ["/a%20t/Subscriptions", "/a%20t/Subscriptions/s/Rules"] {
        let listed = broker.get(path);
        assert!(listed.status == 200 && titles(&listed).is_empty(), "{path}: {listed:?}");
        assert_eq!(titles(&broker.get(&format!("{path}?all-names=true"))).len(), 1, "{path}");
    }
    for path in ["/a%20t/Subscriptions/s", "/a%20t/Subscriptions/s/Rules/$Default"] {
        assert_eq!(broker.get(path).status, 404, "{path}");
        assert_eq!(broker.delete(path).status, 404, "{path}");
        assert_eq!(broker.get(&format!("{path}?all-names=true")).status, 200, "{path}");
    }
    assert_eq!(broker.create("/a%20t/Subscriptions/s2", S, "").status, 404);
}

#[test]
fn a_request_for_all_names_manages_them() {
    let mut broker = Broker::new();
    for (name, path) in TEXTS {
        let path = format!("{path}?api-version=2021-05&all-names=true");
        assert_eq!(broker.create(&path, Q, "").status, 201, "{name}");
        let shown = broker.get(&path);
        let described = crate::client::read_entity(shown.text().as_bytes()).unwrap().unwrap();
        assert_eq!(described.name, name);
        let changed = broker.update(&path, Q, "<MaxDeliveryCount>3</MaxDeliveryCount>");
        assert_eq!(text(&changed, "MaxDeliveryCount"), Some("3"), "{name}");
        let listed = broker.get("/$Resources/queues?all-names=true");
        let listed = crate::client::read_entities(listed.text().as_bytes()).unwrap();
        assert_eq!(listed.iter().map(|entity| entity.name.as_str()).collect::<Vec<_>>(), [name]);
        assert_eq!(broker.delete(&path).status, 200, "{name}");
    }
    let refused = broker.create("/a%0Ab?all-names=true", Q, "");
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[test]
fn addresses_in_answers_are_urls() {
    let mut broker = with_texts();
    let shown = broker.get("/gr%C3%B6%C3%9Fe?api-version=2021-05&all-names=true");
    assert_eq!(text(&shown, "id"), Some("https://ns.example:5300/gr%C3%B6%C3%9Fe?api-version=2021-05"));
    let shown = broker.get("/50%25%3F?api-version=2021-05&all-names=true");
    assert_eq!(text(&shown, "id"), Some("https://ns.example:5300/50%25%3F?api-version=2021-05"));
}

#[test]
fn service_bus_forwards_to_none_of_them_but_keeps_a_target_that_is_there() {
    let mut broker = with_texts();
    let to = "<ForwardTo>a%20b</ForwardTo>";
    let missing = broker.create("/new", Q, to);
    assert!(detail(&missing).1.starts_with("SubCode=40400. Bad Request."), "{missing:?}");
    assert_eq!(broker.update("/plain", Q, to).status, 400);
    assert_eq!(broker.request(Method::Put, "/plain?all-names=true", Some("*"), &body(Q, to)).status, 200);
    assert_eq!(broker.update("/plain", Q, to).status, 200);
    assert_eq!(broker.update("/plain", Q, "<ForwardTo>größe</ForwardTo>").status, 400);
    assert_eq!(broker.update("/plain", Q, "").status, 200);
}
