//! `[[topic]]`: topics, their subscriptions and rules.
//!
//! Invariant: a topic stands before its subscriptions, so that they can be created in order.

use broker_core::{EntityKind, Rule};
use broker_filter::Value;
use broker_server::EntityPlan;

use super::{RuleEntry, SubscriptionEntry, TopicEntry, bounds::settings};
use crate::{entity_name::check_name, failure::Failure, rules};

/// All that is to be created.
pub(super) fn plans(topics: &[TopicEntry]) -> Result<Vec<EntityPlan>, Failure> {
    let mut plans = Vec::new();
    for topic in topics {
        check_name(&topic.name)?;
        let (name, settings) = (topic.name.clone(), settings(&topic.name, topic)?);
        plans.push(EntityPlan { name, kind: EntityKind::Topic, settings, rules: None });
        for subscription in &topic.inner {
            plans.push(plan(&topic.name, subscription)?);
        }
    }
    Ok(plans)
}

fn plan(topic: &str, entry: &SubscriptionEntry) -> Result<EntityPlan, Failure> {
    let name = format!("{topic}/Subscriptions/{}", entry.name);
    if entry.name.is_empty() || entry.name.contains('/') {
        return Err(Failure::misuse(format_args!(
            "topic `{topic}`: `{}` cannot be a subscription's name",
            entry.name
        ))
        .hint("names have 1 to 50 letters, digits, `.`, `-`, `_` or `~`"));
    }
    let settings = settings(&name, entry)?;
    let rules = entry.inner.as_ref().map(|entries| entries.iter().map(|it| rule(&name, it)).collect());
    Ok(EntityPlan { kind: EntityKind::Subscription, settings, rules: rules.transpose()?, name })
}

fn rule(subscription: &str, entry: &RuleEntry) -> Result<Rule, Failure> {
    let bad = |reason: String| {
        Failure::misuse(format_args!("subscription `{subscription}`, rule `{}`: {reason}", entry.name))
    };
    let filter = match (&entry.sql, &entry.correlation) {
        (Some(_), Some(_)) => return Err(bad("expected `sql` or `correlation`, found both".into())),
        (Some(text), None) => Some(rules::sql(text).map_err(bad)?),
        (None, Some(table)) => Some(correlation(table).map_err(bad)?),
        (None, None) => None,
    };
    let action = entry.action.as_deref().map(rules::action).transpose().map_err(bad)?;
    Ok(rules::rule(&entry.name, filter, action))
}

/// Keys as in the file (`correlation_id`), and `properties` for the message's own.
fn correlation(table: &toml::Table) -> Result<broker_filter::Filter, String> {
    let mut fields = Vec::new();
    let mut users = Vec::new();
    for (key, found) in table {
        if key != "properties" {
            fields.push((key.replace('_', ""), value(key, found)?));
            continue;
        }
        let table = found.as_table().ok_or("`properties` is not a table")?;
        for (name, found) in table {
            users.push((name.clone(), value(name, found)?));
        }
    }
    rules::correlation(fields, users)
}

fn value(key: &str, found: &toml::Value) -> Result<Value, String> {
    Ok(match found {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::Int(*number),
        toml::Value::Float(number) => Value::Double(*number),
        toml::Value::Boolean(truth) => Value::Bool(*truth),
        _ => {
            return Err(format!(
                "`{key}` is a {}, expected a text, a number, true or false",
                found.type_str()
            ));
        }
    })
}

#[cfg(test)]
mod tests;
