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

#[test]
fn a_rule_that_cannot_be_is_named() {
    let rule = |properties: &str| {
        with_topics(&format!(
            r#"[{{"Name":"t","Subscriptions":[{{"Name":"s","Rules":[{{"Name":"r","Properties":{properties}}}]}}]}}]"#
        ))
    };
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
    ];
    for (text, expected) in cases {
        let InvalidConfig(error) = only(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
