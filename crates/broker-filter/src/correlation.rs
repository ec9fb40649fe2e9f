//! A filter that compares a few properties for equality.
//!
//! Invariant: has an answer for every message: what cannot be compared differs.

use crate::properties::{Property, PropertySet, SystemProperty};
use crate::value::Value;
use crate::written::{Written, WrittenForms};

/// All conditions hold: each names a property and the value it has.
///
/// Strings are compared with their case, names of user properties without. A filter without conditions
/// matches every message; whoever makes rules may refuse one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CorrelationFilter {
    /// By property, each once.
    conditions: Vec<(Property, Value)>,
    /// Forms in which values of user properties were written.
    written: WrittenForms,
}

impl CorrelationFilter {
    /// No conditions.
    pub const fn new() -> Self {
        Self { conditions: Vec::new(), written: WrittenForms::new() }
    }

    /// Adds the condition that a system property has this value; null takes the condition away.
    pub fn system(&mut self, property: SystemProperty, value: Value) {
        let property = Property::System(property);
        match self.place(&property) {
            Ok(place) if value.is_null() => drop(self.conditions.remove(place)),
            Err(_) if value.is_null() => {}
            _ => self.put(property, value),
        }
    }

    /// Adds the condition that a user property has this value; null is the value of a property that is
    /// present and null.
    pub fn user(&mut self, name: &str, value: Value) {
        self.written.forget(name);
        self.put(Property::User(name.into()), value);
    }

    /// The same, and keeps how the value was written.
    pub fn user_written(&mut self, name: &str, value: Value, written: Written) {
        self.user(name, value);
        self.written.keep(name, written);
    }

    /// Form in which the value of the user property of that name was written, where that was kept.
    pub fn written(&self, name: &str) -> Option<&Written> {
        self.written.get(name)
    }

    fn put(&mut self, property: Property, value: Value) {
        let place = self.place(&property);
        if let Some(old) = place.ok().and_then(|place| self.conditions.get_mut(place)) {
            *old = (property, value);
        } else if let Err(place) = place {
            self.conditions.insert(place, (property, value));
        }
    }

    fn place(&self, property: &Property) -> Result<usize, usize> {
        self.conditions.binary_search_by(|(other, _)| other.compare(property))
    }

    /// The conditions, in the order of their properties.
    pub fn conditions(&self) -> impl ExactSizeIterator<Item = (&Property, &Value)> {
        self.conditions.iter().map(|(property, value)| (property, value))
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether all conditions hold.
    pub fn matches(&self, properties: &PropertySet) -> bool {
        let holds = |(property, value): &(Property, Value)| {
            properties.get(property).is_some_and(|found| found.same(value))
        };
        self.conditions.iter().all(holds)
    }
}

#[cfg(test)]
mod tests;
