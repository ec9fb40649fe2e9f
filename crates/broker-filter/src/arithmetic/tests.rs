use proptest::prelude::*;

use super::*;
use crate::samples;
use crate::value::Kind;

use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};

fn text(text: &str) -> Value {
    Value::from(text)
}

#[test]
fn operators_follow_the_rules_of_c_sharp() {
    use Value::{Double, Duration, Int, Timestamp};
    let cases = [
        (Int(7), Add, Int(3), Ok(Int(10))),
        (Int(7), Subtract, Int(9), Ok(Int(-2))),
        (Int(7), Multiply, Int(-3), Ok(Int(-21))),
        (Int(7), Divide, Int(2), Ok(Int(3))),
        (Int(-7), Divide, Int(2), Ok(Int(-3))),
        (Int(-7), Remainder, Int(2), Ok(Int(-1))),
        (Int(7), Divide, Double(2.0), Ok(Double(3.5))),
        (Double(1.5), Add, Int(1), Ok(Double(2.5))),
        (Double(7.5), Remainder, Double(2.0), Ok(Double(1.5))),
        (Double(1.0), Divide, Int(0), Ok(Double(f64::INFINITY))),
        (Int(i64::MAX), Add, Int(1), Err(EvalError::Overflow)),
        (Int(i64::MIN), Subtract, Int(1), Err(EvalError::Overflow)),
        (Int(i64::MAX), Multiply, Int(2), Err(EvalError::Overflow)),
        (Int(i64::MIN), Divide, Int(-1), Err(EvalError::Overflow)),
        (Int(i64::MIN), Remainder, Int(-1), Err(EvalError::Overflow)),
        (Int(1), Divide, Int(0), Err(EvalError::DivisionByZero)),
        (Int(1), Remainder, Int(0), Err(EvalError::DivisionByZero)),
        (text("a"), Add, text("b"), Ok(text("ab"))),
        (text("a"), Add, Int(5), Ok(text("a5"))),
        (Value::Bool(true), Add, text("b"), Ok(text("Trueb"))),
        (Timestamp(1000), Subtract, Timestamp(400), Ok(Duration(6_000_000))),
        (Timestamp(1000), Add, Duration(20_000), Ok(Timestamp(1002))),
        (Timestamp(1000), Subtract, Duration(20_000), Ok(Timestamp(998))),
        (Duration(5), Subtract, Duration(7), Ok(Duration(-2))),
        (Timestamp(i64::MAX), Subtract, Timestamp(0), Err(EvalError::Overflow)),
        (Timestamp(i64::MAX), Add, Duration(10_000), Err(EvalError::Overflow)),
    ];
    for case @ (left, operator, right, expected) in &cases {
        assert_eq!(&operator.apply(left, right), expected, "{case:?}");
    }
}

#[test]
fn what_does_not_go_together_is_named_in_the_error() {
    let cases = [
        (text("a"), Subtract, text("b"), "`-` is not defined between string and string"),
        (text("a"), Multiply, Value::Int(2), "`*` is not defined between string and number"),
        (text("a"), Add, Value::Timestamp(2), "`+` is not defined between string and time"),
        (Value::Bool(true), Add, Value::Int(2), "`+` is not defined between boolean and number"),
        (Value::Timestamp(1), Add, Value::Timestamp(2), "`+` is not defined between time and time"),
        (
            Value::Duration(1),
            Multiply,
            Value::Duration(2),
            "`*` is not defined between duration and duration",
        ),
        (Value::Duration(1), Add, Value::Timestamp(2), "`+` is not defined between duration and time"),
        (Value::Uuid([0; 16]), Add, Value::Int(2), "`+` is not defined between uuid and number"),
        (Value::Binary([0].into()), Remainder, Value::Int(2), "`%` is not defined between binary and number"),
    ];
    for case @ (left, operator, right, expected) in &cases {
        let error = operator.apply(left, right).map_err(|error| error.to_string());
        assert_eq!(error, Err((*expected).to_owned()), "{case:?}");
    }
}

#[test]
fn a_string_ends_at_its_limit() {
    let half = text(&"x".repeat(MAX_TEXT_BYTES / 2));
    let whole = Add.apply(&half, &half).unwrap();
    assert_eq!(whole.as_text().map(str::len), Some(MAX_TEXT_BYTES));
    assert_eq!(Add.apply(&whole, &text("x")), Err(EvalError::TextTooLong));
}

#[test]
fn signs_belong_to_numbers_and_durations() {
    let wrong = |kind| Err(EvalError::WrongKind { part: "the operand of a sign", kind });
    let cases = [
        (true, Value::Int(5), Ok(Value::Int(-5))),
        (false, Value::Int(5), Ok(Value::Int(5))),
        (true, Value::Int(i64::MIN), Err(EvalError::Overflow)),
        (false, Value::Int(i64::MIN), Ok(Value::Int(i64::MIN))),
        (true, Value::Double(1.5), Ok(Value::Double(-1.5))),
        (true, Value::Duration(7), Ok(Value::Duration(-7))),
        (true, Value::Duration(i64::MIN), Err(EvalError::Overflow)),
        (true, Value::Null, Ok(Value::Null)),
        (false, text("a"), wrong(Kind::Text)),
        (true, Value::Bool(true), wrong(Kind::Bool)),
        (true, Value::Timestamp(1), wrong(Kind::Timestamp)),
    ];
    for case @ (negative, value, expected) in &cases {
        assert_eq!(&signed(*negative, value.clone()), expected, "{case:?}");
    }
}

proptest! {
    #[test]
    fn integers_are_exact_or_an_overflow(left: i64, right: i64) {
        for (operator, wide) in [
            (Add, i128::from(left) + i128::from(right)),
            (Subtract, i128::from(left) - i128::from(right)),
            (Multiply, i128::from(left) * i128::from(right)),
        ] {
            let exact = i64::try_from(wide).map(Value::Int).map_err(|_| EvalError::Overflow);
            prop_assert_eq!(operator.apply(&Value::Int(left), &Value::Int(right)), exact);
        }
    }

    #[test]
    fn any_two_values_have_a_result_or_an_error(left in samples::value(), right in samples::value()) {
        for operator in [Add, Subtract, Multiply, Divide, Remainder] {
            if let Ok(result) = operator.apply(&left, &right) {
                prop_assert!(!result.is_null());
            }
        }
    }
}
