//! Filters, one on each line, alone and in an index.
#![no_main]

use broker_filter::{Filter, Parameters, PropertySet, RuleIndex, SqlFilter, SystemProperty, Value};
use libfuzzer_sys::fuzz_target;

fn messages() -> [PropertySet; 3] {
    let mut some = PropertySet::new();
    some.set_system(SystemProperty::Label, "a".into());
    let users = [("a", Value::Int(1)), ("b", Value::Double(1.5)), ("c", "a%".into()), ("d", Value::Null)];
    some.extend_user(users.map(|(name, value)| (name.into(), value)));
    let mut other = some.clone();
    other.set_user("A", "a".into());
    other.set_user("b", Value::Bool(true));
    [PropertySet::new(), some, other]
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut index = RuleIndex::new();
    for (key, line) in text.lines().take(16).enumerate() {
        let mut parameters = Parameters::new();
        parameters.set("@p", Value::Timestamp(1));
        match SqlFilter::parse(line, parameters) {
            Ok(filter) => drop(index.insert(key, Filter::Sql(filter))),
            Err(error) => assert!(line.is_char_boundary(error.at.offset), "{error}"),
        }
    }
    for message in messages() {
        let tried = index.iter().map(|(key, filter)| (*key, filter.matches(&message, &mut || 0)));
        let expected: Vec<_> = tried.filter(|(_, outcome)| *outcome != Ok(false)).collect();
        let mut found = Vec::new();
        index.matching(&message, &mut || 0, |key, outcome| found.push((*key, outcome.map(|()| true))));
        assert_eq!(found, expected);
    }
});
