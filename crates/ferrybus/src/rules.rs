//! Rules of subscriptions as configuration files write them.
//!
//! Invariant: a filter or an action that the broker would not understand is refused with its place.

use broker_core::Rule;
use broker_filter::{
    CorrelationFilter, Filter, Parameters, ParseError, SqlAction, SqlFilter, SystemProperty, Value,
};

/// A filter in the SQL language.
pub(crate) fn sql(text: &str) -> Result<Filter, String> {
    SqlFilter::parse(text, Parameters::new()).map(Filter::Sql).map_err(|error| placed("filter", text, &error))
}

/// An action.
pub(crate) fn action(text: &str) -> Result<SqlAction, String> {
    SqlAction::parse(text, Parameters::new()).map_err(|error| placed("action", text, &error))
}

fn placed(what: &str, text: &str, error: &ParseError) -> String {
    format!("the {what} `{text}` cannot be read at {error}")
}

/// A filter that compares properties: fixed fields by their names in Service Bus, and the message's own.
pub(crate) fn correlation(
    fields: impl IntoIterator<Item = (String, Value)>,
    users: impl IntoIterator<Item = (String, Value)>,
) -> Result<Filter, String> {
    let mut filter = CorrelationFilter::new();
    for (name, value) in fields {
        let property = SystemProperty::named(&name).filter(|property| FIELDS.contains(property));
        filter
            .system(property.ok_or_else(|| format!("`{name}` is no field of a correlation filter"))?, value);
    }
    for (name, value) in users {
        filter.user(&name, value);
    }
    if filter.is_empty() {
        return Err("the correlation filter has no condition".into());
    }
    Ok(Filter::Correlation(filter))
}

const FIELDS: [SystemProperty; 8] = [
    SystemProperty::ContentType,
    SystemProperty::CorrelationId,
    SystemProperty::Label,
    SystemProperty::MessageId,
    SystemProperty::ReplyTo,
    SystemProperty::ReplyToSessionId,
    SystemProperty::SessionId,
    SystemProperty::To,
];

/// A rule of parts; without a filter it lets everything in.
pub(crate) fn rule(name: &str, filter: Option<Filter>, action: Option<SqlAction>) -> Rule {
    Rule { name: name.into(), filter: filter.unwrap_or(Filter::True), action }
}
