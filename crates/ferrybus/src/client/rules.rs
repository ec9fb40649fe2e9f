//! `ferrybus rule`.
//!
//! Invariant: a filter or action that the broker would not understand is refused here, with its place in the text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_admin::{iso_8601_ticks, rfc_3339_millis};
use broker_core::Rule;
use broker_filter::{CorrelationFilter, Filter, Parameters, Property, SqlAction, SystemProperty, Value};
use data_encoding::HEXLOWER;
use serde_json::{Map, Value as Json, json};

use super::{
    BrokerEndpoint,
    management::{EntityRef, State},
};
use crate::{
    arguments::{RuleArguments, RulePath},
    failure::Failure,
    output, rules,
    suggest::suggest,
    table::Table,
};

fn subscription(rule: &RulePath) -> EntityRef {
    EntityRef::subscription(&rule.topic, &rule.subscription)
}

/// Adds a rule.
pub(crate) async fn create(target: BrokerEndpoint, arguments: &RuleArguments) -> Result<(), Failure> {
    let (filter, action) = (filter(arguments)?, NewAction::read(arguments)?);
    let filter = filter.ok_or_else(|| {
        Failure::misuse("no filter was given")
            .hint("give one of `--sql`, `--correlation`, `--all` and `--none`")
    })?;
    let entity_ref = subscription(&arguments.rule);
    let rule = Rule { name: arguments.rule.name.as_str().into(), filter, action: action.after(None) };
    let mut management = target.management();
    management.need(&entity_ref).await?;
    management.put_rule(&entity_ref, &rule, &State::New).await?;
    done("created", &entity_ref, &rule, arguments.connect.json)
}

/// Replaces what was given; with `force` whatever another has changed meanwhile.
pub(crate) async fn update(
    target: BrokerEndpoint,
    arguments: &RuleArguments,
    force: bool,
) -> Result<(), Failure> {
    let (filter, action) = (filter(arguments)?, NewAction::read(arguments)?);
    if filter.is_none() && matches!(action, NewAction::Kept) {
        return Err(Failure::misuse("neither a filter nor an action was given to change"));
    }
    let entity_ref = subscription(&arguments.rule);
    let mut management = target.management();
    let (mut rule, state) = find(&mut management, &arguments.rule).await?;
    rule.filter = filter.unwrap_or(rule.filter);
    rule.action = action.after(rule.action);
    management.put_rule(&entity_ref, &rule, &state.unless_forced(force)).await?;
    done("updated", &entity_ref, &rule, arguments.connect.json)
}

fn done(what: &str, entity_ref: &EntityRef, rule: &Rule, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::line(json(rule));
    }
    output::line(format_args!("{what} rule `{}` of {}", rule.name, entity_ref.label()))
}

async fn find(
    management: &mut super::management::Management<'_>,
    rule: &RulePath,
) -> Result<(Rule, State), Failure> {
    let entity_ref = subscription(rule);
    management.need(&entity_ref).await?;
    if let Some(found) = management.find_rule(&entity_ref, &rule.name).await? {
        return Ok(found);
    }
    let failure = Failure::new(format_args!("there is no rule `{}` of {}", rule.name, entity_ref.label()));
    let all = management.rules(&entity_ref).await?;
    match suggest(&rule.name, all.iter().map(|rule| &*rule.name)) {
        Some(near) => Err(failure.hint(format_args!("did you mean `{near}`?"))),
        None => Err(failure),
    }
}

/// Shows a rule.
pub(crate) async fn show(target: BrokerEndpoint, rule: &RulePath, as_json: bool) -> Result<(), Failure> {
    let (found, _) = find(&mut target.management(), rule).await?;
    print(&[found], as_json)
}

/// Lists the rules of a subscription.
pub(crate) async fn list(
    target: BrokerEndpoint,
    entity_ref: EntityRef,
    as_json: bool,
) -> Result<(), Failure> {
    let mut management = target.management();
    management.need(&entity_ref).await?;
    let all = management.rules(&entity_ref).await?;
    if all.is_empty() && !as_json {
        output::note(format_args!("{} has no rule: it gets nothing", entity_ref.label()));
    }
    print(&all, as_json)
}

/// Takes a rule away.
pub(crate) async fn delete(target: BrokerEndpoint, rule: &RulePath, as_json: bool) -> Result<(), Failure> {
    let entity_ref = subscription(rule);
    let mut management = target.management();
    let (found, _) = find(&mut management, rule).await?;
    management.delete_rule(&entity_ref, &found.name, &State::Any).await?;
    if as_json {
        return output::line(json!({ "deleted": &*found.name }));
    }
    output::line(format_args!("deleted rule `{}` of {}", found.name, entity_ref.label()))
}

fn print(all: &[Rule], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return all.iter().try_for_each(|rule| output::line(json(rule)));
    }
    let mut table = Table::new(&["NAME", "FILTER", "ACTION"], 3);
    for rule in all {
        let action = rule.action.as_ref().map_or("-", |action| action.text());
        table.row([rule.name.to_string(), filter_text(&rule.filter), action.to_owned()]);
    }
    table.print()
}

/// A filter in one line.
pub(crate) fn filter_text(filter: &Filter) -> String {
    match filter {
        Filter::True => "all".into(),
        Filter::False => "none".into(),
        Filter::Sql(filter) => format!("sql {}", filter.text()),
        Filter::Correlation(filter) => {
            let condition = |(property, value): (&Property, &Value)| match value.as_text() {
                Some(text) => format!("{}={text}", name(property)),
                None => match value_json(value) {
                    Json::String(text) => format!("{}:={text}", name(property)),
                    other => format!("{}:={other}", name(property)),
                },
            };
            format!("correlation {}", filter.conditions().map(condition).collect::<Vec<_>>().join(", "))
        }
    }
}

fn name(property: &Property) -> String {
    match property {
        Property::System(system) => {
            let known = FIELDS.iter().find(|field| SystemProperty::named(&plain(field)) == Some(*system));
            known.map_or_else(|| format!("{system:?}"), |field| (*field).to_owned())
        }
        Property::User(name) => name.to_string(),
    }
}

/// One object with everything that is set.
pub(crate) fn json(rule: &Rule) -> Json {
    let mut object = Map::new();
    object.insert("name".into(), (*rule.name).into());
    let filter = match &rule.filter {
        Filter::True => json!({ "type": "true" }),
        Filter::False => json!({ "type": "false" }),
        Filter::Sql(filter) => {
            json!({ "type": "sql", "sql": filter.text(), "parameters": parameters(filter.parameters()) })
        }
        Filter::Correlation(filter) => correlation_json(filter),
    };
    object.insert("filter".into(), filter);
    let action = rule.action.as_ref();
    object.insert("action".into(), action.map_or(Json::Null, |action| action.text().into()));
    Json::Object(object)
}

fn correlation_json(filter: &CorrelationFilter) -> Json {
    let (mut own, mut users) = (Map::new(), Map::new());
    for (property, value) in filter.conditions() {
        match property {
            Property::System(_) => own.insert(name(property).replace('-', "_"), value_json(value)),
            Property::User(name) => users.insert(name.to_string(), value_json(value)),
        };
    }
    json!({ "type": "correlation", "correlation": own, "properties": users })
}

fn parameters(parameters: &Parameters) -> Json {
    parameters.iter().map(|(name, value)| (name.to_owned(), value_json(value))).collect::<Map<_, _>>().into()
}

/// Value in JSON. Values without a JSON type are texts: times and durations by ISO 8601, bytes as base64.
fn value_json(value: &Value) -> Json {
    match value {
        Value::Text(text) => (**text).into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::Double(number) if number.is_finite() => json!(number),
        Value::Double(number) => number.to_string().into(),
        Value::Timestamp(millis) => rfc_3339_millis(*millis).into(),
        Value::Duration(ticks) => iso_8601_ticks(*ticks).into(),
        Value::Uuid(bytes) => HEXLOWER.encode(bytes).into(),
        Value::Binary(bytes) => STANDARD.encode(bytes).into(),
        Value::Null => Json::Null,
    }
}

/// `None`: none was given.
fn filter(arguments: &RuleArguments) -> Result<Option<Filter>, Failure> {
    if arguments.all {
        return Ok(Some(Filter::True));
    }
    if arguments.none {
        return Ok(Some(Filter::False));
    }
    if let Some(text) = &arguments.sql {
        return rules::sql(text).map(Some).map_err(Failure::misuse);
    }
    if arguments.correlation.is_empty() {
        return Ok(None);
    }
    let (mut own, mut users) = (Vec::new(), Vec::new());
    for text in &arguments.correlation {
        let (name, value) = condition(text)?;
        if FIELDS.iter().any(|field| plain(field) == plain(&name)) {
            own.push((plain(&name), value));
        } else {
            users.push((name, value));
        }
    }
    rules::correlation(own, users).map(Some).map_err(Failure::misuse)
}

/// `name=text`, `name:=number`, `name:=true`.
fn condition(text: &str) -> Result<(String, Value), Failure> {
    let bad = || {
        Failure::misuse(format_args!(
            "`{text}` is no condition, expected `name=text`, `name:=5` or `name:=true`"
        ))
    };
    let (name, value) = text.split_once('=').ok_or_else(bad)?;
    let Some(name) = name.strip_suffix(':') else {
        return if name.is_empty() { Err(bad()) } else { Ok((name.into(), Value::from(value))) };
    };
    let json: Json = serde_json::from_str(value).map_err(|_| bad())?;
    let value = match &json {
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().ok_or_else(bad)?),
        },
        _ => return Err(bad()),
    };
    if name.is_empty() { Err(bad()) } else { Ok((name.into(), value)) }
}

/// Change of a rule's action.
enum NewAction {
    Kept,
    Removed,
    Set(SqlAction),
}

impl NewAction {
    fn read(arguments: &RuleArguments) -> Result<Self, Failure> {
        match arguments.action.as_deref().map(str::trim) {
            None => Ok(Self::Kept),
            Some("") => Ok(Self::Removed),
            Some(text) => rules::action(text).map(Self::Set).map_err(Failure::misuse),
        }
    }

    fn after(self, before: Option<SqlAction>) -> Option<SqlAction> {
        match self {
            Self::Kept => before,
            Self::Removed => None,
            Self::Set(action) => Some(action),
        }
    }
}

fn plain(name: &str) -> String {
    name.replace(['-', '_'], "").to_ascii_lowercase()
}

const FIELDS: [&str; 8] = [
    "content-type",
    "correlation-id",
    "label",
    "message-id",
    "reply-to",
    "reply-to-session-id",
    "session-id",
    "to",
];

#[cfg(test)]
mod tests;
