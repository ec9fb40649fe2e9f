//! `Topics` of an emulator's `Config.json`.
//!
//! Invariant: a subscription with rules has no others; one without has the rule that lets everything in.

use broker_core::{EntityKind, Rule};
use broker_filter::{Filter, Value as FilterValue};
use broker_server::EntityPlan;
use serde_json::{Map, Value};

use super::{
    EmulatorNamespace, InvalidConfig, Properties, check_entity_name, name, object, optional_list, unknown,
};
use crate::rules;

impl EmulatorNamespace {
    pub(super) fn topic(&mut self, topic: &Value, place: &str) -> Result<(), InvalidConfig> {
        let topic_name = name(topic, place)?;
        check_entity_name(&topic_name)?;
        let given = object(topic, &format!("topic `{topic_name}`"))?;
        let properties = Properties { entity: format!("topic `{topic_name}`"), given };
        let known = ["Name", "Properties", "Subscriptions"];
        self.notices.extend(unknown(topic, &properties.entity, &known));
        self.name_what_is_not_done(&properties, EntityKind::Topic);
        let settings = properties.settings(EntityKind::Topic)?;
        self.topics.push(EntityPlan {
            name: topic_name.clone(),
            kind: EntityKind::Topic,
            settings,
            rules: None,
        });
        for (at, subscription) in optional_list(topic, "Subscriptions")?.iter().enumerate() {
            self.subscription(&topic_name, subscription, &format!("{place}.Subscriptions[{at}]"))?;
        }
        Ok(())
    }

    fn subscription(&mut self, topic: &str, subscription: &Value, place: &str) -> Result<(), InvalidConfig> {
        let name = format!("{topic}/Subscriptions/{}", name(subscription, place)?);
        let entity = format!("subscription `{name}`");
        let properties = Properties { given: object(subscription, &entity)?, entity };
        self.notices.extend(unknown(subscription, &properties.entity, &["Name", "Properties", "Rules"]));
        self.name_what_is_not_done(&properties, EntityKind::Subscription);
        let settings = properties.settings(EntityKind::Subscription)?;
        let rules = optional_list(subscription, "Rules")?;
        let rules: Vec<Rule> = rules
            .iter()
            .enumerate()
            .map(|(at, found)| {
                let rule = rule(found, &format!("{place}.Rules[{at}]"))?;
                self.notices.extend(unread(found, &format!("{}: rule `{}`", properties.entity, rule.name)));
                Ok(rule)
            })
            .collect::<Result<_, _>>()?;
        let rules = Some(rules).filter(|rules| !rules.is_empty());
        self.topics.push(EntityPlan { name, kind: EntityKind::Subscription, settings, rules });
        Ok(())
    }
}

fn rule(rule: &Value, place: &str) -> Result<Rule, InvalidConfig> {
    let name = name(rule, place)?;
    let place = format!("rule `{name}`");
    let properties = object(rule, &place)?;
    let bad = |reason: String| InvalidConfig(format!("{place}: {reason}"));
    let kind = properties.get("FilterType").and_then(Value::as_str).unwrap_or_default();
    let filter = match kind {
        "Sql" => expression(properties, "SqlFilter").map(rules::sql).transpose().map_err(bad)?,
        "Correlation" => Some(correlation(properties.get("CorrelationFilter")).map_err(bad)?),
        _ => return Err(bad(format!("`FilterType` is `{kind}`, expected `Sql` or `Correlation`"))),
    };
    if filter.is_none() {
        return Err(bad("`SqlFilter.SqlExpression` is missing or not a text".into()));
    }
    let action = expression(properties, "Action");
    if action.is_none() && properties.get("Action").is_some_and(|action| !action.is_null()) {
        return Err(bad("`Action.SqlExpression` is missing or not a text".into()));
    }
    let action = action.map(rules::action).transpose().map_err(bad)?;
    Ok(rules::rule(&name, filter, action))
}

/// Notices about parts of a rule that say nothing to the broker.
fn unread(rule: &Value, place: &str) -> Vec<String> {
    let mut notices = unknown(rule, place, &["Name", "Properties"]);
    let Some(properties) = rule.get("Properties") else { return notices };
    notices.extend(unknown(properties, place, &["FilterType", "SqlFilter", "CorrelationFilter", "Action"]));
    let given = |key: &str| properties.get(key).filter(|part| !part.is_null());
    let (kind, other) = match given("FilterType").and_then(Value::as_str) {
        Some("Sql") => ("Sql", "CorrelationFilter"),
        _ => ("Correlation", "SqlFilter"),
    };
    if given(other).is_some() {
        notices.push(format!("{place}: `{other}` is ignored, `FilterType` is `{kind}`"));
    }
    for key in ["SqlFilter", "Action"].into_iter().filter(|key| *key != other) {
        let part = given(key).map(|part| unknown(part, &format!("{place}: `{key}`"), &["SqlExpression"]));
        notices.extend(part.into_iter().flatten());
    }
    notices
}

fn expression<'v>(properties: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    properties.get(key)?.get("SqlExpression")?.as_str()
}

fn correlation(found: Option<&Value>) -> Result<Filter, String> {
    let fields = found.and_then(Value::as_object).ok_or("`CorrelationFilter` is missing or not an object")?;
    let mut own = Vec::new();
    let mut users = Vec::new();
    for (key, found) in fields {
        if key != "Properties" {
            own.push((key.clone(), value(key, found)?));
            continue;
        }
        for (name, found) in found.as_object().ok_or("`Properties` is not an object")? {
            users.push((name.clone(), value(name, found)?));
        }
    }
    rules::correlation(own, users)
}

fn value(key: &str, found: &Value) -> Result<FilterValue, String> {
    let number = || found.as_i64().map(FilterValue::Int).or_else(|| found.as_f64().map(FilterValue::Double));
    let scalar = found.as_str().map(FilterValue::from).or_else(|| found.as_bool().map(FilterValue::Bool));
    scalar
        .or_else(number)
        .ok_or_else(|| format!("`{key}` is {found}, expected a text, a number, true or false"))
}

#[cfg(test)]
mod tests;
