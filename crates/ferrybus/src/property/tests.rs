use proptest::prelude::*;

use super::*;

const STATUS: Form = Form::Status;
const MEGABYTES: Form = Form::Bytes(1 << 20);
const KILOBYTES: Form = Form::Bytes(1 << 10);

#[test]
fn what_people_write_is_read_as_the_api_wants_it() {
    let status = STATUS;
    let good: [(Form, &str, Option<&str>); 17] = [
        (Form::Span, "30s", Some("PT30S")),
        (Form::Span, "14d", Some("P14D")),
        (Form::Span, "1h 30m", Some("PT1H30M")),
        (Form::Span, "PT5M", Some("PT5M")),
        (Form::Span, "never", Some("P10675199DT2H48M5.4775807S")),
        (Form::Span, "P99999999D", Some("P10675199DT2H48M5.4775807S")),
        (Form::Flag, "yes", Some("true")),
        (Form::Flag, "False", Some("false")),
        (Form::Count, "2147483647", Some("2147483647")),
        (MEGABYTES, "2 GiB", Some("2048")),
        (KILOBYTES, "256KiB", Some("256")),
        (status, "active", Some("Active")),
        (status, "send-disabled", Some("SendDisabled")),
        (Form::Text, "a note", Some("a note")),
        (Form::Text, "", None),
        (Form::Entity, "audit", Some("audit")),
        (Form::Entity, " ", None),
    ];
    for (form, text, expected) in good {
        assert_eq!(form.read(text).unwrap().as_deref(), expected, "{form:?} {text}");
    }
    let bad: [(Form, &str, &str); 8] = [
        (Form::Span, "30", "such as `30s`"),
        (Form::Span, "soon", "such as `30s`"),
        (Form::Flag, "maybe", "`true` or `false`"),
        (Form::Count, "-1", "whole number"),
        (MEGABYTES, "1 KiB", "a multiple of 1 MiB"),
        (MEGABYTES, "0", "a multiple of 1 MiB"),
        (status, "actve", "did you mean `Active`?"),
        (status, "broken", "`Active`, `Disabled`, `SendDisabled`, `ReceiveDisabled`"),
    ];
    for (form, text, expected) in bad {
        let error = form.read(text).unwrap_err();
        assert!(error.contains(expected), "{form:?} {text}: {error}");
    }
}

#[test]
fn values_are_shown_to_people_and_to_programs() {
    let cases = [
        (Form::Span, "PT1M", "1m", json!("PT1M")),
        (Form::Span, "P10675199DT2H48M5.4775807S", "never", Value::Null),
        (Form::Flag, "true", "yes", json!(true)),
        (Form::Count, "10", "10", json!(10)),
        (MEGABYTES, "1024", "1 GiB", json!(1_073_741_824_u64)),
        (KILOBYTES, "100", "100 KiB", json!(102_400)),
        (STATUS, "Active", "Active", json!("Active")),
    ];
    for (form, text, told, value) in cases {
        assert_eq!((form.told(text), form.json(text)), (told.to_owned(), value), "{form:?} {text}");
    }
    let bytes = [
        (0, "0 B"),
        (1, "1 B"),
        (1_024, "1 KiB"),
        (1_500, "1500 B"),
        (123_456_789, "117 MiB"),
        (u64::MAX, "16777215 TiB"),
    ];
    for (number, told) in bytes {
        assert_eq!(human_bytes(number), told);
    }
}

#[test]
fn the_same_value_in_other_words_is_no_change() {
    assert!(Form::Span.same(Some("PT60S"), Some("PT1M")));
    assert!(!Form::Span.same(Some("PT61S"), Some("PT1M")));
    assert!(Form::Entity.same(Some("sb://host/Audit"), Some("audit")));
    assert!(!Form::Entity.same(Some("audit"), None));
    assert!(Form::Text.same(None, None));
}

proptest! {
    #[test]
    fn a_time_that_is_shown_is_read_again(millis in 0_u64..10_000_000_000_000) {
        let duration = Duration::from_millis(millis);
        prop_assert_eq!(human_time(duration).parse::<Span>(), Ok(Span::Of(duration)));
        let text = broker_admin::iso_8601(Some(duration));
        let told = Form::Span.told(&text);
        prop_assert_eq!(Form::Span.read(&told).unwrap(), Some(text));
    }
}
