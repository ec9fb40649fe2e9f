use super::*;

#[test]
fn each_property_of_the_schema_is_one_of_ours() {
    for (kind, count) in [
        (EntityKind::Queue, PROPERTIES.len()),
        (EntityKind::Topic, topics::TOPIC.len()),
        (EntityKind::Subscription, topics::SUBSCRIPTION.len()),
    ] {
        let Named::Only(keys) = named(kind) else { panic!("{kind:?}") };
        assert_eq!(keys.len(), count, "{kind:?}: {keys:?}");
        assert!(!keys.contains(&"status") && !keys.contains(&"max_size_bytes"), "{kind:?}: {keys:?}");
    }
}
