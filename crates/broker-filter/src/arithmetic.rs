//! The operators of C# on values.
//!
//! Invariant: never panics and never wraps around; a string that it makes is bounded.

use crate::error::EvalError;
use crate::limits::MAX_TEXT_BYTES;
use crate::value::{TICKS_PER_MILLI, Value, promote};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    /// The result for two values of which neither is null.
    pub(crate) fn apply(self, left: &Value, right: &Value) -> Result<Value, EvalError> {
        use Value::{Double, Duration, Int, Text, Timestamp};
        match (left, right) {
            (Int(left), Int(right)) => self.integers(*left, *right).map(Int),
            (Int(left), Double(right)) => Ok(Double(self.doubles(promote(*left), *right))),
            (Double(left), Int(right)) => Ok(Double(self.doubles(*left, promote(*right)))),
            (Double(left), Double(right)) => Ok(Double(self.doubles(*left, *right))),
            (Text(_), _) | (_, Text(_)) if self == Self::Add => joined(left, right),
            (Duration(first), Duration(second)) if self.is_sum() => {
                self.integers(*first, *second).map(Duration)
            }
            (Timestamp(time), Duration(span)) if self.is_sum() => {
                self.integers(*time, span / TICKS_PER_MILLI).map(Timestamp)
            }
            (Timestamp(later), Timestamp(earlier)) if self == Self::Subtract => {
                let millis = self.integers(*later, *earlier)?;
                millis.checked_mul(TICKS_PER_MILLI).map(Duration).ok_or(EvalError::Overflow)
            }
            _ => Err(EvalError::incompatible(self.sign(), left, right)),
        }
    }

    const fn is_sum(self) -> bool {
        matches!(self, Self::Add | Self::Subtract)
    }

    fn integers(self, left: i64, right: i64) -> Result<i64, EvalError> {
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide | Self::Remainder if right == 0 => return Err(EvalError::DivisionByZero),
            Self::Divide => left.checked_div(right),
            Self::Remainder => left.checked_rem(right),
        };
        result.ok_or(EvalError::Overflow)
    }

    /// Division by zero gives an infinity or a number that is none, as IEEE 754 and C# have it.
    fn doubles(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
        }
    }
}

/// `-value`, or `value` where the sign is a plus.
pub(crate) fn signed(negative: bool, value: Value) -> Result<Value, EvalError> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(_) | Value::Double(_) | Value::Duration(_) if !negative => Ok(value),
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(EvalError::Overflow),
        Value::Duration(value) => value.checked_neg().map(Value::Duration).ok_or(EvalError::Overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        other => Err(EvalError::WrongKind { part: "the operand of a sign", kind: other.kind() }),
    }
}

fn joined(left: &Value, right: &Value) -> Result<Value, EvalError> {
    let (Some(start), Some(end)) = (left.render(), right.render()) else {
        return Err(EvalError::incompatible("+", left, right));
    };
    if start.len() + end.len() > MAX_TEXT_BYTES {
        return Err(EvalError::TextTooLong);
    }
    Ok(Value::Text((String::from(start) + &end).into()))
}

#[cfg(test)]
mod tests;
