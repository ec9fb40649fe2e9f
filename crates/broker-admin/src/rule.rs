//! XML of rules (`RuleDescription` of the management API), both ways.
//!
//! Invariant: a value is written with prefix and type such that the strictest client can read it, where it can at all; a
//! time, and the type of a number, are given back as they were written.

use std::str::FromStr;

use broker_core::{Rule, StoredRule};
use broker_filter::{
    CorrelationFilter, Filter, NumberType, Parameters, Property, SqlAction, SqlFilter, SystemProperty, Value,
    Written,
};
use data_encoding::HEXLOWER;
use roxmltree::Node;
use uuid::Uuid;

use crate::{duration, time, xml};

/// The elements of a correlation filter and the properties that they name.
const FIELDS: [(&str, SystemProperty); 8] = [
    ("CorrelationId", SystemProperty::CorrelationId),
    ("MessageId", SystemProperty::MessageId),
    ("To", SystemProperty::To),
    ("ReplyTo", SystemProperty::ReplyTo),
    ("Label", SystemProperty::Label),
    ("SessionId", SystemProperty::SessionId),
    ("ReplyToSessionId", SystemProperty::ReplyToSessionId),
    ("ContentType", SystemProperty::ContentType),
];

/// Reads a `RuleDescription` or `DefaultRuleDescription`. `name` is the rule's name in the path, if it has one there.
pub(crate) fn read(node: Node<'_, '_>, name: Option<&str>) -> Result<Rule, String> {
    let name = name.or_else(|| xml::text_of(node, "Name")).unwrap_or("$Default");
    let filter = xml::child(node, "Filter").map_or(Ok(Filter::True), read_filter)?;
    let action = xml::child(node, "Action").map_or(Ok(None), read_action)?;
    Ok(Rule { name: name.into(), filter, action })
}

/// The local name in an attribute `prefix:type="local"`.
fn instance_type<'a>(node: Node<'a, '_>) -> &'a str {
    let text = node.attribute((xml::INSTANCE, "type")).unwrap_or_default();
    text.rsplit(':').next().unwrap_or_default()
}

fn read_filter(node: Node<'_, '_>) -> Result<Filter, String> {
    match instance_type(node) {
        "TrueFilter" => Ok(Filter::True),
        "FalseFilter" => Ok(Filter::False),
        "SqlFilter" => {
            let text = expression(node)?;
            let filter = SqlFilter::parse(text, parameters(node)?);
            filter.map(Filter::Sql).map_err(|error| format!("the filter '{text}' cannot be read: {error}"))
        }
        "CorrelationFilter" => read_correlation(node),
        other => Err(format!("the filter type '{other}' is not known")),
    }
}

fn read_correlation(node: Node<'_, '_>) -> Result<Filter, String> {
    let mut filter = CorrelationFilter::new();
    for (name, property) in FIELDS {
        if let Some(text) = xml::whole_text_of(node, name) {
            filter.system(property, Value::Text(text.into()));
        }
    }
    for Pair { key, value, written } in pairs(node, "Properties")? {
        match written {
            Some(written) => filter.user_written(key, value, written),
            None => filter.user(key, value),
        }
    }
    if filter.is_empty() {
        return Err("a correlation filter needs at least one condition".into());
    }
    Ok(Filter::Correlation(filter))
}

fn read_action(node: Node<'_, '_>) -> Result<Option<SqlAction>, String> {
    match instance_type(node) {
        "" | "EmptyRuleAction" => Ok(None),
        "SqlRuleAction" => {
            let text = expression(node)?;
            let action = SqlAction::parse(text, parameters(node)?);
            action.map(Some).map_err(|error| format!("the action '{text}' cannot be read: {error}"))
        }
        other => Err(format!("the action type '{other}' is not known")),
    }
}

fn expression<'a>(node: Node<'a, '_>) -> Result<&'a str, String> {
    xml::whole_text_of(node, "SqlExpression").ok_or_else(|| "the `SqlExpression` is missing".to_owned())
}

fn parameters(node: Node<'_, '_>) -> Result<Parameters, String> {
    let mut parameters = Parameters::new();
    for Pair { key, value, written } in pairs(node, "Parameters")? {
        match written {
            Some(written) => parameters.set_written(key, value, written),
            None => parameters.set(key, value),
        }
    }
    Ok(parameters)
}

/// A property or parameter.
struct Pair<'a> {
    key: &'a str,
    value: Value,
    /// Form in which the value was written, where it does not say so itself.
    written: Option<Written>,
}

/// The `KeyValueOfstringanyType` items of a child.
fn pairs<'a>(node: Node<'a, '_>, name: &str) -> Result<Vec<Pair<'a>>, String> {
    let items = xml::child(node, name).into_iter().flat_map(|list| list.children());
    let items = items.filter(|item| item.tag_name().name() == "KeyValueOfstringanyType");
    items.map(read_pair).collect()
}

fn read_pair<'a>(item: Node<'a, '_>) -> Result<Pair<'a>, String> {
    let named = |name: &str| item.children().find(|node| node.tag_name().name() == name);
    let key = named("Key").and_then(|key| key.text()).ok_or("a property has no `Key`")?.trim();
    let value = named("Value").ok_or_else(|| format!("the property `{key}` has no `Value`"))?;
    let (kind, text) = (instance_type(value), value.text().unwrap_or_default());
    let bad = || format!("the property `{key}` is '{text}', which is no {kind}");
    let trimmed = text.trim();
    if let Some(number) = number_type(kind) {
        if let Some(value) = read_number(number, trimmed) {
            return Ok(Pair { key, value, written: Some(Written::Number(number)) });
        }
        // The SDK for Go calls each integer an `int`, however large.
        let value = trimmed.parse().map(Value::Int).map_err(|_| bad())?;
        return Ok(Pair { key, value, written: None });
    }
    let value = match kind {
        "string" | "" => Value::Text(text.into()),
        "double" => Value::Double(trimmed.parse().map_err(|_| bad())?),
        "boolean" => match trimmed {
            "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => return Err(bad()),
        },
        "dateTime" => Value::Timestamp(time::parse(trimmed).ok_or_else(bad)?),
        "duration" => Value::Duration(duration::parse_ticks(trimmed).ok_or_else(bad)?),
        "guid" => Value::Uuid(Uuid::parse_str(trimmed).map_err(|_| bad())?.into_bytes()),
        _ => return Err(format!("the property `{key}` has the type '{kind}', which is not known")),
    };
    let is_kept = matches!(&value, Value::Timestamp(at) if is_worth_keeping(*at, trimmed));
    Ok(Pair { key, value, written: is_kept.then(|| Written::Time(trimmed.into())) })
}

/// Names in XML schema of the types of numbers.
const NUMBER_TYPES: [(&str, NumberType); 10] = [
    ("byte", NumberType::Byte),
    ("short", NumberType::Short),
    ("int", NumberType::Int),
    ("long", NumberType::Long),
    ("unsignedByte", NumberType::UnsignedByte),
    ("unsignedShort", NumberType::UnsignedShort),
    ("unsignedInt", NumberType::UnsignedInt),
    ("unsignedLong", NumberType::UnsignedLong),
    ("float", NumberType::Float),
    ("decimal", NumberType::Decimal),
];

fn number_type(name: &str) -> Option<NumberType> {
    NUMBER_TYPES.iter().find(|(other, _)| *other == name).map(|(_, kind)| *kind)
}

fn number_name(kind: NumberType) -> &'static str {
    NUMBER_TYPES.iter().find(|(_, other)| *other == kind).map_or("double", |(name, _)| name)
}

/// A number of a type, if the text is one of those.
fn read_number(kind: NumberType, text: &str) -> Option<Value> {
    fn integer<T: FromStr + Into<i64>>(text: &str) -> Option<Value> {
        text.parse::<T>().ok().map(|number| Value::Int(number.into()))
    }
    match kind {
        NumberType::Byte => integer::<i8>(text),
        NumberType::Short => integer::<i16>(text),
        NumberType::Int => integer::<i32>(text),
        NumberType::Long => integer::<i64>(text),
        NumberType::UnsignedByte => integer::<u8>(text),
        NumberType::UnsignedShort => integer::<u16>(text),
        NumberType::UnsignedInt => integer::<u32>(text),
        NumberType::UnsignedLong => text.parse().ok().map(Value::unsigned),
        NumberType::Float | NumberType::Decimal => text.parse().ok().map(Value::Double),
    }
}

/// A time without a zone, in another zone than UTC, or finer than a millisecond is not what its value says.
fn is_worth_keeping(at: i64, text: &str) -> bool {
    text.len() <= WRITTEN_BYTES_MAX && time::format_millis(at) != text
}

/// Longest text of a time that is kept, in bytes: ours. With a year of four digits, nanoseconds and a zone it has 35.
const WRITTEN_BYTES_MAX: usize = 64;

/// Name of the element of a rule.
pub(crate) const RULE: &str = "RuleDescription";
/// Name of the element of a rule in the description of the subscription that is created with it.
pub(crate) const DEFAULT_RULE: &str = "DefaultRuleDescription";

/// Appends a rule as an element of this name.
pub(crate) fn write(out: &mut String, element: &str, stored: &StoredRule) {
    xml::put(out, format_args!("<{element} xmlns=\"{}\" xmlns:i=\"{}\">", xml::SERVICE_BUS, xml::INSTANCE));
    write_filter(out, &stored.rule.filter);
    match &stored.rule.action {
        None => out.push_str("<Action i:type=\"EmptyRuleAction\"/>"),
        Some(action) => {
            out.push_str("<Action i:type=\"SqlRuleAction\">");
            write_sql(out, action.text(), action.parameters());
            out.push_str("</Action>");
        }
    }
    xml::element(out, "CreatedAt", &time::format(stored.created_at));
    xml::element(out, "Name", &stored.rule.name);
    xml::put(out, format_args!("</{element}>"));
}

fn write_filter(out: &mut String, filter: &Filter) {
    let none = Parameters::new();
    let (kind, text, parameters) = match filter {
        Filter::True => ("TrueFilter", "1=1", &none),
        Filter::False => ("FalseFilter", "1=0", &none),
        Filter::Sql(filter) => ("SqlFilter", filter.text(), filter.parameters()),
        Filter::Correlation(filter) => return write_correlation(out, filter),
    };
    xml::put(out, format_args!("<Filter i:type=\"{kind}\">"));
    write_sql(out, text, parameters);
    out.push_str("</Filter>");
}

fn write_sql(out: &mut String, text: &str, parameters: &Parameters) {
    xml::element(out, "SqlExpression", text);
    xml::element(out, "CompatibilityLevel", "20");
    let pairs = parameters.iter().map(|(name, value)| (name, value, parameters.written(name)));
    write_pairs(out, "Parameters", pairs);
}

fn write_correlation(out: &mut String, filter: &CorrelationFilter) {
    out.push_str("<Filter i:type=\"CorrelationFilter\">");
    for (name, property) in FIELDS {
        let condition = filter.conditions().find(|(named, _)| **named == Property::System(property));
        if let Some(text) = condition.and_then(|(_, value)| value.as_text()) {
            xml::element(out, name, text);
        }
    }
    let users = filter.conditions().filter_map(|(property, value)| match property {
        Property::User(name) => Some((&**name, value, filter.written(name))),
        Property::System(_) => None,
    });
    write_pairs(out, "Properties", users);
    out.push_str("</Filter>");
}

/// Each pair is a key, its value, and how that was written, where that was kept.
fn write_pairs<'a>(
    out: &mut String,
    name: &str,
    pairs: impl Iterator<Item = (&'a str, &'a Value, Option<&'a Written>)>,
) {
    let before = out.len();
    xml::put(out, format_args!("<{name}>"));
    let empty = out.len();
    for (key, value, written) in pairs {
        out.push_str("<KeyValueOfstringanyType>");
        xml::element(out, "Key", key);
        write_value(out, value, written);
        out.push_str("</KeyValueOfstringanyType>");
    }
    if out.len() == empty {
        out.truncate(before);
        xml::put(out, format_args!("<{name}/>"));
    } else {
        xml::put(out, format_args!("</{name}>"));
    }
}

const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
const SERIALIZATION: &str = "http://schemas.microsoft.com/2003/10/Serialization/";

fn write_value(out: &mut String, value: &Value, written: Option<&Written>) {
    let (namespace, kind, text) = match (value, written) {
        (Value::Timestamp(_), Some(Written::Time(text))) => (SCHEMA, "dateTime", text.to_string()),
        (Value::Int(number), Some(Written::Number(kind))) => (SCHEMA, number_name(*kind), number.to_string()),
        (Value::Double(number), Some(Written::Number(kind))) => (SCHEMA, number_name(*kind), double(*number)),
        _ => plain_value(value),
    };
    xml::put(out, format_args!("<Value i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{namespace}\">"));
    xml::escape(out, &text);
    out.push_str("</Value>");
}

/// Namespace, type and text of a value of which nothing more is known.
fn plain_value(value: &Value) -> (&'static str, &'static str, String) {
    match value {
        Value::Text(text) => (SCHEMA, "string", text.to_string()),
        Value::Bool(on) => (SCHEMA, "boolean", on.to_string()),
        Value::Int(number) if i32::try_from(*number).is_ok() => (SCHEMA, "int", number.to_string()),
        Value::Int(number) => (SCHEMA, "long", number.to_string()),
        Value::Double(number) => (SCHEMA, "double", double(*number)),
        Value::Timestamp(millis) => (SCHEMA, "dateTime", time::format_millis(*millis)),
        Value::Duration(ticks) => (SERIALIZATION, "duration", duration::format_ticks(*ticks)),
        // No client can send the rest here, but over AMQP.
        Value::Uuid(bytes) => (SERIALIZATION, "guid", Uuid::from_bytes(*bytes).to_string()),
        Value::Binary(bytes) => (SCHEMA, "hexBinary", HEXLOWER.encode(bytes)),
        Value::Null => (SCHEMA, "string", String::new()),
    }
}

/// XML has words of its own for what is no number.
fn double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    number.to_string()
}

#[cfg(test)]
mod tests;
