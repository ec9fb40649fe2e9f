//! What the fuzz targets demand, of their stored corpora.

use std::path::Path;

use broker_filter::{
    Change, Filter, Parameters, PropertySet, RuleIndex, SqlAction, SqlFilter, SystemProperty, Value,
};

fn corpus(target: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let texts: Vec<String> =
        files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("a text")).collect();
    assert!(texts.len() > 5, "the corpus is there");
    texts
}

fn message() -> PropertySet {
    let mut set = PropertySet::new();
    set.set_system(SystemProperty::Label, "a".into());
    let users = [("a", Value::Int(1)), ("b", Value::Double(1.5)), ("c", "a%".into()), ("d", Value::Null)];
    set.extend_user(users.map(|(name, value)| (name.into(), value)));
    set
}

#[test]
fn stored_filters_answer_the_same_alone_and_in_an_index() {
    let (mut read, mut refused) = (0, 0);
    for text in corpus("filter") {
        let mut index = RuleIndex::new();
        for (key, line) in text.lines().enumerate() {
            let mut parameters = Parameters::new();
            parameters.set("@p", Value::Timestamp(1));
            if let Ok(filter) = SqlFilter::parse(line, parameters) {
                index.insert(key, Filter::Sql(filter));
                read += 1;
            } else {
                refused += 1;
            }
        }
        for set in [message(), PropertySet::new()] {
            let tried = index.iter().map(|(key, filter)| (*key, filter.matches(&set, &mut || 0)));
            let expected: Vec<_> = tried.filter(|(_, outcome)| *outcome != Ok(false)).collect();
            let mut found = Vec::new();
            index.matching(&set, &mut || 0, |key, outcome| found.push((*key, outcome.map(|()| true))));
            assert_eq!(found, expected, "{text}");
        }
    }
    assert!(read > 20 && refused > 8, "{read} read, {refused} refused");
}

#[test]
fn stored_actions_change_what_they_say() {
    for text in corpus("action") {
        let Ok(action) = SqlAction::parse(&text, Parameters::new()) else { continue };
        let (mut replayed, mut after) = (message(), message());
        for change in action.apply(&mut after, &mut || 0).unwrap_or_default() {
            match change {
                Change::SetSystem(property, value) => replayed.set_system(property, value),
                Change::RemoveSystem(property) => replayed.set_system(property, Value::Null),
                Change::SetUser { name, value } => replayed.set_user(&name, value),
                Change::RemoveUser { name } => assert!(replayed.remove_user(&name).is_some()),
            }
        }
        assert_eq!(replayed, after, "{text}");
    }
}
