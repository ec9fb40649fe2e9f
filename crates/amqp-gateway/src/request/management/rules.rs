//! `com.microsoft:add-rule`, `remove-rule`, `enumerate-rules`: the rules of a subscription.
//!
//! Invariant: a rule that was added is shown with the same filter and action, in the types that the SDKs decode.

use amqp_codec::{
    raw::{MapView, RawMap, RawValue},
    types::{self, TypeKind},
};
use broker_core::{Command, EntityPath, Rule, StoredRule, Work};
use broker_filter::{
    CorrelationFilter, Filter, NumberType, Parameters, ParseError, Property, SqlAction, SqlFilter,
    SystemProperty, Value, Written,
};
use bytes::BytesMut;

use super::body::{CommandBuilder, bad, one_entry};
use crate::{
    condition::Refusal, transfer::delivery::write_value, transfer::filter_properties, turn_work::TurnWork,
};

/// Most rules that one answer shows.
const COUNT_MAX: u64 = 10_000;
/// The level of the SQL language, which every answer names.
const COMPATIBILITY_LEVEL: i32 = 20;

mod descriptor {
    pub(super) const RULE: u64 = 0x0000_0137_0000_0004;
    pub(super) const EMPTY_ACTION: u64 = 0x0000_0137_0000_0005;
    pub(super) const SQL_ACTION: u64 = 0x0000_0137_0000_0006;
    pub(super) const SQL_FILTER: u64 = 0x0000_0013_7000_0006;
    pub(super) const TRUE_FILTER: u64 = 0x0000_0013_7000_0007;
    pub(super) const FALSE_FILTER: u64 = 0x0000_0013_7000_0008;
    pub(super) const CORRELATION_FILTER: u64 = 0x0000_0013_7000_0009;
}

/// The fields of a correlation filter, in the order of its list.
const CORRELATION_FIELDS: [(&str, SystemProperty); 8] = [
    ("correlation-id", SystemProperty::CorrelationId),
    ("message-id", SystemProperty::MessageId),
    ("to", SystemProperty::To),
    ("reply-to", SystemProperty::ReplyTo),
    ("label", SystemProperty::Label),
    ("session-id", SystemProperty::SessionId),
    ("reply-to-session-id", SystemProperty::ReplyToSessionId),
    ("content-type", SystemProperty::ContentType),
];

/// The command of `add-rule`.
pub(super) fn add(body: &RawMap, path: EntityPath, work: &mut TurnWork) -> Result<CommandBuilder, Refusal> {
    // Nearly all of it is the text of its filter and its action.
    work.charge(Work::of_sql(body.bytes().len()));
    let name = body.get("rule-name").and_then(RawValue::as_str);
    let name = name.ok_or_else(|| bad("'rule-name' must be a string"))?;
    let description = body.get("rule-description").and_then(RawValue::as_map);
    let description = description.ok_or_else(|| bad("'rule-description' must be a map"))?;
    let rule = Rule { name: name.into(), filter: filter(&description)?, action: action(&description)? };
    Ok(Box::new(move |ticket| Command::AddRule { path, rule: Box::new(rule), ticket }))
}

/// The command of `remove-rule`.
pub(super) fn remove(body: &RawMap, path: EntityPath) -> Result<CommandBuilder, Refusal> {
    let name = body.get("rule-name").and_then(RawValue::as_str);
    let name: Box<str> = name.ok_or_else(|| bad("'rule-name' must be a string"))?.into();
    Ok(Box::new(move |ticket| Command::RemoveRule { path, name, expected: None, ticket }))
}

/// The command of `enumerate-rules`.
pub(super) fn list(body: &RawMap, path: EntityPath) -> Result<CommandBuilder, Refusal> {
    let number = |key: &str, default: u64, what| match body.get(key).filter(|value| !value.is_null()) {
        None => Ok(default),
        Some(value) => value.as_i64().and_then(|number| u64::try_from(number).ok()).ok_or_else(|| bad(what)),
    };
    let skip = number("skip", 0, "'skip' must be an int of 0 at least")?;
    let top = number("top", COUNT_MAX, "'top' must be an int of 0 at least")?.min(COUNT_MAX);
    Ok(Box::new(move |ticket| Command::ListRules { path, skip, top, ticket }))
}

/// The filter of a description. Without any, all messages match.
fn filter(description: &MapView<'_>) -> Result<Filter, Refusal> {
    if let Some(map) = present(description, "correlation-filter")? {
        return correlation(&map).map(Filter::Correlation);
    }
    let Some(map) = present(description, "sql-filter")? else { return Ok(Filter::True) };
    let text = map.get("expression").and_then(RawValue::as_str);
    let text = text.ok_or_else(|| bad("the 'expression' of 'sql-filter' must be a string"))?;
    // So the SDKs say that all or no messages match.
    match text.trim() {
        "1=1" => Ok(Filter::True),
        "1=0" => Ok(Filter::False),
        _ => SqlFilter::parse(text, Parameters::new()).map(Filter::Sql).map_err(|e| unreadable("filter", &e)),
    }
}

/// The action of a description. An empty map, or one without a text, is none.
fn action(description: &MapView<'_>) -> Result<Option<SqlAction>, Refusal> {
    let Some(map) = present(description, "sql-rule-action")? else { return Ok(None) };
    let text = map.get("expression").and_then(RawValue::as_str).filter(|text| !text.trim().is_empty());
    let parse = |text: &str| SqlAction::parse(text, Parameters::new());
    text.map(parse).transpose().map_err(|error| unreadable("action", &error))
}

/// A map in a map; `None` where it is absent or null.
fn present<'a>(map: &MapView<'a>, key: &'static str) -> Result<Option<MapView<'a>>, Refusal> {
    match map.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => {
            let what = || Refusal::BadRequest { what: format!("'{key}' must be a map").into() };
            value.as_map().map(Some).ok_or_else(what)
        }
    }
}

fn unreadable(what: &str, error: &ParseError) -> Refusal {
    Refusal::BadRequest { what: format!("the {what} cannot be read at {error}").replace('`', "'").into() }
}

fn correlation(map: &MapView<'_>) -> Result<CorrelationFilter, Refusal> {
    let mut filter = CorrelationFilter::new();
    for (key, property) in CORRELATION_FIELDS {
        if let Some(value) = map.get(key) {
            filter.system(property, filter_properties::value(value));
        }
    }
    if let Some(users) = present(map, "properties")? {
        for (name, value) in users {
            let name = name.as_str().ok_or_else(|| bad("a key of 'properties' must be a string"))?;
            let found = filter_properties::value(value);
            match number_type(value, &found) {
                Some(kind) => filter.user_written(name, found, Written::Number(kind)),
                None => filter.user(name, found),
            }
        }
    }
    Ok(filter)
}

/// The type of a number that its value does not say.
fn number_type(raw: RawValue<'_>, value: &Value) -> Option<NumberType> {
    // An unsigned number beyond the integers is a double here.
    Some(match (raw.kind()?, value) {
        (TypeKind::Byte, _) => NumberType::Byte,
        (TypeKind::Short, _) => NumberType::Short,
        (TypeKind::Int, _) => NumberType::Int,
        (TypeKind::Long, _) => NumberType::Long,
        (TypeKind::Ubyte, _) => NumberType::UnsignedByte,
        (TypeKind::Ushort, _) => NumberType::UnsignedShort,
        (TypeKind::Uint, _) => NumberType::UnsignedInt,
        (TypeKind::Ulong, Value::Int(_)) => NumberType::UnsignedLong,
        (TypeKind::Float, _) => NumberType::Float,
        _ => return None,
    })
}

/// Writes a value in the type that it was given with. A number that does not fit its type goes out as others do.
fn write_as_given(out: &mut BytesMut, value: &Value, written: Option<&Written>) {
    fn put<T: TryFrom<i64>>(out: &mut BytesMut, number: i64, write: impl FnOnce(&mut BytesMut, T)) {
        match T::try_from(number) {
            Ok(number) => write(out, number),
            Err(_) => types::write_long(out, number),
        }
    }
    let (Value::Int(number), Some(Written::Number(kind))) = (value, written) else {
        if let (Value::Double(number), Some(Written::Number(NumberType::Float))) = (value, written) {
            #[expect(clippy::cast_possible_truncation, reason = "it was a float when it came")]
            return types::write_float(out, *number as f32);
        }
        return write_value(out, value);
    };
    match kind {
        NumberType::Byte => put(out, *number, types::write_byte),
        NumberType::Short => put(out, *number, types::write_short),
        NumberType::Int => put(out, *number, types::write_int),
        NumberType::UnsignedByte => put(out, *number, types::write_ubyte),
        NumberType::UnsignedShort => put(out, *number, types::write_ushort),
        NumberType::UnsignedInt => put(out, *number, types::write_uint),
        NumberType::UnsignedLong => put(out, *number, types::write_ulong),
        NumberType::Long | NumberType::Float | NumberType::Decimal => types::write_long(out, *number),
    }
}

/// The body of the answer: `rules`, a list of maps with `rule-description`; no more than fit into `bytes_max`, but
/// one at least. Whoever asks again skips those.
pub(super) fn answer(rules: &[StoredRule], bytes_max: u64) -> BytesMut {
    let mut items = BytesMut::new();
    let mut count = 0;
    for rule in rules {
        let before = items.len();
        types::write_map(&mut items, 2, |out| {
            types::write_str(out, "rule-description");
            write_rule(out, rule);
        });
        if items.len() as u64 > bytes_max && count > 0 {
            items.truncate(before);
            break;
        }
        count += 1;
    }
    one_entry("rules", 0, |out| types::write_list(out, count, |out| out.extend_from_slice(&items)))
}

fn write_rule(out: &mut BytesMut, stored: &StoredRule) {
    described(out, descriptor::RULE, 4, |out| {
        write_filter(out, &stored.rule.filter);
        match &stored.rule.action {
            None => described(out, descriptor::EMPTY_ACTION, 0, |_| {}),
            Some(action) => write_sql(out, descriptor::SQL_ACTION, action.text()),
        }
        types::write_str(out, &stored.rule.name);
        types::write_timestamp(out, i64::try_from(stored.created_at.as_millis()).unwrap_or(i64::MAX));
    });
}

fn write_filter(out: &mut BytesMut, filter: &Filter) {
    match filter {
        Filter::True => described(out, descriptor::TRUE_FILTER, 0, |_| {}),
        Filter::False => described(out, descriptor::FALSE_FILTER, 0, |_| {}),
        Filter::Sql(sql) => write_sql(out, descriptor::SQL_FILTER, sql.text()),
        Filter::Correlation(correlation) => {
            described(out, descriptor::CORRELATION_FILTER, 9, |out| write_correlation(out, correlation));
        }
    }
}

fn write_sql(out: &mut BytesMut, descriptor: u64, text: &str) {
    described(out, descriptor, 2, |out| {
        types::write_str(out, text);
        types::write_int(out, COMPATIBILITY_LEVEL);
    });
}

fn write_correlation(out: &mut BytesMut, filter: &CorrelationFilter) {
    for (_, property) in CORRELATION_FIELDS {
        let wanted = Property::System(property);
        let value = filter.conditions().find(|(property, _)| **property == wanted).map(|(_, value)| value);
        write_value(out, value.unwrap_or(&Value::Null));
    }
    let users = || {
        filter.conditions().filter_map(|(property, value)| match property {
            Property::User(name) => Some((name, value)),
            Property::System(_) => None,
        })
    };
    types::write_map(out, users().count() * 2, |out| {
        for (name, value) in users() {
            types::write_str(out, name);
            write_as_given(out, value, filter.written(name));
        }
    });
}

/// A described list.
fn described(out: &mut BytesMut, descriptor: u64, count: usize, items: impl FnOnce(&mut BytesMut)) {
    types::write_descriptor(out, descriptor);
    types::write_list(out, count, items);
}

#[cfg(test)]
mod tests;
