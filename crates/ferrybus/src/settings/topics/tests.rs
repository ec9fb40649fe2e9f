use broker_core::{EntitySettings, EntityStatus, Rule};
use broker_filter::{CorrelationFilter, Filter, SystemProperty};

use super::*;
use crate::settings::Settings;

fn read(text: &str) -> Result<Vec<EntityPlan>, String> {
    let settings = Settings::parse(text, "ferrybus.toml").map_err(|failure| failure.to_string())?;
    plans(&settings.topic).map_err(|failure| failure.to_string())
}

#[test]
fn topics_subscriptions_and_rules_are_read() {
    let plans = read(
        r#"
        [[topic]]
        name = "events"
        default_time_to_live = "1h"
        [[topic.subscription]]
        name = "all"
        [[topic.subscription]]
        name = "none"
        rule = []
        [[topic.subscription]]
        name = "red"
        max_delivery_count = 3
        dead_letter_on_filter_error = false
        requires_session = true
        [[topic.subscription.rule]]
        name = "byLabel"
        correlation = { label = "red", correlation_id = "c", properties = { region = "eu", n = 5, x = 1.5, ok = true } }
        [[topic.subscription.rule]]
        name = "big"
        sql = "amount > 100"
        action = "SET priority = 'high'"
        [[topic.subscription.rule]]
        name = "rest"
        "#,
    )
    .unwrap();
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    let subscription = |name: &str| format!("events/Subscriptions/{name}");
    assert_eq!(names, ["events", &subscription("all"), &subscription("none"), &subscription("red")]);
    assert_eq!(plans[0].kind, EntityKind::Topic);
    assert_eq!(plans[0].settings.default_time_to_live.map(|ttl| ttl.as_secs()), Some(3_600));
    assert_eq!((plans[1].kind, &plans[1].rules), (EntityKind::Subscription, &None));
    assert!(plans[1].settings.dead_letter_on_filter_error);
    assert_eq!(plans[2].rules, Some(vec![]));
    let red = &plans[3];
    assert_eq!(
        (
            red.settings.max_delivery_count,
            red.settings.dead_letter_on_filter_error,
            red.settings.requires_session
        ),
        (3, false, true)
    );
    let mut filter = CorrelationFilter::new();
    filter.system(SystemProperty::Label, Value::from("red"));
    filter.system(SystemProperty::CorrelationId, Value::from("c"));
    filter.user("region", Value::from("eu"));
    filter.user("n", Value::Int(5));
    filter.user("x", Value::Double(1.5));
    filter.user("ok", Value::Bool(true));
    let by_label = Rule { name: "byLabel".into(), filter: Filter::Correlation(filter), action: None };
    let big = rules::rule(
        "big",
        Some(rules::sql("amount > 100").unwrap()),
        Some(rules::action("SET priority = 'high'").unwrap()),
    );
    assert_eq!(red.rules, Some(vec![by_label, big, rules::rule("rest", None, None)]));
}

#[test]
fn what_cannot_be_is_named() {
    let with_rule = |rule: &str| {
        format!(
            "[[topic]]\nname='t'\n[[topic.subscription]]\nname='s'\n[[topic.subscription.rule]]\nname='r'\n{rule}"
        )
    };
    let cases = [
        ("[[topic]]\nname='$t'".to_owned(), "`$t` cannot be the name"),
        (
            "[[topic]]\nname='t'\n[[topic.subscription]]\nname='a/b'".to_owned(),
            "`a/b` cannot be a subscription's name",
        ),
        (
            "[[topic]]\nname='t'\n[[topic.subscription]]\nname='s'\nlock_duration='1h'".to_owned(),
            "subscription `t/Subscriptions/s`: `lock_duration`",
        ),
        (with_rule("sql='x >'"), "rule `r`: the filter `x >` cannot be read at line 1, column 4"),
        (with_rule("action='SET'"), "the action `SET` cannot be read"),
        (with_rule("sql='x=1'\ncorrelation={label='l'}"), "found both"),
        (with_rule("correlation={}"), "has no condition"),
        (with_rule("correlation={colour='red'}"), "`colour` is no field"),
        (with_rule("correlation={label=[1]}"), "expected a text"),
    ];
    for (text, expected) in cases {
        let error = read(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn topics_and_subscriptions_have_the_keys_of_queues_that_make_sense() {
    let plans = read(
        r#"
        [[topic]]
        name = "events"
        enable_partitioning = true
        requires_duplicate_detection = true
        duplicate_detection_window = "1m"
        auto_delete_on_idle = "1h"
        status = "send-disabled"
        user_metadata = "note"
        [[topic.subscription]]
        name = "all"
        hold = "lock"
        forward_to = "orders"
        forward_dead_lettered_to = "failed"
        auto_delete_on_idle = "2h"
        status = "receive-disabled"
        user_metadata = "other note"
        "#,
    )
    .unwrap();
    let hours = |hours: u64| Some(std::time::Duration::from_secs(hours * 3_600));
    let topic = EntitySettings {
        enable_partitioning: true,
        requires_duplicate_detection: true,
        duplicate_detection_window: std::time::Duration::from_secs(60),
        auto_delete_on_idle: hours(1),
        status: EntityStatus::SendDisabled,
        user_metadata: Some("note".into()),
        ..EntitySettings::default()
    };
    let subscription = EntitySettings {
        hold: broker_core::LockLifetime::Lock,
        forward_to: Some("orders".into()),
        forward_dead_lettered_to: Some("failed".into()),
        auto_delete_on_idle: hours(2),
        status: EntityStatus::ReceiveDisabled,
        user_metadata: Some("other note".into()),
        ..EntitySettings::default()
    };
    assert_eq!([&plans[0].settings, &plans[1].settings], [&topic, &subscription]);
}
