use std::{collections::BTreeMap, time::Duration};

use broker_core::{Activity, EntityStatus, EntityVersion, LockLifetime, QueueId, Timestamp};

use super::*;

/// An entity as the core reports it.
fn report(kind: EntityKind, settings: EntitySettings) -> EntityReport {
    let zero = Timestamp::from_millis(0);
    EntityReport {
        name: "q".into(),
        kind,
        settings: Box::new(settings),
        created_at: zero,
        updated_at: zero,
        accessed_at: zero,
        version: EntityVersion::new(QueueId(1), zero),
        active_and_deferred: 0,
        scheduled: 0,
        dead_letter: 0,
        transfer_dead_letter: 0,
        bytes: 0,
        max_message_bytes: 1 << 20,
        subscriptions: 0,
        activity: Activity::default(),
        sql_filters: 0,
        correlation_filters: 0,
    }
}

/// Every property with another value than the default's.
fn other() -> EntitySettings {
    EntitySettings {
        lock_duration: Duration::from_secs(30),
        hold: LockLifetime::Lock,
        max_delivery_count: 7,
        default_time_to_live: Some(Duration::from_secs(60)),
        dead_letter_on_expiration: true,
        dead_letter_on_filter_error: false,
        max_message_bytes: Some(64 << 10),
        max_size_bytes: Some(1 << 30),
        requires_session: true,
        requires_duplicate_detection: true,
        duplicate_detection_window: Duration::from_secs(20),
        enable_partitioning: true,
        status: EntityStatus::Disabled,
        forward_to: Some("a".into()),
        forward_dead_lettered_to: Some("b".into()),
        auto_delete_on_idle: Some(Duration::from_secs(300)),
        user_metadata: Some("note".into()),
        ..EntitySettings::default()
    }
}

#[test]
fn each_property_that_a_file_can_have_is_compared_and_set() {
    for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
        let mut found = report(kind, EntitySettings::default());
        let differing = changes(Some(&found), kind, &other(), &Named::All);
        let keys: Vec<&str> = differing.iter().map(|change| change.property.key).collect();
        let expected: Vec<&str> = property::of(kind)
            .filter(|property| property.is_in_files())
            .map(|property| property.key)
            .collect();
        assert_eq!(keys, expected, "{kind:?}");
        for key in keys {
            let one = Named::Only(vec![key]);
            assert_eq!(changes(Some(&found), kind, &other(), &one).len(), 1, "{kind:?} {key}");
            set(EntityProperty::of_key(key).unwrap(), &mut found.settings, &other());
            found.max_message_bytes = found.settings.max_message_bytes.unwrap_or(1 << 20);
            assert_eq!(changes(Some(&found), kind, &other(), &one), [], "{kind:?} {key}");
        }
        assert_eq!(changes(Some(&found), kind, &other(), &Named::All), [], "{kind:?}");
    }
}

#[test]
fn a_property_that_the_file_does_not_name_is_no_difference() {
    let found = report(EntityKind::Queue, other());
    let nothing = Named::Only(Vec::new());
    assert_eq!(changes(Some(&found), EntityKind::Queue, &EntitySettings::default(), &nothing), []);
}

#[test]
fn a_new_target_takes_the_place_of_its_old_text_too() {
    let mut settings = EntitySettings {
        forward_to: Some("old".into()),
        other: BTreeMap::from([("ForwardTo".into(), "sb://host/old".into())]),
        ..EntitySettings::default()
    };
    set(EntityProperty::ForwardTo.row(), &mut settings, &other());
    assert_eq!((settings.forward_to.as_deref(), settings.other.len()), (Some("a"), 0));
}
