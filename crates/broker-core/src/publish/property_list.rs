//! The names and values of properties, shared by the messages that one settlement changes in the same way.
//!
//! Invariant: a list that is changed is its owner's alone; another that shared it keeps what it had.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    vec,
};

use broker_filter::Value;
use bytes::Bytes;

/// A value of a modified application property.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    /// A string that the broker itself wrote.
    Text(Box<str>),
    /// A value a client sent, as the protocol encoded it (constructor byte included). The core does not read it.
    Encoded(Bytes),
    /// A value that the action of a rule gave.
    Value(Value),
    Removed,
}

type Property = (Box<str>, PropertyValue);

static EMPTY: Vec<Property> = Vec::new();

/// Properties in their order. A clone shares them. An empty list takes no memory.
#[derive(Clone, Debug, Default)]
pub struct PropertyList(Option<Arc<Vec<Property>>>);

impl PropertyList {
    pub(crate) fn into_vec(self) -> Vec<Property> {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    /// This list's part of the memory that all who share it take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let Some(shared) = &self.0 else { return 0 };
        let of_value = |value: &PropertyValue| match value {
            PropertyValue::Text(text) => text.len(),
            PropertyValue::Encoded(bytes) => bytes.len(),
            // These are made by the core.
            PropertyValue::Value(_) | PropertyValue::Removed => 0,
        };
        let one = |(name, value): &Property| size_of::<Property>() + name.len() + of_value(value);
        shared.iter().map(one).sum::<usize>().div_ceil(Arc::strong_count(shared))
    }
}

impl Deref for PropertyList {
    type Target = Vec<Property>;

    fn deref(&self) -> &Vec<Property> {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for PropertyList {
    fn deref_mut(&mut self) -> &mut Vec<Property> {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl PartialEq for PropertyList {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl From<Vec<Property>> for PropertyList {
    fn from(properties: Vec<Property>) -> Self {
        Self((!properties.is_empty()).then(|| Arc::new(properties)))
    }
}

impl FromIterator<Property> for PropertyList {
    fn from_iter<I: IntoIterator<Item = Property>>(properties: I) -> Self {
        Vec::from_iter(properties).into()
    }
}

impl IntoIterator for PropertyList {
    type Item = Property;
    type IntoIter = vec::IntoIter<Property>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a PropertyList {
    type Item = &'a Property;
    type IntoIter = std::slice::Iter<'a, Property>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
