use broker_filter::{PropertySet, SystemProperty, Value};
use proptest::prelude::*;

use super::*;

/// Whether a selector takes the message that all cases are about.
fn takes(selector: &str) -> bool {
    let mut properties = PropertySet::new();
    properties.extend_user([
        ("n".into(), Value::Int(5)),
        ("colour".into(), Value::from("red")),
        ("_odd$name".into(), Value::from("it's")),
        ("flag".into(), Value::Bool(true)),
    ]);
    properties.set_system(SystemProperty::Label, Value::from("order"));
    properties.set_system(SystemProperty::CorrelationId, Value::from("c-1"));
    match filter(selector).unwrap() {
        Filter::True => true,
        Filter::Sql(sql) => sql.matches(&properties, &mut || 0).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn selectors_mean_what_jms_says() {
    let cases = [
        ("", true),
        ("  ", true),
        ("colour = 'red'", true),
        ("colour='red' AND n>=5", true),
        ("colour <> 'red'", false),
        ("n between 5 and 6", true),
        ("n BETWEEN -1 AND +4", false),
        ("n NOT BETWEEN 1 AND 4 AND colour = 'red'", true),
        ("NOT n NOT BETWEEN 1 AND 4", false),
        ("(n BETWEEN 1 AND 9) OR colour = 'blue'", true),
        ("colour IN ('blue', 'red')", true),
        ("colour LIKE 'r_d'", true),
        ("colour NOT LIKE 'b%' ESCAPE '\\'", true),
        ("missing IS NULL", true),
        ("missing = 1", false),
        ("NOT (missing = 1)", false),
        ("flag = TRUE", true),
        ("_odd$name = 'it''s'", true),
        ("colour = 'AND n BETWEEN 1'", false),
        ("JMSType = 'order' AND JMSCorrelationID = 'c-1'", true),
        ("n * 2 + 1 = 11", true),
        ("n < 5.5E+0", true),
        // Values that are not alike compare as false, whatever the sign (Jakarta Messaging 3.8.1.3).
        ("n = 'five'", false),
        ("n <> 'five'", false),
        ("NOT n = 'five'", true),
        ("colour > 5", false),
        ("colour > 5 OR colour = 'red'", true),
        ("colour > 5 AND n = 5", false),
        ("NOT (colour > 5)", true),
        ("colour BETWEEN 1 AND 9", false),
        ("flag = 'TRUE'", false),
        ("flag > FALSE", false),
        ("n LIKE '5'", false),
        ("n NOT LIKE '5'", true),
        ("n IN ('5')", false),
        ("n NOT IN ('5')", true),
        ("colour IN (5, 'red')", true),
        // What cannot be computed is unknown.
        ("colour * 2 = 2", false),
        ("NOT (colour * 2 = 2)", false),
        ("n / 0 = 1 OR n = 5", true),
        ("NOT (n / 0 = 1)", false),
    ];
    for (selector, expected) in cases {
        assert_eq!(takes(selector), expected, "{selector}");
    }
}

#[test]
fn what_has_no_counterpart_is_refused() {
    let header = |name: &str| SelectorError::Header(name.into());
    let cases = [
        ("JMSPriority > 4", header("JMSPriority")),
        ("JMSTimestamp > 4", header("JMSTimestamp")),
        ("amqp.ttl = 1", header("amqp.ttl")),
        ("n + 1 BETWEEN 1 AND 2", SelectorError::Between),
        ("n BETWEEN 1 AND 2 + 3", SelectorError::Between),
        ("n BETWEEN 1 OR 2", SelectorError::Between),
        ("BETWEEN 1 AND 2", SelectorError::Between),
        ("n BETWEEN", SelectorError::Between),
    ];
    for (selector, expected) in cases {
        assert_eq!(filter(selector).unwrap_err(), expected, "{selector}");
    }
    for selector in ["n =", "= 5", "n 5", "'open", "((n = 1)", "n = 1)", "flag", "n = 1; DROP", "n == 1"] {
        assert!(matches!(filter(selector), Err(SelectorError::Syntax(_))), "{selector}");
    }
    assert!(matches!(filter(&format!("n = '{}'", "x".repeat(2_000))), Err(SelectorError::Syntax(_))));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _either = filter(&text);
    }

    #[test]
    fn no_words_panic(words in proptest::collection::vec(
        prop_oneof![Just("n"), Just("BETWEEN"), Just("AND"), Just("NOT"), Just("1"), Just("-"), Just("("), Just(")"), Just("'x'"), Just("<"), Just(">"), Just("=")],
        0..12,
    )) {
        let _either = filter(&words.join(" "));
        let _either = filter(&words.concat());
    }
}
