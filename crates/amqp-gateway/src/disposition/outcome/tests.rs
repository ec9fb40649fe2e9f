use amqp_codec::{performative::Modified, raw::AnnotationValue, types::Symbol};

use super::*;

fn rejected_state(condition: &'static str, description: Option<&str>, info: Option<RawMap>) -> DeliveryState {
    let condition = Symbol::from_static(condition);
    DeliveryState::Rejected(Some(Box::new(Error {
        condition,
        description: description.map(Into::into),
        info,
    })))
}

fn dead_lettered(state: &DeliveryState) -> Vec<(String, PropertyValue)> {
    let Outcome::DeadLetter(properties) = of(QueueAction::DeadLetter, Dialect::ServiceBus, Some(state))
    else {
        panic!()
    };
    properties.0.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn said(name: &str, value: &str) -> (String, PropertyValue) {
    (name.into(), PropertyValue::Text(value.into()))
}

#[test]
fn reason_and_description_are_read_from_symbol_and_string_keys() {
    let entries = [
        (REASON, AnnotationValue::Str("bad")),
        (DESCRIPTION, AnnotationValue::Str("very bad")),
        ("extra", AnnotationValue::Uint(5)),
    ];
    for info in [RawMap::with_symbol_keys(&entries), RawMap::with_string_keys(&entries)] {
        let state = rejected_state("com.microsoft:dead-letter", Some("ignored"), Some(info));
        let extra = ("extra".to_owned(), PropertyValue::Encoded(Bytes::from_static(&[0x52, 5])));
        assert_eq!(dead_lettered(&state), vec![said(REASON, "bad"), said(DESCRIPTION, "very bad"), extra]);
    }
}

#[test]
fn a_rejection_without_info_keeps_what_its_error_says() {
    let cases = [
        (DeliveryState::Rejected(None), vec![]),
        (rejected_state("com.microsoft:dead-letter", None, None), vec![]),
        (rejected_state("com.microsoft:dead-letter", Some("text"), None), vec![said(DESCRIPTION, "text")]),
        (
            rejected_state("amqp:decode-error", Some("text"), None),
            vec![said(REASON, "amqp:decode-error"), said(DESCRIPTION, "text")],
        ),
    ];
    for (state, expected) in cases {
        assert_eq!(dead_lettered(&state), expected, "{state:?}");
    }
}

#[test]
fn a_reason_or_description_that_is_null_is_none() {
    let null =
        RawMap::with_symbol_keys(&[(REASON, AnnotationValue::Null), (DESCRIPTION, AnnotationValue::Null)]);
    for (description, expected) in [(None, vec![]), (Some("text"), vec![said(DESCRIPTION, "text")])] {
        let state = rejected_state("com.microsoft:dead-letter", description, Some(null.clone()));
        assert_eq!(dead_lettered(&state), expected);
    }
    assert_eq!(properties(&null, Dialect::ServiceBus), Properties::default());
}

#[test]
fn texts_are_cut_at_their_limit() {
    let (_, value) = text(REASON, &"ä".repeat(TEXT_CHARS_MAX + 1));
    assert_eq!(value, PropertyValue::Text("ä".repeat(TEXT_CHARS_MAX).into()));
}

#[test]
fn modified_changes_application_properties_for_service_bus_and_annotations_for_others() {
    let map =
        RawMap::with_symbol_keys(&[("note", AnnotationValue::Bool(true)), ("\u{1}x", AnnotationValue::Null)]);
    let state = DeliveryState::Modified(Box::new(Modified {
        delivery_failed: Some(true),
        undeliverable_here: None,
        message_annotations: Some(map),
    }));
    let names = |action, dialect| match of(action, dialect, Some(&state)) {
        Outcome::Abandon(properties) | Outcome::Release(properties) => {
            properties.0.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(names(QueueAction::Abandon, Dialect::ServiceBus), vec![Box::from("note"), Box::from("x")]);
    for action in [QueueAction::Abandon, QueueAction::Release] {
        assert_eq!(names(action, Dialect::Plain), vec![Box::from("\u{1}note"), Box::from("\u{1}x")]);
    }
    let released = of(QueueAction::Release, Dialect::Plain, Some(&DeliveryState::Released));
    assert_eq!(released, Outcome::Release(Properties::default()));
}

/// Bytes of properties as the core records them.
fn recorded(properties: &Properties) -> usize {
    let value = |value: &PropertyValue| match value {
        PropertyValue::Text(text) => text.len(),
        PropertyValue::Encoded(bytes) => bytes.len(),
        other => panic!("{other:?}"),
    };
    properties.0.iter().map(|(name, it)| RECORDED_BYTES + name.len() + value(it)).sum()
}

#[test]
fn of_properties_beyond_the_limit_no_more_is_kept_than_shows_it() {
    let long = "v".repeat(3 * PROPERTIES_BYTES_MAX);
    let long_name = "n".repeat(2 * PROPERTIES_BYTES_MAX);
    // Name and value take 14 bytes of each entry, its record 9 more; the constructor and the length of the value are 2 of the 14.
    let names: Vec<String> = (0..10_000).map(|i| format!("{i:08}")).collect();
    let fitting = PROPERTIES_BYTES_MAX / 23;
    let many = |count: usize| -> Vec<(&str, AnnotationValue<'_>)> {
        names.iter().take(count).map(|name| (&**name, AnnotationValue::Str("four"))).collect()
    };
    let with_reason = [many(10_000), vec![(REASON, AnnotationValue::Str("why"))]].concat();
    let table = [
        (many(fitting), true, fitting),
        (many(fitting + 1), false, fitting + 1),
        (many(10_000), false, fitting + 1),
        (with_reason, false, fitting + 2),
        // A description is cut, and leaves room for others.
        (vec![(DESCRIPTION, AnnotationValue::Str(&long)), ("b", AnnotationValue::Str("x"))], true, 2),
        (vec![("a", AnnotationValue::Str(&long)), ("b", AnnotationValue::Str("x"))], false, 1),
        (vec![(&long_name, AnnotationValue::Str("x")), ("b", AnnotationValue::Str("x"))], false, 1),
    ];
    for (entries, fits, kept) in table {
        let properties = properties(&RawMap::with_symbol_keys(&entries), Dialect::ServiceBus);
        let bytes = recorded(&properties);
        assert_eq!(
            (bytes <= PROPERTIES_BYTES_MAX, properties.0.len()),
            (fits, kept),
            "{} entries",
            entries.len()
        );
        assert!(bytes <= 2 * CUT_BYTES + RECORDED_BYTES, "{bytes} bytes of {} entries", entries.len());
        let has_reason = entries.iter().any(|(name, _)| *name == REASON);
        assert_eq!(properties.0.iter().any(|(name, _)| &**name == REASON), has_reason);
    }
}

#[test]
fn deliveries_with_the_same_outcome_share_its_properties() {
    let annotations = RawMap::with_symbol_keys(&[("key", AnnotationValue::Str("value"))]);
    let state = DeliveryState::Modified(Box::new(Modified {
        message_annotations: Some(annotations),
        ..Modified::default()
    }));
    let mut outcomes = SharedOutcomes::new();
    let mut read = |action, dialect| outcomes.of(action, dialect, Some(&state));
    let pairs = [
        (QueueAction::Abandon, Dialect::Plain),
        (QueueAction::Abandon, Dialect::ServiceBus),
        (QueueAction::Defer, Dialect::ServiceBus),
    ];
    let first = pairs.map(|(action, dialect)| read(action, dialect));
    for (place, (action, dialect)) in pairs.into_iter().enumerate() {
        let again = read(action, dialect);
        assert_eq!(again, of(action, dialect, Some(&state)));
        let (Outcome::Abandon(one) | Outcome::Defer(one)) = &first[place] else { panic!() };
        let (Outcome::Abandon(other) | Outcome::Defer(other)) = &again else { panic!() };
        assert!(std::ptr::eq(one.0.as_ptr(), other.0.as_ptr()), "{action:?} {dialect:?}");
    }
    assert_eq!(read(QueueAction::Complete, Dialect::Plain), Outcome::Complete);
}
