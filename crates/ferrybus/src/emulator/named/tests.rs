use super::*;

/// The names as the emulator's schema has them.
#[test]
fn each_property_of_the_schema_is_one_of_ours() {
    let queue = [
        "LockDuration",
        "MaxDeliveryCount",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "RequiresSession",
        "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow",
        "ForwardTo",
        "ForwardDeadLetteredMessagesTo",
    ];
    let topic =
        ["DefaultMessageTimeToLive", "RequiresDuplicateDetection", "DuplicateDetectionHistoryTimeWindow"];
    let subscription = [
        "LockDuration",
        "MaxDeliveryCount",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "RequiresSession",
        "ForwardTo",
        "ForwardDeadLetteredMessagesTo",
    ];
    let kinds: [(EntityKind, &[&str]); 3] =
        [(EntityKind::Queue, &queue), (EntityKind::Topic, &topic), (EntityKind::Subscription, &subscription)];
    for (kind, elements) in kinds {
        let found: Vec<&str> = schema(kind).map(|row| row.element).collect();
        assert_eq!(found, elements, "{kind:?}");
        let keys = schema(kind).map(|row| row.key).collect();
        assert_eq!(named(kind), Named::Only(keys), "{kind:?}");
    }
}
