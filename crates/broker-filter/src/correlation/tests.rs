use super::*;
use crate::NumberType;

fn set(user: &[(&str, Value)]) -> PropertySet {
    let mut set = PropertySet::new();
    for (name, value) in user {
        set.set_user(name, value.clone());
    }
    set.set_system(SystemProperty::CorrelationId, "c-1".into());
    set
}

#[test]
fn one_condition_holds_for_equal_values_of_kinds_that_go_together() {
    let cases = [
        // key, value of the filter, value of the message, matches
        ("Color", Value::from("red"), Value::from("red"), true),
        ("COLOR", Value::from("red"), Value::from("red"), true),
        ("color", Value::from("red"), Value::from("Red"), false),
        ("color", Value::Double(5.0), Value::Int(5), true),
        ("color", Value::Int(5), Value::Double(5.0), true),
        ("color", Value::Int(5), Value::Double(5.5), false),
        ("color", Value::Int(5), Value::from("5"), false),
        ("color", Value::Bool(true), Value::Bool(true), true),
        ("color", Value::Bool(true), Value::Int(1), false),
        ("color", Value::Timestamp(5), Value::Timestamp(5), true),
        ("color", Value::Timestamp(5), Value::Int(5), false),
        ("color", Value::Duration(5), Value::Duration(5), true),
        ("color", Value::Uuid([1; 16]), Value::Uuid([1; 16]), true),
        ("color", Value::Binary([1].into()), Value::Binary([1].into()), true),
        ("color", Value::Null, Value::Null, true),
        ("color", Value::Null, Value::Int(0), false),
        ("color", Value::Int(0), Value::Null, false),
        ("other", Value::Null, Value::Null, false),
    ];
    for case @ (key, wanted, found, expected) in &cases {
        let mut filter = CorrelationFilter::new();
        filter.user(key, wanted.clone());
        assert_eq!(filter.matches(&set(&[("Color", found.clone())])), *expected, "{case:?}");
    }
}

#[test]
fn all_conditions_must_hold() {
    let mut filter = CorrelationFilter::new();
    assert!(filter.is_empty() && filter.matches(&set(&[])));
    filter.system(SystemProperty::CorrelationId, "c-1".into());
    filter.user("a", Value::Int(1));
    assert!(filter.matches(&set(&[("a", Value::Int(1)), ("b", Value::Int(1))])));
    assert!(!filter.matches(&set(&[("b", Value::Int(1))])));
    filter.system(SystemProperty::Label, "l".into());
    assert!(!filter.matches(&set(&[("a", Value::Int(1))])));
}

#[test]
fn a_condition_that_is_given_again_replaces_the_first() {
    let mut filter = CorrelationFilter::new();
    filter.user("a", Value::Int(1));
    filter.user("A", Value::Int(2));
    filter.system(SystemProperty::To, "x".into());
    filter.system(SystemProperty::To, "y".into());
    let conditions: Vec<_> =
        filter.conditions().map(|(property, value)| (property.clone(), value.clone())).collect();
    let expected =
        [(Property::System(SystemProperty::To), "y".into()), (Property::User("A".into()), Value::Int(2))];
    assert_eq!(conditions, expected);
    filter.system(SystemProperty::To, Value::Null);
    filter.system(SystemProperty::Label, Value::Null);
    assert_eq!(filter.conditions().len(), 1);
}

#[test]
fn how_a_value_was_written_is_kept_until_it_is_given_again_and_decides_nothing() {
    let mut filter = CorrelationFilter::new();
    let time = |text: &str| Written::Time(text.into());
    filter.user_written("When", Value::Timestamp(1_000), time("1970-01-01T00:00:01"));
    filter.user("plain", Value::Timestamp(1_000));
    assert_eq!(filter.written("when"), Some(&time("1970-01-01T00:00:01")));
    assert_eq!((filter.written("plain"), filter.written("none")), (None, None));
    let found = set(&[("when", Value::Timestamp(1_000)), ("plain", Value::Timestamp(1_000))]);
    assert!(filter.matches(&found));

    filter.user_written("WHEN", Value::Timestamp(2_000), time("1970-01-01T00:00:02+00:00"));
    assert_eq!(filter.written("When"), Some(&time("1970-01-01T00:00:02+00:00")));
    filter.user_written("when", Value::Int(1), Written::Number(NumberType::Long));
    assert_eq!(filter.written("When"), Some(&Written::Number(NumberType::Long)));
    filter.user("when", Value::Timestamp(3_000));
    assert_eq!(filter.written("When"), None);
}
