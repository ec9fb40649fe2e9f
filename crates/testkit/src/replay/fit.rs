//! Whether what a broker said fits a demand.
//!
//! Invariant: variables get a value only from a frame that fits as a whole; the caller gives a copy and keeps it then.

use amqp_codec::value::{Descriptor, Value, decode_value};

use super::{
    show::show,
    term::{Shape, Term},
    vocabulary::{Composite, section_of},
    write::Variables,
};

/// Place and reason of a difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Misfit {
    /// Names from the outside to the inside.
    path: Vec<String>,
    reason: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.path.join("."), self.reason)
    }
}

type Fit = Result<(), Misfit>;

fn differs(expected: &str, found: &Value) -> Fit {
    Err(Misfit { path: Vec::new(), reason: format!("demanded {expected}, found {}", show(found)) })
}

fn inside(name: &str, fit: Fit) -> Fit {
    fit.map_err(|mut misfit| {
        misfit.path.insert(0, name.to_owned());
        misfit
    })
}

impl Term {
    /// Whether `found` is what the term demands; gives variables without a value theirs.
    pub(super) fn fits(&self, found: &Value, variables: &mut Variables) -> Fit {
        self.judge(found, variables, false)
    }

    fn judge(&self, found: &Value, variables: &mut Variables, exactly: bool) -> Fit {
        match &self.0 {
            Shape::Exactly(inner) => inner.judge(found, variables, true),
            Shape::Scalar(value) => equal(value, found),
            Shape::Text { pieces, symbol } => match variables.text(pieces) {
                Ok(text) if *symbol => equal(&Value::Symbol(text.into()), found),
                Ok(text) => equal(&Value::String(text), found),
                Err(error) => differs(&error.to_string(), found),
            },
            Shape::Variable(name) => match variables.get(name) {
                Some(value) => equal(&value, found),
                None if *found == Value::Null => differs(&format!("a value for ${name}"), found),
                None => {
                    variables.set(name, found.clone());
                    Ok(())
                }
            },
            Shape::LockToken(tag) => match variables.lock_token(tag) {
                Some(value) => equal(&value, found),
                None => differs(&format!("the lock token ${tag}"), found),
            },
            Shape::Any(kind) => {
                if is_any(kind, found) {
                    Ok(())
                } else {
                    differs(&format!("?{kind}"), found)
                }
            }
            Shape::List(items) => match found {
                Value::List(values) if values.len() == items.len() => each(items, values, variables, exactly),
                _ => differs(&format!("a list of {}", items.len()), found),
            },
            Shape::Array(items) => judge_array(items, found, variables, exactly),
            Shape::Map(entries) => judge_map(entries, found, variables, exactly),
            Shape::Composite(composite, fields) => {
                judge_composite(composite, fields, found, variables, exactly)
            }
            Shape::Described(descriptor, value) => {
                judge_described(descriptor, value, found, variables, exactly)
            }
            Shape::Encoded(terms) => match found {
                Value::Binary(bytes) => match values_of(bytes) {
                    Some(values) => judge_sections(terms, &values, variables),
                    None => differs("encoded values", found),
                },
                _ => differs("encoded values", found),
            },
        }
    }
}

fn equal(expected: &Value, found: &Value) -> Fit {
    if expected == found { Ok(()) } else { differs(&show(expected), found) }
}

fn each(terms: &[Term], values: &[Value], variables: &mut Variables, exactly: bool) -> Fit {
    for (place, (term, value)) in terms.iter().zip(values).enumerate() {
        inside(&place.to_string(), term.judge(value, variables, exactly))?;
    }
    Ok(())
}

fn judge_array(items: &[Term], found: &Value, variables: &mut Variables, exactly: bool) -> Fit {
    // A symbol alone stands for an array of one (AMQP 1.4, fields of `multiple="true"`).
    let alone = [found.clone()];
    let values = match found {
        Value::Array(values) => values.0.as_slice(),
        Value::Symbol(_) => alone.as_slice(),
        _ => return differs("an array", found),
    };
    let wildcards = items.iter().any(|item| matches!(item.0, Shape::Any(_) | Shape::Variable(_)));
    if exactly || wildcards {
        if values.len() != items.len() {
            return differs(&format!("an array of {}", items.len()), found);
        }
        return each(items, values, variables, exactly);
    }
    for item in items {
        if !values.iter().any(|value| item.judge(value, variables, false).is_ok()) {
            return differs(&format!("an array with {item:?}"), found);
        }
    }
    Ok(())
}

fn judge_map(entries: &[(Term, Term)], found: &Value, variables: &mut Variables, exactly: bool) -> Fit {
    let Value::Map(map) = found else { return differs("a map", found) };
    if exactly && map.len() != entries.len() {
        return differs(&format!("a map of {} entries", entries.len()), found);
    }
    for (key, term) in entries {
        let entry = map.iter().find(|(name, _)| key.judge(name, &mut variables.clone(), false).is_ok());
        let Some((name, value)) = entry else { return differs(&format!("a map with {key:?}"), found) };
        inside(&show(name), term.judge(value, variables, exactly))?;
    }
    Ok(())
}

fn judge_composite(
    composite: &Composite,
    fields: &[(usize, Term)],
    found: &Value,
    variables: &mut Variables,
    exactly: bool,
) -> Fit {
    let items = match found {
        Value::Described(described) if described.descriptor == Descriptor::Code(composite.code) => {
            match &described.value {
                Value::List(items) => items,
                other => return differs(composite.name, other),
            }
        }
        _ => return differs(composite.name, found),
    };
    for (place, name) in composite.fields.iter().enumerate() {
        let value = items.get(place).unwrap_or(&Value::Null);
        match fields.iter().find(|(field, _)| *field == place) {
            Some((_, term)) => inside(name, term.judge(value, variables, exactly))?,
            None if exactly => inside(name, equal(&Value::Null, value))?,
            None => {}
        }
    }
    Ok(())
}

fn judge_described(
    descriptor: &Term,
    value: &Term,
    found: &Value,
    variables: &mut Variables,
    exactly: bool,
) -> Fit {
    let Value::Described(described) = found else { return differs("a described value", found) };
    let (code, name) = match &described.descriptor {
        Descriptor::Code(code) => (Value::Ulong(*code), section_of(*code).unwrap_or("value")),
        Descriptor::Name(name) => (Value::Symbol(name.clone()), "value"),
    };
    descriptor.judge(&code, variables, exactly)?;
    inside(name, value.judge(&described.value, variables, exactly))
}

/// Each demanded section is there, in any place.
pub(super) fn judge_sections(terms: &[Term], values: &[Value], variables: &mut Variables) -> Fit {
    let mut used = vec![false; values.len()];
    for term in terms {
        let mut reason = None;
        let mut found = None;
        for (place, value) in values.iter().enumerate() {
            if used.get(place) == Some(&true) {
                continue;
            }
            let mut tried = variables.clone();
            match term.fits(value, &mut tried) {
                Ok(()) => {
                    found = Some((place, tried));
                    break;
                }
                Err(misfit) if reason.is_none() && is_same_kind(term, value) => reason = Some(misfit),
                Err(_) => {}
            }
        }
        let Some((place, tried)) = found else {
            let all = Value::List(values.to_vec());
            return Err(reason.unwrap_or_else(|| Misfit {
                path: vec!["message".to_owned()],
                reason: format!("no section that fits {term:?} in {}", show(&all)),
            }));
        };
        *variables = tried;
        if let Some(used) = used.get_mut(place) {
            *used = true;
        }
    }
    Ok(())
}

fn is_same_kind(term: &Term, value: &Value) -> bool {
    let Value::Described(described) = value else { return false };
    let Descriptor::Code(code) = described.descriptor else { return false };
    match &term.0 {
        Shape::Exactly(inner) => is_same_kind(inner, value),
        Shape::Composite(composite, _) => composite.code == code,
        Shape::Described(descriptor, _) => descriptor.0 == Shape::Scalar(Value::Ulong(code)),
        _ => false,
    }
}

fn is_any(kind: &str, found: &Value) -> bool {
    match (kind, found) {
        (_, Value::Null) => false,
        ("", _)
        | ("uint", Value::Uint(_))
        | ("ulong", Value::Ulong(_))
        | ("int", Value::Int(_))
        | ("long", Value::Long(_))
        | ("string", Value::String(_))
        | ("symbol", Value::Symbol(_))
        | ("binary", Value::Binary(_))
        | ("timestamp", Value::Timestamp(_))
        | ("uuid", Value::Uuid(_)) => true,
        ("positive", Value::Uint(number)) => *number > 0,
        ("positive", Value::Ulong(number)) => *number > 0,
        _ => false,
    }
}

/// The values that bytes are, one after the other.
pub(super) fn values_of(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut rest = bytes;
    let mut values = Vec::new();
    while !rest.is_empty() {
        let first = amqp_codec::raw::RawValue::first(rest).ok()?;
        values.push(decode_value(first.bytes()).ok()?);
        rest = rest.get(first.bytes().len()..)?;
    }
    Some(values)
}
