//! Terms as bytes, in the encodings of `Microsoft.Azure.Amqp`: the shortest, with every field of a composite, and arrays
//! with sizes of four bytes.
//!
//! Invariant: a term without a demand in it becomes the bytes that the recorded client sent, up to its variables.

use std::collections::BTreeMap;

use amqp_codec::{
    types::{write_binary, write_descriptor, write_list, write_map},
    value::{Array, Uuid, Value, write_value},
};
use bytes::{BufMut, BytesMut};

use super::{
    show::show,
    term::{Piece, Shape, Term},
};

/// Reason why a term is no value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// The text names a variable to which nothing has given a value.
    #[error("nothing has given `${0}` a value")]
    Unknown(String),
    /// The variable holds a value of another type than its place wants.
    #[error("`${name}` is {value}, which does not fit here")]
    Unfit {
        /// Name of the variable.
        name: String,
        /// Its value, as a recording would write it.
        value: String,
    },
    /// A demand stands where the client says something.
    #[error("a demand is no value")]
    Demand,
}

/// Values of the variables of a recording. Those whose names begin with `id` or `hex` have one from the start: a GUID with
/// and without dashes, which depends on the name and the seed.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    seed: u64,
    known: BTreeMap<String, Value>,
}

impl Variables {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, known: BTreeMap::new() }
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.known.insert(name.to_owned(), value);
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        self.known.get(name).cloned().or_else(|| self.generated(name))
    }

    fn generated(&self, name: &str) -> Option<Value> {
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<u64>().ok();
        if let Some(number) = number("id") {
            return Some(Value::String(format!("{:08x}-0000-4000-8000-{number:012x}", self.seed)));
        }
        number("hex").map(|number| Value::String(format!("{:016x}{number:016x}", self.seed)))
    }

    /// The lock token that a delivery-tag is: the fields of .NET's GUID turned into network order.
    pub(super) fn lock_token(&self, tag: &str) -> Option<Value> {
        let Some(Value::Binary(bytes)) = self.get(tag) else { return None };
        let mut token: [u8; 16] = bytes.to_vec().try_into().ok()?;
        for part in [0..4, 4..6, 6..8] {
            token.get_mut(part)?.reverse();
        }
        Some(Value::Uuid(Uuid::from(token)))
    }

    pub(super) fn text(&self, pieces: &[Piece]) -> Result<String, WriteError> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Plain(plain) => text.push_str(plain),
                Piece::Variable(name) => match self.get(name) {
                    Some(Value::String(value)) => text.push_str(&value),
                    Some(value) => {
                        return Err(WriteError::Unfit { name: name.clone(), value: show(&value) });
                    }
                    None => return Err(WriteError::Unknown(name.clone())),
                },
            }
        }
        Ok(text)
    }
}

impl Term {
    /// Appends the value.
    pub(super) fn write(&self, out: &mut BytesMut, variables: &Variables) -> Result<(), WriteError> {
        match &self.0 {
            Shape::Scalar(value) => write_value(out, value),
            Shape::Text { pieces, symbol } => {
                let text = variables.text(pieces)?;
                write_value(out, &if *symbol { Value::Symbol(text.into()) } else { Value::String(text) });
            }
            Shape::Variable(name) => {
                let value = variables.get(name).ok_or_else(|| WriteError::Unknown(name.clone()))?;
                write_value(out, &value);
            }
            Shape::LockToken(tag) => {
                let value = variables.lock_token(tag).ok_or_else(|| WriteError::Unknown(tag.clone()))?;
                write_value(out, &value);
            }
            Shape::List(items) => {
                let items = all(items, variables)?;
                if items.0 == 0 {
                    write_value(out, &Value::List(Vec::new()));
                } else {
                    write_list(out, items.0, |out| out.put_slice(&items.1));
                }
            }
            Shape::Map(entries) => {
                let entries: Vec<Self> =
                    entries.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
                let (count, bytes) = all(&entries, variables)?;
                write_map(out, count, |out| out.put_slice(&bytes));
            }
            Shape::Array(items) => write_array(out, items, variables)?,
            Shape::Composite(composite, fields) => {
                write_descriptor(out, composite.code);
                let null = Self(Shape::Scalar(Value::Null));
                let places: Vec<Self> = (0..composite.fields.len())
                    .map(|place| fields.iter().find(|(field, _)| *field == place))
                    .map(|field| field.map_or_else(|| null.clone(), |(_, term)| term.clone()))
                    .collect();
                Self(Shape::List(places)).write(out, variables)?;
            }
            Shape::Described(descriptor, value) => {
                out.put_u8(0);
                descriptor.write(out, variables)?;
                value.write(out, variables)?;
            }
            Shape::Encoded(terms) => write_binary(out, &all(terms, variables)?.1),
            Shape::Exactly(_) | Shape::Any(_) => return Err(WriteError::Demand),
        }
        Ok(())
    }
}

/// Their number, and their bytes one after the other.
pub(super) fn all(terms: &[Term], variables: &Variables) -> Result<(usize, BytesMut), WriteError> {
    let mut out = BytesMut::new();
    for term in terms {
        term.write(&mut out, variables)?;
    }
    Ok((terms.len(), out))
}

/// An array with a size of four bytes, which the library always writes.
fn write_array(out: &mut BytesMut, items: &[Term], variables: &Variables) -> Result<(), WriteError> {
    let mut values = Vec::new();
    for item in items {
        let mut bytes = BytesMut::new();
        item.write(&mut bytes, variables)?;
        values.push(amqp_codec::value::decode_value(&bytes).map_err(|_| WriteError::Demand)?);
    }
    let mut short = BytesMut::new();
    write_value(&mut short, &Value::Array(Array(values)));
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    // The constructor, then a size and a count of one byte each.
    let elements = if short.first() == Some(&0xe0) { short.split_off(3) } else { short.split_off(9) };
    out.put_u8(0xf0);
    out.put_u32(u32::try_from(elements.len() + 4).unwrap_or(u32::MAX));
    out.put_u32(count);
    out.put_slice(&elements);
    Ok(())
}
