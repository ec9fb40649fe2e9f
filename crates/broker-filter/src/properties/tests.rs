use proptest::prelude::*;

use super::*;
use crate::samples;

#[test]
fn system_properties_have_the_names_of_the_documentation_in_any_case() {
    let cases = [
        ("MessageId", Some(SystemProperty::MessageId)),
        ("messageid", Some(SystemProperty::MessageId)),
        ("Label", Some(SystemProperty::Label)),
        ("Subject", Some(SystemProperty::Label)),
        ("STATE", Some(SystemProperty::State)),
        ("Nope", None),
        ("message-id", None),
        ("", None),
    ];
    for case @ (name, expected) in cases {
        assert_eq!(SystemProperty::named(name), expected, "{case:?}");
    }
    assert_eq!(SystemProperty::all().count(), 23);
    for property in SystemProperty::all() {
        assert_eq!(SystemProperty::named(&property.to_string()), Some(property));
    }
}

#[test]
fn a_user_property_is_found_in_any_case_and_keeps_its_own() {
    let mut set = PropertySet::new();
    set.set_user("Color", "red".into());
    assert_eq!(set.user("COLOR"), Some(&"red".into()));
    set.set_user("color", "blue".into());
    assert_eq!(set.users().collect::<Vec<_>>(), [("Color", &Value::from("blue"))]);
    assert_eq!(set.user_name("cOLOR"), Some("Color"));
    assert_eq!(set.remove_user("COLOR"), Some(("Color".into(), "blue".into())));
    assert_eq!(set.remove_user("Color"), None);
}

#[test]
fn of_names_that_differ_in_case_only_the_exact_one_is_found_else_the_first() {
    let mut set = PropertySet::new();
    set.extend_user([
        ("b".into(), Value::Int(0)),
        ("color".into(), Value::Int(1)),
        ("Color".into(), Value::Int(2)),
    ]);
    let cases = [("color", 1), ("Color", 2), ("COLOR", 1)];
    for case @ (name, expected) in cases {
        assert_eq!(set.user(name), Some(&Value::Int(expected)), "{case:?}");
    }
    set.set_user("Color", Value::Int(3));
    assert_eq!(set.user("color"), Some(&Value::Int(1)));
    set.remove_user("COLOR");
    assert_eq!(set.user("color"), Some(&Value::Int(3)));
}

#[test]
fn null_is_a_value_of_a_user_property_and_none_of_a_system_property() {
    let mut set = PropertySet::new();
    set.set_user("a", Value::Null);
    set.set_system(SystemProperty::To, "x".into());
    set.set_system(SystemProperty::To, Value::Null);
    assert_eq!(set.user("a"), Some(&Value::Null));
    assert_eq!(set.system(SystemProperty::To), None);
    assert_eq!(set.systems().count(), 0);
}

proptest! {
    #[test]
    fn a_set_answers_as_a_list_that_is_searched(
        entries in prop::collection::vec((samples::name(), samples::value()), 0..6),
        asked in samples::name(),
    ) {
        let mut set = PropertySet::new();
        set.extend_user(entries.iter().map(|(name, value)| ((*name).into(), value.clone())));
        let exact = entries.iter().find(|(name, _)| *name == asked);
        let alike = || entries.iter().find(|(name, _)| name.to_lowercase() == asked.to_lowercase());
        prop_assert_eq!(set.user(asked), exact.or_else(alike).map(|(_, value)| value));
        prop_assert_eq!(set.users().count(), entries.len());
    }

    #[test]
    fn a_property_of_a_set_has_the_hash_of_its_name(set in samples::properties()) {
        let hashes: Vec<u64> = set.hashes().map(|(hash, _)| hash).collect();
        for (name, _) in set.users() {
            prop_assert!(hashes.contains(&Property::User(name.to_uppercase().into()).hash()));
        }
        for (property, _) in set.systems() {
            prop_assert!(hashes.contains(&Property::System(property).hash()));
        }
    }
}
