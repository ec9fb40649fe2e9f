use proptest::prelude::*;

use super::*;
use crate::samples;

fn message() -> PropertySet {
    let mut set = PropertySet::new();
    set.set_system(SystemProperty::CorrelationId, "c".into());
    set.set_system(SystemProperty::SequenceNumber, 7i64.into());
    set.set_system(SystemProperty::EnqueuedTimeUtc, Value::Timestamp(1000));
    set.set_system(SystemProperty::TimeToLive, Value::Duration(50));
    set.set_user("priority", "low".into());
    set.set_user("Count", 5i64.into());
    set.set_user("ratio", 0.5.into());
    set
}

fn read(text: &str) -> SqlAction {
    SqlAction::parse(text, Parameters::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn apply(text: &str) -> Result<Vec<Change>, EvalError> {
    read(text).apply(&mut message(), &mut || u128::MAX)
}

fn user(name: &str, value: impl Into<Value>) -> Change {
    Change::SetUser { name: name.into(), value: value.into() }
}

fn gone(name: &str) -> Change {
    Change::RemoveUser { name: name.into() }
}

#[test]
fn statements_change_one_property_each_and_see_what_came_before() {
    use SystemProperty::{CorrelationId, Label, MessageId, ScheduledEnqueueTimeUtc, TimeToLive, To};
    let system = Change::SetSystem;
    let cases = [
        ("SET a = 1", vec![user("a", 1i64)]),
        ("Set a = 1; set b = a + 1;", vec![user("a", 1i64), user("b", 2i64)]),
        ("SET a = 1 SET b = a REMOVE a", vec![user("a", 1i64), user("b", 1i64), gone("a")]),
        ("SET Priority = 'high'", vec![user("priority", "high")]),
        ("SET user.PRIORITY = 'high'", vec![user("priority", "high")]),
        ("SET [a.b] = TRUE", vec![user("a.b", true)]),
        ("SET count = count + 1", vec![user("Count", 6i64)]),
        ("SET count = 7.0", vec![user("Count", 7i64)]),
        ("SET count = 7.5", vec![user("Count", 7.5)]),
        ("SET count = '8'", vec![user("Count", 8i64)]),
        ("SET ratio = 2", vec![user("ratio", 2.0)]),
        ("SET priority = 5", vec![user("priority", "5")]),
        ("SET a = NULL", vec![user("a", Value::Null)]),
        ("SET a = missing + 1", vec![user("a", Value::Null)]),
        ("SET CorrelationId = 'x'", vec![user("CorrelationId", "x")]),
        ("SET sys.CorrelationId = 'x'", vec![system(CorrelationId, "x".into())]),
        ("SET sys.To = 'Entity'", vec![system(To, "Entity".into())]),
        ("SET sys.Subject = 5", vec![system(Label, "5".into())]),
        (
            "SET sys.MessageId = newid()",
            vec![system(MessageId, "ffffffff-ffff-4fff-bfff-ffffffffffff".into())],
        ),
        (
            "SET sys.TimeToLive = sys.TimeToLive + sys.TimeToLive",
            vec![system(TimeToLive, Value::Duration(100))],
        ),
        (
            "SET sys.ScheduledEnqueueTimeUtc = sys.EnqueuedTimeUtc",
            vec![system(ScheduledEnqueueTimeUtc, Value::Timestamp(1000))],
        ),
        ("SET sys.CorrelationId = NULL", vec![Change::RemoveSystem(CorrelationId)]),
        ("REMOVE sys.CorrelationId", vec![Change::RemoveSystem(CorrelationId)]),
        ("REMOVE PRIORITY", vec![gone("priority")]),
        ("REMOVE missing", vec![]),
    ];
    for (text, expected) in cases {
        assert_eq!(apply(text), Ok(expected), "{text}");
    }
}

#[test]
fn an_action_that_fails_changes_nothing() {
    let cases = [
        ("SET a = 1; SET sys.Nope = 1", "there is no system property `Nope`"),
        ("SET a = 1; REMOVE sys.Nope", "there is no system property `Nope`"),
        ("SET a = sys.Nope", "there is no system property `Nope`"),
        ("SET a = 1; SET sys.SequenceNumber = 1", "`sys.SequenceNumber` cannot be changed"),
        ("REMOVE sys.SequenceNumber", "`sys.SequenceNumber` cannot be changed"),
        ("SET sys.TimeToLive = 5", "`sys.TimeToLive` cannot be number"),
        ("SET sys.ScheduledEnqueueTimeUtc = '2026'", "`sys.ScheduledEnqueueTimeUtc` cannot be string"),
        ("SET sys.To = sys.EnqueuedTimeUtc", "`sys.To` cannot be time"),
        ("REMOVE priority; SET count = count / 0", "division by zero"),
        ("SET a = priority - 1", "`-` is not defined between string and number"),
    ];
    for (text, expected) in cases {
        let mut set = message();
        let error = read(text).apply(&mut set, &mut || 0).map_err(|error| error.to_string());
        assert_eq!(error, Err(expected.to_owned()), "{text}");
        assert_eq!(set, message(), "{text}");
    }
}

#[test]
fn doubling_a_string_ends_at_its_limit() {
    let text = format!("SET a = 'xxxxxxxx'; {}", "SET a = a + a; ".repeat(31));
    assert_eq!(apply(&text), Err(EvalError::TextTooLong));
}

#[test]
fn an_error_says_where_it_is() {
    let cases = [
        ("", 1, "expected `SET` or `REMOVE`, found the end"),
        ("a = 1", 1, "expected `SET` or `REMOVE`, found `a`"),
        ("SET", 4, "expected the name of a property, found the end"),
        ("SET a", 6, "expected `=`, found the end"),
        ("SET a = ", 9, "expected a value, found the end"),
        (
            "SET a = 1 b = 2",
            11,
            "expected an arithmetic operator, `;`, `SET`, `REMOVE` or the end, found `b`",
        ),
        ("SET a = 1; b = 2", 12, "expected `SET`, `REMOVE` or the end, found `b`"),
        ("SET a = 1;;", 11, "expected `SET`, `REMOVE` or the end, found `;`"),
        ("SET a = b > 1", 11, "expected an arithmetic operator, `;`, `SET`, `REMOVE` or the end, found `>`"),
        ("SET a = NOT b", 9, "expected a value, found `NOT`"),
        ("SET set = 1", 5, "expected the name of a property, found `set`"),
        ("SET a = remove", 9, "expected a value, found `remove`"),
        ("REMOVE", 7, "expected the name of a property, found the end"),
        ("REMOVE p('a')", 9, "expected an arithmetic operator, `;`, `SET`, `REMOVE` or the end, found `(`"),
        ("SET a = @x", 9, "parameter `@x` has no value"),
    ];
    for (text, column, expected) in cases {
        let error = SqlAction::parse(text, Parameters::new()).expect_err(text);
        assert_eq!((error.at.column, &*error.problem.to_string()), (column, expected), "{text}");
    }
}

#[test]
fn an_action_ends_at_its_limits() {
    let statements = |count: usize| "SET a=1 ".repeat(count);
    assert!(SqlAction::parse(&statements(MAX_ACTION_STATEMENTS), Parameters::new()).is_ok());
    let error = SqlAction::parse(&statements(MAX_ACTION_STATEMENTS + 1), Parameters::new()).unwrap_err();
    assert_eq!(error.problem, Problem::TooManyStatements { limit: MAX_ACTION_STATEMENTS });

    let text = |chars: usize| format!("SET a = '{}'", "ä".repeat(chars - 10));
    assert!(SqlAction::parse(&text(MAX_ACTION_CHARS), Parameters::new()).is_ok());
    let error = SqlAction::parse(&text(MAX_ACTION_CHARS + 1), Parameters::new()).unwrap_err();
    assert_eq!(error.problem, Problem::TooLong { limit: MAX_ACTION_CHARS });
}

#[test]
fn an_action_keeps_its_text_and_parameters() {
    let mut parameters = Parameters::new();
    parameters.set("@v", "x".into());
    let action = SqlAction::parse("SET a = @v", parameters.clone()).unwrap();
    assert_eq!((action.text(), action.parameters()), ("SET a = @v", &parameters));
    assert_eq!(action.apply(&mut message(), &mut || 0), Ok(vec![user("a", "x")]));
}

proptest! {
    #[test]
    fn the_changes_are_what_became_of_the_properties(
        set in samples::properties(),
        text in prop::sample::select(&[
            "SET a = b", "SET b = c; REMOVE a", "SET c = a + b; SET sys.Label = c", "REMOVE ä; SET A = sys.To",
            "SET sys.To = a; SET b = -b", "SET d = p('a'); SET a = d; REMOVE sys.To",
        ][..]),
    ) {
        let mut after = set.clone();
        let Ok(changes) = read(text).apply(&mut after, &mut || 0) else {
            prop_assert_eq!(after, set);
            return Ok(());
        };
        let mut replayed = set;
        for change in changes {
            match change {
                Change::SetSystem(property, value) => replayed.set_system(property, value),
                Change::RemoveSystem(property) => replayed.set_system(property, Value::Null),
                Change::SetUser { name, value } => replayed.set_user(&name, value),
                Change::RemoveUser { name } => prop_assert!(replayed.remove_user(&name).is_some()),
            }
        }
        prop_assert_eq!(replayed, after);
    }

    #[test]
    fn no_text_makes_it_panic(text in "(SET|REMOVE|a|=|;| |'x'|-|\\(|\\PC){0,20}") {
        drop(SqlAction::parse(&text, Parameters::new()));
    }
}
