use std::{collections::BTreeMap, time::Duration};

use broker_core::{
    AccessRight, Activity, AuthorizationRule, EntityReport, EntityVersion, KeyText, QueueId, Timestamp,
};
use proptest::prelude::*;

use super::*;
use crate::Query;

fn report(kind: EntityKind, settings: EntitySettings) -> EntityReport {
    EntityReport {
        name: "e".into(),
        kind,
        settings: Box::new(settings),
        created_at: Timestamp::from_millis(1_735_689_600_000),
        updated_at: Timestamp::from_millis(1_735_689_600_000),
        accessed_at: Timestamp::default(),
        version: EntityVersion::new(QueueId(1), Timestamp::from_millis(1_735_689_600_000)),
        active_and_deferred: 1,
        scheduled: 2,
        dead_letter: 3,
        transfer_dead_letter: 4,
        bytes: 5,
        max_message_bytes: 1 << 20,
        subscriptions: 6,
        activity: Activity::default(),
        sql_filters: 7,
        correlation_filters: 8,
    }
}

fn query(version: &str) -> Query {
    Query::parse(&format!("api-version={version}")).unwrap()
}

fn shown(report: &EntityReport, version: &str, with_counts: bool) -> String {
    let mut out = String::new();
    write(&mut out, Shown { report, query: &query(version), with_counts });
    out
}

fn read_text(text: &str) -> Result<Description, String> {
    xml::with_document(text.as_bytes(), |document| read(document.root_element()))
        .map_err(|e| e.to_string())?
}

fn body(kind: EntityKind, inside: &str) -> String {
    let name = element_name(kind);
    format!("<{name} xmlns=\"{}\" xmlns:i=\"{}\">{inside}</{name}>", xml::SERVICE_BUS, xml::INSTANCE)
}

/// Read for an entity that is created.
fn description(kind: EntityKind, inside: &str) -> Result<Description, String> {
    read_text(&body(kind, inside))
}

fn update(kind: EntityKind, inside: &str) -> Result<Description, String> {
    xml::with_document(body(kind, inside).as_bytes(), |document| read_update(document.root_element()))
        .unwrap()
}

/// The names of the elements in an answer, in order, those inside others left out.
fn elements(text: &str) -> Vec<String> {
    let names = |document: &Document<'_>| {
        let elements = document.root_element().children().filter(Node::is_element);
        elements.map(|node| node.tag_name().name().to_owned()).collect()
    };
    xml::with_document(text.as_bytes(), names).unwrap()
}

#[test]
fn an_empty_description_is_all_defaults() {
    for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
        let read = description(kind, "").unwrap();
        let size = (kind != EntityKind::Subscription).then_some(1 << 30);
        assert_eq!(read.settings, EntitySettings { max_size_bytes: size, ..EntitySettings::default() });
        assert_eq!(read.kind, kind);
    }
}

#[test]
fn answers_have_the_services_order_of_elements() {
    let queue = "LockDuration MaxSizeInMegabytes RequiresDuplicateDetection RequiresSession DefaultMessageTimeToLive \
         DeadLetteringOnMessageExpiration DuplicateDetectionHistoryTimeWindow MaxDeliveryCount \
         EnableBatchedOperations SizeInBytes MessageCount IsAnonymousAccessible AuthorizationRules Status ForwardTo \
         UserMetadata CreatedAt UpdatedAt AccessedAt SupportOrdering CountDetails AutoDeleteOnIdle \
         EnablePartitioning EntityAvailabilityStatus ForwardDeadLetteredMessagesTo EnableExpress \
         MaxMessageSizeInKilobytes";
    let topic = "DefaultMessageTimeToLive MaxSizeInMegabytes RequiresDuplicateDetection \
         DuplicateDetectionHistoryTimeWindow EnableBatchedOperations SizeInBytes FilteringMessagesBeforePublishing \
         IsAnonymousAccessible AuthorizationRules Status UserMetadata CreatedAt UpdatedAt AccessedAt SupportOrdering \
         CountDetails SubscriptionCount AutoDeleteOnIdle EnablePartitioning EntityAvailabilityStatus \
         EnableSubscriptionPartitioning EnableExpress MaxMessageSizeInKilobytes";
    let subscription = "LockDuration RequiresSession DefaultMessageTimeToLive DeadLetteringOnMessageExpiration \
         DeadLetteringOnFilterEvaluationExceptions MessageCount MaxDeliveryCount EnableBatchedOperations Status \
         ForwardTo CreatedAt UpdatedAt AccessedAt UserMetadata CountDetails ForwardDeadLetteredMessagesTo \
         AutoDeleteOnIdle EntityAvailabilityStatus IsClientAffine";
    let kinds =
        [(EntityKind::Queue, queue), (EntityKind::Topic, topic), (EntityKind::Subscription, subscription)];
    for (kind, expected) in kinds {
        let settings = EntitySettings {
            forward_to: Some("a".into()),
            forward_dead_lettered_to: Some("b".into()),
            user_metadata: Some("c".into()),
            ..EntitySettings::default()
        };
        let report = report(kind, settings);
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(elements(&shown(&report, "2021-05", true)), expected, "{kind:?}");
        let without = elements(&shown(&report, "2017-04", false));
        let missing = ["CountDetails", "SubscriptionCount", "MaxMessageSizeInKilobytes"];
        assert!(missing.iter().all(|name| !without.iter().any(|shown| shown == name)), "{without:?}");
        assert_eq!(without.iter().any(|name| name == "AccessedAt"), kind == EntityKind::Subscription);
    }
}

#[test]
fn a_topic_counts_its_filters_since_the_version_of_2024() {
    let report = report(EntityKind::Topic, EntitySettings::default());
    let counts = "<SubscriptionCount>6</SubscriptionCount><SqlFilterCount>7</SqlFilterCount>\
         <CorrelationFilterCount>8</CorrelationFilterCount>";
    for (version, with_counts, expected) in [
        ("2024-05", true, true),
        ("", true, true),
        ("2024-05", false, false),
        ("2021-05", true, false),
        ("2017-04", true, false),
    ] {
        assert_eq!(
            shown(&report, version, with_counts).contains(counts),
            expected,
            "{version} {with_counts}"
        );
    }
}

#[test]
fn counts_have_one_prefix_that_they_declare() {
    let text = shown(&report(EntityKind::Queue, EntitySettings::default()), "2021-05", true);
    let counts = "<CountDetails xmlns:d2p1=\"http://schemas.microsoft.com/netservices/2011/06/servicebus\">\
         <d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount>\
         <d2p1:DeadLetterMessageCount>3</d2p1:DeadLetterMessageCount>\
         <d2p1:ScheduledMessageCount>2</d2p1:ScheduledMessageCount>\
         <d2p1:TransferMessageCount>0</d2p1:TransferMessageCount>\
         <d2p1:TransferDeadLetterMessageCount>4</d2p1:TransferDeadLetterMessageCount></CountDetails>";
    assert!(text.contains(counts), "{text}");
    assert!(text.contains("<MessageCount>10</MessageCount>"), "{text}");
}

#[test]
fn what_waits_to_be_forwarded_is_counted_apart() {
    for (target, active, transfer) in [(None, 9, 0), (Some("q"), 4, 5)] {
        let settings = EntitySettings { forward_to: target.map(Box::from), ..EntitySettings::default() };
        let activity = Activity { deferred: 4, ..Activity::default() };
        let report = EntityReport { active_and_deferred: 9, activity, ..report(EntityKind::Queue, settings) };
        let text = shown(&report, "2021-05", true);
        let counts = format!(
            "<d2p1:ActiveMessageCount>{active}</d2p1:ActiveMessageCount>\
             <d2p1:DeadLetterMessageCount>3</d2p1:DeadLetterMessageCount>\
             <d2p1:ScheduledMessageCount>2</d2p1:ScheduledMessageCount>\
             <d2p1:TransferMessageCount>{transfer}</d2p1:TransferMessageCount>"
        );
        assert!(text.contains(&counts), "{text}");
        assert!(text.contains("<MessageCount>18</MessageCount>"), "{text}");
    }
}

#[test]
fn values_that_make_no_sense_are_named() {
    let cases = [
        (
            "<LockDuration>1 minute</LockDuration>",
            "`LockDuration` is '1 minute', expected an ISO 8601 duration, like PT5M",
        ),
        (
            "<MaxDeliveryCount>-1</MaxDeliveryCount>",
            "`MaxDeliveryCount` is '-1', expected a whole number, not negative",
        ),
        ("<RequiresSession>yes</RequiresSession>", "`RequiresSession` is 'yes', expected true or false"),
        (
            "<MaxSizeInMegabytes>1500</MaxSizeInMegabytes>",
            "`MaxSizeInMegabytes` is '1500', expected a multiple of 1024 from 1024 to 81920",
        ),
        (
            "<MaxSizeInMegabytes>82944</MaxSizeInMegabytes>",
            "`MaxSizeInMegabytes` is '82944', expected a multiple of 1024 from 1024 to 81920",
        ),
        (
            "<MaxMessageSizeInKilobytes>0</MaxMessageSizeInKilobytes>",
            "`MaxMessageSizeInKilobytes` is '0', expected 1 to 102400",
        ),
        (
            "<Status>Asleep</Status>",
            "`Status` is 'Asleep', expected Active, Disabled, SendDisabled or ReceiveDisabled",
        ),
        (
            "<ForwardTo>sb://host</ForwardTo>",
            "`ForwardTo` is 'sb://host', expected the name or URI of an entity",
        ),
    ];
    for (inside, expected) in cases {
        assert_eq!(description(EntityKind::Queue, inside).unwrap_err(), expected);
    }
    let other = read_text("<Thing/>").unwrap_err();
    assert_eq!(other, "the element `Thing` is no description of a queue, topic or subscription");
}

#[test]
fn a_size_beyond_those_that_can_be_set_may_come_back_but_not_be_set() {
    const GIB: u64 = 1 << 30;
    let refusal = |megabytes: u64| {
        Err(format!("`MaxSizeInMegabytes` is '{megabytes}', expected a multiple of 1024 from 1024 to 81920"))
    };
    // The size in bytes before, the megabytes that are sent, and the size after.
    let cases = [
        (Some(200 * GIB), 204_800, Ok(Some(200 * GIB))),
        (Some(200 * GIB + 1), 204_801, Ok(Some(200 * GIB + 1))),
        (Some(200 * GIB), 81_920, Ok(Some(80 * GIB))),
        (Some(200 * GIB), 205_824, refusal(205_824)),
        (Some(80 * GIB), 82_944, refusal(82_944)),
        (Some(80 * GIB), 204_800, refusal(204_800)),
        (None, 81_920, Ok(None)),
        (None, 204_800, refusal(204_800)),
        (Some(200 * GIB), 0, refusal(0)),
        (Some(200 * GIB), 1 << 44, refusal(1 << 44)),
        (Some(200 * GIB), (1 << 44) + 204_800, refusal((1 << 44) + 204_800)),
        (Some(200 * GIB), u64::MAX, refusal(u64::MAX)),
    ];
    for partitioned in [false, true] {
        for (max_size_bytes, megabytes, expected) in cases.clone() {
            let settings = EntitySettings {
                max_size_bytes,
                enable_partitioning: partitioned,
                ..EntitySettings::default()
            };
            let before = report(EntityKind::Queue, settings);
            let inside = format!("<MaxSizeInMegabytes>{megabytes}</MaxSizeInMegabytes>");
            let after = update(EntityKind::Queue, &inside).and_then(|mut description| {
                description.take_size_as_of_partition();
                description.over(&before)
            });
            let after = after.map(|settings| settings.max_size_bytes);
            assert_eq!(after, expected, "{max_size_bytes:?} {megabytes} {partitioned}");
        }
    }
    // The size that was shown may come back.
    let settings = EntitySettings { max_size_bytes: Some(200 * GIB), ..EntitySettings::default() };
    let before = report(EntityKind::Queue, settings.clone());
    let text = shown(&before, "2021-05", false);
    assert!(text.contains("<MaxSizeInMegabytes>204800</MaxSizeInMegabytes>"), "{text}");
    let read = xml::with_document(text.as_bytes(), |document| read_update(document.root_element()));
    assert_eq!(read.unwrap().unwrap().over(&before).unwrap().max_size_bytes, settings.max_size_bytes);
    for megabytes in [204_800, 81_920 + 1_024, 1 << 44, u64::MAX] {
        let inside = format!("<MaxSizeInMegabytes>{megabytes}</MaxSizeInMegabytes>");
        let read = description(EntityKind::Queue, &inside).map(|_| ());
        assert_eq!(read, refusal(megabytes).map(|_: Option<u64>| ()));
    }
}

#[test]
fn forward_targets_are_names_whatever_their_uri_and_shown_as_written() {
    let cases = [
        ("audit", "audit"),
        ("sb://host:5300/audit", "audit"),
        ("http://host/a/b/", "a/b"),
        ("https://host/a%2Fb", "a/b"),
        ("/audit", "audit"),
    ];
    for (written, target) in cases {
        let read = description(EntityKind::Queue, &format!("<ForwardTo>{written}</ForwardTo>")).unwrap();
        assert_eq!(read.settings.forward_to.as_deref(), Some(target));
        let text = shown(&report(EntityKind::Queue, read.settings), "2021-05", false);
        assert!(text.contains(&format!("<ForwardTo>{written}</ForwardTo>")), "{text}");
    }
}

fn key(letter: char) -> String {
    format!("{}=", letter.to_string().repeat(43))
}

#[test]
fn flags_that_change_nothing_are_flags_all_the_same() {
    for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
        let kept = EntityProperty::of(kind).filter_map(|row| match row.value_type {
            PropertyType::Kept(default) => Some((row.element, word(default))),
            _ => None,
        });
        for (name, default) in kept {
            for (written, expected) in [
                ("true", Some("true")),
                ("True", Some("true")),
                (" 1 ", Some("true")),
                ("FALSE", Some("false")),
                ("0", Some("false")),
                ("", Some(default)),
                ("banana", None),
            ] {
                let read = description(kind, &format!("<{name}>{written}</{name}>"));
                let shown = read.map(|read| shown(&report(kind, read.settings), "2021-05", false));
                match (shown, expected) {
                    (Ok(text), Some(word)) => {
                        assert!(text.contains(&format!("<{name}>{word}</{name}>")), "{written}: {text}");
                    }
                    (Err(reason), None) => {
                        assert_eq!(reason, format!("`{name}` is 'banana', expected true or false"));
                    }
                    other => panic!("{name} {written}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn what_was_stored_before_flags_were_checked_breaks_no_reader() {
    let other = BTreeMap::from([("EnableExpress".into(), "banana".into())]);
    let text = shown(
        &report(EntityKind::Queue, EntitySettings { other, ..EntitySettings::default() }),
        "2021-05",
        false,
    );
    assert!(text.contains("<EnableExpress>false</EnableExpress>"), "{text}");
}

#[test]
fn authorization_rules_are_shown_again_with_the_times_that_were_given_alone() {
    let (first, second) = (key('a'), key('b'));
    let given = format!(
        "<AuthorizationRule i:type=\"SharedAccessAuthorizationRule\"><ClaimType>SharedAccessKey</ClaimType>\
         <ClaimValue>None</ClaimValue><Rights><AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights>\
         </Rights><CreatedTime>2000-01-01T00:00:00Z</CreatedTime><KeyName>till</KeyName>\
         <PrimaryKey>{first}</PrimaryKey><SecondaryKey>{second}</SecondaryKey></AuthorizationRule>"
    );
    let inside = format!("<AuthorizationRules>{given}</AuthorizationRules>");
    let modified = "<CreatedTime>2000-01-01T00:00:00Z</CreatedTime><ModifiedTime>2025-01-01T00:00:00.500Z</ModifiedTime>";
    for times in ["", "<CreatedTime>2000-01-01T00:00:00Z</CreatedTime>", modified] {
        let inside = inside.replace("<CreatedTime>2000-01-01T00:00:00Z</CreatedTime>", times);
        let read = description(EntityKind::Queue, &inside).unwrap();
        let text = shown(&report(EntityKind::Queue, read.settings), "2021-05", true);
        assert!(text.contains(&inside), "{text}");
    }
    let never = inside.replace("2000-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
    let read = description(EntityKind::Queue, &never).unwrap();
    let text = shown(&report(EntityKind::Queue, read.settings), "2021-05", true);
    assert!(!text.contains("CreatedTime"), "{text}");
    let wrong = description(EntityKind::Queue, &inside.replace("2000-01-01T00:00:00Z", "yesterday"));
    assert_eq!(wrong.unwrap_err(), "`CreatedTime` is 'yesterday', expected a date and time");
    // A subscription has none of its own.
    assert_eq!(description(EntityKind::Subscription, &inside).unwrap().settings.authorization, []);
}

#[test]
fn authorization_rules_that_make_no_sense_are_named() {
    let rule = |kind: &str, right: &str| {
        format!(
            "<AuthorizationRules><AuthorizationRule i:type=\"{kind}\"><Rights><AccessRights>{right}</AccessRights>\
             </Rights><KeyName>k</KeyName></AuthorizationRule></AuthorizationRules>"
        )
    };
    let cases = [
        (
            rule("AllowRule", "Send"),
            "an `AuthorizationRule` is of type 'AllowRule', expected SharedAccessAuthorizationRule",
        ),
        (
            rule("a:SharedAccessAuthorizationRule", "Own"),
            "`AccessRights` is 'Own', expected Manage, Send or Listen",
        ),
    ];
    for (inside, expected) in cases {
        assert_eq!(description(EntityKind::Topic, &inside).unwrap_err(), expected);
    }
}

fn authorization_rule() -> impl Strategy<Value = AuthorizationRule> {
    let all = vec![AccessRight::Manage, AccessRight::Send, AccessRight::Listen];
    let rights = proptest::sample::subsequence(all, 1..=3).prop_shuffle();
    let key = || "[A-Za-z0-9+/]{43}=".prop_map(KeyText::new);
    ("[A-Za-z0-9_.-]{1,20}", rights, key(), proptest::option::of(key())).prop_map(
        |(name, rights, primary, secondary)| AuthorizationRule {
            name: name.into(),
            rights,
            primary,
            secondary,
            created_at: Timestamp::default(),
            modified_at: Timestamp::default(),
        },
    )
}

fn settings() -> impl Strategy<Value = EntitySettings> {
    let texts = (
        proptest::option::of("[a-z]{1,10}(/[a-z]{1,5})?"),
        proptest::option::of("[a-z]{1,10}"),
        proptest::option::of("[ -~\n\t]{0,9}[!-~ä][ -~\r\n]{0,9}"),
    );
    let times = (1_000..300_000u64, proptest::option::of(1_000..1u64 << 40), 20_000..604_800_000u64);
    let numbers = (1..i32::MAX.unsigned_abs(), proptest::option::of(300_000..1u64 << 40), 1..=80u64);
    let status = prop_oneof![
        Just(EntityStatus::Active),
        Just(EntityStatus::Disabled),
        Just(EntityStatus::SendDisabled),
        Just(EntityStatus::ReceiveDisabled)
    ];
    (texts, times, numbers, any::<[bool; 6]>(), status).prop_map(
        |((to, dead_to, note), (lock, ttl, window), (count, idle, size), flags, status)| EntitySettings {
            lock_duration: Duration::from_millis(lock),
            hold: if flags[5] { LockLifetime::Lock } else { LockLifetime::Link },
            max_delivery_count: count,
            default_time_to_live: ttl.map(Duration::from_millis),
            dead_letter_on_expiration: flags[0],
            dead_letter_on_filter_error: flags[1],
            max_message_bytes: None,
            max_size_bytes: Some(size << 30),
            requires_session: flags[2],
            requires_duplicate_detection: flags[3],
            duplicate_detection_window: Duration::from_millis(window),
            enable_partitioning: flags[4],
            status,
            forward_to: to.map(Box::from),
            forward_dead_lettered_to: dead_to.map(Box::from),
            auto_delete_on_idle: idle.map(Duration::from_millis),
            user_metadata: note.map(Box::from),
            authorization: Vec::new(),
            other: BTreeMap::new(),
        },
    )
}

proptest! {
    #[test]
    fn a_description_that_was_shown_is_read_back(
        settings in settings(),
        authorization in proptest::collection::vec(authorization_rule(), 0..4),
    ) {
        let settings = EntitySettings { authorization, ..settings };
        let text = shown(&report(EntityKind::Queue, settings.clone()), "2017-04", false);
        let mut read = read_text(&text).unwrap().settings;
        read.other.clear();
        // A queue has no rules that could fail.
        let expected = EntitySettings { dead_letter_on_filter_error: true, ..settings };
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn no_description_panics(inside in "(<(LockDuration|Status|ForwardTo|AuthorizationRules|AuthorizationRule|Rights)>|</(LockDuration|Status|ForwardTo|AuthorizationRules|AuthorizationRule|Rights)>|[a-z0-9:/%PT.-]{0,8}){0,12}") {
        drop(description(EntityKind::Queue, &inside));
    }
}
