//! Values and properties for property tests.
//!
//! Invariant: draws from few values and names, so that equal ones meet often.

use proptest::prelude::*;

use crate::{PropertySet, SystemProperty, Value};

/// Names of user properties; three differ in case only.
pub(crate) const NAMES: [&str; 5] = ["a", "A", "b", "c", "Ä"];

/// Any value; those of one kind are often equal.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-2i64..3).prop_map(Value::Int),
        Just(Value::Int(i64::MAX)),
        (-4i32..5).prop_map(|halves| Value::Double(f64::from(halves) / 2.0)),
        prop_oneof![Just(Value::Double(f64::NAN)), Just(Value::Double(9.3e18)), Just(Value::Double(-0.0))],
        "[ab]{0,2}".prop_map(|text| Value::from(&*text)),
        (0i64..3).prop_map(Value::Timestamp),
        (0i64..3).prop_map(Value::Duration),
        (0u8..2).prop_map(|byte| Value::Uuid([byte; 16])),
        prop::collection::vec(0u8..2, 0..2).prop_map(|bytes| Value::Binary(bytes.into())),
    ]
}

pub(crate) fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

/// System properties that the other strategies use.
pub(crate) fn system() -> impl Strategy<Value = SystemProperty> {
    prop::sample::select(&[SystemProperty::Label, SystemProperty::To][..])
}

/// The properties of a message, names that differ in case only among them.
pub(crate) fn properties() -> impl Strategy<Value = PropertySet> {
    let users = prop::collection::vec((name(), value()), 0..5);
    let systems = prop::collection::vec((system(), value()), 0..3);
    (users, systems).prop_map(|(users, systems)| {
        let mut set = PropertySet::new();
        set.extend_user(users.into_iter().map(|(name, value)| (name.into(), value)));
        for (property, value) in systems {
            set.set_system(property, value);
        }
        set
    })
}
