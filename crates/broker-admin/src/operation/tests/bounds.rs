//! Bounds of each property: the last allowed value, the first refused one, and the error.

use super::*;

/// A property of a description.
struct Row {
    name: &'static str,
    /// What it takes, and how it is shown.
    takes: &'static [(&'static str, &'static str)],
    refuses: &'static [&'static str],
    /// Fixed at creation.
    is_fixed: bool,
}

const fn row(
    name: &'static str,
    takes: &'static [(&'static str, &'static str)],
    refuses: &'static [&'static str],
) -> Row {
    Row { name, takes, refuses, is_fixed: false }
}

const fn fixed(name: &'static str) -> Row {
    Row { is_fixed: true, ..flag(name) }
}

const fn flag(name: &'static str) -> Row {
    row(
        name,
        &[("true", "true"), ("false", "false"), ("True", "true"), ("1", "true"), ("0", "false")],
        &["yes", "2", "-1", "PT1S"],
    )
}

const EVER: &str = "P10675199DT2H48M5.4775807S";
/// 1,024 characters that are not one byte each.
const NOTE: &str = "ä";

const LOCK: Row = row(
    "LockDuration",
    &[("PT0.001S", "PT0.001S"), ("PT5S", "PT5S"), ("PT300S", "PT5M"), ("PT5M", "PT5M")],
    &["PT0S", "PT5M0.001S", EVER, "-PT1M", "PT", "60", "1.00:00:00", "true"],
);
const SIZE: Row = row(
    "MaxSizeInMegabytes",
    &[("1024", "1024"), ("2048", "2048"), ("81920", "81920")],
    &["0", "1", "1023", "1025", "81921", "82944", "-1024", "1024.0", "PT1S", "99999999999999999999"],
);
const TIME_TO_LIVE: Row = row(
    "DefaultMessageTimeToLive",
    &[
        ("PT1S", "PT1S"),
        ("P10675198D", "P10675198D"),
        ("P10675199D", EVER),
        ("P10675199DT2H48M5.477539S", EVER),
        ("PT256204778H48M5.4775807S", EVER),
        (EVER, EVER),
    ],
    &["PT0S", "PT0.999S", "-PT1S", "14 days", "1"],
);
const WINDOW: Row = row(
    "DuplicateDetectionHistoryTimeWindow",
    &[("PT20S", "PT20S"), ("P7D", "P7D"), ("PT168H", "P7D")],
    &["PT0S", "PT19.999S", "P7DT0.001S", EVER, "20"],
);
const DELIVERIES: Row = row(
    "MaxDeliveryCount",
    &[("1", "1"), ("2000", "2000"), ("2147483647", "2147483647")],
    &["0", "-1", "2147483648", "4294967297", "1.5", "many"],
);
const IDLE: Row = row(
    "AutoDeleteOnIdle",
    &[("PT5M", "PT5M"), ("P427D", "P427D"), (EVER, EVER)],
    &["PT0S", "PT4M59.999S", "-PT5M", "300"],
);
const MESSAGE_SIZE: Row = row(
    "MaxMessageSizeInKilobytes",
    &[("1", "1"), ("1024", "1024"), ("102400", "102400")],
    &["0", "102401", "-1", "1.5", "256 KB"],
);
const STATUS: Row = row(
    "Status",
    &[
        ("Active", "Active"),
        ("Disabled", "Disabled"),
        ("SendDisabled", "SendDisabled"),
        ("ReceiveDisabled", "ReceiveDisabled"),
    ],
    &["Creating", "Deleting", "Renaming", "Restoring", "Unknown", "on"],
);

const QUEUE_ROWS: [Row; 18] = [
    LOCK,
    SIZE,
    fixed("RequiresDuplicateDetection"),
    fixed("RequiresSession"),
    TIME_TO_LIVE,
    flag("DeadLetteringOnMessageExpiration"),
    WINDOW,
    DELIVERIES,
    flag("EnableBatchedOperations"),
    flag("IsAnonymousAccessible"),
    STATUS,
    flag("SupportOrdering"),
    IDLE,
    fixed("EnablePartitioning"),
    flag("EnableExpress"),
    MESSAGE_SIZE,
    row(
        "ForwardTo",
        &[("target", "target"), ("sb://ns/target", "sb://ns/target")],
        &["sb://ns/", "https://ns"],
    ),
    row(
        "ForwardDeadLetteredMessagesTo",
        &[("/target", "/target"), ("http://ns:1/target/", "http://ns:1/target/")],
        &["sb://ns/", "%ff"],
    ),
];

const TOPIC_ROWS: [Row; 14] = [
    TIME_TO_LIVE,
    SIZE,
    fixed("RequiresDuplicateDetection"),
    WINDOW,
    flag("EnableBatchedOperations"),
    flag("FilteringMessagesBeforePublishing"),
    flag("IsAnonymousAccessible"),
    row(
        "Status",
        &[("Active", "Active"), ("Disabled", "Disabled"), ("SendDisabled", "SendDisabled")],
        &["ReceiveDisabled", "Creating"],
    ),
    flag("SupportOrdering"),
    IDLE,
    fixed("EnablePartitioning"),
    flag("EnableSubscriptionPartitioning"),
    flag("EnableExpress"),
    MESSAGE_SIZE,
];

const SUBSCRIPTION_ROWS: [Row; 12] = [
    LOCK,
    fixed("RequiresSession"),
    TIME_TO_LIVE,
    flag("DeadLetteringOnMessageExpiration"),
    flag("DeadLetteringOnFilterEvaluationExceptions"),
    DELIVERIES,
    flag("EnableBatchedOperations"),
    row(
        "Status",
        &[("Active", "Active"), ("Disabled", "Disabled"), ("ReceiveDisabled", "ReceiveDisabled")],
        &["SendDisabled", "Creating"],
    ),
    row("ForwardTo", &[("target", "target"), ("amqps://ns/target", "amqps://ns/target")], &["https://ns"]),
    row("ForwardDeadLetteredMessagesTo", &[("target", "target")], &["sb://"]),
    IDLE,
    flag("IsClientAffine"),
];

fn set(name: &str, text: &str) -> String {
    format!("<{name}>{text}</{name}>")
}

/// A core with what the rows need, whose largest message has 1 MiB.
fn prepared() -> Broker {
    let mut broker = Broker::new();
    assert_eq!(broker.create("/target", Q, "").status, 201);
    assert_eq!(broker.create("/t", T, "").status, 201);
    broker
}

fn is_refused(answer: &Answer, name: &str, what: &str) {
    let (status, text) = detail(answer);
    assert_eq!(status, 400, "{what}: {answer:?}");
    assert!(text.starts_with(&format!("SubCode=40000. Bad Request. `{name}` ")), "{what}: {text}");
}

/// The refusal of a change of what is fixed at creation.
fn is_fixed(answer: &Answer, name: &str, element: &str) {
    let (status, text) = detail(answer);
    let kind = element.trim_end_matches("Description");
    let begins = format!(
        "SubCode=40000. Bad Request. The value for the {name} property of an existing {kind} cannot be changed"
    );
    assert!(status == 400 && text.starts_with(&begins), "{element} {name}: {answer:?}");
}

#[test]
fn every_property_is_taken_at_its_bounds_and_refused_past_them() {
    let kinds: [(&str, &str, &[Row]); 3] = [
        (Q, "/entity", &QUEUE_ROWS),
        (T, "/entity", &TOPIC_ROWS),
        (S, "/t/Subscriptions/entity", &SUBSCRIPTION_ROWS),
    ];
    let mut broker = prepared();
    for (element, path, rows) in kinds {
        for Row { name, takes, refuses, is_fixed: is_fixed_row } in rows {
            let default = broker.create(path, element, "");
            let default = text(&default, name).unwrap_or_default().to_owned();
            for (given, shown) in *takes {
                let what = format!("{element} {name} {given}");
                let updated = broker.update(path, element, &set(name, given));
                if *is_fixed_row && *shown != default {
                    is_fixed(&updated, name, element);
                } else {
                    assert_eq!(
                        (updated.status, text(&updated, name)),
                        (200, Some(*shown)),
                        "{what}: {updated:?}"
                    );
                    assert_eq!(text(&broker.get(path), name), Some(*shown), "{what}");
                }
            }
            let before = broker.get(path);
            for given in *refuses {
                let what = format!("{element} {name} {given}");
                is_refused(&broker.update(path, element, &set(name, given)), name, &what);
                assert_eq!(broker.get(path), before, "{what} has changed nothing");
            }
            assert_eq!(broker.delete(path).status, 200);
            for (given, shown) in *takes {
                let made = broker.create(path, element, &set(name, given));
                assert_eq!((made.status, text(&made, name)), (201, Some(*shown)), "{name} {given}: {made:?}");
                assert_eq!(broker.delete(path).status, 200);
            }
            for given in *refuses {
                is_refused(&broker.create(path, element, &set(name, given)), name, given);
                assert_eq!(broker.delete(path).status, 404, "{name} {given} has made nothing");
            }
        }
    }
}

#[test]
fn what_is_fixed_stays_whichever_it_is() {
    let kinds: [(&str, &str, &[&str]); 3] = [
        (Q, "/entity", &["RequiresSession", "RequiresDuplicateDetection", "EnablePartitioning"]),
        (T, "/entity", &["RequiresDuplicateDetection", "EnablePartitioning"]),
        (S, "/t/Subscriptions/entity", &["RequiresSession"]),
    ];
    let mut broker = prepared();
    for (element, path, names) in kinds {
        for name in names {
            for (made, other) in [("true", "false"), ("false", "true")] {
                assert_eq!(broker.create(path, element, &set(name, made)).status, 201);
                let refused = broker.update(path, element, &set(name, other));
                is_fixed(&refused, name, element);
                for kept in [set(name, made), String::new()] {
                    let updated = broker.update(path, element, &kept);
                    assert_eq!((updated.status, text(&updated, name)), (200, Some(made)), "{updated:?}");
                }
                assert_eq!(broker.delete(path).status, 200);
            }
        }
    }
}

#[test]
fn notes_and_names_have_a_length() {
    let mut broker = prepared();
    for (element, path) in [(Q, "/entity"), (T, "/entity"), (S, "/t/Subscriptions/entity")] {
        for (length, status) in [(1, 201), (1_024, 201), (1_025, 400)] {
            let note = set("UserMetadata", &NOTE.repeat(length));
            let made = broker.create(path, element, &note);
            assert_eq!(made.status, status, "{element} {length}");
            if status == 400 {
                is_refused(&made, "UserMetadata", element);
            } else {
                assert_eq!(broker.delete(path).status, 200);
            }
        }
    }
    let rule = "<Filter i:type=\"TrueFilter\"/>";
    assert_eq!(broker.create("/t/Subscriptions/s", S, "").status, 201);
    let kinds = [
        (Q, "/", 260, ""),
        (T, "/", 260, ""),
        (S, "/t/Subscriptions/", 50, ""),
        (R, "/t/Subscriptions/s/Rules/", 50, rule),
    ];
    for (element, before, longest, inside) in kinds {
        for (length, status) in [(1, 201), (longest, 201), (longest + 1, 400)] {
            let path = format!("{before}{}", "n".repeat(length));
            let made = broker.create(&path, element, inside);
            assert_eq!(made.status, status, "{element} {length}: {made:?}");
            if status == 201 {
                assert_eq!(broker.delete(&path).status, 200);
            } else {
                assert!(detail(&made).1.ends_with(" is not a valid entity name."), "{made:?}");
            }
        }
        for bad in ["a b", "-a", "a.", "a$", "a%25", "a@b", "a:b", "%C3%B6"] {
            let made = broker.create(&format!("{before}{bad}"), element, inside);
            assert_eq!(detail(&made).0, 400, "{element} {bad}: {made:?}");
            assert!(detail(&made).1.starts_with("SubCode=40000. Bad Request. "), "{made:?}");
        }
    }
}

#[test]
fn targets_that_cannot_be_are_named() {
    let mut broker = prepared();
    assert_eq!(broker.create("/t/Subscriptions/s", S, "").status, 201);
    for (element, path) in [(Q, "/entity"), (S, "/t/Subscriptions/entity")] {
        for name in ["ForwardTo", "ForwardDeadLetteredMessagesTo"] {
            let own = path.trim_start_matches('/');
            for (target, code) in [("none", 40400), (own, 40000), ("t/Subscriptions/s", 40000)] {
                if target == own && element == Q {
                    // A queue may forward to itself, as in the service.
                    let made = broker.create(path, element, &set(name, target));
                    assert_eq!((made.status, text(&made, name)), (201, Some(target)), "{made:?}");
                    let updated = broker.update(path, element, &set(name, target));
                    assert_eq!((updated.status, text(&updated, name)), (200, Some(target)), "{updated:?}");
                    assert_eq!(broker.delete(path).status, 200);
                    continue;
                }
                for refused in [broker.create(path, element, &set(name, target)), {
                    assert_eq!(broker.create(path, element, "").status, 201);
                    broker.update(path, element, &set(name, target))
                }] {
                    let (status, text) = detail(&refused);
                    // Nothing is there yet that could be its own target.
                    let codes = if target == own { vec![code, 40400] } else { vec![code] };
                    let begins = |code: &u32| {
                        text.starts_with(&format!("SubCode={code}. Bad Request. `{name}` names `{target}`"))
                    };
                    assert_eq!(status, 400, "{element} {name} {target}: {text}");
                    assert!(codes.iter().any(begins), "{element} {name} {target}: {text}");
                }
                assert_eq!(broker.delete(path).status, 200);
            }
        }
    }
    // Express and the search for duplicates exclude each other.
    for (element, path, inside, name) in [
        (
            Q,
            "/entity",
            "<RequiresDuplicateDetection>true</RequiresDuplicateDetection><EnableExpress>true</EnableExpress>",
            "EnableExpress",
        ),
        (
            T,
            "/entity",
            "<RequiresDuplicateDetection>true</RequiresDuplicateDetection><EnableExpress>true</EnableExpress>",
            "EnableExpress",
        ),
    ] {
        is_refused(&broker.create(path, element, inside), name, element);
        assert_eq!(broker.delete(path).status, 404);
    }
}

fn pair(key: &str, kind: &str, value: &str) -> String {
    format!(
        "<KeyValueOfstringanyType><Key>{key}</Key><Value i:type=\"x:{kind}\" xmlns:x=\"http://www.w3.org/2001/XMLSchema\">\
         {value}</Value></KeyValueOfstringanyType>"
    )
}

fn correlation(inside: &str) -> String {
    format!("<Filter i:type=\"CorrelationFilter\"><Properties>{inside}</Properties></Filter>")
}

fn sql(text: &str, parameters: &str) -> String {
    format!(
        "<Filter i:type=\"SqlFilter\"><SqlExpression>{text}</SqlExpression>\
         <Parameters>{parameters}</Parameters></Filter>"
    )
}

#[test]
fn rules_take_values_of_their_types_and_show_what_they_take() {
    let mut broker = prepared();
    assert_eq!(broker.create("/t/Subscriptions/s", S, "").status, 201);
    let path = "/t/Subscriptions/s/Rules/r";
    let taken = [
        ("int", "-2147483648"),
        ("int", "2147483647"),
        ("long", "-9223372036854775808"),
        ("long", "9223372036854775807"),
        ("boolean", "true"),
        ("boolean", "0"),
        ("double", "1.7976931348623157E308"),
        ("double", "INF"),
        ("double", "-INF"),
        ("dateTime", "0001-01-01T00:00:00Z"),
        ("dateTime", "9999-12-31T23:59:59.999Z"),
        ("dateTime", "2026-01-01T00:00:00"),
        ("duration", "PT0S"),
        ("duration", "-P1DT2H"),
        ("string", ""),
        ("string", "&lt;&amp;&gt; "),
    ];
    for (kind, value) in taken {
        for inside in [correlation(&pair("k", kind, value)), sql("a = @k", &pair("@k", kind, value))] {
            let made = broker.create(path, R, &inside);
            assert_eq!(made.status, 201, "{kind} {value}: {made:?}");
            // What is shown of it is taken again, and shown the same.
            let again = broker.request(Method::Put, path, Some("*"), made.text());
            assert_eq!((again.status, &again.body), (200, &made.body), "{kind} {value}");
            assert_eq!(broker.delete(path).status, 200);
        }
    }
}

#[test]
fn rules_that_make_no_sense_change_nothing() {
    let mut broker = prepared();
    assert_eq!(broker.create("/t/Subscriptions/s", S, "").status, 201);
    let path = "/t/Subscriptions/s/Rules/r";
    let refused = [
        ("int", "x"),
        ("int", ""),
        ("long", "9223372036854775808"),
        ("boolean", "yes"),
        ("double", "one"),
        ("dateTime", "yesterday"),
        ("dateTime", "2026-13-01T00:00:00Z"),
        ("duration", "1 h"),
        ("anyURI", "http://x/"),
    ];
    let texts = [
        correlation(""),
        sql("", ""),
        sql("a =", ""),
        "<Filter i:type=\"Thing\"/>".to_owned(),
        "<Filter i:type=\"TrueFilter\"/><Action i:type=\"Thing\"/>".to_owned(),
        "<Action i:type=\"SqlRuleAction\"><SqlExpression>SET</SqlExpression></Action>".to_owned(),
        "<Action i:type=\"SqlRuleAction\"/>".to_owned(),
    ];
    let refused = refused.iter().map(|(kind, value)| correlation(&pair("k", kind, value))).chain(texts);
    let kept = "/t/Subscriptions/s/Rules/$Default";
    let before = broker.get(kept);
    for inside in refused {
        for answer in [broker.create(path, R, &inside), broker.update(kept, R, &inside)] {
            assert_eq!(detail(&answer).0, 400, "{inside}: {answer:?}");
            assert!(detail(&answer).1.starts_with("SubCode=40000. Bad Request. "), "{inside}: {answer:?}");
        }
        assert_eq!(titles(&broker.get("/t/Subscriptions/s/Rules")), ["$Default"], "{inside}");
        assert_eq!(broker.get(kept), before, "{inside} has changed nothing");
    }
}

#[test]
fn authorization_rules_have_their_bounds() {
    let rule = |name: &str, key: &str, rights: &str| {
        format!(
            "<AuthorizationRule i:type=\"SharedAccessAuthorizationRule\"><Rights>{rights}</Rights>\
             <KeyName>{name}</KeyName><PrimaryKey>{key}</PrimaryKey></AuthorizationRule>"
        )
    };
    let key = format!("{}=", "A".repeat(43));
    let listen = "<AccessRights>Listen</AccessRights>";
    let some = |count: usize| (0..count).map(|at| rule(&format!("k{at}"), &key, listen)).collect::<String>();
    let cases = [
        (some(12), 201),
        (some(13), 403),
        (rule("", &key, listen), 400),
        (rule(&"k".repeat(256), &key, listen), 201),
        (rule(&"k".repeat(257), &key, listen), 400),
        (rule("k", &key[1..], listen), 400),
        (rule("k", "", listen), 400),
        (rule("k", &key, ""), 400),
        (rule("k", &key, "<AccessRights>Manage</AccessRights>"), 201),
        (rule("k", &key, "<AccessRights>Own</AccessRights>"), 400),
        (rule("k", &key, listen).repeat(2), 400),
    ];
    let mut broker = prepared();
    for (element, path) in [(Q, "/entity"), (T, "/entity")] {
        for (rules, status) in &cases {
            let made = broker.create(path, element, &set("AuthorizationRules", rules));
            assert_eq!(made.status, *status, "{rules}: {made:?}");
            if made.status == 201 {
                assert_eq!(broker.delete(path).status, 200);
                continue;
            }
            let begins = if made.status == 403 { "SubCode=40300. " } else { "SubCode=40000. Bad Request. " };
            assert!(detail(&made).1.starts_with(begins), "{made:?}");
            assert_eq!(broker.delete(path).status, 404);
        }
    }
}
