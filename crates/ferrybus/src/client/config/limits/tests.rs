use std::time::Duration;

use broker_core::{EntityKind, EntitySettings};
use serde_json::json;

use super::*;

#[test]
fn each_profile_has_defaults_of_its_own_and_leaves_refused_properties() {
    let hour = Some(Duration::from_secs(3_600));
    let days = |days: u64| Some(Duration::from_secs(days * 86_400));
    let cases = [
        // profile, time to live of the file, and as shown, megabytes as shown
        ("Standard", None, None, None),
        ("Standard", days(20), days(20), None),
        ("Basic", None, days(14), None),
        ("Basic", days(20), days(20), None),
        ("emulator", None, hour, Some(100)),
        ("emulator", hour, hour, Some(100)),
        ("emulator", days(1), days(1), None),
        // A broker of tomorrow.
        ("Premium", None, None, None),
    ];
    for (profile, asked, expected, megabytes) in cases {
        let settings = EntitySettings { default_time_to_live: asked, ..EntitySettings::default() };
        let limits = Limits::read(&json!({ "profile": profile, "max_message_bytes": 1 << 20 }));
        let settled = limits.settled(&EntityPlan::queue("q", settings)).settings;
        assert_eq!(settled.default_time_to_live, expected, "{profile} {asked:?}");
        assert_eq!(settled.max_size_bytes.map(|bytes| bytes >> 20), megabytes, "{profile} {asked:?}");
    }
}

#[test]
fn the_brokers_largest_message_caps_those_of_entities() {
    let limits = Limits::read(&json!({ "profile": "Standard", "max_message_bytes": 5_000 }));
    for (asked, expected) in [(None, None), (Some(3_000), Some(3_000)), (Some(1 << 20), Some(4_096))] {
        let settings = EntitySettings { max_message_bytes: asked, ..EntitySettings::default() };
        assert_eq!(limits.settled(&EntityPlan::queue("q", settings)).settings.max_message_bytes, expected);
    }
    let settings = EntitySettings { max_message_bytes: Some(9 << 20), ..EntitySettings::default() };
    let plan = EntityPlan::queue("q", settings);
    assert_eq!(UNKNOWN.settled(&plan).settings, plan.settings);
}

#[test]
fn a_forwarding_subscription_loses_its_idle_time_and_a_queue_keeps_it() {
    let settings = EntitySettings {
        forward_to: Some("other".into()),
        auto_delete_on_idle: Some(Duration::from_secs(3_600)),
        ..EntitySettings::default()
    };
    let idle = |kind| {
        let plan = EntityPlan { kind, ..EntityPlan::queue("q", settings.clone()) };
        UNKNOWN.settled(&plan).settings.auto_delete_on_idle
    };
    assert_eq!(idle(EntityKind::Queue), settings.auto_delete_on_idle);
    assert_eq!(idle(EntityKind::Subscription), None);
}
