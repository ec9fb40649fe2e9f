use proptest::prelude::*;

use super::*;
use crate::samples;

fn hash(value: &Value) -> u64 {
    value.hash(Hash::new()).get()
}

#[test]
fn a_value_becomes_the_kind_of_the_one_it_replaces_when_nothing_is_lost() {
    let text = |text: &str| Value::from(text);
    let cases = [
        // new, old, result
        (Value::Int(5), Value::Double(1.0), Value::Double(5.0)),
        (Value::Int(i64::MAX), Value::Double(1.0), Value::Int(i64::MAX)),
        (Value::Double(5.0), Value::Int(1), Value::Int(5)),
        (Value::Double(5.5), Value::Int(1), Value::Double(5.5)),
        (Value::Double(1e19), Value::Int(1), Value::Double(1e19)),
        (Value::Double(-9_223_372_036_854_775_808.0), Value::Int(1), Value::Int(i64::MIN)),
        (Value::Double(f64::NAN), Value::Int(1), Value::Double(f64::NAN)),
        (text("7"), Value::Int(1), Value::Int(7)),
        (text("7.5"), Value::Int(1), text("7.5")),
        (text("7.5"), Value::Double(1.0), Value::Double(7.5)),
        (text("inf"), Value::Double(1.0), text("inf")),
        (text("TRUE"), Value::Bool(false), Value::Bool(true)),
        (text("false"), Value::Bool(true), Value::Bool(false)),
        (text("no"), Value::Bool(true), text("no")),
        (Value::Int(5), text("x"), text("5")),
        (Value::Double(2.5), text("x"), text("2.5")),
        (Value::Bool(true), text("x"), text("True")),
        (Value::Uuid([0xab; 16]), text("x"), text("abababab-abab-abab-abab-abababababab")),
        (Value::Timestamp(5), text("x"), Value::Timestamp(5)),
        (Value::Int(5), Value::Bool(true), Value::Int(5)),
        (Value::Int(5), Value::Null, Value::Int(5)),
        (Value::Null, Value::Int(5), Value::Null),
        (Value::Null, text("x"), Value::Null),
    ];
    for case @ (new, old, expected) in &cases {
        assert_eq!(&new.clone().converted_like(old), expected, "{case:?}");
    }
}

#[test]
fn an_unsigned_number_is_a_double_where_64_bits_with_a_sign_end() {
    let largest = i64::MAX.cast_unsigned();
    assert_eq!(Value::unsigned(largest), Value::Int(i64::MAX));
    assert_eq!(Value::unsigned(largest + 1), Value::Double(9_223_372_036_854_775_808.0));
    assert_eq!(Value::duration_ms(2), Value::Duration(20_000));
    assert_eq!(Value::duration_ms(i64::MAX), Value::Duration(i64::MAX));
}

#[test]
fn values_are_told_apart_by_kind_and_content() {
    assert_ne!(Value::Int(1), Value::Double(1.0));
    assert_ne!(Value::Double(0.0), Value::Double(-0.0));
    assert_eq!(Value::Double(f64::NAN), Value::Double(f64::NAN));
    assert_ne!(Value::from("a"), Value::from("A"));
}

proptest! {
    #[test]
    fn values_that_compare_as_equal_have_one_hash(left in samples::value(), right in samples::value()) {
        if left.same(&right) {
            prop_assert_eq!(hash(&left), hash(&right));
        }
        if left == right && left.kind() != Kind::Number {
            prop_assert!(left.same(&right));
        }
    }

    #[test]
    fn kinds_alone_decide_what_can_be_compared(
        a in samples::value(), b in samples::value(), c in samples::value(), d in samples::value(),
    ) {
        if a.kind() == c.kind() && b.kind() == d.kind() {
            for compare in [Compare::Equal, Compare::Less] {
                prop_assert_eq!(compare.holds(&a, &b).is_some(), compare.holds(&c, &d).is_some());
            }
        }
    }
}
