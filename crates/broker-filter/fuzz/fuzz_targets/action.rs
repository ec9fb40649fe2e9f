//! An action, and what it says it changed.
#![no_main]

use broker_filter::{Change, Parameters, PropertySet, SqlAction, SystemProperty, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let action = match SqlAction::parse(text, Parameters::new()) {
        Ok(action) => action,
        Err(error) => return assert!(text.is_char_boundary(error.at.offset), "{error}"),
    };
    let mut before = PropertySet::new();
    before.set_system(SystemProperty::To, "a".into());
    let users = [("a", Value::Int(1)), ("b", Value::Double(1.5)), ("c", "x".into()), ("d", Value::Null)];
    before.extend_user(users.map(|(name, value)| (name.into(), value)));
    let mut after = before.clone();
    match action.apply(&mut after, &mut || 0) {
        Err(_) => assert_eq!(after, before),
        Ok(changes) => {
            for change in changes {
                match change {
                    Change::SetSystem(property, value) => before.set_system(property, value),
                    Change::RemoveSystem(property) => before.set_system(property, Value::Null),
                    Change::SetUser { name, value } => before.set_user(&name, value),
                    Change::RemoveUser { name } => drop(before.remove_user(&name)),
                }
            }
            assert_eq!(after, before);
        }
    }
});
