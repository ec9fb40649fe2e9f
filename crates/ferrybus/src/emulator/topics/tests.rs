use broker_filter::{CorrelationFilter, SystemProperty};

use super::*;
use crate::emulator::tests::only;

fn with_topics(topics: &str) -> String {
    format!(r#"{{"UserConfig":{{"Namespaces":[{{"Name":"sbemulatorns","Queues":[],"Topics":{topics}}}]}}}}"#)
}

#[test]
fn topics_come_with_subscriptions_and_rules() {
    let emulator = only(&with_topics(
        r#"[{ "Name": "events", "Properties": { "DefaultMessageTimeToLive": "PT5M" }, "Subscriptions": [
            { "Name": "all", "Properties": { "MaxDeliveryCount": 7, "RequiresSession": true } },
            { "Name": "red", "Rules": [
                { "Name": "byLabel", "Properties": { "FilterType": "Correlation", "CorrelationFilter":
                    { "Label": "red", "Properties": { "region": "eu", "n": 5, "x": 1.5, "ok": true } } } },
                { "Name": "big", "Properties": { "FilterType": "Sql",
                    "SqlFilter": { "SqlExpression": "amount > 100 AND sys.Label LIKE 'r%'" },
                    "Action": { "SqlExpression": "SET sys.To = 'Entity'" } } } ] } ] }]"#,
    ))
    .unwrap();
    let names: Vec<&str> = emulator.topics.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["events", "events/Subscriptions/all", "events/Subscriptions/red"]);
    assert_eq!(emulator.topics[0].settings.default_time_to_live.map(|ttl| ttl.as_secs()), Some(300));
    let all = &emulator.topics[1];
    assert_eq!(
        (all.settings.max_delivery_count, all.settings.requires_session, &all.rules),
        (7, true, &None)
    );
    let mut filter = CorrelationFilter::new();
    filter.system(SystemProperty::Label, FilterValue::from("red"));
    filter.user("region", FilterValue::from("eu"));
    filter.user("n", FilterValue::Int(5));
    filter.user("x", FilterValue::Double(1.5));
    filter.user("ok", FilterValue::Bool(true));
    let by_label = rules::rule("byLabel", Some(Filter::Correlation(filter)), None);
    let big = rules::rule(
        "big",
        Some(rules::sql("amount > 100 AND sys.Label LIKE 'r%'").unwrap()),
        Some(rules::action("SET sys.To = 'Entity'").unwrap()),
    );
    assert_eq!(emulator.topics[2].rules, Some(vec![by_label, big]));
    assert!(emulator.notices.is_empty(), "{:?}", emulator.notices);
}

fn rule(properties: &str) -> String {
    with_topics(&format!(
        r#"[{{"Name":"t","Subscriptions":[{{"Name":"s","Rules":[{{"Name":"r","Properties":{properties}}}]}}]}}]"#
    ))
}

fn with_action(action: &str) -> String {
    rule(&format!(r#"{{"FilterType":"Sql","SqlFilter":{{"SqlExpression":"a = 1"}},"Action":{action}}}"#))
}

#[test]
fn a_rule_without_an_action_may_say_so() {
    let read = only(&with_action("null")).unwrap();
    assert_eq!(read.topics[1].rules, Some(vec![rules::rule("r", Some(rules::sql("a = 1").unwrap()), None)]));
    assert!(read.notices.is_empty(), "{:?}", read.notices);
}

#[test]
fn keys_that_the_schema_lacks_are_named() {
    let s = "subscription `t/Subscriptions/s`";
    let cases = [
        (
            with_topics(r#"[{"Name":"t","Subscription":[]}]"#),
            "topic `t`: unknown key `Subscription` is ignored, did you mean `Subscriptions`?".to_owned(),
        ),
        (
            with_topics(r#"[{"Name":"t","Subscriptions":[{"Name":"s","rules":[]}]}]"#),
            format!("{s}: unknown key `rules` is ignored, did you mean `Rules`?"),
        ),
        (
            with_topics(
                r#"[{"Name":"t","Subscriptions":[{"Name":"s","Rules":[{"Name":"r","Action":{},
                "Properties":{"FilterType":"Correlation","CorrelationFilter":{"To":"x"}}}]}]}]"#,
            ),
            format!("{s}: rule `r`: unknown key `Action` is ignored"),
        ),
        (
            rule(r#"{"FilterType":"Correlation","CorrelationFilter":{"To":"x"},"Acton":{}}"#),
            format!("{s}: rule `r`: unknown key `Acton` is ignored, did you mean `Action`?"),
        ),
        (
            rule(r#"{"FilterType":"Correlation","CorrelationFilter":{"To":"x"},"SqlFilter":{"x":1}}"#),
            format!("{s}: rule `r`: `SqlFilter` is ignored, `FilterType` is `Correlation`"),
        ),
        (
            rule(
                r#"{"FilterType":"Sql","SqlFilter":{"SqlExpression":"a = 1"},"CorrelationFilter":{"To":"x"}}"#,
            ),
            format!("{s}: rule `r`: `CorrelationFilter` is ignored, `FilterType` is `Sql`"),
        ),
        (
            rule(r#"{"FilterType":"Sql","SqlFilter":{"SqlExpression":"a = 1","Parameters":{}}}"#),
            format!("{s}: rule `r`: `SqlFilter`: unknown key `Parameters` is ignored"),
        ),
        (
            with_action(r#"{"SqlExpression":"SET a = 1","x":1}"#),
            format!("{s}: rule `r`: `Action`: unknown key `x` is ignored"),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(only(&text).unwrap().notices, [expected], "{text}");
    }
}

#[test]
fn a_rule_that_cannot_be_is_named() {
    let cases = [
        (rule("{}"), "rule `r`: `FilterType` is ``"),
        (rule(r#"{"FilterType":"Sql"}"#), "`SqlFilter.SqlExpression` is missing"),
        (
            rule(r#"{"FilterType":"Sql","SqlFilter":{"SqlExpression":"x >"}}"#),
            "cannot be read at line 1, column 4",
        ),
        (rule(r#"{"FilterType":"Correlation"}"#), "`CorrelationFilter` is missing"),
        (rule(r#"{"FilterType":"Correlation","CorrelationFilter":{}}"#), "has no condition"),
        (rule(r#"{"FilterType":"Correlation","CorrelationFilter":{"Nope":"x"}}"#), "`Nope` is no field"),
        (with_topics(r#"[{"Name":"?"}]"#), "`?` cannot be the name"),
        (with_action(r#"{"SqlExpresion":"SET a = 1"}"#), "rule `r`: `Action.SqlExpression` is missing"),
        (with_action(r#"{"SqlExpression":7}"#), "rule `r`: `Action.SqlExpression` is missing"),
        (with_action("{}"), "rule `r`: `Action.SqlExpression` is missing"),
        (with_action(r#""SET a = 1""#), "rule `r`: `Action.SqlExpression` is missing"),
    ];
    for (text, expected) in cases {
        let InvalidConfig(error) = only(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
