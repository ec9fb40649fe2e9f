//! The answer of an expression for a message: true, false or unknown.
//!
//! Invariant: what is null or absent is unknown; unknown is decided by `IS NULL` and `EXISTS` alone, and
//! by what wins over it in `AND` and `OR`.

use std::borrow::Cow;

use super::ast::{Expr, Named, Predicate};
use super::evaluation::Evaluation;
use super::pattern::Pattern;
use crate::NewId;
use crate::arithmetic;
use crate::error::{EvalError, PatternError};
use crate::limits::MAX_PATTERN_CHARS;
use crate::properties::{Property, PropertySet};
use crate::value::{Compare, Value};

/// `None` is unknown.
pub(crate) type Truth = Option<bool>;

impl Predicate {
    pub(crate) fn evaluate(
        &self,
        set: &PropertySet,
        evaluation: &mut Evaluation<'_>,
    ) -> Result<Truth, EvalError> {
        match self {
            Self::Compare { compare, left, right } => {
                let (left, right) =
                    (left.value(set, evaluation.new_id)?, right.value(set, evaluation.new_id)?);
                holds(*compare, &left, &right)
            }
            Self::IsNull { property, negated } => {
                let null = property.read(set)?.is_none_or(Value::is_null);
                Ok(Some(null != *negated))
            }
            Self::Exists(property) => Ok(Some(property.read(set)?.is_some())),
            Self::In { value, list, negated } => {
                let value = value.value(set, evaluation.new_id)?;
                Ok(is_in(&value, list, set, evaluation)?.map(|found| found != *negated))
            }
            Self::Like { value, pattern, escape, fixed, negated } => {
                let text = value.value(set, evaluation.new_id)?;
                let found = match fixed {
                    Some(pattern) => {
                        let text = text_of(&text, "what `LIKE` compares")?;
                        text.map(|text| pattern.matches(text, &mut evaluation.steps)).transpose()?
                    }
                    None => like(&text, pattern, escape.as_ref(), set, evaluation)?,
                };
                Ok(found.map(|found| found != *negated))
            }
            Self::Lenient(predicate) => Ok(predicate.without_failing(set, evaluation)),
            Self::Not(predicate) => Ok(predicate.evaluate(set, evaluation)?.map(|truth| !truth)),
            Self::And(parts) => all(parts, true, set, evaluation),
            Self::Or(parts) => all(parts, false, set, evaluation),
        }
    }
}

impl Predicate {
    /// The answer of a selector (Jakarta Messaging 3.8.1.3): a comparison of values that are not alike is false, and what
    /// cannot be computed is unknown.
    fn without_failing(&self, set: &PropertySet, evaluation: &mut Evaluation<'_>) -> Truth {
        match self {
            Self::Compare { compare, left, right } => {
                let (left, right) =
                    (left.value(set, evaluation.new_id).ok()?, right.value(set, evaluation.new_id).ok()?);
                let is_known = !left.is_null() && !right.is_null();
                is_known.then(|| compare.holds(&left, &right).unwrap_or(false))
            }
            Self::In { value, list, negated } => {
                let value = value.value(set, evaluation.new_id).ok().filter(|value| !value.is_null())?;
                let mut truth = Some(false);
                for element in list {
                    let element =
                        element.value(set, evaluation.new_id).ok().filter(|element| !element.is_null());
                    match element.map(|element| Compare::Equal.holds(&value, &element)) {
                        Some(Some(true)) => return Some(!*negated),
                        Some(_) => {}
                        None => truth = None,
                    }
                }
                truth.map(|found| found != *negated)
            }
            Self::Like { negated, .. } => match self.evaluate(set, evaluation) {
                Ok(truth) => truth,
                Err(EvalError::WrongKind { .. }) => Some(*negated),
                Err(_) => None,
            },
            other => other.evaluate(set, evaluation).ok().flatten(),
        }
    }
}

/// `AND` for `expected` true, `OR` for false: the first part that is the opposite decides.
fn all(
    parts: &[Predicate],
    expected: bool,
    set: &PropertySet,
    evaluation: &mut Evaluation<'_>,
) -> Result<Truth, EvalError> {
    let mut truth = Some(expected);
    for part in parts {
        match part.evaluate(set, evaluation)? {
            Some(found) if found == expected => {}
            None => truth = None,
            decided => return Ok(decided),
        }
    }
    Ok(truth)
}

fn holds(compare: Compare, left: &Value, right: &Value) -> Result<Truth, EvalError> {
    if left.is_null() || right.is_null() {
        return Ok(None);
    }
    let held = compare.holds(left, right);
    held.map(Some).ok_or_else(|| EvalError::incompatible(compare.sign(), left, right))
}

/// As `value = first OR value = second …`, but unknown at once when the value is.
fn is_in(
    value: &Value,
    list: &[Expr],
    set: &PropertySet,
    evaluation: &mut Evaluation<'_>,
) -> Result<Truth, EvalError> {
    if value.is_null() {
        return Ok(None);
    }
    let mut truth = Some(false);
    for element in list {
        match holds(Compare::Equal, value, &*element.value(set, evaluation.new_id)?)? {
            Some(true) => return Ok(Some(true)),
            Some(false) => {}
            None => truth = None,
        }
    }
    Ok(truth)
}

fn like(
    text: &Value,
    pattern: &Expr,
    escape: Option<&Expr>,
    set: &PropertySet,
    evaluation: &mut Evaluation<'_>,
) -> Result<Truth, EvalError> {
    let pattern = pattern.value(set, evaluation.new_id)?;
    let escape = escape.map(|escape| escape.value(set, evaluation.new_id)).transpose()?;
    let text = text_of(text, "what `LIKE` compares")?;
    let pattern = text_of(&pattern, "a pattern")?;
    let escape = escape.as_deref().map(|escape| text_of(escape, "the escape of a pattern")).transpose()?;
    let (Some(text), Some(pattern)) = (text, pattern) else { return Ok(None) };
    let escape = match escape {
        Some(None) => return Ok(None),
        Some(known) => known,
        None => None,
    };
    if pattern.chars().nth(MAX_PATTERN_CHARS).is_some() {
        return Err(EvalError::BadPattern(PatternError::TooLong));
    }
    let pattern = Pattern::new(pattern, escape).map_err(EvalError::BadPattern)?;
    pattern.matches(text, &mut evaluation.steps).map(Some)
}

/// `None` when the value is null.
fn text_of<'a>(value: &'a Value, part: &'static str) -> Result<Option<&'a str>, EvalError> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text)),
        other => Err(EvalError::WrongKind { part, kind: other.kind() }),
    }
}

impl Named {
    /// The property's value; `None` when the message has none.
    pub(crate) fn read<'a>(&self, set: &'a PropertySet) -> Result<Option<&'a Value>, EvalError> {
        self.known().map(|property| set.get(property))
    }

    pub(crate) fn known(&self) -> Result<&Property, EvalError> {
        match self {
            Self::Known(property) => Ok(property),
            Self::Unknown(name) => Err(EvalError::UnknownSystemProperty(name.clone())),
        }
    }
}

impl Expr {
    /// Its value; what is unknown is null.
    pub(crate) fn value<'a>(
        &'a self,
        set: &'a PropertySet,
        new_id: &mut NewId<'_>,
    ) -> Result<Cow<'a, Value>, EvalError> {
        Ok(match self {
            Self::Constant(value) => Cow::Borrowed(value),
            Self::Property(property) => known(property.read(set)?),
            Self::NewId => Cow::Owned(random_uuid(new_id())),
            Self::Lookup(name) => {
                let name = name.value(set, new_id)?;
                known(text_of(&name, "the name of a property")?.and_then(|name| set.user(name)))
            }
            Self::Sign { negative, of } => {
                Cow::Owned(arithmetic::signed(*negative, of.value(set, new_id)?.into_owned())?)
            }
            Self::Chain { first, rest } => {
                let mut result = first.value(set, new_id)?;
                for (operator, operand) in rest {
                    let operand = operand.value(set, new_id)?;
                    if result.is_null() || operand.is_null() {
                        result = Cow::Owned(Value::Null);
                    } else {
                        result = Cow::Owned(operator.apply(&result, &operand)?);
                    }
                }
                result
            }
        })
    }
}

const fn known(value: Option<&Value>) -> Cow<'_, Value> {
    match value {
        Some(value) => Cow::Borrowed(value),
        None => Cow::Owned(Value::Null),
    }
}

/// A UUID of version 4 (RFC 9562) from random bits.
const fn random_uuid(bits: u128) -> Value {
    let version = bits & !(0xf << 76) | 4 << 76;
    let variant = version & !(0b11 << 62) | 0b10 << 62;
    Value::Uuid(variant.to_be_bytes())
}

/// For an index: whether evaluating this can never fail, whatever the message.
impl Predicate {
    pub(crate) fn is_safe(&self) -> bool {
        match self {
            Self::IsNull { property: Named::Known(_), .. } | Self::Exists(Named::Known(_)) => true,
            // One that can be found by its value is worth more to an index than one that is passed over.
            Self::Lenient(predicate) => predicate.as_equality().is_none(),
            _ => false,
        }
    }

    /// When this is `property = constant`, or `property IN (constants)`: the property and the constants.
    pub(crate) fn as_equality(&self) -> Option<(&Property, Vec<&Value>)> {
        match self {
            Self::Compare { compare: Compare::Equal, left, right } => match (left, right) {
                (Expr::Property(Named::Known(property)), Expr::Constant(value))
                | (Expr::Constant(value), Expr::Property(Named::Known(property))) => {
                    Some((property, vec![value]))
                }
                _ => None,
            },
            Self::In { value: Expr::Property(Named::Known(property)), list, negated: false } => {
                Some((property, list.iter().map(Expr::as_constant).collect::<Option<_>>()?))
            }
            Self::Lenient(predicate) => predicate.as_equality(),
            _ => None,
        }
    }
}
