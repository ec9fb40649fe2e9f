mod reference;

use proptest::prelude::*;

use super::*;
use crate::limits::{MAX_LIKE_STEPS, MAX_PATTERN_CHARS, MAX_TEXT_BYTES};
use crate::{Kind, PatternError, SystemProperty, Written, samples};

fn message() -> PropertySet {
    let mut set = PropertySet::new();
    set.set_system(SystemProperty::Label, "a bus to town".into());
    set.set_system(SystemProperty::MessageId, "123456".into());
    let users = [
        ("tag", Value::from("a")),
        ("StoreId", "y".into()),
        ("color", "blue".into()),
        ("quantity", Value::Int(10)),
        ("price", Value::Double(10.5)),
        ("NServiceBus.EnclosedMessageTypes", "A.X, B".into()),
        ("source", "s".into()),
        ("userProp1", "value1".into()),
        ("int", Value::Int(5)),
        ("double", Value::Double(5.0)),
        ("text", "b".into()),
        ("yes", Value::Bool(true)),
        ("time", Value::Timestamp(1000)),
        ("span", Value::Duration(1000)),
        ("id", Value::Uuid([1; 16])),
        ("bytes", Value::Binary([1].into())),
        ("nan", Value::Double(f64::NAN)),
        ("empty", Value::Null),
    ];
    set.extend_user(users.map(|(name, value)| (name.into(), value)));
    set
}

fn parameters() -> Parameters {
    let mut parameters = Parameters::new();
    let values = [
        ("@p", Value::from("s")),
        ("@time", Value::Timestamp(1000)),
        ("@later", Value::Timestamp(2000)),
        ("@span", Value::Duration(1000)),
        ("@id", Value::Uuid([1; 16])),
        ("@bytes", Value::Binary([1].into())),
        ("@null", Value::Null),
    ];
    for (name, value) in values {
        parameters.set(name, value);
    }
    parameters
}

fn read(text: &str) -> SqlFilter {
    SqlFilter::parse(text, parameters()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn matches(text: &str) -> Result<bool, EvalError> {
    read(text).matches(&message(), &mut || 7)
}

/// T, F, U or E.
fn answer(text: &str) -> char {
    // In parentheses behind `NOT`, so that all of it is one condition.
    let filter = read(&format!("NOT ({text})"));
    let [Predicate::Not(condition)] = filter.conjuncts() else { panic!("{text}") };
    match condition.evaluate(&message(), &mut Evaluation::new(&mut || 7)) {
        Ok(Some(true)) => 'T',
        Ok(Some(false)) => 'F',
        Ok(None) => 'U',
        Err(_) => 'E',
    }
}

#[test]
fn a_lenient_filter_never_fails_and_agrees_where_another_does_not_fail() {
    // What is compared, and the answers of the two: of the lenient one, and of the other.
    let cases = [
        ("int = 5", true, Ok(true)),
        ("int = 'x'", false, Err(())),
        ("NOT int = 'x'", true, Err(())),
        ("int <> 'x'", false, Err(())),
        ("int IN ('x', 5)", true, Err(())),
        ("int NOT IN ('x')", true, Err(())),
        ("int IN ('x', missing)", false, Err(())),
        ("int NOT IN ('x', missing)", false, Err(())),
        ("int LIKE 'x'", false, Err(())),
        ("int NOT LIKE 'x'", true, Err(())),
        ("yes < TRUE", false, Err(())),
        ("int / 0 = 1", false, Err(())),
        ("NOT int / 0 = 1", false, Err(())),
        ("int / 0 = 1 OR text = 'b'", true, Err(())),
        ("sys.Nothing = 1", false, Err(())),
        ("NOT sys.Nothing = 1", false, Err(())),
        ("sys.Nothing IS NULL", false, Err(())),
        ("missing IS NULL AND EXISTS(int)", true, Ok(true)),
        ("missing = 1", false, Ok(false)),
        ("NOT missing = 1", false, Ok(false)),
    ];
    for (text, lenient, strict) in cases {
        let filter = SqlFilter::parse_lenient(text, parameters()).unwrap();
        assert_eq!(filter.matches(&message(), &mut || 7), Ok(lenient), "{text}");
        assert_eq!(matches(text).map_err(drop), strict, "{text}");
        assert_ne!(filter, read(text), "they are told apart");
    }
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
        "property('NServiceBus.' + 'EnclosedMessageTypes') LIKE 'A%'",
        "empty IS NULL AND missing IS NULL AND color IS NOT NULL",
        "EXISTS(empty) AND NOT EXISTS(missing)",
    ];
    for form in forms {
        assert_eq!(matches(form), Ok(true), "{form}");
    }
    assert_eq!(matches("1=0"), Ok(false));
    assert_eq!(matches("missing <> 'a'"), Ok(false));
}

#[test]
fn each_comparison_of_each_two_kinds_has_its_answer() {
    // Answers to = <> < <= > >=.
    let cases = [
        ("int", "5", "TFFTFT"),
        ("int", "6", "FTTTFF"),
        ("int", "4", "FTFFTT"),
        ("int", "5.0", "TFFTFT"),
        ("int", "5.5", "FTTTFF"),
        ("int", "double", "TFFTFT"),
        ("double", "5", "TFFTFT"),
        ("double", "4.9E0", "FTFFTT"),
        ("nan", "nan", "FTFFFF"),
        ("nan", "5", "FTFFFF"),
        ("text", "'b'", "TFFTFT"),
        ("text", "'B'", "FTFFTT"),
        ("text", "'ba'", "FTTTFF"),
        ("text", "'a'", "FTFFTT"),
        ("yes", "TRUE", "TFEEEE"),
        ("yes", "FALSE", "FTEEEE"),
        ("time", "@time", "TFFTFT"),
        ("time", "@later", "FTTTFF"),
        ("span", "@span", "TFFTFT"),
        ("id", "@id", "TFEEEE"),
        ("id", "newid()", "FTEEEE"),
        ("bytes", "@bytes", "TFEEEE"),
        ("int", "'5'", "EEEEEE"),
        ("int", "TRUE", "EEEEEE"),
        ("int", "@time", "EEEEEE"),
        ("text", "5", "EEEEEE"),
        ("text", "TRUE", "EEEEEE"),
        ("text", "@id", "EEEEEE"),
        ("text", "@bytes", "EEEEEE"),
        ("yes", "1", "EEEEEE"),
        ("yes", "'true'", "EEEEEE"),
        ("time", "1000", "EEEEEE"),
        ("time", "'1970-01-01'", "EEEEEE"),
        ("time", "@span", "EEEEEE"),
        ("int", "NULL", "UUUUUU"),
        ("int", "missing", "UUUUUU"),
        ("text", "empty", "UUUUUU"),
        ("yes", "@null", "UUUUUU"),
        ("missing", "5", "UUUUUU"),
        ("missing", "'a'", "UUUUUU"),
        ("empty", "TRUE", "UUUUUU"),
        ("NULL", "NULL", "UUUUUU"),
        ("sys.To", "'a'", "UUUUUU"),
        ("sys.Nope", "1", "EEEEEE"),
        ("sys.Label", "'a bus to town'", "TFFTFT"),
    ];
    for (left, right, expected) in cases {
        let signs = ["=", "<>", "<", "<=", ">", ">="];
        let found: String = signs.iter().map(|sign| answer(&format!("{left} {sign} {right}"))).collect();
        assert_eq!(found, expected, "{left} and {right}");
        assert_eq!(answer(&format!("{left} != {right}")), answer(&format!("{left} <> {right}")));
    }
}

#[test]
fn conditions_have_these_answers() {
    let cases = [
        ("text LIKE 'b'", 'T'),
        ("text LIKE 'B'", 'F'),
        ("text NOT LIKE 'b'", 'F'),
        ("text LIKE NULL", 'U'),
        ("text NOT LIKE missing", 'U'),
        ("missing LIKE '%'", 'U'),
        ("missing NOT LIKE '%'", 'U'),
        ("empty LIKE '%'", 'U'),
        ("text LIKE '%' ESCAPE NULL", 'U'),
        ("text LIKE tag ESCAPE missing", 'U'),
        ("int LIKE '5'", 'E'),
        ("text LIKE 5", 'E'),
        ("text LIKE 'b' ESCAPE 5", 'E'),
        ("text LIKE 'b' ESCAPE color", 'E'),
        ("text + '%' LIKE 'b!%' ESCAPE '!'", 'T'),
        ("'abc' LIKE 'a' + '%'", 'T'),
        ("int IN (4, 5)", 'T'),
        ("int IN (4, 5.0)", 'T'),
        ("int IN (4, 6)", 'F'),
        ("int NOT IN (4, 6)", 'T'),
        ("int NOT IN (4, 5)", 'F'),
        ("int IN (NULL, 5)", 'T'),
        ("int IN (NULL, 4)", 'U'),
        ("int NOT IN (NULL, 4)", 'U'),
        ("int NOT IN (NULL, 5)", 'F'),
        ("missing IN (4)", 'U'),
        ("missing NOT IN (4)", 'U'),
        ("NULL IN (NULL)", 'U'),
        ("missing IN ('a', 5, sys.Nope)", 'U'),
        ("int IN ('a', 5)", 'E'),
        ("int IN (5, 'a')", 'T'),
        ("empty IS NULL", 'T'),
        ("missing IS NULL", 'T'),
        ("text IS NULL", 'F'),
        ("empty IS NOT NULL", 'F'),
        ("text IS NOT NULL", 'T'),
        ("sys.To IS NULL", 'T'),
        ("sys.Label IS NULL", 'F'),
        ("sys.Nope IS NULL", 'E'),
        ("EXISTS(empty)", 'T'),
        ("EXISTS(missing)", 'F'),
        ("EXISTS(sys.Label)", 'T'),
        ("EXISTS(sys.To)", 'F'),
        ("EXISTS(sys.Nope)", 'E'),
        ("int + missing = 5", 'U'),
        ("-missing = 5", 'U'),
        ("missing + 'a' = 'a'", 'U'),
        ("missing / 0 = 1", 'U'),
        ("int / 0 = 1", 'E'),
        ("int + 9223372036854775807 = 1", 'E'),
        ("int / 2 = 2 AND int / 2.0 = 2.5", 'T'),
        ("int % 3 = 2 AND -int % 3 = -2", 'T'),
        ("text + int = 'b5'", 'T'),
        ("text - text = 1", 'E'),
        ("@later - time > span", 'T'),
        ("-text = 1", 'E'),
        ("p('INT') = 5", 'T'),
        ("p(missing) = 5", 'U'),
        ("p('missing') = 5", 'U'),
        ("p(5) = 5", 'E'),
        ("p('sys.Label') = 'x'", 'U'),
        ("newid() = newid()", 'T'),
        ("INT = Int", 'T'),
        ("ÄÖ = 1", 'U'),
    ];
    for (text, expected) in cases {
        assert_eq!(answer(text), expected, "{text}");
    }
}

#[test]
fn truth_has_three_values() {
    let value = |letter| match letter {
        'T' => "int = 5",
        'F' => "int = 4",
        'U' => "missing = 5",
        _ => "sys.Nope = 1",
    };
    // Left, right, AND, OR. E is an error: it counts where it is reached.
    let cases = [
        ('T', 'T', 'T', 'T'),
        ('T', 'F', 'F', 'T'),
        ('T', 'U', 'U', 'T'),
        ('F', 'T', 'F', 'T'),
        ('F', 'F', 'F', 'F'),
        ('F', 'U', 'F', 'U'),
        ('U', 'T', 'U', 'T'),
        ('U', 'F', 'F', 'U'),
        ('U', 'U', 'U', 'U'),
        ('F', 'E', 'F', 'E'),
        ('T', 'E', 'E', 'T'),
        ('U', 'E', 'E', 'E'),
        ('E', 'F', 'E', 'E'),
        ('E', 'T', 'E', 'E'),
    ];
    for case @ (left, right, and, or) in cases {
        let (left, right) = (value(left), value(right));
        assert_eq!(answer(&format!("{left} AND {right}")), and, "{case:?}");
        assert_eq!(answer(&format!("{left} OR {right}")), or, "{case:?}");
    }
    for case @ (operand, not) in [('T', 'F'), ('F', 'T'), ('U', 'U'), ('E', 'E')] {
        assert_eq!(answer(&format!("NOT {}", value(operand))), not, "{case:?}");
    }
}

#[test]
fn an_outermost_and_stops_at_what_is_not_true() {
    assert_eq!(matches("missing = 1 AND sys.Nope = 1"), Ok(false));
    assert_eq!(matches("(missing = 1 AND int = 5) AND sys.Nope = 1"), Ok(false));
    let error = EvalError::UnknownSystemProperty("Nope".into());
    assert_eq!(matches("int = 5 AND sys.Nope = 1"), Err(error.clone()));
    assert_eq!(matches("(missing = 1 AND sys.Nope = 1) OR int = 5"), Err(error));
}

#[test]
fn errors_name_what_went_wrong() {
    let cases = [
        ("sys.Nope = 1", "there is no system property `Nope`"),
        ("int = 'a'", "`=` is not defined between number and string"),
        ("int IN ('a')", "`=` is not defined between number and string"),
        ("yes < FALSE", "`<` is not defined between boolean and boolean"),
        ("time >= '2026'", "`>=` is not defined between time and string"),
        ("int LIKE 'a'", "what `LIKE` compares cannot be number"),
        ("text LIKE yes", "a pattern cannot be boolean"),
        ("text LIKE 'a' ESCAPE 1", "the escape of a pattern cannot be number"),
        ("text LIKE text ESCAPE ''", "the escape of a pattern is one character"),
        ("p(int) = 1", "the name of a property cannot be number"),
        ("1 / 0 = 1", "division by zero"),
        ("9223372036854775807 + 1 = 1", "the result is too large for an integer of 64 bits"),
    ];
    for (text, expected) in cases {
        assert_eq!(matches(text).map_err(|error| error.to_string()), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_a_message_brings_is_bounded() {
    let mut set = PropertySet::new();
    set.set_user("pattern", "a".repeat(MAX_PATTERN_CHARS).as_str().into());
    set.set_user("long", "a".repeat(MAX_PATTERN_CHARS + 1).as_str().into());
    set.set_user("huge", "a".repeat(MAX_TEXT_BYTES).as_str().into());
    let run = |text: &str| read(text).matches(&set, &mut || 0);
    assert_eq!(run("pattern LIKE pattern"), Ok(true));
    assert_eq!(run("'a' LIKE long"), Err(EvalError::BadPattern(PatternError::TooLong)));
    assert_eq!(run("huge + '' = huge"), Ok(true));
    assert_eq!(run("huge + 'a' = huge"), Err(EvalError::TextTooLong));
}

#[test]
fn the_steps_of_patterns_with_holes_are_bounded_for_an_evaluation() {
    let letters = 1024;
    let mut set = PropertySet::new();
    // At each place of the text, all letters of the pattern but the last fit.
    set.set_user("pattern", format!("%_{}b%", "a".repeat(letters - 4)).as_str().into());
    set.set_user("text", "a".repeat(MAX_TEXT_BYTES).as_str().into());
    set.set_user("long", "a".repeat(8 * 32 * MAX_TEXT_BYTES + 8).as_str().into());
    set.set_user("half", "a".repeat(MAX_TEXT_BYTES / 64).as_str().into());
    let run = |text: &str| read(text).matches_counted(&set, &mut || 0);
    assert_eq!(run("text LIKE pattern"), (Err(EvalError::TooManySteps), MAX_LIKE_STEPS));
    let repeated = ["text LIKE pattern"; 40].join(" OR ");
    assert_eq!(run(&repeated), (Err(EvalError::TooManySteps), MAX_LIKE_STEPS));
    // A selector goes on behind what cannot be computed, with nothing left.
    let lenient = SqlFilter::parse_lenient(&repeated, Parameters::new()).unwrap();
    assert_eq!(lenient.matches_counted(&set, &mut || 0), (Ok(false), MAX_LIKE_STEPS));
    // A pattern that the filter's own text has counts as one that a message brings.
    let own = format!("text LIKE '%_{}b%'", "a".repeat(900));
    assert_eq!(run(&own), (Err(EvalError::TooManySteps), MAX_LIKE_STEPS));
    assert!(matches!(run("half LIKE pattern"), (Ok(false), 1..MAX_LIKE_STEPS)));
    assert_eq!(run("text LIKE '%aab%'"), (Ok(false), MAX_TEXT_BYTES as u64 / 8));
    assert_eq!(run("text LIKE 'aab%' OR text LIKE '%aab' OR text LIKE 'aab'"), (Ok(false), 0));
    assert_eq!(run("long LIKE '%b%'"), (Err(EvalError::TooManySteps), MAX_LIKE_STEPS));
    assert_eq!(run("long LIKE '%aa%'"), (Ok(true), 0));
}

#[test]
fn a_filter_may_take_the_last_step_and_none_more() {
    let mut set = PropertySet::new();
    set.set_user("text", "a".repeat(MAX_TEXT_BYTES).as_str().into());
    let run = |text: &str| read(text).matches_counted(&set, &mut || 0);
    // One step for each letter: `b` is never found. 32 conditions use all steps.
    let all = ["text LIKE '%b_%'"; 32].join(" OR ");
    assert_eq!(run(&all), (Ok(false), MAX_LIKE_STEPS));
    assert_eq!(run(&format!("{all} OR text LIKE 'b_'")), (Err(EvalError::TooManySteps), MAX_LIKE_STEPS));
}

#[test]
fn newid_is_a_random_uuid_of_version_4() {
    let mut parameters = Parameters::new();
    let text = "ffffffff-ffff-4fff-bfff-ffffffffffff";
    parameters.set("@id", Value::from(text));
    let filter = SqlFilter::parse("'' + newid() = @id", parameters).unwrap();
    assert_eq!(filter.matches(&PropertySet::new(), &mut || u128::MAX), Ok(true));
    let mut asked = 0;
    let twice = read("newid() <> newid()");
    let mut next = || {
        asked += 1;
        asked
    };
    assert_eq!(twice.matches(&PropertySet::new(), &mut next), Ok(true));
    assert_eq!(asked, 2);
}

#[test]
fn a_filter_keeps_its_text_and_parameters() {
    let filter = read("  source = @P ");
    assert_eq!(filter.text(), "  source = @P ");
    assert_eq!(filter.parameters().get("@p"), Some(&"s".into()));
    assert_eq!(filter.parameters().iter().len(), 7);
    assert_eq!(filter.matches(&message(), &mut || 0), Ok(true));
    assert_eq!(Value::Int(1).kind(), Kind::Number);
}

#[test]
fn a_parameter_that_is_set_again_has_its_last_value() {
    let mut parameters = Parameters::new();
    parameters.set("@a", 1i64.into());
    parameters.set("@A", 2i64.into());
    assert_eq!(parameters.iter().collect::<Vec<_>>(), [("@a", &Value::Int(2))]);
}

proptest! {
    #[test]
    fn answers_are_those_of_the_reference(
        condition in reference::condition(),
        set in reference::properties(),
    ) {
        let text = condition.text();
        let filter = SqlFilter::parse(&text, Parameters::new())
            .map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let expected = condition.truth(&set) == 2;
        prop_assert_eq!(filter.matches(&set, &mut || 0), Ok(expected), "{}", text);
    }

    #[test]
    fn any_message_has_an_answer_or_an_error(
        set in samples::properties(),
        text in prop::sample::select(&[
            "a = b", "a + b > c", "a LIKE b", "a LIKE b ESCAPE c", "a IN (b, c, 1, 'a')", "p(a) = p(b)",
            "-a < -b OR a % b = c / a", "NOT (a - b = c) AND sys.Label = a", "a * b <> c",
        ][..]),
    ) {
        let strict = read(text).matches(&set, &mut || 0);
        let lenient = SqlFilter::parse_lenient(text, parameters()).unwrap().matches(&set, &mut || 0);
        prop_assert!(lenient.is_ok(), "{}", text);
        prop_assert!(strict.is_err() || strict == lenient, "{}", text);
    }
}

#[test]
fn how_a_parameter_was_written_is_kept_until_it_is_set_again_and_decides_nothing() {
    let mut parameters = Parameters::new();
    parameters.set_written("@When", Value::Timestamp(1_000), Written::Time("1970-01-01T00:00:01".into()));
    let time = Written::Time("1970-01-01T00:00:01".into());
    assert_eq!((parameters.written("@when"), parameters.written("@other")), (Some(&time), None));
    let filter = SqlFilter::parse("time = @when", parameters.clone()).unwrap();
    assert_eq!(filter.matches(&message(), &mut || 7), Ok(true));
    assert_eq!(filter.parameters().written("@WHEN"), Some(&time));

    parameters.set("@when", Value::Timestamp(1_000));
    assert_eq!(parameters.written("@When"), None);
    assert_eq!(parameters.get("@When"), Some(&Value::Timestamp(1_000)));
}

proptest! {
    #[test]
    fn each_name_has_the_last_text_that_it_was_given(
        given in prop::collection::vec((samples::name(), prop::option::of("[a-c]{0,3}")), 0..12),
    ) {
        let (mut parameters, mut last) = (Parameters::new(), std::collections::BTreeMap::new());
        for (name, text) in given {
            match &text {
                Some(text) => parameters.set_written(name, Value::Int(1), Written::Time(text.as_str().into())),
                None => parameters.set(name, Value::Int(1)),
            }
            last.insert(name.to_lowercase(), text);
        }
        for name in samples::NAMES {
            let expected = last.get(&name.to_lowercase()).and_then(Option::as_deref);
            let expected = expected.map(|text| Written::Time(text.into()));
            prop_assert_eq!(parameters.written(name), expected.as_ref());
        }
    }
}
