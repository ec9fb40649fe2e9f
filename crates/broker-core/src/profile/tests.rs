use super::*;

fn settings(change: impl FnOnce(&mut EntitySettings)) -> EntitySettings {
    let mut settings = EntitySettings::default();
    change(&mut settings);
    settings
}

#[test]
fn each_profile_has_its_defaults_and_bounds() {
    let days = |days: u64| Some(Duration::from_secs(days * DAY));
    let hour = Some(Duration::from_secs(3_600));
    let over = Some(Duration::from_millis(3_600_001));
    // profile, time to live asked, time to live got
    let cases = [
        (Profile::STANDARD, None, Ok(None)),
        (Profile::STANDARD, days(400), Ok(days(400))),
        (Profile::BASIC, None, Ok(days(14))),
        (Profile::BASIC, days(1), Ok(days(1))),
        (Profile::BASIC, days(14), Ok(days(14))),
        (Profile::BASIC, days(15), Err("at most 14 days")),
        (Profile::EMULATOR, None, Ok(hour)),
        (Profile::EMULATOR, hour, Ok(hour)),
        (Profile::EMULATOR, over, Err("at most 1 hour")),
    ];
    for (profile, asked, expected) in cases {
        let mut own = settings(|own| own.default_time_to_live = asked);
        let checked = profile.check(EntityKind::Queue, &mut own);
        let found = match checked {
            Ok(()) => Ok(own.default_time_to_live),
            Err(EntityError::OutOfRange { property: "DefaultMessageTimeToLive", allowed, .. }) => {
                Err(allowed)
            }
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{} {asked:?}", profile.name);
    }
}

#[test]
fn the_basic_tier_has_plain_queues_only() {
    type Change = fn(&mut EntitySettings);
    let cases: [(&str, Change); 7] = [
        ("RequiresSession", |own| own.requires_session = true),
        ("RequiresDuplicateDetection", |own| own.requires_duplicate_detection = true),
        ("AutoDeleteOnIdle", |own| own.auto_delete_on_idle = Some(Duration::from_secs(600))),
        ("ForwardTo", |own| own.forward_to = Some("q".into())),
        ("ForwardDeadLetteredMessagesTo", |own| own.forward_dead_lettered_to = Some("q".into())),
        ("EnablePartitioning", |own| own.enable_partitioning = true),
        ("EnableExpress", |own| drop(own.other.insert("EnableExpress".into(), "true".into()))),
    ];
    for (what, change) in cases {
        let refused = Err(EntityError::NotInProfile { what, profile: "Basic" });
        assert_eq!(Profile::BASIC.check(EntityKind::Queue, &mut settings(change)), refused);
        for profile in [Profile::STANDARD, Profile::EMULATOR] {
            assert_eq!(profile.check(EntityKind::Queue, &mut settings(change)), Ok(()), "{what}");
        }
    }
    for kind in [EntityKind::Topic, EntityKind::Subscription] {
        let refused = Err(EntityError::NotInProfile { what: "topics", profile: "Basic" });
        assert_eq!(Profile::BASIC.check(kind, &mut EntitySettings::default()), refused);
    }
    assert!(!Profile::BASIC.has_transactions() && Profile::STANDARD.has_transactions());
}

#[test]
fn the_emulator_bounds_deliveries_and_sizes() {
    let most = 100 << 20;
    let cases = [
        (10, None, Some(most)),
        (11, None, None),
        (1, Some(most - 1), Some(most - 1)),
        (1, Some(most), Some(most)),
        // Values that administration clients send by default.
        (1, Some(1 << 30), Some(most)),
    ];
    for case @ (max_delivery_count, max_size_bytes, expected) in cases {
        let mut own = EntitySettings { max_delivery_count, max_size_bytes, ..EntitySettings::default() };
        let checked = Profile::EMULATOR.check(EntityKind::Queue, &mut own);
        assert_eq!(checked.ok().and(own.max_size_bytes), expected, "{case:?}");
        let mut own = EntitySettings { max_delivery_count, max_size_bytes, ..EntitySettings::default() };
        assert_eq!(Profile::STANDARD.check(EntityKind::Queue, &mut own), Ok(()));
        assert_eq!(own.max_size_bytes, max_size_bytes);
    }
}

#[test]
fn sizes_of_the_premium_tier_are_refused_where_there_is_only_standard() {
    let message =
        Err(EntityError::NotInProfile { what: "MaxMessageSizeInKilobytes", profile: "standard-only" });
    let entity = |megabytes: &str| {
        let (property, allowed) = ("MaxSizeInMegabytes", "at most 5120");
        Err(EntityError::OutOfRange { property, value: megabytes.into(), allowed })
    };
    let cases = [
        // bytes of a message, bytes of the entity
        (None, None, Ok(())),
        (Some(MESSAGE_BYTES), Some(ENTITY_BYTES), Ok(())),
        (Some(MESSAGE_BYTES - 1), None, message.clone()),
        (Some(MESSAGE_BYTES + 1), None, message.clone()),
        (Some(1 << 20), Some(1 << 40), message),
        (None, Some(ENTITY_BYTES + 1), entity("5121")),
        (None, Some(80 << 30), entity("81920")),
    ];
    for (max_message_bytes, max_size_bytes, expected) in cases {
        for kind in [EntityKind::Queue, EntityKind::Topic] {
            let asked = EntitySettings { max_message_bytes, max_size_bytes, ..EntitySettings::default() };
            let mut own = asked.clone();
            assert_eq!(Profile::STANDARD_ONLY.check(kind, &mut own), expected);
            assert_eq!(own, asked);
            assert_eq!(Profile::STANDARD.check(kind, &mut own), Ok(()));
        }
    }
}

#[test]
fn profiles_are_found_by_their_names() {
    for profile in [Profile::STANDARD, Profile::STANDARD_ONLY, Profile::BASIC, Profile::EMULATOR] {
        assert_eq!(Profile::named(profile.name()), Some(profile));
    }
    assert_eq!(Profile::named("Premium"), None);
}
