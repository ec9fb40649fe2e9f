use super::*;
use crate::SystemProperty;

fn message() -> PropertySet {
    let mut set = PropertySet::new();
    set.set_system(SystemProperty::Label, "a bus to town".into());
    set.set_system(SystemProperty::MessageId, "123456".into());
    set.set_user("tag", "a".into());
    set.set_user("StoreId", "y".into());
    set.set_user("color", "blue".into());
    set.set_user("quantity", 10i64.into());
    set.set_user("price", 10.5.into());
    set.set_user("NServiceBus.EnclosedMessageTypes", "A.X, B".into());
    set.set_user("source", "s".into());
    set.set_user("userProp1", "value1".into());
    set.set_user("nothing", Value::Null);
    set
}

fn matches(text: &str) -> Result<bool, EvalError> {
    let mut parameters = Parameters::new();
    parameters.set("@p", "s".into());
    let filter = SqlFilter::parse(text, parameters).unwrap_or_else(|error| panic!("{text}: {error}"));
    filter.matches(&message(), &mut || 7)
}

#[test]
fn the_forms_of_the_documentation_match() {
    let forms = [
        "sys.Label LIKE '%bus%'",
        "sys.Subject LIKE '%bus%'",
        "user.tag IN ('a','b')",
        "StoreId NOT IN ('x')",
        "color='blue' AND quantity=10",
        "price > 10",
        "[NServiceBus.EnclosedMessageTypes] LIKE '%X%'",
        "\"NServiceBus.EnclosedMessageTypes\" LIKE '%X%'",
        "source = @p",
        "sys.MessageId = '123456' AND userProp1 = 'value1'",
        "1=1",
        "NOT (1 = 0) and p('COLOR') = 'blue'",
        "nothing IS NULL AND missing IS NULL AND color IS NOT NULL",
        "EXISTS(nothing) AND NOT EXISTS(missing)",
    ];
    for form in forms {
        assert_eq!(matches(form), Ok(true), "{form}");
    }
}
